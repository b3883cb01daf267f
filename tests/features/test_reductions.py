"""Reductions in parallel loops: every operator and type, ties as in program order, and the same bits every time."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest

import qgraph
from tests.conftest import THOROUGH, thorough

# One of each kind of arithmetic: narrower than a register, of 32 bits, of 64 bits; with a sign and without.
INTEGERS = ["int8", "int64", "uint64", *thorough("int32", "uint16", "uint32")]
FLOATS = ["float32", "float64", pytest.param("float16", marks=pytest.mark.needs("float16", "float16_math"))]
COMPLEX = ["complex64"]
SIZES = [0, 1, 7, 33, 1000]


def check_sizes(rig, function, args, *, unchanged_below=1):
    """The kernel for ``args(n)`` of every size; it changes nothing where ``n`` is below ``unchanged_below``."""
    kernel = rig.kernel(function)
    for n in sorted({rig.size(n) for n in SIZES}):
        rig.compare(kernel, lambda n=n: args(n), noop=n < unchanged_below)


def small(n, dtype, seed=0, low=0, high=9):
    """Small whole numbers, whose sums are exact in any order."""
    low = max(low, 0) if np.dtype(dtype).kind == "u" else low
    return np.random.default_rng(seed).integers(low, high, n).astype(dtype)


def one(dtype, value=0):
    return np.array([value], dtype)


# --- operators and types ------------------------------------------------------------------------------------------------


def sums(x, plus, minus, spelled, swapped, chained):
    for i in range(x.shape[0]):
        plus[0] += x[i]
        minus[0] -= x[i]
        spelled[0] = spelled[0] + x[i]
        swapped[0] = x[i] + swapped[0]
        chained[0] = chained[0] + x[i] - 1


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS + COMPLEX)
def test_sums(rig, dtype):
    check_sizes(rig, sums, lambda n: (small(n, dtype, high=2 if n > 99 else 9), *(one(dtype, 3) for _ in range(5))))


def products(x, times, spelled):
    for i in range(x.shape[0]):
        times[0] *= x[i]
        spelled[0] = x[i] * spelled[0]


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS + COMPLEX)
def test_products(rig, dtype):
    def args(n):
        x = np.ones(n, dtype)
        x[:30:9] = 3
        return x, one(dtype, 2), one(dtype, 1)

    check_sizes(rig, products, args)


def extremes(x, least, most, swapped, by_numpy, by_if, three, chosen):
    for i in range(x.shape[0]):
        least[0] = min(least[0], x[i])
        most[0] = max(most[0], x[i])
        swapped[0] = min(x[i], swapped[0])
        by_numpy[0] = np.maximum(by_numpy[0], x[i])
        if x[i] < by_if[0]:
            by_if[0] = x[i]
        three[0] = min(x[i] + 1, three[0], x[i])
        chosen[0] = x[i] if x[i] > chosen[0] else chosen[0]
        chosen[1] = chosen[1] if chosen[1] <= x[i] else x[i]
        chosen[2] = chosen[2] if x[i] <= chosen[2] else x[i]


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_minimum_and_maximum(rig, dtype):
    def args(n):
        x = small(n, dtype, low=-50, high=50)
        return (
            x,
            one(dtype, 40),
            one(dtype, 3),
            one(dtype, 99),
            one(dtype, 3),
            one(dtype, 40),
            one(dtype, 40),
            np.full(3, 9, dtype),
        )

    check_sizes(rig, extremes, args)


def extremes_that_are_limits(x, least, most):
    for i in range(x.shape[0]):
        least[0] = min(least[0], x[i])
        most[0] = max(most[0], x[i])


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_the_initial_value_may_be_the_extreme(rig, dtype):
    limits = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    x = np.array([limits.max, limits.min, limits.max], dtype)
    rig.check(extremes_that_are_limits, lambda: (x[:1], one(dtype, limits.min), one(dtype, limits.min)))
    rig.check(extremes_that_are_limits, lambda: (x, one(dtype, 5), one(dtype, 5)))
    rig.check(extremes_that_are_limits, lambda: (x[:0], one(dtype, limits.min), one(dtype, limits.max)), noop=True)


def test_infinities(rig):
    x = np.array([np.inf, -np.inf, 1.0])
    rig.check(extremes_that_are_limits, lambda: (x, one("float64", 2), one("float64", 2)))
    rig.check(extremes_that_are_limits, lambda: (x[:1], one("float64", np.inf), one("float64", -np.inf)))


def bits(x, anded, ored, xored, spelled):
    for i in range(x.shape[0]):
        anded[0] &= x[i]
        ored[0] |= x[i]
        xored[0] ^= x[i]
        spelled[0] = x[i] | spelled[0]


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_bits(rig, dtype):
    def args(n):
        high = 2 if dtype == "bool" else 120
        full = True if dtype == "bool" else 127
        return small(n, dtype, high=high), one(dtype, full), one(dtype, 0), one(dtype, 1), one(dtype, 0)

    check_sizes(rig, bits, args)


def least_of_booleans(x, b):
    for i in range(x.shape[0]):
        b[0] = min(b[0], x[i])


def greatest_of_booleans(x, b):
    for i in range(x.shape[0]):
        if x[i] > b[0]:
            b[0] = x[i]


def exclusive_or_of_booleans(x, b):
    for i in range(x.shape[0]):
        b[0] = x[i] ^ b[0]


@pytest.mark.parametrize(
    ("kernel", "before"), [(least_of_booleans, True), (greatest_of_booleans, False), (exclusive_or_of_booleans, True)]
)
def test_booleans_are_not_combined_with_numbers(rig, kernel, before):
    """A number that is stored is whether it is 0: `True ^ 3` is 2, and so True, while `True ^ True` is False."""
    b = np.array([before])
    with pytest.raises(qgraph.KernelTypeError, match="of elements of type bool and int8 is no boolean"):
        rig.run(rig.kernel(kernel), np.array([3, -1], np.int8), b)
    assert b[0] == before
    rig.check(kernel, lambda: (np.array([True, False, False]), np.array([before])))


def logic(x, every, some, swapped, chained):
    for i in range(x.shape[0]):
        every[0] = every[0] and x[i] < 8
        some[0] = some[0] or x[i] > 7
        swapped[0] = x[i] > 100 or swapped[0]
        chained[0] = chained[0] and x[i] >= 0 and x[i] < 100


def test_and_or(rig):
    def args(n):
        return small(n, "int32"), one("bool", 1), one("bool", 0), one("bool", 0), one("bool", 1)

    check_sizes(rig, logic, args, unchanged_below=30)


def stores(x, done, found, unsure, number):
    for i in range(x.shape[0]):
        done[()] = 0
        if x[i] == 3:
            found[0] = True
        if x[i] > 100:
            unsure[0] = True
        if x[i] < 5:
            number[2] = -1.5
            continue


def test_constant_stores(rig):
    check_sizes(rig, stores, lambda n: (small(n, "int64"), np.array(9), one("bool"), one("bool"), np.ones(3)))


# --- best and companions ------------------------------------------------------------------------------------------------


def first_least(x, best, where, what):
    for i in range(x.shape[0]):
        if x[i] < best[0]:
            best[0] = x[i]
            where[0] = i
            what[0] = 2 * x[i]


def last_least(x, best, where, what):
    for i in range(x.shape[0]):
        if x[i] <= best[0]:
            best[0], where[0], what[0] = x[i], i, 2 * x[i]


def first_most(x, best, where, what):
    for i in range(x.shape[0]):
        if best[0] < x[i]:
            where[0], best[0] = i, x[i]
            what[0] = 2 * x[i]


def last_most(x, best, where, what):
    for i in range(x.shape[0]):
        if x[i] > -100 and best[0] <= x[i]:
            what[0] = 2 * x[i]
            where[0] = i
            best[0] = x[i]


@pytest.mark.parametrize("function", [first_least, last_least, first_most, last_most])
@pytest.mark.parametrize("dtype", ["float32", *thorough("int8", "int64")])
def test_ties_go_as_in_program_order(rig, function, dtype):
    kernel = rig.kernel(function)
    for n, initial in [(0, 0), (1, 0), *itertools.product((20, rig.size(30_000)), (-60, 0, 4, 60))]:
        x = small(n, dtype, seed=n, low=-4, high=5)
        expected, actual = ((x, one(dtype, initial), one("int64", -1), one(dtype, 1)) for _ in range(2))
        kernel.reference(*expected)
        rig.run(kernel, *actual)
        assert [a.tolist() for a in actual[1:]] == [e.tolist() for e in expected[1:]], (n, initial)


def all_equal(x, first, last, a, b):
    for i in range(x.shape[0]):
        if x[i] < a[0]:
            a[0], first[0] = x[i], i
        if x[i] <= b[0]:
            b[0], last[0] = x[i], i


def test_all_equal_and_equal_to_the_initial_value(rig):
    n = rig.size(30_000)
    x = np.full(n, 7)
    kernel = rig.kernel(all_equal)
    for initial in (0, 7, 9):
        args = (x, one("int64", -1), one("int64", -1), one("int64", initial), one("int64", initial))
        rig.run(kernel, *args)
        assert args[1][0] == (0 if initial > 7 else -1)
        assert args[2][0] == (n - 1 if initial >= 7 else -1)


def best_of_two_kinds(x, y, best, where, kind):
    for i in range(x.shape[0]):
        if x[i] < best[0]:
            best[0], where[0], kind[0] = x[i], i, 0
        if y[i] < best[0]:
            best[0], where[0], kind[0] = y[i], i, 1


def test_two_candidates_in_one_iteration(rig):
    n = rig.size(500)
    for seed in range(3):
        x, y = small(n, "float64", seed, high=5), small(n, "float64", seed + 9, high=5)
        rig.check(best_of_two_kinds, lambda x=x, y=y: (x, y, one("float64", 3), one("int64", -1), one("int64", -1)))


def nan_is_skipped(x, best, where):
    for i in range(x.shape[0]):
        if x[i] > best[0]:
            best[0], where[0] = x[i], i


def test_comparisons_skip_nan(rig):
    x = np.array([np.nan, 2.0, np.nan, 5.0, 5.0, np.nan])
    rig.check(nan_is_skipped, lambda: (x, one("float64", -np.inf), one("int64", -1)))
    rig.check(nan_is_skipped, lambda: (x, one("float64", np.nan), one("int64", -1)), noop=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_nan_wins_or_loses_and_nothing_else(rig, dtype):
    kernel = rig.kernel(extremes_that_are_limits)
    rng = np.random.default_rng(3)
    for n in (5, rig.size(1000), rig.size(20_011)):
        x = rng.random(n).astype(dtype)
        x[rng.integers(0, n, n // 3)] = np.nan
        least, most = one(dtype, 9), one(dtype, -9)
        rig.run(kernel, x, least, most)
        assert np.isnan(least[0]) or least[0] == np.nanmin(x)
        assert np.isnan(most[0]) or most[0] == np.nanmax(x)


def numpys_extremes(x, least, most, found):
    for i in range(x.shape[0]):
        least[0] = np.minimum(least[0], x[i])
        most[0] = np.maximum(most[0], x[i])
    found[0] = np.max(x)
    found[1] = np.min(x[1:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("at", [(), (0,), (3,), (-1,), (1, 5)])
def test_numpys_extremes_keep_a_nan(rig, dtype, at):
    for n in (7, rig.size(1000), rig.size(20_011)):
        x = np.random.default_rng(n).random(n).astype(dtype)
        x[list(at)] = np.nan
        rig.check(numpys_extremes, lambda x=x: (x, one(dtype, 9), one(dtype, -9), np.zeros(2, dtype)))


def places(x, u, found, marks):
    k = np.argmax(x)
    marks[k] = 1
    found[0] = k
    found[1] = np.argmin(x[1:])
    found[2] = u.argmax()
    found[3] = np.argmin(u)
    for i in range(x.shape[0]):
        if i == k:
            marks[i] += 2


@pytest.mark.parametrize(
    ("dtype", "nans"),
    [
        *(("float32", nans) for nans in ((), (0, 4))),
        ("bool", ()),
        pytest.param("uint64", (), marks=THOROUGH),
        pytest.param("float32", (3, -1), marks=THOROUGH),
        *(pytest.param("float64", nans, marks=THOROUGH) for nans in ((), (0, 4), (3, -1))),
        pytest.param("int8", (), marks=THOROUGH),
    ],
)
def test_the_first_place_of_an_extreme(rig, dtype, nans):
    rng = np.random.default_rng(7)
    for n in (6, rig.size(1000), rig.size(20_011)):
        # With ties.
        x = rng.integers(0, 2 if dtype == "bool" else 9, n).astype(dtype)
        if np.dtype(dtype).kind == "f":
            x[list(nans)] = np.nan
        u = rng.integers(-3, 4, (5, 1 + n // 9)).astype(np.int32)
        rig.check(places, lambda x=x, u=u: (x, u, np.zeros(4, np.int64), np.zeros(x.shape[0], np.int32)))


# --- shapes of loops ----------------------------------------------------------------------------------------------------


def several(x, y, total, least, count, out):
    for i in range(x.shape[0]):
        out[i] = x[i] + y[i]
        if x[i] > 2:
            count[0] += 1
            continue
        total[0] += x[i] * y[i]
        least[0] = min(least[0], out[i])


def test_several_in_one_loop_that_also_writes(rig):
    def args(n):
        return small(n, "float64"), small(n, "float64", 1), np.zeros(1), np.full(1, 99.0), np.zeros(1, np.int32), np.zeros(n)

    check_sizes(rig, several, args)


def nested(x, total, most, count):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] == 3:
                continue
            if x[i, j] == 8:
                break
            total[0] += x[i, j]
            if x[i, j] % 2 == 0:
                most[0] = max(most[0], x[i, j])
            else:
                k = 0
                while k < x[i, j]:
                    count[()] += 1
                    k += 2


def test_inside_ifs_and_inner_loops(rig):
    x = small(rig.size(40) * 25, "int64").reshape(-1, 25)
    rig.check(nested, lambda: (x, one("int64"), one("int64", -1), np.array(5)))


def planes(x, total, where, best):
    for i, j in qgraph.ndrange(x.shape[0], (1, x.shape[1] - 1)):
        total[0] += x[i, j]
        if x[i, j] >= best[0]:
            best[0], where[0], where[1] = x[i, j], i, j


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (5, 7), (300, 33), (2, 40_000)])
def test_two_axes(rig, shape):
    if rig.backend == "sim":
        shape = (min(shape[0], 7), min(shape[1], 9))
    x = small(shape[0] * shape[1], "int64").reshape(shape)
    noop = shape[1] < 3
    rig.check(planes, lambda: (x, one("int64"), np.full(2, -1), one("int64", -5)), noop=noop)


def whole_index(x, total):
    for index in qgraph.ndrange(*x.shape):
        total[0] += x[index] * (index[0] + 1)


def test_an_index_that_is_a_tuple(rig):
    x = small(rig.size(40), "float32").reshape(2, 2, -1)
    rig.check(whole_index, lambda: (x, one("float32")))


def backwards(x, best, where, total):
    for i in range(x.shape[0] - 1, -1, -2):
        total[0] += x[i]
        if x[i] < best[0]:
            best[0], where[0] = x[i], i


def test_negative_steps(rig):
    check_sizes(rig, backwards, lambda n: (small(n, "int64"), one("int64", 9), one("int64", -1), one("int64")))


def bounded(x, bound, total, last):
    for i in range(bound[0]):
        total[0] += x[i]
        if x[i] <= last[0]:
            last[0], last[1] = x[i], i


@pytest.mark.parametrize("bound", [0, 1, 13, 900])
def test_a_bound_that_the_device_reads(rig, bound):
    bound = rig.size(bound)
    x = small(1000, "int64")
    rig.check(bounded, lambda: (x, np.array([bound]), one("int64", 2), np.array([9, -1])), noop=bound == 0)


def reduced_bound(x, bound):
    for i in range(bound[0]):
        bound[0] += x[i]


def test_a_bound_that_is_the_target(rig):
    rig.check(reduced_bound, lambda: (small(20, "int64", low=1), np.array([20])))


def chosen_elements(x, totals, counts, k, at):
    for i in range(x.shape[0]):
        totals[k] += x[i]
        counts[at[1] + k] -= 1


def test_elements_by_argument_and_by_array(rig):
    x = small(rig.size(100), "int8")
    rig.check(chosen_elements, lambda: (x, np.zeros(5, np.int8), np.zeros(5, np.int8), 1, np.array([0, 3])))


def rows(x, totals):
    for t in qgraph.serial(range(totals.shape[0])):
        for i in range(x.shape[0]):
            totals[t] += x[i] * t
        for i in range(x.shape[0]):
            x[i] += totals[t]


def test_an_element_by_a_serial_variable(rig):
    n = rig.size(200)
    rig.check(rows, lambda: (small(n, "int64"), np.full(3, 2)))


def again_and_again(x, total, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            total[0] += x[i]
        counter[()] -= 1


def test_every_iteration_of_a_device_loop_starts_afresh(rig):
    n = rig.size(3000)
    rig.check(again_and_again, lambda: (small(n, "int64"), one("int64"), np.array(5)))


def first_element_of_what_is_summed(x):
    for i in range(1, x.shape[0]):
        x[0] += x[i]


def test_other_elements_of_the_same_array(rig):
    rig.check(first_element_of_what_is_summed, lambda: (small(rig.size(300), "int16"),))


def strided(x, totals):
    for i in range(x.shape[0]):
        totals[1, -1] += x[i]
        totals[0, 0] = max(totals[0, 0], x[i])


def test_strided_arrays(rig):
    n = rig.size(300)
    rig.check(strided, lambda: (small(2 * n, "float32")[::2], np.zeros((4, 6), np.float32)[::2, 1::2]))


# --- sharing ------------------------------------------------------------------------------------------------------------


def two_names(x, a, b):
    for i in range(x.shape[0]):
        a[0] += x[i]
        b[0] += 1


def mixed_names(x, a, b):
    for i in range(x.shape[0]):
        a[0] += x[i]
        b[1] = max(b[1], x[i])


@pytest.mark.parametrize("function", [two_names, mixed_names])
def test_an_array_given_twice(rig, function):
    n = rig.size(500)

    def args():
        shared = np.zeros(2, np.int64)
        return small(n, "int64"), shared, shared

    rig.check(function, args)


def test_the_summed_array_is_the_target(rig):
    """``total`` is the same array as ``x``, whose other elements are read: only the race analysis can tell."""

    def kernel(x, total):
        for i in range(1, x.shape[0]):
            total[0] += x[i]

    n = rig.size(100)

    def args():
        x = small(n, "int64")
        return x, x

    rig.check(kernel, args)


def test_an_array_summed_into_itself_is_no_reduction(rig):
    x = np.arange(9.0)
    kernel = rig.kernel(lone_sum)
    with pytest.raises(qgraph.DataRaceError):
        rig.run(kernel, x, x)
    np.testing.assert_array_equal(x, np.arange(9.0))


# --- the same bits ------------------------------------------------------------------------------------------------------


def norms(x, y, total, dot, product):
    for i in range(x.shape[0]):
        total[0] += x[i]
        dot[0] += x[i] * y[i]
        product[0] *= 1 + y[i] * 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_floats_are_right_and_always_the_same(rig, dtype):
    n = rig.size(200_003)
    rng = np.random.default_rng(1)
    x, y = rng.random(n).astype(dtype), (rng.random(n) - 0.5).astype(dtype)
    results = []
    kernel = rig.kernel(norms)
    for threads in (1, numba.get_num_threads(), 1):
        numba.set_num_threads(threads)
        out = one(dtype), one(dtype), one(dtype, 1)
        rig.run(kernel, x, y, *out)
        results.append([value.tobytes() for value in out])
    assert results[0] == results[1] == results[2]
    wide = x.astype(np.float64)
    limit = 1e-5 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(out[0][0], wide.sum(), rtol=limit)
    np.testing.assert_allclose(out[1][0], wide @ y, rtol=limit, atol=limit * n)
    np.testing.assert_allclose(
        out[2][0], np.prod(1 + y.astype(np.float64) * 1e-3), rtol=n * (1e-7 if dtype == "float32" else 1e-15)
    )


def test_a_negative_zero_stays(rig):
    for n in (0, 5):
        total = one("float64", -0.0)
        rig.run(rig.kernel(lone_sum), np.full(n, -0.0), total)
        assert np.signbit(total[0])


def lone_sum(x, total):
    for i in range(x.shape[0]):
        total[0] += x[i]


# --- kernel scalars -----------------------------------------------------------------------------------------------------


def scalars(x, out, where):
    total = 0.0
    least = x[0]
    at = 0
    count = 0
    ordered = True
    for i in range(1, x.shape[0]):
        total += x[i]
        if x[i] < least:
            least, at = x[i], i
        if x[i] > 4:
            count += 1
        ordered = ordered and x[i - 1] <= x[i]
    out[0] = total
    out[1] = least
    out[2] = count
    where[0] = at
    where[1] = ordered


@pytest.mark.parametrize("dtype", ["float32", "int64", *thorough("float64", "int32", "uint8")])
def test_kernel_scalars(rig, dtype):
    n = rig.size(777)
    wide = dtype if dtype.startswith("float") else "float64"
    rig.check(scalars, lambda: (small(n, dtype), np.zeros(3, wide), np.zeros(2, np.int64)))


def converges(x, y, runs):
    it = 0
    delta = 1.0
    while delta > 0.25:
        delta = 0.0
        for i in range(x.shape[0]):
            y[i] = x[i] * 0.5
            delta = max(delta, abs(x[i] - y[i]))
        for i in range(x.shape[0]):
            x[i] = y[i]
        it += 1
    runs[0] = it


def test_a_loop_until_convergence(rig):
    n = rig.size(300)
    rig.check(converges, lambda: (small(n, "float64", low=1), np.zeros(n), np.zeros(1, np.int64)))


def all_done(x, out):
    done = False
    rounds = 0
    while not done:
        done = True
        for i in range(x.shape[0]):
            if x[i] > 0:
                x[i] -= 1
                done = False
        rounds += 1
    out[0] = rounds


def test_a_flag_that_iterations_clear(rig):
    n = rig.size(100)
    rig.check(all_done, lambda: (small(n, "int64"), np.zeros(1, np.int64)))


def grows(x, out):
    s = 3
    for i in range(s):
        s += x[i]
    for i in range(s):
        s *= 2
    out[0] = s


def test_a_scalar_that_is_bound_and_target(rig):
    rig.check(grows, lambda: (np.array([1, 0, 2]), np.zeros(1, np.int64)))


def to_the_last(x, y, n):
    for i in range(n):
        for _ in range(x.shape[0]):
            x[-1] += y[i]


def beyond(x, y, place):
    for i in range(y.shape[0]):
        if y[i] > 100:
            x[place] = max(x[place], y[i])


@pytest.mark.parametrize("dtype", ["float32", "uint8", *thorough("float64", "int32", "complex128"), FLOATS[-1]])
def test_an_element_that_no_iteration_reaches_need_not_exist(rig, dtype):
    # The simulator says so if something looks at it.
    rig.check(to_the_last, lambda: (small(0, dtype), small(5, dtype), 5), noop=True)
    rig.check(to_the_last, lambda: (small(3, dtype), small(5, dtype), 5))
    if np.dtype(dtype).kind != "c":
        rig.check(beyond, lambda: (small(4, dtype), small(5, dtype) % 3, 7), noop=True)


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64"])
def test_a_sum_of_nothing_keeps_the_sign_of_zero(rig, dtype):
    def total(x, y):
        for i in range(y.shape[0]):
            x[0] += y[i]

    kernel = rig.kernel(total)
    for addend, negative in ((0.0, False), (-0.0, True)):
        x, y = rig.device(np.array([-0.0]).astype(dtype)), rig.device(np.full(5, addend).astype(dtype))
        rig.run(kernel, x, y)
        assert np.signbit(qgraph.to_numpy(x).real) == negative


# --- what it becomes ----------------------------------------------------------------------------------------------------


def test_a_reduction_is_one_node_and_the_plan_says_so(rig):
    kernel = rig.kernel(several)
    args = small(9, "float64"), small(9, "float64"), np.zeros(1), np.zeros(1), np.zeros(1, np.int32), np.zeros(9)
    plan = kernel.plan(*map(rig.device, args))
    assert len(plan.nodes) == 1
    assert "reduction into `count[0]`, `total[0]`, `least[0]`" in str(plan)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("dtype", [*thorough("float16"), "complex64"])
def test_the_kernels_link_for_a_gpu(dtype):
    from qgraph.lowering.ptx.link import link

    x = np.ones(5, dtype)
    cases = [(sums, (x, *(x for _ in range(5)))), (products, (x, x, x))]
    if np.dtype(dtype).kind != "c":
        cases += [(extremes, (x, *(x for _ in range(7)))), (last_most, (x, x, np.ones(1, int), x))]
    for function, args in cases:
        copies = tuple(np.array(value) for value in args)
        assert link(list(qgraph.kernel(backend="cpu")(function).ptx(*copies).values()), (9, 0))


def norms_of_arrays(x, y, out):
    out[0] = np.linalg.norm(x)
    out[1] = 2 * np.linalg.norm(x - y[::-1])
    r = np.linalg.norm(y)
    while r > 0.1:
        for i in range(y.shape[0]):
            y[i] = y[i] * 0.5
        r = np.linalg.norm(y)
        out[2] += 1


@pytest.mark.parametrize("dtype", ["float32", *thorough("float64"), "complex128"])
def test_the_norm_of_a_vector(rig, dtype):
    def arguments():
        rng = np.random.default_rng(5)
        x, y = (rng.normal(size=700).astype(dtype) * (1 + 2j if dtype == "complex128" else 1) for _ in range(2))
        return x, y, np.zeros(3)

    rig.check(norms_of_arrays, arguments, tolerance=1e-5 if dtype == "float32" else 1e-12)


def norm_of_array(x, out):
    out[0] = np.linalg.norm(x)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool"])
def test_the_norm_of_integers_and_of_matrices(rig, dtype):
    rig.check(norm_of_array, lambda: (np.arange(100, 124).astype(dtype).reshape(4, 6), np.zeros(1)), tolerance=1e-14)


def test_the_norm_of_nothing(rig):
    rig.check(norm_of_array, lambda: (np.zeros(0), np.ones(1)))


def norms_of_orders(x, a, m, out, rows):
    out[0] = np.linalg.norm(x, 1) + np.linalg.norm(x, 2)
    out[1] = np.linalg.norm(x, np.inf) + np.linalg.norm(x[m], np.inf)
    out[2] = np.linalg.norm(x, -np.inf) + np.linalg.norm(x, ord=3)
    out[3] = np.linalg.norm(a, 1) + np.linalg.norm(a, np.inf) + np.linalg.norm(a, "fro")
    out[4] = np.linalg.norm(a, -1) + np.linalg.norm(a, -np.inf)
    for i in range(a.shape[0]):
        rows[i] = np.linalg.norm(a[i], np.inf) + np.linalg.norm(a[i], 1)
    return np.linalg.norm(a, 1, axis=0), np.linalg.norm(a, np.inf, 1, keepdims=True), np.linalg.norm(a, ord=1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "int8", *thorough("float64", "bool", "complex128")])
def test_norms_of_other_orders(rig, dtype):
    def arguments():
        rng = np.random.default_rng(6)
        x, a = ((rng.normal(size=shape) * 50).astype(dtype) for shape in (9, (4, 5)))
        return x, a, np.arange(9) % 3 == 1, np.zeros(5), np.zeros(4)

    rig.check(norms_of_orders, arguments, tolerance=1e-5 if dtype == "float32" else 1e-12)


def test_norms_of_matrices_along_named_axes_are_refused(rig):
    """NumPy takes their order for rows and columns."""

    def kernel(a, out):
        out[0] = np.linalg.norm(a, 1, axis=(1, 0))

    with pytest.raises(qgraph.KernelSyntaxError, match="has arguments that are not supported"):
        rig.kernel(kernel)(rig.device(np.ones((3, 3))), rig.device(np.ones(1)))


@pytest.mark.parametrize("order", [0, 2, "nuc"])
def test_norms_that_are_no_reductions_are_refused(rig, order):
    def of_matrix(a, out, order: qgraph.Static):
        out[0] = np.linalg.norm(a, order)

    shape = 3 if order == 0 else (3, 3)
    with pytest.raises(qgraph.KernelSyntaxError, match="has arguments that are not supported"):
        rig.kernel(of_matrix)(rig.device(np.ones(shape)), rig.device(np.ones(1)), order)


def close(x, y, z, rows, a, b):
    z[:] = np.isclose(x, y)
    w = np.isclose(x, y, 0.1, 1e-3)
    for i in range(x.shape[0]):
        z[i] = z[i] or (w[i] and np.isclose(x[i], 2.0, 1e-3))
    for i in range(a.shape[0]):
        rows[i] = np.allclose(a[i], b[i]) or np.allclose(a[i] + 1, 1.0, 1e-2)
    it = 0
    while not np.allclose(a, b, 1e-3):
        for i, j in qgraph.ndrange(*a.shape):
            a[i, j] = 0.5 * (a[i, j] + b[i, j])
        it += 1
    named = np.allclose(x[4:], y[4:], rtol=0.1), np.allclose(x[4:], b=y[4:], atol=0.5), np.allclose(x, y, 0.1, atol=1e-3)
    return it, np.allclose(x, y), np.allclose(x[4:], x[4:], 0.1, 0), named[0], named[1], named[2]


@pytest.mark.parametrize("dtype", ["float32", "int8", *thorough("float64", "uint8", "bool")])
def test_what_is_close(rig, dtype):
    def arguments():
        rng = np.random.default_rng(8)
        base = rng.normal(size=12) * 40
        x, y = base.astype(dtype), (base * (1 + rng.choice([0, 1e-6, 1e-4, 0.05], 12))).astype(dtype)
        if dtype.startswith("float"):
            x[:4], y[:4] = [np.nan, np.inf, -np.inf, np.inf], [np.nan, np.inf, np.inf, 1]
        a = np.arange(12.0).reshape(4, 3) * 1e-3
        return x, y, np.zeros(12, bool), np.zeros(4, bool), a, a + np.array([[0], [1], [0], [1]])

    rig.check(close, arguments)


def inner_products(x, y, a, z):
    z[0] = np.inner(x, y) + np.inner(x - 1, y[::-1])
    for i in range(a.shape[0]):
        z[i + 1] = np.inner(a[i], x)


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_inner_products(rig, dtype):
    x, y = (np.arange(5) * 1.5).astype(dtype), (np.arange(5)[::-1] * 2).astype(dtype)
    a = np.arange(15).reshape(3, 5).astype(dtype)
    rig.check(inner_products, lambda: (x.copy(), y.copy(), a.copy(), np.zeros(4, complex)))


integral = getattr(np, "trapezoid", None) or np.trapz


def integrals(x, y, a, z, rows):
    z[0] = integral(y)
    z[1] = integral(y, x) + integral(y * 2 + 1, x=x)
    z[2] = integral(y, dx=0.5) * 2
    for i in range(a.shape[0]):
        rows[i] = integral(a[i], x) + integral(a[i])


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_integrals(rig, dtype):
    def arguments():
        rng = np.random.default_rng(9)
        x, y, a = ((rng.random(shape) * 9).astype(dtype) for shape in (7, 7, (3, 7)))
        return x, y, a, np.zeros(3, complex), np.zeros(3, complex)

    rig.check(integrals, arguments, tolerance=1e-5)


def test_integrals_of_matrices_are_refused(rig):
    def kernel(a, z):
        z[0] = integral(a)

    with pytest.raises(qgraph.KernelSyntaxError, match="is no integral of a vector"):
        rig.kernel(kernel)(rig.device(np.ones((3, 3))), rig.device(np.ones(1)))


@pytest.mark.parametrize("function", [np.median, np.nanmax, np.trace, np.linalg.cond], ids=lambda f: f.__name__)
def test_functions_of_whole_arrays_that_kernels_lack_are_refused_wherever_they_stand(rig, function):
    """As a value of its own such a call was Numba's: on one backend alone, or an error of Numba's."""

    def returned(x):
        return function(x)

    def tested(x):
        while function(x):
            x[0, 0] += 1

    lacking = r"\(x\)` is (a function of arrays that loops do not|none of the functions of arrays that kernels) have"
    for kernel in (returned, tested):
        with pytest.raises(qgraph.KernelSyntaxError, match=lacking):
            rig.kernel(kernel)(rig.device(np.ones((3, 3), int)))


def test_a_refusal_of_a_reduction_shows_the_name_that_the_user_wrote(rig):
    def kernel(x, s):
        t = s
        for i in range(x.shape[0]):
            t += x[i]
        return t

    with pytest.raises(qgraph.KernelTypeError, match=r"`t` is a uint64 and `x\[i\]` an int64"):
        rig.kernel(kernel)(rig.device(np.arange(4)), np.uint64(5))


def test_looking_for_a_number_in_a_whole_array_is_refused(rig):
    def kernel(x):
        return np.isin(x, 1)

    with pytest.raises(qgraph.KernelSyntaxError, match="is a function of arrays that loops do not have"):
        rig.kernel(kernel)(rig.device(np.ones(3)))


def until_nothing_is_left(x, m, n):
    k, turns = n, 0
    while np.max(x[:k]) > 0:
        k -= 1
        turns += 1
        if k == 0:
            break
    while x[m].min() > 0:
        turns += 10
        for i in range(m.shape[0]):
            m[i] = False
        if turns > n:
            return turns
    return turns + 100


def test_a_test_that_a_break_leaves_out_may_be_of_nothing(rig):
    for n in (1, 3):
        rig.check(until_nothing_is_left, lambda n=n: (np.ones(4), np.arange(4) > 0, n))


def traces(a):
    s = np.trace(a) + a.trace(1)
    return s, np.trace(a.T * 2, offset=-1)


@pytest.mark.parametrize("dtype", ["int64", "int8", "float32", "float64", "complex128", "bool"])
def test_traces_of_matrices(check, dtype):
    check(traces, lambda: ((np.arange(6).reshape(2, 3) * 20).astype(dtype),))
