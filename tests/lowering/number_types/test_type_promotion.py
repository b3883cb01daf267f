"""The number rules on the CPU, against NumPy and CPython on random and extreme values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qgraph.errors import KernelTypeError

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
BITS = ("&", "|", "^", "<<", ">>")
PAIRS = (
    ("uint8", "uint8"),
    ("int32", "int32"),
    ("int64", "int64"),
    ("uint64", "uint64"),
    ("int8", "int16"),
    ("uint8", "int8"),
    ("uint32", "int32"),
    ("uint64", "int64"),
    ("int16", "uint64"),
    ("bool", "int32"),
    ("bool", "float32"),
    ("int64", "float32"),
    ("float32", "uint8"),
    ("float32", "float32"),
    ("float32", "float64"),
    ("float64", "float64"),
)


def values(dtype: str, count: int = 300) -> np.ndarray:
    """Random and extreme values of a type, in random order."""
    rng = np.random.default_rng(len(dtype) + ord(dtype[0]))
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if kind in "iu":
        limits = np.iinfo(dtype)
        result = rng.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
        result[:100] = rng.integers(0, 5, 100)
        result[100:106] = [limits.min, limits.max] * 3
        if kind == "i":
            result[110:130] = rng.integers(-6, 6, 20)
            result[130:150] = -1
    else:
        result = (rng.normal(size=count) * 10.0 ** rng.integers(-3, 4, count)).astype(dtype)
        result[:80] = rng.integers(-5, 6, 80)
        result[80:120] = rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0], 40)
    rng.shuffle(result)
    return result


def joined(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the rules say before NumPy computes: integers give way to any float, and int64 to uint64."""
    floats = (left.dtype.kind == "f", right.dtype.kind == "f")
    if floats == (True, False):
        return left, right.astype(left.dtype)
    if floats == (False, True):
        return left.astype(right.dtype), right
    if {left.dtype.name, right.dtype.name} == {"int64", "uint64"}:
        return left.astype("uint64"), right.astype("uint64")
    return left, right


def expected(symbol: str, left: np.ndarray, right: np.ndarray, float_type: str) -> np.ndarray:
    """NumPy's answer under the rules of api.md."""
    integral = left.dtype.kind != "f" and right.dtype.kind != "f"
    with np.errstate(all="ignore"):
        if symbol in COMPARISONS:
            # Between integers NumPy is exact, as the rules are.
            operands = (left, right) if integral else joined(left, right)
            return COMPARISONS[symbol](*operands)
        if symbol == "/" and integral:
            return left.astype(float_type) / right.astype(float_type)
        return OPERATORS[symbol](*joined(left, right))


