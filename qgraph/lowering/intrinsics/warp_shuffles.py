"""``intrinsics.across``: a warp shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from qgraph.lowering.intrinsics.intrinsic import Intrinsic, check_scalar
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.type_promotion import plain


def across_word() -> Intrinsic:
    """The Numba type of ``intrinsics.across``: shuffles of the 32-bit words that a number of any type has."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        check_scalar(context, args[0])
        value = plain(args[0])
        return context.make_signature(value, value, types.int32)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        value, offset = args
        kind = sig.args[0]
        if not isinstance(kind, types.Complex):
            return _shuffled(builder, value, offset)
        number, result = context.make_complex(builder, kind, value), context.make_complex(builder, kind)
        result.real, result.imag = (_shuffled(builder, part, offset) for part in (number.real, number.imag))
        return result._getvalue()

    return Intrinsic("across", typer, emit)


def _shuffled(builder: Any, value: ir.Value, offset: ir.Value) -> ir.Value:
    """``value``, an integer or float of up to 64 bits, of the thread whose number in the warp differs in the bit ``offset``."""
    word, kind = ir.IntType(32), value.type
    size = {"half": 16, "float": 32, "double": 64}.get(str(kind)) or kind.width
    bits = value if isinstance(kind, ir.IntType) else builder.bitcast(value, ir.IntType(size))
    wide = ir.IntType(64 if size > 32 else 32)
    bits = bits if size == wide.width else builder.zext(bits, wide)
    result = ir.Constant(wide, 0)
    for shift in range(0, wide.width, 32):
        part = builder.lshr(bits, ir.Constant(wide, shift)) if shift else bits
        part = _shuffle(builder, builder.trunc(part, word) if wide.width > 32 else part, offset)
        part = builder.zext(part, wide) if wide.width > 32 else part
        result = builder.or_(result, builder.shl(part, ir.Constant(wide, shift)) if shift else part)
    result = result if size == wide.width else builder.trunc(result, ir.IntType(size))
    return result if isinstance(kind, ir.IntType) else builder.bitcast(result, kind)


def _shuffle(builder: Any, part: ir.Value, offset: ir.Value) -> ir.Value:
    word = ir.IntType(32)
    # All threads of the warp; bfly; within all 32.
    everybody, mode, clamp = (ir.Constant(word, number) for number in (0xFFFFFFFF, 3, 31))
    shape = ir.FunctionType(ir.LiteralStructType((word, ir.IntType(1))), [word] * 5)
    function = cgutils.get_or_insert_function(builder.module, shape, "llvm.nvvm.shfl.sync.i32")
    return builder.extract_value(builder.call(function, [everybody, mode, part, offset, clamp]), 0)
