"""``d = x[i] - y[j]`` in a loop: what operators and functions of numbers make of short rows is an array of the iteration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import qgraph
from qgraph import Static


def rows(extent: int = 3, dtype: str = "float64"):
    rng = np.random.default_rng(extent)
    return [(8 * rng.random((5, extent))).astype(dtype) for _ in range(2)]


def distances(x, y, r):
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            d = x[i] - y[j]
            r[i] += np.sqrt(np.sum(d * d)) + d @ d + np.dot(d, x[i]) - np.linalg.norm(d) + abs(d[0]) * d.max()


@qgraph.func
def distance(a, b):
    d = a - b
    return np.sqrt(d @ d)


def distances_by_func(x, y, r):
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            if i != j:
                r[i] += 1 / (1 + distance(x[i], y[j]))


def springs(x, y, r):
    for i in range(x.shape[0]):
        force = -0.5 * y[i]
        for j in range(y.shape[0]):
            d = y[j] - y[i]
            length = np.sqrt(d @ d)
            if length > 1:
                force += d / length
        r[i] = force.sum()
        x[i] += 0.1 * force


def bound_again(x, y, r):
    for i in range(x.shape[0]):
        d = x[i] + 1
        e = d
        d = d * 2 - e
        for j in range(3):
            d = d + j * y[i]
        e[0] = 100
        r[i] = d[i % d.shape[0]] + e[0] + len(d)
        y[i] = np.minimum(d, e)


def copies(x, y, r):
    for i in range(x.shape[0]):
        d = x[i].copy()
        e = np.copy(y[i])
        d += e
        e[0] -= 1
        for k in range(d.shape[0]):
            r[i] += d[k] * e[k]
        x[i, 0] = d[0]


def masks(x, y, r):
    for i in range(x.shape[0]):
        above = x[i] > y[i]
        both = above & (x[i] > 2)
        if above.any():
            r[i] = np.sum(np.where(both, x[i], -y[i])) + np.sum(above)


def unpacked(x, y, r):
    for i in range(x.shape[0]):
        a, b, c = x[i] - y[i]
        y[i, 1], r[i] = np.abs(a), a * b - c
        c, a, b = (x[i] + y[i]) / 2
        r[i] += a - b * c


def with_numbers(x, y, r):
    for i in range(x.shape[0]):
        d = (x[i] - y[i]) / (1 + np.linalg.norm(x[i] - y[i]))
        w = np.exp(d - np.max(d))
        w /= w.sum()
        e = d - 2 * (d @ w) * w + distance(x[i], y[i])
        r[i] = e @ w


def with_other_arrays(x, y, r):
    centre = np.mean(x, axis=0)
    for i in range(x.shape[0]):
        d = x[i] - centre
        e = y[i] * centre[0] + d
        r[i] = d @ e


PROGRAMS = (distances, distances_by_func, springs, bound_again, copies, masks, with_numbers, with_other_arrays)


@pytest.mark.parametrize("extent", [1, 2, 3, 16])
@pytest.mark.parametrize("function", PROGRAMS)
def test_as_numpy_has_it(check, function, extent):
    check(function, lambda: (*rows(extent), np.zeros(5)))


@pytest.mark.parametrize(
    ("function", "dtype"), [(springs, "float32"), *itertools.product([unpacked, copies, bound_again], ["float32", "int64"])]
)
def test_of_other_types(check, function, dtype):
    check(function, lambda: (*rows(3, dtype), np.zeros(5, dtype)))


def of_complex_numbers(x, y, r):
    for i in range(x.shape[0]):
        d = (x[i] - 2j * y[i]) / 2
        r[i] = d[0] * d[1] - d.sum()
        y[i] = d


def test_of_complex_numbers(check):
    check(of_complex_numbers, lambda: (*rows(3, "complex128"), np.zeros(5, np.complex128)))


def crossed(x, y, r):
    for i in range(x.shape[0]):
        c = np.cross(x[i], y[i] - x[i])
        r[i] = c @ y[i] + c[0]
        y[i] = c


def unpacked_with_numbers(x, y, r):
    for i in range(x.shape[0]):
        a, b, c = x[i] / np.linalg.norm(x[i])
        c, b, y[i, 0] = y[i] - x[i] * np.max(y[i])
        r[i] = a + b - c


def numbers_of_two_types(x, y, r, k):
    big = 2**62
    for i in range(x.shape[0]):
        d = k[i] + max(k[i, 0], 0)
        k[i, 1] = d[0]
        d = x[i] * np.linalg.norm(y[i])
        a, b, c = k[i] + max(k[i, 1], big)
        k[i, 2] = a - b
        r[i] = d[0] + d[1]


def test_numbers_of_two_types(check):
    check(numbers_of_two_types, lambda: (*rows(), np.zeros(5), 2**61 + np.arange(15).reshape(5, 3)))


@pytest.mark.parametrize("function", [unpacked, crossed, unpacked_with_numbers])
def test_of_three_numbers(check, function):
    check(function, lambda: (*rows(), np.zeros(5)))


def grid_cells(x, y, r):
    for i in range(x.shape[0]):
        base = (x[i] * 2 - 0.5).astype(np.int32)
        rest = x[i] * 2 - base
        wide = y[i].astype(float)
        r[i] = base[0] * 100 + base[1] * 10 + rest[2] + wide.sum()
        y[i] = base % 3


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_conversions(check, dtype):
    check(grid_cells, lambda: (*rows(3, dtype), np.zeros(5, dtype)))


def rotated(turns, x, y):
    for i in range(x.shape[0]):
        p = turns[i] @ x[i]
        q = turns[i] @ (x[i] + p.sum())
        y[i] = turns[i] @ (q[0] * x[i])
        y[i, 0] += p[0]


def rotated_in_place(turns, x):
    for i in range(x.shape[0]):
        x[i] = turns[i] @ x[i]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (5, 1)])
def test_matrices_times_rows(check, shape, dtype):
    rng = np.random.default_rng(1)
    turns, x = ((8 * rng.random((5, *each))).astype(dtype) for each in (shape, shape[1:]))
    check(rotated, lambda: (turns.copy(), x.copy(), np.zeros((5, shape[0]), dtype)))
    if shape[0] == shape[1]:
        check(rotated_in_place, lambda: (turns.copy(), x.copy()))


def by_another_array(x, y):
    shift = y * 2
    for i in range(x.shape[0]):
        d = x[i] + shift
        x[i] = d


def test_an_array_of_another_length_is_told(rig):
    kernel = rig.kernel(by_another_array)
    rig.compare(kernel, lambda: (rows()[0], np.ones(3)))
    with pytest.raises(ValueError, match="shift is computed with rows of 3 elements, and has another length"):
        rig.run(kernel, rows()[0], np.ones(4))
        qgraph.synchronize()


def wrapping(x, y):
    for i in range(x.shape[0]):
        d = x[i] - y[i]
        y[i] = d // 2 + d % 3


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64"])
def test_integers_wrap_as_in_arrays(check, dtype):
    check(wrapping, lambda: rows(4, dtype))


def test_each_length_is_another_specialisation(rig):
    kernel = rig.kernel(distances)
    for extent in (2, 3, 2, 5):
        rig.compare(kernel, lambda extent=extent: (*rows(extent), np.zeros(5)))


def scaled(x, factor: Static, y):
    for i in range(x.shape[0]):
        d = np.round(x[i] * factor, 1) if factor else x[i]
        y[i] += d


def shifted(x, y, n):
    for i in range(x.shape[0]):
        d = x[i] + y[qgraph.atomic_add(n, 0, 1)]
        x[i] = d


def of_two_lengths(x, y):
    for i in range(x.shape[0]):
        d = x[i] + y[i]
        x[i] = d


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (shifted, (*rows(), np.zeros(1, np.int64))),
        (of_two_lengths, (rows(3)[0], rows(1)[0])),
        (of_two_lengths, rows(17)),
        (rotated_in_place, (np.zeros((5, 3, 4)), np.zeros((5, 3)))),
        (rotated_in_place, (np.zeros((5, 17, 17)), np.zeros((5, 17)))),
    ],
)
def test_what_is_no_such_array_is_refused(rig, function, arguments):
    with pytest.raises(qgraph.KernelSyntaxError, match="is a new array"):
        rig.run(rig.kernel(function), *arguments)


def of_either_length(y, r):
    for i in range(y.shape[0]):
        if y[i] > 0:
            t = np.zeros(3)
        else:
            t = np.ones(4)
        a, b, c, d = t
        r[i] = a + b + c + d


def of_either_row(y, r, x, z):
    for i in range(y.shape[0]):
        d = x[i] * 2
        if y[i] > 0:
            d = z[i] + 1
        e = d - 1
        r[i] = e.sum()


@pytest.mark.parametrize("function", [of_either_length, of_either_row])
def test_a_name_stands_for_arrays_of_one_length(rig, function):
    more = (np.zeros((5, 3)), np.zeros((5, 4))) if function is of_either_row else ()
    with pytest.raises(qgraph.KernelSyntaxError, match="is an array of 4 elements here, and of 3 in another place"):
        rig.run(rig.kernel(function), np.zeros(5), np.zeros(5), *more)
