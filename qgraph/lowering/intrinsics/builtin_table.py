"""Which operator, builtin, math or NumPy function means what in a kernel: tables from the object to its rule.

The same for CUDA and the CPU. A function that is in no table is typed by Numba itself, which fails where it cannot.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from qgraph import language
from qgraph.lowering.intrinsics import number_llvm as code
from qgraph.lowering.intrinsics.ambiguous_integers import one_of
from qgraph.lowering.intrinsics.long_ranges import LONG_RANGE, long_range
from qgraph.lowering.intrinsics.number_llvm import Emitter, types
from qgraph.lowering.intrinsics.number_typing import (
    Alias,
    Choice,
    Meaning,
    NumberError,
    NumberTyping,
    Rule,
    Spelling,
    fits,
    half_made,
    is_integral,
    is_real,
    join_all,
    plain,
)
from qgraph.lowering.intrinsics.rounded_floats import Rounded, meeting, refusal

_Types = tuple[Any, ...]

# --- rules ------------------------------------------------------------------------------------------------------------


def _same(joined: Any, count: int, emit: Emitter) -> Choice:
    """Compute in ``joined``: with our code where it is real, with Numba's where it is complex, float16 in float32."""
    # Numba's own float16 arithmetic calls CUDA's headers, compiled by nvrtc and linked apart.
    kind = types.float32 if joined == types.float16 else joined
    return Choice((kind,) * count, kind, emit if is_real(kind) else None)


def _not_bool(joined: Any) -> Any:
    return types.int64 if isinstance(joined, types.Boolean) else joined


def _arithmetic(emit: Emitter) -> Rule:
    """In the joined type; of two booleans as int64, where CPython and NumPy agree."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        return _same(_not_bool(join_all(args)), 2, emit) if len(args) == 2 else None

    return rule


def _no_booleans(emit: Emitter, symbol: str) -> Rule:
    """``+`` and ``-``, which CPython and NumPy answer differently for booleans."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        if len(args) != 2:
            return None
        joined = join_all(args)
        if isinstance(joined, types.Boolean):
            raise NumberError(
                f"bool {symbol} bool is a number in Python and not in NumPy: write int(a) {symbol} int(b), "
                "or use and, or, != for a logical result"
            )
        return _same(joined, 2, emit)

    return rule


def _bits(emit: Emitter) -> Rule:
    """``& | ^`` and the product: of booleans a boolean."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        return _same(join_all(args), 2, emit) if len(args) == 2 else None

    return rule


def _integers_only(rule: Rule, symbol: str) -> Rule:
    def checked(typing: NumberTyping, args: _Types) -> Choice | None:
        for arg in args:
            if not is_integral(arg):
                raise NumberError(f"`{symbol}` takes integers and bools, not {plain(arg)}")
        if args and not is_integral(join_all(args)):
            shown = " and ".join(str(plain(arg)) for arg in args)
            raise NumberError(f"{shown} have no common integer type: convert one of them first")
        return rule(typing, args)

    return checked


def _float_join(typing: NumberTyping, args: _Types) -> Any:
    """The joined type, integers taking F and float16 computing in float32."""
    joined = join_all(args)
    if all(map(is_integral, args)):
        return typing.float_type
    return types.float32 if joined == types.float16 else joined


def _floating(emit: Emitter, count: int = 2) -> Rule:
    """A function of ``math``: of Python's floats, which are F, or wider. Complex numbers are Numba's."""

    def rule(typing: NumberTyping, args: _Types) -> Choice | None:
        return _same(join_all((*args, typing.float_type)), count, emit) if len(args) == count else None

    return rule


def _floating_as_numpy(name: str, emit: Emitter, count: int = 2) -> Rule:
    """A function of NumPy that makes floats of integers: of 16 bits a float32, of more F. Complex numbers are Numba's."""

    def rule(typing: NumberTyping, args: _Types) -> Choice | None:
        if len(args) != count:
            return None
        joined = join_all(args)
        if is_integral(joined) and joined in _BYTES:
            raise NumberError(half_made(f"numpy.{name}", joined))
        if is_integral(joined):
            joined = types.float32 if joined in (types.int16, types.uint16) else typing.float_type
        return _same(joined, count, emit)

    return rule


