"""Arrays of several dimensions whose numbers are written out: `np.array([[a, b], [c, d]])`."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


@qgraph.func
def trace(a):
    s = 0.0
    for k in range(2):
        s += a[k, k]
    return s


def at_kernel_level(x, b, n):
    x[:] = x @ np.array([[1.0, 2.0], [3.0, b[0]]])
    x += np.array([[1, n]])
    x *= np.array((((1, 2), (3, 4)),))[0]
    g = np.array([[0.0, 1.0], [1.0, n]])
    for _ in qgraph.serial(range(2)):
        x += np.array([[b[0], 0], [0, b[1]]])
    rows = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], dtype=np.float32)
    truths = np.array([[True, n > 2], [b[0] > 2, False]])
    return np.linalg.solve(np.array([[2.0, b[0]], [0.0, n]]), b), rows, truths, b[np.array([[1, 0]])], trace(g)


def in_iterations(x, b, n):
    for i in range(x.shape[0]):
        turned = np.array([[0.0, b[i]], [x[i, 1], 1.0]])
        other = np.array([[[1, 2], [3, n]], [[5, 6], [7, i]]], dtype=np.float32)
        turned[0] = other[1, 0] + turned[0]
        row = np.array(((b[i], 2.0, x[i, 0]),))
        x[i, 0] = trace(turned) + other.max() + row[0, 2]
        x[i, 1] = row.shape[0] * 10 + row.shape[1] + other[1, 1, 1]


@pytest.mark.parametrize("function", [at_kernel_level, in_iterations])
def test_rows_of_numbers(check, function):
    check(function, lambda: (np.arange(4.0).reshape(2, 2), np.array([1.0, 5.0]), 3))


def of_rows_of_several_lengths(x):
    a = np.array([[1, 2], [3]])
    x[:2] = a[0]


def of_rows_of_several_lengths_in_an_iteration(x):
    for i in range(x.shape[0]):
        a = np.array([[1, 2], [3]])
        x[i] = a[0, 0]


@pytest.mark.parametrize("function", [of_rows_of_several_lengths, of_rows_of_several_lengths_in_an_iteration])
def test_rows_of_several_lengths_are_refused(rig, function):
    with pytest.raises(qgraph.KernelSyntaxError, match="written out"):
        rig.run(rig.kernel(function), np.zeros(3))
