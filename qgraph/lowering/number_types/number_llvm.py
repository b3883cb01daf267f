"""LLVM code of number operations, in the types that ``numbers`` chose. The same for the CPU and for CUDA.

An emitter gets Numba's target context, an llvmlite builder, the signature and the operands, which already have the
signature's argument types, and returns the result. ``context.libdevice`` tells the two targets apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types as _numba_types

# Numba's types are made at import time, where a type checker does not see them.
types: Any = _numba_types

Emitter = Callable[[Any, ir.IRBuilder, Any, Sequence[ir.Value]], ir.Value]

I1 = ir.IntType(1)


def is_float(number: Any) -> bool:
    """Whether a Numba type is a real floating type."""
    return isinstance(number, types.Float)


def is_signed(number: Any) -> bool:
    """Whether a Numba type is a signed integer; booleans are not."""
    return isinstance(number, types.Integer) and bool(number.signed)


def add(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a + b``, wrapping in integers."""
    return (builder.fadd if is_float(sig.return_type) else builder.add)(*args)


def subtract(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a - b``, wrapping in integers."""
    return (builder.fsub if is_float(sig.return_type) else builder.sub)(*args)


def multiply(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a * b``, wrapping in integers; ``and`` of booleans, as an i1 product is."""
    return (builder.fmul if is_float(sig.return_type) else builder.mul)(*args)


def reassociable(emit: Emitter) -> Emitter:
    """A float operation that LLVM may reorder with its like."""

    def emit_loose(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        result = emit(context, builder, sig, args)
        if is_float(sig.return_type):
            result.flags = [*result.flags, "reassoc"]
        return result

    return emit_loose


def true_divide(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a / b`` of floats: inf or nan for b == 0."""
    return builder.fdiv(*args)


def bit_and(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a & b``."""
    return builder.and_(*args)


def bit_or(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a | b``."""
    return builder.or_(*args)


def bit_xor(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a ^ b``."""
    return builder.xor(*args)


def bit_not(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``~a``."""
    return builder.not_(args[0])


def half_truth(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``bool(a)`` of a float16, given as its bits: any but the sign."""
    (bits,) = args
    return builder.icmp_unsigned("!=", builder.and_(bits, ir.Constant(bits.type, 0x7FFF)), ir.Constant(bits.type, 0))


def shift_left(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a << b``: 0 where b is not below the number of bits, as NumPy."""
    value, amount = args
    inside = builder.icmp_unsigned("<", amount, ir.Constant(amount.type, amount.type.width))
    shifted = builder.shl(value, builder.select(inside, amount, ir.Constant(amount.type, 0)))
    return builder.select(inside, shifted, ir.Constant(value.type, 0))


def shift_right(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a >> b``: 0, or -1 for negative a, where b is not below the number of bits, as NumPy."""
    value, amount = args
    width = amount.type.width
    inside = builder.icmp_unsigned("<", amount, ir.Constant(amount.type, width))
    if is_signed(sig.return_type):
        return builder.ashr(value, builder.select(inside, amount, ir.Constant(amount.type, width - 1)))
    shifted = builder.lshr(value, builder.select(inside, amount, ir.Constant(amount.type, 0)))
    return builder.select(inside, shifted, ir.Constant(value.type, 0))


def floor_divide(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a // b``: of integers 0 for b == 0; of floats as NumPy and CPython, inf or nan for b == 0."""
    if is_float(sig.return_type):
        return _float_floor_divide(context, builder, sig, args)
    return integer_divmod(builder, sig, args)[0]


def modulo(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a % b``, with the sign of b: of integers 0 for b == 0, of floats nan."""
    if is_float(sig.return_type):
        return _float_modulo(context, builder, sig, args)
    return integer_divmod(builder, sig, args)[1]


def integer_divmod(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder of integers as Python rounds them; by zero 0 and 0."""
    a, b = args
    zero, one = ir.Constant(a.type, 0), ir.Constant(a.type, 1)
    by_zero = builder.icmp_unsigned("==", b, zero)
    if not is_signed(sig.return_type):
        safe = builder.select(by_zero, one, b)
        quotient, rest = builder.udiv(a, safe), builder.urem(a, safe)
        return builder.select(by_zero, zero, quotient), builder.select(by_zero, zero, rest)
    # lowest // -1 is undefined in LLVM; -a wraps to the lowest again, which is NumPy's answer.
    minus_one = builder.icmp_signed("==", b, ir.Constant(a.type, -1))
    safe = builder.select(builder.or_(by_zero, minus_one), one, b)
    quotient, rest = builder.sdiv(a, safe), builder.srem(a, safe)
    opposite = builder.icmp_signed("<", builder.xor(rest, safe), zero)
    adjust = builder.and_(builder.icmp_signed("!=", rest, zero), opposite)
    quotient = builder.sub(quotient, builder.zext(adjust, a.type))
    rest = builder.add(rest, builder.select(adjust, safe, zero))
    quotient = builder.select(minus_one, builder.sub(zero, a), quotient)
    return builder.select(by_zero, zero, quotient), builder.select(by_zero, zero, rest)


def _float_modulo(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    a, b = args
    zero = ir.Constant(a.type, 0.0)
    rest = fmod(context, builder, sig.return_type, args)
    nonzero = builder.fcmp_unordered("!=", rest, zero)
    opposite = builder.xor(builder.fcmp_ordered("<", b, zero), builder.fcmp_ordered("<", rest, zero))
    by_zero = builder.fcmp_ordered("==", b, zero)
    moved = builder.select(builder.and_(opposite, builder.not_(by_zero)), builder.fadd(rest, b), rest)
    signed_zero = call_math(context, builder, math.copysign, sig.return_type, (zero, b))
    return builder.select(nonzero, moved, signed_zero)


def _float_floor_divide(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    a, b = args
    kind = sig.return_type
    zero, one, half = (ir.Constant(a.type, value) for value in (0.0, 1.0, 0.5))
    rest = fmod(context, builder, kind, args)
    quotient = builder.fdiv(builder.fsub(a, rest), b)
    nonzero = builder.fcmp_unordered("!=", rest, zero)
    opposite = builder.xor(builder.fcmp_ordered("<", b, zero), builder.fcmp_ordered("<", rest, zero))
    quotient = builder.select(builder.and_(nonzero, opposite), builder.fsub(quotient, one), quotient)
    floored = call_library(context, builder, "floor", kind, (quotient,))
    # The quotient may have been rounded just below an integer.
    low = builder.fcmp_ordered(">", builder.fsub(quotient, floored), half)
    floored = builder.select(low, builder.fadd(floored, one), floored)
    exact = builder.fdiv(a, b)
    signed_zero = call_math(context, builder, math.copysign, kind, (zero, exact))
    floored = builder.select(builder.fcmp_unordered("!=", quotient, zero), floored, signed_zero)
    return builder.select(builder.fcmp_ordered("==", b, zero), exact, floored)


def power(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a ** b``; a literal integer exponent, small or of an integer base, becomes multiplications."""
    base, exponent = sig.args
    if isinstance(exponent, types.IntegerLiteral):
        return _literal_power(builder, base, args[0], exponent.literal_value)
    if is_float(base):
        return call_math(context, builder, math.pow, base, args)
    return _integer_power(builder, base, args, signed=is_signed(exponent))


def _literal_power(builder: ir.IRBuilder, kind: Any, value: ir.Value, exponent: int) -> ir.Value:
    one = ir.Constant(value.type, 1.0 if is_float(kind) else 1)
    if exponent == 0:
        return one
    result = by_squaring(value, abs(exponent), builder.fmul if is_float(kind) else builder.mul)
    return builder.fdiv(one, result) if exponent < 0 else result


def by_squaring(value: Any, exponent: int, times: Callable[[Any, Any], Any]) -> Any:
    """``value`` to a power of at least 1, by few products."""
    square, result = value, None
    while exponent:
        if exponent & 1:
            result = square if result is None else times(result, square)
        exponent >>= 1
        if exponent:
            square = times(square, square)
    return result


def _integer_power(builder: ir.IRBuilder, kind: Any, args: Sequence[ir.Value], *, signed: bool) -> ir.Value:
    """By squaring. A negative exponent gives ``int(1 / a ** -b)``: 0, but for 1 and -1; and 0 for 0."""
    base, exponent = args
    one, zero = ir.Constant(base.type, 1), ir.Constant(base.type, 0)
    if exponent.type.width < base.type.width:
        exponent = (builder.sext if signed else builder.zext)(exponent, base.type)
    before = builder.block
    head, body, after = (builder.append_basic_block(f"power.{name}") for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    result, square, left = (builder.phi(base.type) for _ in range(3))
    for phi, start in ((result, one), (square, base), (left, exponent)):
        phi.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("!=", left, zero), body, after)
    builder.position_at_end(body)
    odd = builder.trunc(left, I1)
    steps = (
        (result, builder.select(odd, builder.mul(result, square), result)),
        (square, builder.mul(square, square)),
        (left, builder.lshr(left, one)),
    )
    for phi, value in steps:
        phi.add_incoming(value, body)
    builder.branch(head)
    builder.position_at_end(after)
    if not signed:
        return result
    # Of 1 and -1 the loop's answer is right: the last bit tells odd from even.
    unit = builder.icmp_signed("==", absolute_integer(builder, kind, base), one)
    vanishes = builder.and_(builder.icmp_signed("<", exponent, zero), builder.not_(unit))
    return builder.select(vanishes, zero, result)


def negative(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``-a``."""
    (a,) = args
    if is_float(sig.return_type):
        return builder.fsub(ir.Constant(a.type, -0.0), a)
    return builder.sub(ir.Constant(a.type, 0), a)


def identity(_context: Any, _builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The operand, which was converted to the result's type."""
    return args[0]


def absolute(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``abs(a)``; the lowest integer stays as it is, as in NumPy."""
    (a,) = args
    if is_float(sig.return_type):
        return call_library(context, builder, "fabs", sig.return_type, (a,))
    return absolute_integer(builder, sig.return_type, a)


def absolute_integer(builder: ir.IRBuilder, kind: Any, a: ir.Value) -> ir.Value:
    """``abs(a)`` of an integer type; the lowest integer stays as it is."""
    if not is_signed(kind):
        return a
    zero = ir.Constant(a.type, 0)
    return builder.select(builder.icmp_signed("<", a, zero), builder.sub(zero, a), a)


def less(builder: ir.IRBuilder, kind: Any, a: ir.Value, b: ir.Value) -> ir.Value:
    """The i1 ``a < b`` in one number type; false with a nan."""
    if is_float(kind):
        return builder.fcmp_ordered("<", a, b)
    return (builder.icmp_signed if is_signed(kind) else builder.icmp_unsigned)("<", a, b)


def is_nan(builder: ir.IRBuilder, kind: Any, a: ir.Value) -> ir.Value:
    """The i1 ``a != a``."""
    return builder.fcmp_unordered("uno", a, a) if is_float(kind) else ir.Constant(I1, 0)


def comparison(symbol: str) -> Emitter:
    """The emitter of a comparison, exact between signed and unsigned integers."""

    def emit(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        (left, right), (a, b) = sig.args, args
        if is_float(left):
            return (builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered)(symbol, a, b)
        if is_signed(left) and is_signed(right):
            return builder.icmp_signed(symbol, a, b)
        if is_signed(left) == is_signed(right):
            return builder.icmp_unsigned(symbol, a, b)
        # One is signed: if it is negative, its sign decides; else both are unsigned.
        signed = a if is_signed(left) else b
        below = builder.icmp_signed("<", signed, ir.Constant(signed.type, 0))
        answer = symbol in ("!=", "<", "<=") if is_signed(left) else symbol in ("!=", ">", ">=")
        return builder.select(below, ir.Constant(I1, int(answer)), builder.icmp_unsigned(symbol, a, b))

    return emit


def _is_better(largest: bool, builder: ir.IRBuilder, kind: Any, a: ir.Value, b: ir.Value) -> ir.Value:
    """The i1 ``a < b``, or ``b < a`` where the largest is wanted: whether a is the better of the two."""
    return less(builder, kind, b, a) if largest else less(builder, kind, a, b)


def _extreme_of_many(largest: bool) -> Emitter:
    """CPython's ``min`` and ``max``: a later value only if it is better."""

    def emit(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        best = args[0]
        for value in args[1:]:
            best = builder.select(_is_better(largest, builder, sig.return_type, value, best), value, best)
        return best

    return emit


def _extreme_of_two(largest: bool, *, nan_wins: bool) -> Emitter:
    """NumPy's: in ``minimum`` and ``maximum`` a nan wins, in ``fmin`` and ``fmax`` a number does."""

    def emit(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        (a, b), kind = args, sig.return_type
        better = _is_better(largest, builder, kind, a, b)
        return builder.select(builder.or_(better, is_nan(builder, kind, a if nan_wins else b)), a, b)

    return emit


def mixed_extreme(*, largest: bool) -> Emitter:
    """``min`` or ``max`` of integers of 64 bits, some with a sign and some without; the result has its bits."""

    def emit(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        best = below = None
        for kind, value in zip(sig.args, args, strict=True):
            zero = ir.Constant(value.type, 0)
            negative = builder.icmp_signed("<", value, zero) if is_signed(kind) else ir.Constant(I1, 0)
            if best is None:
                best, below = value, negative
                continue
            # Of numbers with the same sign the order is that of their bits.
            symbol = ">" if largest else "<"
            better = builder.select(
                builder.xor(negative, below), below if largest else negative, builder.icmp_unsigned(symbol, value, best)
            )
            best, below = builder.select(better, value, best), builder.select(better, negative, below)
        return best

    return emit


builtin_min, builtin_max = _extreme_of_many(largest=False), _extreme_of_many(largest=True)
minimum, maximum = _extreme_of_two(largest=False, nan_wins=True), _extreme_of_two(largest=True, nan_wins=True)
fmin, fmax = _extreme_of_two(largest=False, nan_wins=False), _extreme_of_two(largest=True, nan_wins=False)


def reassociable_extreme(*, largest: bool) -> Emitter:
    """``min`` or ``max`` of two, without a word on nan and the sign of zero: LLVM vectorises it, and a GPU has it."""
    exact = builtin_max if largest else builtin_min

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        if not is_float(sig.return_type):
            return exact(context, builder, sig, args)
        if context.libdevice and sig.return_type in (types.float32, types.float64):
            return call_library(context, builder, "fmax" if largest else "fmin", sig.return_type, args)
        a, b = args
        flags = ("nnan", "nsz")
        return builder.select(builder.fcmp_ordered(">" if largest else "<", b, a, flags=flags), b, a, flags=flags)

    return emit


def reassociable_numpys(*, largest: bool) -> Emitter:
    """NumPy's ``minimum`` or ``maximum`` of two, as LLVM knows it on the CPU, where it vectorises many."""
    exact, name = (maximum, "llvm.maximum") if largest else (minimum, "llvm.minimum")

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        if context.libdevice or sig.return_type not in (types.float32, types.float64):
            return exact(context, builder, sig, args)
        kind = args[0].type
        return builder.call(builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind, kind])), args)

    return emit


def clip(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """NumPy's ``clip``: ``minimum(maximum(a, low), high)``."""
    a, low, high = args
    return minimum(context, builder, sig, (maximum(context, builder, sig, (a, low)), high))


def select(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """NumPy's ``where`` of scalars."""
    return builder.select(*args)


def make_complex(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """A complex number of its real and imaginary parts."""
    number = context.make_complex(builder, sig.return_type)
    number.real, number.imag = args
    return number._getvalue()


def trip_count(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``intrinsics.trip_count``: a distance divided by a step, both taken positive, and rounded up; at most 2**63 - 1."""
    return _trip_count(builder, *args)


def _trip_count(builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: ir.Value) -> ir.Value:
    zero, one = ir.Constant(step.type, 0), ir.Constant(step.type, 1)
    up = builder.icmp_signed(">", step, zero)
    # Without a sign: a distance may have 64 bits.
    distance = builder.select(up, builder.sub(stop, start), builder.sub(start, stop))
    size = builder.select(up, step, builder.sub(zero, step))
    moves = builder.icmp_signed("!=", step, zero)
    # A division by 0 is undefined, whether or not its result is used.
    size = builder.select(moves, size, one)
    count = builder.add(builder.udiv(builder.sub(distance, one), size), one)
    # Nobody waits for the end of so many.
    most = ir.Constant(step.type, (1 << 63) - 1)
    count = builder.select(builder.icmp_signed("<", count, zero), most, count)
    ahead = builder.select(up, builder.icmp_signed("<", start, stop), builder.icmp_signed(">", start, stop))
    return builder.select(builder.and_(moves, ahead), count, zero)


def wrap_index(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``intrinsics.wrap_index``: an index, ``size`` more where it is negative."""
    index, size = args
    negative = builder.icmp_signed("<", index, ir.Constant(index.type, 0))
    return builder.select(negative, builder.add(index, size), index)


def times(factor: float) -> Emitter:
    """The emitter of ``a * factor``, of a float."""

    def emit(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.fmul(args[0], ir.Constant(args[0].type, factor))

    return emit


def fmod(context: Any, builder: ir.IRBuilder, kind: Any, args: Sequence[ir.Value]) -> ir.Value:
    """C's ``fmod``, exact. LLVM's ``frem`` is the same on the CPU; for PTX it is expanded, and is not exact."""
    if context.libdevice:
        return call_library(context, builder, "fmod", kind, args)
    return builder.frem(*args)


def math_function(function: Callable[..., Any]) -> Emitter:
    """The emitter that calls Numba's own code for a function of ``math``, all operands of the result's type."""

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return call_math(context, builder, function, sig.return_type, args)

    return emit


def library_function(name: str) -> Emitter:
    """The emitter that calls an LLVM intrinsic on the CPU, libdevice on CUDA."""

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return call_library(context, builder, name, sig.return_type, args)

    return emit


def call_math(context: Any, builder: ir.IRBuilder, function: Any, kind: Any, args: Sequence[ir.Value]) -> ir.Value:
    """Call Numba's own code for ``function``, all operands and the result of type ``kind``."""
    signature = context.make_signature(kind, *[kind] * len(args))
    return context.get_function(function, signature)(builder, tuple(args))


def call_library(context: Any, builder: ir.IRBuilder, name: str, kind: Any, args: Sequence[ir.Value]) -> ir.Value:
    """Call ``llvm.<name>`` on the CPU, ``__nv_<name>`` on CUDA; ``name`` is C's."""
    value_type = args[0].type
    if context.libdevice:
        symbol = f"__nv_{name}" + ("f" if kind == types.float32 else "")
        return call_external(builder, symbol, args)
    return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [value_type]), args)


def call_external(builder: ir.IRBuilder, symbol: str, args: Sequence[ir.Value]) -> ir.Value:
    """A call of a C function whose operands and result have one type."""
    function_type = ir.FunctionType(args[0].type, [value.type for value in args])
    function = builder.module.globals.get(symbol) or ir.Function(builder.module, function_type, symbol)
    return builder.call(function, args)
