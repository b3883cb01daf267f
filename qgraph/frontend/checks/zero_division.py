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
from qgraph.ir.program import Fault
from qgraph.operations import intrinsics
from qgraph.source import as_written

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
    return any(raises_itself(unit, scope, node) for node in ast.walk(expr))


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
    """Where the numbers of an expression come from: a name is what is assigned to it anywhere in the function."""

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
                return isinstance(op, _EXACT) and self._all([node.left, node.right])
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
        bound = None if self._of_host else self._scope.static(node)
        return bound is not None and self._bound(bound)

    def _calls(self, node: ast.expr, *functions: object) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        if self._of_host:
            value = self._unit.host_names.get(node.func.id, getattr(builtins, node.func.id, None))
        else:
            bound = self._scope.static(node.func)
            value = bound.value if isinstance(bound, Value) else None
        return any(value is function for function in functions)

    def _attribute(self, node: ast.Attribute) -> bool:
        if self._of_host:
            return node.attr in ("size", "ndim")
        if node.attr in ("size", "ndim"):
            base = self._scope.static(node.value)
            if isinstance(base, ViewRef) or (isinstance(base, LeafRef) and base.is_array):
                return True
        bound = self._scope.static(node)
        return bound is not None and self._bound(bound)

    def _name(self, node: ast.Name) -> bool:
        if self._of_host:
            leaf = self._unit.leaves.get(node.id)
            return leaf is not None and self._bound(LeafRef(leaf))
        source = self._scope.source
        bound = self._scope.names.get(node.id)
        local = node.id in source.function.__code__.co_varnames
        if isinstance(bound, (Private, ScalarRef, Poisoned)) or (bound is None and local):
            if node.id in self._seen:
                return True
            self._seen.add(node.id)
            values = list(assigned(source.tree, node.id))
            is_parameter = node.id in source.signature.parameters
            return bool(values) and not is_parameter and all(map(self._assigns, values))
        return self._bound(self._scope.lookup(node))

    def _bound(self, bound: Binding) -> bool:
        match bound:
            case LeafRef(leaf=leaf):
                type_ = leaf.type
                return isinstance(type_, ScalarType) and type_.weak and type_.dtype in ("int64", "bool")
            case Value(value=value):
                return isinstance(value, int)
            case HostExpr(expr=expr):
                return _Origins(self._unit, self._scope, of_host=True).is_python_integer(expr)
        return isinstance(bound, SlotRef)

    def _assigns(self, value: ast.expr | None) -> bool:
        """Whether an assigned value is an integer of Python; the iterable of a loop stands for its items."""
        if value is None:
            return False
        return is_range(self._scope, value) or self.is_python_integer(value)


def is_range(scope: Scope, value: ast.expr) -> bool:
    """Whether an expression, which a loop goes over, gives integers of Python."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, (ast.Name, ast.Attribute)):
        return False
    bound = scope.static(value.func)
    return isinstance(bound, Value) and any(bound.value is function for function in _RANGES)


def assigned(tree: ast.FunctionDef, name: str) -> Iterator[ast.expr | None]:
    """All that a function assigns to a name; None for a value that is not looked at."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign():
                for target in node.targets:
                    yield from _parts(target, node.value, name)
            case ast.AugAssign(target=ast.Name(id=found)) if found == name:
                yield ast.BinOp(node.target, node.op, node.value)
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                yield value
            case ast.NamedExpr(target=ast.Name(id=found)) if found == name:
                yield node.value
            case ast.For(target=ast.Name(id=found)) if found == name:
                yield node.iter
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
        elif any(isinstance(child, ast.Name) and child.id == name for child in ast.walk(part)):
            yield None
