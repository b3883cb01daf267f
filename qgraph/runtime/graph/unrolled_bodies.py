"""Copies of the bodies of unrolled loops, and the graphs that hold them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from qgraph.ir.plan import GraphPlan
from qgraph.ir.unrolling import Unrolling
from qgraph.records import dataclass
from qgraph.runtime.graph.graph_builder import GraphInstance, add_node, connect
from qgraph.runtime.graph.kernels import KernelNode
from qgraph.runtime.graph.launch_shapes import Shape
from qgraph.runtime.graph.node_updates import NodeUpdates

# Each kernel, copies once, with those that wait for it inside.
Followed = Sequence[tuple[KernelNode, Sequence[KernelNode]]]


def add_copies(
    graph: Any, plan: GraphPlan, unrolling: Unrolling, copies: Mapping[int, Sequence[KernelNode]], *, waits_inside: bool
) -> None:
    """Add all copies of the body of a loop to ``graph`` (a CUgraph), each after the one before it, with the edges between."""
    nodes = body_of(plan, unrolling)
    handles = {(index, place): add_node(graph, copies[index][place]) for place in range(unrolling.copies) for index in nodes}
    inside = [edge for edge in plan.edges if edge[0] in nodes]
    pairs = [(handles[before, place], handles[after, place]) for place in range(unrolling.copies) for before, after in inside]
    pairs += [
        (handles[before, place], handles[after, place + 1])
        for place in range(unrolling.copies - 1)
        for before, after in unrolling.carried
    ]
    connect(graph, pairs, programmatic=waits_inside)


def add_counted_copies(
    graph: Any, plan: GraphPlan, unrolling: Unrolling, copies: Mapping[int, Sequence[KernelNode]], *, waits_inside: bool
) -> None:
    """The same for a loop that is counted once a turn, behind all of these copies of the rest of its body."""
    assert unrolling.counted is not None
    nodes = body_of(plan, unrolling)
    kernels = {(index, kernel.copy or 0): kernel for index in nodes for kernel in copies[index]}
    handles = {place: add_node(graph, kernel) for place, kernel in kernels.items()}
    pairs = counted_edges(plan, unrolling, list(kernels))
    connect(graph, [(handles[before], handles[after]) for before, after in pairs], programmatic=waits_inside)


# A node of the plan, and the number of its copy.
Place = tuple[int, int]


def counted_edges(plan: GraphPlan, unrolling: Unrolling, kept: Sequence[Place]) -> list[tuple[Place, Place]]:
    """The edges between copies of the body of a counted loop: of those that are ``kept``, which need not be all of a node."""
    counted = unrolling.counted
    assert counted is not None
    nodes = [index for index in body_of(plan, unrolling) if index != counted.node]
    (counting,) = (place for place in kept if place[0] == counted.node)
    numbers = sorted({number for index, number in kept if index != counted.node})
    inside = [edge for edge in plan.edges if edge[0] in nodes and edge[1] in nodes]
    pairs = [((before, number), (after, number)) for number in numbers for before, after in inside]
    pairs += [((before, number), (after, number + 1)) for number in numbers[:-1] for before, after in counted.carried]
    # Each node is in an order with its next copy, so the last ones are behind all others.
    followed = {before for before, _ in inside}
    pairs += [((index, numbers[-1]), counting) for index in nodes if index not in followed]
    for left_out in {(index, number) for index in nodes for number in numbers}.difference(kept):
        pairs = around(pairs, left_out)
    return pairs


def around(pairs: Iterable[tuple[Any, Any]], node: Any) -> list[tuple[Any, Any]]:
    """The edges without ``node``: what came before it comes before what came behind it."""
    pairs = list(pairs)
    before, after = ([pair[end] for pair in pairs if pair[1 - end] == node] for end in (0, 1))
    kept = [pair for pair in pairs if node not in pair]
    return list(dict.fromkeys([*kept, *itertools.product(before, after)]))


def around_told(unrolling: Unrolling, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Who waits for whom in copies without the nodes that tell the progress, besides ``edges``."""
    told = () if unrolling.counted is None else unrolling.counted.told
    return [
        (before, after)
        for node, _, _ in told
        for before, behind in edges
        for ahead, after in edges
        if behind == node == ahead and node not in (before, after)
    ]


def add_handed_copies(
    graph: Any,
    unrolling: Unrolling,
    copies: Mapping[int, Sequence[KernelNode]],
    ending: KernelNode,
    *,
    waits_inside: bool,
) -> None:
    """The same for a loop that hands results on: each kernel behind the one before it, and one of one block behind them all."""
    assert unrolling.handed is not None
    row = [copies[index][place] for place in range(unrolling.copies) for index in unrolling.handed.nodes]
    handles = [add_node(graph, kernel) for kernel in (*row, ending)]
    connect(graph, list(itertools.pairwise(handles)), programmatic=waits_inside)


def body_of(plan: GraphPlan, unrolling: Unrolling) -> tuple[int, ...]:
    """The nodes of the body of a loop that is unrolled."""
    (body,) = plan.nodes[unrolling.node].bodies
    return plan.regions[body].nodes


def one_block(shape: Shape) -> Shape:
    """The shape of the kernel behind all copies: as many threads combine in all kernels, so that they do it alike."""
    return Shape(1, shape.threads * shape.threads_down)


def followed_in(first: Mapping[int, KernelNode], edges: Iterable[tuple[int, int]]) -> Followed:
    """Who waits inside for the kernels in ``first``, over ``edges`` between them."""
    edges = list(edges)
    return [(kernel, [first[after] for before, after in edges if before == index]) for index, kernel in first.items()]


@dataclass(slots=True, eq=False)
class VariantGraph:
    """A graph of the executable beside others; ``stale`` is the mask of kernels whose parameters it does not have yet."""

    instance: GraphInstance
    kernels: Sequence[KernelNode]
    followed: Followed = ()
    stale: int = 0
    _patches: NodeUpdates = field(init=False)

    def __post_init__(self) -> None:
        self._patches = NodeUpdates(self.kernels)

    def bring_up_to_date(self) -> None:
        """Patch what is stale."""
        if self.stale:
            self._patches.patch(self.instance.executable, self.stale)
            # Only now: what an exception kept from the graph is patched by the next launch.
            self.stale = 0

    def take_shapes(self, plain: Mapping[int, KernelNode]) -> None:
        """Let each kernel have the launch shape of that of the same node."""
        for kernel in self.kernels:
            shape = plain[kernel.index].shape
            if kernel.code.handed == "end":
                shape = one_block(shape)
            if kernel.shape != shape:
                kernel.take_shape(shape)
