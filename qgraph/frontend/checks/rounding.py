"""``round(x, digits)``: CPython rounds its floats once, NumPy scales, rounds and scales back. So whose a number is matters."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import numpy as np

from qgraph.frontend.checks.zero_division import is_array, is_range, static_object, values_of
from qgraph.frontend.names.bindings import Binding, HostExpr, LeafRef, SlotRef, Value, ViewRef
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.ir.argument_types import ScalarType
from qgraph.ir.trees import operands_of
from qgraph.operations import intrinsics
from qgraph.operations.table import operation
from qgraph.source import nodes_of

# Whose a number may be: "python", "numpy", or "" where that is not known.
_Owners = frozenset[str]
_PYTHON: _Owners = frozenset({"python"})
_NUMPY: _Owners = frozenset({"numpy"})
_UNKNOWN: _Owners = frozenset({""})


def rounding_word(unit: ProgramBuilder, scope: Scope, number: ast.expr) -> object:
    """What rounds ``number`` to some digits: ``round`` as NumPy's numbers have it, or one of ``language``."""
    owners = _Owner(unit, scope).of(number)
    if owners == _NUMPY:
        return round
    return intrinsics.round_python if owners == _PYTHON else intrinsics.round_either


def are_pythons(unit: ProgramBuilder, scope: Scope, *numbers: ast.expr) -> bool:
    """Whether all ``numbers`` are surely Python's."""
    return all(_Owner(unit, scope).of(number) == _PYTHON for number in numbers)


class _Owner:
    """Flow-insensitive owners of numbers: a name is what is assigned to it anywhere in the function."""

    def __init__(self, unit: ProgramBuilder, scope: Scope) -> None:
        self._unit = unit
        self._scope = scope
        # Names that are being looked at: one that depends on itself is what its other assignments are.
        self._seen: set[str] = set()

    def of(self, node: ast.expr) -> _Owners:
        match node:
            case ast.Constant() | ast.Compare():
                return _PYTHON
            case ast.Name():
                return self._name(node)
            case ast.Subscript():
                return self._part(node)
            case ast.Attribute():
                bound = self._scope.static(node)
                return self._bound(bound) if bound is not None else self.of(node.value)
            case ast.BinOp():
                return self._met(operands_of(node))
            case ast.UnaryOp(operand=operand):
                return self.of(operand)
            case ast.IfExp(body=body, orelse=orelse):
                return self.of(body) | self.of(orelse)
            case ast.Call():
                return self._call(node)
        return _UNKNOWN

    def _met(self, nodes: Iterable[ast.expr]) -> _Owners:
        """What an operation gives: a number of NumPy where any operand is one."""
        each = [owners for owners in map(self.of, nodes) if owners]
        if _NUMPY in each:
            return _NUMPY
        return frozenset().union(*each)

    def _part(self, node: ast.Subscript) -> _Owners:
        bound = self._scope.static(node)
        if bound is not None:
            return self._bound(bound)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return _PYTHON
        return _NUMPY if is_array(self._scope.static(node.value)) else _UNKNOWN

    def _call(self, node: ast.Call) -> _Owners:
        match operation(static_object(self._scope, node.func)).owner:
            case "first" | "any" as which if node.args:
                return frozenset().union(*map(self.of, node.args if which == "any" else node.args[:1]))
            case "python" | "numpy" as owner:
                return frozenset({owner})
        return _UNKNOWN

    def _name(self, node: ast.Name) -> _Owners:
        values = values_of(self._scope, node)
        if values is None:
            return self._bound(self._scope.lookup(node))
        if node.id in self._seen:
            return frozenset()
        self._seen.add(node.id)
        owners = [
            _UNKNOWN if value is None else _PYTHON if is_range(self._scope, value) else self.of(value) for value in values
        ]
        self._seen.discard(node.id)
        return frozenset().union(*owners)

    def _bound(self, bound: Binding) -> _Owners:
        match bound:
            case LeafRef(leaf=leaf):
                return _PYTHON if isinstance(leaf.type, ScalarType) and leaf.type.weak else _NUMPY
            case ViewRef():
                return _NUMPY
            case SlotRef():
                return _PYTHON
            case Value(value=value):
                return _NUMPY if isinstance(value, np.generic) else _PYTHON
            case HostExpr(expr=expr):
                leaves = (
                    self._unit.leaves[n.id] for n in nodes_of(expr) if isinstance(n, ast.Name) and n.id in self._unit.leaves
                )
                owners = {self._bound(LeafRef(leaf)) for leaf in leaves if isinstance(leaf.type, ScalarType)}
                return _NUMPY if _NUMPY in owners else _PYTHON
        return _UNKNOWN
