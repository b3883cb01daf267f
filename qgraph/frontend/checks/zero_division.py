"""Divisions of Python integers by zero, and shifts by negative ones, which raise in Python: NumPy's integers give 0."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from qgraph import language
from qgraph.errors import ArgumentError
from qgraph.frontend.inference.indexing import is_natural
from qgraph.frontend.names.bindings import Binding, HostExpr, LeafRef, Poisoned, Private, ScalarRef, SlotRef, Value, ViewRef
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.argument_types import ScalarType
from qgraph.ir.faults import Fault
from qgraph.ir.trees import operands_of
from qgraph.operations import intrinsics
from qgraph.operations.table import is_one_of
from qgraph.source import as_written, nodes_of

_DIVISIONS = (ast.FloorDiv, ast.Mod)
_SHIFTS = (ast.LShift, ast.RShift)
_EXACT = (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, *_DIVISIONS)
_RANGES = (range, language.ndrange, language.serial, language.parallel)


def may_raise(
    unit: ProgramBuilder, scope: Scope, op: ast.operator, left: ast.expr, right: ast.expr, *, of_host: bool = False
) -> bool:
    """Whether Python integers may be divided by zero, or shifted by a negative number. ``of_host``: the names are leaves."""
    if not isinstance(op, (*_DIVISIONS, *_SHIFTS)) or is_wrong(op, right) is False:
        return False
    if isinstance(op, _SHIFTS) and not of_host and is_natural(scope, right):
        return False
    known = _Origins(unit, scope, of_host)
    return known.is_python_integer(left) and known.is_python_integer(right)


def is_wrong(op: ast.operator, right: ast.expr) -> bool | None:
    """Whether ``right`` is the zero, or negative number, that an operation does not take; None where it is no literal."""
    value = constant_of(right)
    if value is None:
        return None
    return value < 0 if isinstance(op, _SHIFTS) else value == 0


def raises_itself(unit: ProgramBuilder, scope: Scope, node: ast.AST) -> bool:
    """Whether ``node``, a part of an expression of the host, is such an operation."""
    return isinstance(node, ast.BinOp) and may_raise(unit, scope, node.op, node.left, node.right, of_host=True)


def raises_somewhere(unit: ProgramBuilder, scope: Scope, expr: ast.expr) -> bool:
    """Whether an expression of the host has such an operation."""
    return any(raises_itself(unit, scope, node) for node in nodes_of(expr))


def fault_of(scope: Scope, op: ast.operator, node: ast.AST, text: str = "") -> Fault:
    """What ``node``, such an operation that is written ``text``, then did wrong."""
    written = text or as_written(node)
    if isinstance(op, _SHIFTS):
        found, hint = f"`{written}` shifts by a negative number", "shift the other way, or test the number first"
    else:
        found, hint = f"`{written}` divides an integer by zero", "give it a divisor other than 0, or test the divisor first"
    return Fault(ArgumentError, scope.span(node), found, hint)


def checking_word(op: ast.operator) -> object:
    """The word of ``language`` that notes the fault of a right operand."""
    return intrinsics.shift_count if isinstance(op, _SHIFTS) else intrinsics.divisor


class _Origins:
    """Flow-insensitive origins of numbers: a name is what is assigned to it anywhere in the function."""

    def __init__(self, unit: ProgramBuilder, scope: Scope, of_host: bool) -> None:
        self._unit = unit
        self._scope = scope
        self._of_host = of_host
        # Names that are being looked at: one that depends on itself is what its other assignments are.
        self._seen: set[str] = set()

    def is_python_integer(self, node: ast.expr) -> bool:
        """Whether ``node`` is surely an int or bool of Python, no element of an array and no NumPy scalar."""
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int)
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript():
                return self._part(node)
            case ast.BinOp(op=op):
                return isinstance(op, _EXACT) and self._all(operands_of(node))
            case ast.UnaryOp(op=op):
                return isinstance(op, ast.Not) or self.is_python_integer(node.operand)
            case ast.IfExp():
                return self._all([node.body, node.orelse])
            case ast.Call(keywords=[]):
                return self._calls(node, int, len) or (self._calls(node, min, max, abs) and self._all(node.args))
        return False

    def _all(self, nodes: list[ast.expr]) -> bool:
        return all(map(self.is_python_integer, nodes))

    def _part(self, node: ast.Subscript) -> bool:
        """``x.shape[0]``, ``divmod(a, b)[0]``, a field of a tuple."""
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return True
        if isinstance(node.value, ast.Call):
            return self._calls(node.value, divmod) and self._all(node.value.args)
        return not self._of_host and self._bound(self._scope.static(node))

    def _calls(self, node: ast.Call, *functions: object) -> bool:
        if not isinstance(node.func, ast.Name):
            return False
        if self._of_host:
            value = self._unit.host_names.get(node.func.id, getattr(builtins, node.func.id, None))
        else:
            value = static_object(self._scope, node.func)
        return is_one_of(value, functions)

    def _attribute(self, node: ast.Attribute) -> bool:
        is_extent = node.attr in ("size", "ndim")
        if self._of_host:
            return is_extent
        return (is_extent and is_array(self._scope.static(node.value))) or self._bound(self._scope.static(node))

    def _name(self, node: ast.Name) -> bool:
        if self._of_host:
            leaf = self._unit.leaves.get(node.id)
            return leaf is not None and self._bound(LeafRef(leaf))
        values = values_of(self._scope, node)
        if values is None:
            return self._bound(self._scope.lookup(node))
        if node.id in self._seen:
            return True
        self._seen.add(node.id)
        return all(value is not None and (is_range(self._scope, value) or self.is_python_integer(value)) for value in values)

    def _bound(self, bound: Binding | None) -> bool:
        match bound:
            case LeafRef(leaf=leaf):
                type_ = leaf.type
                return isinstance(type_, ScalarType) and type_.weak and type_.dtype in ("int64", "bool")
            case Value(value=value):
                return isinstance(value, int)
            case HostExpr(expr=expr):
                return _Origins(self._unit, self._scope, of_host=True).is_python_integer(expr)
        return isinstance(bound, SlotRef)


def static_object(scope: Scope, node: ast.expr) -> object:
    """The object that ``node`` stands for at compile time; None where it stands for none."""
    bound = scope.static(node)
    return bound.value if isinstance(bound, Value) else None


def is_array(bound: Binding | None) -> bool:
    """Whether a name stands for an array, or a part of one."""
    return isinstance(bound, ViewRef) or (isinstance(bound, LeafRef) and bound.is_array)


def values_of(scope: Scope, node: ast.Name) -> list[ast.expr | None] | None:
    """All that the function assigns to a local name, the iterable of a loop for its items; None where the name is not local.

    None in the list stands for a value that is not followed: an argument, or a part of a pattern.
    """
    source, bound = scope.source, scope.names.get(node.id)
    unbound = bound is None and node.id in source.function.__code__.co_varnames
    if not unbound and not isinstance(bound, (Private, ScalarRef, Poisoned)):
        return None
    if node.id in source.signature.parameters:
        return [None]
    return [*_assigned(source.tree, node.id)] or [None]


def is_range(scope: Scope, value: ast.expr) -> bool:
    """Whether an expression, which a loop goes over, gives integers of Python."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, (ast.Name, ast.Attribute)):
        return False
    return is_one_of(static_object(scope, value.func), _RANGES)


