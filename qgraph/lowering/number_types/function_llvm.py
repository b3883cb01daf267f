"""LLVM code of rounding, of remainders, and of tests of floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qgraph.lowering.number_types.number_llvm import (
    I1,
    by_squaring,
    call_external,
    call_library,
    call_math,
    fmod,
    integer_divmod,
    is_float,
    is_nan,
    is_signed,
    types,
)


def isnan(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """Whether a number is nan."""
    return is_nan(builder, sig.args[0], args[0])


def isinf(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """Whether a number is infinite."""
    return _size_is("==", context, builder, sig, args)


def isfinite(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """Whether a number is neither nan nor infinite."""
    return _size_is("<", context, builder, sig, args)


def _size_is(symbol: str, context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """How the absolute value compares with infinity; integers are below it."""
    if not is_float(sig.args[0]):
        return ir.Constant(I1, symbol == "<")
    size = call_library(context, builder, "fabs", sig.args[0], args)
    return builder.fcmp_ordered(symbol, size, ir.Constant(size.type, math.inf))


def without_nan(_context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """0 for nan, the largest float for inf, the lowest for -inf."""
    (a,), kind = args, sig.return_type
    largest = ir.Constant(a.type, (2 - 2**-23) * 2.0**127 if kind == types.float32 else (2 - 2**-52) * 2.0**1023)
    lowest = _minus(builder, largest)
    bounded = builder.select(builder.fcmp_ordered(">", a, largest), largest, a)
    bounded = builder.select(builder.fcmp_ordered("<", bounded, lowest), lowest, bounded)
    return builder.select(is_nan(builder, kind, a), ir.Constant(a.type, 0.0), bounded)


def remainder(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """C's ``fmod``, with the sign of a; of integers 0 for b == 0."""
    a, b = args
    if is_float(sig.return_type):
        return fmod(context, builder, sig.return_type, args)
    zero, one = ir.Constant(a.type, 0), ir.Constant(a.type, 1)
    unsafe = builder.icmp_unsigned("==", b, zero)
    if not is_signed(sig.return_type):
        return builder.select(unsafe, zero, builder.urem(a, builder.select(unsafe, one, b)))
    unsafe = builder.or_(unsafe, builder.icmp_signed("==", b, ir.Constant(a.type, -1)))
    return builder.select(unsafe, zero, builder.srem(a, builder.select(unsafe, one, b)))


