"""Expressions that the host can compute before a launch: over shapes, scalar arguments and constants alone."""

from __future__ import annotations

import ast
import math
import operator
from types import BuiltinFunctionType
from typing import cast

import numpy as np

from qgraph.frontend.inference.iteration_space import WrittenAxis, loop_call, ranges_of
from qgraph.frontend.inference.ranks import known_object
from qgraph.frontend.names.bindings import Binding, HostExpr, LeafRef, Poisoned, RangeRef, ScalarRef, SlotRef, Value, ViewRef
from qgraph.frontend.names.foreign_calls import refused_reversed
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of, known_test
from qgraph.ir.argument_types import ScalarType
from qgraph.ir.trees import load, operands_of, with_operands
from qgraph.operations.table import is_one_of
from qgraph.records import dataclass
from qgraph.source import as_written, children_of, copied, nodes_of

_FUNCTIONS: tuple[object, ...] = (
    *(min, max, abs, int, float, len, round, operator.index),
    *(function for function in vars(math).values() if isinstance(function, BuiltinFunctionType)),
)
_SHAPES = ("shape", "ndim", "size")


def host_expression(unit: ProgramBuilder, scope: Scope, node: ast.expr) -> ast.expr | None:
    """``node`` over leaf names, or None where it needs the device (or cannot be computed at all)."""
    result = _Host(unit, scope).visit(copied(node))
    return None if result is None else ast.fix_missing_locations(result)


def host_test(unit: ProgramBuilder, scope: Scope, node: ast.expr) -> ast.expr | None:
    """``node`` over leaf names where the host knows it exactly: a condition on integers, which cannot fail; else None."""
    known = host_expression(unit, scope, node)
    return known if known is not None and _is_exact(unit, known) else None


# Of two integers of 64 bits these may give one that does not fit. So may a sum, of numbers that are next to the largest.
_GROWING = (ast.Mult, ast.Pow, ast.LShift)
_INTEGER_BITS = 64
_EXACT = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


def _is_given(unit: ProgramBuilder, node: ast.AST, kinds: str) -> bool:
    """Whether an expression of the host is an extent, or an argument whose dtype is of one of NumPy's ``kinds``."""
    match node:
        case ast.Name(id=name):
            return name in unit.leaves and np.dtype(unit.leaves[name].type.dtype).kind in kinds
        case ast.Attribute(attr="ndim" | "size") | ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
    return False


