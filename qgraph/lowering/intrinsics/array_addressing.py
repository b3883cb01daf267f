"""Addresses of array elements: on CUDA with 32-bit arithmetic where extents allow it.

There those of several dimensions are found with numbers of 32 bits: those of 64 take two instructions each. So an array must
have fewer than ``intrinsics.U32_LIMIT`` elements; kernels for larger ones are compiled with ``index64``, as all CPU code is.
Numba's own code serves slices as well, and takes arrays apart through memory. LLVM makes the same of it, but both take longer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils

from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.number_types.number_llvm import Emitter, types
from qgraph.lowering.number_types.typing_contexts import Emitted
from qgraph.operations.intrinsics import VECTOR

if TYPE_CHECKING:
    _Context = Any
else:
    _Context = object

_SHORT = ir.IntType(32)
# The address space of global memory.
_GLOBAL = 1


class ElementAddressing(_Context):
    """Mixin of a Numba target context. Where ``index64`` is not always the same, it is to be set when a compilation begins."""

    index64 = False

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """Numba's hook: the code of a call, or of a subscript."""
        emit = _SUBSCRIPTS.get(getattr(fn, "typing_key", None))
        if emit is not None and _is_element(sig):
            return Emitted(self, emit, sig)
        return super().get_function(fn, sig, _firstcall)


def _is_element(sig: Any) -> bool:
    """Whether a subscript has an integer for each axis, and the axes lie one after the other in memory."""
    array, index, *_ = sig.args
    if not isinstance(array, types.Array) or array.layout not in ("C", "F"):
        return False
    if array.ndim == 1:
        return isinstance(index, types.Integer)
    return (
        isinstance(index, types.BaseTuple)
        and 1 < array.ndim == len(index.types)
        and all(isinstance(item, types.Integer) for item in index.types)
    )


