"""Numbers of other threads: of one warp by shuffles, of others in shared memory; and small systems that a warp solves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from qgraph.lowering.intrinsics.intrinsic import Intrinsic
from qgraph.lowering.intrinsics.vectors import Floats, by_component, check_number_or_vector
from qgraph.lowering.number_types.number_llvm import types
from qgraph.lowering.number_types.type_promotion import plain
from qgraph.operations.small_systems import (
    WARP,
    factored_by_lanes,
    invert_in_warp,
    inverted_by_lanes,
    solve_in_warp,
    solved_by_lanes,
)

_WORD, _LONG = ir.IntType(32), ir.IntType(64)
# A word of shared memory for each warp of a block.
_SHARED = "_qgraph_across_warps"
_EVERYBODY = ir.Constant(_WORD, 0xFFFFFFFF)
# Modes of a shuffle: of the lane with a number, and of that whose number differs in one bit; and of a vote.
_AT, _PAIRS, _BALLOT = 0, 3, 3


def across_word() -> Intrinsic:
    """The Numba type of ``intrinsics.across``: shuffles of the 32-bit words that a number of any type has."""
    return _exchange("across", 1, _shuffled)


def of_lane_word() -> Intrinsic:
    """The Numba type of ``intrinsics.of_lane``."""
    return _exchange("of_lane", 1, lambda builder, value, lane: _shuffled(builder, value, lane, _AT))


def across_warps_word() -> Intrinsic:
    """The Numba type of ``intrinsics.across_warps``: a number of each warp, in shared memory."""
    return _exchange("across_warps", 2, _through_memory)


def _exchange(name: str, places: int, move: Callable[..., ir.Value]) -> Intrinsic:
    """A number of another thread, which ``places`` integers tell: ``move`` gets it, of complex ones and vectors each part."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        check_number_or_vector(context, args[0])
        value = plain(args[0])
        return context.make_signature(value, value, *[types.int32] * places)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        value, *where = args
        kind = sig.args[0]
        if not isinstance(kind, types.Complex):
            return by_component(builder, lambda part: move(builder, part, *where), value)
        number, result = context.make_complex(builder, kind, value), context.make_complex(builder, kind)
        result.real, result.imag = (move(builder, part, *where) for part in (number.real, number.imag))
        return result._getvalue()

    return Intrinsic(name, typer, emit)


def _through_memory(builder: Any, value: ir.Value, own: ir.Value, other: ir.Value) -> ir.Value:
    bits = _bits(builder, value)
    words = builder.zext(bits, _LONG) if bits.type.width < _LONG.width else bits
    shared = builder.module.globals.get(_SHARED)
    if shared is None:
        shape = ir.ArrayType(_LONG, WARP)
        shared = cgutils.add_global_variable(builder.module, shape, _SHARED, addrspace=3)
        shared.initializer, shared.linkage, shared.align = ir.Constant(shape, ir.Undefined), "internal", 8
    barrier = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), "llvm.nvvm.barrier0")
    zero = ir.Constant(_WORD, 0)
    builder.store(words, builder.gep(shared, [zero, own], inbounds=True))
    builder.call(barrier, [])
    found = builder.load(builder.gep(shared, [zero, other], inbounds=True))
    builder.call(barrier, [])
    return _of_bits(builder, found, value.type)


def _shuffled(builder: Any, value: ir.Value, at: ir.Value, mode: int = _PAIRS) -> ir.Value:
    """``value``, an integer or float of up to 64 bits, of another thread."""
    bits = _bits(builder, value)
    wide = ir.IntType(64 if bits.type.width > 32 else 32)
    bits = bits if bits.type == wide else builder.zext(bits, wide)
    result = ir.Constant(wide, 0)
    for shift in range(0, wide.width, 32):
        part = builder.lshr(bits, ir.Constant(wide, shift)) if shift else bits
        part = _shuffle(builder, builder.trunc(part, _WORD) if wide.width > 32 else part, at, mode)
        part = builder.zext(part, wide) if wide.width > 32 else part
        result = builder.or_(result, builder.shl(part, ir.Constant(wide, shift)) if shift else part)
    return _of_bits(builder, result, value.type)


def _bits(builder: Any, value: ir.Value) -> ir.Value:
    """An integer or float as an integer of its size."""
    size = {"half": 16, "float": 32, "double": 64}.get(str(value.type))
    return value if size is None else builder.bitcast(value, ir.IntType(size))


