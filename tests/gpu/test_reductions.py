"""Loops that combine values on the device: all shapes of grids and blocks, types, and loops in which names change places."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from tests.handed_kernels import greatest


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def of_planes(x, y):
    total = 0
    most = -1
    row = column = -1
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * 3
            total += y[i, j]
            if x[i, j] > most:
                most = x[i, j]
                row = i
                column = j
    return total, most, row, column


def of_lines(x):
    total = 0
    least = 10**9
    for i in range(x.shape[0]):
        total += x[i]
        least = min(least, x[i])
    return total, least


def numbers(*shape):
    count = int(np.prod(shape))
    return (np.arange(count) * 7919 % 1_000_003 + 1).reshape(shape)


SHAPES = [
    (1, 1),
    (1, 5000),
    (5000, 1),
    (3, 1_000_003),
    (40, 33),
    (126, 126),
    (510, 514),
    (1025, 1030),
    (100_001, 7),
    (4096, 4099),
]


@pytest.mark.parametrize("block_size", [None, 4, 32, 100, 1024])
def test_planes(block_size):
    kernel = qgraph.kernel(block_size=block_size)(of_planes)
    for shape in SHAPES:
        x, y = numbers(*shape), on_device(np.zeros(shape, np.int64))
        row, column = np.unravel_index(np.argmax(x), shape)
        wanted = (3 * x.sum(), x.max(), row, column)
        for _ in range(3):
            assert kernel(on_device(x), y) == wanted, (shape, block_size)
        np.testing.assert_array_equal(qgraph.to_numpy(y), 3 * x)


@pytest.mark.parametrize("block_size", [None, 4, 100])
def test_lines(block_size):
    kernel = qgraph.kernel(block_size=block_size)(of_lines)
    for n in (1, 2, 255, 1024, 1025, 300_001, 20_000_003):
        x = numbers(n)
        assert kernel(on_device(x)) == (x.sum(), x.min()), (n, block_size)


def into_elements(x, out):
    for i, j, k in qgraph.ndrange(*x.shape):
        out[0] += x[i, j, k]
        out[1] = max(out[1], x[i, j, k])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float16", "float32", "float64"])
def test_types(dtype):
    x = (np.arange(30 * 20 * 50).reshape(30, 20, 50) % 3 == 0).astype(dtype)
    x[17, 3, 4] = 2
    x = x if dtype not in ("int8", "float16") else x[:2, :, :1]
    out = on_device(np.zeros(2, dtype))
    qgraph.kernel(into_elements)(on_device(x), out)
    np.testing.assert_array_equal(qgraph.to_numpy(out), np.array([x.sum(dtype=dtype), x.max()]))


def summed(x):
    total = 0j
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j]
    return total


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype):
    x = (numbers(200, 300) % 8 + 1j * (numbers(200, 300) % 5)).astype(dtype)
    assert qgraph.kernel(summed)(on_device(x)) == x.sum()


def in_numpy(x, y, least, most):
    """``greatest`` in NumPy."""
    sweeps, change = 0, least + 1
    while change > least and sweeps < most:
        y[1:-1, 1:-1] = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) // 4 + 1
        change = np.max(np.abs(y[1:-1, 1:-1] - x[1:-1, 1:-1]), initial=0)
        x, y = y, x
        sweeps += 1
    return sweeps, change


@pytest.mark.parametrize("options", [{}, {"conditional": "host"}, {"block_size": 64}])
def test_names_that_change_places(options):
    """The loop ends with every copy of its body, and goes from one graph to another."""
    kernel = qgraph.kernel(**options)(greatest)
    for shape in ((9, 12), (130, 126), (700, 900)):
        for least, most in (*((-1, most) for most in (1, 2, 15, 16, 17, 31, 32, 33, 100, 3, 64)), (300_000, 100), (1000, 500)):
            mine = numbers(*shape)
            wanted = mine.copy(), mine.copy()
            given = on_device(mine.copy()), on_device(mine.copy())
            assert kernel(*given, least, most) == in_numpy(*wanted, least, most), (shape, least, most)
            for found, right in zip(given, wanted, strict=True):
                np.testing.assert_array_equal(qgraph.to_numpy(found), right)


def floats(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j]
    return total


def test_the_same_bits_every_time():
    x = on_device(np.random.default_rng(0).random((700, 900), np.float32))
    kernel = qgraph.kernel(floats)
    assert len({kernel(x) for _ in range(200)}) == 1


def test_not_a_number_is_kept():
    def most(x):
        return np.max(x)

    x = np.zeros((300, 400), np.float32)
    x[123, 321] = np.nan
    assert np.isnan(qgraph.kernel(most)(on_device(x)))
