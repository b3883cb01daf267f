"""Several arrays written in one body: what is stored early is stored late on CUDA, and nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

DTYPES = ["int8", "int32", "uint8", "uint64", "float32", "float64", "complex64", "bool"]


def numbers(seed, dtype="int64", n=40):
    values = np.random.default_rng(seed).integers(1, 100, n)
    return (values % 2 if dtype == "bool" else values).astype(dtype)


def fields(a, b, c):
    for i in range(a.shape[0] - 1):
        a[i] -= 3 * (c[i + 1] - c[i])
        b[i] += 2 * c[i] - b[i]


def read_back(a, b, c):
    for i in range(a.shape[0]):
        a[i] = b[i] + 1
        c[i] += a[i] * 2
        b[i] = c[i] - a[i]


def twice(a, b, c):
    for i in range(a.shape[0]):
        a[i] = c[i]
        b[i] += a[i]
        a[i] += b[i]
        c[i] = a[i]
        a[i] *= 2


def last_wins(a, b, c):
    for i in qgraph.parallel(range(a.shape[0])):
        a[i] = c[i]
        a[i] = b[i]
        b[i] += c[i]
        a[i - 1 + 1] = b[i]


def index_moves(a, b, c):
    for i in range(a.shape[0] // 2):
        k = 2 * i
        a[k] = c[i]
        k += 1
        b[k] -= c[i]
        a[k] = b[k]
        c[i] = k


def negative(a, b, c):
    for i in range(a.shape[0] // 2):
        a[-1 - i] = b[i]
        b[i] += 1
        a[i] = b[-1 - i]


def leaves(a, b, c):
    for i in range(a.shape[0]):
        a[i] = c[i]
        if c[i] % 3 == 0:
            continue
        b[i] += c[i]
        c[i] = 0
        for k in range(3):
            a[i] += k
            b[i] -= k
            if b[i] % 2 == 0:
                break


@qgraph.func
def bumped(x, i, by):
    x[i] += by
    return x[i]


@qgraph.func
def last_of(x, i):
    return x[i]


def through_functions(a, b, c):
    for i in range(a.shape[0]):
        a[i] = c[i]
        b[i] += bumped(a, i, 5)
        c[i] = 1
        b[i] += last_of(a, i) + last_of(c, i)
        c[i] = bumped(b, i, 2) + a[i]


def unpacked(a, b, c):
    for i in range(a.shape[0]):
        a[i] = 1
        a[i], b[i] = b[i], a[i]
        c[i] += b[i]
        b[i] = c[i]
        p, q = a[i], b[i]
        a[i] = q
        b[i] = p + c[i]


@pytest.mark.parametrize(
    "function", [fields, read_back, twice, last_wins, index_moves, negative, leaves, through_functions, unpacked]
)
def test_the_order_of_loads_and_stores(check, function):
    check(function, lambda: (numbers(1), numbers(2), numbers(3)))


@pytest.mark.parametrize("function", [fields, read_back, twice, leaves])
def test_over_the_end_of_a_grid(check, size, function):
    n = size(70_003)
    check(function, lambda: (numbers(1, n=n), numbers(2, n=n), numbers(3, n=n)))


def across(a, b, c):
    for i in range(a.shape[0]):
        a[i] = c[i]
        b[i] += 2 * c[i]
        c[i] = 1


@pytest.mark.parametrize("function", [across, read_back, twice, through_functions, unpacked])
def test_one_array_under_two_names(check, function):
    def same():
        x = numbers(1)
        return x, x, numbers(2)

    def others():
        x = numbers(1)
        return numbers(2), x, x

    check(function, same)
    check(function, others)


def rows(a, b):
    for i in qgraph.parallel(range(a.shape[0])):
        r = a[i]
        r[0] = b[i, 1]
        b[i, 0] += r[0]
        a[i, 1] = b[i, 0]
        b[i, 1] = r[1] + r[0]


def test_rows_under_names_of_their_own(check):
    check(rows, lambda: (numbers(1).reshape(20, 2), numbers(2).reshape(20, 2)))


def halves(a, b):
    n = a.shape[0] // 2
    low, high = a[:n], a[n:]
    for i in range(n):
        low[i] = b[i]
        high[i] += b[i + n]
        b[i] = low[i] - high[i]


def test_views_of_one_array(check):
    check(halves, lambda: (numbers(1), numbers(2)))


def takes_turns(a, b, c):
    for _ in qgraph.serial(range(3)):
        for i in range(a.shape[0]):
            a[i] = b[i] + c[i]
            c[i] += a[i]
            b[i] -= c[i]
        a, b = b, a


def test_arrays_that_change_places(check):
    check(takes_turns, lambda: (numbers(1), numbers(2), numbers(3)))


def converted(a, b, c):
    for i in range(a.shape[0]):
        a[i] = c[i]
        b[i] = b[i] * c[i]
        c[i] = 2
        a[i] *= 3
        b[i] *= c[i]
        c[i] = b[i]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_converted_where_they_are_stored(check, dtype):
    check(converted, lambda: tuple(numbers(seed, dtype) for seed in (1, 2, 3)))


def narrowed(a, b, c):
    for i in range(a.shape[0]):
        a[i] -= c[i] / 8
        b[i] = c[i]
        c[i] += a[i] * 0.5 + b[i]


@pytest.mark.parametrize(("a", "b"), [("int32", "int16"), ("float32", "int64"), ("int64", "float32"), ("int16", "float32")])
def test_wide_values_go_into_narrow_elements(check, a, b):
    check(narrowed, lambda: (numbers(1, a), numbers(2, b), numbers(3, "float64") / 4))


def planes(a, b, c):
    for i, j in qgraph.ndrange(a.shape[0] - 1, a.shape[1] - 1):
        a[i, j] -= 2 * (c[i, j + 1] - c[i, j])
        b[i, j] += 3 * (c[i + 1, j] - c[i, j])


def in_turns(a, b, c):
    for i, j in qgraph.ndrange(*a.shape):
        a[i, j] += c[j, i]
        b[j, i] -= c[j, i]


@pytest.mark.parametrize("shape", [(6, 7), (40, 33)])
@pytest.mark.parametrize("fuse", [False, True])
def test_loops_of_two_axes(check, shape, fuse):
    n = shape[0] * shape[1]
    check(planes, lambda: tuple(numbers(seed, n=n).reshape(shape) for seed in (1, 2, 3)), fuse=fuse)


def test_loops_in_tiles(check):
    shapes = ((40, 33), (33, 40), (33, 40))
    check(in_turns, lambda: tuple(numbers(seed, n=33 * 40).reshape(shape) for seed, shape in enumerate(shapes)))


def beside(a, b, c, d, e):
    for i in range(a.shape[0]):
        a[i] -= e[i]
        b[i] += 2 * e[i]
    for i in range(c.shape[0]):
        c[i] -= 3 * e[i]
        d[i] += e[i]


def test_loops_side_by_side(check):
    kinds = ("int64", "int64", "float32", "float64", "int64")
    check(beside, lambda: tuple(numbers(seed, kind) for seed, kind in enumerate(kinds)), fuse=True)
