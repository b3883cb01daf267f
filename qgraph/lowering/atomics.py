"""The words ``atomic_*`` and ``set_condition`` of qgraph.language, and conversions of kernel scalars, as code for Numba."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from llvmlite import ir
from numba.core import cgutils
from numba.core.datamodel import default_manager, models
from numba.np.arrayobj import populate_array

from qgraph import language
from qgraph.lowering.number_code import Emitter, is_float, is_signed, less, types
from qgraph.lowering.numbers import is_number, plain
from qgraph.plan import LINE_WORDS, SPREAD
from qgraph.program import WORD

_Callable: Any = types.Callable
_Opaque: Any = types.Opaque

_DTYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")
_BITWISE = {language.atomic_and_: "and", language.atomic_or_: "or", language.atomic_xor: "xor"}


class CodeWord(_Callable, _Opaque):
    """A function type with one typing function and one emitter."""

    def __init__(self, name: str, typer: Callable[[Any, tuple[Any, ...]], Any], emit: Emitter) -> None:
        self._identity = object()
        self._typer = typer
        self.emit = emit
        super().__init__(name=name)

    @property
    def key(self) -> object:
        """What makes two of these types equal."""
        return self._identity

    def get_call_type(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """The signature of a call; a typing error says what cannot be compiled."""
        return self._typer(context, (*args, *kws.values()))

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Numba's hook for its messages: no fixed signatures."""
        return [], True

    def get_impl_key(self, sig: Any) -> object:
        """Numba's hook: what finds the code."""
        return (self._identity, sig.args)


default_manager.register(CodeWord, models.OpaqueModel)


def atomic_word(function: Any) -> CodeWord:
    """The Numba type of one of ``language.ATOMICS``."""
    return CodeWord(function.__name__, _atomic_typer(function), _atomic_emitter(function))


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
        for operand in operands:
            if not is_number(operand) or isinstance(operand, types.Complex):
                raise context.typing_error(f"{name}() cannot store {plain(operand)} in {array.dtype}")
        return context.make_signature(array.dtype, array, _index_type(index), *[array.dtype] * values)

    return typer


def split_word(function: Any) -> CodeWord:
    """The Numba type of one of ``language.SPLIT``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        array, index, _value = args
        _check_index(context, function.__name__, array, index)
        return context.make_signature(types.none, array, _index_type(index), array.dtype)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        pointer, value = _element(context, builder, sig, args), args[2]
        half = ir.IntType(32)
        low_place = builder.bitcast(pointer, half.as_pointer())
        high_place = builder.gep(low_place, [ir.Constant(half, 1)])
        value = builder.neg(value) if function is language.split_sub else value
        low = builder.trunc(value, half)
        high = builder.trunc(builder.lshr(value, ir.Constant(value.type, 32)), half)
        old = builder.atomic_rmw("add", low_place, low, "monotonic")
        carry = builder.icmp_unsigned("<", builder.add(old, low), low)
        more = builder.add(high, builder.zext(carry, half))
        with builder.if_then(builder.icmp_unsigned("!=", more, ir.Constant(half, 0)), likely=False):
            builder.atomic_rmw("add", high_place, more, "monotonic")
        return context.get_dummy_value()

    return CodeWord(function.__name__, typer, emit)


def _check_dtype(context: Any, function: Any, dtype: Any) -> None:
    name = function.__name__
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
        pointer = _element(context, builder, sig, args)
        return _update(context, builder, function, sig.args[0].dtype, pointer, args[2:])

    return emit


def _element(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    array_type, index_type = sig.args[:2]
    array = context.make_array(array_type)(context, builder, args[0])
    count = len(index_type) if isinstance(index_type, types.BaseTuple) else None
    indices = [args[1]] if count is None else cgutils.unpack_tuple(builder, args[1], count)
    return cgutils.get_item_pointer(context, builder, array_type, array, indices, wraparound=True)


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


def stack_word() -> CodeWord:
    """The Numba type of ``language.stack_array``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        like, most = args
        return context.make_signature(types.Array(like.dtype, 1, "C"), like, most)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        like = context.make_array(sig.args[0])(context, builder, args[0])
        made = context.make_array(sig.return_type)(context, builder)
        kind = context.get_data_type(sig.return_type.dtype)
        memory = cgutils.alloca_once(builder, ir.ArrayType(kind, sig.args[1].literal_value))
        size = context.get_constant(types.intp, context.get_abi_sizeof(kind))
        populate_array(
            made,
            data=builder.bitcast(memory, kind.as_pointer()),
            shape=like.shape,
            strides=cgutils.pack_array(builder, [size]),
            itemsize=size,
            meminfo=None,
        )
        return made._getvalue()

    return CodeWord("stack_array", typer, emit)