_BYTES = (types.boolean, types.int8, types.uint8)


def _double(emit: Emitter) -> Rule:
    """``np.float_power``, whose result is a float64, whatever it is given. Complex numbers are Numba's."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        return _same(join_all((*args, types.float64)), 2, emit) if len(args) == 2 else None

    return rule


def _divide(typing: NumberTyping, args: _Types) -> Choice | None:
    if len(args) != 2:
        return None
    return _same(typing.float_type if all(map(is_integral, args)) else join_all(args), 2, code.true_divide)


def _power(typing: NumberTyping, args: _Types) -> Choice | None:
    if len(args) != 2:
        return None
    base, exponent = args
    literal = exponent if isinstance(exponent, types.IntegerLiteral) else None
    joined = _not_bool(plain(base) if literal is not None and not isinstance(base, types.IntegerLiteral) else join_all(args))
    if is_integral(joined):
        if literal is not None and literal.literal_value < 0:
            raise NumberError(f"an integer to the power {literal.literal_value} is not an integer: write a float base")
        if literal is not None and not fits(literal.literal_value, joined):
            raise NumberError(f"the Python integer {literal.literal_value} is out of bounds for {joined}")
        # The exponent keeps its sign, which uint64 has not.
        signed = literal is None and code.is_signed(exponent)
        return Choice((joined, plain(exponent) if signed else literal or joined), joined, code.power)
    joined = types.float32 if joined == types.float16 else joined
    if not is_real(joined):
        return _same(joined, 2, code.power)
    if literal is not None and abs(literal.literal_value) <= 8:
        return Choice((joined, literal), joined, code.power)
    return Choice((joined, joined), joined, code.power)


def _comparison(symbol: str) -> Rule:
    emit = code.comparison(symbol)

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        if len(args) != 2:
            return None
        if symbol not in ("==", "!="):
            _refuse_complex(args)
        if not all(map(is_integral, args)):
            joined = join_all(args)
            joined = types.float32 if joined == types.float16 else joined
            return Choice((joined, joined), types.boolean, emit if is_real(joined) else None)
        return Choice(tuple(map(_exact, args)), types.boolean, emit)

    return rule


def _refuse_complex(args: _Types) -> None:
    if any(isinstance(arg, types.Complex) for arg in args):
        raise NumberError("complex numbers have no order: compare their parts, or their absolute values")


def _exact(item: Any) -> Any:
    """The 64-bit type that holds every value of an integer type."""
    if isinstance(item, types.Boolean):
        return types.uint64
    if isinstance(item, types.IntegerLiteral):
        return types.uint64 if item.literal_value >= 0 else types.int64
    return types.int64 if item.signed else types.uint64


def _extreme(emit: Emitter, *, largest: bool) -> Rule:
    """Builtin ``min`` and ``max`` of two or more numbers."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        if len(args) < 2:
            raise NumberError("min and max take two numbers or more: of one there is nothing to choose")
        _refuse_complex(args)
        choice = _choice_of_one(args, emit, largest=largest)
        return replace(choice, result=one_of(meeting(choice.result, args), args))

    return rule


def _one_of_two(emit: Emitter) -> Rule:
    """``min`` and ``max`` of two, of floats without their order."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        choice = _same(join_all(args), 2, emit) if len(args) == 2 else None
        return choice and replace(choice, result=one_of(choice.result, args))

    return rule


def _extreme_of_two(emit: Emitter, *, largest: bool) -> Rule:
    """NumPy's ``minimum`` and its kin."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        return _choice_of_one(args, emit, largest=largest) if len(args) == 2 else None

    return rule


def _choice_of_one(args: _Types, emit: Emitter, *, largest: bool) -> Choice:
    joined = join_all(args)
    if joined == types.uint64 and any(is_integral(arg) and _exact(arg) == types.int64 for arg in args):
        # Python integers, which may be negative, with numbers that have no sign.
        return Choice(tuple(map(_exact, args)), joined, code.mixed_extreme(largest=largest))
    return _same(joined, len(args), emit)


