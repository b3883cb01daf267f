"""Nests of serial loops that are laid out along fronts: which of their schedules, and whether it keeps all dependences.

A nest is first laid out as it is written, and noted; then, once for each of its schedules, until one is found that keeps them.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import islice

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.loop_fusion import prints
from qgraph.frontend.dependence.order_test import Moments, keep_order
from qgraph.frontend.desugar.wavefronts import FRONT, Schedule, schedules_of
from qgraph.frontend.names.program_builder import Fronts, ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.ir.faults import FAULTS
from qgraph.ir.program import Loop, Task, TaskStatement
from qgraph.polyhedral.symbolic_integers import Symbol
from qgraph.source import nodes_of


def chosen(fronts: Fronts, scope: Scope, node: ast.For) -> tuple[Schedule | None, bool]:
    """The schedule of a serial loop, if it gets one; and whether a loop in it does."""
    inside = False
    for child in nodes_of(node):
        if not isinstance(child, ast.For):
            continue
        place = scope.span(child)
        if place in fronts.chosen:
            if child is node:
                # Where a func is called once more it may have others.
                return next(islice(schedules_of(scope, node), fronts.chosen[place], None), None), False
            inside = True
        elif place not in fronts.met and (found := len([*schedules_of(scope, child)])):
            fronts.met[place] = found
    return None, inside


def checked(unit: ProgramBuilder, scope: Scope, node: ast.For, schedule: Schedule, loop: Loop) -> Loop:
    """The loop over the fronts, if its schedule keeps all dependences of the nest ``node``.

    Raises:
        KernelSyntaxError: it may not; nobody sees that, since the nest is laid out otherwise then.
    """
    tasks = [each.task for each in loop.body if isinstance(each, TaskStatement) and each.task.role == "loop"]
    others = [each for each in loop.body if not (isinstance(each, TaskStatement) and each.task in tasks)]
    plain = all(_is_plain(unit, task) for task in tasks) and not _shares(unit, tasks)
    if len(tasks) != len(schedule.parts) or others or not plain:
        raise _refused(scope, node)
    assert loop.counter is not None
    ((turn, _),) = loop.counter.steps
    if turn.name not in unit.serial_ranges or not _one_name_each(tasks):
        raise _refused(scope, node)
    moments = []
    for position, (task, part) in enumerate(zip(tasks, schedule.parts, strict=True)):
        local = next((name for name, slot in task.scalars if slot == turn), FRONT)
        (variable,) = unit.serial_variables({local: turn})
        facts = unit.judged[task.name]
        axis = Symbol.of(f"{facts.axes[0].variable}@0", "variable")
        values = {FRONT: variable.number, part.variable: axis.poly}
        before = tuple(number.substitute(values) for number in part.before)
        moments.append(Moments(facts, variable, position, before))
    if not keep_order(moments):
        raise _refused(scope, node)
    why = f"and none comes before what it needs along fronts of {schedule.text}"
    return replace(loop, body=tuple(TaskStatement(_told(task, why)) for task in tasks))


def _told(task: Task, why: str) -> Task:
    assert task.verdict is not None
    return replace(task, verdict=replace(task.verdict, reason=f"{task.verdict.reason}, {why}"))


def _shares(unit: ProgramBuilder, tasks: list[Task]) -> bool:
    """Whether it is not known which elements of arrays of these tasks are the same, of which one is written."""
    touched = frozenset().union(*(task.effects.touched for task in tasks))
    written = frozenset().union(*(task.effects.writes for task in tasks))
    return any(pair <= touched and pair & written for pair in unit.sometimes_same | unit.overlapping)


def _is_plain(unit: ProgramBuilder, task: Task) -> bool:
    """Whether a task is a parallel loop that only changes elements of arrays."""
    arrays = unit.array_dimensions().keys()
    proved = task.verdict is not None and task.verdict.kind == "independent" and not task.races
    whole = not (task.reductions or task.results or task.selections or task.moves or task.trades or prints(task.names))
    allowed = arrays | ({FAULTS, unit.failed.name} if unit.fails else frozenset())
    return proved and whole and task.plain is None and task.effects.writes <= allowed


def _one_name_each(tasks: list[Task]) -> bool:
    """Whether a name of a kernel scalar is the same one in all tasks."""
    pairs = {pair for task in tasks for pair in task.scalars}
    return len({name for name, _ in pairs}) == len(pairs)


def _refused(scope: Scope, node: ast.For) -> KernelSyntaxError:
    return KernelSyntaxError("these loops stay in order", scope.span(node), hint="leave them as they are")
