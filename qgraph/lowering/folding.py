"""Statements for one thread join a kernel before them, which saves a node: the last thread of that kernel goes on with them.

So it must have one: a kernel of a single thread, or that of a loop with reductions, where the last block to finish combines.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from qgraph.plan import GraphPlan, Node, Region
from qgraph.program import Task


def fold_statements(plan: GraphPlan) -> GraphPlan:
    """The plan in which one-thread tasks stand in ``then`` of an earlier node of their region, wherever that keeps the order.

    Such a task joins a node that it waits for, if all else that it waits for comes before that one. If it waits for nothing,
    it joins the first one-thread node that does not wait either. So no loop waits for another that it did not wait for.
    A task with a loop in it stays by itself: it may take long, and others need not wait for it.
    """
    homes = {}
    for region in plan.regions:
        homes.update(_Folder(plan).homes(region))
    numbers = {old: new for new, old in enumerate(index for index in range(len(plan.nodes)) if homes[index] == index)}
    nodes = []
    for old, new in numbers.items():
        joining = (plan.nodes[index] for index in sorted(homes) if homes[index] == old and index != old)
        then = tuple(node.task for node in joining if node.task is not None)
        nodes.append(replace(plan.nodes[old], index=new, then=then))
    edges = {(numbers[homes[before]], numbers[homes[after]]) for before, after in plan.edges}
    regions = tuple(
        Region(
            region.index,
            None if region.parent is None else numbers[region.parent],
            tuple(numbers[index] for index in region.nodes if index in numbers),
        )
        for region in plan.regions
    )
    return replace(plan, nodes=tuple(nodes), edges=_reduced(edges), regions=regions)


class _Folder:
    """Finds where the nodes of one region go. Sets of nodes are bit sets of their indices."""

    def __init__(self, plan: GraphPlan) -> None:
        self._plan = plan
        self._home: dict[int, int] = {}
        # Of each node that stays, all nodes that come before it.
        self._before: dict[int, int] = {}
        # Nodes that can take no more: a conditional node looks at what their last task decided.
        self._closed: set[int] = set()

    def homes(self, region: Region) -> dict[int, int]:
        """For each node of the region, the node whose kernel runs its task: itself for one that stays."""
        waits: dict[int, set[int]] = {index: set() for index in region.nodes}
        for before, after in self._plan.edges:
            if after in waits:
                waits[after].add(before)
        for index in region.nodes:
            node = self._plan.nodes[index]
            direct = {self._home[before] for before in waits[index]}
            home = self._home_of(node, direct)
            self._home[index] = index if home is None else home
            if home is None:
                self._before[index] = 0
                for each in direct:
                    self._before[index] |= self._before[each] | 1 << each
            if node.task is not None and node.task.role in ("enter", "condition", "decide"):
                self._closed.add(self._home[index])
        return self._home

    def _home_of(self, node: Node, direct: set[int]) -> int | None:
        if node.task is None or node.task.axes or not _is_brief(node.task):
            return None
        if not direct:
            free = (each for each, before in self._before.items() if not before and self._takes(each, one_thread=True))
            return next(free, None)
        waiting = sum(1 << each for each in direct)
        last = (each for each in direct if waiting & ~(self._before[each] | 1 << each) == 0)
        return next((each for each in last if self._takes(each)), None)

    def _takes(self, index: int, *, one_thread: bool = False) -> bool:
        """Whether the kernel of a node has a last thread, and nothing must come right after it."""
        task = self._plan.nodes[index].task
        if task is None or index in self._closed:
            return False
        return not task.axes or (bool(task.reductions) and not one_thread)


def _is_brief(task: Task) -> bool:
    return not any(isinstance(node, (ast.For, ast.While)) for statement in task.body for node in ast.walk(statement))


def _reduced(edges: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The edges between different nodes that do not follow from others; each leads to a higher index."""
    waits: dict[int, list[int]] = {}
    for before, after in edges:
        if before != after:
            waits.setdefault(after, []).append(before)
    ancestors: dict[int, int] = {}
    kept = []
    for after in sorted(waits):
        found = 0
        for before in sorted(waits[after], reverse=True):
            if not found >> before & 1:
                kept.append((before, after))
                found |= ancestors.get(before, 0) | 1 << before
        ancestors[after] = found
    return tuple(sorted(kept))
