"""What an update that keeps the least or greatest number is given, as the type of the element that it updates.

A number that the element's type cannot hold becomes the closest one that it can: past the end that never counts, that changes
nothing. Past the other end Python raises when it stores the number; a negative one is refused where the type has no sign.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qgraph.lowering.number_types.number_llvm import is_float, is_signed, less, types
from qgraph.lowering.number_types.type_promotion import plain


def check_kept(context: Any, item: Any, dtype: Any, keeps: str) -> None:
    """Raise a typing error where a negative number may be the least of elements whose type ``dtype`` has no sign.

    Of int64, which a Python integer is too, only a literal is: ``frontend/checks/signedness.py`` tells the others. Nor may
    numbers be combined with booleans: stored, a number is whether it is 0, and what that is depends on the order.
    """
    kind = plain(item)
    if isinstance(dtype, types.Boolean) and not isinstance(kind, types.Boolean):
        raise context.typing_error(
            f"`{keeps}` of elements of type bool and {kind} is no boolean: write what is true, as in `a > 0`"
        )
    if keeps != "min" or not isinstance(dtype, types.Integer) or is_signed(dtype) or isinstance(kind, types.Boolean):
        return
    if (
        item.literal_value < 0
        if isinstance(item, types.IntegerLiteral)
        else is_float(kind) or (is_signed(kind) and kind != types.int64)
    ):
        raise context.typing_error(
            f"the least of elements of type {dtype} and {kind}, which may be negative: convert it, as in numpy.{dtype}(a)"
        )


def nearest(context: Any, builder: Any, kind: Any, dtype: Any, value: ir.Value, keeps: str) -> ir.Value:
    """``value``, of the Numba type ``kind``, as the closest number of ``dtype``; of nan the one that never counts."""
    if kind == types.float16:
        value, kind = context.cast(builder, value, kind, types.float32), types.float32
    if not isinstance(dtype, types.Integer) or isinstance(kind, types.Boolean):
        return context.cast(builder, value, kind, dtype)
    number = context.get_value_type(dtype)
    least, most = ir.Constant(number, dtype.minval), ir.Constant(number, dtype.maxval)
    below = above = ir.Constant(ir.IntType(1), 0)
    if is_float(kind):
        below = builder.fcmp_ordered("<", value, ir.Constant(value.type, float(dtype.minval)))
        # The first float that is too large: the largest integer need not be one.
        above = builder.fcmp_ordered(">=", value, ir.Constant(value.type, float(dtype.maxval + 1)))
        is_nan = builder.fcmp_unordered("uno", value, value)
        below, above = (below, builder.or_(above, is_nan)) if keeps == "min" else (builder.or_(below, is_nan), above)
    else:
        if kind.minval < dtype.minval:
            below = less(builder, kind, value, ir.Constant(value.type, dtype.minval))
        if kind.maxval > dtype.maxval:
            above = less(builder, kind, ir.Constant(value.type, dtype.maxval), value)
    outside = builder.or_(below, above)
    inside = builder.select(outside, ir.Constant(value.type, 0), value)
    converted = context.cast(builder, inside, kind, dtype)
    return builder.select(below, least, builder.select(above, most, converted))
