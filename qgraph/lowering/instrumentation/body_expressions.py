"""The expressions of a body: calls of words in the places of reads, atomics and calls."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from qgraph import language
from qgraph.captured_state import numba_function
from qgraph.ir.functions import Function
from qgraph.ir.program import Cast
from qgraph.lowering.instrumentation.accesses import Access, Words, state_for
from qgraph.lowering.instrumentation.kinds import Elements, Kind, KindAnalysis, Number, Unknown
from qgraph.operations import intrinsics
from qgraph.operations.table import operation
from qgraph.source import Span, as_written, copied


class Whole(Protocol):
    """What all bodies of one program have in common; ``Instrumented`` says what these are."""

    words: Words
    sites: list[Access]
    unchecked: list[tuple[str, Span]]

    def function(self, function: Function, arguments: tuple[Kind, ...]) -> tuple[Function, Kind]:
        """A function that bodies call, with words in it and the state as its last parameters; and what it gives."""

    def result(self, function: Function, arguments: tuple[Kind, ...]) -> Kind:
        """What it gives."""


class Expressions(ast.NodeTransformer):
    """The body of one task or function, as far as its expressions go."""

    def __init__(
        self,
        whole: Whole,
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
        if isinstance(base, Elements | Unknown) and not has_slices(node.slice):
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
            state = [ast.copy_location(ast.Name(each, ast.Load()), node) for each in state_for(function, self._whole.words)]
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


def has_slices(index: ast.expr) -> bool:
    """Whether an index takes a part of an array: a slice is in it, or `...`."""
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
