"""Horizontal fusion: independent loops share a kernel; the thread's index says which loop it runs.

Loops that combine values, those of which only the device knows the extents, and those in whose iterations are loops that
lanes may share, keep kernels of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Program, Task
from qgraph.ir.renaming import MOST_NODES, MOST_WORDS, identifiers, node_count, words_of
from qgraph.lowering.graph.contraction import contracted


def put_side_by_side(plan: GraphPlan) -> GraphPlan:
    """The plan in which loops of one region that can run at the same step of it are one kernel.

    A step is as far from the region's start as the longest way there. What has time to spare waits for a step that some loop
    has on the longest way to the end, so no way becomes longer.
    """
    groups = [group for together in _at_one_step(plan) for group in _fitting(plan.program, together)]
    return _merged(plan, [group for group in groups if len(group) > 1])


def _at_one_step(plan: GraphPlan) -> Iterator[list[Node]]:
    """The loops that may share a kernel, in program order: between nodes of one step there is no way."""
    earliest, latest = _steps(plan)
    shared = [node.task is not None and _can_share(node.task) for node in plan.nodes]
    urgent = {
        (node.region, earliest[node.index])
        for node in plan.nodes
        if shared[node.index] and earliest[node.index] == latest[node.index]
    }
    before = plan.waits
    step: list[int] = []
    found: dict[tuple[int, int], list[Node]] = {}
    for node in plan.nodes:
        first = max((step[each] + 1 for each in before.get(node.index, ())), default=0)
        step.append(first)
        if shared[node.index]:
            choice = range(first, latest[node.index] + 1)
            step[-1] = next((each for each in choice if (node.region, each) in urgent), first)
            found.setdefault((node.region, step[-1]), []).append(node)
    yield from found.values()


def _steps(plan: GraphPlan) -> tuple[list[int], list[int]]:
    """The first and the last step at which each node can run; nodes are numbered in an order that edges follow."""
    before = plan.waits
    earliest: list[int] = []
    for index in range(len(plan.nodes)):
        earliest.append(max((earliest[each] + 1 for each in before.get(index, ())), default=0))
    lengths = {region.index: max((earliest[index] for index in region.nodes), default=0) for region in plan.regions}
    latest = [lengths[node.region] for node in plan.nodes]
    for index in reversed(range(len(plan.nodes))):
        for each in before.get(index, ()):
            latest[each] = min(latest[each], latest[index] - 1)
    return earliest, latest


def _can_share(task: Task) -> bool:
    plain = not (task.reductions or task.on_device or task.inner_length)
    return task.role == "loop" and plain and task.block is None


def _fitting(program: Program, nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """``nodes`` in groups that are not too much for one kernel."""
    leaves = {leaf.name: leaf for leaf in program.arrays_and_scalars}
    group: list[Node] = []
    used: set[str] = set()
    size = 0
    for node in nodes:
        assert node.task is not None
        mine = identifiers(node.task) & leaves.keys()
        size += node_count(node.task)
        if group and (words_of(leaves[name] for name in used | mine) > MOST_WORDS or size > MOST_NODES):
            yield group
            group, used, size = [], set(), node_count(node.task)
        group.append(node)
        used |= mine
    yield group


def _merged(plan: GraphPlan, groups: Sequence[Sequence[Node]]) -> GraphPlan:
    """The plan with one node for each group, numbered anew."""
    if not groups:
        return plan
    nodes = list(plan.nodes)
    first = list(range(len(nodes)))
    for group in groups:
        nodes[group[0].index] = _beside(group)
        for node in group:
            first[node.index] = group[0].index
    order = _topological(replace(plan, edges=tuple((first[before], first[after]) for before, after in plan.edges)))
    return contracted(plan, (nodes[index] for index in order if first[index] == index), dict(enumerate(first)))


def _beside(group: Sequence[Node]) -> Node:
    first, *others = group
    beside = tuple(node.task for node in others if node.task is not None)
    # Of several fills and copies one kernel is made, too.
    return replace(first, kind="kernel", what=None, label=f"{first.label} and {len(others)} beside it", beside=beside)


def _topological(plan: GraphPlan) -> list[int]:
    """All nodes, those of a body behind their conditional node, and else as near to program order as edges allow."""
    before = plan.waits
    order: list[int] = []

    def region(index: int) -> None:
        done: set[int] = set()
        left = list(plan.regions[index].nodes)
        while left:
            chosen = next(node for node in left if done.issuperset(before.get(node, ())))
            left.remove(chosen)
            done.add(chosen)
            order.append(chosen)
            for body in plan.nodes[chosen].bodies:
                region(body)

    region(0)
    return order
