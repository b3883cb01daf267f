"""Intrinsics that give a value: conversions, bounds, identities, a thread's stack memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from llvmlite import ir
from numba.core import cgutils
from numba.np.arrayobj import populate_array

from qgraph.lowering.intrinsics.intrinsic import Intrinsic, cast_to_result, check_scalar, element, signature
from qgraph.lowering.intrinsics.min_max_updates import check_kept, nearest
from qgraph.lowering.intrinsics.vectors import by_component, check_number_or_vector
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.rounded_floats import unfit
from qgraph.lowering.number_types.type_promotion import plain
from qgraph.lowering.number_types.vectors import component_of, shape_of
from qgraph.operations import intrinsics


def cast_word(dtype: Any, keeps: str = "") -> Intrinsic:
    """The Numba type of a ``program.Cast`` to the Numba number ``dtype``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        (item,) = args
        check_scalar(context, item)
        refused = unfit(item, dtype, "an integer is made of")
        if refused is not None:
            raise context.typing_error(refused)
        if keeps:
            check_kept(context, item, dtype, keeps)
        return context.make_signature(dtype, plain(item))

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        if keeps:
            return nearest(context, builder, sig.args[0], dtype, args[0], keeps)
        return context.cast(builder, args[0], sig.args[0], sig.return_type)

    return Intrinsic(f"as_{dtype}", typer, emit)


def match_word() -> Intrinsic:
    """The Numba type of ``intrinsics.match_subject``: an integer as it is, a typing error for anything else."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        (item,) = args
        if not isinstance(plain(item), types.Integer | types.Boolean):
            raise context.typing_error(f"match on {plain(item)}: kernels match integers")
        return context.make_signature(types.int64, plain(item))

    return Intrinsic("match_subject", typer, cast_to_result)


def division_word(name: str) -> Intrinsic:
    """The Numba type of ``intrinsics.quotient`` or ``intrinsics.remainder``: unsigned."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return (builder.udiv if name == "quotient" else builder.urem)(*args)

    return Intrinsic(name, signature(types.intp, types.intp, types.intp), emit)


def assume_u32_word() -> Intrinsic:
    """The Numba type of ``intrinsics.assume_u32``: no code that is left, once LLVM knows that the higher bits are zero."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.zext(builder.trunc(args[0], ir.IntType(32)), args[0].type)

    return Intrinsic("assume_u32", signature(types.intp, types.intp), emit)


def unfused_word() -> Intrinsic:
    """The Numba type of ``intrinsics.unfused``: a move that NVVM cannot look through; ``with_unfused`` tells ptxas."""
    moves = {ir.FloatType(): ("f", "b32"), ir.DoubleType(): ("d", "b64")}

    def moved(builder: Any, value: ir.Value) -> ir.Value:
        if isinstance(value.type, ir.LiteralStructType):
            for part in range(2):
                value = builder.insert_value(value, moved(builder, builder.extract_value(value, part)), part)
            return value
        if value.type not in moves:
            return value
        register, bits = moves[value.type]
        text = f"mov.{bits} $0, $1; {intrinsics.UNFUSED}"
        return builder.asm(ir.FunctionType(value.type, [value.type]), text, f"={register},{register}", [value], False)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return moved(builder, args[0])

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        value = plain(args[0])
        return context.make_signature(value, value)

    return Intrinsic("unfused", typer, emit)


def bound_word(*, assume: bool) -> Intrinsic:
    """The Numba type of ``intrinsics.assume_ge``: no code; with ``assume`` an assumption that LLVM may use."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        value = plain(args[0])
        return context.make_signature(value, value, types.intp)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        value, bound = args
        if assume and sig.args[0] == types.intp:
            function = builder.module.declare_intrinsic("llvm.assume", (), ir.FunctionType(ir.VoidType(), [ir.IntType(1)]))
            builder.call(function, [builder.icmp_signed(">=", value, bound)])
            # Unsigned: in this form LLVM sees at once that the highest bits are zero.
            builder.call(function, [builder.icmp_unsigned("<", value, ir.Constant(value.type, intrinsics.INDEX_LIMIT))])
        return value

    return Intrinsic("assume_ge", typer, emit)


def empty_word(name: Literal["empty_sum", "empty_product"]) -> Intrinsic:
    """The Numba type of ``intrinsics.empty_sum`` or ``intrinsics.empty_product``."""
    number = -0.0 if name == "empty_sum" else 1.0

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        check_number_or_vector(context, args[0])
        if isinstance(args[0], types.IntegerLiteral):
            # A literal, too: it takes the type of what it is combined with.
            return context.make_signature(types.literal(int(number)), args[0])
        value = plain(args[0])
        return context.make_signature(value, value)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        kind = component_of(plain(sig.return_type))
        if shape_of(sig.return_type) is not None:
            return by_component(builder, lambda _: context.get_constant(kind, number), args[0])
        if isinstance(kind, types.Complex):
            result = context.make_complex(builder, kind)
            result.real = context.get_constant(kind.underlying_float, number)
            # As CPython negates 0j; a product starts at 1 + 0j.
            result.imag = context.get_constant(kind.underlying_float, -0.0 if number == 0 else 0.0)
            return result._getvalue()
        if isinstance(kind, types.Float) and kind.bitwidth > 16:
            return context.get_constant(kind, number)
        half = isinstance(kind, types.Float)
        wide = context.get_constant(types.float32, number) if half else context.get_constant(types.int64, int(number))
        return context.cast(builder, wide, types.float32 if half else types.int64, kind)

    return Intrinsic(name, typer, emit)