def _of_bits(builder: Any, bits: ir.Value, kind: ir.Type) -> ir.Value:
    """What ``_bits`` made an integer of, which is as wide or wider now."""
    size = {"half": 16, "float": 32, "double": 64}.get(str(kind)) or kind.width
    bits = bits if size == bits.type.width else builder.trunc(bits, ir.IntType(size))
    return bits if isinstance(kind, ir.IntType) else builder.bitcast(bits, kind)


def _shuffle(builder: Any, part: ir.Value, at: ir.Value, mode: int) -> ir.Value:
    shape = ir.FunctionType(ir.LiteralStructType((_WORD, ir.IntType(1))), [_WORD] * 5)
    function = cgutils.get_or_insert_function(builder.module, shape, "llvm.nvvm.shfl.sync.i32")
    # The last: within all 32.
    given = [_EVERYBODY, ir.Constant(_WORD, mode), part, at, ir.Constant(_WORD, WARP - 1)]
    return builder.extract_value(builder.call(function, given), 0)


# --- small systems -----------------------------------------------------------------------------------------------------


def in_warp_word(word: Any) -> Intrinsic:
    """The Numba type of ``small_systems.solve_in_warp`` and its kin."""

    def typer(context: Any, args: tuple[Any, ...]) -> Any:
        return context.make_signature(types.intp, *args)

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        result = cgutils.alloca_once_value(builder, context.get_constant(types.intp, -1))
        if context.libdevice:
            active = builder.asm(ir.FunctionType(_WORD, []), "activemask.b32 $0;", "=r", [], True)
            with builder.if_then(builder.icmp_unsigned("==", active, _EVERYBODY)):
                arrays = [kind for kind in sig.args if isinstance(kind, types.Array)]
                sizes = [kind.literal_value for kind in sig.args[len(arrays) :]]
                parts = [context.make_array(kind)(context, builder, each) for kind, each in zip(arrays, args, strict=False)]
                _turns(builder, word, [_Part(builder, each) for each in parts], *sizes, result=result)
        return builder.load(result)

    return Intrinsic(word.__name__, typer, emit)


class _Part:
    """A matrix or vector: its address, and how far its rows and columns are apart, in bytes."""

    def __init__(self, builder: Any, array: Any) -> None:
        self._builder = builder
        self.kind = array.data.type.pointee
        self.address = builder.ptrtoint(array.data, _LONG)
        self._steps = cgutils.unpack_tuple(builder, array.strides)

    def element(self, address: ir.Value, *at: ir.Value) -> ir.Value:
        """The pointer to an element, where the part is at ``address``: in global memory."""
        for index, step in zip(at, self._steps, strict=True):
            address = self._builder.add(address, self._builder.mul(index, step))
        return self._builder.inttoptr(address, self.kind.as_pointer(1))


def _turns(builder: Any, word: Any, parts: Sequence[_Part], rows: int, columns: int = 1, *, result: ir.Value) -> None:
    """Each lane's system in turn, by as many lanes as hold its rows or columns: smaller systems several at a time.

    ``parts``: where the answer goes, the matrix, and the right sides; no ``columns``: these are vectors.
    """
    width = max(4, 1 << (rows - 1).bit_length())
    lanes = _Lanes(builder, width)
    own, last = builder.zext(lanes.number, _LONG), ir.Constant(_LONG, rows - 1)
    # Lanes behind the last row or column load that once more.
    read = builder.select(builder.icmp_unsigned("<", own, last), own, last)
    along = [ir.Constant(_LONG, k) for k in range(max(rows, columns))]
    # What other lanes stored is seen, here and behind.
    lanes.sync()
    with cgutils.for_range(builder, ir.Constant(_LONG, width)) as loop:
        turn = builder.trunc(loop.index, _WORD)
        lane = builder.add(lanes.first, turn)
        here = [lanes.of(each.address, lane) for each in parts]

        def loaded(part: int, *places: tuple[ir.Value, ...], here: Sequence[ir.Value] = here) -> list[ir.Value]:
            return [builder.load(parts[part].element(here[part], *place)) for place in places]

        if word is solve_in_warp:
            of_right = [(own, k) for k in along[:columns]] if columns else [(own,)]
            row = loaded(1, *((read, k) for k in along[:rows]))
            found, failed = solved_by_lanes(row, loaded(2, *((read, *place[1:]) for place in of_right)), lanes)
            places = of_right
        elif word is invert_in_warp:
            found, order, column, failed = inverted_by_lanes(loaded(1, *((k, read) for k in along)), lanes)
            places = [(builder.zext(row, _LONG), builder.zext(column, _LONG)) for row in order]
        else:
            found, failed = factored_by_lanes(loaded(1, *((k, read) for k in along)), lanes)
            places = [(k, own) for k in along]
        with builder.if_then(builder.and_(builder.icmp_unsigned("<=", own, last), builder.not_(failed))):
            for value, place in zip(found, places, strict=True):
                builder.store(value, parts[0].element(here[0], *place))
        mine = builder.icmp_unsigned("==", lanes.number, turn)
        builder.store(builder.select(mine, builder.zext(failed, _LONG), builder.load(result)), result)
    lanes.sync()


