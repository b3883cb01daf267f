"""Is a loop parallel? Each pair of its accesses to one array is a dependence test, and their answers are the verdict.

*Independent*: no two iterations reach one element, whatever the sizes and data. *Dependent*: two surely do, for some values of
the parameters; calls with these are refused, the rest runs. *Undecided*: neither, and whoever calls is told.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import combinations_with_replacement

from qgraph.frontend.dependence.access_collector import collect
from qgraph.frontend.dependence.commutativity import combination, commute, order_unseen
from qgraph.frontend.facts.loop_facts import Access, Accesses, LoopFacts
from qgraph.frontend.syntax.source_text import user_text
from qgraph.ir.verdicts import Race, Verdict, refusal
from qgraph.polyhedral.dependence_test import answer_to
from qgraph.polyhedral.questions import UNDECIDED, Answer, Question, Variable
from qgraph.polyhedral.quick_tests import one_iteration_each
from qgraph.polyhedral.symbolic_integers import Poly, symbols_of, word_of
from qgraph.records import dataclass
from qgraph.source import Span, nodes_of

# Why a loop is independent that may still reduce.
NOTHING_WRITTEN = "it writes no array"


@dataclass(frozen=True, slots=True)
class Dependence:
    """Two accesses of which one writes, it first, and what the dependence test said of them."""

    write: Access
    other: Access
    answer: Answer

    @property
    def pair(self) -> tuple[Access, Access]:
        """Both, the write first."""
        return self.write, self.other


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a loop, and which updates must be atomic.

    ``atomics``: updates that two iterations may make to one element, with their operators. ``owned``: ``id`` of the statements
    of the updates whose elements each iteration provably has to itself. ``accesses``: all that the loop touches.
    ``collisions``: pairs of the author's atomics, or of one and an update, that two iterations may do to one element.
    ``races``: for which parameters calls are refused.
    """

    verdict: Verdict
    owned: frozenset[int]
    atomics: tuple[Access, ...]
    accesses: Accesses
    collisions: frozenset[frozenset[object]] = frozenset()
    races: tuple[Race, ...] = ()

    def also(self, other: Judgement) -> Judgement:
        """What holds where either of two judgements on the same loop may apply; calls are refused for what is sure."""
        weaker = self.verdict if self.verdict.kind == "assumed" or other.verdict.kind == "independent" else other.verdict
        if weaker.kind == "dependent" and weaker is other.verdict:
            # Only at some moments are the arrays the same.
            race = other.races[0]
            reason = f"arrays that change places may be the same here, and then {race.found}"
            weaker = Verdict("assumed", reason, race.span, (*race.also, ("written here", race.span)), race.hint)
        known = {id(access.node) for access in self.atomics}
        more = tuple(access for access in other.atomics if id(access.node) not in known)
        return replace(
            self,
            verdict=weaker,
            owned=self.owned & other.owned,
            atomics=self.atomics + more,
            collisions=self.collisions | other.collisions,
        )


def judge(facts: LoopFacts) -> Judgement:
    """Decide whether the iterations of a loop are independent.

    Raises:
        DataRaceError: they are proved not to be, whatever the arguments, and the author did not say ``parallel(...)``.
    """
    accesses = collect(facts)
    places = _places(accesses, facts)
    # Stores of one value may be in any order; what an author declares parallel is asked only for updates.
    dependences = [
        relate(facts, accesses.variables, first, second)
        for first, second in combinations_with_replacement(_distinct(accesses.all, facts), 2)
        if (id(first) not in places or places[id(first)] != places.get(id(second)))
        and (first.writes or second.writes)
        and facts.memory(first.array) == facts.memory(second.array)
        and not _same_value(first, second)
        and (not facts.asserted or commute(first, second))
    ]
    shared = _shared_updates(dependences)
    atomics = tuple(access for access in shared if access.kind == "update" and combination(access))
    taken = {id(access.node) for access in shared}
    owned = frozenset(id(a.node) for a in accesses.all if a.kind == "update" and id(a.node) not in taken)
    races = [dependence for dependence in dependences if not commute(*dependence.pair) and not dependence.answer.never]
    verdict, refused = _verdict(facts, accesses, races, atomics)
    return Judgement(verdict, owned, atomics, accesses, _collisions(dependences), refused)


def _distinct(accesses: Sequence[Access], facts: LoopFacts) -> list[Access]:
    """The accesses, those that read what an earlier one reads left out: long expressions do so many times."""
    found: dict[object, Access] = {}
    for at, access in enumerate(accesses):
        found.setdefault(at if access.writes else (facts.memory(access.array), access.reach), access)
    return [*found.values()]


def _places(accesses: Accesses, facts: LoopFacts) -> dict[int, int]:
    """By ``id``, of the accesses with subscripts that no two iterations share: a number for each subscript.

    Two with one number are no dependence; in long chains of branches there would be a dependence test for each two.
    """
    numbers: dict[object, int] = {}
    return {
        id(access): numbers.setdefault((facts.memory(access.array), access.reach.indices, access.reach.wraps), len(numbers))
        for access in accesses.all
        if one_iteration_each(accesses.variables, access.reach)
    }


