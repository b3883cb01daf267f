"""Functions of numbers: Python's builtins, ``math`` and NumPy's."""

from __future__ import annotations

import builtins
import cmath
import functools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from qgraph.operations import intervals, intrinsics
from qgraph.operations.record import Operation, typed
from qgraph.polyhedral.symbolic_integers import Poly, maximum, minimum


def _spelled(function: Any, meaning: Callable[..., Any], **more: Any) -> Operation:
    """The record of a function that is compiled as ``meaning``, written with operators."""
    return typed(function, lambda rules, code: rules.spelled(meaning), **more)


# --- builtins ----------------------------------------------------------------------------------------------------------


def _of_two_or_more(choose: Callable[[Poly, Poly], Poly]) -> Callable[..., Poly | None]:
    return lambda *values: functools.reduce(choose, values) if len(values) > 1 else None


_least, _greatest = _of_two_or_more(minimum), _of_two_or_more(maximum)


def _builtins() -> Iterator[Operation]:
    yield typed(
        builtins.min,
        lambda rules, code: rules.extreme(code.builtin_min, largest=False),
        result="joined",
        owner="any",
        integers=_least,
        interval=intervals.corners(min),
        takes_ambiguous=True,
        reassociable=intrinsics.reassociable_min,
    )
    yield typed(
        builtins.max,
        lambda rules, code: rules.extreme(code.builtin_max, largest=True),
        result="joined",
        owner="any",
        integers=_greatest,
        interval=intervals.corners(max),
        takes_ambiguous=True,
        reassociable=intrinsics.reassociable_max,
    )
    yield typed(
        builtins.abs,
        lambda rules, code: rules.unary(code.absolute, of_numpy=False),
        elementwise=(1,),
        result="first",
        owner="first",
        integers=lambda value: maximum(value, -value),
        interval=intervals.absolute,
        integers_of_integers=True,
    )
    yield typed(
        np.absolute,
        lambda rules, code: rules.otherwise(rules.unary(code.absolute), builtins.abs),
        integers=lambda value: maximum(value, -value),
    )
    yield typed(builtins.float, lambda rules, code: rules.to_float, result="float", owner="python")
    yield typed(builtins.int, lambda rules, code: rules.to_integer(None), owner="python")
    yield typed(builtins.complex, lambda rules, code: rules.to_complex)
    yield typed(builtins.round, lambda rules, code: rules.round_, owner="first")
    yield typed(
        builtins.divmod,
        lambda rules, code: rules.quotient_and_rest,
        ufuncs=(np.divmod,),
        result="joined",
        takes_ambiguous=True,
    )
    yield Operation(functions=(builtins.len,), owner="python")
    yield typed(builtins.range, lambda rules, code: rules.range_, takes_ambiguous=True)


# --- floats -------------------------------------------------------------------------------------------------------------

# A function of math, and NumPy's; cmath has those of complex numbers. All compute in floats.
_FLOAT_FUNCTIONS: tuple[tuple[Callable[..., float], np.ufunc | None], ...] = (
    (math.sqrt, np.sqrt),
    (math.exp, np.exp),
    (math.expm1, np.expm1),
    (math.log, np.log),
    (math.log2, np.log2),
    (math.log10, np.log10),
    (math.log1p, np.log1p),
    (math.sin, np.sin),
    (math.cos, np.cos),
    (math.tan, np.tan),
    (math.asin, np.arcsin),
    (math.acos, np.arccos),
    (math.atan, np.arctan),
    (math.sinh, np.sinh),
    (math.cosh, np.cosh),
    (math.tanh, np.tanh),
    (math.asinh, np.arcsinh),
    (math.acosh, np.arccosh),
    (math.atanh, np.arctanh),
    (math.exp2, np.exp2),
    (math.fabs, np.fabs),
    (math.erf, None),
    (math.erfc, None),
    (math.gamma, None),
    (math.lgamma, None),
)
_FLOAT_PAIRS = ((math.atan2, np.arctan2), (math.hypot, np.hypot), (math.copysign, np.copysign))
# LLVM turns its own into one instruction.
_OF_LLVM = (math.sqrt, math.fabs)


def _of_math(function: Any, typing: Callable[[Any, Any], Any]) -> Operation:
    return typed(function, typing, result="float", owner="python")


def _floating(function: Any, emitter: Callable[[Any], Any], *operands: int) -> Operation:
    """A function that computes in floats; ``emitter`` is taken from lowering's emitters."""
    if not isinstance(function, np.ufunc):
        return _of_math(function, lambda rules, code: rules.floating(emitter(code), *operands))
    name = function.__name__
    return typed(function, lambda rules, code: rules.floating_as_numpy(name, emitter(code), *operands), takes="real numbers")


