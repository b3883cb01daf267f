"""The operators of Python, with NumPy's functions of the same meaning."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from qgraph.operations import intervals, intrinsics
from qgraph.operations.record import Operation


def _binary() -> Iterator[Operation]:
    yield Operation(
        functions=(operator.add, operator.iadd),
        ufuncs=(np.add,),
        syntax=ast.Add,
        symbol="+",
        typing=lambda rules, code: rules.no_booleans(code.add, "+"),
        interval=intervals.corners(operator.add),
        integers_of_integers=True,
        reassociable=intrinsics.reassociable_add,
    )
    yield Operation(
        functions=(operator.sub, operator.isub),
        ufuncs=(np.subtract,),
        syntax=ast.Sub,
        symbol="-",
        typing=lambda rules, code: rules.no_booleans(code.subtract, "-"),
        interval=intervals.corners(operator.sub),
        integers_of_integers=True,
        reassociable=intrinsics.reassociable_subtract,
    )
    yield Operation(
        functions=(operator.mul, operator.imul),
        ufuncs=(np.multiply,),
        syntax=ast.Mult,
        symbol="*",
        typing=lambda rules, code: rules.bits(code.multiply),
        interval=intervals.corners(operator.mul),
        integers_of_integers=True,
        reassociable=intrinsics.reassociable_multiply,
    )
    yield Operation(
        functions=(operator.truediv, operator.itruediv),
        ufuncs=(np.true_divide,),
        syntax=ast.Div,
        symbol="/",
        typing=lambda rules, code: rules.divide,
    )
    yield Operation(
        functions=(operator.floordiv, operator.ifloordiv),
        ufuncs=(np.floor_divide,),
        syntax=ast.FloorDiv,
        symbol="//",
        typing=lambda rules, code: rules.arithmetic(code.floor_divide),
        interval=intervals.quotient,
        integers_of_integers=True,
    )
    yield Operation(
        functions=(operator.mod, operator.imod),
        ufuncs=(np.remainder,),
        syntax=ast.Mod,
        symbol="%",
        typing=lambda rules, code: rules.arithmetic(code.modulo),
        interval=intervals.remainder,
        integers_of_integers=True,
    )
    yield Operation(
        functions=(operator.pow, operator.ipow, builtins.pow),
        ufuncs=(np.power,),
        syntax=ast.Pow,
        symbol="**",
        typing=lambda rules, code: rules.power,
        interval=intervals.power,
    )
    yield Operation(
        functions=(operator.and_, operator.iand),
        ufuncs=(np.bitwise_and,),
        syntax=ast.BitAnd,
        symbol="&",
        typing=lambda rules, code: rules.integers_only(rules.bits(code.bit_and), "&"),
        interval=intervals.bits(operator.and_),
    )
    yield Operation(
        functions=(operator.or_, operator.ior),
        ufuncs=(np.bitwise_or,),
        syntax=ast.BitOr,
        symbol="|",
        typing=lambda rules, code: rules.integers_only(rules.bits(code.bit_or), "|"),
        interval=intervals.bits(operator.or_),
    )
    yield Operation(
        functions=(operator.xor, operator.ixor),
        ufuncs=(np.bitwise_xor,),
        syntax=ast.BitXor,
        symbol="^",
        typing=lambda rules, code: rules.integers_only(rules.bits(code.bit_xor), "^"),
        interval=intervals.bits(operator.xor),
    )
    yield Operation(
        functions=(operator.lshift, operator.ilshift),
        ufuncs=(np.left_shift,),
        syntax=ast.LShift,
        symbol="<<",
        typing=lambda rules, code: rules.integers_only(rules.arithmetic(code.shift_left), "<<"),
        interval=intervals.left_shift,
    )
    yield Operation(
        functions=(operator.rshift, operator.irshift),
        ufuncs=(np.right_shift,),
        syntax=ast.RShift,
        symbol=">>",
        typing=lambda rules, code: rules.integers_only(rules.arithmetic(code.shift_right), ">>"),
        interval=intervals.right_shift,
    )
    yield Operation(functions=(operator.matmul, operator.imatmul), syntax=ast.MatMult, symbol="@")


_COMPARISONS = (
    ("<", ast.Lt, operator.lt, np.less),
    ("<=", ast.LtE, operator.le, np.less_equal),
    (">", ast.Gt, operator.gt, np.greater),
    (">=", ast.GtE, operator.ge, np.greater_equal),
    ("==", ast.Eq, operator.eq, np.equal),
    ("!=", ast.NotEq, operator.ne, np.not_equal),
)


def _comparison(symbol: str, syntax: type[ast.cmpop], function: Any, ufunc: np.ufunc) -> Operation:
    return Operation(
        functions=(function,),
        ufuncs=(ufunc,),
        syntax=syntax,
        symbol=symbol,
        typing=lambda rules, code: rules.comparison(symbol),
    )


def _unary() -> Iterator[Operation]:
    yield Operation(
        functions=(operator.neg,),
        syntax=ast.USub,
        symbol="-",
        typing=lambda rules, code: rules.signed(code.negative, "-"),
        interval=intervals.corners(operator.neg),
        integers_of_integers=True,
    )
    yield Operation(
        functions=(operator.pos,),
        syntax=ast.UAdd,
        symbol="+",
        typing=lambda rules, code: rules.signed(code.identity, "+"),
        interval=intervals.corners(operator.pos),
        integers_of_integers=True,
    )
    yield Operation(
        functions=(operator.invert,),
        ufuncs=(np.invert,),
        syntax=ast.Invert,
        symbol="~",
        typing=lambda rules, code: rules.integers_only(rules.invert, "~"),
        interval=intervals.corners(operator.invert),
    )
    # NumPy's have no opinion of booleans that differs from Python's.
    yield Operation(ufuncs=(np.negative,), typing=lambda rules, code: rules.unary(code.negative))
    yield Operation(ufuncs=(np.positive,), typing=lambda rules, code: rules.unary(code.identity))
    yield Operation(functions=(operator.index,), typing=lambda rules, code: rules.index)


ARITHMETIC = (*_binary(), *(_comparison(*each) for each in _COMPARISONS), *_unary())
