"""Intrinsics of polls in CPU loops: the cycle counter, and calls of Python of which there are few."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from qgraph.compat.cpython import IS_FINALIZING
from qgraph.lowering.intrinsics.intrinsic import Intrinsic, signature
from qgraph.lowering.number_types.number_llvm import types

_I64 = ir.IntType(64)
_ARM = platform.machine().lower() in ("arm64", "aarch64")
# Ticks between two calls of Python: 45 ms at 3 GHz. On Arm a sixteenth of a second, by the frequency in a register.
_PERIOD = 1 << 27
_PART = 16
# The calls, with the wait for the GIL, take at most 1/64 of the time, unless they were then more than 12 periods apart.
_RARELY = 64
_MOST = 12


def ticks_word() -> Intrinsic:
    """The Numba type of ``intrinsics.ticks``."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return _ticks(builder)

    return Intrinsic("ticks", signature(types.int64), emit)


def _ticks(builder: Any) -> ir.Value:
    # A counter that user code may read: LLVM's own reads a forbidden one on Arm.
    if _ARM:
        return _arm_register(builder, "cntvct_el0")
    return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(_I64, [])), [])


def _period(builder: Any) -> ir.Value:
    if _ARM:
        return builder.udiv(_arm_register(builder, "cntfrq_el0"), ir.Constant(_I64, _PART))
    return ir.Constant(_I64, _PERIOD)


def _arm_register(builder: Any, name: str) -> ir.Value:
    # No inline assembly, for which Numba's compiler has no parser.
    read = ir.FunctionType(_I64, [ir.MetaDataType()])
    function = cgutils.get_or_insert_function(builder.module, read, "llvm.read_volatile_register.i64")
    return builder.call(function, [builder.module.add_metadata([name])])


def poll_word() -> Intrinsic:
    """The Numba type of ``intrinsics.poll``."""

    return Intrinsic("poll", signature(types.int64, *[types.int64] * 3, types.uint64), _poll)


def _poll(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    now, last, entered, loop = args
    result = cgutils.alloca_once(builder, _I64)
    builder.store(last, result)
    period = _period(builder)
    with builder.if_then(builder.icmp_signed(">", builder.sub(now, last), period), likely=False):
        builder.store(now, result)
        flag = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), IS_FINALIZING)
        # At the end of the interpreter a thread that asks for the GIL gets it no more.
        with builder.if_then(cgutils.is_null(builder, builder.call(flag, []))):
            _call_python(context, builder, loop, entered)
            after = _ticks(builder)
            pause = builder.mul(builder.sub(after, now), ir.Constant(_I64, _RARELY))
            most = builder.mul(period, ir.Constant(_I64, _MOST))
            pause = builder.select(builder.icmp_signed("<", pause, most), pause, most)
            builder.store(builder.add(builder.sub(after, period), _larger(builder, pause, period)), result)
    return builder.load(result)


def _larger(builder: Any, one: ir.Value, other: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", one, other), one, other)


def _call_python(context: Any, builder: Any, loop: ir.Value, entered: ir.Value) -> None:
    """Call the object ``loop``; what it raises goes through all compiled callers up to Python."""
    api = context.get_python_api(builder)
    lock = api.gil_ensure()
    number = api.long_from_longlong(entered)
    given = api.call_function_objargs(builder.inttoptr(loop, api.pyobj), [number])
    raised = cgutils.is_null(builder, given)
    api.decref(number)
    api.decref(given)
    # What was raised stays with the thread's own state, which it had before.
    api.gil_release(lock)
    with builder.if_then(raised, likely=False):
        context.call_conv.return_exc(builder)
