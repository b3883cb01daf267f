"""Loops of several axes: small, large, and with more iterations than 32 bits count."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.runtime.graph import kernel_parameters

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
    # With places of 64 bits, once it was seen that 32 are too few.
    assert kernel.stats.compilations == 2
    columns = 5 * np.arange(SIDE)
    rows = [*range(3), SIDE // 2, *np.random.default_rng().integers(0, SIDE, 20).tolist(), SIDE - 2, SIDE - 1]
    for row in rows:
        np.testing.assert_array_equal(qgraph.to_numpy(y[row]), (3 * row + columns) % 251)


def moved(x, y):
    for i, j in qgraph.ndrange((1, x.shape[0]), x.shape[1]):
        y[i, -j] = 2 * x[i - 1, j]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "int32", "float32", "int64", "complex128"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_that_are_far_take_other_code(order, dtype, monkeypatch):
    monkeypatch.setattr(kernel_parameters, "_INDEX64_FROM", 5000)
    kernel = qgraph.kernel(backend="cuda")(moved)
    for number, shape in enumerate([(3, 5), (70, 71), (71, 71), (5000, 3), (4, 9)]):
        x, y = (np.random.default_rng(seed).integers(0, 3, shape).astype(dtype, order) for seed in (number, number + 10))
        given = [qgraph.asarray(each, backend="cuda") for each in (x, y)]
        kernel(*given)
        kernel.reference(x, y)
        np.testing.assert_array_equal(qgraph.to_numpy(given[1]), y)
        assert kernel.stats.compilations == (2 if number > 1 else 1)
    bound = qgraph.kernel(backend="cuda")(moved).bind(*(qgraph.zeros((71, 71), backend="cuda") for _ in range(2)))
    assert bound.graph.executable is not None
    bound.launch()


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


def first_of(out, x):
    for j in range(out.shape[0]):
        out[j] = x[0, j] + 1


class Repeated:
    """One row of an array as if it were many."""

    def __init__(self, row, count):
        whole = row.__cuda_array_interface__
        strides = (0, row.dtype.itemsize)
        self.row = row
        self.__cuda_array_interface__ = {**whole, "shape": (count, *row.shape), "strides": strides}


def test_an_extent_of_more_than_31_bits_is_refused():
    kernel = qgraph.kernel(backend="cuda")(first_of)
    row, out = qgraph.asarray(np.arange(5.0), backend="cuda"), qgraph.zeros(5, np.float64, backend="cuda")
    kernel(out, Repeated(row, 2**31 - 1))
    np.testing.assert_array_equal(qgraph.to_numpy(out), np.arange(1.0, 6.0))
    out.fill(-1)
    with pytest.raises(qgraph.ArgumentError, match=r"x has the shape \(2147483648, 5\)"):
        kernel(out, Repeated(row, 2**31))
    assert (qgraph.to_numpy(out) == -1).all()
    kernel(out, Repeated(row, 7))
    np.testing.assert_array_equal(qgraph.to_numpy(out), np.arange(1.0, 6.0))


def long_rows(out, n, m):
    for _, j in qgraph.ndrange(n, m):
        out[j % 2] = 1


def test_an_axis_of_more_than_31_bits_is_refused():
    kernel, out = qgraph.kernel(backend="cuda")(long_rows), qgraph.zeros(2, np.int64, backend="cuda")
    for n, m in ((2**31, 2), (2, 2**31)):
        with pytest.raises(qgraph.ArgumentError, match="an axis of this loop has 2147483648 iterations"):
            kernel(out, n, m)
    assert (qgraph.to_numpy(out) == 0).all()
    kernel(out, 70_000, 2)
    assert (qgraph.to_numpy(out) == 1).all()


def between(x, y):
    for i, j, k in qgraph.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1), (1, x.shape[2] - 1)):
        y[i, j, k] = x[i - 1, j, k] + 2 * x[i + 1, j, k] + 3 * x[i, j - 1, k] + 4 * x[i, j + 1, k] + 5 * x[i, j, k - 1]


@pytest.mark.parametrize(
    "shape", [(130, 131, 132), (259, 66, 130), (4, 1100, 520), (5, 1100, 520), (1500, 3, 1000), (2000, 1100, 3)]
)
def test_planes_that_a_thread_has(shape):
    x = np.random.default_rng(3).integers(-99, 99, shape, dtype=np.int32)
    y = qgraph.asarray(np.full(shape, 77, np.int32), backend="cuda")
    qgraph.kernel(backend="cuda")(between)(qgraph.asarray(x, backend="cuda"), y)
    wanted = np.full(shape, 77, np.int32)
    wanted[1:-1, 1:-1, 1:-1] = (
        x[:-2, 1:-1, 1:-1] + 2 * x[2:, 1:-1, 1:-1] + 3 * x[1:-1, :-2, 1:-1] + 4 * x[1:-1, 2:, 1:-1] + 5 * x[1:-1, 1:-1, :-2]
    )
    np.testing.assert_array_equal(qgraph.to_numpy(y), wanted)


def meeting(force, x):
    for i in range(force.shape[0]):
        total = 0
        for j in range(x.shape[0]):
            total += (x[j] - x[i]) * (x[j] + 3)
        force[i] = total


@pytest.mark.parametrize("n", [1, 12, 1000, 4097, 70_001])
def test_few_iterations_and_many(n):
    x = np.random.default_rng(n).integers(-99, 99, n)
    force = qgraph.asarray(np.full(min(n, 20_000), 77), backend="cuda")
    qgraph.kernel(backend="cuda")(meeting)(force, qgraph.asarray(x, backend="cuda"))
    wanted = (x * (x + 3)).sum() - x[: len(force)] * (x + 3).sum()
    np.testing.assert_array_equal(qgraph.to_numpy(force), wanted)


def multiplied(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


@pytest.mark.parametrize("shape", [(1000, 17, 1100), (1001, 5, 1035), (3, 9, 400_001), (400_001, 9, 3), (64, 3, 64)])
def test_iterations_that_run_together(shape):
    rng = np.random.default_rng(9)
    a, b = rng.integers(-99, 99, shape[:2]), rng.integers(-99, 99, shape[1:])
    c = qgraph.asarray(np.full((shape[0], shape[2]), 77), backend="cuda")
    qgraph.kernel(backend="cuda")(multiplied)(qgraph.asarray(a, backend="cuda"), qgraph.asarray(b, backend="cuda"), c)
    np.testing.assert_array_equal(qgraph.to_numpy(c), a @ b)
