"""Loops inside that only add up: where they are long, neighbouring threads share one, and the answer is the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qgraph

POISON = 77


def matrix(lengths, columns=50, dtype="float32"):
    """A sparse matrix whose rows have so many entries: values, columns, starts; and a vector, and room for the product."""
    rng = np.random.default_rng(3)
    starts = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    kind = np.dtype(dtype).kind
    values, x = (rng.integers(-99 if kind == "i" else 1, 99, n).astype(dtype) for n in (int(starts[-1]), columns))
    if kind in "fc":
        values, x = values / np.array(99, dtype), x / np.array(99, dtype)
    places = rng.integers(0, columns, int(starts[-1])).astype(np.int32)
    return np.full(len(lengths), POISON, dtype), values, places, starts, x


LENGTHS = {
    "one row": [40],
    "one entry": [13, 1, 40],
    "empty rows": [0, 0, 60, 0, 45, 0, 0, 31, 0, 0, 0, 90, 0],
    "hundreds": [300, 1, 0, 2, 17, 16, 15, 33, 32, 31, 8],
    "all alike": [32] * 19,
    "few lanes": [13] * 9,
    "two lanes": [12] * 17,
    "short rows": [5, 4, 0, 3, 5, 5, 1],
    "no entries": [0] * 9,
    "no rows": [],
}


def csr(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s


def csr_of_integers(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = x[0]
        for k in range(starts[i], starts[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s


def backwards(y, values, columns, starts, x):
    n = y.shape[0]
    for i in range(n - 1, -1, -1):
        first = starts[i]
        s = x[i % x.shape[0]]
        for k in range(first, starts[i + 1]):
            value = values[k]
            s = s - value * x[columns[k]]
        y[i] = s / 2
        y[i] += first


def several_sums(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = 0.0
        p = 1.0
        least = 5.0
        most = -5.0
        for k in range(starts[i], starts[i + 1]):
            v = values[k] * x[columns[k]]
            s += v
            p *= 1 - v / 4
            least = min(least, v)
            if v > most:
                most = v
        if starts[i] == starts[i + 1]:
            continue
        y[i] = s + 10 * p + 100 * least + 1000 * most


def guarded(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            if columns[k] % 3 == 1:
                s += values[k] * x[columns[k]]
            else:
                c = columns[k]
                s -= x[c]
        y[i] = s


def from_the_end(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(starts[i] - values.shape[0], starts[i + 1] - values.shape[0]):
            s += values[k] * x[columns[k]]
        y[i] = s


def across_zero(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(starts[i] - starts[y.shape[0]] // 2, starts[i + 1] - starts[y.shape[0]] // 2):
            s += values[k] * x[columns[k]]
        y[i] = s


@qgraph.func
def weighted(a, b):
    return a * b + a


def through_a_function(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            s += weighted(values[k], x[columns[k]])
        y[i] = math.sqrt(abs(s))


def adds_to_what_is_there(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        s = y[i]
        for k in range(starts[i], starts[i + 1]):
            s -= values[k] * x[columns[k]]
        y[i] = s


def some_way_back(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        first = starts[i]
        s = 0.0
        for k in range(first, starts[i + 1]):
            back = min(columns[k], k - first)
            s += values[k - back] * x[back]
        y[i] = s


FLOATS = [
    csr,
    some_way_back,
    backwards,
    several_sums,
    guarded,
    from_the_end,
    across_zero,
    through_a_function,
    adds_to_what_is_there,
]


def shares(kernel, *args):
    plan = str(kernel.plan(*args))
    return "threads share it where it is long" in plan or "threads share them where they are long" in plan


def long(lengths):
    return any(lengths) and sum(lengths) // len(lengths) >= 12


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("function", FLOATS)
def test_sums_of_floats(check, function, lengths):
    same = not lengths or (not any(lengths) and function in (several_sums, adds_to_what_is_there))
    kernel = check(function, lambda: matrix(lengths), tolerance=1e-4, noop=same)
    assert shares(kernel, *matrix(lengths))


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint8", "int16", "uint64"])
def test_sums_of_integers_are_the_same_to_the_bit(check, dtype, lengths):
    kernel = check(csr_of_integers, lambda: matrix(lengths, dtype=dtype), noop=not lengths)
    assert shares(kernel, *matrix(lengths, dtype=dtype))


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
def test_other_floats(check, dtype):
    check(csr_of_integers, lambda: matrix(LENGTHS["hundreds"], dtype=dtype), tolerance=1e-4 if dtype == "complex64" else 1e-11)


def pairs(force, x):
    """Each row meets all others, as in the n-body problem: what one reads, all read."""
    for i in range(x.shape[0]):
        across = 0 * x[0, 0]
        down = 0 * x[0, 0]
        for j in range(x.shape[0]):
            a = x[j, 0] - x[i, 0]
            b = x[j, 1] - x[i, 1]
            across += a * (a * a + b * b + 1)
            down += b * (a * a + b * b + 1)
        force[i, 0] = across
        force[i, 1] = down


@pytest.mark.parametrize("n", [0, 1, 3, 12, 13, 40, 77])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_few_iterations_that_all_read_the_same(check, n, dtype):
    def made():
        x = np.random.default_rng(n).integers(-50, 50, (n, 2)).astype(dtype)
        return np.full((n, 2), POISON, dtype), x if dtype == "int64" else x / 7

    kernel = check(pairs, made, tolerance=0 if dtype == "int64" else 1e-11, noop=n == 0)
    assert "the iterations around it are too few" in str(kernel.plan(*made()))


@pytest.mark.needs("float16", "float16_math")
def test_halves(check):
    check(csr_of_integers, lambda: matrix([40, 3, 0, 12], dtype="float16"), tolerance=0.05)


def bits(y, values, columns, starts, x):
    for i in range(y.shape[0]):
        a = values[0]
        b = x[1]
        c = x[2]
        p = values[1]
        for k in range(starts[i], starts[i + 1]):
            a &= values[k]
            b |= values[k]
            c ^= values[k] * x[columns[k]]
            p *= values[k]
        y[i] = a + 3 * b + 5 * c + 7 * p


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint16"])
def test_bits_and_products(check, dtype):
    check(bits, lambda: matrix(LENGTHS["hundreds"], dtype=dtype))


def with_edges(y, a):
    n = a.shape[1]
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(n):
            s += a[i, k] - (a[i, k + 1] if k + 1 < n else 0.0)
            if k + 2 < n:
                s += 3 * a[i, k + 2]
            if k + 3 < n and a[i, k + 3] > 0.5:
                s += 5.0
            if 0 < n - k - 4 < a[i, k + 4]:
                s += 7.0
        y[i] = s


@pytest.mark.parametrize("columns", [13, 32, 67])
def test_nothing_is_read_that_is_not_there(check, columns):
    a = 99 * np.random.default_rng(4).random((5, columns))
    kernel = check(with_edges, lambda: (np.full(5, 7.0), a.copy()))
    assert shares(kernel, np.full(5, 7.0), a)


def counting(y, counts, a):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k]
        qgraph.atomic_add(counts, (0, i % 3), 1)
        y[i] = s


def test_what_follows_is_done_once(check):
    a = np.random.default_rng(4).random((30, 50))
    kernel = check(counting, lambda: (np.full(30, 7.0), np.zeros((1, 3), np.int64), a.copy()))
    assert shares(kernel, np.full(30, 7.0), np.zeros((1, 3), np.int64), a)


def negative_zeros(y, x):
    for i in range(x.shape[0]):
        s = -0.0
        for k in range(x.shape[1]):
            s += x[i, k]
        y[i] = s


def test_a_sum_of_negative_zeros_is_one(rig):
    x, y = np.full((5, 40), -0.0, np.float32), np.ones(5, np.float32)
    rig.run(rig.kernel(negative_zeros), y, x)
    assert np.signbit(y).all()


def nan_spreads(y, x):
    for i in range(x.shape[0]):
        least = x[0, 0]
        most = x[0, 0]
        for k in range(x.shape[1]):
            least = np.minimum(least, x[i, k])
            most = np.maximum(x[i, k], most)
        y[i] = least + most


def test_numpys_nan_wins_wherever_it_is(rig):
    x, y = np.random.default_rng(1).random((40, 40)), np.zeros(40)
    x[np.arange(1, 40), np.arange(1, 40)] = np.nan
    rig.run(rig.kernel(nan_spreads), y, x)
    assert np.isnan(y).tolist() == [False] + [True] * 39


# --- dense ------------------------------------------------------------------------------------------------------------


def dense(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * x[k]
        y[i] = s


def part_of_a_row(y, a, x):
    for i in range(1, a.shape[0], 2):
        s = 0.0
        for k in range(2, a.shape[1] - 1):
            s += a[i, k - 1] * x[k + 1] - a[i, k]
        y[i] = s


def rows_of(rows, columns, order="C"):
    rng = np.random.default_rng(2)
    a = np.asarray(rng.random((rows, columns)), order=order)
    return np.full(rows, float(POISON)), a, rng.random(columns)


@pytest.mark.parametrize("shape", [(1, 300), (9, 64), (40, 13), (7, 8), (0, 30), (5, 0), (33, 100)])
@pytest.mark.parametrize("function", [dense, part_of_a_row])
def test_dense_products(check, function, shape):
    nothing = shape[0] == 0 or (function is part_of_a_row and shape[0] == 1)
    kernel = check(function, lambda: rows_of(*shape), noop=nothing)
    assert shares(kernel, *rows_of(*shape))


def columns(y, a, x):
    for j in range(a.shape[1]):
        s, most = 0.0, 0.0
        for i in range(a.shape[0]):
            s += a[i, j] * x[j]
            most = max(most, a[i, j])
        y[j] = s + most


def window(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[0]):
            s += x[i + k] * a[0, k]
        y[i] = s


@pytest.mark.parametrize("shape", [(300, 1), (64, 9), (13, 40), (8, 7), (30, 0), (0, 5), (100, 33)])
def test_columns_of_which_neighbours_read_neighbouring_elements(check, shape):
    """Threads share them where they are too few for the device: each reads a part of the same columns as before."""

    def of_columns():
        rng = np.random.default_rng(3)
        return np.full(shape[1], float(POISON)), rng.random(shape), rng.random(shape[1])

    kernel = check(columns, of_columns, noop=shape[1] == 0)
    assert shares(kernel, *of_columns())
    kernel = check(dense, lambda: rows_of(shape[1], shape[0], "F"), noop=shape[1] == 0)
    assert shares(kernel, *rows_of(shape[1], shape[0], "F"))


def planes(y, a, x):
    for i, j in qgraph.ndrange(a.shape[0], a.shape[1]):
        s, most = 0.0, -1.0
        for k in range(a.shape[2]):
            s += a[i, j, k] * x[k]
            most = max(most, a[i, j, k])
        y[i, j] = s - most


def axes_of_arrays(y, a, x):
    powers = np.exp(a - np.max(a, axis=-1, keepdims=True))
    y[:] = np.sum(powers / np.sum(powers, axis=-1, keepdims=True) * x, axis=2)


@pytest.mark.parametrize("shape", [(3, 5, 40), (2, 33, 13), (1, 1, 300), (4, 3, 7), (0, 3, 30), (3, 0, 30)])
@pytest.mark.parametrize("function", [planes, axes_of_arrays])
def test_loops_of_several_axes(check, function, shape):
    def of_planes():
        rng = np.random.default_rng(4)
        return np.full(shape[:2], float(POISON)), rng.random(shape), rng.random(shape[2])

    kernel = check(function, of_planes, noop=0 in shape, tolerance=1e-12)
    assert shares(kernel, *of_planes())


@pytest.mark.needs("compiler")
def test_code_of_several_axes_is_that_of_lanes():
    args = (np.zeros((3, 5)), np.zeros((3, 5, 40)), np.zeros(40))
    assert "shfl.sync" in str(qgraph.kernel(planes, backend="cuda").ptx(*args, cc=(9, 0)))


def distances(y, a, x):
    for i, j in qgraph.ndrange(a.shape[0], a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            s += (a[i, k] - a[j, k]) ** 2
        y[i] = min(y[i], s * x[0])


def test_what_several_iterations_read_they_load_together(check):
    kernel = check(distances, lambda: rows_of(9, 40))
    assert not shares(kernel, *rows_of(9, 40))


def test_windows_that_slide(check):
    kernel = check(window, lambda: rows_of(19, 40), tolerance=1e-9)
    assert shares(kernel, *rows_of(19, 40))


@pytest.mark.parametrize("options", [{"fuse": True}, {"block_size": 8}, {"block_size": 96}, {"fastmath": True}], ids=str)
def test_options(check, options):
    check(dense, lambda: rows_of(30, 70), tolerance=1e-9, **options)


def power_method(y, a, x, steps):
    for _ in qgraph.serial(range(steps)):
        for i in range(a.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * x[k]
            y[i] = s
        total = 0.0
        for i in range(x.shape[0]):
            total += y[i] * y[i]
        for i in range(x.shape[0]):
            x[i] = y[i] / math.sqrt(total)


def changing_places(y, a, x, steps):
    for _ in qgraph.serial(range(steps)):
        for i in range(a.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * x[k]
            y[i] = s / a.shape[1]
        x, y = y, x


def until_small(y, a, x, steps):
    total = 1.0
    while total > 1e-3:
        for i in range(a.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * x[k]
            y[i] = s / a.shape[1]
        total = 0.0
        for i in range(x.shape[0]):
            x[i] = y[i]
            total = max(total, abs(y[i]))


@pytest.mark.parametrize("function", [power_method, changing_places, until_small])
@pytest.mark.parametrize("n", [1, 24, 41])
@pytest.mark.parametrize("options", [{}, {"fuse": True}], ids=str)
def test_in_device_loops(check, function, n, options):
    kernel = check(function, lambda: (*rows_of(n, n), 5), tolerance=1e-9, **options)
    if not options:
        assert shares(kernel, *rows_of(n, n), 5)


def rows_from_a_turn_on(y, a, x, steps):
    for t in qgraph.serial(range(steps)):
        for i in range(t, a.shape[0]):
            s = 1.0
            for k in range(a.shape[1]):
                s += a[i, k] * x[k]
            y[i] += s / a.shape[1]


def columns_up_to_a_turn(y, a, x, steps):
    for t in qgraph.serial(range(steps)):
        for j in range(min(t * t + 1, a.shape[1])):
            most = x[t]
            for k in range(a.shape[0]):
                most = max(most, a[k, j] * x[k])
            if most > 9:
                continue
            y[j] = most - t


def products_with_a_column_of_the_turn(y, a, x, steps):
    for t in qgraph.serial(range(steps)):
        for j in range(t, a.shape[1]):
            s = 0.0
            for k in range(a.shape[0]):
                s += a[k, t] * a[k, j]
            y[j] += s * x[t]


def sparse_rows_from_a_turn_on(y, values, columns, starts, x):
    for t in qgraph.serial(range(3)):
        for i in range(t, y.shape[0]):
            s = 0.0
            for k in range(starts[i], starts[i + 1]):
                s += values[k] * x[columns[k]]
            y[i] += s


@pytest.mark.parametrize("lengths", ["hundreds", "no rows"])
def test_sparse_rows_of_which_the_device_counts_the_iterations(check, lengths):
    check(sparse_rows_from_a_turn_on, lambda: matrix(LENGTHS[lengths]), tolerance=1e-4, noop=lengths == "no rows")


DEVICE_COUNTS = [rows_from_a_turn_on, columns_up_to_a_turn, products_with_a_column_of_the_turn]


@pytest.mark.parametrize("function", DEVICE_COUNTS)
@pytest.mark.parametrize("n", [1, 5, 24, 41])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_loops_of_which_the_device_counts_the_iterations(check, function, n, steps):
    kernel = check(function, lambda: (*rows_of(n, n), min(n, steps)), tolerance=1e-9, noop=steps == 0)
    assert shares(kernel, *rows_of(n, n), 5)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", DEVICE_COUNTS)
def test_code_of_loops_of_which_the_device_counts_the_iterations(function):
    assert "shfl.sync" in str(qgraph.kernel(function, backend="cuda").ptx(*rows_of(5, 5), 5, cc=(9, 0)))


def test_lengths_may_change_from_call_to_call(rig):
    kernel = rig.kernel(csr)
    for lengths in (*LENGTHS.values(), *reversed(LENGTHS.values())):
        args, expected = matrix(lengths), matrix(lengths)
        rig.run(kernel, *args)
        kernel.reference(*expected)
        np.testing.assert_allclose(args[0], expected[0], rtol=1e-4, atol=1e-5)
    assert kernel.stats.compilations == 1


# --- loops that stay as they are ---------------------------------------------------------------------------------------


def with_break(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            if s > 5:
                break
            s += a[i, k] * x[k]
        y[i] = s


def with_continue(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            if a[i, k] > 0.5:
                continue
            s += a[i, k] * x[k]
        y[i] = s


def with_store(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * x[k]
            a[i, k] = 0.0
        y[i] = s


def with_atomic(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * x[k]
            qgraph.atomic_add(y, k % 2, 1.0)
        qgraph.atomic_add(y, 2, s)


def counted_in_bins(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * x[k]
        y[int(s) % 5] += 1.0


def last_value_read(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        v = 0.0
        for k in range(a.shape[1]):
            v = a[i, k] * x[k]
            s += v
        y[i] = s + 100 * v


def last_place_read(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        k = 0
        for k in range(a.shape[1]):
            s += a[i, k] * x[k]
        y[i] = s + k


def horner(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            s = s * 0.5 + a[i, k]
        y[i] = s


def prefix(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        t = 0.0
        for k in range(a.shape[1]):
            s += a[i, k]
            t += s
        y[i] = t


def from_the_one_before(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        v = 1.0
        for k in range(a.shape[1]):
            s += a[i, k] * v
            v = x[k]
        y[i] = s


def sometimes_kept(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        v = 1.0
        for k in range(a.shape[1]):
            if a[i, k] > 0.5:
                v = x[k]
            s += a[i, k] * v
        y[i] = s


def two_operations(y, a, x):
    for i in range(a.shape[0]):
        s = 1.0
        for k in range(a.shape[1]):
            s += a[i, k]
            s *= x[k]
        y[i] = s


def taken_from(y, a, x):
    for i in range(a.shape[0]):
        s = 1.0
        for k in range(a.shape[1]):
            s = a[i, k] - s
        y[i] = s


def last_stored(y, a, x):
    for i in range(a.shape[0]):
        s = 1.0
        for k in range(a.shape[1]):
            if a[i, k] > 0.5:
                s = x[k]
        y[i] = s


def where_the_least_is(y, a, x):
    for i in range(a.shape[0]):
        least = 2.0
        where = -1
        for k in range(a.shape[1]):
            if a[i, k] < least:
                least = a[i, k]
                where = k
        y[i] = where


def with_step(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(0, a.shape[1], 2):
            s += a[i, k] * x[k]
        y[i] = s


def with_else(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * x[k]
        else:
            s += 1
        y[i] = s


def two_loops(y, a, x):
    for i in range(a.shape[0]):
        most = 0.0
        for k in range(a.shape[1]):
            most = max(most, a[i, k])
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] / most
        y[i] = s


def skips_before(y, a, x):
    for i in range(a.shape[0]):
        if a[i, 0] > 0.5:
            continue
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * x[k]
        y[i] = s


def stores_before(y, a, x):
    for i in range(a.shape[0]):
        y[i] += 1.0
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * x[k]
        y[i] += s


def starts_from_what_is_written(y, a, x):
    for i in range(a.shape[0]):
        first = int(y[i]) % 2
        s = 0.0
        for k in range(first, a.shape[1]):
            s += a[i, k] * x[k]
        y[i] = s


PLAIN = [
    *(with_break, with_continue, with_store, with_atomic, counted_in_bins, last_value_read, last_place_read, horner, prefix),
    *(from_the_one_before, sometimes_kept, two_operations, taken_from, last_stored, where_the_least_is, with_step),
    *(with_else, skips_before, starts_from_what_is_written),
]


@pytest.mark.parametrize("function", PLAIN)
def test_what_is_no_sum_stays_as_it_is(check, function):
    kernel = check(function, lambda: rows_of(19, 40), tolerance=1e-9)
    assert not shares(kernel, *rows_of(19, 40))


@pytest.mark.parametrize("function", [two_loops, stores_before])
def test_more_than_one_sum(check, function):
    kernel = check(function, lambda: rows_of(19, 40), tolerance=1e-9)
    assert shares(kernel, *rows_of(19, 40))


def least_kept(y, x):
    for i in range(x.shape[0]):
        a = b = c = 3.0
        for k in range(x.shape[1]):
            a = min(a, x[i, k])
            b = x[i, k] if x[i, k] < b else b
            if c > x[i, k]:
                c = x[i, k]
        y[i] = a + 10.0 * b + 100.0 * c


def least_forgotten(y, x):
    for i in range(x.shape[0]):
        a = b = 3.0
        for k in range(x.shape[1]):
            a = min(x[i, k], a)
            b = b if b < x[i, k] else x[i, k]
        y[i] = a + 10.0 * b


@pytest.mark.parametrize(("function", "shared"), [(least_kept, True), (least_forgotten, False)])
def test_pythons_minimum_with_a_nan(function, shared, rig):
    """A nan that comes first is returned, and then the next value, whatever was less before."""
    x = np.random.default_rng(7).normal(size=(12, 41))
    x[np.arange(12), 3 * np.arange(12)] = np.nan
    y = np.zeros(12)
    kernel = rig.kernel(function)
    assert ("threads share it" in str(kernel.plan(y, x))) is shared
    rig.run(kernel, y, x)
    expected = np.zeros(12)
    kernel.reference(expected, x)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


# --- what an inner iteration makes, and what it starts from ------------------------------------------------------------


def pairs_picked(y, a, x):
    for i in range(a.shape[0]):
        s, t = 0.0, (0.0, 0.0)
        for j in range(a.shape[1]):
            t = (a[i, j], x[j])
            s += t[j % 2]
        y[i] = s


def pairs_made(y, a, x):
    for i in range(a.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            w = a[i, j] * 2
            s += (w, x[j])[j % 2]
        y[i] = s


def known_pair(y, a, x):
    for i in range(a.shape[0]):
        s, t = 0.0, (x[0], x[1])
        for j in range(a.shape[1]):
            s += t[j % 2] * a[i, j]
        y[i] = s


@pytest.mark.parametrize("function", [pairs_picked, pairs_made, known_pair])
def test_items_of_tuples(function, rig):
    rng = np.random.default_rng(11)
    y, a, x = np.zeros(7), rng.normal(size=(7, 45)), rng.normal(size=45)
    kernel = rig.kernel(function)
    rig.run(kernel, y, a, x)
    expected = np.zeros(7)
    kernel.reference(expected, a, x)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def from_zero(y, a):
    for i in range(a.shape[0]):
        s = 0
        for j in range(a.shape[1]):
            s += a[i, j]
        y[i] = s


def from_one(y, a):
    for i in range(a.shape[0]):
        s = 1
        for j in range(a.shape[1]):
            s *= a[i, j]
        y[i] = s


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("columns", [5, 40])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint32"])
@pytest.mark.parametrize("function", [from_zero, from_one])
def test_a_literal_takes_the_type_of_what_is_combined_with_it(function, dtype, columns, rig):
    """So it wraps as numbers of the array do, whether threads share the loop or not."""
    largest = np.iinfo(dtype).max
    a, y = np.full((9, columns), largest - largest // 5, dtype), np.zeros(9)
    kernel = rig.kernel(function)
    rig.run(kernel, y, a)
    expected = np.zeros(9)
    kernel.reference(expected, a)
    np.testing.assert_array_equal(y, expected)


def bounded(y, a, first, last):
    for i in range(y.shape[0]):
        s = 0.0
        for j in range(first, last):
            s += a[i, j + 100]
        y[i] = s


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("first", "last"),
    [(-3, np.uint8(20)), (np.uint8(5), np.uint8(3)), (np.int8(-100), np.int8(100)), (0, np.uint64(20)), (np.uint64(2), 30)],
)
def test_bounds_of_any_integer_type(first, last, rig):
    a, y = np.random.default_rng(12).normal(size=(6, 220)), np.zeros(6)
    kernel = rig.kernel(bounded)
    rig.run(kernel, y, a, first, last)
    np.testing.assert_allclose(y, a[:, int(first) + 100 : max(int(last), int(first)) + 100].sum(axis=1), rtol=1e-12, atol=1e-12)
