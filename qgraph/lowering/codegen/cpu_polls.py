"""Polls of signals in CPU loops that may not end: they call Python now and then, whose signal handlers may end them.

Loops at kernel level are polled, and each `while` of a task for one thread. A `while` in the body of a parallel loop is not: it
may run on any thread, and Python handles signals on the main one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from qgraph.captured_state import numba_function
from qgraph.ir.artifacts import Parameter
from qgraph.ir.functions import Function
from qgraph.ir.program import Branch, Loop, NodeStatement, Program, Statement, Task, TaskStatement, parts_of
from qgraph.lowering.codegen.generated_names import Dtypes, Globals, Statements, generated, walk
from qgraph.lowering.codegen.task_codegen import called_name, one_thread_body, outlined, task_names
from qgraph.operations import intrinsics
from qgraph.source import Span

# Reading the cycle counter takes some nanoseconds. A loop reads it in each iteration, or in one of ``TURNS`` while so many
# take less than ``QUICK`` ticks; where the body is a few instructions, in one of ``SHORT_TURNS``. As many may pass without a
# poll after a loop has become slow.
TURNS = 16
SHORT_TURNS = 1024
QUICK = 1 << 15
NAMES: Globals = {"_ticks": intrinsics.ticks, "_poll": intrinsics.poll}

# Each loop by the name of the parameter that is its ``Parameter.kind`` "loop", and where it stands.
Places = dict[str, Span]


class Polled:
    """The loops of a program that are polled, by numbers.

    Attributes:
        places: where each stands.
    """

    def __init__(self, program: Program) -> None:
        self.places: Places = {}
        # By the identity of the loop, or of the task.
        self._names: dict[int, list[str]] = {}
        waiting: list[Statement] = [*reversed(program.body)]
        while waiting:
            statement = waiting.pop()
            match statement:
                case Loop():
                    self._add(statement, [statement.span])
                    waiting += reversed(statement.body)
                case Branch():
                    waiting += (each for region in reversed(statement.regions) for each in reversed(region))
                case TaskStatement(task) if not task.axes:
                    self._add(task, [Span.of(loop, task.span.file) for loop in _whiles(task.body)])
                case TaskStatement() | NodeStatement():
                    pass

    def _add(self, what: Loop | Task, spans: Iterable[Span]) -> None:
        for span in spans:
            name = f"_loop{len(self.places)}"
            self.places[name] = span
            self._names.setdefault(id(what), []).append(name)

    def names(self, what: Loop | Task) -> Sequence[str]:
        """The parameters of the loops in a task, or of a loop at kernel level."""
        return self._names.get(id(what), ())


def _whiles(body: Iterable[ast.AST]) -> list[ast.While]:
    return [node for node in walk(body) if isinstance(node, ast.While)]


def entry_lines(name: str, *, short: bool) -> list[str]:
    """The counters of loop ``name``, before it; ``short``: its body is a few instructions."""
    return [f"{name}_left = {SHORT_TURNS if short else 1}", f"{name}_now = {name}_last = {name}_entered = _ticks()"]


def turn_lines(name: str, *, short: bool) -> list[str]:
    """The poll with which each iteration begins."""
    left = str(SHORT_TURNS) if short else f"{TURNS} if {name}_now - {name}_before < {QUICK} else 1"
    return [
        f"{name}_left -= 1",
        f"if {name}_left <= 0:",
        *([] if short else [f"    {name}_before = {name}_now"]),
        f"    {name}_now = _ticks()",
        f"    {name}_left = {left}",
        f"    {name}_last = _poll({name}_now, {name}_last, {name}_entered, {name})",
    ]


def is_short(loop: Loop) -> bool:
    """Whether the body of a loop at kernel level is a few instructions of one thread."""
    if any(isinstance(each, Loop) for each in loop.body):
        return False
    parts = [*parts_of(loop.body), loop.condition]
    return all(isinstance(each, Task) and not each.axes and _is_straight(each.body, each.names) for each in parts)


def _is_straight(body: Iterable[ast.AST], names: Globals) -> bool:
    """Whether no statement is a loop, or calls a function that may have one."""
    for node in walk(body):
        if isinstance(node, (ast.For, ast.While)):
            return False
        value = names.get(called_name(node))
        if isinstance(value, Function) or (value is not None and numba_function(value) is not None):
            return False
    return True


def polled_function(
    program: Program, task: Task, dtypes: Dtypes, loops: Sequence[str]
) -> tuple[tuple[Parameter, ...], Function]:
    """A task for one thread as a function, each `while` polled: ``loops`` names them, and these are the last parameters."""
    body = one_thread_body(task, dtypes)
    found = _whiles(body)
    named = {id(loop): (name, _is_straight(loop.body, task.names)) for loop, name in zip(found, loops, strict=True)}
    polled = [each for statement in body for each in _as_list(_Polling(named).visit(statement))]
    names = {**task_names(task, dtypes), **NAMES}
    parameters, function = outlined(program, task.name, polled, names, task.span, last=loops)
    return (*parameters, *(Parameter("loop", name) for name in loops)), function


def _as_list(found: ast.stmt | list[ast.stmt]) -> Statements:
    return found if isinstance(found, list) else [found]


class _Polling(ast.NodeTransformer):
    """Inserts the polls of each `while`, at the start of its body: a `continue` would skip the end."""

    def __init__(self, named: dict[int, tuple[str, bool]]) -> None:
        self._named = named

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        name, short = self._named[id(node)]
        self.generic_visit(node)
        node.body = [*generated(*turn_lines(name, short=short)), *node.body]
        return [*generated(*entry_lines(name, short=short)), node]
