"""The intrinsic that cuts a parallel loop of the CPU into chunks: one small function a module, which needs no typing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qgraph.lowering.intrinsics.intrinsic import Intrinsic, signature
from qgraph.lowering.number_types.number_llvm import types

_I64 = ir.IntType(64)
_RESULT = ir.LiteralStructType([_I64] * 3)
_NAME = "qgraph_split_rows"


def split_rows_word() -> Intrinsic:
    """The Numba type of ``intrinsics.split_rows``."""
    result = types.UniTuple(types.intp, 3)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        found = builder.call(_function(builder.module), args)
        return context.make_tuple(builder, result, [builder.extract_value(found, index) for index in range(3)])

    return Intrinsic("split_rows", signature(result, *[types.intp] * 4), emit)


def _function(module: ir.Module) -> ir.Function:
    """``intrinsics.split_rows`` in LLVM's words, statement by statement; the loop that doubles is a count of leading zeros."""
    if _NAME in module.globals:
        return module.get_global(_NAME)
    function = ir.Function(module, ir.FunctionType(_RESULT, [_I64] * 4), _NAME)
    function.linkage = "linkonce_odr"
    # Inlined, it would be in the code of each call of a loop.
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    rows, cols, grain, most = function.args
    zero, one, two = (ir.Constant(_I64, number) for number in range(3))
    total = builder.mul(rows, cols)
    with builder.if_then(builder.icmp_signed("<=", total, zero)):
        _return(builder, zero, one, one)
    with builder.if_then(builder.icmp_signed("<=", total, grain)):
        _return(builder, one, rows, cols)
    # The least power of two from total / (1.5 * grain) on.
    exact = _divided(builder, builder.mul(total, two), builder.mul(grain, ir.Constant(_I64, 3)))
    part = builder.select(builder.icmp_signed("<", exact, most), exact, most)
    zeros = builder.ctlz(builder.sub(part, one), ir.Constant(ir.IntType(1), 0))
    power = builder.shl(one, builder.sub(ir.Constant(_I64, 64), zeros))
    wanted = builder.select(builder.icmp_signed("<", power, two), two, power)
    with builder.if_then(builder.icmp_signed(">=", rows, wanted)):
        row_step = _divided(builder, rows, wanted)
        _return(builder, _divided(builder, rows, row_step), row_step, cols)
    col_step = _divided(builder, cols, _divided(builder, wanted, rows))
    _return(builder, builder.mul(rows, _divided(builder, cols, col_step)), one, col_step)
    return function


def _divided(builder: Any, number: ir.Value, by: ir.Value) -> ir.Value:
    """Rounded up."""
    return builder.udiv(builder.sub(builder.add(number, by), ir.Constant(_I64, 1)), by)


def _return(builder: Any, *values: ir.Value) -> None:
    result = ir.Constant(_RESULT, ir.Undefined)
    for index, value in enumerate(values):
        result = builder.insert_value(result, value, index)
    builder.ret(result)
