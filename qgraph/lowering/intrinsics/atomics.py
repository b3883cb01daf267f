"""Atomics and split additions as intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from qgraph import language
from qgraph.lowering.intrinsics.intrinsic import Intrinsic, element
from qgraph.lowering.intrinsics.min_max_updates import check_kept, nearest
from qgraph.lowering.number_types.number_llvm import Emitter, is_float, is_signed, less, types
from qgraph.lowering.number_types.type_promotion import is_number, plain
from qgraph.operations import intrinsics
from qgraph.operations.combinations import BY_ATOMIC

_DTYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")
# LLVM's names.
_BITWISE = {language.atomic_and_: "and", language.atomic_or_: "or", language.atomic_xor: "xor"}


def _is_sum(function: Any) -> bool:
    return function in BY_ATOMIC and BY_ATOMIC[function][0].name == "+"


def _keeps(function: Any) -> str:
    return BY_ATOMIC[function][0].keeps if function in BY_ATOMIC else ""


def atomic_word(function: Any) -> Intrinsic:
    """The Numba type of one of ``language.ATOMICS``."""
    return Intrinsic(function.__name__, _atomic_typer(function), _atomic_emitter(function))


def _atomic_typer(function: Any) -> Callable[[Any, tuple[Any, ...]], Any]:
    name = function.__name__
    values = 2 if function is language.atomic_cas else 1

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        if len(args) != 2 + values:
            raise context.typing_error(f"{name}() takes {2 + values} arguments, not {len(args)}")
        array, index, *operands = args
        if not isinstance(array, types.Array):
            raise context.typing_error(f"{name}() needs an array, not {plain(array)}")
        if not array.mutable:
            raise context.typing_error(f"{name}() on a read-only array")
        _check_dtype(context, function, array.dtype)
        _check_index(context, name, array, index)
        in_parts = isinstance(array.dtype, types.Complex)
        for operand in operands:
            if not is_number(operand) or (isinstance(operand, types.Complex) and not in_parts):
                raise context.typing_error(f"{name}() cannot store {plain(operand)} in {array.dtype}")
            if _is_sum(function) and is_float(plain(operand)) and not (in_parts or is_float(array.dtype)):
                found = f"floats are combined in elements of type {array.dtype}"
                raise context.typing_error(f"{found}, where Python drops the fraction after each iteration")
        stored = [array.dtype] * values
        keeps = _keeps(function)
        if keeps:
            check_kept(context, operands[0], array.dtype, keeps)
            stored = [plain(operands[0])]
        # What a complex number was at one moment nobody knows, whose parts are updated one after the other.
        old = types.none if in_parts else array.dtype
        return context.make_signature(old, array, _index_type(index), *stored)

    return typer


def split_word(function: Any) -> Intrinsic:
    """The Numba type of one of ``intrinsics.SPLIT``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        array, index, _value = args
        _check_index(context, function.__name__, array, index)
        return context.make_signature(types.none, array, _index_type(index), array.dtype)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        pointer, value = element(context, builder, sig, args), args[2]
        half = ir.IntType(32)
        low_place = builder.bitcast(pointer, half.as_pointer())
        high_place = builder.gep(low_place, [ir.Constant(half, 1)])
        value = builder.neg(value) if function is intrinsics.split_sub else value
        low = builder.trunc(value, half)
        high = builder.trunc(builder.lshr(value, ir.Constant(value.type, 32)), half)
        old = builder.atomic_rmw("add", low_place, low, "monotonic")
        carry = builder.icmp_unsigned("<", builder.add(old, low), low)
        more = builder.add(high, builder.zext(carry, half))
        with builder.if_then(builder.icmp_unsigned("!=", more, ir.Constant(half, 0)), likely=False):
            builder.atomic_rmw("add", high_place, more, "monotonic")
        return context.get_dummy_value()

    return Intrinsic(function.__name__, typer, emit)


def _check_dtype(context: Any, function: Any, dtype: Any) -> None:
    name = function.__name__
    if isinstance(dtype, types.Complex) and _is_sum(function):
        return
    if dtype.name not in _DTYPES:
        raise context.typing_error(f"{name}() on {dtype}: atomics exist for {', '.join(_DTYPES)}")
    integers_only = function in _BITWISE or function is language.atomic_cas
    if integers_only and is_float(dtype):
        raise context.typing_error(f"{name}() on {dtype}: it needs integers of 32 or 64 bits")


def _check_index(context: Any, name: str, array: Any, index: Any) -> None:
    items = tuple(index.types) if isinstance(index, types.BaseTuple) else (index,)
    if len(items) != array.ndim:
        raise context.typing_error(f"{name}() on {array.ndim} dimensions with {len(items)} indices")
    if not all(isinstance(item, types.Integer) for item in items):
        raise context.typing_error(f"{name}() needs integer indices, not {', '.join(str(plain(item)) for item in items)}")