def summed_word() -> Intrinsic:
    """The Numba type of ``intrinsics.summed``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        check_scalar(context, args[0])
        value = plain(args[0])
        wide = value
        if isinstance(value, types.Integer | types.Boolean):
            wide = types.uint64 if isinstance(value, types.Integer) and not value.signed else types.int64
        return context.make_signature(wide, value)

    return Intrinsic("summed", typer, cast_to_result)


def length_word() -> Intrinsic:
    """The Numba type of ``intrinsics.length_of``."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        value, otherwise = sig.args[0], args[1]
        return ir.Constant(otherwise.type, len(value)) if isinstance(value, types.BaseTuple) else otherwise

    return Intrinsic("length_of", lambda context, args: context.make_signature(types.intp, args[0], types.intp), emit)


def stack_word() -> Intrinsic:
    """The Numba type of ``intrinsics.stack_array``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        like, most = args
        return context.make_signature(types.Array(like.dtype, 1, "C"), like, most)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        like = context.make_array(sig.args[0])(context, builder, args[0])
        return _on_stack(context, builder, sig.return_type, sig.args[1].literal_value, like.shape, [1])

    return Intrinsic("stack_array", typer, emit)


def thread_word() -> Intrinsic:
    """The Numba type of ``intrinsics.thread_array``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        like, *sizes = args
        return context.make_signature(types.Array(like.dtype, len(sizes), "A"), like, *sizes)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return args[0] if context.libdevice else _of_constant_shape(context, builder, sig, _on_stack)

    return Intrinsic("thread_array", typer, emit)


def same_bits_word() -> Intrinsic:
    """The Numba type of ``intrinsics.same_bits``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        check_scalar(context, args[0])
        value = plain(args[0])
        return context.make_signature(types.boolean, value, value)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        kind = sig.args[0]
        bits = ir.IntType(8 * context.get_abi_sizeof(context.get_data_type(kind)))
        words = []
        for value in args:
            data = context.data_model_manager[kind].as_data(builder, value)
            place = cgutils.alloca_once_value(builder, data)
            # An integer of 128 bits would be read from multiples of 16, and a complex number stands at one of 8.
            alignment = context.get_abi_alignment(data.type)
            words.append(builder.load(builder.bitcast(place, bits.as_pointer()), align=alignment))
        return builder.icmp_unsigned("==", *words)

    return Intrinsic("same_bits", typer, emit)


def address_word() -> Intrinsic:
    """The Numba type of ``intrinsics.address_of``."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.ptrtoint(element(context, builder, sig, args), ir.IntType(64))

    return Intrinsic("address_of", signature(types.intp, None, None), emit)


def local_array_word(*, heap: bool) -> Intrinsic:
    """The Numba type of ``intrinsics.local_array``, or of ``heap_array``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        like, *sizes = args
        dtype = like.instance_type if isinstance(like, types.NumberClass) else plain(like)
        return context.make_signature(types.Array(dtype, len(sizes), "C"), like, *sizes)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return _of_constant_shape(context, builder, sig, _on_heap if heap else _on_stack)

    return Intrinsic("heap_array" if heap else "local_array", typer, emit)


def _of_constant_shape(context: Any, builder: Any, sig: Any, made: Callable[..., ir.Value]) -> ir.Value:
    """An array whose extents are the literals behind the first argument."""
    sizes = [size.literal_value for size in sig.args[1:]]
    shape = cgutils.pack_array(builder, [context.get_constant(types.intp, size) for size in sizes])
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return made(context, builder, sig.return_type, math.prod(sizes), shape, steps)


def _on_stack(context: Any, builder: Any, array: Any, most: int, shape: ir.Value, steps: Sequence[int]) -> ir.Value:
    """An array in memory of the function, for ``most`` elements; ``steps`` from one to the next along each axis."""
    memory = cgutils.alloca_once(builder, ir.ArrayType(context.get_data_type(array.dtype), most))
    return _array_in(context, builder, array, memory, shape, steps)


def _on_heap(context: Any, builder: Any, array: Any, most: int, shape: ir.Value, steps: Sequence[int]) -> ir.Value:
    """The same in memory that is counted, and freed with the last name for it."""
    # Numba's own `np.empty` compiles Python code, whose types it looks up with a compiler of another float type.
    size = most * context.get_abi_sizeof(context.get_data_type(array.dtype))
    align = context.get_constant(types.uint32, 64)
    meminfo = context.nrt.meminfo_alloc_aligned(builder, context.get_constant(types.intp, size), align)
    return _array_in(context, builder, array, context.nrt.meminfo_data(builder, meminfo), shape, steps, meminfo)


def _array_in(
    context: Any,
    builder: Any,
    array: Any,
    memory: ir.Value,
    shape: ir.Value,
    steps: Sequence[int],
    meminfo: ir.Value | None = None,
) -> ir.Value:
    made = context.make_array(array)(context, builder)
    kind = context.get_data_type(array.dtype)
    size = context.get_abi_sizeof(kind)
    populate_array(
        made,
        data=builder.bitcast(memory, kind.as_pointer()),
        shape=shape,
        strides=cgutils.pack_array(builder, [context.get_constant(types.intp, size * step) for step in steps]),
        itemsize=context.get_constant(types.intp, size),
        meminfo=meminfo,
    )
    return made._getvalue()
