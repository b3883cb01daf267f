"""How device loops are unrolled: the copies of their bodies, and what guards and counts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from qgraph.ir.slots import Slot
from qgraph.operations.intrinsics import LINE_WORDS, SPREAD
from qgraph.records import dataclass

# By node in which names of arrays change places: each name, and the leaves that it stands for in copy 0, 1, ..., and so on.
ArraysOfCopies = tuple[tuple[int, tuple[tuple[str, tuple[str, ...]], ...]], ...]


@dataclass(frozen=True, slots=True)
class CountedUnroll:
    """The copies of a body that runs a known number of times: all but one kernel of it, which counts once a turn behind them.

    Copy ``u`` exits if ``remaining <= u``: a loop that does not run long has ``few``. On
    large grids it takes a while to look at that, and to do nothing. There the loop is two while nodes: turns of ``whole``
    copies that look at nothing, as long as more iterations than that are left, and then turns of ``few`` copies that do.

    Attributes:
        node: the node that counts. It also lets names of arrays change places.
        left: the word of scratch with the number of iterations that are left when a turn begins.
        copies: how many on small grids, where the loop runs long; after so many iterations each name stands for the array that
            it stood for before.
        carried: edges (from, to) of the other nodes, each from a node in one copy to a node in the next one.
        arrays: what names stand for.
        period: how many copies that takes; 1 where none changes places. The plain graph has so many.
        whole: how many copies a turn has on large grids, where none of them has nothing to do.
        few: how many it has there for the iterations that are left then, 1 to ``whole``, and anywhere if there are few.
        told: nodes that tell the progress of some iterations, and do nothing else: the number by which each calls the first
            iteration, and of which numbers it tells the multiples. Copies in which none is due do not have it.
    """

    node: int
    left: int
    copies: int
    carried: tuple[tuple[int, int], ...]
    arrays: ArraysOfCopies
    period: int
    whole: int
    few: int
    told: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class HandedOn:
    """Reductions that the next kernel finishes: how the copies of a loop run whose kernels come one after the other.

    Each block of a kernel leaves its partial result, and each block of the next kernel combines all of them itself, in one
    order, and evaluates the one-thread statements behind the reduction: its epilogue. The scalars that those write go from one
    place to another, by turns, so that no block reads what another one stores; partial results have two places, for copies of
    even and of odd number. The copy from which on none runs is noted in a word that all kernels look at, since those that have
    nothing to do leave nothing. A kernel of one block behind all copies puts the scalars where other kernels look for them, as
    they are behind the last copy that ran, and decides whether there is another turn, for which nothing is left of this one.

    Attributes:
        nodes: the kernels of the body, in order.
        reduces: whether each has an epilogue.
        deciding: the place in the body of the kernel whose epilogue has the condition.
        scalars: what epilogues write, but for the condition.
        partials: the partial results.
        arrays: what names stand for.
    """

    nodes: tuple[int, ...]
    reduces: tuple[bool, ...]
    deciding: int
    scalars: tuple[Slot, ...]
    partials: tuple[Slot, ...]
    arrays: ArraysOfCopies

    @property
    def wraps(self) -> bool:
        """Whether the last kernel has an epilogue, which the first one of the next copy evaluates, or the one behind them."""
        return self.reduces[-1]

    @property
    def epilogues(self) -> int:
        """How many a copy has."""
        return sum(self.reduces)

    def evaluated(self, place: int) -> int:
        """How many epilogues of copy 0 were evaluated before kernel ``place`` begins; -1 for one of a copy before it."""
        return -int(self.wraps) if place == 0 else sum(self.reduces[: place - 1])

    def before(self, place: int) -> int | None:
        """The place of the kernel whose epilogue kernel ``place`` evaluates, if it does, in its own copy or the one before."""
        found = place - 1 if place else len(self.nodes) - 1
        return found if self.reduces[found] else None

    @property
    def place_words(self) -> int:
        """Words of a place for scalars: two each, enough for any, and no two places in one half of a cache line."""
        words, half = 2 * len(self.scalars), LINE_WORDS // 2
        return words + -words % half

    @property
    def words(self) -> int:
        """Words of scratch: two for what ended, of which one is used, two places for scalars, one for partial results."""
        return 2 + 2 * self.place_words + sum(each.words + each.words % 2 for each in self.partials)


# The graphs that a plan with unrolled loops may run as: "many" and "few" copies, and those of "large" grids, differ in counted
# loops alone. "whole" is no graph of its own: it stands for the copies without guards that "large" has beside the others.
Form = Literal["plain", "many", "few", "large", "whole"]
UNROLLED: tuple[Form, ...] = ("many", "few", "large")
# In this order their copies have numbers.
_FORMS: tuple[Form, ...] = ("many", "whole", "large", "few", "plain")
# What a turn takes beside its kernels, which are small, in kernels: without copies and with them. Fitted to an H200: turns of
# 1, 3 and 10 kernels took 4.8, 5.8 and 10.1 us, and with eight copies 11.4, 21.0 and 57.3 us, nearly as long if some of these
# had nothing to do.
_TURN, _TURN_OF_COPIES = 6, 10


@dataclass(frozen=True, slots=True)
class Unrolling:
    """How a loop is unrolled: a turn of the conditional node, or of the host in its place, runs several copies of its body.

    Each kernel of copy ``u`` returns at once where the word of scratch ``guards + u`` is 0. The one with the loop's condition
    sets the word behind it. The first stays 1 where a conditional node decides, and else is set by what ran before. The kernel
    with the condition also counts the iterations in the word ``turns``, and tells the host how many there were when the loop
    ends, in the word ``number`` of those that the host reads, unless it told that last time.

    The ``followers`` look at their guard before they wait for earlier kernels. They start when the ``leaders`` of their copy
    let them, and these do that when they have waited for what wrote it.

    In the graph of a loop that is ``counted`` its copies take the place of these. What guards them changes between turns alone.

    Attributes:
        node: the conditional node.
        copies: how many.
        carried: edges (from, to) of the body, each from a node in one copy to a node in the next one.
        leaders: nodes of the body that wait for no other in their copy, and that others wait for.
        followers: nodes of the body that wait for another one in their copy.
        turns: a word of scratch; its lower half counts, and is 0 between entries, its upper half is what was told last.
        guards: the first of ``copies + 1`` words of scratch.
        number: the place among the plan's unrolled loops.
        arrays: what names stand for, where each copy has its arrays as parameters.
        counted: how the loop counts, None where its condition depends on what it computes.
        spread: of a counted loop the first of ``SPREAD`` words, ``LINE_WORDS`` apart, with the number of iterations left.
        kernels: how many a copy of the body has.
        handed: how reductions are finished by the next kernel, where they are.
        shared: the first of the words of scratch for that, of even number.
    """

    node: int
    copies: int
    carried: tuple[tuple[int, int], ...]
    leaders: frozenset[int]
    followers: frozenset[int]
    turns: int
    guards: int
    number: int
    arrays: ArraysOfCopies = ()
    counted: CountedUnroll | None = None
    spread: int = 0
    kernels: int = 0
    handed: HandedOn | None = None
    shared: int = 0

    @property
    def first_counted(self) -> int:
        """The number of copy 0 of a counted loop."""
        return 2 * self.copies

    def counted_numbers(self, form: Form) -> range:
        """The numbers of the copies of a counted loop in one of its graphs."""
        assert self.counted is not None
        each = self.counted
        counts: dict[Form, int] = {
            "many": each.copies,
            "whole": each.whole,
            "large": each.few,
            "few": each.few,
            "plain": each.period,
        }
        first = self.first_counted + sum(counts[each] for each in _FORMS[: _FORMS.index(form)])
        return range(first, first + counts[form])

    def copies_of(self, index: int, form: Form) -> Sequence[int]:
        """The numbers of the copies of node ``index`` of a counted loop in one of its graphs."""
        assert self.counted is not None
        numbers = self.counted_numbers(form)
        if index == self.counted.node:
            return numbers[:1]
        for node, first, every in self.counted.told:
            if node == index:
                # A turn begins when others have ended, of so many copies each.
                before = (self.counted.whole, self.counted.few) if form == "large" else (len(numbers),)
                return [number for number in numbers if (first + number - numbers.start) % math.gcd(every, *before) == 0]
        return numbers

    @property
    def end(self) -> int:
        """The first word of scratch behind its own."""
        if self.handed is not None:
            return self.shared + self.handed.words
        return self.guards + self.copies + 1 if self.counted is None else self.spread + SPREAD * LINE_WORDS

    @property
    def numbers(self) -> range:
        """The numbers of all copies."""
        return range(self.first_counted if self.counted is None else self.counted_numbers("plain").stop)

    def scalars_at(self, evaluated: str) -> str:
        """Code of where the scalars of a loop that hands on are behind so many epilogues of a turn, of which there is one."""
        assert self.handed is not None
        return f"{self.shared + 2} + ({evaluated} & 1) * {self.handed.place_words}"

    def partials_at(self, slot: Slot) -> int:
        """The word of the second place of partial results."""
        assert self.handed is not None
        before = self.handed.partials[: self.handed.partials.index(slot)]
        return self.shared + 2 + 2 * self.handed.place_words + sum(each.words + each.words % 2 for each in before)

    def turn(self, form: Form) -> tuple[int, int]:
        """The iterations of a turn in that graph, and about how long one takes on small grids, in kernels."""
        plain = 1 if form == "plain" else self.copies
        copies = plain if self.counted is None else len(self.counted_numbers(form))
        return copies, (_TURN if form == "plain" else _TURN_OF_COPIES) + copies * self.kernels

    @property
    def long(self) -> int:
        """From how many iterations on copies are faster on large grids, where it takes longer to have nothing to do."""
        return self.copies if self.counted is None else 4 * self.counted.few

    def form(self, number: int) -> Form | None:
        """Which copies of a counted loop ``number`` is one of; None for copies that a host launches, and of other loops."""
        return next((each for each in _FORMS if self.counted is not None and number in self.counted_numbers(each)), None)

    def place(self, number: int) -> int:
        """How many copies are before copy ``number`` in a turn, where the loop is counted once a turn, or hands on; else 0."""
        if self.handed is not None:
            return number
        form = self.form(number)
        return 0 if form is None else number - self.counted_numbers(form).start

    def words(self, number: int) -> tuple[int, int]:
        """The word that guards copy ``number``, and the one that its condition sets.

        A host launches copies 0 to ``copies - 1`` and ``copies`` to ``2 * copies - 1`` by turns. Each half guards the first
        copy of the other, by a word that none of its own kernels looks at: some may start after its last condition.

        Of copies of a counted loop, which come after these: the first of the ``spread`` words, or 0 where there surely is an
        iteration left; and how many copies there are, in the upper half of the other, whose lower half is 1 for turns of which
        others follow in any case.
        """
        form = self.form(number)
        if form is not None:
            sure = form == "whole" or self.place(number) == 0
            return 0 if sure else self.spread, len(self.counted_numbers(form)) << 32 | (form == "whole")
        half, place = divmod(number, self.copies)
        last = place == self.copies - 1
        guard = self.guards + (half * self.copies if place == 0 else place)
        return guard, self.guards + ((1 - half) * self.copies if last else place + 1)
