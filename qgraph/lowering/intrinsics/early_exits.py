"""Intrinsics of faults at which an iteration ends: ``intrinsics.note_least``, ``least_key`` and ``attempt``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from qgraph.ir.faults import NO_KEY
from qgraph.lowering.intrinsics.intrinsic import Intrinsic, signature
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.type_promotion import plain

# Where the address of the elements stands in Numba's record of an array.
_DATA = 4
_WORD = ir.IntType(64)


def note_least_word() -> Intrinsic:
    """The Numba type of ``intrinsics.note_least``: threads that meet faults at once leave that of the smallest key."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        noted, _, slots, *_ = args
        integers = [types.int64] * len(args)
        return context.make_signature(types.none, noted, types.int64, slots, *integers[3:])

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        noted, number, slots, failed, first, key, *details = args
        words, scratch = (builder.extract_value(array, _DATA) for array in (noted, slots))
        builder.store(ir.Constant(_WORD, 1), builder.gep(scratch, [failed]))
        lock = builder.gep(scratch, [first])
        least = builder.gep(lock, [ir.Constant(_WORD, 1)])
        free, taken = (ir.Constant(_WORD, value) for value in (0, 1))
        # Few threads have a smaller key than all before them: few wait for the lock, and the rest is done with one atomic.
        smaller = builder.icmp_signed("<", key, builder.atomic_rmw("min", least, key, "monotonic"))
        with builder.if_then(smaller, likely=False):
            turn, inside = (builder.append_basic_block(f"fault.{name}") for name in ("turn", "inside"))
            builder.branch(turn)
            # The holder lets go before its warp goes round again, so that no thread waits for one of its own warp.
            builder.position_at_end(turn)
            seen = builder.extract_value(builder.cmpxchg(lock, free, taken, "monotonic", "monotonic"), 0)
            builder.cbranch(builder.icmp_unsigned("==", seen, free), inside, turn)
            builder.position_at_end(inside)
            # Whoever has the smallest key writes last: others see here that it is not theirs.
            now = builder.atomic_rmw("min", least, ir.Constant(_WORD, NO_KEY), "monotonic")
            with builder.if_then(builder.icmp_signed("==", key, now)):
                for place, value in enumerate((number, key, *details)):
                    builder.store(value, builder.gep(words, [ir.Constant(_WORD, place)]))
                context.fence(builder)
            builder.atomic_rmw("xchg", lock, free, "monotonic")
        return context.get_dummy_value()

    return Intrinsic("note_least", typer, emit)


def least_key_word() -> Intrinsic:
    """The Numba type of ``intrinsics.least_key``: an atomic that changes nothing asks no cache of one multiprocessor."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        place = builder.gep(builder.extract_value(args[0], _DATA), [args[1]])
        return builder.atomic_rmw("min", place, ir.Constant(_WORD, NO_KEY), "monotonic")

    return Intrinsic("least_key", signature(types.int64, None, types.int64), emit)


def attempt_word() -> Intrinsic:
    """The Numba type of ``intrinsics.attempt``: a call after which the caller goes on, though the function has raised."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        function, *operands = args[0], *map(plain, args[1:])
        called = context.resolve_function_type(function, tuple(operands[1:]), {})
        return context.make_signature(called.return_type, function, *operands)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        function, otherwise, *operands = sig.args
        called = context.make_signature(sig.return_type, *operands)
        context.add_linking_libs(getattr(context.get_function(function, called), "libs", ()))
        descriptor = context.typing_context.session.descriptors[function.get_impl_key(called)]
        given = [_uncounted(builder, kind, value) for kind, value in zip(operands, args[2:], strict=True)]
        status, result = context.call_internal_no_propagate(builder, descriptor, called, given)
        place = cgutils.alloca_once_value(builder, context.cast(builder, args[1], otherwise, sig.return_type))
        with builder.if_then(status.is_ok, likely=True):
            builder.store(result, place)
        return builder.load(place)

    return Intrinsic("attempt", typer, emit)


def _uncounted(builder: Any, kind: Any, value: ir.Value) -> ir.Value:
    """An array without an owner, as the caller holds it: no pass takes out what counts its references where code raises."""
    if not isinstance(kind, types.Array):
        return value
    (owner, *_) = value.type.elements
    return builder.insert_value(value, ir.Constant(owner, None), 0)
