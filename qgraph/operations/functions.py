"""Functions of numbers: Python's builtins, ``math`` and NumPy's."""

from __future__ import annotations

import builtins
import cmath
import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from qgraph.operations import intervals, intrinsics
from qgraph.operations.record import Operation
from qgraph.polyhedral.symbolic_integers import Poly, maximum, minimum

# --- builtins ----------------------------------------------------------------------------------------------------------


def _of_two_or_more(choose: Callable[[Poly, Poly], Poly]) -> Callable[..., Poly | None]:
    return lambda *values: functools.reduce(choose, values) if len(values) > 1 else None


_least, _greatest = _of_two_or_more(minimum), _of_two_or_more(maximum)


def _builtins() -> Iterator[Operation]:
    yield Operation(
        functions=(builtins.min,),
        typing=lambda rules, code: rules.extreme(code.builtin_min, largest=False),
        result="joined",
        owner="any",
        integers=_least,
        interval=intervals.corners(min),
        takes_ambiguous=True,
        reassociable=intrinsics.reassociable_min,
    )
    yield Operation(
        functions=(builtins.max,),
        typing=lambda rules, code: rules.extreme(code.builtin_max, largest=True),
        result="joined",
        owner="any",
        integers=_greatest,
        interval=intervals.corners(max),
        takes_ambiguous=True,
        reassociable=intrinsics.reassociable_max,
    )
    yield Operation(
        functions=(builtins.abs,),
        typing=lambda rules, code: rules.unary(code.absolute),
        elementwise=(1,),
        result="first",
        owner="first",
        integers=lambda value: maximum(value, -value),
        interval=intervals.absolute,
        integers_of_integers=True,
    )
    yield Operation(
        ufuncs=(np.absolute,),
        typing=lambda rules, code: rules.otherwise(rules.unary(code.absolute), builtins.abs),
        integers=lambda value: maximum(value, -value),
    )
    yield Operation(functions=(builtins.float,), typing=lambda rules, code: rules.to_float, result="float", owner="python")
    yield Operation(functions=(builtins.int,), typing=lambda rules, code: rules.to_integer(None), owner="python")
    yield Operation(functions=(builtins.complex,), typing=lambda rules, code: rules.to_complex)
    yield Operation(functions=(builtins.round,), typing=lambda rules, code: rules.round_, owner="first")
    yield Operation(functions=(builtins.divmod,), ufuncs=(np.divmod,), typing=lambda rules, code: rules.spelled(_divmod))
    yield Operation(functions=(builtins.len,), owner="python")
    yield Operation(functions=(builtins.range,), typing=lambda rules, code: rules.range_, takes_ambiguous=True)


def _divmod(a, b):  # type: ignore[no-untyped-def]
    return a // b, a % b


# --- floats -------------------------------------------------------------------------------------------------------------

# math's function -> NumPy's, and cmath's where there is one: all compute in floats.
_FLOAT_FUNCTIONS: tuple[tuple[Callable[..., float], np.ufunc | None, Callable[..., complex] | None], ...] = (
    (math.sqrt, np.sqrt, cmath.sqrt),
    (math.exp, np.exp, cmath.exp),
    (math.expm1, np.expm1, None),
    (math.log, np.log, cmath.log),
    (math.log2, np.log2, None),
    (math.log10, np.log10, cmath.log10),
    (math.log1p, np.log1p, None),
    (math.sin, np.sin, cmath.sin),
    (math.cos, np.cos, cmath.cos),
    (math.tan, np.tan, cmath.tan),
    (math.asin, np.arcsin, cmath.asin),
    (math.acos, np.arccos, cmath.acos),
    (math.atan, np.arctan, cmath.atan),
    (math.sinh, np.sinh, cmath.sinh),
    (math.cosh, np.cosh, cmath.cosh),
    (math.tanh, np.tanh, cmath.tanh),
    (math.asinh, np.arcsinh, cmath.asinh),
    (math.acosh, np.arccosh, cmath.acosh),
    (math.atanh, np.arctanh, cmath.atanh),
    (math.exp2, np.exp2, None),
    (math.fabs, np.fabs, None),
    (math.erf, None, None),
    (math.erfc, None, None),
    (math.gamma, None, None),
    (math.lgamma, None, None),
)
_FLOAT_PAIRS = ((math.atan2, np.arctan2), (math.hypot, np.hypot), (math.copysign, np.copysign))
# LLVM turns its own into one instruction.
_OF_LLVM = (math.sqrt, math.fabs)


