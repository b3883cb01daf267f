"""Contraction: nodes of a plan become one node, which has the edges of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from qgraph.ir.plan import GraphPlan, Node
from qgraph.lowering.graph.dependencies import reduced


def contracted(plan: GraphPlan, nodes: Iterable[Node], homes: Mapping[int, int]) -> GraphPlan:
    """The plan of ``nodes``, numbered anew in this order; by ``homes`` each node of ``plan`` has become one of them."""
    kept = list(nodes)
    numbers = {node.index: number for number, node in enumerate(kept)}
    return replace(
        plan,
        nodes=tuple(replace(node, index=number) for number, node in enumerate(kept)),
        edges=reduced({(numbers[homes[before]], numbers[homes[after]]) for before, after in plan.edges}),
        regions=tuple(
            replace(
                region,
                parent=None if region.parent is None else numbers[region.parent],
                nodes=tuple(sorted(numbers[index] for index in region.nodes if index in numbers)),
            )
            for region in plan.regions
        ),
    )