def round_integer(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``round(a, digits)`` of an integer, half to even: itself where digits are behind the point."""
    kind = types.int64 if is_signed(sig.return_type) else types.uint64
    value = context.cast(builder, args[0], sig.args[0], kind)
    zero = ir.Constant(value.type, 0)
    places = builder.neg(context.cast(builder, args[1], sig.args[1], types.int64))
    # What has 64 bits has 19 digits, or 20: of so many places nothing is left.
    known = builder.icmp_unsigned("<", places, ir.Constant(places.type, 19))
    power = _power_of_ten(builder, value.type, builder.select(known, places, zero))
    quotient, rest = integer_divmod(builder, context.make_signature(kind, kind, kind), (value, power))
    missing = builder.sub(power, rest)
    tie = builder.and_(builder.icmp_unsigned("==", rest, missing), builder.trunc(quotient, I1))
    up = builder.or_(builder.icmp_unsigned(">", rest, missing), tie)
    rounded = builder.mul(builder.add(quotient, builder.zext(up, value.type)), power)
    rounded = builder.select(known, rounded, zero)
    rounded = builder.select(builder.icmp_signed("<=", places, zero), value, rounded)
    return context.cast(builder, rounded, kind, sig.return_type)


def round_float(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``np.round(a, digits)``: a product, rounded half to even, and a quotient; or the other way round."""
    value, kind = args[0], sig.return_type
    power, behind = _scale(context, builder, sig, args)
    scaled = builder.select(behind, builder.fmul(value, power), builder.fdiv(value, power))
    whole = call_library(context, builder, "rint", kind, (scaled,))
    return builder.select(behind, builder.fdiv(whole, power), builder.fmul(whole, power))


def round_exactly(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``round(a, digits)`` as CPython has it: the float that is closest to the decimal that is closest to ``a``.

    The power of ten is exact. So a fused operation tells how much the product, or quotient, is off, which decides ties.
    """
    value, kind = args[0], sig.return_type
    zero, one = ir.Constant(value.type, 0.0), ir.Constant(value.type, 1.0)
    power, behind = _scale(context, builder, sig, args)
    product, quotient = builder.fmul(value, power), builder.fdiv(value, power)
    scaled = builder.select(behind, product, quotient)
    lost = fused(context, builder, kind, (value, power, _minus(builder, product)))
    rest = fused(context, builder, kind, (_minus(builder, quotient), power, value))
    off = builder.select(behind, lost, rest)
    whole = call_library(context, builder, "rint", kind, (scaled,))
    ahead = builder.fsub(scaled, whole)
    half = ir.Constant(value.type, 0.5)
    above = builder.and_(builder.fcmp_ordered("==", ahead, half), builder.fcmp_ordered(">", off, zero))
    below = builder.and_(builder.fcmp_ordered("==", ahead, _minus(builder, half)), builder.fcmp_ordered("<", off, zero))
    moved = builder.select(above, builder.fadd(whole, one), builder.select(below, builder.fsub(whole, one), whole))
    rounded = builder.select(behind, builder.fdiv(moved, power), builder.fmul(moved, power))
    # A float so large has no digits there, nor have inf and nan.
    size = call_library(context, builder, "fabs", kind, (scaled,))
    few = builder.fcmp_ordered("<", size, ir.Constant(value.type, 2.0 ** (22 if kind == types.float32 else 51)))
    return builder.select(few, rounded, value)


def _minus(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    # NVVM has no fneg.
    return builder.fsub(ir.Constant(value.type, -0.0), value)


def fused(context: Any, builder: ir.IRBuilder, kind: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a * b + c`` with one rounding."""
    return call_library(context, builder, "fma", kind, args) if context.libdevice else builder.fma(*args)


def _scale(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """10 to the power of the size of ``digits``, the second operand, as a float, and whether these are behind the point."""
    digits = context.cast(builder, args[1], sig.args[1], types.int64)
    behind = builder.icmp_signed(">=", digits, ir.Constant(digits.type, 0))
    places = builder.select(behind, digits, builder.neg(digits))
    # Beyond these the power is infinite.
    most = ir.Constant(digits.type, 63 if sig.return_type == types.float32 else 511)
    places = builder.select(builder.icmp_unsigned("<", places, most), places, most)
    return _power_of_ten(builder, args[0].type, places), behind


def _power_of_ten(builder: ir.IRBuilder, kind: ir.Type, places: ir.Value) -> ir.Value:
    """10 to the power ``places``, as a number of LLVM's type ``kind``: the product of some of 10, 10**2, 10**4 and so on."""
    integer = isinstance(kind, ir.IntType)
    bits = 5 if integer else 6 if isinstance(kind, ir.FloatType) else 9
    result = ir.Constant(kind, 1 if integer else 1.0)
    for bit in range(bits):
        power = 10 ** (1 << bit)
        more = (builder.mul if integer else builder.fmul)(result, ir.Constant(kind, power if integer else float(power)))
        result = builder.select(builder.trunc(builder.lshr(places, ir.Constant(places.type, bit)), I1), more, result)
    return result


def log_of_sum(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """NumPy's ``logaddexp``: the larger number, and ``log1p(exp(-distance))`` more."""
    (a, b), kind = args, sig.return_type
    distance = builder.fsub(a, b)
    size = call_library(context, builder, "fabs", kind, (distance,))
    larger = builder.select(builder.fcmp_ordered(">", distance, ir.Constant(a.type, 0.0)), a, b)
    scaled = call_math(context, builder, math.exp, kind, (_minus(builder, size),))
    more = call_math(context, builder, math.log1p, kind, (scaled,))
    # Of two infinities the distance is nan.
    same = builder.fcmp_ordered("==", a, b)
    return builder.select(same, builder.fadd(a, ir.Constant(a.type, math.log(2.0))), builder.fadd(larger, more))


def cube_root(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """C's ``cbrt``."""
    if context.libdevice:
        return call_library(context, builder, "cbrt", sig.return_type, args)
    name = "cbrtf" if sig.return_type == types.float32 else "cbrt"
    return call_external(builder, name, args)


def divide_complex(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a / b`` of complex numbers as NumPy computes it, by Smith's rule: inf or nan for b == 0, where Numba's code raises."""
    kind = sig.return_type
    a, b = (context.make_complex(builder, kind, value) for value in args)
    sizes = [call_library(context, builder, "fabs", kind.underlying_float, (part,)) for part in (b.real, b.imag)]
    by_imaginary = builder.not_(builder.fcmp_ordered(">=", *sizes))
    large, small = _swapped(builder, by_imaginary, b.real, b.imag)
    first, second = _swapped(builder, by_imaginary, a.real, a.imag)
    ratio = builder.fdiv(small, large)
    scale = builder.fdiv(ir.Constant(large.type, 1.0), builder.fadd(large, builder.fmul(small, ratio)))
    turned = builder.fmul(first, ratio)
    imaginary = builder.select(by_imaginary, builder.fsub(turned, second), builder.fsub(second, turned))
    parts = (builder.fadd(first, builder.fmul(second, ratio)), imaginary)
    by_zero = builder.fcmp_ordered("==", builder.fadd(*sizes), ir.Constant(large.type, 0.0))
    result = context.make_complex(builder, kind)
    result.real, result.imag = (
        builder.select(by_zero, builder.fdiv(part, sizes[0]), builder.fmul(value, scale))
        for part, value in zip((a.real, a.imag), parts, strict=True)
    )
    return result._getvalue()


def power_of_complex(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """``a ** n`` for a small literal n by multiplications, as NumPy and CPython compute it, where Numba's takes logarithms."""
    kind, literal = sig.args
    number, exponent = context.make_complex(builder, kind, args[0]), literal.literal_value
    one = context.make_complex(builder, kind)
    one.real, one.imag = (ir.Constant(number.real.type, part) for part in (1.0, 0.0))
    if exponent == 0:
        return one._getvalue()
    result = by_squaring(number, abs(exponent), lambda a, b: _product(context, builder, kind, a, b))._getvalue()
    if exponent > 0:
        return result
    return divide_complex(context, builder, kind(kind, kind), (one._getvalue(), result))


def _product(context: Any, builder: ir.IRBuilder, kind: Any, a: Any, b: Any) -> Any:
    """The product of two complex numbers."""
    made = context.make_complex(builder, kind)
    made.real = builder.fsub(builder.fmul(a.real, b.real), builder.fmul(a.imag, b.imag))
    made.imag = builder.fadd(builder.fmul(a.real, b.imag), builder.fmul(a.imag, b.real))
    return made


def _swapped(builder: ir.IRBuilder, test: ir.Value, first: ir.Value, second: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Two numbers, in the other order where ``test`` holds."""
    return builder.select(test, second, first), builder.select(test, first, second)