def assert_same(symbol: str, result: np.ndarray, answer: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Equal bit for bit, nan like nan, and zeros of the same sign."""
    good = (result == answer) | ((result != result) & (answer != answer))
    if result.dtype.kind == "f":
        good &= (np.signbit(result) == np.signbit(answer)) | (result != result)
    if symbol in ("<<", ">>") and right.dtype.kind == "i":
        good |= right < 0  # undefined in NumPy, an error in Python
    bad = np.flatnonzero(~good)[:3]
    assert not bad.size, f"{left[bad]} {symbol} {right[bad]} is {answer[bad]}, not {result[bad]}"


def kernel(lines: list[str], parameters: list[str]) -> str:
    """A function that computes ``lines`` for every index of its first parameter."""
    body = "\n".join(f"        {line}" for line in lines)
    return f"def k({', '.join(parameters)}):\n    for i in range({parameters[0]}.shape[0]):\n{body}\n"


@pytest.mark.parametrize("float_type", ["float32", "float64"])
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_operators_are_numpys(function, run_cpu, left, right, float_type):
    a, b = values(left), values(right)
    floats = np.result_type(a, b).kind == "f" and (left, right) != ("uint64", "int64")
    symbols = [symbol for symbol in (*OPERATORS, *COMPARISONS) if not (floats and symbol in BITS)]
    if left == "bool":  # NumPy's answers for booleans are those of logic: tested apart
        symbols = [symbol for symbol in symbols if symbol not in ("-", "//", "%", "<<", ">>")]
    answers = [expected(symbol, a, b, float_type) for symbol in symbols]
    results = [np.zeros_like(answer) for answer in answers]
    names = [f"o{index}" for index in range(len(symbols))]
    lines = [f"{name}[i] = a[i] {symbol} b[i]" for name, symbol in zip(names, symbols, strict=True)]
    run_cpu(function(kernel(lines, ["a", "b", *names])), a, b, *results, float_type=float_type)
    for symbol, result, answer in zip(symbols, results, answers, strict=True):
        assert_same(symbol, result, answer, a, b)


def result_type(name: Callable[..., Any], *dtypes: object, float_type: str = "float32") -> str:
    """The type that the rules give to a call; an int stands for that Python literal."""
    from numba.core import types
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.target_extension import target_override

    from qgraph.lowering.numba_backend import cpu
    from qgraph.lowering.number_types.typing_contexts import Session

    typing = cpu._COMPILERS.get(float_type)
    arguments = tuple(types.literal(item) if isinstance(item, int) else getattr(types, str(item)) for item in dtypes)
    with global_compiler_lock, target_override("cpu"):
        typing.session = Session(library=None, flags=None)
        try:
            return str(typing.resolve_function_type(typing.resolve_value_type(name), arguments, {}).return_type)
        finally:
            typing.session = None


@pytest.mark.parametrize(
    ("name", "dtypes", "float32", "float64"),
    [
        (operator.sub, ("uint8", "uint8"), "uint8", "uint8"),
        (operator.mul, ("int32", "int32"), "int32", "int32"),
        (operator.add, ("int8", "int16"), "int16", "int16"),
        (operator.add, ("uint8", "int8"), "int16", "int16"),
        (operator.add, ("uint32", "int32"), "int64", "int64"),
        (operator.add, ("uint8", 1), "uint8", "uint8"),
        (operator.add, (1, "uint8"), "uint8", "uint8"),
        (operator.iadd, ("uint8", 255), "uint8", "uint8"),
        (operator.lshift, (1, "uint8"), "uint8", "uint8"),
        (operator.add, ("uint8", "int64"), "int64", "int64"),
        (operator.add, ("uint64", 1), "uint64", "uint64"),
        (operator.add, ("uint64", "int64"), "uint64", "uint64"),
        (operator.xor, ("int64", "uint64"), "uint64", "uint64"),
        (operator.add, ("uint64", "int8"), "float64", "float64"),
        (operator.mul, ("int32", "uint64"), "float64", "float64"),
        (max, ("uint64", "int16"), "rounded_float64_or_int16", "rounded_float64_or_int16"),
        (operator.truediv, ("uint64", "int8"), "float32", "float64"),
        (operator.lt, ("uint64", "int8"), "bool", "bool"),
        (operator.truediv, ("int64", "int64"), "float32", "float64"),
        (operator.truediv, ("int32", 2), "float32", "float64"),
        (operator.mul, ("float32", "int64"), "float32", "float32"),
        (operator.mul, ("boolean", "float32"), "float32", "float32"),
        (operator.mul, ("float32", "float64"), "float64", "float64"),
        (operator.mul, ("complex64", "int64"), "complex64", "complex64"),
        (operator.mul, ("complex64", "float32"), "complex64", "complex64"),
        (operator.mul, ("complex64", "float64"), "complex128", "complex128"),
        (operator.pow, ("uint8", 2), "uint8", "uint8"),
        (operator.pow, ("float32", "int64"), "float32", "float32"),
        (operator.neg, ("int16",), "int16", "int16"),
        (operator.invert, ("uint8",), "uint8", "uint8"),
        (abs, ("int8",), "int8", "int8"),
        (abs, ("complex64",), "float32", "float32"),
        (max, ("float32", 0), "float32_or_Literal[int](0)", "float32_or_Literal[int](0)"),
        (min, ("uint8", 3), "uint8_or_3_to_3", "uint8_or_3_to_3"),
        (float, ("int64",), "float32", "float64"),
        (float, ("float32",), "float32", "float64"),
        (int, ("int8",), "int64", "int64"),
        (round, ("float32",), "int64", "int64"),
        (math.sqrt, ("int64",), "float32", "float64"),
        (math.atan2, ("int64", "float32"), "float32", "float64"),
        (math.floor, ("float32",), "int64", "int64"),
        (np.sqrt, ("int32",), "float32", "float64"),
        (np.floor, ("float32",), "float32", "float32"),
        (np.exp, ("complex64",), "complex64", "complex64"),
        (np.maximum, ("uint8", 3), "uint8", "uint8"),
        (np.power, ("int32", 2), "int32", "int32"),
        (np.hypot, ("float32", "int64"), "float32", "float32"),
        (np.where, ("boolean", "float32", 0), "float32", "float32"),
        (np.isnan, ("float32",), "bool", "bool"),
        (operator.mul, ("boolean", "boolean"), "bool", "bool"),
        (operator.floordiv, ("boolean", "boolean"), "int8_or_0_to_2", "int8_or_0_to_2"),
    ],
)
def test_result_types(name, dtypes, float32, float64):
    assert result_type(name, *dtypes, float_type="float32") == float32
    assert result_type(name, *dtypes, float_type="float64") == float64


INTEGER_EXPRESSIONS = (
    *("-x", "+x", "abs(x)", "max(x, 2)", "min(2, x)", "x + 1", "x - 1", "x * 2", "1 << (x & 3)", "x ** 3", "2 ** (x & 3)"),
    *("x // 3", "x % 3", "~x", "x & 6", "x << 2", "x >> 1", "x << 64", "x > 50", "x == 300", "x < -1", "x >= 0"),
    *("np.sign(x)", "np.square(x)", "np.minimum(x, 3)", "np.clip(x, 1, 5)", "np.where(x > 2, x, 1)", "np.abs(x)"),
    *("np.floor(x)", "np.left_shift(x, 1)", "np.invert(x)", "np.logical_not(x)", "np.fmod(x, 3)", "divmod(x, 3)[1]"),
    *("np.divmod(x, 3)[0]", "np.isfinite(x)", "x if x > 2 else 0", "int(x)", "round(x)", "np.real(x)"),
)
FLOAT_EXPRESSIONS = (
    *("-x", "abs(x)", "max(x, 2)", "max(2, x)", "min(x, 2)", "min(2, x)", "x * 2 + 1", "x // 3", "x % 3", "x // -0.5"),
    *(
        "x % -0.5",
        "x ** 2",
        "x ** 3",
        "x ** -2",
        "x ** 0.5",
        "2 ** x",
        "x / 3",
        "x == 1",
        "x != x",
        "np.sign(x)",
        "np.square(x)",
    ),
    *("np.minimum(x, 3)", "np.maximum(x, x - x)", "np.fmin(x, 3)", "np.fmax(3, x)", "np.clip(x, -1, 2)", "np.rint(x)"),
    *("np.floor(x)", "np.ceil(x)", "np.trunc(x)", "np.isnan(x)", "np.isinf(x)", "np.isfinite(x)", "np.logical_and(x, 1)"),
    *("np.sqrt(x)", "np.exp(x)", "np.expm1(x)", "np.log(x)", "np.log2(x)", "np.log10(x)", "np.log1p(x)", "np.sin(x)"),
    *("np.cos(x)", "np.tan(x)", "np.arcsin(x)", "np.arccos(x)", "np.arctan(x)", "np.sinh(x)", "np.cosh(x)", "np.tanh(x)"),
    *("np.arcsinh(x)", "np.arccosh(x)", "np.arctanh(x)", "np.fabs(x)", "np.exp2(x)", "np.cbrt(x)", "np.deg2rad(x)"),
    *("np.rad2deg(x)", "np.reciprocal(x)", "np.hypot(x, 2)", "np.arctan2(x, 2)", "np.copysign(3, x)", "np.round(x)"),
    *("np.fmod(x, 3)", "np.mod(x, 3)", "np.floor_divide(x, 3)", "np.power(x, 2)", "np.true_divide(x, 3)", "np.conj(x)"),
    *("np.logaddexp(x, 1)", "np.float_power(x, 2)", "np.imag(x)", "abs(complex(x, 1))", "np.exp(1j * x).real"),
)


def answers_of(expression: str, numbers: np.ndarray) -> np.ndarray:
    """What CPython says of an expression in NumPy scalars ``x``."""
    with np.errstate(all="ignore"):
        answers = [eval(expression, {"np": np, "math": math}, {"x": value}) for value in numbers]
    beyond = any(type(answer) is int and answer >= 2**63 for answer in answers)
    return np.array(answers, "uint64" if beyond else None)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integer_expressions_are_cpythons(function, run_cpu, dtype):
    limits = np.iinfo(dtype)
    numbers = np.array([0, 1, 2, 3, 7, 100, limits.max, limits.min], dtype)
    answers = [answers_of(expression, numbers) for expression in INTEGER_EXPRESSIONS]
    results = [np.zeros_like(answer) for answer in answers]
    names = [f"o{index}" for index in range(len(answers))]
    lines = ["x = a[i]", *(f"{name}[i] = {text}" for name, text in zip(names, INTEGER_EXPRESSIONS, strict=True))]
    run_cpu(function(kernel(lines, ["a", *names]), np=np, math=math), numbers, *results)
    for expression, result, answer in zip(INTEGER_EXPRESSIONS, results, answers, strict=True):
        assert (result == answer).all(), f"{expression}: {answer}, not {result}"


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("float_type", ["float32", "float64"])
def test_float_expressions_are_cpythons(function, run_cpu, float_type):
    numbers = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 0.3, 2.5, -2.5, 3.5, np.inf, -np.inf, np.nan], float_type)
    answers = [answers_of(expression, numbers) for expression in FLOAT_EXPRESSIONS]
    results = [np.zeros(len(numbers), float_type) for _ in answers]
    names = [f"o{index}" for index in range(len(answers))]
    lines = ["x = a[i]", *(f"{name}[i] = {text}" for name, text in zip(names, FLOAT_EXPRESSIONS, strict=True))]
    run_cpu(function(kernel(lines, ["a", *names]), np=np, math=math), numbers, *results, float_type=float_type)
    tolerance = 4e-6 if float_type == "float32" else 1e-14
    for expression, result, answer in zip(FLOAT_EXPRESSIONS, results, answers, strict=True):
        same = np.isclose(result, answer.astype(float_type), rtol=tolerance, atol=0, equal_nan=True)
        assert same.all(), f"{expression} of {numbers[~same]}: {answer[~same]}, not {result[~same]}"


def test_math_gives_nan_and_inf_instead_of_errors(function, run_cpu):
    results = np.zeros(6, np.float32)
    source = """
    def k(o, x):
        o[0] = math.sqrt(x - 2)
        o[1] = math.log(x - 1)
        o[2] = math.exp(x * 1000)
        o[3] = (x - 1) ** -1
        o[4] = math.fmod(x, x - 1)
        o[5] = math.acos(x + 1)
    """
    run_cpu(function(source, math=math), results, np.float32(1))
    np.testing.assert_array_equal(results, [np.nan, -np.inf, np.inf, np.inf, np.nan, np.nan])


@pytest.mark.parametrize("float_type", ["float32", "float64"])
def test_weak_constants_take_the_float_type(function, run_cpu, float_type):
    # 0.1 + 2**24 is exact in neither type; only F's own rounding gives F's answer.
    results = np.zeros(4, np.float64)
    source = """
    def k(o, a):
        o[0] = 0.1 + 16777216.0
        o[1] = scale[1] * 3
        o[2] = a * 3
        o[3] = math.pi
    """
    run_cpu(function(source, math=math, scale=(1, 0.1)), results, 0.1, float_type=float_type)
    kind = np.dtype(float_type).type
    assert list(results) == [kind(0.1) + kind(16777216), kind(0.1) * kind(3), kind(0.1) * kind(3), kind(math.pi)]


def test_float64_that_was_written_stays(function, run_cpu):
    results = np.zeros(2, np.float64)
    run_cpu(function("def k(o, a, x):\n o[0] = a + x\n o[1] = double(1) / 3", double=np.float64), results, np.float64(0.1), 1)
    assert list(results) == [1.1, 1 / 3]


def test_a_variable_joins_its_values(function, run_cpu):
    bytes_, floats, sums = np.full(5, 100, np.uint8), np.full(5, 0.1, np.float32), np.zeros(4, np.float64)
    source = """
    def k(b, x, o, first):
        s = 0
        t = 0
        m = 0
        for i in range(x.shape[0]):
            s += b[i]
            t += x[i]
            m = max(m, b[i])
        o[0] = s
        o[1] = t
        o[2] = m
        y = 1
        if first > 0:
            y = x[0]
        o[3] = y * 3
    """
    run_cpu(function(source), bytes_, floats, sums, 1)
    total = np.float32(0)
    for value in floats:
        total += value
    # 0 + uint8 is a uint8 in NumPy 2, and wraps.
    assert list(sums) == [(5 * 100) % 256, total, 100, floats[0] * np.float32(3)]


def test_min_and_max_keep_the_first_of_nan(function, run_cpu):
    nan, results = np.float32(np.nan), np.zeros(4, np.float32)
    source = "def k(o, a, b):\n o[0] = max(a, b)\n o[1] = max(b, a)\n o[2] = min(a, b, 0)\n o[3] = min(0, b, a)"
    run_cpu(function(source), results, nan, np.float32(1))
    np.testing.assert_array_equal(results, [max(nan, 1), max(1, nan), min(nan, 1, 0), min(0, 1, nan)])


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("(b > 1) + (b > 2)", "write int(a) + int(b)"),
        ("(b > 1) - (b > 2)", "write int(a) - int(b)"),
        ("~(b > 1)", "write `not a`"),
        ("b + 300", "the Python integer 300 is out of bounds for uint8"),
        ("b - (-1)", "the Python integer -1 is out of bounds for uint8"),
        ("np.uint64(b) & np.int8(b)", "uint64 and int8 have no common integer type"),
        ("np.int32(b) << np.uint64(b)", "int32 and uint64 have no common integer type"),
        ("b ** -1", "an integer to the power -1"),
        ("np.reciprocal(b)", "numpy.reciprocal of an integer"),
        ("np.heaviside(b, 1)", "numpy.heaviside"),
    ],
)
def test_what_has_no_right_answer_is_refused(function, run_cpu, expression, found):
    with pytest.raises(KernelTypeError) as caught:
        run_cpu(function(f"def k(o, a):\n b = a[0]\n o[0] = {expression}", np=np), np.zeros(1), np.ones(1, np.uint8))
    assert found in caught.value.found
    assert caught.value.span.line == 3


def test_a_word_is_known_by_identity(function, run_cpu):
    results = np.zeros(2, np.float32)
    run_cpu(function("def k(o):\n o[0] = f(4)\n o[1] = max(2)", f=math.sqrt, max=math.sqrt), results)
    assert list(results) == [2, np.sqrt(np.float32(2))]