def relate(facts: LoopFacts, axes: Sequence[Variable], first: Access, second: Access) -> Dependence:
    """What is known of two accesses to one array in two iterations; the one that writes comes first in the answer."""
    if not first.writes or (second.kind == "write" and first.kind != "write"):
        first, second = second, first
    nonzero = tuple(axis.step for axis in axes if axis.step.constant is None)
    question = Question(tuple(axes), first.reach, second.reach, facts.extents(first.array), facts.serial, nonzero)
    answer = answer_to(question)
    if answer.condition and "atomic" in (first.kind, second.kind):
        answer = UNDECIDED
    return Dependence(first, second, answer)


def _same_value(first: Access, second: Access) -> bool:
    """Whether both store one value, the same in all iterations."""
    return first.kind == second.kind == "write" and first.value != "" and first.value == second.value


def always_apart(first: Access, second: Access, touched: Accesses, facts: LoopFacts) -> bool:
    """Whether two accesses to one array never reach the same element, in whatever iterations."""
    axes = touched.variables
    one, other = (replace(access.reach, loops=(*axes, *access.reach.loops)) for access in (first, second))
    sizes = facts.extents(first.array)
    return answer_to(Question((), one, other, sizes, facts.serial)).never


@dataclass(frozen=True, slots=True)
class LoopCarriedConflict:
    """Accesses of an earlier and a later loop over one range, the element of which one iteration each may be another's."""

    earlier: Access
    later: Access
    # Proved, and not only not disproved.
    surely: bool


def crossing(
    earlier: Sequence[Access],
    later: Sequence[Access],
    touched: Accesses,
    facts: LoopFacts,
    overlapping: Set[frozenset[str]],
) -> LoopCarriedConflict | None:
    """The first accesses by which an iteration of one loop may touch what another iteration of the other writes.

    None where there are none: then each iteration of the later loop may follow at once on that of the earlier one. Updates
    that both loops make by atomics, and of which nobody sees the order, may go to any element. ``overlapping``: pairs of
    arrays that share some memory.
    """
    for second in later:
        for first in earlier:
            if not (first.writes or second.writes) or order_unseen(first, second) or _same_value(first, second):
                continue
            memories = {facts.memory(first.array), facts.memory(second.array)}
            if len(memories) == 1:
                answer = relate(facts, touched.variables, first, second).answer
                if not answer.never:
                    return LoopCarriedConflict(first, second, bool(answer.condition))
            elif any(memories == {*map(facts.memory, pair)} for pair in overlapping):
                return LoopCarriedConflict(first, second, False)
    return None


def _shared_updates(dependences: Sequence[Dependence]) -> tuple[Access, ...]:
    """Updates that may touch what another iteration updates, each statement once, in program order."""
    found: dict[int, Access] = {}
    for dependence in dependences:
        if dependence.answer.never or not all(access.kind in ("update", "atomic") for access in dependence.pair):
            continue
        for access in dependence.pair:
            if access.kind == "update":
                found.setdefault(id(access.node), access)
    return tuple(sorted(found.values(), key=lambda access: (access.span.file, access.span.line, access.span.column)))


def _collisions(dependences: Sequence[Dependence]) -> frozenset[frozenset[object]]:
    """The pairs of accesses, an atomic of the author's among them, that two iterations may do to one element."""
    return frozenset(
        frozenset((id(access.node), access.call) for access in dependence.pair)
        for dependence in dependences
        if not dependence.answer.never and any(access.kind == "atomic" for access in dependence.pair)
    )


# --- verdicts and words ------------------------------------------------------------------------------------------------


def _verdict(
    facts: LoopFacts, accesses: Accesses, dependences: Sequence[Dependence], atomics: Sequence[Access]
) -> tuple[Verdict, tuple[Race, ...]]:
    if facts.asserted:
        return Verdict("asserted", f"the author wrote `{facts.text}`", facts.span), ()
    races = _races(facts, accesses, dependences)
    doubts = [dependence for dependence in dependences if dependence.answer.doubt]
    if doubts:
        reason, span = _doubt(doubts[0])
        where = dict.fromkeys(dependence.answer.doubt for dependence in doubts)
        condition = "True" if "True" in where else " or ".join(f"({each})" for each in where)
        return Verdict("assumed", reason, span, _both(doubts[0]), _way_out(facts), condition), races
    if races:
        words = " or ".join(dict.fromkeys(race.text for race in races))
        return Verdict("dependent", f"refused where {words}", races[0].span), races
    note = "; updates that may collide are atomic" if atomics else ""
    for access in accesses.all:
        if access.writes and not any(access is atomic for atomic in atomics):
            return Verdict("independent", f"no iteration touches what another writes{note}", access.span), ()
    if atomics:
        return Verdict("independent", "it writes by atomic updates only", atomics[0].span), ()
    return Verdict("independent", NOTHING_WRITTEN, facts.span), ()