def _floats() -> Iterator[Operation]:
    for function, ufunc in _FLOAT_FUNCTIONS:
        emitter = functools.partial(_emitter, function)
        yield _floating(function, emitter, 1)
        if ufunc is not None:
            yield _or_complex(_floating(ufunc, emitter, 1), getattr(cmath, function.__name__, None))
    for function, ufunc in _FLOAT_PAIRS:
        emitter = functools.partial(_emitter, function)
        yield _floating(function, emitter)
        yield _floating(ufunc, emitter)
    yield _floating(math.pow, lambda code: code.math_function(math.pow))
    yield typed(np.float_power, lambda rules, code: rules.double(code.math_function(math.pow)), takes="real numbers")
    for function in (math.cbrt, np.cbrt):
        yield _floating(function, lambda code: code.cube_root, 1)
    yield _floating(math.fmod, lambda code: code.remainder)
    yield typed(np.fmod, lambda rules, code: rules.arithmetic(code.remainder))
    yield _floating(np.logaddexp, lambda code: code.log_of_sum)
    for function in (math.degrees, np.degrees, np.rad2deg):
        yield _floating(function, lambda code: code.times(180.0 / math.pi), 1)
    for function in (math.radians, np.radians, np.deg2rad):
        yield _floating(function, lambda code: code.times(math.pi / 180.0), 1)


def _emitter(function: Any, code: Any) -> Any:
    return code.library_function(function.__name__) if function in _OF_LLVM else code.math_function(function)


def _or_complex(record: Operation, of_complex: Callable[..., complex] | None) -> Operation:
    """The record with ``of_complex``, where there is one, for complex operands."""
    of_floats = record.typing
    if of_complex is None or of_floats is None:
        return record
    return replace(record, typing=lambda rules, code: rules.otherwise(of_floats(rules, code), of_complex), takes="")


# --- integers, and numbers that are rounded to them ---------------------------------------------------------------------


def _rounded() -> Iterator[Operation]:
    for function, ufunc in ((math.floor, np.floor), (math.ceil, np.ceil), (math.trunc, np.trunc)):
        yield from _to_whole(function, ufunc)
    yield _floating(np.rint, lambda code: code.library_function("rint"), 1)
    yield Operation(
        functions=(np.round, np.around),
        typing=lambda rules, code: rules.round_as_numpy,
        elementwise=(1, 2),
        result="first",
        owner="numpy",
    )
    yield typed(popcount, lambda rules, code: rules.bit_count, owner="python")
    yield _spelled(math.gcd, _gcd_of_python, result="float", owner="python")
    # A literal takes the type of the other number, which the code of a function does not know of its parameters.
    yield typed(np.gcd, lambda rules, code: rules.spelled(_gcd, alike=True), takes="integers")
    yield typed(np.lcm, lambda rules, code: rules.spelled(_lcm, alike=True), takes="integers")
    yield _spelled(np.signbit, _signbit, takes="real numbers")
    yield typed(_wide, lambda rules, code: rules.widened)


def _lcm(a: Any, b: Any) -> Any:
    common = np.gcd(a, b)
    return abs(a) // common * abs(b) if common else common


def _signbit(value: Any) -> bool:
    return math.copysign(1.0, value) < 0


def popcount(value: Any) -> int:
    """The number of ones in the binary representation of the absolute value of ``value``, as ``int.bit_count`` gives it.

    Args:
        value: an integer or a bool, Python's or NumPy's.

    Raises:
        TypeError: it is neither; in a kernel a ``KernelTypeError``.
    """
    return (int(value) if isinstance(value, np.bool_) else operator.index(value)).bit_count()


def _to_whole(function: Any, ufunc: np.ufunc) -> Iterator[Operation]:
    name = function.__name__
    yield _of_math(function, lambda rules, code: rules.to_integer(name))
    yield typed(ufunc, lambda rules, code: rules.rounding(code.library_function(name)))


def _gcd(a, b):  # type: ignore[no-untyped-def]
    while b != 0:
        a, b = b, a % b
    # Not before: the lowest integer has no positive one.
    return abs(a)


def _gcd_of_python(a, b):  # type: ignore[no-untyped-def]
    a, b = _wide(a), _wide(b)
    while b != 0:
        a, b = b, a % b
    return abs(a)


def _wide(x: Any) -> Any:
    """``x`` as an integer of 64 bits."""
    return x


# --- choices, tests and parts -------------------------------------------------------------------------------------------


