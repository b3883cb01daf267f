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


FLOATS = [csr, backwards, several_sums, guarded, from_the_end, across_zero, through_a_function, adds_to_what_is_there]


def shares(kernel, *args):
    return "threads share it where it is long" in str(kernel.plan(*args))


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
