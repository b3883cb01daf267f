"""``math`` and NumPy scalar functions inside loops, against Python's own answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

POISON = 77

ONE = {
    # name: a range of arguments on which the function is smooth
    "sqrt": (0.0, 9.0),
    "exp": (-3.0, 3.0),
    "log": (0.1, 9.0),
    "log2": (0.1, 9.0),
    "log10": (0.1, 9.0),
    "log1p": (-0.5, 9.0),
    "expm1": (-3.0, 3.0),
    "sin": (-3.0, 3.0),
    "cos": (-3.0, 3.0),
    "tan": (-1.0, 1.0),
    "sinh": (-2.0, 2.0),
    "cosh": (-2.0, 2.0),
    "tanh": (-2.0, 2.0),
    "floor": (-3.0, 3.0),
    "ceil": (-3.0, 3.0),
    "trunc": (-3.0, 3.0),
    "fabs": (-3.0, 3.0),
}


def numpy_functions(x, y):
    for i in range(x.shape[1]):
        y[0, i] = np.sqrt(x[0, i])
        y[1, i] = np.exp(x[1, i])
        y[2, i] = np.log(x[2, i])
        y[3, i] = np.log2(x[3, i])
        y[4, i] = np.log10(x[4, i])
        y[5, i] = np.log1p(x[5, i])
        y[6, i] = np.expm1(x[6, i])
        y[7, i] = np.sin(x[7, i])
        y[8, i] = np.cos(x[8, i])
        y[9, i] = np.tan(x[9, i])
        y[10, i] = np.sinh(x[10, i])
        y[11, i] = np.cosh(x[11, i])
        y[12, i] = np.tanh(x[12, i])
        y[13, i] = np.floor(x[13, i])
        y[14, i] = np.ceil(x[14, i])
        y[15, i] = np.trunc(x[15, i])
        y[16, i] = np.fabs(x[16, i])


def math_functions(x, y):
    for i in range(x.shape[1]):
        y[0, i] = math.sqrt(x[0, i])
        y[1, i] = math.exp(x[1, i])
        y[2, i] = math.log(x[2, i])
        y[3, i] = math.log2(x[3, i])
        y[4, i] = math.log10(x[4, i])
        y[5, i] = math.log1p(x[5, i])
        y[6, i] = math.expm1(x[6, i])
        y[7, i] = math.sin(x[7, i])
        y[8, i] = math.cos(x[8, i])
        y[9, i] = math.tan(x[9, i])
        y[10, i] = math.sinh(x[10, i])
        y[11, i] = math.cosh(x[11, i])
        y[12, i] = math.tanh(x[12, i])
        y[13, i] = math.floor(x[13, i])
        y[14, i] = math.ceil(x[14, i])
        y[15, i] = int(x[15, i])
        y[16, i] = math.fabs(x[16, i])


@pytest.mark.parametrize("function", [numpy_functions, math_functions])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_one_argument(check, function, dtype):
    def args():
        rows = [np.linspace(lo, hi, 19) for lo, hi in ONE.values()]
        return np.array(rows, dtype), np.full((len(ONE), 19), POISON, dtype)

    check(function, args, tolerance=3e-6 if dtype is np.float32 else 1e-12)


def more_numpy(x, y, out):
    for i in range(x.shape[0]):
        out[0, i] = np.abs(x[i])
        out[1, i] = np.absolute(y[i])
        out[2, i] = np.power(y[i], 3)
        out[3, i] = np.power(np.abs(x[i]), y[i])
        out[4, i] = np.hypot(x[i], y[i])
        out[5, i] = np.arctan2(x[i], y[i])
        out[6, i] = np.minimum(x[i], y[i])
        out[7, i] = np.maximum(x[i], y[i])
        out[8, i] = np.sign(x[i])
        out[9, i] = np.square(x[i])
        out[10, i] = np.arcsin(x[i] / 4.0)
        out[11, i] = np.arccos(x[i] / 4.0)
        out[12, i] = np.arctan(x[i])
        out[13, i] = np.arcsinh(x[i])
        out[14, i] = np.arccosh(y[i] + 1.0)
        out[15, i] = np.arctanh(x[i] / 4.0)
        out[16, i] = np.copysign(y[i], x[i])
        out[17, i] = np.exp2(x[i])
        out[18, i] = np.isnan(x[i]) or np.isinf(y[i]) or not np.isfinite(x[i])
        out[19, i] = np.deg2rad(x[i]) + np.degrees(y[i]) + np.radians(x[i]) + np.rad2deg(y[i])
        out[20, i] = np.fmod(x[i], y[i])
        out[21, i] = np.cbrt(y[i])
        out[22, i] = np.rint(x[i] + 0.25)
        out[23, i] = np.negative(x[i]) + np.reciprocal(y[i])
        out[24, i] = np.add(x[i], y[i]) * np.subtract(x[i], y[i]) - np.multiply(x[i], y[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_numpy_functions(check, dtype):
    def args():
        rng = np.random.default_rng(7)
        return rng.uniform(-3, 3, 20).astype(dtype), rng.uniform(0.5, 3, 20).astype(dtype), np.full((25, 20), POISON, dtype)

    check(more_numpy, args, tolerance=5e-6 if dtype is np.float32 else 1e-12)


def more_math(x, y, out):
    for i in range(x.shape[0]):
        out[0, i] = math.atan2(x[i], y[i])
        out[1, i] = math.hypot(x[i], y[i])
        out[2, i] = math.pow(y[i], x[i])
        out[3, i] = math.copysign(y[i], x[i])
        out[4, i] = math.fmod(x[i], y[i])
        out[5, i] = math.erf(x[i])
        out[6, i] = math.erfc(x[i])
        out[7, i] = math.gamma(y[i])
        out[8, i] = math.lgamma(y[i])
        out[9, i] = math.asin(x[i] / 4.0) + math.acos(x[i] / 4.0) + math.atan(x[i])
        out[10, i] = math.asinh(x[i]) + math.acosh(y[i] + 1.0) + math.atanh(x[i] / 4.0)
        out[11, i] = math.isnan(x[i]) + math.isinf(y[i]) * 2 + math.isfinite(x[i]) * 4
        out[12, i] = math.radians(x[i]) + math.degrees(y[i]) + math.e + math.tau


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_math_functions(check, dtype):
    def args():
        rng = np.random.default_rng(8)
        return rng.uniform(-3, 3, 20).astype(dtype), rng.uniform(0.5, 3, 20).astype(dtype), np.full((13, 20), POISON, dtype)

    check(more_math, args, tolerance=1e-5 if dtype is np.float32 else 1e-11)


def builtins(x, k, out, ints):
    for i in range(x.shape[0]):
        out[0, i] = abs(x[i])
        out[1, i] = min(x[i], 0.5)
        out[2, i] = max(x[i], -0.5, 0.25)
        out[3, i] = float(k[i]) / 4
        out[4, i] = round(x[i])
        out[5, i] = pow(x[i], 2)
        out[6, i] = x[i] ** 3 + x[i] ** 0.5 if x[i] > 0 else x[i] ** 2
        ints[0, i] = int(x[i] * 10.0)
        ints[1, i] = abs(k[i]) + min(k[i], 3) - max(k[i], i)
        ints[2, i] = int(bool(k[i])) + int(k[i] > 2)
        ints[3, i] = len(x) + k[i] ** 2 + (k[i] << 2) + (abs(k[i]) >> 1)
        ints[4, i] = divmod(k[i], 3)[0] * 100 + divmod(k[i], 3)[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_builtin_functions(check, dtype):
    def args():
        x = np.random.default_rng(9).uniform(-3, 3, 20).astype(dtype)
        return x, np.arange(-10, 10), np.full((7, 20), POISON, dtype), np.full((5, 20), POISON)

    check(builtins, args)


def integer_functions(k, out):
    for i in range(k.shape[0]):
        out[0, i] = np.abs(k[i])
        out[1, i] = np.minimum(k[i], 3) + np.maximum(k[i], 5)
        out[2, i] = np.sign(k[i])
        out[3, i] = np.bitwise_and(k[i], 6) + np.bitwise_or(k[i], 1) + np.bitwise_xor(k[i], 3)
        out[4, i] = np.int32(k[i]) + np.int64(3)
        out[5, i] = math.gcd(k[i], 12)


def test_integer_functions(check):
    check(integer_functions, lambda: (np.arange(-9, 9), np.full((6, 18), POISON)))


def special_values(x, y, out):
    for i in range(x.shape[0]):
        out[0, i] = np.sqrt(x[i])
        out[1, i] = np.log(x[i])
        out[2, i] = x[i] / y[i]
        out[3, i] = np.exp(x[i])
        out[4, i] = np.arcsin(x[i])
        out[5, i] = np.power(x[i], 0.3)
        out[6, i] = y[i] - x[i]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_domain_errors_and_division_by_zero_give_what_numpy_gives(check, dtype):
    def args():
        x = np.array([-1.0, 0.0, 1.0, np.inf, -np.inf, np.nan, 800.0, -0.0], dtype)
        return x, np.array([0.0, 0.0, 0.0, np.inf, 0.0, 1.0, -0.0, 2.0], dtype), np.full((7, 8), POISON, dtype)

    check(special_values, args)


def without_domain(x, y):
    for i in range(x.shape[0]):
        y[i, 0] = 1 / i
        y[i, 1] = math.log(i)
        y[i, 2] = math.sqrt(-i - 1) + math.acos(i + 2)
        y[i, 3] = math.exp((i + 1) * 1000) + (i * 1.0) ** -1
        y[i, 4] = math.gamma(i - 1) if i else math.lgamma(i)
        y[i, 5] = i // (i - i) + i % (i - i)
        y[i, 6] = math.pow((i + 1) * 10.0, 400) + math.fmod(x[i], 0)


def test_where_python_raises_every_backend_has_infinities_and_nan(rig):
    y = np.full((2, 7), 77.0)
    rig.run(rig.kernel(without_domain), np.ones(2), y)
    inf, nan = math.inf, math.nan
    np.testing.assert_array_equal(y, [[inf, -inf, nan, inf, inf, 0, nan], [1, 0, nan, inf, inf, 0, nan]])


def gcd_beside_a_literal(x, y, out):
    for i in range(x.shape[0]):
        out[0, i] = np.gcd(x[i], 4) * 100
        out[1, i] = np.lcm(x[i], 4) + np.gcd(6, y[i])
        out[2, i] = np.lcm(x[i], y[i])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_gcd_and_lcm_of_a_literal_have_the_type_of_the_other_number(check, dtype):
    values = np.array([[127, 4, 100, -128, 0, -6], [4, 6, 3, -128, 0, 9]])
    check(gcd_beside_a_literal, lambda: (*values.astype(dtype), np.full((3, 6), 77)))


def complex_quotients(x, y, out):
    for i in range(x.shape[0]):
        out[0, i] = x[i] / y[i]
        out[1, i] = 1 / y[i] + x[i] / 2.5
    out[2] = x / y
    out[3] = y / 0
    x /= y
    s = y[0] / y[1]
    out[4, 0] = s


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_divided_by_zero_as_numpy_does(check, dtype):
    x = np.array([0, 1 + 1j, 1, np.inf, complex(np.nan, 1), 2j, 3 - 1j], dtype)
    y = np.array([2 - 1j, 0, 1j, complex(0, -0.0), 0, -0.0, 4 + 5j], dtype)
    check(complex_quotients, lambda: (x.copy(), y.copy(), np.zeros((5, 7), dtype)))


def square_roots(x, z, out):
    out[0] = x**0.5
    out[1] = np.power(x, 0.5) + (2 * x) ** 0.5
    for i in range(x.shape[0]):
        out[2, i] = x[i] ** 0.5
    x **= 0.5
    z[:] = z**0.5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_power_one_half_of_an_array_is_the_square_root(check, dtype):
    x = np.array([-0.0, 0.0, -np.inf, np.inf, np.nan, 2, -1], dtype)
    z = np.array([4, -4, 3 + 4j, 0], "complex64" if dtype == "float32" else "complex128")
    check(square_roots, lambda: (x.copy(), z.copy(), np.zeros((3, 7), dtype)))


def without_arguments(x):
    x[0] += float() + int() + bool()
    for i in range(1, x.shape[0]):
        for k, v in enumerate((5, 6), start=2):
            x[i] += k * v + int() + complex().real
        for k, v in enumerate(iterable=(1.5, 2.5)):
            x[i] -= k * v


def test_numbers_of_no_arguments_and_keywords_of_enumerate(check):
    check(without_arguments, lambda: (np.arange(4.0) + 1,))
