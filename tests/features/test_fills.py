"""Loops that only fill or copy: on cuda memset and memcpy nodes, which other arrays and other sizes must reach."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def fill(x, y):
    for i in range(x.shape[0]):
        x[i] = 0.5
    for i in range(x.shape[0]):
        y[i] = x[i] + 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sizes_change_from_call_to_call_and_back_to_nothing(rig, dtype):
    kernel = rig.kernel(fill)
    for n in (3, 0, 5, 5, 0, 40, 1, 0, 2):
        rig.compare(kernel, lambda n=n: (np.full(n, 77, dtype), np.full(n, 77, dtype)), noop=n == 0)
    assert kernel.stats.graph_builds == 1


def edge(m):
    for i, j in qgraph.ndrange((1, m.shape[0] - 1), (1, m.shape[1] - 1)):
        m[i, j] = -1


@pytest.mark.parametrize(
    "dtype", ["int8", "int32", "int64", pytest.param("float16", marks=pytest.mark.needs("float16")), "float32", "complex128"]
)
def test_the_inside_of_a_matrix(rig, dtype):
    kernel = rig.kernel(edge)
    for shape in ((4, 5), (4, 5), (5, 6), (2, 5), (3, 3), (6, 5), (1, 1), (4, 5)):
        empty = min(shape) < 3
        rig.compare(kernel, lambda shape=shape: (np.arange(np.prod(shape)).reshape(shape).astype(dtype),), noop=empty)
    assert kernel.stats.graph_builds == 1


def copy(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i]


def test_copies_between_other_arrays_each_time(rig):
    kernel = rig.kernel(copy)
    for n in (4, 0, 9, 9, 1):
        rig.compare(kernel, lambda n=n: (np.arange(float(n)), np.full(n, 77.0)), noop=n == 0)
    # The target is larger than what is copied.
    rig.compare(kernel, lambda: (np.arange(5.0), np.full(8, 3.0)))


def corner(x, y):
    for i, j in qgraph.ndrange(*y.shape):
        y[i, j] = x[i, j]


def test_a_copy_out_of_a_larger_matrix(rig):
    kernel = rig.kernel(corner)
    for large, small in (((5, 7), (3, 4)), ((3, 4), (3, 4)), ((6, 4), (3, 4)), ((5, 7), (0, 4)), ((8, 9), (2, 5))):
        rig.compare(
            kernel,
            lambda large=large, small=small: (np.arange(float(np.prod(large))).reshape(large), np.full(small, 77.0)),
            noop=0 in small,
        )


def parts(m, c, x, y):
    for j in range(m.shape[1]):
        m[1, j] = 0
    for i in range(m.shape[0]):
        m[i, 2] = 0
    for i, k in qgraph.ndrange(2, c.shape[2]):
        c[1 + i, 1, k] = 0
    for i in range(1, x.shape[0]):
        y[2 + i] = x[i]


def test_rows_columns_and_moved_copies(rig):
    kernel = rig.kernel(parts)
    for width in (3, 5, 3):
        rig.compare(
            kernel,
            lambda width=width: (
                np.ones((4, width)),
                np.ones((3, 2, width)),
                np.arange(float(width)),
                np.full(width + 2, 3.0),
            ),
        )


def slices(x, y, m):
    x[1:-1] = 0
    y[2:] = x[:-2]
    m[1:-1, 1:-1] = 0
    m[:, 0] = -1
    m[1, :] = 3


def test_slices(rig):
    kernel = rig.kernel(slices)
    for n, shape in ((6, (4, 5)), (3, (3, 3)), (9, (6, 4)), (6, (4, 5))):
        rig.compare(
            kernel, lambda n=n, shape=shape: (np.arange(1, n + 1), np.full(n, 7), np.ones(shape, np.int32)), tolerance=0.0
        )


def test_order_with_what_stands_around(check):
    def kernel(x, y, z):
        for i in range(x.shape[0]):
            x[i] += 1.0
        for i in range(x.shape[0]):
            y[i] = x[i]
        for i in range(x.shape[0]):
            x[i] = 0
        for i in range(x.shape[0]):
            z[i] = x[i] + y[i]
        for i in range(x.shape[0]):
            x[i] = y[i]

    check(kernel, lambda: (np.arange(6.0), np.full(6, 77.0), np.full(6, 77.0)))


def test_a_fill_beside_a_device_loop(check):
    def kernel(m, x):
        for i, j in qgraph.ndrange((1, m.shape[0] - 1), (1, m.shape[1] - 1)):
            m[i, j] = 0
        n = 0
        while n < 3:
            for i in range(x.shape[0]):
                x[i] = 0
            for i in range(x.shape[0]):
                x[i] += m[1, 1] + 1.0
            n += 1
        for i in range(x.shape[0]):
            x[i] = x[i] * 2

    for shape in ((4, 4), (5, 6)):
        check(kernel, lambda shape=shape: (np.ones(shape), np.arange(4.0)))


@pytest.mark.parametrize("options", [{"graph": False}, {"conditional": "host"}])
def test_other_ways_to_launch(check, options):
    def kernel(x, y, n):
        for i in range(x.shape[0]):
            x[i] = 2
        while n[0] > 0:
            for i in range(x.shape[0]):
                x[i] += 1
            n[0] -= 1
        for i in range(x.shape[0]):
            y[i] = x[i]

    check(kernel, lambda: (np.full(5, 77), np.full(5, 77), np.array([3])), **options)


def test_bytes_of_numbers(check):
    def kernel(a, b, c, d, e):
        for i in range(a.shape[0]):
            a[i] = True
        for i in range(b.shape[0]):
            b[i] = -3
        for i in range(c.shape[0]):
            c[i] = 0.1
        for i in range(d.shape[0]):
            d[i] = -0.0
        for i in range(e.shape[0]):
            e[i] = 70000

    check(
        kernel,
        lambda: (
            np.zeros(7, bool),
            np.zeros(7, np.int16),
            np.zeros(7, np.float32),
            np.ones(7, np.float32),
            np.zeros(7, np.int64),
        ),
        tolerance=0.0,
    )