def _races(facts: LoopFacts, accesses: Accesses, dependences: Sequence[Dependence]) -> tuple[Race, ...]:
    """The conflicts that are sure for some values, each condition once; an error where it is for all."""
    # What meets itself says most: the element does not vary with the loop.
    met = sorted(
        (dependence for dependence in dependences if dependence.answer.condition), key=lambda each: each.write is not each.other
    )
    races: dict[str, Race] = {}
    for dependence in met:
        race = _race(facts, accesses, dependence)
        if race.always:
            raise refusal(race, {})
        races.setdefault(race.condition, race)
    return tuple(races.values())


def _both(dependence: Dependence) -> tuple[tuple[str, Span], ...]:
    """The accesses that may meet, as messages tell them."""
    accesses = dependence.pair[:1] if dependence.write is dependence.other else dependence.pair
    return tuple((f"`{access.text}` is {_done(access)} here", access.span) for access in accesses)


def _way_out(facts: LoopFacts) -> str:
    """What ends the doubt about a loop."""
    words = facts.text.strip()
    ways = f"say `qgraph.parallel({words})` if you know that it may, or `qgraph.serial({words})` to run the iterations in order"
    for node in (child for statement in facts.body for child in nodes_of(statement)):
        match node:
            case ast.If(
                test=ast.Compare(ops=[ast.Lt() | ast.Gt() as op]) as test, body=[ast.Assign(targets=[target], value=value)]
            ):
                sides = [ast.unparse(test.left), ast.unparse(test.comparators[0])]
                if sides == [ast.unparse(value), ast.unparse(target)]:
                    place, new = user_text(target, facts.paths), user_text(value, facts.paths)
                    function = "min" if isinstance(op, ast.Lt) else "max"
                    return f"{ways}; `{place} = {function}({place}, {new})` is atomic"
            case ast.Assign(
                targets=[ast.Subscript() as target],
                value=ast.Call(args=[ast.BinOp(left=left, op=ast.Add() | ast.Sub()), _]),
            ):
                # A row is updated by a number whose type is not known yet.
                if ast.unparse(target) == ast.unparse(left):
                    return f"{ways}; `+=` of single elements, in a loop over those of a row, is atomic"
    return ways


def _doubt(dependence: Dependence) -> tuple[str, Span]:
    """Why nothing was proved, and the line that decides it."""
    first, second = dependence.pair
    for access in dependence.pair:
        if access.region or (isinstance(access.node, ast.Call) and access.kind != "atomic"):
            return f"what `{access.text}` does to its arrays is not known", access.span
        if access.reach.indices is None or None in access.reach.indices:
            return f"the element that `{access.text}` means is known only when it runs", access.span
    for access in dependence.pair:
        if access.guarded:
            return f"`{access.text}` is {_done(access)} only under a condition", access.span
    if first is second:
        return f"two iterations may write the same element by `{first.text}`", first.span
    return f"`{first.text}` and `{second.text}` may be the same element in different iterations", first.span


def _done(access: Access) -> str:
    return {"read": "read", "write": "written"}.get(access.kind, "updated")


def _race(facts: LoopFacts, accesses: Accesses, dependence: Dependence) -> Race:
    write, other = dependence.pair
    if write is other:
        also: tuple[tuple[str, Span], ...] = (("and here, by every other iteration that has the same index", facts.span),)
        found = f"different iterations of this parallel loop write the same element `{write.text}`"
    else:
        also = ((f"and here another iteration touches the same element ({_done(other)})", other.span),)
        found = f"iterations of this parallel loop are not independent: one writes `{write.text}`, another {_uses(other)} it"
    also += tuple(("called here", call) for call in dict.fromkeys((write.call, other.call)) if call is not None)
    answer = dependence.answer
    return Race(
        found,
        write.span,
        also,
        _hint(write, accesses, facts.text.strip()),
        condition=answer.condition,
        always=answer.always,
        text=answer.text,
        conflict=answer.conflict,
        parameters=tuple((name, source, _in_words(source, facts.paths)) for name, source in answer.parameters),
        variables=tuple(word_of(axis.symbol) for axis in accesses.variables),
        array=facts.paths.get(write.array, write.array),
    )


def _in_words(source: str, paths: Mapping[str, str]) -> str:
    for name in sorted(paths, key=len, reverse=True):
        source = source.replace(name, paths[name]) if name != paths[name] else source
    return source


def _uses(access: Access) -> str:
    return {"read": "reads", "write": "writes"}.get(access.kind, "updates")


def _hint(write: Access, accesses: Accesses, words: str) -> str:
    order = f"to run the iterations in order, use `qgraph.serial({words})`"
    used = symbols_of(index for index in write.reach.indices or () if isinstance(index, Poly))
    if not all(variable.symbol in used for variable in accesses.variables):
        sums = [
            a for a in accesses.all if a.array == write.array and a.kind == "read" and a.reach.indices == write.reach.indices
        ]
        if sums and write.kind == "write" and not write.reach.loops:
            element = write.text.replace("[...]", "[()]")
            return f"{order}; to combine values of all iterations, update the element (`{element} += ...`)"
        return f"{order}: `{write.text}` does not vary with every variable of this loop"
    return f"{order}; or write to a second array; or, if you know better, say `qgraph.parallel({words})`"
