"""Which temporaries lie in the same memory, one after the other: those that are never needed at the same time.

A temporary is live from the first statement that touches it to the last; one that each turn of a loop makes anew is live in the
body alone. In a graph two share only where all of the one's statements come before all of the other's anyway, so that loops
which could run beside each other still can: two of nbody's matrices in one memory cost it half as much time again on an H200.
From then on they are one place, and whatever orders statements keeps them apart.

Two that meet in one loop share where it works in place (``in_place.py``). An array for the caller is live to the end; before
that it is memory for temporaries of its shape and dtype, but not in a graph, which would have other addresses in each launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.program import Branch, Loop, Program, Statement, TaskStatement, Temporary, effects_of, parts_of
from qgraph.ir.rewrite import with_tasks
from qgraph.lowering.graph.dependencies import edges_of, places_of
from qgraph.lowering.graph.in_place import element_filled, in_place
from qgraph.records import dataclass


def share_memory(program: Program, *, in_order: bool) -> Program:
    """``program``, of whose temporaries some have the memory of others (``Temporary.memory``).

    ``in_order``: its statements run one behind the other, whatever they touch.
    """
    changing = {leaf for task in program.tasks() for each in task.selections for leaf in each.leaves}
    own = {each.leaf.name: each for each in program.temporaries if not each.in_graph and each.leaf.name not in changing}
    returned = [each for each in program.returned if in_order and each.leaf.name not in changing]
    if not own or len(own) + len(returned) < 2:
        return program
    uses = Counter(name for part in parts_of(program.body) for name in part.effects.touched & own.keys())
    buffers = _Reuse(program, own, uses, in_order=in_order).buffers(program.body, 0, returned)
    first = {each.leaf.name: buffer.members[0].leaf.name for buffer in buffers for each in buffer.members[1:]}
    shared = replace(
        program, temporaries=tuple(replace(each, memory=first.get(each.leaf.name, "")) for each in program.temporaries)
    )
    paths = {each.leaf.name: each.leaf.path for each in program.temporaries}
    return with_tasks(shared, lambda task: in_place(task, first, paths))


@dataclass(frozen=True, slots=True)
class _Life:
    """An array, or some that share memory within one statement, and the statements of a block that touch it."""

    arrays: Sequence[Temporary]
    touches: frozenset[int]


@dataclass(slots=True)
class _Buffer:
    """Arrays in one piece of memory, none of them at the same time as another one."""

    lives: list[_Life]

    @property
    def members(self) -> list[Temporary]:
        """The arrays; first the caller's, where there is one."""
        return [each for life in self.lives for each in life.arrays]

    @property
    def forms(self) -> set[tuple[str, ...]]:
        """Their shapes and dtypes."""
        return set(map(_form, self.members))

    def likeness(self, other: _Buffer) -> int:
        """2 where some are of one shape and dtype, 1 where they have as many dimensions: how much memory nobody knows yet."""
        mine, others = ({len(form) for form in buffer.forms} for buffer in (self, other))
        return 2 if self.forms & other.forms else int(mine & others != set())


def _form(array: Temporary) -> tuple[str, ...]:
    """Its shape, and the dtype of its elements."""
    assert isinstance(array.leaf.type, ArrayType)
    return (*array.shape, array.leaf.type.dtype)


class _Reuse:
    def __init__(self, program: Program, own: dict[str, Temporary], uses: Counter[str], *, in_order: bool) -> None:
        self._places = places_of(program)
        self._own = own
        self._in_order = in_order
        # How many tasks touch each.
        self._uses = uses

    def buffers(self, block: Sequence[Statement], depth: int, returned: Sequence[Temporary] = ()) -> list[_Buffer]:
        """Those of ``returned``, and of the temporaries that ``block`` alone touches, and has anew each time that it runs."""
        inside = [
            _Life(each.members, frozenset({at})) for at, statement in enumerate(block) for each in self._in(statement, depth)
        ]
        known = {each.leaf.name for life in inside for each in life.arrays}
        touched = [effects_of(statement).touched for statement in block]
        counts = Counter(name for part in parts_of(tuple(block)) for name in part.effects.touched & self._own.keys())

        def life(array: Temporary, *more: int) -> _Life:
            return _Life([array], frozenset(at for at, names in enumerate(touched) if array.leaf.name in names).union(more))

        for name, count in counts.items():
            if count == self._uses[name] and name not in known and self._own[name].depth >= depth:
                inside.append(life(self._own[name]))
        before = self._before(block)
        # Behind the block the caller has them.
        found = [_Buffer([life(each, len(block))]) for each in returned]
        for wanted in map(_Buffer, sorted(([life] for life in inside), key=lambda each: _ends(each[0]))):
            free = [each for each in found if self._is_free(each, wanted, block, before)]
            if not free:
                found.append(wanted)
                continue
            # The most alike of them, and of those the one that was needed last.
            other = max(free, key=lambda each: (each.likeness(wanted), max(_ends(life)[1] for life in each.lives)))
            other.lives += wanted.lives
        return found

    def _is_free(self, held: _Buffer, wanted: _Buffer, block: Sequence[Statement], before: Sequence[int]) -> bool:
        """Whether nothing needs the memory of one while something needs that of the other."""
        (life,) = wanted.lives
        if len(block) in held.lives[0].touches and held.forms != wanted.forms:
            # The memory is as large as the caller's array.
            return False
        return all(
            self._makes_way(each, life, block, before) or self._makes_way(life, each, block, before) for each in held.lives
        )

    def _makes_way(self, early: _Life, late: _Life, block: Sequence[Statement], before: Sequence[int]) -> bool:
        """Whether one is needed no more where the other begins, but for a loop that works in place."""
        both = early.touches & late.touches
        if both and not _is_filled_from(block[min(both)], early, late):
            return False
        if self._in_order:
            return max(early.touches) <= min(late.touches)
        return all(last == first or before[first] >> last & 1 for first in late.touches for last in early.touches)

    def _in(self, statement: Statement, depth: int) -> Iterator[_Buffer]:
        match statement:
            case Loop():
                yield from self.buffers(statement.body, depth + 1)
            case Branch():
                # One of the regions runs: what is in one of them may be where something of each other one is.
                regions = (self.buffers(region, depth) for region in statement.regions)
                for together in zip_longest(*regions):
                    members = [each for buffer in together if buffer is not None for each in buffer.members]
                    yield _Buffer([_Life(members, frozenset())])

    def _before(self, block: Sequence[Statement]) -> list[int]:
        """For each statement those that come before it in any order of the block, as bits."""
        ancestors = [0] * len(block)
        for early, late in sorted(edges_of([(at, effects_of(each)) for at, each in enumerate(block)], self._places), key=_late):
            ancestors[late] |= ancestors[early] | 1 << early
        return ancestors


def _late(edge: tuple[int, int]) -> int:
    return edge[1]


def _ends(life: _Life) -> tuple[int, int]:
    return min(life.touches), max(life.touches)


def _is_filled_from(statement: Statement, early: _Life, late: _Life) -> bool:
    """Whether each iteration of a loop has read its element of the one array before it fills the same element of the other."""
    if not isinstance(statement, TaskStatement):
        return False
    touched = statement.task.effects.touched
    old, new = ([each for each in life.arrays if each.leaf.name in touched] for life in (early, late))
    target, read = element_filled(statement.task)
    fits = all(each.leaf.name in read and _form(each) == _form(new[0]) for each in old)
    return fits and [each.leaf.name for each in new] == [target]
