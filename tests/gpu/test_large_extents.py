"""Loops of several axes: small, large, and with more iterations than 32 bits count."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

SIDE = 65_600


def marked(y):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = (3 * i + 5 * j) % 251


def turned(x, y):
    for i, j, k in qgraph.ndrange(*x.shape):
        y[k, i, j] = x[i, j, k] + 1


def transposed(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[j, i] = x[i, j] + 1


@pytest.mark.parametrize("shape", [(1, 1), (31, 7), (33, 9), (1000, 2000), (2049, 2051), (3, 700_001), (700_001, 3), (0, 9)])
def test_any_shape_that_is_transposed(shape):
    x = np.random.default_rng(sum(shape)).integers(-1000, 1000, shape)
    y = qgraph.asarray(np.full(shape[::-1], 7777), backend="cuda")
    qgraph.kernel(backend="cuda")(transposed)(qgraph.asarray(x, backend="cuda"), y)
    np.testing.assert_array_equal(qgraph.to_numpy(y), x.T + 1)


@pytest.mark.parametrize("threads", [5, 100, 1024])
def test_blocks_of_any_size_transpose(threads):
    x = np.random.default_rng(threads).integers(-1000, 1000, (77, 130))
    y = qgraph.asarray(np.full(x.shape[::-1], 7777), backend="cuda")
    qgraph.kernel(backend="cuda", block_size=threads)(transposed)(qgraph.asarray(x, backend="cuda"), y)
    np.testing.assert_array_equal(qgraph.to_numpy(y), x.T + 1)


@pytest.mark.unsanitized(reason="4 GiB, of which the tool checks each access: minutes")
def test_more_iterations_than_32_bits_count():
    assert SIDE**2 > 2**32
    y = qgraph.empty((SIDE, SIDE), np.uint8, backend="cuda")
    y.fill(255)
    kernel = qgraph.kernel(backend="cuda")(marked)
    assert [len(task.axes) for task in kernel.plan(y).tasks] == [2]
    kernel(y)
    columns = 5 * np.arange(SIDE)
    rows = [*range(3), SIDE // 2, *np.random.default_rng().integers(0, SIDE, 20).tolist(), SIDE - 2, SIDE - 1]
    for row in rows:
        np.testing.assert_array_equal(qgraph.to_numpy(y[row]), (3 * row + columns) % 251)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (3, 1, 5), (2, 300, 7), (1000, 3, 1000), (5, 700_001, 1), (700_001, 1, 3), (0, 4, 4), (250, 260, 270)]
)
def test_any_shape_of_three_axes(shape):
    x = np.random.default_rng(sum(shape)).integers(-1000, 1000, shape)
    y = qgraph.asarray(np.full((shape[2], *shape[:2]), 7777), backend="cuda")
    qgraph.kernel(backend="cuda")(turned)(qgraph.asarray(x, backend="cuda"), y)
    np.testing.assert_array_equal(qgraph.to_numpy(y), np.moveaxis(x, 2, 0) + 1)


def marked_in_order(y):
    for i, j, k in qgraph.ndrange(*y.shape):
        y[i, j, k] = 100 * i + 10 * j + k


@pytest.mark.parametrize("shape", [(3, 2_000_001, 2), (17_000_000, 1, 1), (1, 1, 17_000_000), (70_001, 5, 33), (1, 70_001, 65)])
def test_more_rows_than_blocks_lie_down(shape):
    y = qgraph.asarray(np.full(shape, -7), backend="cuda")
    qgraph.kernel(backend="cuda")(marked_in_order)(y)
    i, j, k = np.ogrid[: shape[0], : shape[1], : shape[2]]
    np.testing.assert_array_equal(qgraph.to_numpy(y), 100 * i + 10 * j + k)