def _of_math(function: Any, typing: Callable[[Any, Any], Any]) -> Operation:
    return Operation(functions=(function,), typing=typing, result="float", owner="python")


def _floats() -> Iterator[Operation]:
    for function, ufunc, of_complex in _FLOAT_FUNCTIONS:
        yield _float_function(function)
        if ufunc is not None:
            yield _float_ufunc(ufunc, function, of_complex)
    for function, ufunc in _FLOAT_PAIRS:
        yield from _float_pair(function, ufunc)
    yield _of_math(math.pow, lambda rules, code: rules.floating(code.math_function(math.pow)))
    yield Operation(ufuncs=(np.float_power,), typing=lambda rules, code: rules.double(code.math_function(math.pow)))
    yield _of_math(math.cbrt, lambda rules, code: rules.floating(code.cube_root, 1))
    yield Operation(ufuncs=(np.cbrt,), typing=lambda rules, code: rules.floating_as_numpy("cbrt", code.cube_root, 1))
    yield _of_math(math.fmod, lambda rules, code: rules.floating(code.remainder))
    yield Operation(ufuncs=(np.fmod,), typing=lambda rules, code: rules.arithmetic(code.remainder))
    yield Operation(ufuncs=(np.logaddexp,), typing=lambda rules, code: rules.floating_as_numpy("logaddexp", code.log_of_sum))
    yield from _scaled(math.degrees, (np.degrees, np.rad2deg), 180.0 / math.pi)
    yield from _scaled(math.radians, (np.radians, np.deg2rad), math.pi / 180.0)


def _float_pair(function: Any, ufunc: np.ufunc) -> Iterator[Operation]:
    name = ufunc.__name__
    yield _of_math(function, lambda rules, code: rules.floating(code.math_function(function)))
    yield Operation(ufuncs=(ufunc,), typing=lambda rules, code: rules.floating_as_numpy(name, code.math_function(function)))


def _scaled(function: Any, ufuncs: tuple[np.ufunc, ...], factor: float) -> Iterator[Operation]:
    yield _of_math(function, lambda rules, code: rules.floating(code.times(factor), 1))
    yield from (_scaled_ufunc(ufunc, factor) for ufunc in ufuncs)


def _scaled_ufunc(ufunc: np.ufunc, factor: float) -> Operation:
    name = ufunc.__name__
    return Operation(ufuncs=(ufunc,), typing=lambda rules, code: rules.floating_as_numpy(name, code.times(factor), 1))


def _emitter(code: Any, function: Any) -> Any:
    return code.library_function(function.__name__) if function in _OF_LLVM else code.math_function(function)


def _float_function(function: Any) -> Operation:
    return _of_math(function, lambda rules, code: rules.floating(_emitter(code, function), 1))


def _float_ufunc(ufunc: np.ufunc, function: Any, of_complex: Any) -> Operation:
    def typing(rules: Any, code: Any) -> Any:
        rule = rules.floating_as_numpy(ufunc.__name__, _emitter(code, function), 1)
        return rule if of_complex is None else rules.otherwise(rule, of_complex)

    return Operation(ufuncs=(ufunc,), typing=typing)


# --- integers, and numbers that are rounded to them ---------------------------------------------------------------------


