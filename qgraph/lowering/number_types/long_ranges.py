"""``range(start, stop, step)`` whose length has 64 bits: Numba's own has none of what is longer than 2**63 - 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.datamodel import default_manager, models

from qgraph.lowering.number_types.number_llvm import trip_count, types

_RangeType: Any = types.RangeType


class LongRange(_RangeType):
    """The Numba type of such a range; its iterator is Numba's."""

    def __init__(self) -> None:
        super().__init__(types.int64)
        self.name = "long_range"


LONG_RANGE = LongRange()
default_manager.register(LongRange, models.RangeModel)


def long_range(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The emitter of the range, from its three numbers."""
    state = cgutils.create_struct_proxy(sig.return_type)(context, builder)
    state.start, state.stop, state.step = args
    return state._getvalue()


def length_of(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The emitter of ``len``."""
    state = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    return trip_count(context, builder, sig, (state.start, state.stop, state.step))


def iterator_of(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The emitter of its iterator."""
    state = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    iterator = cgutils.create_struct_proxy(sig.return_type)(context, builder)
    count = trip_count(context, builder, sig, (state.start, state.stop, state.step))
    iterator.iter = cgutils.alloca_once_value(builder, state.start)
    iterator.stop, iterator.step = state.stop, state.step
    iterator.count = cgutils.alloca_once_value(builder, count)
    return iterator._getvalue()


def next_of_range(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The emitter of the next number of a range's iterator, and of whether there is one.

    Numba's changes the iterator only where there is one: NVVM makes selections of that, in every iteration. And only where no
    number wraps does it see that an index which counts up from 0 is not negative.
    """
    iterator = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    count, value = builder.load(iterator.count), builder.load(iterator.iter)
    builder.store(builder.sub(count, count.type(1), flags=["nsw"]), iterator.count)
    builder.store(builder.add(value, iterator.step, flags=["nsw"]), iterator.iter)
    pair = context.make_helper(builder, sig.return_type)
    pair.first, pair.second = value, builder.icmp_signed(">", count, count.type(0))
    return pair._getvalue()