def _is_exact(unit: ProgramBuilder, node: ast.AST) -> bool:
    """Whether an expression of the host is made of integers, and computed by it as by the device."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int)
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=right) if not (isinstance(right, ast.Constant) and right.value):
            return False
        case ast.BinOp(op=op) if not isinstance(op, _EXACT):
            return False
        case ast.Call(func=ast.Name(id=name), args=args):
            return is_one_of(unit.host_names.get(name), (*_OF_NUMBERS, len)) and all(_is_exact(unit, each) for each in args)
        case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp():
            return all(_is_exact(unit, operand) for operand in operands_of(node))
    return _is_given(unit, node, "biu")


_OF_INTEGERS = (*_EXACT, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
# Functions whose results are integers, whatever they are given, and those whose results are of the type of their arguments.
_TO_INTEGERS = (int, len, math.floor, math.ceil, math.trunc)
_OF_NUMBERS = (min, max, abs)


def _is_integer(unit: ProgramBuilder, node: ast.AST) -> bool:
    """Whether an expression of the host is surely an integer, in Python."""
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(value))):
            return value >= 0 and _is_integer(unit, left)
        case ast.BinOp(op=op):
            whole = isinstance(op, _OF_INTEGERS) and all(_is_integer(unit, operand) for operand in operands_of(node))
            # Of uint64 and signed numbers of NumPy's comes a float64.
            return whole and np.dtype(numpy_type(unit, node) or int).kind != "f"
        case ast.UnaryOp(op=op, operand=operand):
            return not isinstance(op, ast.Not) and _is_integer(unit, operand)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_integer(unit, body) and _is_integer(unit, orelse)
        case ast.Call(func=ast.Name(id=name), args=args):
            function = unit.host_names.get(name)
            if is_one_of(function, _TO_INTEGERS) or (function is round and len(args) == 1):
                return True
            return is_one_of(function, _OF_NUMBERS) and all(_is_integer(unit, each) for each in args)
    return _is_given(unit, node, "iu")


def numpy_type(unit: ProgramBuilder, node: ast.AST) -> type[np.number] | None:
    """The type of NumPy's that an integer of the host surely has; None where it is Python's, or may be."""
    match node:
        case ast.Name(id=name):
            leaf = unit.leaves.get(name)
            if leaf is None:
                found = type(unit.host_names.get(name))
            else:
                found = np.dtype(leaf.type.dtype).type if isinstance(leaf.type, ScalarType) and not leaf.type.weak else int
            return found if issubclass(found, np.number) else None
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
            return numpy_type(unit, operand)
        case ast.BinOp(left=left, right=right):
            both = {kind for part in (left, right) if (kind := numpy_type(unit, part)) is not None}
            return np.result_type(*both).type if both else None
        case ast.IfExp(body=body, orelse=orelse):
            return _one_type(unit, [body, orelse])
        case ast.Call(func=ast.Name(id=name), args=args) if is_one_of(unit.host_names.get(name), _OF_NUMBERS):
            return _one_type(unit, args)
    return None


def _one_type(unit: ProgramBuilder, nodes: list[ast.expr]) -> type[np.number] | None:
    found = {numpy_type(unit, node) for node in nodes}
    return found.pop() if len(found) == 1 else None


def _is_rounded(unit: ProgramBuilder, node: ast.AST) -> bool:
    """Whether floats have a part in a number: the device computes with those of F. An array gives its extents alone."""
    if isinstance(node, ast.Name) and node.id in unit.leaves:
        type_ = unit.leaves[node.id].type
        return isinstance(type_, ScalarType) and np.dtype(type_.dtype).kind == "f"
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float)
    return isinstance(node, ast.Div) or any(_is_rounded(unit, child) for child in children_of(node))


def _may_wrap(unit: ProgramBuilder, node: ast.AST) -> bool:
    """Whether the host may find another integer than the device, with its 64 bits: of products, or of NumPy's scalars."""
    leaves = [unit.leaves[child.id].type for child in nodes_of(node) if isinstance(child, ast.Name) and child.id in unit.leaves]
    scalars = [kind for kind in leaves if isinstance(kind, ScalarType)]
    grows = any(isinstance(child, _GROWING) for child in nodes_of(node))
    return any(grows or (not kind.weak and kind.dtype not in ("int64", "bool")) for kind in scalars)


def _runs_at_once(unit: ProgramBuilder) -> bool:
    """Whether what is laid out now surely runs, where the host knows it: a func may be given what one path computes."""
    return unit.surely_runs and len(unit.calling) <= 1


def settled(unit: ProgramBuilder, scope: Scope, bound: Binding, value: ast.expr) -> Binding:
    """``bound``, which ``value`` gets a name for: an integer that host and device may compute in two ways is computed once."""
    if not isinstance(bound, HostExpr) or bound.name or not _is_integer(unit, bound.expr):
        return bound
    rounded = _is_rounded(unit, bound.expr)
    if not _runs_at_once(unit) or not (rounded or _may_wrap(unit, bound.expr)):
        return bound
    if not rounded and numpy_type(unit, bound.expr) is np.uint64:
        # What the host computes has a sign, and the device wraps as NumPy does.
        return bound
    return HostExpr(bound.expr, unit.host_value(bound.expr, scope.span(value), text=as_written(value)).id)


