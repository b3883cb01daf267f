"""Loops of two axes around one loop that is the same for all: a thread runs it for several iterations together."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

POISON = 77
# Rows, inner iterations, columns: with and without rows and columns that no thread has in full.
SHAPES = [
    (12, 7, 16),
    (13, 7, 9),
    (14, 3, 5),
    (6, 5, 40),
    (30, 1, 3),
    (9, 1, 33),
    (1, 4, 50),
    (50, 4, 1),
    (40, 0, 40),
    (0, 3, 9),
]


def product(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def named_together(a, b, c):
    for at in qgraph.ndrange(a.shape[0], b.shape[1]):
        i, j = at
        s = i - 3 * j
        for k in range(b.shape[0]):
            s = s * 2 + a[i, k] - b[k, j]
        c[at] += s


@qgraph.func
def farther(x, y):
    return x - y if x > y else y - x


def nearest(a, b, c):
    """Two results, and the number of the inner iteration, too."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            least = 1000
            place = -1
            for k in range(a.shape[1] - 1, -1, -1):
                d = farther(a[i, k], b[k, j])
                if d < least:
                    least = d
                    place = k
            c[i, j] = 100 * least + place


def counted(a, b, c):
    """It changes what it reads, each iteration its own element."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(2, 2 + b.shape[0] * 2):
                c[i, j] = c[i, j] * 3 % 101 + k + a[i, 0]


def told(kernel, *args):
    return "together where there are many" in str(kernel.plan(*args))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("function", [product, named_together, nearest, counted])
def test_each_iteration_is_what_it_is_alone(check, function, shape):
    rows, inner, columns = shape
    rng = np.random.default_rng(rows + columns)
    a, b = rng.integers(-9, 9, (rows, max(inner, int(function is counted)))), rng.integers(-9, 9, (inner, columns))
    kernel = check(
        function,
        lambda: (a.copy(), b.copy(), np.full((rows, columns), POISON)),
        noop=rows == 0 or (function is counted and not inner),
    )
    assert told(kernel, a, b, np.full((rows, columns), POISON))


def test_floats_to_the_bit(rig):
    rng = np.random.default_rng(5)
    a, b, c = rng.random((21, 11)), rng.random((11, 18)), np.zeros((21, 18))
    rig.run(rig.kernel(product), a, b, c)
    if rig.backend != "cuda":  # NVVM contracts
        wanted = c.copy()
        qgraph.kernel(product).reference(a, b, wanted)
        np.testing.assert_array_equal(c, wanted)


def ragged(a, b, c):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            s = 0
            for k in range(i, a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def leaves(a, b, c):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            s = 0
            for k in range(a.shape[1]):
                if a[i, k] > 7:
                    break
                s += a[i, k] * b[k, j]
            c[i, j] = s


@pytest.mark.parametrize("function", [ragged, leaves])
def test_loops_that_differ_are_apart(check, function):
    a = np.random.default_rng(1).integers(-9, 9, (9, 12))
    c = np.full((9, 9), POISON)
    kernel = check(function, lambda: (a.copy(), a.T.copy(), c.copy()))
    assert not told(kernel, a, a.T.copy(), c)