def _rounded() -> Iterator[Operation]:
    yield from _to_whole(math.floor, np.floor)
    yield from _to_whole(math.ceil, np.ceil)
    yield from _to_whole(math.trunc, np.trunc)
    yield Operation(
        ufuncs=(np.rint,), typing=lambda rules, code: rules.floating_as_numpy("rint", code.library_function("rint"), 1)
    )
    yield Operation(
        functions=(np.round, np.around), typing=lambda rules, code: rules.round_as_numpy, elementwise=(1, 2), owner="numpy"
    )
    yield Operation(functions=(popcount,), typing=lambda rules, code: rules.bit_count, owner="python")
    yield _of_math(math.gcd, lambda rules, code: rules.spelled(_gcd_of_python))
    yield Operation(ufuncs=(np.gcd,), typing=lambda rules, code: rules.spelled(_gcd))
    yield Operation(functions=(_wide,), typing=lambda rules, code: rules.widened)


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
    yield Operation(ufuncs=(ufunc,), typing=lambda rules, code: rules.rounding(code.library_function(name)))


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
    yield Operation(
        ufuncs=(np.minimum,),
        typing=lambda rules, code: rules.extreme_of_two(code.minimum, largest=False),
        integers=_least,
    )
    yield Operation(
        ufuncs=(np.maximum,),
        typing=lambda rules, code: rules.extreme_of_two(code.maximum, largest=True),
        integers=_greatest,
    )
    yield Operation(ufuncs=(np.fmin,), typing=lambda rules, code: rules.extreme_of_two(code.fmin, largest=False))
    yield Operation(ufuncs=(np.fmax,), typing=lambda rules, code: rules.extreme_of_two(code.fmax, largest=True))
    yield Operation(
        functions=(np.clip,), typing=lambda rules, code: rules.joined(code.clip, 3), elementwise=(3,), owner="numpy"
    )
    yield Operation(functions=(np.where,), typing=lambda rules, code: rules.where, elementwise=(3,), owner="numpy")
    yield Operation(ufuncs=(np.sign,), typing=lambda rules, code: rules.sign)
    yield Operation(ufuncs=(np.square,), typing=lambda rules, code: rules.spelled(_square))
    yield Operation(ufuncs=(np.reciprocal,), typing=lambda rules, code: rules.reciprocal)
    yield Operation(functions=(np.nan_to_num,), typing=lambda rules, code: rules.without_nan, owner="numpy")


def _square(x):  # type: ignore[no-untyped-def]
    return x * x


def _tests() -> Iterator[Operation]:
    yield from _test(math.isnan, np.isnan, _complex_isnan)
    yield from _test(math.isinf, np.isinf, _complex_isinf)
    yield from _test(math.isfinite, np.isfinite, _complex_isfinite)
    yield Operation(ufuncs=(np.logical_and,), typing=lambda rules, code: rules.logical(code.bit_and))
    yield Operation(ufuncs=(np.logical_or,), typing=lambda rules, code: rules.logical(code.bit_or))
    yield Operation(ufuncs=(np.logical_xor,), typing=lambda rules, code: rules.logical(code.bit_xor))
    yield Operation(ufuncs=(np.logical_not,), typing=lambda rules, code: rules.logical(code.bit_not, 1))


def _test(function: Any, ufunc: np.ufunc, of_complex: Callable[..., bool]) -> Iterator[Operation]:
    def typing(rules: Any, code: Any) -> Any:
        return rules.is_such(getattr(code, function.__name__))

    yield _of_math(function, typing)
    yield Operation(ufuncs=(ufunc,), typing=lambda rules, code: rules.otherwise(typing(rules, code), rules.spelled(of_complex)))


def _complex_isnan(x):  # type: ignore[no-untyped-def]
    return math.isnan(x.real) or math.isnan(x.imag)


def _complex_isinf(x):  # type: ignore[no-untyped-def]
    return math.isinf(x.real) or math.isinf(x.imag)


def _complex_isfinite(x):  # type: ignore[no-untyped-def]
    return math.isfinite(x.real) and math.isfinite(x.imag)


def _parts() -> Iterator[Operation]:
    yield Operation(functions=(np.real,), typing=lambda rules, code: rules.spelled(_real), owner="numpy")
    yield Operation(functions=(np.imag,), typing=lambda rules, code: rules.spelled(_imag), owner="numpy")
    yield Operation(ufuncs=(np.conjugate,), typing=lambda rules, code: rules.spelled(_conjugate))


def _real(x):  # type: ignore[no-untyped-def]
    return x.real


def _imag(x):  # type: ignore[no-untyped-def]
    return x.imag


def _conjugate(x):  # type: ignore[no-untyped-def]
    return x.conjugate()


# --- of arrays ----------------------------------------------------------------------------------------------------------


def _reduction(*functions: Any, name: str = "") -> Operation:
    return Operation(functions=functions, pure=False, reduces=name or functions[0].__name__, owner="numpy")


def _reductions() -> Iterator[Operation]:
    yield _reduction(np.sum)
    yield _reduction(np.prod)
    yield _reduction(np.min, np.amin, name="min")
    yield _reduction(np.max, np.amax, name="max")
    yield _reduction(np.any)
    yield _reduction(np.all)
    yield _reduction(np.mean)
    yield _reduction(np.dot)
    yield _reduction(np.vdot)
    yield _reduction(np.count_nonzero)
    yield _reduction(np.argmin)
    yield _reduction(np.argmax)


FUNCTIONS = (*_builtins(), *_floats(), *_rounded(), *_choices(), *_tests(), *_parts(), *_reductions())
