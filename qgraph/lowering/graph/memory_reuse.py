"""Which temporaries lie in the same memory, one after the other: those that are never needed at the same time.

A temporary is live from the first statement that touches it to the last; one that each turn of a loop makes anew is live in the
body alone. In a graph two share only where all of the one's statements come before all of the other's anyway, so that loops
which could run beside each other still can: two of nbody's matrices in one memory cost it half as much time again on an H200.
From then on they are one place, and whatever orders statements keeps them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.program import Branch, Loop, Program, Statement, Temporary, effects_of, parts_of
from qgraph.lowering.graph.dependencies import edges_of, places_of


def share_memory(program: Program, *, in_order: bool) -> Program:
    """``program``, of whose temporaries some have the memory of others (``Temporary.memory``).

    ``in_order``: its statements run one behind the other, whatever they touch.
    """
    changing = {leaf for task in program.tasks() for each in task.selections for leaf in each.leaves}
    own = {each.leaf.name: each for each in program.temporaries if not each.in_graph and each.leaf.name not in changing}
    if len(own) < 2:
        return program
    uses = Counter(name for part in parts_of(program.body) for name in part.effects.touched & own.keys())
    buffers = _Reuse(program, own, uses, in_order=in_order).buffers(program.body, 0)
    first = {each.leaf.name: buffer.members[0].leaf.name for buffer in buffers for each in buffer.members[1:]}
    return replace(
        program, temporaries=tuple(replace(each, memory=first.get(each.leaf.name, "")) for each in program.temporaries)
    )


@dataclass(slots=True)
class _Buffer:
    """Temporaries in one piece of memory, and the statements of a block that touch it."""

    members: list[Temporary]
    touches: set[int]

    def likeness(self, other: _Buffer) -> int:
        """2 where some are of one shape and dtype, 1 where they have as many dimensions: how much memory nobody knows yet."""
        mine, others = ({(*each.shape, _dtype_of(each)) for each in buffer.members} for buffer in (self, other))
        dimensions = ({len(each.shape) for each in buffer.members} for buffer in (self, other))
        return 2 if mine & others else int(set.intersection(*dimensions) != set())


def _dtype_of(temporary: Temporary) -> str:
    """The dtype of its elements."""
    assert isinstance(temporary.leaf.type, ArrayType)
    return temporary.leaf.type.dtype


class _Reuse:
    def __init__(self, program: Program, own: dict[str, Temporary], uses: Counter[str], *, in_order: bool) -> None:
        self._places = places_of(program)
        self._own = own
        self._in_order = in_order
        # How many tasks touch each.
        self._uses = uses

    def buffers(self, block: Sequence[Statement], depth: int) -> list[_Buffer]:
        """Those of the temporaries that ``block`` alone touches, and has anew each time that it runs."""
        inside = [_Buffer(each.members, {at}) for at, statement in enumerate(block) for each in self._in(statement, depth)]
        known = {each.leaf.name for buffer in inside for each in buffer.members}
        touched = [effects_of(statement).touched & self._own.keys() for statement in block]
        counts = Counter(name for part in parts_of(tuple(block)) for name in part.effects.touched & self._own.keys())
        for name, count in counts.items():
            if count == self._uses[name] and name not in known and self._own[name].depth >= depth:
                inside.append(_Buffer([self._own[name]], {at for at, names in enumerate(touched) if name in names}))
        before = self._before(block)
        found: list[_Buffer] = []
        for buffer in sorted(inside, key=lambda each: (min(each.touches), max(each.touches))):
            free = [each for each in found if self._is_free(each, buffer, before)]
            if not free:
                found.append(buffer)
                continue
            # The most alike of them, and of those the one that was needed last.
            other = max(free, key=lambda each: (each.likeness(buffer), max(each.touches)))
            other.members += buffer.members
            other.touches |= buffer.touches
        return found

    def _is_free(self, held: _Buffer, wanted: _Buffer, before: Sequence[int]) -> bool:
        """Whether the memory of one is needed no more where the other begins."""
        if self._in_order:
            return max(held.touches) < min(wanted.touches)
        return all(before[late] >> early & 1 for late in wanted.touches for early in held.touches)

    def _in(self, statement: Statement, depth: int) -> Iterator[_Buffer]:
        match statement:
            case Loop():
                yield from self.buffers(statement.body, depth + 1)
            case Branch():
                # One of the regions runs: what is in one of them may be where something of each other one is.
                regions = (self.buffers(region, depth) for region in statement.regions)
                for together in zip_longest(*regions):
                    yield _Buffer([each for buffer in together if buffer is not None for each in buffer.members], set())

    def _before(self, block: Sequence[Statement]) -> list[int]:
        """For each statement those that come before it in any order of the block, as bits."""
        ancestors = [0] * len(block)
        for early, late in sorted(edges_of([(at, effects_of(each)) for at, each in enumerate(block)], self._places), key=_late):
            ancestors[late] |= ancestors[early] | 1 << early
        return ancestors


def _late(edge: tuple[int, int]) -> int:
    return edge[1]