def _is_harmless(unit: ProgramBuilder, node: ast.AST) -> bool:
    """Whether the host can compute a number on a path that is not taken, too: nothing in it fails, or is infinite."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, (int, float)) and abs(value) < _LARGE
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()) | ast.UnaryOp():
            return all(_is_harmless(unit, operand) for operand in operands_of(node))
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=value)):
            return bool(value) and _is_harmless(unit, left)
        case ast.BinOp(left=left, op=ast.Pow() | ast.LShift(), right=ast.Constant(value=int(value))):
            return 0 <= value < _INTEGER_BITS and _is_harmless(unit, left)
        case ast.Call(func=ast.Name(id=name), args=args):
            functions = (*_TO_INTEGERS, *_OF_NUMBERS, round, float)
            return is_one_of(unit.host_names.get(name), functions) and all(_is_harmless(unit, arg) for arg in args)
    return _is_given(unit, node, "biu")


# Products of some numbers below this one, and of sizes, are finite.
_LARGE = 1e30


def integer_of_host(unit: ProgramBuilder, scope: Scope, node: ast.Call | ast.BinOp) -> HostExpr | None:
    """What stands for `int(n * 0.3)` and `n * m` wherever they are written: one integer, which the host computes; else None.

    The device would compute with the digits of F, and wrap at 64 bits.
    """
    if isinstance(node, ast.Call):
        function = scope.static(node.func)
        if not isinstance(function, Value) or not is_one_of(function.value, (*_TO_INTEGERS, round)):
            return None
    elif not isinstance(node.op, _GROWING):
        return None
    known = host_expression(unit, scope, node)
    if known is None or not _is_harmless(unit, known) or not (_is_rounded(unit, known) or isinstance(node, ast.BinOp)):
        return None
    found = settled(unit, scope, HostExpr(known), node)
    return found if isinstance(found, HostExpr) and found.name else None


def binding(unit: ProgramBuilder, scope: Scope, value: ast.expr) -> Binding | None:
    """What ``value`` is without the device: an argument, a constant, a range, a number of the host; None for other values."""
    bound = scope.static(value)
    if isinstance(bound, Poisoned):
        raise scope.error(bound.reason, value, bound.hint)
    if isinstance(bound, (ScalarRef, SlotRef)):
        # Another name for it would see what is assigned to it later.
        return None
    if bound is not None:
        return bound
    found = loop_call(scope, value)
    if found is not None and found.word is None:
        if isinstance(value, ast.Call) and known_object(scope, value.func) is reversed:
            # Python's is empty when it has been gone over.
            raise refused_reversed(scope, value)
        return RangeRef(found.call, found.scope.inner({}))
    known = host_expression(unit, scope, value)
    if known is None:
        return None
    # What may not run is left to the device, all of it: computed by the host it might fail.
    return HostExpr(known) if _runs_at_once(unit) or not _is_integer(unit, known) or not _is_rounded(unit, known) else None


def surely_runs(unit: ProgramBuilder, scope: Scope, node: ast.For) -> bool:
    """Whether the bounds of a loop are constants, and it has at least one iteration.

    Raises:
        KernelSyntaxError: the range has the wrong arguments.
    """
    found = loop_call(scope, node.iter)
    if found is None:
        return False
    axes = ranges_of(found.scope, found.call)
    return all(_has_iterations(unit, found.scope, axis) for axis in axes)


def _has_iterations(unit: ProgramBuilder, scope: Scope, axis: WrittenAxis) -> bool:
    parts = [host_expression(unit, scope, part) for part in (axis.start, axis.stop, axis.step)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or any(isinstance(child, (ast.Name, ast.Div)) for part in known for child in nodes_of(part)):
        return False
    start, stop, step = (eval(compile(ast.Expression(part), "<range>", "eval")) for part in known)  # integers alone
    return step != 0 and len(range(start, stop, step)) > 0


@dataclass(slots=True)
class _Host:
    """Rewrites an expression over leaf names: one handler a node type, None where the host does not know some part."""

    unit: ProgramBuilder
    scope: Scope

    def visit(self, node: ast.expr) -> ast.expr | None:
        known = self._static(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else None
        if known is not None:
            return known
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        return None if handler is None else handler(node)

    def _all(self, nodes: list[ast.expr]) -> list[ast.expr] | None:
        results = [self.visit(node) for node in nodes]
        known = [result for result in results if result is not None]
        return known if len(known) == len(results) else None

    def _constant(self, node: ast.Constant) -> ast.expr | None:
        return node if type(node.value) in (int, float, bool) else None

    def _attribute(self, node: ast.Attribute) -> ast.expr | None:
        base = self.scope.static(node.value)
        if node.attr not in _SHAPES or not isinstance(base, LeafRef) or not base.is_array:
            return None
        name = self.unit.host_name(base.leaf)
        extents = self.unit.extents.get(name)
        if extents is not None:
            return _of_extents(node, extents)
        node.value = ast.copy_location(load(name), node)
        return node

    def _subscript(self, node: ast.Subscript) -> ast.expr | None:
        view = self.scope.static(node.value.value) if isinstance(node.value, ast.Attribute) else None
        if isinstance(view, ViewRef):
            axis = constant_of(node.slice)
            if axis is None or not -len(view.along) <= axis < len(view.along):
                return None
            return copied(view.along[axis].count.host)
        base, index = self.visit(node.value), self.visit(node.slice)
        if isinstance(base, ast.Tuple) and isinstance(index, ast.Constant) and isinstance(index.value, int):
            return base.elts[index.value]
        # Only `.shape` survives as a subscriptable host value: elements of arrays are the device's.
        if base is None or index is None or not isinstance(base, ast.Attribute):
            return None
        node.value, node.slice = base, index
        return node

    def _static(self, node: ast.expr) -> ast.expr | None:
        bound = self.scope.static(node)
        if isinstance(bound, LeafRef) and not bound.is_array:
            return ast.copy_location(load(bound.leaf.name), node)
        if isinstance(bound, HostExpr):
            return copied(bound.expr)
        if isinstance(bound, Value):
            value = bound.value
            if type(value) in (int, float, bool):
                return ast.copy_location(ast.Constant(cast(float, value)), node)
            if isinstance(value, (np.integer, np.floating)):
                return ast.copy_location(load(self._host_name(value, as_written(node))), node)
        return None

    def _host_name(self, value: object, wish: str) -> str:
        return self.unit.host_object(value, "".join(c if c.isalnum() else "_" for c in wish))

    def _operator(self, node: ast.expr) -> ast.expr | None:
        """An operator whose operands the host knows."""
        return with_operands(node, [self.visit(operand) for operand in operands_of(node)])

    _binop = _unaryop = _boolop = _compare = _operator

    def _ifexp(self, node: ast.IfExp) -> ast.expr | None:
        known = known_test(self.scope, node.test)
        return self._operator(node) if known is None else self.visit(node.body if known else node.orelse)

    def _call(self, node: ast.Call) -> ast.expr | None:
        bound = self.scope.static(node.func)
        if not isinstance(bound, Value) or node.keywords or not is_one_of(bound.value, _FUNCTIONS):
            return None
        if bound.value is len and len(node.args) == 1:
            base = self.scope.static(node.args[0])
            if isinstance(base, ViewRef) and base.along:
                return copied(base.along[0].count.host)
            if not (isinstance(base, LeafRef) and base.is_array):
                return None
            name = self.unit.host_name(base.leaf)
            extents = self.unit.extents.get(name)
            if extents is not None:
                return copied(extents[0]) if extents else None
            parts: list[ast.expr] | None = [ast.copy_location(load(name), node)]
        else:
            parts = self._all(node.args)
        if parts is None:
            return None
        node.func = ast.copy_location(load(self._host_name(bound.value, as_written(node.func))), node)
        node.args = parts
        return node


def _of_extents(node: ast.Attribute, extents: tuple[ast.expr, ...]) -> ast.expr:
    """``shape``, ``ndim`` or ``size`` of a temporary, which the host does not have as an array."""
    copies = [copied(extent) for extent in extents]
    if node.attr == "ndim":
        return ast.copy_location(ast.Constant(len(copies)), node)
    if node.attr == "shape":
        return ast.copy_location(ast.Tuple(copies, ast.Load()), node)
    result: ast.expr = ast.Constant(1)
    for extent in copies:
        result = ast.BinOp(result, ast.Mult(), extent)
    return ast.fix_missing_locations(ast.copy_location(result, node))
