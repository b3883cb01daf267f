"""``qgraph.ndrange``: several axes, one index tuple, and names for it."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph import ndrange as cells_of

POISON = 77


def poisoned(*shape, dtype=np.float64):
    return np.full(shape, POISON, dtype)


def axes(a, b, c, n):
    for i in qgraph.ndrange(a.shape[0]):
        a[i] = i
    for i in qgraph.ndrange((2, n)):
        a[i] += 100.0
    for i, j in qgraph.ndrange(b.shape[0], b.shape[1]):
        b[i, j] = 10 * i + j
    for i, j in qgraph.ndrange((1, b.shape[0] - 1), (2, b.shape[1])):
        b[i, j] = -b[i, j]
    for i, j, k in qgraph.ndrange(c.shape[0], (1, 3), c.shape[2]):
        c[i, j, k] = 100 * i + 10 * j + k
    for _, j in qgraph.ndrange((0, 1), (3, 3)):
        b[0, j] = 5.0


def test_one_to_three_axes_with_offsets(check):
    check(axes, lambda: (poisoned(9), poisoned(5, 6), poisoned(3, 4, 5), 7))


def index_tuples(x, y, z, s):
    for I in qgraph.ndrange(*x.shape):
        x[I] = y[I] * 2.0 + I[0] - I[1]
    for I in qgraph.ndrange(*z.shape):
        i, j, k = I
        z[I] = z[i, j, k] + 1.0
    for i in qgraph.ndrange(*s.shape):
        s[i] = i


def test_an_index_tuple_over_a_whole_shape(check):
    def args():
        rng = np.random.default_rng(0)
        return poisoned(6, 7), rng.random((6, 7)), rng.random((2, 3, 4)), poisoned(5)

    check(index_tuples, args)


def named(u, v, n):
    inner = qgraph.ndrange((1, u.shape[0] - 1), (1, n))
    for i, j in inner:
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    for i, j in inner:
        u[i, j] = v[i, j]
    row = range(2, n)
    for j in row:
        u[0, j] = 1.0
    for j in row:
        u[0, j] += 1.0


def test_a_range_can_be_named_and_reused(check):
    def args():
        return np.random.default_rng(1).random((8, 9)), np.zeros((8, 9)), 8

    check(named, args)


def aliased(x):
    for i, j in cells_of(3, x.shape[1]):
        x[i, j] += i - j


def test_an_alias_of_ndrange_means_ndrange(check):
    check(aliased, lambda: (np.ones((3, 5)),))


def empty_axis(x, n):
    for i, j in qgraph.ndrange(n, x.shape[1]):
        x[i, j] = 0.0
    for i, j in qgraph.ndrange(x.shape[0], (3, n)):
        x[i, j] = 1.0


def test_an_empty_axis_makes_the_loop_empty(rig):
    kernel = rig.check(empty_axis, lambda: (poisoned(4, 5), 0), noop=True)
    rig.compare(kernel, lambda: (poisoned(4, 5), 4))


def device_extents(x, extents):
    for i, j in qgraph.ndrange(extents[0], (1, extents[1])):
        x[i, j] = i * 10 + j


def test_axes_read_on_the_device(check):
    check(device_extents, lambda: (poisoned(6, 7), np.array([5, 6])))


def inside_a_loop(x, y):
    for k in range(y.shape[0]):
        s = 0.0
        for i, j in qgraph.ndrange(x.shape[0], (1, x.shape[1])):
            s = 0.5 * s + x[i, j]
        y[k] = s * k


def test_ndrange_inside_an_iteration_goes_last_axis_fastest(check):
    check(inside_a_loop, lambda: (np.random.default_rng(2).random((3, 4)), poisoned(5)))


def test_ndrange_is_plain_python_outside_a_kernel():
    assert list(qgraph.ndrange(2, (1, 3))) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert list(qgraph.ndrange(3)) == [0, 1, 2]
    assert len(qgraph.ndrange(4, (2, 5))) == 12


def shifted(out, x, lo, hi, left, right):
    for i, j in qgraph.ndrange((lo, hi), (left, right)):
        out[i, j] = x[i - 1, j] + 10 * x[i + 1, j] + 100 * x[i, j - 1] + 1000 * x[i, j + 1]


@pytest.mark.parametrize("lo", [-3, 0, 1])
@pytest.mark.parametrize("left", [-2, 0, 2])
def test_indices_around_variables_that_may_start_below_zero(check, lo, left):
    def args():
        return np.full((8, 9), 77.0), np.arange(72.0).reshape(8, 9), lo, 4, left, 5

    check(shifted, args)


def shifted_in_three(out, x, lo, middle, left):
    for i, j, k in qgraph.ndrange((lo, 3), (middle, 3), (left, 4)):
        out[i, j, k] = x[i - 1, j + 1, k - 1] + 10 * x[i + 1, j - 1, k + 1]


@pytest.mark.parametrize("starts", [(1, 1, 1), (-1, 1, 1), (1, -1, 1), (1, 1, -1), (0, 0, 0)])
def test_three_axes_that_may_start_below_zero(check, starts):
    check(shifted_in_three, lambda: (np.full((5, 6, 7), 77.0), np.arange(210.0).reshape(5, 6, 7), *starts))


def light_rows(x, y, done, z):
    done[()] = 1
    for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
        if y[i, j] > 0.75:
            continue
        x[i, j] = 2 * y[i, j] + 10 * i + j
    for i, j, k in qgraph.ndrange((1, z.shape[0]), z.shape[1], (1, z.shape[2])):
        z[i, j, k] = y[(i + k) % y.shape[0], j % y.shape[1]] + 100 * i + 10 * j + k
    for I in qgraph.ndrange(*x.shape):
        x[I] += I[0] - 3 * I[1]


def heavy_rows(x, y, done):
    done[()] = 1
    for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
        a = 0.0
        for k in range(y.shape[1]):
            if k == j:
                continue
            a += y[i, k]
        if a < 1.5:
            continue
        x[i, j] = a + i - 2 * j


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (3, 17), (17, 3), (9, 9), (8, 16), (37, 5), (0, 4), (4, 0)])
@pytest.mark.parametrize("body", [light_rows, heavy_rows])
def test_rows_and_columns_of_any_number(check, body, shape):
    """On CUDA a thread has a column, and a row or several."""
    y = np.random.default_rng(sum(shape)).random(shape)
    more = (np.zeros((shape[1], 2, shape[0])),) if body is light_rows else ()
    check(body, lambda: (np.full(shape, -1.0), y.copy(), np.array(0), *(each.copy() for each in more)))


def three_way(x, y):
    for i, j, k in qgraph.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1), (1, x.shape[2] - 1)):
        y[i, j, k] = x[i, j, k] - x[i - 1, j, k] + 2 * x[i + 1, j, k] + 3 * x[i, j - 1, k] + 4 * x[i, j, k + 1]


@pytest.mark.parametrize(
    "shape", [(12, 7, 9), (13, 7, 9), (14, 3, 5), (6, 5, 40), (30, 3, 3), (3, 12, 6), (9, 3, 3), (2, 5, 5)]
)
def test_planes_that_a_thread_has(check, shape):
    x = np.random.default_rng(7).integers(-9, 9, shape)
    check(three_way, lambda: (x.copy(), np.full(shape, 77)), noop=2 in shape)