class _Lanes(Floats):
    """What ``solved_by_lanes`` computes by: a group of ``width`` lanes, from ``first`` on; ``number``: the lane in it."""

    def __init__(self, builder: Any, width: int) -> None:
        super().__init__(builder)
        self._width = width
        self._lane = builder.asm(ir.FunctionType(_WORD, []), "mov.u32 $0, %laneid;", "=r", [], False)
        self.number = builder.and_(self._lane, ir.Constant(_WORD, width - 1))
        self.first = builder.sub(self._lane, self.number)
        self._ours = builder.shl(ir.Constant(_WORD, (1 << width) - 1), self.first)

    def sync(self) -> None:
        """Wait for the other lanes, and for what they stored."""
        shape = ir.FunctionType(ir.VoidType(), [_WORD])
        function = cgutils.get_or_insert_function(self._builder.module, shape, "llvm.nvvm.bar.warp.sync")
        self._builder.call(function, [_EVERYBODY])

    def of(self, value: ir.Value, lane: ir.Value) -> ir.Value:
        """That of a lane of the warp."""
        return _shuffled(self._builder, value, lane, _AT)

    def of_lane(self, value: ir.Value, lane: Any) -> ir.Value:
        """That of a lane of the group."""
        return self.of(value, self._builder.add(self.first, self._word(lane)))

    def is_lane(self, lane: Any) -> ir.Value:
        """Whether it is this lane of the group."""
        return self._builder.icmp_unsigned("==", self.number, self._word(lane))

    def beyond(self, lane: int) -> ir.Value:
        """Whether it is that lane or one behind."""
        return self._builder.icmp_unsigned(">=", self.number, self._word(lane))

    def greatest(self, value: ir.Value, done: ir.Value) -> ir.Value:
        """The first lane, of those that are not ``done``, whose absolute value is the greatest."""
        builder = self._builder
        kind = ir.IntType(32 if value.type == ir.FloatType() else 64)
        # Floats without a sign are ordered as their bits are.
        key = builder.select(done, ir.Constant(kind, -1), builder.bitcast(self._absolute(value), kind))
        greatest = key
        for offset in (1 << bit for bit in range(self._width.bit_length() - 1)):
            other = _shuffled(builder, greatest, ir.Constant(_WORD, offset))
            greatest = builder.select(builder.icmp_signed(">", other, greatest), other, greatest)
        shape = ir.FunctionType(ir.LiteralStructType((_WORD, ir.IntType(1))), [_WORD, _WORD, ir.IntType(1)])
        vote = cgutils.get_or_insert_function(builder.module, shape, "llvm.nvvm.vote.sync")
        given = [_EVERYBODY, ir.Constant(_WORD, _BALLOT), builder.icmp_signed("==", key, greatest)]
        votes = builder.and_(builder.extract_value(builder.call(vote, given), 0), self._ours)
        return builder.sub(builder.cttz(votes, ir.Constant(ir.IntType(1), 1)), self.first)

    def is_not_positive(self, a: ir.Value) -> ir.Value:
        """Whether it is none of which a root is a diagonal's element."""
        # A nan is not, either.
        return self._builder.not_(self._builder.fcmp_ordered(">", a, self.zero(a)))

    def root(self, a: ir.Value) -> ir.Value:
        """The square root."""
        return self._builder.call(self._builder.module.declare_intrinsic("llvm.sqrt", [a.type]), [a])

    def product(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """``a * b``."""
        return self._builder.fmul(a, b)

    def zero(self, a: ir.Value) -> ir.Value:
        """0, of the type of ``a``."""
        return ir.Constant(a.type, 0.0)

    def one(self, a: ir.Value) -> ir.Value:
        """The same for 1."""
        return ir.Constant(a.type, 1.0)

    def index(self, number: int) -> ir.Value:
        """A number of a row or column."""
        return ir.Constant(_WORD, number)

    def _word(self, lane: Any) -> ir.Value:
        return ir.Constant(_WORD, lane) if isinstance(lane, int) else lane