def host_word() -> CodeWord:
    """The Numba type of ``language.call_host``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        data = args[1] if isinstance(args[1], types.Array) else types.uint64
        return context.make_signature(types.int32, types.uint64, data)

    return CodeWord("call_host", typer, _call_host)


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


def condition_word() -> CodeWord:
    """The Numba type of ``language.set_condition``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.none, args[0], types.intp, types.uint64, types.intp)

    return CodeWord("set_condition", typer, _set_condition)


def _set_condition(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    handle, value = args[2], args[3]
    slot = _element(context, builder, sig, args)
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


# How its load ends in the PTX, so that it is told from volatile loads of others: Numba's atomics on floats begin with one.
PEEKED = "// language.peek"
# The most blocks of a grid that peeks. All warps read one word past the caches of multiprocessors, one after the other: on an
# H200 about 0.3 ns each, so that a grid of 4,096 blocks took 8 us longer.
_PEEKING = 64
_PEEK = (
    "{ .reg .pred %few; .reg .b32 %blocks, %more; mov.u32 %blocks, %nctaid.x; mov.u32 %more, %nctaid.y; "
    f"mul.lo.u32 %blocks, %blocks, %more; setp.le.u32 %few, %blocks, {_PEEKING}; mov.u64 $0, -1; "
    f"@%few ld.volatile.u64 $0, [$1]; }} {PEEKED}"
)


def peek_word() -> CodeWord:
    """The Numba type of ``language.peek``: a load that no compiler moves, and that asks no cache of one multiprocessor."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.int64, args[0], types.intp)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        word = _element(context, builder, sig, args)
        load = ir.FunctionType(ir.IntType(64), [word.type])
        return builder.asm(load, _PEEK, "=&l,l", [word], True)

    return CodeWord("peek", typer, emit)


_PEEK_SPREAD = (
    "{ .reg .pred %few, %never; .reg .b32 %blocks, %more; .reg .b64 %place; "
    f"setp.eq.u32 %never, $3, 0; mov.u32 $0, {0x7FFFFFFF}; @%never bra DONE; "
    "mov.u32 %blocks, %nctaid.x; mov.u32 %more, %nctaid.y; "
    "mul.lo.u32 %blocks, %blocks, %more; setp.le.u32 %few, %blocks, $2; mov.u32 %blocks, %ctaid.x; mov.u32 %more, %ctaid.y; "
    f"add.u32 %blocks, %blocks, %more; and.b32 %blocks, %blocks, {SPREAD - 1}; "
    f"mad.wide.u32 %place, %blocks, {LINE_WORDS * WORD}, $1; mov.u32 $0, -1; "
    f"@%few ld.relaxed.gpu.global.u32 $0, [%place]; DONE: }} {PEEKED}"
)


def peek_spread_word() -> CodeWord:
    """The Numba type of ``language.peek_spread``. All is in 32 bits: in a short kernel each instruction counts."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.int32, args[0], types.uint32, types.uint32)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        word = _word_at(context, builder, sig, args)
        load = ir.FunctionType(ir.IntType(32), [word.type, args[2].type, args[1].type])
        return builder.asm(load, _PEEK_SPREAD, "=&r,l,r,r", [word, args[2], args[1]], True)

    return CodeWord("peek_spread", typer, emit)


def is_over_word() -> CodeWord:
    """The Numba type of ``language.is_over``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.boolean, args[0], types.uint32, types.int32, types.uint32)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        seen, number = args[2], args[3]
        found = cgutils.alloca_once_value(builder, seen)
        with builder.if_then(builder.icmp_signed("<", seen, ir.Constant(seen.type, 0))):
            builder.store(builder.trunc(builder.load(_word_at(context, builder, sig, args)), seen.type), found)
        return builder.icmp_signed("<=", builder.load(found), number)

    return CodeWord("is_over", typer, emit)


def _word_at(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The pointer to the word of scratch whose number ``args[1]`` has 32 bits."""
    array = context.make_array(sig.args[0])(context, builder, args[0])
    return builder.gep(array.data, [builder.zext(args[1], ir.IntType(64))])


def cast_word(dtype: Any) -> CodeWord:
    """The Numba type of a ``program.Cast`` to the Numba number ``dtype``."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        (item,) = args
        check_scalar(context, item)
        return context.make_signature(dtype, plain(item))

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return context.cast(builder, args[0], sig.args[0], sig.return_type)

    return CodeWord(f"as_{dtype}", typer, emit)


def check_scalar(context: Any, item: Any) -> None:
    """A typing error for what is no number."""
    if not is_number(item):
        raise context.typing_error(f"a kernel scalar holds a number, not {plain(item)}")


def match_word() -> CodeWord:
    """The Numba type of ``language.match_subject``: an integer as it is, a typing error for anything else."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        (item,) = args
        if not isinstance(plain(item), types.Integer | types.Boolean):
            raise context.typing_error(f"match on {plain(item)}: kernels match integers")
        return context.make_signature(types.int64, plain(item))

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return context.cast(builder, args[0], sig.args[0], sig.return_type)

    return CodeWord("match_subject", typer, emit)


def division_word(name: str) -> CodeWord:
    """The Numba type of ``language.quotient`` or ``language.remainder``: unsigned."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.intp, types.intp, types.intp)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return (builder.udiv if name == "quotient" else builder.urem)(*args)

    return CodeWord(name, typer, emit)


def short_word() -> CodeWord:
    """The Numba type of ``language.short``: no code that is left, once LLVM knows that the higher bits are zero."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.intp, types.intp)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.zext(builder.trunc(args[0], ir.IntType(32)), args[0].type)

    return CodeWord("short", typer, emit)


def bound_word(*, assume: bool) -> CodeWord:
    """The Numba type of ``language.at_least``: no code; with ``assume`` an assumption that LLVM may use."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        value = plain(args[0])
        return context.make_signature(value, value, types.intp)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        value, bound = args
        if assume and sig.args[0] == types.intp:
            function = builder.module.declare_intrinsic("llvm.assume", (), ir.FunctionType(ir.VoidType(), [ir.IntType(1)]))
            builder.call(function, [builder.icmp_signed(">=", value, bound)])
            # Unsigned: in this form LLVM sees at once that the highest bits are zero.
            builder.call(function, [builder.icmp_unsigned("<", value, ir.Constant(value.type, language.INDEX_LIMIT))])
        return value

    return CodeWord("at_least", typer, emit)


def across_word() -> CodeWord:
    """The Numba type of ``language.across``: shuffles of the 32-bit words that a number of any type has."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        check_scalar(context, args[0])
        value = plain(args[0])
        return context.make_signature(value, value, types.int32)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        value, offset = args
        kind = sig.args[0]
        if not isinstance(kind, types.Complex):
            return _shuffled(builder, value, offset)
        number, result = context.make_complex(builder, kind, value), context.make_complex(builder, kind)
        result.real, result.imag = (_shuffled(builder, part, offset) for part in (number.real, number.imag))
        return result._getvalue()

    return CodeWord("across", typer, emit)


def _shuffled(builder: Any, value: ir.Value, offset: ir.Value) -> ir.Value:
    """``value``, an integer or float of up to 64 bits, of the thread whose number in the warp differs in the bit ``offset``."""
    word, kind = ir.IntType(32), value.type
    size = {"half": 16, "float": 32, "double": 64}.get(str(kind)) or kind.width
    bits = value if isinstance(kind, ir.IntType) else builder.bitcast(value, ir.IntType(size))
    wide = ir.IntType(64 if size > 32 else 32)
    bits = bits if size == wide.width else builder.zext(bits, wide)
    result = ir.Constant(wide, 0)
    for shift in range(0, wide.width, 32):
        part = builder.lshr(bits, ir.Constant(wide, shift)) if shift else bits
        part = _shuffle(builder, builder.trunc(part, word) if wide.width > 32 else part, offset)
        part = builder.zext(part, wide) if wide.width > 32 else part
        result = builder.or_(result, builder.shl(part, ir.Constant(wide, shift)) if shift else part)
    result = result if size == wide.width else builder.trunc(result, ir.IntType(size))
    return result if isinstance(kind, ir.IntType) else builder.bitcast(result, kind)


def _shuffle(builder: Any, part: ir.Value, offset: ir.Value) -> ir.Value:
    word = ir.IntType(32)
    # All threads of the warp; bfly; within all 32.
    everybody, mode, clamp = (ir.Constant(word, number) for number in (0xFFFFFFFF, 3, 31))
    shape = ir.FunctionType(ir.LiteralStructType((word, ir.IntType(1))), [word] * 5)
    function = cgutils.get_or_insert_function(builder.module, shape, "llvm.nvvm.shfl.sync.i32")
    return builder.extract_value(builder.call(function, [everybody, mode, part, offset, clamp]), 0)


def empty_word(name: Literal["empty_sum", "empty_product"]) -> CodeWord:
    """The Numba type of ``language.empty_sum`` or ``language.empty_product``."""
    number = -0.0 if name == "empty_sum" else 1.0

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        check_scalar(context, args[0])
        if isinstance(args[0], types.IntegerLiteral):
            # A literal, too: it takes the type of what it is combined with.
            return context.make_signature(types.literal(int(number)), args[0])
        value = plain(args[0])
        return context.make_signature(value, value)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        kind = plain(sig.return_type)
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

    return CodeWord(name, typer, emit)
