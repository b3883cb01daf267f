"""Which memory nodes of a recorded graph read and write, where that is known: ranges of addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any

from qgraph.ir.plan import GraphPlan
from qgraph.ir.program import HOST, Effects
from qgraph.nodes.kind import kind_of
from qgraph.records import dataclass
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.prepared_call import Call


@dataclass(frozen=True, slots=True)
class Touched:
    """What is read and written: ranges of addresses, in order and apart. Memory of the graph's own is left out."""

    reads: tuple[range, ...] = ()
    writes: tuple[range, ...] = ()

    def __or__(self, other: Touched) -> Touched:
        return Touched(_joined((*self.reads, *other.reads)), _joined((*self.writes, *other.writes)))

    def __str__(self) -> str:
        words = ((word, found) for word, found in (("reads", self.reads), ("writes", self.writes)) if found)
        return "; ".join(f"{word} {', '.join(f'{each.start:#x}+{len(each)}' for each in found)}" for word, found in words)


def together(parts: Iterable[Touched | None]) -> Touched | None:
    """What all of them touch; None where that is not known of one."""
    known = [*parts]
    found = [each for each in known if each is not None]
    return reduce(or_, found, Touched()) if len(found) == len(known) else None


def _joined(ranges: Iterable[range]) -> tuple[range, ...]:
    found: list[range] = []
    for each in sorted((each for each in ranges if each), key=lambda each: each.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(each)
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class KnownNodes:
    """What nodes touch that qgraph added to a graph, by their handles."""

    touched: Mapping[int, Touched]


def known_nodes(kept: Iterable[Any]) -> dict[int, Touched]:
    """What is known of nodes by those that added them."""
    return {handle: touched for each in kept if isinstance(each, KnownNodes) for handle, touched in each.touched.items()}


def touched_by(plan: GraphPlan, call: Call) -> dict[int, Touched]:
    """By node of the plan, bodies included, the arguments that it touches in ``call``; left out is what may touch anything."""
    pairs = zip(plan.program.leaves, call.values, strict=True)
    spans = {leaf.name: range(*value.span()) for leaf, value in pairs if isinstance(value, ArrayView)}
    found = {}
    for node in plan.nodes:
        effects = _effects(plan, node.index)
        if HOST not in effects.touched:
            reads, writes = ([spans[name] for name in names if name in spans] for names in (effects.reads, effects.writes))
            found[node.index] = Touched(tuple(reads), tuple(writes)) | Touched()
    return found


def _effects(plan: GraphPlan, index: int) -> Effects:
    node = plan.nodes[index]
    inside = (_effects(plan, each) for body in node.bodies for each in plan.regions[body].nodes)
    own = Effects() if node.what is None or node.task is not None else kind_of(node.what).touched
    return reduce(or_, (*(task.effects for task in node.tasks), *inside), own)
