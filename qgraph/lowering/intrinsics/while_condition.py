"""Intrinsics between a task and its graph or the host: conditions of while nodes, guards of unrolled copies, host calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from qgraph.ir.slots import WORD
from qgraph.lowering.intrinsics.intrinsic import Intrinsic, element, signature
from qgraph.lowering.number_types.number_llvm import types
from qgraph.operations.intrinsics import LINE_WORDS, MOST, SPREAD


def host_word() -> Intrinsic:
    """The Numba type of ``intrinsics.call_host``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        data = args[1] if isinstance(args[1], types.Array) else types.uint64
        return context.make_signature(types.int32, types.uint64, data)

    return Intrinsic("call_host", typer, _call_host)


def _call_host(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    pointer = ir.IntType(8).as_pointer()
    result = context.get_value_type(sig.return_type)
    if isinstance(sig.args[1], types.Array):
        array = context.make_array(sig.args[1])(context, builder, args[1])
        function_type = ir.FunctionType(result, [pointer])
        function = builder.inttoptr(args[0], function_type.as_pointer())
        return builder.call(function, [builder.bitcast(array.data, pointer)])
    function = builder.inttoptr(args[0], ir.FunctionType(ir.VoidType(), [pointer]).as_pointer())
    builder.call(function, [builder.inttoptr(args[1], pointer)])
    return ir.Constant(result, 0)


def condition_word() -> Intrinsic:
    """The Numba type of ``intrinsics.set_condition``."""

    return Intrinsic("set_condition", signature(types.none, None, types.intp, types.uint64, types.intp), _set_condition)


def _set_condition(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    handle, value = args[2], args[3]
    slot = element(context, builder, sig, args)
    if not context.libdevice:
        builder.store(value, slot)
        return context.get_dummy_value()
    with builder.if_else(builder.icmp_unsigned("!=", handle, ir.Constant(handle.type, 0))) as (on_device, on_host):
        with on_device:
            word = ir.IntType(32)
            function_type = ir.FunctionType(ir.VoidType(), [handle.type, word])
            function = cgutils.get_or_insert_function(builder.module, function_type, "cudaGraphSetConditional")
            builder.call(function, [handle, builder.trunc(value, word)])
        with on_host:
            builder.store(value, slot)
    return context.get_dummy_value()


# In the memory of the device, where a read costs what any other of the condition's costs, and is on its way together with
# them; a read of the host's memory takes longer than an iteration. Past all caches of one multiprocessor: a loop in one block
# never ends its kernel.
_STOPPED = "ld.volatile.u64 $0, [$1];"


def stopped_word() -> Intrinsic:
    """The Numba type of ``intrinsics.stopped``: a load that no compiler moves or leaves out."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.boolean, args[0], types.intp)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        word = element(context, builder, sig, args)
        found = builder.asm(ir.FunctionType(ir.IntType(64), [word.type]), _STOPPED, "=l,l", [word], True)
        return builder.icmp_unsigned("!=", found, ir.Constant(found.type, 0))

    return Intrinsic("stopped", typer, emit)


# How its load ends in the PTX, so that it is told from volatile loads of others: Numba's atomics on floats begin with one.
PEEKED = "// intrinsics.peek"
# The most blocks of a grid that peeks. All warps read one word past the caches of multiprocessors, one after the other: on an
# H200 about 0.3 ns each, so that a grid of 4,096 blocks took 8 us longer.
_PEEKING = 64
_PEEK = (
    "{ .reg .pred %few; .reg .b32 %blocks, %more; mov.u32 %blocks, %nctaid.x; mov.u32 %more, %nctaid.y; "
    f"mul.lo.u32 %blocks, %blocks, %more; setp.le.u32 %few, %blocks, {_PEEKING}; mov.u64 $0, -1; "
    f"@%few ld.volatile.u64 $0, [$1]; }} {PEEKED}"
)


def peek_word() -> Intrinsic:
    """The Numba type of ``intrinsics.peek``: a load that no compiler moves, and that asks no cache of one multiprocessor."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        word = element(context, builder, sig, args)
        load = ir.FunctionType(ir.IntType(64), [word.type])
        return builder.asm(load, _PEEK, "=&l,l", [word], True)

    return Intrinsic("peek", signature(types.int64, None, types.intp), emit)


_PEEK_SPREAD = (
    "{ .reg .pred %few, %never; .reg .b32 %blocks, %more; .reg .b64 %place; "
    f"setp.eq.u32 %never, $3, 0; mov.u32 $0, {MOST}; @%never bra DONE; "
    "mov.u32 %blocks, %nctaid.x; mov.u32 %more, %nctaid.y; "
    "mul.lo.u32 %blocks, %blocks, %more; setp.le.u32 %few, %blocks, $2; mov.u32 %blocks, %ctaid.x; mov.u32 %more, %ctaid.y; "
    f"add.u32 %blocks, %blocks, %more; and.b32 %blocks, %blocks, {SPREAD - 1}; "
    f"mad.wide.u32 %place, %blocks, {LINE_WORDS * WORD}, $1; mov.u32 $0, -1; "
    f"@%few ld.relaxed.gpu.global.u32 $0, [%place]; DONE: }} {PEEKED}"
)


def peek_spread_word() -> Intrinsic:
    """The Numba type of ``intrinsics.peek_spread``. All is in 32 bits: in a short kernel each instruction counts."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        word = _word_at(context, builder, sig, args)
        load = ir.FunctionType(ir.IntType(32), [word.type, args[2].type, args[1].type])
        return builder.asm(load, _PEEK_SPREAD, "=&r,l,r,r", [word, args[2], args[1]], True)

    return Intrinsic("peek_spread", signature(types.int32, None, types.uint32, types.uint32), emit)


def spread_word() -> Intrinsic:
    """The Numba type of ``intrinsics.spread``: stores in a row, which take less time than a loop."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        first, number = _word_at(context, builder, sig, args), args[2]
        most = ir.Constant(number.type, MOST)
        number = builder.select(builder.icmp_signed(">", number, most), most, number)
        for line in range(SPREAD):
            builder.store(number, builder.gep(first, [ir.Constant(ir.IntType(64), LINE_WORDS * line)]))
        return context.get_dummy_value()

    return Intrinsic("spread", signature(types.none, None, types.uint32, types.int64), emit)


def is_over_word() -> Intrinsic:
    """The Numba type of ``intrinsics.is_over``."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        seen, number = args[2], args[3]
        found = cgutils.alloca_once_value(builder, seen)
        with builder.if_then(builder.icmp_signed("<", seen, ir.Constant(seen.type, 0))):
            builder.store(builder.trunc(builder.load(_word_at(context, builder, sig, args)), seen.type), found)
        return builder.icmp_signed("<=", builder.load(found), number)

    return Intrinsic("is_over", signature(types.boolean, None, types.uint32, types.int32, types.uint32), emit)


def _word_at(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The pointer to the word of scratch whose number ``args[1]`` has 32 bits."""
    array = context.make_array(sig.args[0])(context, builder, args[0])
    return builder.gep(array.data, [builder.zext(args[1], ir.IntType(64))])
