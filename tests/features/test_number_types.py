"""Numbers of every type against plain Python, operands drawn at random: what converts before it compares, rounds or counts."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest

import qgraph

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
FLOATS = (np.float32, np.float64)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def drawn(dtype, count, seed):
    """Numbers of all sizes, those at the ends of the type among them."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        special = np.array([-0.0, 0.0, 0.5, -1.5, 2.5, np.inf, -np.inf])
        wide = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 12, count)
        return rng.permutation(np.concatenate([special, wide])[:count]).astype(dtype)
    limits = np.iinfo(dtype)
    bits = rng.integers(0, kind.itemsize * 8, count)
    values = [int(rng.integers(0, 2**62)) % (1 << int(b)) * (-1 if limits.min and b % 2 else 1) for b in bits]
    special = [limits.min, limits.max, limits.max - 1, 0, 1]
    clipped = [min(max(value, limits.min), limits.max) for value in (*special, *values)]
    return rng.permutation(np.array(clipped[:count], dtype))


# --- functions ----------------------------------------------------------------------------------------------------------

OF_ONE = (
    *(math.exp, math.sqrt, math.log1p, math.sin, math.atan, math.degrees, math.radians, math.fabs, math.cbrt, math.erf),
    *(np.exp, np.sqrt, np.cos, np.degrees, np.deg2rad, np.rint, np.sign, np.fabs, np.cbrt, np.floor, np.square, np.nan_to_num),
)
OF_TWO = (
    *(math.atan2, math.hypot, math.copysign, math.pow, math.fmod),
    *(np.arctan2, np.hypot, np.copysign, np.float_power, np.logaddexp, np.fmod, np.gcd),
)


def of_one(function):
    def apply(x, y):
        for i in range(x.shape[0]):
            y[i] = function(x[i])

    return apply


def of_two(function):
    def apply(x, z, y):
        for i in range(x.shape[0]):
            y[i] = function(x[i], z[i])

    return apply


def compare_results(kernel, operands, function):
    """The kernel's results are those of ``function`` on NumPy's numbers, as exact as their type."""
    # Errors of math's domain are documented as inf and nan.
    known = [numbers for numbers in zip(*operands, strict=True) if result_of(function, numbers) is not None]
    out = np.full(len(known), 77.0)
    kernel(*(np.array(each, operand.dtype) for each, operand in zip(zip(*known, strict=True), operands, strict=True)), out)
    for got, numbers in zip(out, known, strict=True):
        wanted = result_of(function, numbers)
        digits = 1e-6 if isinstance(wanted, np.float32) else 1e-14
        assert got == pytest.approx(float(wanted), rel=digits, abs=0, nan_ok=True), (function, numbers)
        assert got != 0 or np.signbit(got) == np.signbit(float(wanted)), (function, numbers)


def result_of(function, numbers):
    try:
        return function(*numbers)
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


def is_half(function, numbers):
    return isinstance(function, np.ufunc) and isinstance(function(*numbers), np.float16)


@pytest.mark.needs("host_arrays")
@pytest.mark.parametrize("function", OF_ONE, ids=lambda f: f"{getattr(f, '__module__', None) or 'numpy'}.{f.__name__}")
@pytest.mark.parametrize("seed", range(2))
def test_functions_of_one_number(backend, function, seed):
    rng = np.random.default_rng([seed, *function.__name__.encode()])
    dtype = (*INTEGERS, *FLOATS)[rng.integers(10)]
    check_function(backend, function, of_one, (drawn(dtype, 8, seed),))


@pytest.mark.needs("host_arrays")
@pytest.mark.parametrize("function", OF_TWO, ids=lambda f: f"{getattr(f, '__module__', None) or 'numpy'}.{f.__name__}")
@pytest.mark.parametrize("seed", range(2))
def test_functions_of_two_numbers(backend, function, seed):
    rng = np.random.default_rng([seed, *function.__name__.encode()])
    kinds = INTEGERS if function is np.gcd else (*INTEGERS, *FLOATS)
    dtype = kinds[rng.integers(len(kinds))]
    check_function(backend, function, of_two, (drawn(dtype, 8, seed), drawn(dtype, 8, seed + 7)))


def check_function(backend, function, form, operands):
    kernel = qgraph.kernel(backend=backend)(form(function))
    halves = is_half(function, [operand[0] for operand in operands])
    if halves and backend != "sim":
        with pytest.raises(qgraph.KernelTypeError, match="float16"):
            kernel(*operands, np.zeros(len(operands[0])))
        return
    if not halves:
        compare_results(kernel, operands, function)


# --- least and greatest -------------------------------------------------------------------------------------------------


