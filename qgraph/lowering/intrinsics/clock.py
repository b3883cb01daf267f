"""The intrinsic that reads a clock: the GPU's own, or that of ``time.perf_counter_ns`` on the CPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from qgraph.lowering.intrinsics.intrinsic import Intrinsic, signature
from qgraph.lowering.number_types.number_llvm import types

_I32, _I64 = ir.IntType(32), ir.IntType(64)
# Both are 64 bits wide on the systems that Numba compiles for and that have this clock.
_TIMESPEC = ir.LiteralStructType([_I64, _I64])


def clock_word() -> Intrinsic:
    """The Numba type of ``intrinsics.clock``."""
    return Intrinsic("clock", signature(types.int64), _clock)


def _clock(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    return read_clock(context, builder)


def read_clock(context: Any, builder: Any) -> ir.Value:
    """Nanoseconds as an int64."""
    if context.libdevice:
        # Not moved across other loads and stores: what it is between must have happened, or not yet.
        return builder.asm(ir.FunctionType(_I64, []), "mov.u64 $0, %globaltimer;", "=l,~{memory}", [], True)
    function_type = ir.FunctionType(_I32, [_I32, _TIMESPEC.as_pointer()])
    function = cgutils.get_or_insert_function(builder.module, function_type, "clock_gettime")
    found = cgutils.alloca_once(builder, _TIMESPEC)
    builder.call(function, [ir.Constant(_I32, time.CLOCK_MONOTONIC), found])
    seconds, rest = (builder.load(cgutils.gep_inbounds(builder, found, 0, field)) for field in (0, 1))
    return builder.add(builder.mul(seconds, ir.Constant(_I64, 1_000_000_000)), rest)
