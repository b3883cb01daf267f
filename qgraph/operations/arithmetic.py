"""The operators of Python, with NumPy's functions of the same meaning."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from qgraph.operations import intervals, intrinsics
from qgraph.operations.record import Operation, typed


def _operator(
    syntax: type[ast.AST],
    symbol: str,
    function: Any,
    ufunc: np.ufunc | None,
    typing: Callable[[Any, Any], Any] | None,
    **more: Any,
) -> Operation:
    """The record of an operator; the augmented assignment, where Python has one, is the same operation."""
    name = f"i{function.__name__.strip('_')}"
    functions = (function, getattr(operator, name)) if hasattr(operator, name) else (function,)
    functions += more.pop("also", ())
    ufuncs = () if ufunc is None else (ufunc,)
    return Operation(functions=functions, ufuncs=ufuncs, syntax=syntax, symbol=symbol, typing=typing, **more)


def _comparison(syntax: type[ast.cmpop], symbol: str, function: Any, ufunc: np.ufunc) -> Operation:
    return _operator(syntax, symbol, function, ufunc, lambda rules, code: rules.comparison(symbol))


ARITHMETIC = (
    _operator(
        ast.Add,
        "+",
        operator.add,
        np.add,
        lambda rules, code: rules.no_booleans(code.add, "+"),
        interval=intervals.corners(operator.add),
        integers_of_integers=True,
        reassociable=intrinsics.reassociable_add,
    ),
    _operator(
        ast.Sub,
        "-",
        operator.sub,
        np.subtract,
        lambda rules, code: rules.no_booleans(code.subtract, "-"),
        interval=intervals.corners(operator.sub),
        integers_of_integers=True,
        reassociable=intrinsics.reassociable_subtract,
    ),
    _operator(
        ast.Mult,
        "*",
        operator.mul,
        np.multiply,
        lambda rules, code: rules.bits(code.multiply),
        interval=intervals.corners(operator.mul),
        integers_of_integers=True,
        reassociable=intrinsics.reassociable_multiply,
    ),
    _operator(ast.Div, "/", operator.truediv, np.true_divide, lambda rules, code: rules.divide),
    _operator(
        ast.FloorDiv,
        "//",
        operator.floordiv,
        np.floor_divide,
        lambda rules, code: rules.division(code.floor_divide),
        interval=intervals.quotient,
        integers_of_integers=True,
    ),
    _operator(
        ast.Mod,
        "%",
        operator.mod,
        np.remainder,
        lambda rules, code: rules.division(code.modulo),
        interval=intervals.remainder,
        integers_of_integers=True,
    ),
    _operator(
        ast.Pow,
        "**",
        operator.pow,
        np.power,
        lambda rules, code: rules.power,
        interval=intervals.power,
        also=(builtins.pow,),
    ),
    _operator(
        ast.BitAnd,
        "&",
        operator.and_,
        np.bitwise_and,
        lambda rules, code: rules.integers_only(rules.bits(code.bit_and), "&"),
        interval=intervals.bits(operator.and_),
    ),
    _operator(
        ast.BitOr,
        "|",
        operator.or_,
        np.bitwise_or,
        lambda rules, code: rules.integers_only(rules.bits(code.bit_or), "|"),
        interval=intervals.bits(operator.or_),
    ),
    _operator(
        ast.BitXor,
        "^",
        operator.xor,
        np.bitwise_xor,
        lambda rules, code: rules.integers_only(rules.bits(code.bit_xor), "^"),
        interval=intervals.bits(operator.xor),
    ),
    _operator(
        ast.LShift,
        "<<",
        operator.lshift,
        np.left_shift,
        lambda rules, code: rules.integers_only(rules.arithmetic(code.shift_left), "<<"),
        interval=intervals.left_shift,
    ),
    _operator(
        ast.RShift,
        ">>",
        operator.rshift,
        np.right_shift,
        lambda rules, code: rules.integers_only(rules.arithmetic(code.shift_right), ">>"),
        interval=intervals.right_shift,
    ),
    _operator(ast.MatMult, "@", operator.matmul, None, None),
    _comparison(ast.Lt, "<", operator.lt, np.less),
    _comparison(ast.LtE, "<=", operator.le, np.less_equal),
    _comparison(ast.Gt, ">", operator.gt, np.greater),
    _comparison(ast.GtE, ">=", operator.ge, np.greater_equal),
    _comparison(ast.Eq, "==", operator.eq, np.equal),
    _comparison(ast.NotEq, "!=", operator.ne, np.not_equal),
    _operator(
        ast.USub,
        "-",
        operator.neg,
        None,
        lambda rules, code: rules.signed(code.negative, "-"),
        interval=intervals.corners(operator.neg),
        integers_of_integers=True,
    ),
    _operator(
        ast.UAdd,
        "+",
        operator.pos,
        None,
        lambda rules, code: rules.signed(code.identity, "+"),
        interval=intervals.corners(operator.pos),
        integers_of_integers=True,
    ),
    _operator(
        ast.Invert,
        "~",
        operator.invert,
        np.invert,
        lambda rules, code: rules.integers_only(rules.invert, "~"),
        interval=intervals.corners(operator.invert),
    ),
    # NumPy's negative and positive treat booleans as Python does.
    typed(
        np.negative,
        lambda rules, code: rules.otherwise(rules.unary(code.negative), operator.neg),
        takes="numbers that are no booleans",
    ),
    typed(
        np.positive,
        lambda rules, code: rules.otherwise(rules.unary(code.identity), operator.pos),
        takes="numbers that are no booleans",
    ),
    typed(operator.index, lambda rules, code: rules.index),
)
