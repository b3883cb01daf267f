"""Program -> Program: each access to array elements, in tasks and in functions that they call, becomes a call of a word."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import field, replace

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import HOST, Branch, Loop, NodeStatement, Program, Statement, Task, TaskStatement
from qgraph.lowering.instrumentation.accesses import Access, Words, state_for
from qgraph.lowering.instrumentation.body_statements import Body
from qgraph.lowering.instrumentation.kinds import (
    NUMBER,
    UNKNOWN,
    Kind,
    kinds_of_task,
)
from qgraph.records import dataclass
from qgraph.source import Span, copied, nodes_of


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A program with words in its bodies. ``sites`` are the accesses by number; ``unchecked`` tells what is not looked into."""

    program: Program
    sites: tuple[Access, ...]
    unchecked: tuple[tuple[str, Span], ...]


def instrument(program: Program, words: Words) -> Instrumented:
    """``program`` with a call of one of ``words`` in the place of each access to array elements.

    Of loops only the bodies are looked at, and the bounds that the device reads, in tasks of their own before the loops. Loops
    that were joined are one.
    """
    instrumenter = _Instrumenter(program, words)
    body = tuple(each for statement in program.body for each in instrumenter.statement(statement))
    unchecked = tuple(dict.fromkeys(instrumenter.unchecked))
    return Instrumented(replace(program, body=body), tuple(instrumenter.sites), unchecked)


@dataclass(slots=True)
class _Instrumenter:
    """What all bodies of one program have in common."""

    program: Program
    words: Words
    sites: list[Access] = field(default_factory=list)
    unchecked: list[tuple[str, Span]] = field(default_factory=list)
    _functions: dict[tuple[int, tuple[Kind, ...]], tuple[Function, Kind]] = field(default_factory=dict)
    _reductions: int = 0

    # --- statements of the program --------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> list[Statement]:
        match statement:
            case TaskStatement(task) if task.role == "start":
                # Nothing of the user's is in it.
                return [statement]
            case TaskStatement(task):
                return [*self._bounds(task), TaskStatement(self._task(task))]
            case Loop():
                enter = None if statement.enter is None else self._task(statement.enter)
                return [
                    replace(statement, enter=enter, body=self._block(statement.body), condition=self._task(statement.condition))
                ]
            case Branch():
                regions = tuple(map(self._block, statement.regions))
                return [replace(statement, decide=self._task(statement.decide), regions=regions)]
        return [*self._written(statement), statement]

    def _written(self, statement: NodeStatement) -> list[Statement]:
        """What a node does to arrays is not looked into: before it, a task that says so."""
        touched = statement.effects.touched
        arrays = [leaf.name for leaf in self.program.arrays_and_scalars if isinstance(leaf.type, ArrayType)]
        names = [name for name in arrays if name in touched]
        if HOST in touched or not names:
            return []
        self.unchecked.append((statement.label, statement.span))
        span = statement.span
        place = {"lineno": span.line, "col_offset": span.column, "end_lineno": span.end_line, "end_col_offset": span.end_column}
        body = Body(self, {}, {}, span.file, {})
        lines: list[ast.stmt] = []
        for name in names:
            array = ast.Name(name, ast.Load(), **place)
            call = body.call("forget", array, array)
            if call is not None:
                lines.append(ast.Expr(call, **place))
        if not lines:
            return []
        task = Task(f"_forget_L{span.line}_{len(self.sites)}", "serial", span, (), tuple(lines), body.names, statement.effects)
        return [TaskStatement(task)]

    def _block(self, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(each for statement in statements for each in self.statement(statement))

    def _bounds(self, task: Task) -> list[Statement]:
        """Where the device reads the bounds of a loop: a task that reads them before."""
        counts: list[ast.stmt] = [ast.Expr(copied(axis.count)) for axis in task.axes if axis.on_device]
        if not counts:
            return []
        for node in (child for count in counts for child in nodes_of(count)):
            if isinstance(node, ast.expr | ast.stmt) and not hasattr(node, "lineno"):
                node.lineno, node.col_offset = task.span.line, task.span.column
                node.end_lineno, node.end_col_offset = task.span.end_line, task.span.end_column
        before = Task(
            name=f"{task.name}_extents",
            role="bounds",
            span=task.span,
            axes=(),
            body=tuple(counts),
            names=task.names,
            effects=task.effects,
            selections=task.selections,
            scalars=task.scalars,
        )
        return [TaskStatement(self._task(before))]

    def _task(self, task: Task) -> Task:
        reduced: dict[str, tuple[ast.Subscript, int]] = {}
        for reduction in task.reductions:
            self._reductions += 1
            for variable in reduction.variables:
                if variable.element is not None:
                    reduced[variable.local] = variable.element, self._reductions
        body = Body(self, kinds_of_task(self.program, task), dict(task.names), task.span.file, reduced)
        statements = body.rewritten(list(copied(task.body)))
        return replace(task, body=tuple(statements), names=body.names, joined=(), sections={})

    # --- functions ------------------------------------------------------------------------------------------------------

    def function(self, function: Function, arguments: tuple[Kind, ...]) -> tuple[Function, Kind]:
        """A function that bodies call, with words in it and the state as its last parameters; and what it gives."""
        key = (id(function), arguments)
        if key not in self._functions:
            # While it is looked at; kernels have no recursion.
            self._functions[key] = function, UNKNOWN
            tree = copied(function.tree)
            kinds = dict(zip((each.arg for each in tree.args.args), arguments, strict=False))
            body = Body(self, kinds, dict(function.names), function.file, {})
            tree.body = body.rewritten(tree.body)
            extra = [ast.copy_location(ast.arg(name), tree) for name in state_for(function, self.words)]
            tree.args.args = [*tree.args.args, *extra]
            returned = [node.value for node in nodes_of(function.tree) if isinstance(node, ast.Return)]
            given = {NUMBER if value is None else body.kinds.of(value) for value in returned}
            result = given.pop() if len(given) == 1 else UNKNOWN if given else NUMBER
            self._functions[key] = Function(function.name, tree, body.names, function.file), result
        return self._functions[key]

    def result(self, function: Function, arguments: tuple[Kind, ...]) -> Kind:
        return self.function(function, arguments)[1]