def least(h, b, e):
    for i in range(b.shape[0]):
        h[b[i]] = min(h[b[i]], e[i])


def greatest(h, b, e):
    for i in range(b.shape[0]):
        h[b[i]] = max(h[b[i]], e[i])


def least_of_all(h, b, e):
    for i in range(b.shape[0]):
        h[0] = min(e[i], h[0])


def greatest_of_all(h, b, e):
    for i in range(b.shape[0]):
        h[0] = np.maximum(h[0], e[i])


def greatest_by_a_test(h, b, e):
    for i in range(b.shape[0]):
        if e[i] > h[0]:
            h[0] = e[i]


def least_by_a_choice(h, b, e):
    for i in range(b.shape[0]):
        h[0] = e[i] if e[i] < h[0] else h[0]


def least_by_the_author(h, b, e):
    for i in range(b.shape[0]):
        qgraph.atomic_min(h, b[i], e[i])


def greatest_by_the_author(h, b, e):
    for i in range(b.shape[0]):
        qgraph.atomic_max(h, b[i], e[i])


LEAST = (least, least_of_all, least_by_a_choice, least_by_the_author)
GREATEST = (greatest, greatest_of_all, greatest_by_a_test, greatest_by_the_author)
ELEMENTS = (np.int32, np.uint32, np.int64, np.uint64)


@pytest.mark.parametrize("function", [*LEAST, *GREATEST])
@pytest.mark.parametrize("count", [40, 4000])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_least_or_greatest_is_decided_before_it_is_converted(rig, function, count, seed):
    """Few and many updates: many are collected by chunks of the CPU, or in shared memory."""
    if rig.backend == "sim" and count > 40:
        count = 400
    rng = np.random.default_rng([seed, count, *function.__name__.encode()])
    dtype = ELEMENTS[rng.integers(4)]
    signs = {np.int64: {np.uint64}, np.uint64: {np.int8, np.int16, np.int32, np.int64}}
    kinds = [kind for kind in (*INTEGERS, *FLOATS) if kind not in signs.get(dtype, ())]
    kind = kinds[rng.integers(len(kinds))]
    is_least = function in LEAST

    def args():
        values, limits = drawn(kind, count, seed), np.iinfo(dtype)
        # Where Python stores what the elements' type does not hold, it raises.
        past = values < limits.min if is_least else values >= float(limits.max)
        values[past] = 0
        values[:4] = 2 if is_least else 4
        return np.full(4, 3, dtype), np.arange(count) % 4, values

    if is_least and np.iinfo(dtype).min == 0 and np.dtype(kind).kind != "u":
        if rig.backend != "sim" or kind is np.int64:
            with pytest.raises(qgraph.KernelTypeError, match="may be negative"):
                rig.check(function, args)
        return
    rig.check(function, args)


def least_number(h, n):
    for i in range(100):
        h[i % 3] = min(h[i % 3], n - i)


def test_python_integers_that_fit_are_taken(check):
    check(least_number, lambda: (np.full(3, 50, np.int32), 40))
    check(least_number, lambda: (np.full(3, 500, np.uint64), 400))


# --- one of two ---------------------------------------------------------------------------------------------------------


def integer_or_float(x, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 0.5)


def integer_or_float_by_path(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i] if x[i] > 5 else 0.5


def integer_or_float_named(x, y):
    for i in range(x.shape[0]):
        t = x[i]
        if t < 5:
            t = 0.5
        y[i] = t // 3