def _index_type(index: Any) -> Any:
    if isinstance(index, types.BaseTuple):
        return types.BaseTuple.from_types(tuple(types.intp for _ in index.types)) if index.types else index
    return types.intp


def _atomic_emitter(function: Any) -> Emitter:
    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        pointer = element(context, builder, sig, args)
        dtype, values = sig.args[0].dtype, list(args[2:])
        if isinstance(dtype, types.Complex):
            return _update_parts(context, builder, function, dtype, pointer, values[0])
        if sig.args[-1] != dtype:
            values[-1] = nearest(context, builder, sig.args[-1], dtype, values[-1], _keeps(function))
        return _update(context, builder, function, dtype, pointer, values)

    return emit


def _update(context: Any, builder: Any, function: Any, dtype: Any, pointer: Any, values: Sequence[ir.Value]) -> ir.Value:
    value = values[-1]
    if function is language.atomic_cas:
        pair = builder.cmpxchg(pointer, values[0], value, "monotonic", "monotonic")
        return builder.extract_value(pair, 0)
    if function in _BITWISE:
        return builder.atomic_rmw(_BITWISE[function], pointer, value, "monotonic")
    if function is language.atomic_exch:
        return _exchange(builder, dtype, pointer, value)
    if function in (language.atomic_min, language.atomic_max):
        return _atomic_extreme(builder, dtype, pointer, value, function is language.atomic_max)
    if is_float(dtype):
        if function is language.atomic_sub:
            value = builder.fsub(ir.Constant(value.type, -0.0), value)
        return context.atomic_float_add(builder, pointer, value)
    return builder.atomic_rmw("sub" if function is language.atomic_sub else "add", pointer, value, "monotonic")


def _update_parts(context: Any, builder: Any, function: Any, dtype: Any, pointer: Any, value: ir.Value) -> ir.Value:
    """The sum or difference of a complex number, real and imaginary part by itself."""
    of_value = context.make_complex(builder, dtype, value)
    kind = context.get_data_type(dtype.underlying_float)
    places = builder.bitcast(pointer, kind.as_pointer())
    for number, part in enumerate((of_value.real, of_value.imag)):
        place = builder.gep(places, [ir.Constant(ir.IntType(32), number)])
        _update(context, builder, function, dtype.underlying_float, place, [part])
    return context.get_dummy_value()


def _as_integer(builder: Any, dtype: Any, pointer: Any) -> tuple[Any, Any]:
    integer = ir.IntType(dtype.bitwidth)
    return integer, builder.bitcast(pointer, integer.as_pointer())


def _exchange(builder: Any, dtype: Any, pointer: Any, value: ir.Value) -> ir.Value:
    if not is_float(dtype):
        return builder.atomic_rmw("xchg", pointer, value, "monotonic")
    integer, place = _as_integer(builder, dtype, pointer)
    old = builder.atomic_rmw("xchg", place, builder.bitcast(value, integer), "monotonic")
    return builder.bitcast(old, value.type)


def _atomic_extreme(builder: Any, dtype: Any, pointer: Any, value: ir.Value, largest: bool) -> ir.Value:
    if not is_float(dtype):
        name = ("" if is_signed(dtype) else "u") + ("max" if largest else "min")
        return builder.atomic_rmw(name, pointer, value, "monotonic")

    def better(old: ir.Value) -> ir.Value:
        return less(builder, dtype, old, value) if largest else less(builder, dtype, value, old)

    return _float_loop(builder, dtype, pointer, value, better)


def _float_loop(builder: Any, dtype: Any, pointer: Any, value: ir.Value, better: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """Compare and swap until the stored float is no worse than ``value``; returns what was there."""
    integer, place = _as_integer(builder, dtype, pointer)
    fresh = builder.bitcast(value, integer)
    start = builder.load(place)
    before = builder.block
    head, attempt, done = (builder.append_basic_block(f"atomic.{name}") for name in ("head", "try", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    seen = builder.phi(integer)
    seen.add_incoming(start, before)
    old = builder.bitcast(seen, value.type)
    builder.cbranch(better(old), attempt, done)
    builder.position_at_end(attempt)
    found = builder.extract_value(builder.cmpxchg(place, seen, fresh, "monotonic", "monotonic"), 0)
    seen.add_incoming(found, attempt)
    builder.cbranch(builder.icmp_unsigned("==", found, seen), done, head)
    builder.position_at_end(done)
    return old