def _joined(emit: Emitter, count: int) -> Rule:
    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        return _same(join_all(args), count, emit) if len(args) == count else None

    return rule


def _unary(emit: Emitter) -> Rule:
    """``abs``: the operand's type, of a boolean int64."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        return _same(_not_bool(plain(args[0])), 1, emit) if len(args) == 1 else None

    return rule


def _signed(emit: Emitter, symbol: str) -> Rule:
    """``-`` and ``+`` of one number, which NumPy has for no boolean."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        if len(args) != 1:
            return None
        if isinstance(args[0], types.Boolean):
            raise NumberError(f"{symbol} of a boolean is a number in Python and an error in NumPy: write {symbol}int(a)")
        return _same(plain(args[0]), 1, emit)

    return rule


def _invert(_typing: NumberTyping, args: _Types) -> Choice | None:
    if isinstance(args[0], types.Boolean):
        raise NumberError("~ of a boolean is -1 or -2 in Python and a boolean in NumPy: write `not a`")
    return _same(plain(args[0]), 1, code.bit_not)


def _logical(emit: Emitter, count: int = 2) -> Rule:
    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        return Choice((types.boolean,) * count, types.boolean, emit) if len(args) == count else None

    return rule


def _test(emit: Emitter) -> Rule:
    """``isnan`` and its kin."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        if len(args) != 1:
            return None
        kind = types.float32 if args[0] == types.float16 else plain(args[0])
        return Choice((kind,), types.boolean, emit) if is_real(kind) else None

    return rule


def _rounding(emit: Emitter) -> Rule:
    """NumPy's ``floor`` and its kin: a float of a float, integers unchanged."""

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        if len(args) != 1:
            return None
        kind = types.float32 if args[0] == types.float16 else plain(args[0])
        if not is_real(kind):
            return None
        return Choice((kind,), kind, code.identity if is_integral(kind) else emit)

    return rule


def _to_integer(name: str | None) -> Rule:
    """``math.floor`` and its kin, ``int``: Python's integers, which are int64; they keep the bits of a uint64."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = code.call_library(context, builder, name, sig.args[0], args) if name else args[0]
        return builder.fptosi(value, context.get_value_type(sig.return_type))

    def rule(_typing: NumberTyping, args: _Types) -> Choice | None:
        if len(args) != 1:
            return None
        if isinstance(args[0], Rounded):
            raise NumberError(refusal(f"{name or 'int'}() is given"))
        kind = types.float32 if args[0] == types.float16 else plain(args[0])
        if is_integral(kind):
            return Choice((types.int64,), types.int64, code.identity)
        return Choice((kind,), types.int64, emit) if is_real(kind) else None

    return rule


def _index(_typing: NumberTyping, args: _Types) -> Choice | None:
    """``operator.index``: an integer as Python's, which is an int64 whatever it was."""
    if len(args) != 1:
        return None
    if not is_integral(args[0]):
        raise NumberError(f"range() takes integers, not {plain(args[0])}")
    return Choice((types.int64,), types.int64, code.identity)


def _range(_typing: NumberTyping, args: _Types) -> Choice | None:
    """``range`` is Numba's, which would cut off a float, where its length surely has 63 bits."""
    for arg in args:
        if not is_integral(arg):
            raise NumberError(f"range() takes integers, not {plain(arg)}")
    if len(args) < 2 or types.uint64 in args or _is_short(*args):
        return None
    if len(args) == 2:
        return Choice((types.int64,) * 2, LONG_RANGE, _range_of_ones)
    return Choice((types.int64,) * 3, LONG_RANGE, long_range)


def _is_short(start: Any, stop: Any, step: Any = None) -> bool:
    """Whether the bounds of a range are surely less than 2**63 apart, in the direction of its step."""
    if types.int64 not in (plain(start), plain(stop)):
        return True
    if not isinstance(start, types.IntegerLiteral) or not (step is None or isinstance(step, types.IntegerLiteral)):
        return False
    return bool(start.literal_value >= 0 if step is None or step.literal_value > 0 else start.literal_value < 0)