def _assigned(tree: ast.FunctionDef, name: str) -> Iterator[ast.expr | None]:
    """All that a function assigns to a name; None for a value that is not looked at."""
    for node in nodes_of(tree):
        match node:
            case ast.Assign():
                for target in node.targets:
                    yield from _parts(target, node.value, name)
            case ast.AugAssign(target=ast.Name(id=found)) if found == name:
                yield ast.BinOp(node.target, node.op, node.value)
            case (
                ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=found), value=value)
                | ast.For(target=ast.Name(id=found), iter=value)
            ) if found == name:
                yield value
            case ast.For(target=ast.Tuple(elts=parts)) if any(isinstance(part, ast.Name) and part.id == name for part in parts):
                yield node.iter
            case ast.MatchAs(name=found) | ast.MatchStar(name=found) if found == name:
                yield None


def _parts(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr | None]:
    if isinstance(target, ast.Name):
        if target.id == name:
            yield value
        return
    if not isinstance(target, ast.Tuple):
        return
    for position, part in enumerate(target.elts):
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            yield from _parts(part, value.elts[position], name)
        elif isinstance(part, ast.Name) and part.id == name:
            yield ast.Subscript(value, ast.Constant(position), ast.Load())
        elif any(isinstance(child, ast.Name) and child.id == name for child in nodes_of(part)):
            yield None
