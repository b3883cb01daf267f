"""Colliding updates never lose one: ``a[...] += e`` and its kin, and the atomic words."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

POISON = 77
TYPES = ["int32", "int64", "uint32", "uint64", "float32", "float64"]
INTEGERS = TYPES[:4]


def histogram(keys, bins):
    for i in range(keys.shape[0]):
        bins[keys[i]] += 1


@pytest.mark.parametrize("dtype", TYPES)
def test_a_histogram(rig, dtype):
    n = rig.size(20_000)
    keys = np.random.default_rng(0).integers(0, 5, n)
    rig.check(histogram, lambda: (keys, np.zeros(5, dtype)))


def arithmetic(keys, values, added, subtracted, least, most, total, grid):
    for i in range(keys.shape[0]):
        k = keys[i]
        added[k] += values[i]
        subtracted[k, 1] -= values[i]
        least[k] = min(least[k], values[i])
        most[k] = max(values[i], most[k])
        total[0] += values[i]
        grid[k, i % 3] += 2


@pytest.mark.parametrize("dtype", TYPES)
def test_add_subtract_min_max(rig, dtype):
    n = rig.size(5_000)

    def args():
        rng = np.random.default_rng(1)
        # Small whole numbers: their sums are exact in any order.
        keys, values = rng.integers(0, 4, n), rng.integers(0, 50, n).astype(dtype)
        high = np.full(4, 60_000, dtype)
        return keys, values, np.zeros(4, dtype), np.full((4, 2), 1_000_000, dtype), high, np.zeros(4, dtype), *totals(dtype)

    def totals(dtype):
        return np.zeros(1, dtype), np.zeros((4, 3), dtype)

    rig.check(arithmetic, args)


@qgraph.func
def place_of(keys, i, count):
    at = keys[i] % count
    return max(at, 1)


@qgraph.func
def counted(keys, seen, i):
    seen[i] += 1
    return keys[i]


def places_by_a_function(keys, values, most):
    for i in range(keys.shape[0]):
        most[place_of(keys, i, 4)] = max(most[place_of(keys, i, 4)], values[i])


def places_that_are_counted(keys, values, most, seen):
    for i in range(keys.shape[0]):
        most[counted(keys, seen, i)] = max(most[counted(keys, seen, i)], values[i])


def test_a_place_that_a_function_computes(rig):
    n = rig.size(5_000)
    keys, values = np.random.default_rng(2).integers(0, 9, (2, n))
    rig.check(places_by_a_function, lambda: (keys, values, np.zeros(4, np.int64)))
    kernel = qgraph.kernel(backend=rig.backend)(places_that_are_counted)
    verdict = str(kernel.plan(np.arange(4), np.arange(4), np.zeros(4, np.int64), np.zeros(4, np.int64)))
    assert "assumed independent" in verdict


def bits(keys, values, ored, anded, xored, strided):
    for i in range(keys.shape[0]):
        k = keys[i]
        ored[k] |= values[i]
        anded[k] &= values[i] | 5
        xored[k] ^= values[i]
        strided[k] += values[i]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_or_and_xor_and_a_strided_array(rig, dtype):
    n = rig.size(3_000)

    def args():
        rng = np.random.default_rng(2)
        keys, values = rng.integers(0, 3, n), rng.integers(0, 1 << 20, n).astype(dtype)
        wide = np.zeros(12, dtype)
        return keys, values, np.zeros(3, dtype), np.full(3, 0xFFFFF, dtype), np.zeros(3, dtype), wide[1::4]

    rig.check(bits, args)


def zero_dimensions(x, total, least):
    for i in range(x.shape[0]):
        total[()] += x[i]
        least[()] = min(least[()], x[i])


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_zero_dimensional_targets(rig, dtype):
    n = rig.size(2_000)
    rig.check(zero_dimensions, lambda: (np.arange(n, dtype=dtype) % 100, np.array(0, dtype), np.array(50, dtype)))


def scatter_rows(index, x, y):
    for i in range(index.shape[0]):
        for j in range(y.shape[1]):
            y[index[i], j] += x[i, j]
        y[-1, 0] -= 1.0


def test_an_update_inside_an_inner_loop_and_from_the_end(rig):
    n = rig.size(1_000)

    def args():
        rng = np.random.default_rng(3)
        return rng.integers(0, 4, n), rng.integers(0, 9, (n, 3)).astype(np.float64), np.zeros((5, 3))

    rig.check(scatter_rows, args)


def words(keys, values, a, b, c, d, e, f, g):
    for i in range(keys.shape[0]):
        k = keys[i]
        qgraph.atomic_add(a, k, values[i])
        qgraph.atomic_sub(b, (k, 0), values[i])
        qgraph.atomic_min(c, k, values[i])
        qgraph.atomic_max(d, (k,), values[i])
        qgraph.atomic_and_(e, k, values[i] | 9)
        qgraph.atomic_or_(f, k, values[i])
        qgraph.atomic_xor(g, k, values[i])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_word_on_integers(rig, dtype):
    n = rig.size(2_000)

    def args():
        rng = np.random.default_rng(4)
        keys, values = rng.integers(0, 3, n), rng.integers(0, 1 << 16, n).astype(dtype)
        full = np.full(3, 1_000_000_000, dtype)
        return (
            keys,
            values,
            np.zeros(3, dtype),
            np.full((3, 2), 1_000_000_000, dtype),
            full,
            *(np.zeros(3, dtype) for _ in range(4)),
        )

    def fresh():
        made = list(args())
        made[6] = np.full(3, 0xFFFF, dtype)
        return tuple(made)

    rig.check(words, fresh)


def float_words(keys, values, a, b, c, d):
    for i in range(keys.shape[0]):
        k = keys[i]
        qgraph.atomic_add(a, k, values[i])
        qgraph.atomic_sub(b, k, values[i])
        qgraph.atomic_min(c, k, values[i])
        qgraph.atomic_max(d, k, values[i])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_words_on_floats(rig, dtype):
    n = rig.size(2_000)

    def args():
        rng = np.random.default_rng(5)
        keys, values = rng.integers(0, 3, n), (rng.integers(-50, 50, n) * 0.5).astype(dtype)
        return keys, values, *(np.zeros(3, dtype) for _ in range(4))

    rig.check(float_words, args)


def tickets(order, seen, counter, claimed, last, slots):
    for i in range(order.shape[0]):
        ticket = qgraph.atomic_add(counter, (), 1)
        order[ticket] = i
        seen[i] = ticket
        if qgraph.atomic_cas(claimed, 0, -1, i) == -1:
            qgraph.atomic_add(slots, 0, 1)
        before = qgraph.atomic_exch(last, 0, i)
        qgraph.atomic_add(slots, 1, before)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_old_values_come_back(rig, dtype):
    n = rig.size(3_000)
    order, seen = np.full(n, -1, dtype), np.full(n, -1, dtype)
    counter, claimed, last = np.array(0, dtype), np.array([-1], dtype), np.array([0], dtype)
    slots = np.zeros(2, np.int64)
    rig.run(rig.kernel(tickets), order, seen, counter, claimed, last, slots)
    assert counter == n
    # Each iteration got its own ticket, and wrote itself where the ticket says.
    assert sorted(order) == list(range(n))
    assert (order[seen] == np.arange(n)).all()
    # Exactly one iteration found -1, and it left its number.
    assert 0 <= claimed[0] < n
    assert slots[0] == 1
    # Every number went in once; all but the last one came out again.
    assert slots[1] + last[0] == n * (n - 1) // 2


def owned(x, y, k):
    for i in range(x.shape[0]):
        x[i] += 3
        x[i] -= 1
        y[i] *= 2
        k[i] |= 1
        k[i] ^= 5
        k[i] &= 6
    for i in range(x.shape[0]):
        x[i] //= 2
        y[i] **= 2
        k[i] <<= 1
        k[i] = max(k[i], 3)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_owned_elements_of_types_without_atomics(check, dtype):
    check(owned, lambda: (np.arange(9, dtype=dtype), np.arange(9, dtype=dtype), np.arange(9, dtype=dtype)))


def owned_anything(x, y):
    for i in range(x.shape[0]):
        x[i] += y[i]
        x[i] -= 3


@pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.needs("float16")), "complex64", "complex128"])
def test_owned_elements_of_float16_and_complex(check, dtype):
    check(owned_anything, lambda: (np.arange(9).astype(dtype), np.ones(9, dtype)))


def float_sum(x, total):
    for i in range(x.shape[0]):
        total[0] += x[i]


def test_a_sum_of_floats_is_right_to_rounding(rig):
    n = rig.size(100_000)
    x, total = np.random.default_rng(6).random(n), np.zeros(1)
    rig.run(rig.kernel(float_sum), x, total)
    np.testing.assert_allclose(total[0], x.sum(), rtol=1e-11)


def mixed_widths(x, wide, narrow):
    for i in range(x.shape[0]):
        wide[0] += x[i]
        narrow[0] += 1.5
        narrow[1] += x[i]


def test_a_value_is_converted_to_the_arrays_type(rig):
    n = rig.size(500)
    rig.check(mixed_widths, lambda: (np.ones(n, np.int8), np.zeros(1, np.int64), np.zeros(2, np.float32)))


def two_targets(i0, a, b):
    for i in range(i0.shape[0]):
        a[i0[i]] += 1
        b[i0[i]] += 1


def test_one_array_given_twice_keeps_every_update(rig):
    n = rig.size(2_000)

    def args():
        shared = np.zeros(3, np.int64)
        return np.arange(n) % 3, shared, shared

    rig.check(two_targets, args)


def counted_from_below_zero(x, count, out):
    for i in range(x.shape[0]):
        if x[i] > 0:
            k = qgraph.atomic_add(count, 0, 1)
            out[k] = x[i]


def test_a_counter_below_zero_counts_from_the_end(check):
    check(counted_from_below_zero, lambda: (np.array([0, 3, 0]), np.array([-2]), np.zeros(5)))
