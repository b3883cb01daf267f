"""Program -> Program: where an assertion fails or something is raised, the iteration ends, and later tasks do nothing.

What a task does becomes a function that leaves by an exception of Numba's, and is called by ``intrinsics.attempt``: what comes
behind an iteration (combining reductions, deciding a loop) still happens, and the code around it knows nothing of early exits.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from qgraph.frontend.bodies.value_resolution import load
from qgraph.frontend.names.function_frame import occurrences
from qgraph.frontend.statements.returns import falls_through
from qgraph.frontend.statements.task_builder import locate
from qgraph.ir.functions import Function, function_tree
from qgraph.ir.program import (
    FAULTS,
    KEY,
    KEY_BITS,
    NUMBER,
    SLOTS,
    Axis,
    Branch,
    EarlyExits,
    Effects,
    Loop,
    Program,
    Statement,
    Task,
    TaskStatement,
)
from qgraph.operations import intrinsics
from qgraph.source import copied

_Node = TypeVar("_Node", bound=ast.AST)
_NAMES = {"_attempt": intrinsics.attempt, "_least_key": intrinsics.least_key, "_Left": intrinsics.Left}


def with_early_exits(program: Program) -> Program:
    """``program``, whose tasks begin with a look at whether the launch has failed; itself where nothing ends it early."""
    if program.exits is None:
        return program
    order = {id(task): number for number, task in enumerate(program.tasks())}
    exits = program.exits

    def guarded(task: Task) -> Task:
        return task if task.role == "start" else _Guarded(program, exits, task, order[id(task)]).task()

    return replace(program, body=_mapped(program.body, guarded))


def _mapped(statements: Sequence[Statement], change: Callable[[Task], Task]) -> tuple[Statement, ...]:
    return tuple(_statement(statement, change) for statement in statements)


def _statement(statement: Statement, change: Callable[[Task], Task]) -> Statement:
    match statement:
        case TaskStatement():
            return TaskStatement(change(statement.task))
        case Loop():
            enter = None if statement.enter is None else change(statement.enter)
            body, condition = _mapped(statement.body, change), change(statement.condition)
            # It may end before it has counted.
            return replace(statement, enter=enter, body=body, condition=condition, counter=None)
        case Branch():
            regions = tuple(_mapped(region, change) for region in statement.regions)
            return replace(statement, decide=change(statement.decide), regions=regions)
    return statement


class _Guarded:
    """One task, of which all that it does is attempted."""

    def __init__(self, program: Program, exits: EarlyExits, task: Task, order: int) -> None:
        self._exits, self._task, self._order = exits, task, order
        self._names = dict(task.names) | _NAMES
        self._outside = {
            *(leaf.name for leaf in program.arrays_and_scalars),
            *(value.name for value in program.host_values),
        }

    def task(self) -> Task:
        """The task with a guard."""
        task = self._task
        if task.role in ("loop", "serial"):
            body = [self._whole()]
        else:
            inside = {name for name in occurrences(task.body) if name not in self._names}
            body = [self._valued(copied(statement), inside) for statement in task.body]
        touched = frozenset({self._exits.failed.name, self._exits.first.name})
        return replace(
            task,
            body=tuple(body),
            names=self._names,
            axes=tuple(map(self._axis, task.axes)),
            effects=task.effects | Effects(touched, touched if self._leaves else frozenset()),
            plain=task,
        )

    @property
    def _leaves(self) -> bool:
        return FAULTS in occurrences(self._task.body)

    def _whole(self) -> ast.stmt:
        """The statement in the place of all: what they compute for the task's end comes back as a tuple."""
        task = self._task
        carried = [v.local for each in task.reductions for v in (*each.variables, each.at) if v is not None]
        names = [*carried, *(name for name, _ in task.results)]
        live = {*carried, *(name for name, _ in task.scalars)}
        result = ast.Tuple([load(name) for name in names], ast.Load()) if names else ast.Constant(0)
        otherwise: list[ast.expr] = [load(name) if name in live else ast.Constant(0) for name in names]
        body = _Continue(result).block(copied(list(task.body)))
        if not falls_through(body):
            # The compiler has the type of what is returned from a `return` that it sees.
            body = [ast.If(self._failed(ast.GtE()), body, [])]
        body.append(ast.Return(result))
        inside = {*live, *(axis.variable for axis in task.axes), *(each.local for each in task.selections)}
        inside |= {NUMBER, task.index_tuple}
        call = self._attempt(body, ast.Tuple(otherwise, ast.Load()) if names else ast.Constant(0), inside)
        target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
        return self._placed(ast.Assign([target], call) if names else ast.Expr(call))

    def _valued(self, statement: ast.stmt, inside: set[str]) -> ast.stmt:
        """An assignment, or the decision of a loop or branch, of what is attempted: 0 where that fails."""
        match statement:
            case ast.If(orelse=[]):
                statement.body = [self._valued(each, inside) for each in statement.body]
            case ast.Assign(value=value):
                statement.value = self._attempt([ast.Return(value)], ast.Constant(0), inside)
            case ast.Expr(value=ast.Call(args=[*_, value]) as call):
                call.args[-1] = self._attempt([ast.Return(value)], ast.Constant(0), inside)
            case _:
                raise AssertionError(f"a small task does {ast.unparse(statement)}")
        return self._placed(statement)

    def _axis(self, axis: Axis) -> Axis:
        if not axis.on_device:
            return axis
        count = self._attempt([ast.Return(axis.count)], ast.Constant(0), set(occurrences([axis.count])) - self._names.keys())
        return replace(axis, count=self._placed(count))

    def _attempt(self, body: list[ast.stmt], otherwise: ast.expr, inside: set[str]) -> ast.expr:
        """A call of a function of ``body``, which takes what it reads; ``inside`` are locals of the task that it may read."""
        head: list[ast.stmt] = [ast.If(self._failed(ast.Lt()), [ast.Raise(load("_Left"), None)], [])]
        used = set(occurrences(body))
        if KEY in used:
            head.append(ast.Assign([ast.Name(KEY, ast.Store())], self._key()))
        used |= set(occurrences(head)) - {KEY}
        free = (self._outside | inside | {SLOTS, FAULTS}) - self._names.keys()
        parameters = sorted(used & free)
        name = f"_attempted{len(self._names)}"
        tree = function_tree(name, parameters, [*head, *body])
        self._names[name] = Function(name, self._placed(tree), dict(self._names), self._task.span.file)
        arguments = [load(name), otherwise, *map(load, parameters)]
        return self._placed(ast.Call(load("_attempt"), arguments, []))

    def _failed(self, compared: ast.cmpop) -> ast.expr:
        """Compares the least key with the task's first: it is less where an earlier task has failed.

        Iterations of this one that fail end no others, so that the first one is told.
        """
        least: ast.expr = ast.parse(f"{SLOTS}[{self._exits.first.index + 1}]", mode="eval").body
        if not self._task.axes:
            # It may run in the kernel of the loop before it.
            least = ast.Call(load("_least_key"), [load(SLOTS), ast.Constant(self._exits.first.index + 1)], [])
        return ast.Compare(least, [compared], [ast.Constant(self._order << KEY_BITS)])

    def _key(self) -> ast.expr:
        """The number of the task, and that of the iteration."""
        number = "0"
        for axis in self._task.axes:
            start, step, count = (ast.unparse(part) for part in (axis.start, axis.step, axis.count))
            place = axis.variable if (start, step) == ("0", "1") else f"({axis.variable} - ({start})) // ({step})"
            number = place if number == "0" else f"({number}) * ({count}) + {place}"
        return ast.parse(f"{self._order << KEY_BITS} + ({number})", mode="eval").body

    def _placed(self, node: _Node) -> _Node:
        locate(node, self._task.span)
        return node


class _Continue:
    """`continue` of the loop whose iteration became a function returns from it; that of an inner loop stays."""

    def __init__(self, result: ast.expr) -> None:
        self._result = result

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [self._one(statement) for statement in statements]

    def _one(self, node: ast.stmt) -> ast.stmt:
        if isinstance(node, ast.Continue):
            return ast.copy_location(ast.Return(copied(self._result)), node)
        inner = isinstance(node, ast.For | ast.While)
        for field in ("orelse",) if inner else ("body", "orelse"):
            if isinstance(getattr(node, field, None), list):
                setattr(node, field, self.block(getattr(node, field)))
        return node
