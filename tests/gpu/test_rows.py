"""Rows in loops, arrays of an iteration and updates of complex numbers on the device: what plain Python computes."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def rows(a, b, x, y):
    for i in range(a.shape[0]):
        y[i] = np.dot(a[i], x) + np.max(b[i]) + np.argmin(a[i])
        a[i, 1:] = a[i, :-1]
        b[i, :-1] += b[i, 1:] * 2
        t = np.zeros(3)
        t[i % 3] = y[i]
        t[1:] += x[:2]
        y[i] = np.sum(t)


def test_rows():
    def args():
        rng = np.random.default_rng(0)
        return tuple(rng.integers(-9, 9, shape).astype(float) for shape in ((2000, 9), (2000, 9), 9, 2000))

    expected, given = args(), tuple(map(on_device, args()))
    kernel = qgraph.kernel(rows)
    kernel.reference(*expected)
    kernel(*given)
    for got, wanted in zip(given, expected, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(got), wanted)


def histogram(keys, z, bins):
    for i in range(keys.shape[0]):
        bins[keys[i]] += z[i]
        bins[keys[i] + 4] -= z[i]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_colliding_updates_of_complex_numbers(dtype):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 4, 100_000)
    # Whole numbers whose sums are exact in any order.
    z = (rng.integers(0, 9, 100_000) + 1j * rng.integers(0, 9, 100_000)).astype(dtype)
    bins = on_device(np.zeros(8, dtype))
    qgraph.kernel(histogram)(on_device(keys), on_device(z), bins)
    sums = [z[keys == k].sum(dtype=np.complex128) for k in range(4)]
    np.testing.assert_array_equal(qgraph.to_numpy(bins), np.array([*sums, *(-s for s in sums)]).astype(dtype))


def lengths(a, x, y):
    for i in range(y.shape[0]):
        y[i] = np.dot(a[i], x)


def test_lengths_that_differ_are_told_by_the_next_wait():
    kernel = qgraph.kernel(lengths)
    y = on_device(np.full(3, 77.0))
    kernel(on_device(np.ones((3, 4))), on_device(np.ones(5)), y)
    with pytest.raises(qgraph.ArgumentError, match="have different lengths"):
        qgraph.synchronize()
    kernel(on_device(np.ones((3, 4))), on_device(np.ones(4)), y)
    np.testing.assert_array_equal(qgraph.to_numpy(y), np.full(3, 4.0))
