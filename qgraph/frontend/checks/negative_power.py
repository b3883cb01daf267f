"""Powers that are of another type than their operands where Python computes them: a float of integers, complex of floats.

The first where the exponent is negative, the second where Python's base is and the exponent no integer: NumPy's power is nan.
"""

from __future__ import annotations

import ast

import numpy as np

from qgraph.errors import ArgumentError
from qgraph.frontend.checks.rounding import are_pythons
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.indexing import is_natural
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.argument_types import ScalarType
from qgraph.ir.faults import Fault
from qgraph.operations import intrinsics
from qgraph.source import as_written, nodes_of


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
    fraction = kinds[1] in (None, "f") and _may_be_complex(base, exponent)
    return intrinsics.real_power if fraction and are_pythons(unit, scope, base, exponent) else None


def is_checked_of_host(unit: ProgramBuilder, base: ast.expr, exponent: ast.expr) -> bool:
    """Whether ``base ** exponent`` of an expression of the host, whose names are leaves, may be complex."""
    leaves = [unit.leaves.get(node.id) for part in (base, exponent) for node in nodes_of(part) if isinstance(node, ast.Name)]
    scalars = [leaf.type for leaf in leaves if leaf is not None and isinstance(leaf.type, ScalarType)]
    return _may_be_complex(base, exponent) and bool(scalars) and all(type_.weak for type_ in scalars)


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


def _may_be_complex(base: ast.expr, exponent: ast.expr) -> bool:
    """Whether a power of real numbers may be complex, as far as they are written; that of two literals is Python's."""
    literals = all(
        isinstance(node, ast.Constant | ast.UnaryOp | ast.unaryop) for each in (base, exponent) for node in nodes_of(each)
    )
    return not literals and _may_be_negative(base) and _may_be_fraction(exponent)


def _may_be_negative(base: ast.expr) -> bool:
    """Whether a number may be less than 0, as far as it is made of literals and squares."""
    match base:
        case ast.Constant(value=int(value) | float(value)):
            return value < 0
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if ast.dump(left) == ast.dump(right):
            return False
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
            return False
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add() | ast.Div(), right=right):
            return _may_be_negative(left) or _may_be_negative(right)
    return True


def _may_be_fraction(exponent: ast.expr) -> bool:
    match exponent:
        case ast.Constant(value=int(value) | float(value)) | ast.UnaryOp(operand=ast.Constant(value=int(value) | float(value))):
            return not float(value).is_integer()
    return True
