"""Powers that are of another type than their operands where Python computes them: a float of integers, complex of floats.

The first where the exponent is negative, the second where Python's base is and the exponent no integer: NumPy's power is nan.
"""

from __future__ import annotations

import ast
import builtins
import math

import numpy as np

from qgraph.errors import ArgumentError
from qgraph.frontend.checks.rounding import are_pythons
from qgraph.frontend.checks.zero_division import static_object, values_of
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.indexing import is_natural
from qgraph.frontend.names.bindings import HostExpr, Value
from qgraph.frontend.names.host_integers import never_negative
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.argument_types import ScalarType
from qgraph.ir.faults import Fault
from qgraph.operations import intrinsics
from qgraph.operations.table import is_one_of
from qgraph.source import as_written, nodes_of

_NEVER_NEGATIVE = (
    *(abs, len, math.sqrt, math.exp, math.exp2, math.fabs, math.hypot, math.cosh),
    *(np.abs, np.fabs, np.sqrt, np.square, np.exp, np.exp2, np.hypot, np.cosh),
)


def checking_power(unit: ProgramBuilder, scope: Scope, base: ast.expr, exponent: ast.expr) -> object:
    """The word that notes the fault of ``base ** exponent``; None where it has none. A literal is judged where types are."""
    if constant_of(exponent) is not None or is_natural(scope, exponent):
        return None
    kinds = [(dtype := element_type(scope, each)) and dtype.kind for each in (base, exponent)]
    if "c" in kinds:
        return None
    if "f" not in kinds:
        return None if kinds[1] == "u" else intrinsics.power
    # One of Python's and one of NumPy's make one of NumPy's.
    fraction = kinds[1] in (None, "f") and _may_be_complex(base, exponent, _Sign(unit, scope))
    return intrinsics.real_power if fraction and are_pythons(unit, scope, base, exponent) else None


def checking_power_of_host(unit: ProgramBuilder, base: ast.expr, exponent: ast.expr) -> object:
    """The same of an expression of the host, whose names are leaves."""
    leaves = [unit.leaves.get(node.id) for part in (base, exponent) for node in nodes_of(part) if isinstance(node, ast.Name)]
    scalars = [leaf.type for leaf in leaves if leaf is not None and isinstance(leaf.type, ScalarType)]
    kinds = {np.dtype(type_.dtype).kind for type_ in scalars}
    if "c" in kinds or constant_of(exponent) is not None or (isinstance(base, ast.Constant) and isinstance(base.value, float)):
        return None
    floats = "f" in kinds or any(map(_may_be_float, (*nodes_of(base), *nodes_of(exponent))))
    pythons = bool(scalars) and all(type_.weak for type_ in scalars)
    if floats and pythons and _may_be_complex(base, exponent, _Sign(unit, None)):
        return intrinsics.real_power
    return None if never_negative(unit.host_integers.of(exponent)) else intrinsics.power


def _may_be_float(node: ast.AST) -> bool:
    """Whether a part of an expression may be a float where all names in it are integers."""
    return isinstance(node, ast.Div | ast.Call) or (isinstance(node, ast.Constant) and isinstance(node.value, float))


def is_power(callee: object, node: ast.Call) -> bool:
    """Whether a call means ``base ** exponent``."""
    return len(node.args) == 2 and not node.keywords and (callee is pow or callee is np.power)


def fault_of_power(scope: Scope, node: ast.expr, word: object, text: str = "") -> Fault:
    """What ``node``, a power of which ``word`` notes the fault and that is written ``text``, then did wrong."""
    if word is intrinsics.real_power:
        found = "is a negative number to a power that is no integer: a complex number in Python, and no number here"
        hint = "use the absolute value, or a complex number, as in `complex(a) ** k`"
    else:
        found = "is an integer to a negative power, which is not an integer"
        hint = "convert one of them to a float, as in `float(a) ** k`"
    return Fault(ArgumentError, scope.span(node), f"`{text or as_written(node)}` {found}", hint)


def _may_be_complex(base: ast.expr, exponent: ast.expr, sign: _Sign) -> bool:
    """Whether a power of real numbers may be complex, as far as they are written; that of two literals is Python's."""
    literals = all(
        isinstance(node, ast.Constant | ast.UnaryOp | ast.unaryop) for each in (base, exponent) for node in nodes_of(each)
    )
    return not literals and _may_be_fraction(exponent) and sign.may_be_negative(base)


class _Sign:
    """Flow-insensitive signs of real numbers, as far as they are written: a name is what is assigned to it anywhere."""

    def __init__(self, unit: ProgramBuilder, scope: Scope | None) -> None:
        self._unit = unit
        # None for an expression of the host, whose names are leaves.
        self._scope = scope
        # Names that are being looked at: one that depends on itself is what its other assignments are.
        self._seen: set[str] = set()

    def may_be_negative(self, node: ast.expr) -> bool:
        """Whether a number may be less than 0; nan is not."""
        match node:
            case ast.Constant(value=int(value) | float(value)):
                return value < 0
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if ast.dump(left) == ast.dump(right):
                return False
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return constant_of(exponent) != 2 and self.may_be_negative(base)
            case ast.BinOp(op=ast.Mult() | ast.Add() | ast.Div()) | ast.IfExp():
                parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node.left, node.right]
                return any(map(self.may_be_negative, parts))
            case ast.Call(args=args, keywords=[]) if args:
                function = self._function(node.func)
                if is_one_of(function, (max, np.maximum)):
                    return all(map(self.may_be_negative, args))
                if is_one_of(function, (min, float)):
                    return any(map(self.may_be_negative, args))
                # A loop's variable is what its range gives.
                return not is_one_of(function, _NEVER_NEGATIVE) and not (function is range and len(args) == 1)
            case ast.Name() if self._scope is not None:
                return self._name(self._scope, node)
        return True

    def _function(self, node: ast.expr) -> object:
        if self._scope is not None:
            return static_object(self._scope, node)
        return self._unit.host_names.get(node.id, getattr(builtins, node.id, None)) if isinstance(node, ast.Name) else None

    def _name(self, scope: Scope, node: ast.Name) -> bool:
        values = values_of(scope, node)
        if values is None:
            match scope.lookup(node):
                case Value(value=int(value) | float(value)):
                    return value < 0
                case HostExpr(expr=expr):
                    return _Sign(self._unit, None).may_be_negative(expr)
            return True
        if node.id in self._seen:
            return False
        self._seen.add(node.id)
        return any(value is None or self.may_be_negative(value) for value in values)


def _may_be_fraction(exponent: ast.expr) -> bool:
    match exponent:
        case ast.Constant(value=int(value) | float(value)) | ast.UnaryOp(operand=ast.Constant(value=int(value) | float(value))):
            return not float(value).is_integer()
    return True
