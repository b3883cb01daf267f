"""Intrinsics that note a fault of arithmetic: ``intrinsics.power``, ``real_power``, ``divisor``, ``shift_count``, ``step``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.number_types.number_llvm import call_library, is_float, is_signed, types
from qgraph.lowering.number_types.type_promotion import is_integral, plain

# Where the address of the elements stands in Numba's record of an array.
_DATA = 4


def power_word(name: str) -> Intrinsic:
    """The Numba type of ``intrinsics.power`` or ``intrinsics.real_power``."""
    # By the types of base and exponent, what computes the power.
    operators: dict[tuple[Any, ...], Any] = {}

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        base, exponent, *noting = args
        word = context.resolve_value_type(operator.pow)
        plainly = context.resolve_function_type(word, (base, exponent), {})
        if plainly is None:
            raise context.typing_error(f"no implementation of {plain(base)} ** {plain(exponent)}")
        operators[plainly.args] = (word, plainly)
        return context.make_signature(plainly.return_type, *plainly.args, *map(plain, noting))

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        kinds = tuple(sig.args[:2])
        if all(map(is_integral, kinds)) and is_signed(kinds[1]):
            negative = builder.icmp_signed("<", args[1], ir.Constant(args[1].type, 0))
            _note_where(builder, negative, *args[2:])
        elif name == "real_power" and kinds[0] == kinds[1] and is_float(kinds[0]):
            _note_where(builder, _is_complex(context, builder, kinds[0], *args[:2]), *args[2:])
        word, plainly = operators[kinds]
        return context.get_function(word, plainly)(builder, args[:2])

    return Intrinsic(name, typer, emit)


def _is_complex(context: Any, builder: Any, kind: Any, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """Whether a power of two floats of Python's is a complex number."""
    whole = call_library(context, builder, "floor", kind, [exponent])
    fraction = builder.fcmp_ordered("!=", whole, exponent)
    below = builder.fcmp_ordered("<", base, ir.Constant(base.type, 0.0))
    finite = builder.fcmp_ordered(">", base, ir.Constant(base.type, float("-inf")))
    return builder.and_(builder.and_(below, finite), fraction)


def divisor_word(name: str) -> Intrinsic:
    """The Numba type of ``intrinsics.divisor`` and ``intrinsics.shift_count``, or of ``intrinsics.step``, which is an int64."""
    is_step = name == "step"

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        kinds = [plain(argument) for argument in args]
        if is_step and is_integral(kinds[0]):
            kinds[0] = types.int64
        return context.make_signature(kinds[0], *kinds)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        value, *noting = args
        counts = name == "shift_count"
        if is_integral(sig.args[0]) and not (counts and not is_signed(sig.args[0])):
            symbol = "<" if counts else "=="
            is_wrong = builder.icmp_signed(symbol, value, ir.Constant(value.type, 0))
            _note_where(builder, is_wrong, *noting)
            if is_step:
                return builder.select(is_wrong, ir.Constant(value.type, 1 << 62), value)
        return value

    return Intrinsic(name, typer, emit)


def same_length_word() -> Intrinsic:
    """The Numba type of ``intrinsics.same_length``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.intp, types.intp, types.intp, *map(plain, args[2:]))

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        value, other, *noting = args
        differ = builder.icmp_signed("!=", value, other)
        _note_where(builder, differ, *noting)
        return builder.select(differ, ir.Constant(value.type, 0), value)

    return Intrinsic("same_length", typer, emit)


def _note_where(builder: Any, wrong: ir.Value, noted: ir.Value, number: ir.Value, slots: ir.Value, failed: ir.Value) -> None:
    with builder.if_then(wrong, likely=False):
        builder.store(ir.Constant(ir.IntType(64), 1), builder.gep(builder.extract_value(slots, _DATA), [failed]))
        # Threads that meet several faults at once leave the number of one of them: a word is written as a whole.
        first = builder.extract_value(noted, _DATA)
        with builder.if_then(builder.icmp_signed("==", builder.load(first), ir.Constant(number.type, 0))):
            builder.store(number, first)