def _range_of_ones(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return long_range(context, builder, sig, (*args, args[0].type(1)))


def _round(typing: NumberTyping, args: _Types) -> Choice | None:
    """Builtin ``round``: half to even; with digits of the operand's type, as NumPy's scalars."""
    return _to_integer("rint")(typing, args) if len(args) == 1 else _round_to_digits(args, code.round_float)


def _round_as_numpy(typing: NumberTyping, args: _Types) -> Choice | None:
    """``np.round``: of the operand's type."""
    if args and isinstance(args[0], types.Boolean):
        raise NumberError(half_made("numpy.round", types.boolean))
    return (
        _rounding(code.library_function("rint"))(typing, args) if len(args) == 1 else _round_to_digits(args, code.round_float)
    )


def _round_as_python(_typing: NumberTyping, args: _Types) -> Choice | None:
    """``language.round_python``: rounded once, as CPython rounds its floats."""
    kind, digits = plain(args[0]), args[1]
    most = 10 if kind == types.float32 else 22
    exact = isinstance(digits, types.IntegerLiteral) and abs(digits.literal_value) <= most
    if kind in (types.float32, types.float64) and not exact:
        raise NumberError(
            f"round() of a Python float takes a literal number of digits here, from {-most} to {most}: "
            "numpy.round takes any, and rounds as NumPy does"
        )
    return _round_to_digits(args, code.round_exactly)


def _round_either(_typing: NumberTyping, args: _Types) -> Choice | None:
    """``language.round_either``: of a number that is Python's or NumPy's, which round floats in two ways."""
    if not is_integral(args[0]):
        raise NumberError(
            "round() of a float that may be Python's or NumPy's, which round in two ways: write round(float(a), digits) "
            "or numpy.round(a, digits)"
        )
    return _round_to_digits(args, code.round_float)


def _round_to_digits(args: _Types, emit: Emitter) -> Choice | None:
    kind = types.float32 if args[0] == types.float16 else plain(args[0])
    if len(args) != 2 or not is_real(kind):
        return None
    if not is_integral(args[1]):
        raise NumberError(f"round() takes a whole number of digits, not {plain(args[1])}")
    if isinstance(kind, types.Boolean):
        raise NumberError("NumPy does not round booleans: write int(a)")
    digits = args[1] if isinstance(args[1], types.IntegerLiteral) else types.int64
    return Choice((kind, digits), kind, code.round_integer if is_integral(kind) else emit)


def _to_float(typing: NumberTyping, args: _Types) -> Choice | None:
    if len(args) != 1 or not (is_real(plain(args[0])) or args[0] == types.float16):
        return None
    kind = types.float64 if args[0] == types.float64 else typing.float_type
    return Choice((kind,), kind, code.identity)


def _to_complex(typing: NumberTyping, args: _Types) -> Choice | None:
    if any(isinstance(arg, types.Complex) for arg in args):
        return None
    return Choice((_float_join(typing, args),) * len(args))


def _without_nan(_typing: NumberTyping, args: _Types) -> Choice | None:
    """``np.nan_to_num``: 0 for nan, and the largest float for inf; integers unchanged."""
    if len(args) != 1:
        raise NumberError("numpy.nan_to_num takes one number here: write conditional expressions for other values than its own")
    kind = types.float32 if args[0] == types.float16 else plain(args[0])
    if not is_real(kind):
        return None
    return Choice((kind,), kind, code.identity if is_integral(kind) else code.without_nan)


def _where(_typing: NumberTyping, args: _Types) -> Choice | None:
    if len(args) != 3:
        return None
    joined = join_all(args[1:])
    return Choice((types.boolean, joined, joined), joined, code.select)


def _real_identity(_typing: NumberTyping, args: _Types) -> Choice | None:
    kind = plain(args[0])
    return Choice((kind,), kind, code.identity) if is_real(kind) and len(args) == 1 else None


# --- words spelled in Python ------------------------------------------------------------------------------------------


def _sign(typing: NumberTyping, args: _Types) -> Choice | None:
    kind = types.float32 if args[0] == types.float16 else plain(args[0])
    if len(args) != 1 or not is_real(kind):
        return None
    if isinstance(kind, types.Boolean):
        raise NumberError("numpy.sign does not take a boolean")
    return Choice((kind,), kind, _emit_sign)


def _emit_sign(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    (a,) = args
    kind = sig.return_type
    number = 1.0 if code.is_float(kind) else 1
    zero, one = a.type(number * 0), a.type(number)
    below = a.type(-number) if code.is_float(kind) or code.is_signed(kind) else zero
    negative = builder.select(code.less(builder, kind, a, zero), below, zero)
    sign = builder.select(code.less(builder, kind, zero, a), one, negative)
    return builder.select(code.is_nan(builder, kind, a), a, sign)


def _square(x):  # type: ignore[no-untyped-def]
    return x * x


def _reciprocal(typing: NumberTyping, args: _Types) -> Choice | None:
    if len(args) != 1 or not is_real(plain(args[0])):
        return None
    if is_integral(args[0]):
        raise NumberError("numpy.reciprocal of an integer is 0 or 1: write 1 / x, or 1 // x")
    kind = plain(args[0])
    return Choice((kind,), kind, lambda _c, builder, _s, args: builder.fdiv(args[0].type(1.0), args[0]))


def _divmod(a, b):  # type: ignore[no-untyped-def]
    return a // b, a % b


def _real(x):  # type: ignore[no-untyped-def]
    return x.real


def _imag(x):  # type: ignore[no-untyped-def]
    return x.imag


def _conjugate(x):  # type: ignore[no-untyped-def]
    return x.conjugate()


def _complex_isnan(x):  # type: ignore[no-untyped-def]
    return math.isnan(x.real) or math.isnan(x.imag)


def _complex_isinf(x):  # type: ignore[no-untyped-def]
    return math.isinf(x.real) or math.isinf(x.imag)


def _complex_isfinite(x):  # type: ignore[no-untyped-def]
    return math.isfinite(x.real) and math.isfinite(x.imag)


# --- tables -----------------------------------------------------------------------------------------------------------

_OPERATORS: tuple[tuple[str, Rule], ...] = (
    ("add", _no_booleans(code.add, "+")),
    ("sub", _no_booleans(code.subtract, "-")),
    ("mul", _bits(code.multiply)),
    ("truediv", _divide),
    ("floordiv", _arithmetic(code.floor_divide)),
    ("mod", _arithmetic(code.modulo)),
    ("pow", _power),
    ("and_", _integers_only(_bits(code.bit_and), "&")),
    ("or_", _integers_only(_bits(code.bit_or), "|")),
    ("xor", _integers_only(_bits(code.bit_xor), "^")),
    ("lshift", _integers_only(_arithmetic(code.shift_left), "<<")),
    ("rshift", _integers_only(_arithmetic(code.shift_right), ">>")),
)

_COMPARISONS = (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="))

# math's name -> NumPy's, both computing in floats; True: cmath has it.
_FLOAT_FUNCTIONS = (
    ("sqrt", "sqrt", True),
    ("exp", "exp", True),
    ("expm1", "expm1", False),
    ("log", "log", True),
    ("log2", "log2", False),
    ("log10", "log10", True),
    ("log1p", "log1p", False),
    ("sin", "sin", True),
    ("cos", "cos", True),
    ("tan", "tan", True),
    ("asin", "arcsin", True),
    ("acos", "arccos", True),
    ("atan", "arctan", True),
    ("sinh", "sinh", True),
    ("cosh", "cosh", True),
    ("tanh", "tanh", True),
    ("asinh", "arcsinh", True),
    ("acosh", "arccosh", True),
    ("atanh", "arctanh", True),
    ("exp2", "exp2", False),
    ("fabs", "fabs", False),
    ("erf", "", False),
    ("erfc", "", False),
    ("gamma", "", False),
    ("lgamma", "", False),
)

_FLOAT_PAIRS = (("atan2", "arctan2"), ("hypot", "hypot"), ("copysign", "copysign"))


def _operators() -> Iterable[tuple[object, Meaning]]:
    for name, rule in _OPERATORS:
        yield getattr(operator, name), rule
        yield getattr(operator, f"i{name.rstrip('_')}"), rule
    for name, symbol in _COMPARISONS:
        yield getattr(operator, name), _comparison(symbol)
    yield language.loose_add, _no_booleans(code.loose(code.add), "+")
    yield language.loose_subtract, _no_booleans(code.loose(code.subtract), "-")
    yield language.loose_multiply, _bits(code.loose(code.multiply))
    yield language.loose_min, _one_of_two(code.loose_extreme(largest=False))
    yield language.loose_max, _one_of_two(code.loose_extreme(largest=True))
    yield operator.neg, _signed(code.negative, "-")
    yield operator.pos, _signed(code.identity, "+")
    yield operator.invert, _integers_only(_invert, "~")
    yield operator.index, _index
    yield builtins.range, _range


def _builtins() -> Iterable[tuple[object, Meaning]]:
    yield builtins.min, _extreme(code.builtin_min, largest=False)
    yield builtins.max, _extreme(code.builtin_max, largest=True)
    yield builtins.abs, _unary(code.absolute)
    yield builtins.float, _to_float
    yield builtins.int, _to_integer(None)
    yield builtins.complex, _to_complex
    yield builtins.round, _round
    yield builtins.pow, _power
    yield builtins.divmod, Spelling(_divmod)


def _math() -> Iterable[tuple[object, Meaning]]:
    for name, numpy_name, has_complex in _FLOAT_FUNCTIONS:
        function = getattr(math, name)
        # LLVM turns its own sqrt and fabs into one instruction.
        emit = code.library_function(name) if name in ("sqrt", "fabs") else code.math_function(function)
        yield function, _floating(emit, 1)
        if numpy_name:
            rule = _floating_as_numpy(numpy_name, emit, 1)
            yield getattr(np, numpy_name), Alias(rule, getattr(cmath, name)) if has_complex else rule
    for name, numpy_name in _FLOAT_PAIRS:
        emit = code.math_function(getattr(math, name))
        yield getattr(math, name), _floating(emit)
        if numpy_name:
            yield getattr(np, numpy_name), _floating_as_numpy(numpy_name, emit)
    yield math.pow, _floating(code.math_function(math.pow))
    yield np.float_power, _double(code.math_function(math.pow))
    for name in ("floor", "ceil", "trunc"):
        yield getattr(math, name), _to_integer(name)
    for name, factor in (("degrees", 180.0 / math.pi), ("radians", math.pi / 180.0)):
        yield getattr(math, name), _floating(code.times(factor), 1)
    yield math.cbrt, _floating(code.cube_root, 1)
    yield np.cbrt, _floating_as_numpy("cbrt", code.cube_root, 1)
    yield math.fmod, _floating(code.remainder)


def _numpy_operators() -> Iterable[tuple[object, Meaning]]:
    rules = dict(_OPERATORS)
    spelled = {
        np.add: "add",
        np.subtract: "sub",
        np.multiply: "mul",
        np.true_divide: "truediv",
        np.floor_divide: "floordiv",
        np.remainder: "mod",
        np.power: "pow",
        np.bitwise_and: "and_",
        np.bitwise_or: "or_",
        np.bitwise_xor: "xor",
        np.left_shift: "lshift",
        np.right_shift: "rshift",
    }
    for ufunc, name in spelled.items():
        yield ufunc, rules[name]
    compared = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
    for (_, symbol), ufunc in zip(_COMPARISONS, compared, strict=True):
        yield ufunc, _comparison(symbol)
    yield np.negative, _unary(code.negative)
    yield np.positive, _unary(code.identity)
    yield np.invert, _integers_only(_invert, "~")
    yield np.absolute, Alias(_unary(code.absolute), builtins.abs)


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
    return x


def _widened(_typing: NumberTyping, args: _Types) -> Choice | None:
    """An integer of 64 bits."""
    if not is_integral(args[0]):
        raise NumberError(f"math.gcd() takes integers, not {plain(args[0])}")
    kind = types.uint64 if plain(args[0]) == types.uint64 else types.int64
    return Choice((kind,), kind, code.identity)


def _numpy() -> Iterable[tuple[object, Meaning]]:
    yield np.minimum, _extreme_of_two(code.minimum, largest=False)
    yield np.maximum, _extreme_of_two(code.maximum, largest=True)
    yield np.fmin, _extreme_of_two(code.fmin, largest=False)
    yield np.fmax, _extreme_of_two(code.fmax, largest=True)
    yield np.clip, _joined(code.clip, 3)
    yield np.where, _where
    yield np.fmod, _arithmetic(code.remainder)
    yield np.sign, _sign
    yield np.square, Spelling(_square)
    yield np.reciprocal, _reciprocal
    for name in ("floor", "ceil", "trunc"):
        yield getattr(np, name), _rounding(code.library_function(name))
    yield np.rint, _floating_as_numpy("rint", code.library_function("rint"), 1)
    for function in (np.round, np.around):
        yield function, _round_as_numpy
    yield np.nan_to_num, _without_nan
    yield np.logaddexp, _floating_as_numpy("logaddexp", code.log_of_sum)
    for name in ("degrees", "rad2deg"):
        yield getattr(np, name), _floating_as_numpy(name, code.times(180.0 / math.pi), 1)
    for name in ("radians", "deg2rad"):
        yield getattr(np, name), _floating_as_numpy(name, code.times(math.pi / 180.0), 1)
    yield np.divmod, Spelling(_divmod)
    yield np.logical_and, _logical(code.bit_and)
    yield np.logical_or, _logical(code.bit_or)
    yield np.logical_xor, _logical(code.bit_xor)
    yield np.logical_not, _logical(code.bit_not, 1)
    tests: tuple[tuple[Any, Any, Emitter, Callable[..., Any]], ...] = (
        (np.isnan, math.isnan, code.isnan, _complex_isnan),
        (np.isinf, math.isinf, code.isinf, _complex_isinf),
        (np.isfinite, math.isfinite, code.isfinite, _complex_isfinite),
    )
    for ufunc, function, emit, complex_form in tests:
        yield function, _test(emit)
        yield ufunc, Alias(_test(emit), Spelling(complex_form))
    yield math.gcd, Spelling(_gcd_of_python)
    yield _wide, _widened
    yield np.gcd, Spelling(_gcd)
    yield np.real, Spelling(_real)
    yield np.imag, Spelling(_imag)
    yield np.conjugate, Spelling(_conjugate)


def _of_indices(emit: Emitter) -> Rule:
    """A function of int64 that gives int64, as code: compiled as Python, anew for each kernel, it takes longer than a loop."""

    def rule(_typing: NumberTyping, args: tuple[Any, ...]) -> Choice | None:
        return Choice((types.int64,) * len(args), types.int64, emit) if all(map(is_integral, args)) else None

    return rule


def _in_place(_typing: NumberTyping, args: _Types) -> Choice | None:
    """``language.in_place``: the first number, whose kind may be no wider than that of the second."""
    value, element = plain(args[0]), plain(args[1])
    if _width(value) > _width(element):
        raise NumberError(
            f"an operation in place computes {value}, and the array is of type {element}: NumPy refuses this, too"
        )
    return Choice((value, element), value, code.identity)


def _width(kind: types.Type) -> int:
    """Kinds in the order in which NumPy converts them by itself."""
    if isinstance(kind, types.Boolean):
        return 0
    if isinstance(kind, types.Integer):
        return 1
    return 3 if isinstance(kind, types.Complex) else 2


def _own() -> Iterator[tuple[object, Meaning]]:
    yield language.trip_count, _of_indices(code.trip_count)
    yield language.wrapped, _of_indices(code.wrapped)
    yield language.in_place, _in_place
    yield language.round_python, _round_as_python
    yield language.round_either, _round_either


def _table() -> Mapping[int, tuple[object, Meaning]]:
    words = (*_operators(), *_builtins(), *_math(), *_numpy_operators(), *_numpy())
    return {id(value): (value, meaning) for value, meaning in (*words, *_own())}


# By identity, so that an alias works and a shadowed name is honest. The values are kept alive beside their ids.
MEANINGS = _table()
