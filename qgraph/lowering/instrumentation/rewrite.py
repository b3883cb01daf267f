"""Program -> Program: each access to array elements, in tasks and in functions that they call, becomes a call of a word."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qgraph import language
from qgraph.captured_state import numba_function
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.functions import Function
from qgraph.ir.program import HOST, Branch, Cast, Loop, NodeStatement, Program, Statement, Task, TaskStatement
from qgraph.lowering.instrumentation.accesses import Access, Words
from qgraph.lowering.instrumentation.kinds import (
    NUMBER,
    UNKNOWN,
    Elements,
    Items,
    Kind,
    KindAnalysis,
    Number,
    Unknown,
    kinds_of_task,
)
from qgraph.operations import intrinsics
from qgraph.operations.table import operation
from qgraph.source import Span, as_written, copied


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
        body = _Body(self, {}, {}, span.file, {})
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
        for node in (child for count in counts for child in ast.walk(count)):
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
        body = _Body(self, kinds_of_task(self.program, task), dict(task.names), task.span.file, reduced)
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
            body = _Body(self, kinds, dict(function.names), function.file, {})
            tree.body = body.rewritten(tree.body)
            extra = [ast.copy_location(ast.arg(name), tree) for name in self.words.state]
            tree.args.args = [*tree.args.args, *extra]
            returned = [node.value for node in ast.walk(function.tree) if isinstance(node, ast.Return)]
            given = {NUMBER if value is None else body.kinds.of(value) for value in returned}
            result = given.pop() if len(given) == 1 else UNKNOWN if given else NUMBER
            self._functions[key] = Function(function.name, tree, body.names, function.file), result
        return self._functions[key]

    def result(self, function: Function, arguments: tuple[Kind, ...]) -> Kind:
        return self.function(function, arguments)[1]


class _Body(ast.NodeTransformer):
    """The body of one task or function."""

    def __init__(
        self,
        whole: _Instrumenter,
        kinds: dict[str, Kind],
        names: dict[str, object],
        file: str,
        reduced: Mapping[str, tuple[ast.Subscript, int]],
    ) -> None:
        self._whole = whole
        self._file = file
        self._reduced = reduced
        self.names = names
        self.kinds = KindAnalysis(kinds, dict(names), whole.result)
        self._temporaries = 0

    def rewritten(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        self.kinds.collect(statements)
        result = self._block(statements)
        for statement in result:
            ast.fix_missing_locations(statement)
        return result

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            visited = self.visit(statement)
            new = visited if isinstance(visited, list) else [visited]
            result += new
            result += self._reductions(statement)
        return result

    # --- words ----------------------------------------------------------------------------------------------------------

    def call(self, kind: Any, node: ast.expr, *arguments: ast.expr, text: str = "", **more: Any) -> ast.expr | None:
        """The call of the word for an access, which is written as ``node``, or ``text``; None where there is no word."""
        whole = self._whole
        span = Span.of(node, self._file)
        text = text or span.text() or as_written(node)
        array = getattr(node, "value", None)
        leaf = array.id if isinstance(array, ast.Name) else ""
        axes = self.kinds.taken(node.slice) or 0 if isinstance(node, ast.Subscript) and kind != "index" else 0
        access = Access(kind, len(whole.sites), span, text, leaf, axes=axes, **more)
        word = whole.words.word(access)
        if word is None:
            return None
        whole.sites.append(access)
        state = [ast.Name(name, ast.Load()) for name in whole.words.state]
        call = ast.Call(
            ast.Name(self._global(word, f"_watched_{kind}"), ast.Load()), [*arguments, ast.Constant(access.site), *state], []
        )
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _global(self, value: object, wish: str) -> str:
        name = wish
        while self.names.setdefault(name, value) is not value:
            name += "_"
        return name

    def _temporary(self, value: ast.expr, node: ast.AST) -> tuple[str, ast.stmt]:
        self._temporaries += 1
        name = f"_watched_{self._temporaries}"
        self.kinds.names[name] = self.kinds.of(value)
        return name, ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), node)

    # --- expressions ----------------------------------------------------------------------------------------------------

    def _visit(self, node: ast.expr) -> ast.expr:
        result: ast.expr = self.visit(node)
        return result

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """An element, or a part of an array."""
        if not isinstance(node.ctx, ast.Load):
            return node
        base, result = self.kinds.of(node.value), self.kinds.of(node)
        written = copied(node)
        if isinstance(base, Elements) and isinstance(result, Elements):
            return self._part(node)
        node.value, node.slice = self.visit(node.value), self.visit(node.slice)
        if isinstance(base, Elements | Unknown) and not _has_slices(node.slice):
            return self.call("load", written, node.value, node.slice) or node
        return node

    def _part(self, node: ast.Subscript) -> ast.expr:
        """A part of an array: its integer indices are looked at."""
        written = copied(node)
        node.value = self.visit(node.value)
        inside = node.slice
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        dots = next((number for number, part in enumerate(parts) if _is_dots(part)), len(parts))
        axis = 0
        for number, part in enumerate(parts):
            if isinstance(part, ast.Constant) and part.value is None:
                continue
            if number > dots:
                axis = number - len(parts)
            if not isinstance(part, ast.Slice) and not _is_dots(part) and isinstance(self.kinds.of(part), Number):
                parts[number] = self._index_of(node.value, axis, part, written)
            else:
                parts[number] = self.visit(part)
            axis += 1
        node.slice = ast.copy_location(ast.Tuple(parts, ast.Load()), inside) if isinstance(inside, ast.Tuple) else parts[0]
        return node

    def _index_of(self, array: ast.expr, axis: int, index: ast.expr, written: ast.expr) -> ast.expr:
        value = self._visit(copied(index))
        if not isinstance(array, ast.Name):
            return value
        extent = ast.Subscript(ast.Attribute(copied(array), "shape", ast.Load()), ast.Constant(axis), ast.Load())
        found = self.call("index", written, value, ast.fix_missing_locations(ast.copy_location(extent, index)))
        return found or value

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call: of another body, of an atomic, or of what is not looked into."""
        function = self.names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is intrinsics.assume_ge:
            # An index that is looked at may be anything.
            return self._visit(node.args[0])
        if function is intrinsics.view_index:
            written = copied(node)
            arguments = list(map(self.visit, node.args))
            node.args = arguments
            return self.call("index", written, *arguments) or node
        if any(function is word for word in language.ATOMICS):
            return self._atomic(node, function)
        if isinstance(function, Function):
            assert isinstance(node.func, ast.Name)
            made, _ = self._whole.function(function, tuple(map(self.kinds.of, node.args)))
            name = self._global(made, f"_watched_{node.func.id}")
            state = [ast.copy_location(ast.Name(each, ast.Load()), node) for each in self._whole.words.state]
            node.args = [*map(self.visit, node.args), *state]
            node.func = ast.copy_location(ast.Name(name, ast.Load()), node.func)
            return node
        return self._foreign(node, function)

    def _atomic(self, node: ast.Call, function: Any) -> ast.expr:
        generated = isinstance(node.func, ast.Name) and node.func.id == f"_{function.__name__}"
        place = ast.copy_location(ast.Subscript(copied(node.args[0]), copied(node.args[1]), ast.Load()), node)
        text = as_written(node) if generated else ""
        node.args = list(map(self.visit, node.args))
        return self.call("atomic", place, *node.args, text=text, operation=function, generated=generated) or node

    def _foreign(self, node: ast.Call, function: object) -> ast.expr:
        """A function of NumPy's, of Python's, of Numba's: arrays that it gets are read, or nobody knows."""
        method = isinstance(node.func, ast.Attribute)
        quiet = function is len or (function is None and not method)
        reads = method or _only_reads(function)
        for number, argument in enumerate(node.args):
            kind = self.kinds.of(argument)
            node.args[number] = self.visit(argument)
            if isinstance(kind, Elements) and not quiet:
                node.args[number] = self._all_of(argument, node.args[number], node, reads=reads)
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        if isinstance(node.func, ast.Attribute):
            kind = self.kinds.of(node.func.value)
            value = node.func.value
            node.func.value = self.visit(value)
            if isinstance(kind, Elements):
                node.func.value = self._all_of(value, node.func.value, node, reads=True)
        return node

    def _all_of(self, written: ast.expr, value: ast.expr, call: ast.expr, *, reads: bool) -> ast.expr:
        if not reads:
            span = Span.of(call, self._file)
            self._whole.unchecked.append((span.text() or as_written(call), span))
        return self.call("whole" if reads else "forget", copied(written), value) or value

    def _operand(self, node: ast.expr) -> ast.expr:
        kind = self.kinds.of(node)
        written = copied(node)
        value: ast.expr = self.visit(node)
        return (self.call("whole", written, value) or value) if isinstance(kind, Elements) else value

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """An operator of numbers or of whole arrays."""
        node.left, node.right = self._operand(node.left), self._operand(node.right)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """The same."""
        node.operand = self._operand(node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """The same."""
        node.left, node.comparators = self._operand(node.left), list(map(self._operand, node.comparators))
        return node

    # --- statements -----------------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> ast.stmt:
        """A loop inside; over an array, it reads all of it, unless it may end before."""
        if isinstance(self.kinds.of(node.iter), Elements):
            leaves = any(isinstance(child, ast.Break | ast.Return) for child in ast.walk(node))
            written = node.iter
            node.iter = self._all_of(written, self.visit(copied(written)), written, reads=not leaves)
        else:
            node.iter = self.visit(node.iter)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_If(self, node: ast.If) -> ast.stmt:
        """Both branches."""
        node.test = self.visit(node.test)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        """A loop inside."""
        node.test = self.visit(node.test)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """Stores: the value first, then the targets from the left."""
        stores = any(isinstance(child, ast.Subscript) for target in node.targets for child in _targets(target))
        if not stores:
            node.value = self.visit(node.value)
            return node
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            return self._store(node.targets[0], self._stored(node.value), node)
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        if len(node.targets) == 1 and isinstance(node.value, ast.Tuple):
            value = self._parts(node.targets[0], node.value, before)
        else:
            name, statement = self._temporary(node.value, node)
            assert isinstance(statement, ast.Assign)
            statement.value = self._stored(node.value)
            before.append(statement)
            value = ast.Name(name, ast.Load())
        for target in node.targets:
            after += self._unpacked(target, value, node)
        return [*before, *after]

    def _parts(self, target: ast.expr, value: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """The names of the parts of a tuple, which are computed first."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            parts = [self._parts(*pair, before) for pair in zip(target.elts, value.elts, strict=True)]
            return ast.copy_location(ast.Tuple(parts, ast.Load()), value)
        name, statement = self._temporary(value, value)
        assert isinstance(statement, ast.Assign)
        statement.value = self._stored(value)
        before.append(statement)
        return ast.copy_location(ast.Name(name, ast.Load()), value)

    def _unpacked(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(target, ast.Tuple):
            parts = (
                value.elts
                if isinstance(value, ast.Tuple)
                else [ast.Subscript(copied(value), ast.Constant(k), ast.Load()) for k in range(len(target.elts))]
            )
            pairs = zip(target.elts, parts, strict=True)
            return [each for part, source in pairs for each in self._unpacked(part, source, node)]
        if isinstance(target, ast.Subscript):
            stored = self._store(target, copied(value), node)
            return stored if isinstance(stored, list) else [stored]
        return [ast.copy_location(ast.Assign([target], copied(value)), node)]

    def _stored(self, value: ast.expr) -> ast.expr:
        """A value that is stored: of an array, the elements."""
        return self._operand(value)

    def _store(self, target: ast.Subscript, value: ast.expr, node: ast.stmt) -> ast.stmt | list[ast.stmt]:
        """``target = value``, where ``value`` is rewritten already."""
        base, part = self.kinds.of(target.value), self.kinds.of(target)
        written = copied(target)
        if isinstance(base, Elements) and isinstance(part, Elements):
            target.ctx = ast.Load()
            filled = self.call("fill", written, value, self._part(target))
            if filled is not None:
                return ast.copy_location(ast.Expr(filled), node)
        elif isinstance(base, Elements | Unknown) and not _has_slices(target.slice):
            stored = self.call("store", written, value, self.visit(target.value), self.visit(target.slice))
            if stored is not None:
                return ast.copy_location(ast.Expr(stored), node)
        else:
            target.slice = self.visit(target.slice)
        target.ctx = ast.Store()
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        """An update: the place once, its value, the operand, the store."""
        target = node.target
        if isinstance(target, ast.Name) and isinstance(self.kinds.of(_loaded(target)), Elements):
            loaded = _loaded(target)
            value = ast.copy_location(ast.BinOp(loaded, node.op, node.value), node)
            filled = self.call("fill", copied(loaded), self.visit(value), copied(loaded))
            return node if filled is None else ast.copy_location(ast.Expr(filled), node)
        if not isinstance(target, ast.Subscript) or isinstance(self.kinds.of(target.value), Number | Items):
            node.value = self._operand(node.value)
            if isinstance(target, ast.Subscript):
                target.slice = self.visit(target.slice)
            return node
        before: list[ast.stmt] = []
        if not isinstance(target.value, ast.Name):
            name, statement = self._temporary(target.value, node)
            before += self._visited(statement)
            target.value = ast.copy_location(ast.Name(name, ast.Load()), target.value)
        if any(isinstance(child, ast.Call | ast.Subscript) for child in ast.walk(target.slice)) and not _has_slices(
            target.slice
        ):
            name, statement = self._temporary(target.slice, node)
            before += self._visited(statement)
            target.slice = ast.copy_location(ast.Name(name, ast.Load()), target.slice)
        old = copied(target)
        old.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
        stored = self._store(target, self.visit(value), node)
        return [*before, *(stored if isinstance(stored, list) else [stored])]

    def _visited(self, statement: ast.stmt) -> list[ast.stmt]:
        assert isinstance(statement, ast.Assign)
        statement.value = self.visit(statement.value)
        return [statement]

    def _reductions(self, statement: ast.stmt) -> list[ast.stmt]:
        """Behind a statement that assigns what is reduced into elements: that the iteration has a part in it."""
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = [part for target in statement.targets for part in _targets(target)]
        elif isinstance(statement, ast.AugAssign):
            targets = [statement.target]
        found: list[ast.stmt] = []
        for target in targets:
            if isinstance(target, ast.Name) and target.id in self._reduced:
                element, number = self._reduced[target.id]
                place = ast.copy_location(copied(element), target)
                arguments = [
                    ast.fix_missing_locations(ast.copy_location(copied(each), target)) for each in (place.value, place.slice)
                ]
                call = self.call("reduce", place, *arguments, reduction=number)
                if call is not None:
                    found.append(ast.copy_location(ast.Expr(call), statement))
        return found


def _loaded(name: ast.Name) -> ast.Name:
    return ast.copy_location(ast.Name(name.id, ast.Load()), name)


def _targets(target: ast.expr) -> list[ast.expr]:
    return [part for each in target.elts for part in _targets(each)] if isinstance(target, ast.Tuple) else [target]


def _has_slices(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) or _is_dots(part) for part in parts)


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _only_reads(function: object) -> bool:
    """Whether a function that gets arrays does no more than read them."""
    if isinstance(function, np.ufunc | type | Cast) or operation(function).pure:
        return True
    home = (getattr(function, "__module__", None) or "").partition(".")[0]
    return home in ("numpy", "builtins", "math", "_operator") and numba_function(function) is None