@pytest.mark.parametrize("function", [integer_or_float, integer_or_float_by_path, integer_or_float_named])
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("out", [np.int64, np.float64])
@pytest.mark.needs("compiler")
def test_an_integer_or_a_float(rig, function, dtype, out):
    """Where a float is wanted they are one; where an integer is, one of 64 bits would have lost digits."""

    def args():
        return np.array([2**14 + 1, 0, 7, np.iinfo(dtype).max // 4 * 2], dtype), np.zeros(4, out)

    if np.dtype(dtype).itemsize == 8 and out is np.int64:
        with pytest.raises(qgraph.KernelTypeError, match="may lose digits"):
            rig.check(function, args)
        return
    rig.check(function, args)


# --- rounding -----------------------------------------------------------------------------------------------------------


def rounded(x, digits, y):
    for i in range(x.shape[0]):
        y[i] = round(x[i], digits)


def rounded_by_numpy(x, digits, y):
    for i in range(x.shape[0]):
        y[i] = np.round(x[i], digits)


@pytest.mark.parametrize("function", [rounded, rounded_by_numpy])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_numbers_are_rounded_as_numpy_rounds_them(rig, function, dtype):
    values = np.random.default_rng(0)
    whole = [0, 1, 5, 15, 25, 35, 49, 50, 51, 99, 100]
    if np.dtype(dtype).kind == "f":
        whole += [0.5, 1.005, 2.675, -1.5, -0.001, np.finfo(dtype).max, *values.standard_normal(20) * 1000]
    elif dtype in (np.int64, np.uint64):
        whole += [2**52 - 5, 12345678905]
    for digits in (-3, -2, -1, 0, 1, 2, 5):
        out = np.float64 if np.dtype(dtype).kind == "f" else dtype

        def args(digits=digits, out=out):
            return np.array(whole, dtype), digits, np.full(len(whole), 77, out)

        rig.check(function, args, tolerance=0)


def rounded_of_python(f, g):
    t = f * g
    return round(f + 2.675, 2), round(t, 1), round(f / 3, 5), round(f * 1e5, -2), round(float(f), 0)


def test_python_floats_are_rounded_once(rig):
    kernel = rig.check(rounded_of_python, lambda: (0.0, 1.0), tolerance=0)
    rng = np.random.default_rng(3)
    for _ in range(200):
        halves = float(rng.integers(-2000, 2000)) / 1000 + 0.005
        args = (halves, float(rng.standard_normal() * 10.0 ** rng.integers(-3, 6)))
        assert kernel(*args) == rounded_of_python(*args), args


def rounded_of_either(x):
    t = 0.0
    for i in range(x.shape[0]):
        t += x[i]
    return round(t, 2)


@pytest.mark.needs("compiler")
def test_whose_a_float_is_must_be_known(rig):
    with pytest.raises(qgraph.KernelTypeError, match="may be Python's or NumPy's"):
        rig.kernel(rounded_of_either)(rig.device(np.ones(3)))


def least_of_remainders(z, h, e):
    for i in range(e.shape[0]):
        z[0] = min(z[0], e[i] % 2048)
    for i in range(e.shape[0]):
        h[i % 3] = min(h[i % 3], e[i] & 4095)
    for i in range(e.shape[0]):
        h[i % 2] = min(h[i % 2], np.int64(5))


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_a_remainder_may_be_the_least_of_numbers_without_a_sign(check, dtype):
    check(least_of_remainders, lambda: (np.full(1, 99, dtype), np.full(3, 99, dtype), np.arange(-40, 60, 7)))


# --- counting -----------------------------------------------------------------------------------------------------------


def counted(y, a, b, s):
    c = 0
    for _ in qgraph.serial(range(a, b, s)):
        c += 1
    for i in range(1):
        for t in range(a, b, s):
            y[i] += t / 2**62
        for t in range(a, b):
            y[1] = t / 2**62
            if t < b:
                break
    return c


@pytest.mark.parametrize("seed", range(6))
def test_ranges_of_any_length(rig, seed):
    rng = np.random.default_rng(seed)
    ends = [int(rng.integers(-(2**63), 2**63 - 1)) for _ in range(2)] if seed else [-(2**62), 2**62]
    size = abs(ends[1] - ends[0])
    count = int(rng.integers(1, 9))
    step = min(2**63 - 1, max(1, size // count)) * (1 if ends[1] > ends[0] or seed % 2 else -1)
    rig.check(counted, lambda: (np.zeros(2), *ends, step))


def mean(x):
    return np.mean(x), x.mean()


@pytest.mark.parametrize("dtype", [*INTEGERS, np.bool_])
def test_means_do_not_wrap(check, dtype):
    most = 1 if dtype is np.bool_ else np.iinfo(dtype).max
    check(mean, lambda: (np.full(6, most, dtype),))


def shifted(n, k):
    return n << k, (n + 7) >> k, -n >> k


def test_shifts_by_negative_numbers_are_errors(rig):
    kernel = rig.check(shifted, lambda: (5, 3))
    rig.compare(kernel, lambda: (5, 0))
    with pytest.raises(qgraph.ArgumentError, match="shifts by a negative number"):
        kernel(5, -1)
        qgraph.synchronize()


def shifted_by_elements(x, k, y):
    for i in range(x.shape[0]):
        y[i] = x[i] << k[i]
        y[i] += x[i] >> k[i]


@pytest.mark.parametrize("dtype", INTEGERS[::2])
def test_shifts_of_elements_are_those_of_numpy(check, dtype):
    check(shifted_by_elements, lambda: (np.arange(5, dtype=dtype), np.array([0, 1, 2, -1, -2], dtype), np.zeros(5, dtype)))


def divisors(x, y):
    for i in range(y.shape[0]):
        y[i] = math.gcd(x[i], x[i + 1])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_common_divisors(check, dtype):
    limits = np.iinfo(dtype)
    lowest = limits.min if dtype is not np.int64 else -(2**62)
    check(divisors, lambda: (np.array([12, 18, lowest, 0, limits.max, 6], dtype), np.zeros(5)))


# --- integers that floats decide ------------------------------------------------------------------------------------------


def made_of_floats_twice(x, y, n):
    for i in range(int(n * 0.29)):
        x[i] = 1
    for i in range(y.shape[0]):
        y[i] = int(n * 0.29) + round(n / 7) + math.floor(n * 0.1)
    return int(n * 0.29), int(n * 0.57) // 2


@pytest.mark.parametrize("n", [100, 200, 20_000_001, 33_554_433])
def test_an_integer_made_of_floats_is_one_number_wherever_it_is_written(check, n):
    """In a float32 kernel the device would have 24 bits for it, and the host, which has the sizes, 53."""
    check(made_of_floats_twice, lambda: (np.zeros(n // 3, np.float32), np.zeros(3, np.int64), n))


def not_made_where_it_fails(x, y, n):
    for i in range(y.shape[0]):
        if n > 0:
            y[i] = int(x.shape[0] / n)
        y[i] += int(n * 0.5)


@pytest.mark.parametrize("n", [0, 3])
def test_what_fails_on_a_path_that_is_not_taken_is_not_computed(check, n):
    check(not_made_where_it_fails, lambda: (np.zeros(9, np.float32), np.full(3, 5), n), noop=n == 0)


# --- integers of more than 64 bits ----------------------------------------------------------------------------------------


def large_on_the_way(y, n, k):
    product = n * n * n // (n * n)
    power = n**3 - n**3 + k
    shifted = (k << 70) >> 69
    for i in range(y.shape[0]):
        y[i] = product + power * 2 + shifted
    for t in qgraph.serial(range(product - n + 2)):
        y[0] += t
    return product, power, shifted


def too_large(y, n):
    product = n * n * n
    for i in range(y.shape[0]):
        y[i] = product % 7


def test_numbers_of_the_host_are_as_large_as_they_need_to_be(rig):
    kernel = rig.check(large_on_the_way, lambda: (np.zeros(3, np.int64), 3, 5))
    rig.compare(kernel, lambda: (np.zeros(3, np.int64), 3_000_000, 5))
    kernel = rig.check(too_large, lambda: (np.full(3, 9), 5))
    with pytest.raises(qgraph.ArgumentError, match="does not fit 64 bits"):
        rig.run(kernel, np.full(3, 9), 3_000_000)


def products_without_a_name(y, n, m):
    for i in range(y.shape[0]):
        y[i] = i + n * m * m // (n * m) + n**2 % 1000 + (m << 5) + np.float64(n * (m - 3))


def test_products_in_bodies_are_pythons(check):
    check(products_without_a_name, lambda: (np.zeros(5), 3_000_000, 700_001))


def too_large_without_a_name(y, n, m):
    y[0] = 1
    for i in range(y.shape[0]):
        y[i] = float(n * m * m) + i


def test_products_in_bodies_that_do_not_fit_are_refused_before_anything_runs(rig):
    y = rig.device(np.zeros(3))
    with pytest.raises(qgraph.ArgumentError, match=r"`n \* m \* m` is 27000000000000000000, which does not fit 64 bits"):
        rig.kernel(too_large_without_a_name)(y, 3_000_000, 3_000_000)
    np.testing.assert_array_equal(qgraph.to_numpy(y), np.zeros(3))


# --- the same words for CUDA ----------------------------------------------------------------------------------------------


def all_of_them(x, k, h, y, a, b, s):
    for i in range(x.shape[0]):
        for t in range(a, b, s):
            y[i] += t
        y[i] += round(x[i], 2) + round(a * 0.5, 3) + round(k[i], -1) + np.logaddexp(x[i], a) + np.nan_to_num(x[i])
        t = max(a, x[i])
        y[i] += t + math.gcd(k[i], a)
    for i in range(x.shape[0]):
        h[k[i] % 3] = min(h[k[i] % 3], x[i])
    for i in range(x.shape[0]):
        h[0] = max(h[0], x[i])
    y[0] = a << b


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("floats", [np.float32, np.float64])
def test_ptx_is_made_of_all_of_them(floats):
    x = np.ones(5, floats)
    text = "".join(qgraph.kernel(all_of_them).ptx(x, np.ones(5, np.int32), np.ones(5, np.int64), x.copy(), 1, 2, 3).values())
    # What tells ties of a Python float, and collisions.
    assert "fma.rn." in text
    assert re.search(r"(atom|red)\.\S*min\.s64", text)