def _read(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    array = sig.args[0]
    return context.unpack_value(builder, array.dtype, _element(context, builder, sig.args, args), align=_alignment(array))


def _write(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    array, _, given = sig.args
    value = context.cast(builder, args[2], given, array.dtype)
    context.pack_value(builder, array.dtype, value, _element(context, builder, sig.args, args), align=_alignment(array))
    return context.get_dummy_value()


_SUBSCRIPTS: dict[object, Emitter] = {operator.getitem: _read, operator.setitem: _write}


def _alignment(array: Any) -> int | None:
    return None if array.aligned else 1


def _element(context: Any, builder: Any, kinds: Sequence[Any], args: Sequence[ir.Value]) -> ir.Value:
    """The address of an element; negative indices count from the end."""
    kind, index = kinds[:2]
    model = context.data_model_manager[kind]
    data, shape = (builder.extract_value(args[0], model.get_field_position(name)) for name in ("data", "shape"))
    extents = cgutils.unpack_tuple(builder, shape, kind.ndim)
    if kind.ndim == 1:
        return builder.gep(data, [_from_start(context, builder, index, args[1], extents[0])])
    wide, axes = context.index64, []
    for item, value, extent in zip(index.types, cgutils.unpack_tuple(builder, args[1], kind.ndim), extents, strict=True):
        place = _from_start(context, builder, item, value, extent)
        axes.append((place, extent) if wide else (builder.trunc(place, _SHORT), builder.trunc(extent, _SHORT)))
    # The strides, which are the same for all elements of the array, and not sums of products that differ in each.
    *outer, (offset, stride) = axes if kind.layout == "C" else reversed(axes)
    if outer[1:] and not wide:
        stride = _kept_short(builder, stride)
    for place, extent in reversed(outer):
        offset = builder.add(builder.mul(place, stride), offset)
        stride = builder.mul(stride, extent)
    # With its sign: LLVM then takes constants out of sums as parts of addresses.
    return builder.gep(data, [offset if wide else builder.sext(offset, ir.IntType(64))])


def _from_start(context: Any, builder: Any, item: Any, value: ir.Value, extent: ir.Value) -> ir.Value:
    """An index as Numba's ``intp``, counted from the start of its axis."""
    place = context.cast(builder, value, item, types.intp)
    if not item.signed:
        return place
    # Before it is narrow: LLVM knows of most that they are not negative, and leaves this out.
    negative = builder.icmp_signed("<", place, ir.Constant(place.type, 0))
    return builder.select(negative, builder.add(place, extent), place)


def _kept_short(builder: Any, value: ir.Value) -> ir.Value:
    """The same number: its four bytes put in order, which NVVM does not see through.

    Where it knows that factors are the lower halves of numbers of 64 bits, it multiplies those, and cuts the product.
    """
    name = "llvm.nvvm.prmt"
    found = builder.module.globals.get(name)
    permute = found or ir.Function(builder.module, ir.FunctionType(_SHORT, [_SHORT] * 3), name)
    return builder.call(permute, [value, ir.Constant(_SHORT, 0), ir.Constant(_SHORT, 0x3210)])


# --- several elements at a time ----------------------------------------------------------------------------------------------


def load_vector_word() -> Intrinsic:
    """The Numba type of ``intrinsics.load_vector``."""

    def load(builder: Any, elements: Sequence[ir.Value], place: ir.Value, align: int) -> None:
        vector = builder.load(place, align=align)
        for number, element in enumerate(elements):
            builder.store(builder.extract_element(vector, ir.Constant(_SHORT, number)), element)

    return _vector_word("load_vector", load)


def store_vector_word() -> Intrinsic:
    """The Numba type of ``intrinsics.store_vector``."""

    def store(builder: Any, elements: Sequence[ir.Value], place: ir.Value, align: int) -> None:
        vector = ir.Constant(place.type.pointee, ir.Undefined)
        for number, element in enumerate(elements):
            vector = builder.insert_element(vector, builder.load(element), ir.Constant(_SHORT, number))
        builder.store(vector, place, align)

    return _vector_word("store_vector", store)


def _vector_word(name: str, move: Callable[[Any, Sequence[ir.Value], ir.Value, int], None]) -> Intrinsic:
    """``move``: between the addresses of elements and that of a vector, which is a multiple of a number of bytes."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        start = _element(context, builder, sig.args[:2], args[:2])
        elements = [builder.gep(start, [ir.Constant(ir.IntType(64), number)]) for number in range(VECTOR)]
        move(builder, elements, *_vector(context, builder, sig.args[2:], args[2:]))
        return context.get_dummy_value()

    return Intrinsic(name, lambda context, args: context.make_signature(types.none, *args), emit)


def holds_vectors_word() -> Intrinsic:
    """The Numba type of ``intrinsics.holds_vectors``."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        (kind,) = sig.args
        array = context.make_array(kind)(context, builder, args[0])
        address = builder.ptrtoint(array.data, ir.IntType(64))
        *_, extent = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
        # Both have to be multiples of powers of two: the bits below these are none.
        size = _vector_bytes(context, kind)
        left = builder.and_(address, ir.Constant(address.type, size - 1))
        left = builder.or_(left, builder.and_(extent, ir.Constant(extent.type, VECTOR - 1)))
        return builder.icmp_unsigned("==", left, ir.Constant(left.type, 0))

    return Intrinsic("holds_vectors", lambda context, args: context.make_signature(types.boolean, *args), emit)


def _vector_bytes(context: Any, kind: Any) -> int:
    return min(VECTOR * int(context.get_abi_sizeof(context.get_data_type(kind.dtype))), 16)


def _vector(context: Any, builder: Any, kinds: Sequence[Any], args: Sequence[ir.Value]) -> tuple[ir.Value, int]:
    """The address of elements from an index on, as that of a vector, and what it is a multiple of."""
    array, *indices = kinds
    assert array.layout == "C"
    index, place = indices[0], args[1]
    if array.ndim > 1:
        index = types.BaseTuple.from_types(tuple(indices))
        place = context.make_tuple(builder, index, args[1:])
    first = _element(context, builder, (array, index), (args[0], place))
    vector = builder.bitcast(first, ir.VectorType(first.type.pointee, VECTOR).as_pointer())
    if array.ndim > 1:
        # Shared memory has arrays of one axis. NVVM may not see where others are from, and a load would wait for stores there.
        vector = builder.addrspacecast(vector, ir.PointerType(vector.type.pointee, _GLOBAL))
    return vector, _vector_bytes(context, array)
