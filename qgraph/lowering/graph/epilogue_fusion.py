"""Epilogue fusion: one-thread statements are run by the last thread of the kernel before them, which saves a node.

So it must have one: a kernel of a single thread, or that of a loop with reductions, where the last block to finish combines.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
from collections.abc import Iterator, Mapping
from dataclasses import replace

from qgraph.ir.plan import GraphPlan, Node, Region
from qgraph.ir.program import Task
from qgraph.lowering.graph.contraction import contracted
from qgraph.lowering.graph.dependencies import places_of, touched_places
from qgraph.source import nodes_of


def fold_statements(plan: GraphPlan) -> GraphPlan:
    """The plan in which one-thread tasks stand in ``then`` or ``first`` of other nodes of their region.

    Such a task joins a node that it waits for, if all else that it waits for comes before that one. If it waits for nothing,
    it joins the first one-thread node that does not wait either. What then is left before one loop with reductions, and only
    sets what those begin with, is done when they end. So no loop waits for another that it did not wait for.
    A task with a loop in it stays by itself: it may take long, and others need not wait for it.
    """
    plan = _moved(plan, {index: home for region in plan.regions for index, home in _Folder(plan).homes(region).items()})
    return _moved(plan, _beginnings(plan))


def _moved(plan: GraphPlan, homes: Mapping[int, int]) -> GraphPlan:
    """The plan in which the tasks of some nodes run in the kernels of others: before them in the program, or behind them."""
    nodes = []
    for node in plan.nodes:
        joining = [each for each in plan.nodes if each is not node and homes[each.index] == node.index]
        first, then = (
            tuple(task for each in joining if (each.index < node.index) is early for task in each.tasks)
            for early in (True, False)
        )
        if homes[node.index] == node.index:
            nodes.append(replace(node, first=(*node.first, *first), then=(*node.then, *then)))
    return contracted(plan, nodes, homes)


def _beginnings(plan: GraphPlan) -> dict[int, int]:
    """For each node, itself, or the one loop that follows it, if the node only sets what the loop's reductions begin with."""
    homes = {}
    places = places_of(plan.program)
    for node in plan.nodes:
        after = [later for before, later in plan.edges if before == node.index]
        alone = node.kind == "kernel" and node.task is not None and not node.task.axes and len(after) == 1
        homes[node.index] = after[0] if alone and _begins(node, plan.nodes[after[0]], places) else node.index
    return homes


def _begins(node: Node, loop: Node, places: Mapping[str, frozenset[str]]) -> bool:
    """Whether the one-thread tasks of ``node`` may run when the iterations of ``loop`` are done."""
    if loop.task is None or not loop.task.reductions or not all(_is_brief(task) and not task.every for task in node.tasks):
        return False
    if node.decision is not None and loop.decision is not None:
        return False
    loaded = {slot.name for _, slot in loop.task.scalars}
    started = {v.slot.name for each in loop.task.reductions for v in each.variables if v.slot is not None} - loaded
    effects = functools.reduce(operator.or_, (task.effects for task in node.tasks))
    body = loop.task.effects
    # Iterations neither see what it sets, nor change what it looks at.
    seen = touched_places(body.touched, places) - started
    changed = touched_places(body.writes, places) - started
    return not touched_places(effects.writes, places) & seen and not touched_places(effects.reads, places) & changed


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
        waits = self._plan.waits
        for index in region.nodes:
            node = self._plan.nodes[index]
            direct = {self._home[before] for before in waits.get(index, ())}
            home = self._home_of(node, direct)
            self._home[index] = index if home is None else home
            if home is None:
                self._before[index] = 0
                for each in direct:
                    self._before[index] |= self._before[each] | 1 << each
            if node.decision is not None:
                self._closed.add(self._home[index])
        return self._home

    def _home_of(self, node: Node, direct: set[int]) -> int | None:
        # Copies of a body in which no row is due have no kernel that tells one.
        if node.task is None or node.task.axes or node.task.every or not _is_brief(node.task):
            return None
        if not direct:
            free = (each for each, before in self._before.items() if not before and self._takes(each, one_thread=True))
            return next(itertools.chain(free, self._moving(node, 0)), None)
        waiting = sum(1 << each for each in direct)
        last = (each for each in direct if waiting & ~(self._before[each] | 1 << each) == 0 and self._takes(each))
        return next(itertools.chain(last, self._moving(node, waiting)), None)

    def _moving(self, node: Node, waiting: int) -> Iterator[int]:
        """Where the condition of a loop may go that waits for ``waiting``: behind what lets names of arrays change places.

        That is done once an iteration, too, and what then follows waits for both.
        """
        assert node.task is not None
        for index, before in self._before.items() if node.task.role == "condition" else ():
            task = self._plan.nodes[index].task
            if task is not None and task.moves and self._takes(index) and waiting & ~(before | 1 << index) == 0:
                yield index

    def _takes(self, index: int, *, one_thread: bool = False) -> bool:
        """Whether the kernel of a node has a last thread, and nothing must come right after it."""
        task = self._plan.nodes[index].task
        if task is None or task.every or index in self._closed:
            return False
        return not task.axes or (bool(task.reductions) and not one_thread)


def _is_brief(task: Task) -> bool:
    return not any(isinstance(node, (ast.For, ast.While)) for statement in task.body for node in nodes_of(statement))
