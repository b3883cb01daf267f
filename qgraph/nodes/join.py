"""Joins: where many nodes wait for the same many others, one node between them that does nothing saves most of the edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Effects
from qgraph.nodes.kind import GraphNode, NodeKind, Owner
from qgraph.records import dataclass

# A join is a node more on the way: fewer edges are not worth one.
_FEWEST_EDGES = 16


@dataclass(frozen=True, slots=True)
class Join(NodeKind):
    """Nothing: the node only has edges."""

    does_nothing = True

    @property
    def touched(self) -> Effects:
        """Nothing."""
        return Effects()

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """An empty node."""
        return EmptyNode(node, owner)


def add_joins(plan: GraphPlan) -> GraphPlan:
    """The plan in which n nodes with the same m predecessors wait for a ``join``, m + n edges instead of m * n.

    Only where m and n are at least 2, and m * n at least 16. Joins are numbered after all other nodes, and stand in their
    region before the first node that waits for them.
    """
    predecessors: dict[int, list[int]] = {}
    for earlier, later in plan.edges:
        predecessors.setdefault(later, []).append(earlier)
    waiting: dict[tuple[int, ...], list[int]] = {}
    for later, found in sorted(predecessors.items()):
        waiting.setdefault(tuple(found), []).append(later)
    for before, after in waiting.items():
        if min(len(before), len(after)) >= 2 and len(before) * len(after) >= _FEWEST_EDGES:
            plan = _joined(plan, before, tuple(after))
    return plan


def _joined(plan: GraphPlan, before: tuple[int, ...], after: tuple[int, ...]) -> GraphPlan:
    index = len(plan.nodes)
    first = plan.nodes[after[0]]
    label = f"join of {len(before)} nodes for {len(after)}"
    join = Node(index, "join", label, first.span, first.region, what=Join())
    region = plan.regions[first.region]
    place = region.nodes.index(first.index)
    nodes = (*region.nodes[:place], index, *region.nodes[place:])
    regions = tuple(replace(each, nodes=nodes) if each is region else each for each in plan.regions)
    kept = (edge for edge in plan.edges if edge[1] not in after)
    edges = (*kept, *((each, index) for each in before), *((index, each) for each in after))
    return replace(plan, nodes=(*plan.nodes, join), edges=tuple(sorted(edges)), regions=regions)


class EmptyNode(GraphNode):
    """Only has edges: a join, or what takes and frees memory where the arena has it."""

    def add(self, graph: Any) -> Any:
        """Add an empty node."""
        self.handle = self.call(self.driver.cuGraphAddEmptyNode, graph, None, 0)
        return self.handle

    def run(self, stream: int) -> None:
        """Nothing: a stream keeps its order."""