def _choices() -> Iterator[Operation]:
    yield typed(
        np.minimum,
        lambda rules, code: rules.extreme_of_two(code.minimum, largest=False),
        integers=_least,
        reassociable=intrinsics.reassociable_minimum,
    )
    yield typed(
        np.maximum,
        lambda rules, code: rules.extreme_of_two(code.maximum, largest=True),
        integers=_greatest,
        reassociable=intrinsics.reassociable_maximum,
    )
    yield typed(np.fmin, lambda rules, code: rules.extreme_of_two(code.fmin, largest=False))
    yield typed(np.fmax, lambda rules, code: rules.extreme_of_two(code.fmax, largest=True))
    yield typed(
        np.clip,
        lambda rules, code: rules.joined(code.clip, 3),
        elementwise=(3,),
        result="joined",
        owner="numpy",
        takes="real numbers",
    )
    yield typed(np.where, lambda rules, code: rules.where, elementwise=(3,), owner="numpy")
    yield typed(np.sign, lambda rules, code: rules.sign, takes="real numbers")
    yield _spelled(np.square, _square)
    yield typed(np.reciprocal, lambda rules, code: rules.reciprocal, takes="real numbers")
    yield typed(np.nan_to_num, lambda rules, code: rules.without_nan, result="first", owner="numpy")


def _square(x):  # type: ignore[no-untyped-def]
    return x * x


def _tests() -> Iterator[Operation]:
    yield from _test(math.isnan, np.isnan, _complex_isnan)
    yield from _test(math.isinf, np.isinf, _complex_isinf)
    yield from _test(math.isfinite, np.isfinite, _complex_isfinite)
    yield typed(np.logical_and, lambda rules, code: rules.logical(code.bit_and))
    yield typed(np.logical_or, lambda rules, code: rules.logical(code.bit_or))
    yield typed(np.logical_xor, lambda rules, code: rules.logical(code.bit_xor))
    yield typed(np.logical_not, lambda rules, code: rules.logical(code.bit_not, 1))
    yield _spelled(np.isclose, _isclose, elementwise=(2, 3, 4), owner="numpy", takes="real numbers")


def _isclose(a, b, rtol=1e-05, atol=1e-08):  # type: ignore[no-untyped-def]
    b = b * 1.0
    return (abs(a - b) <= atol + rtol * abs(b) and np.isfinite(b)) or a == b


def _test(function: Any, ufunc: np.ufunc, of_complex: Callable[..., bool]) -> Iterator[Operation]:
    def typing(rules: Any, code: Any) -> Any:
        return rules.is_such(getattr(code, function.__name__))

    yield _of_math(function, typing)
    yield typed(ufunc, lambda rules, code: rules.otherwise(typing(rules, code), rules.spelled(of_complex)))


def _complex_isnan(x):  # type: ignore[no-untyped-def]
    return math.isnan(x.real) or math.isnan(x.imag)


def _complex_isinf(x):  # type: ignore[no-untyped-def]
    return math.isinf(x.real) or math.isinf(x.imag)


def _complex_isfinite(x):  # type: ignore[no-untyped-def]
    return math.isfinite(x.real) and math.isfinite(x.imag)


def _parts() -> Iterator[Operation]:
    yield _spelled(np.real, _real, elementwise=(1,), result="first", owner="numpy")
    yield _spelled(np.imag, _imag, elementwise=(1,), result="first", owner="numpy")
    yield _spelled(np.conjugate, _conjugate)


def _real(x):  # type: ignore[no-untyped-def]
    return x.real


def _imag(x):  # type: ignore[no-untyped-def]
    return x.imag


def _conjugate(x):  # type: ignore[no-untyped-def]
    return x.conjugate()


# --- of arrays ----------------------------------------------------------------------------------------------------------


def _reduction(*functions: Any, name: str = "") -> Operation:
    return Operation(functions=functions, pure=False, reduces=name or functions[0].__name__, owner="numpy")


# NumPy 2 has given it another name.
_trapezoid = getattr(np, "trapezoid", None) or getattr(np, "trapz")  # noqa: B009


def _reductions() -> Iterator[Operation]:
    yield from map(_reduction, (np.sum, np.prod))
    yield _reduction(np.min, np.amin, name="min")
    yield _reduction(np.max, np.amax, name="max")
    yield _reduction(np.dot, np.inner, name="dot")
    yield from map(_reduction, (np.any, np.all, np.mean, np.vdot, np.count_nonzero, np.argmin, np.argmax))
    yield from map(_reduction, (np.var, np.std, np.ptp, np.linalg.norm, np.linalg.det, np.allclose, _trapezoid))


FUNCTIONS = (*_builtins(), *_floats(), *_rounded(), *_choices(), *_tests(), *_parts(), *_reductions())
