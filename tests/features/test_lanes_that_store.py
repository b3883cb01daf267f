"""Loops inside that store in elements of their own, alone or after each other: neighbouring threads share those, too."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def rows_of(rows, columns, dtype="float64"):
    rng = np.random.default_rng(rows * 100 + columns)
    numbers = [rng.integers(1, 9, shape).astype(dtype) for shape in ((rows, columns), (rows, columns), (columns,), (rows,))]
    return [each / np.array(8, dtype) if each.dtype.kind == "f" else each for each in numbers]


def shares(kernel, *args):
    plan = str(kernel.plan(*args))
    return "threads share it where" in plan or "threads share them where" in plan


def scaled(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            a[i, k] = a[i, k] * y[i] + b[i, k] * x[k]
        y[i] = 0.0


def row(a, b, x, y):
    for i in range(a.shape[0]):
        a[i] += y[i] * b[i]
        y[i] = 2.0 * y[i]


def part_of_a_row(a, b, x, y):
    for i in range(a.shape[0]):
        a[i, 2 : i + 9] -= b[i, 2 : i + 9] * y[i]
        y[i] = a[i, 3]


def sum_then_row(a, b, x, y):
    for i in range(a.shape[0]):
        y[i] = a[i] @ x
        a[i] -= y[i] * x


def row_then_sum(a, b, x, y):
    for i in range(a.shape[0]):
        a[i] *= x
        y[i] = b[i] @ a[i]


def column(a, b, x, y):
    for j in range(a.shape[1]):
        x[j] = b[:, 0] @ a[:, j]
        a[:, j] -= b[:, 0] * x[j]


def softmax(a, b, x, y):
    for i in range(a.shape[0]):
        most = a[i, 0]
        for k in range(a.shape[1]):
            most = max(most, a[i, k])
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] - most
        for k in range(a.shape[1]):
            b[i, k] = (a[i, k] - most) / (total + 0.5)


def backwards_from_another_lane(a, b, x, y):
    n = a.shape[1]
    for i in range(a.shape[0]):
        for k in range(n):
            a[i, k] = a[i, k] + x[k]
        for k in range(n):
            b[i, k] = a[i, n - 1 - k]
        for k in range(n):
            a[i, k] = b[i, k] + 1.0
        y[i] = a[i, 0] + 3.0 * a[i, n - 1]


def read_before_another_lane_stores(a, b, x, y):
    n = a.shape[1]
    for i in range(a.shape[0]):
        first, last = a[i, 0], a[i, n - 1]
        for k in range(n):
            a[i, k] = 0.5
        for k in range(n):
            b[i, k] = first * x[k] + last


def one_lane_stores(a, b, x, y):
    for i in range(a.shape[0]):
        before = y[i]
        y[i] = before + 1.0
        after = y[i]
        for k in range(a.shape[1]):
            a[i, k] = before * b[i, k] + after
        y[i] += after


def one_after_the_other(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(x.shape[0]):
            a[i, :] += b[i, k] * x
        y[i] += 1.0


def triangle(a, b, x, y):
    for i in range(a.shape[0]):
        a[i, : i + 1] *= 0.5
        for k in range(b.shape[1]):
            a[i, : i + 1] += b[: i + 1, k] * b[i, k]


def sometimes(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            if b[i, k] > 0.5:
                a[i, k] = b[i, k]
            else:
                a[i, k] *= 2.0
        y[i] += a[i, 0]


def next_element(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(a.shape[1] - 1):
            t = b[i, k] * 2.0
            a[i, k + 1] = t
            a[i, k + 1] += t + b[i, k + 1]
        y[i] = a[i, 1]


@qgraph.func
def blend(b, x, i, k):
    return b[i, k] * x[k]


def function_of_others(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            a[i, k] += blend(b, x, i, k)
        y[i] = a[i, 0]


def guarded(a, b, x, y):
    for i in range(a.shape[0]):
        scale = 1.0
        if y[i] > 0.5:
            scale = 2.0
        for k in range(a.shape[1]):
            a[i, k] = scale * b[i, k]


SHARED = [
    *(scaled, row, part_of_a_row, sum_then_row, row_then_sum, column, softmax, backwards_from_another_lane, guarded),
    function_of_others,
    *(read_before_another_lane_stores, one_lane_stores, one_after_the_other, triangle, sometimes, next_element),
]
# Rows and columns: as many as lanes, several blocks with lanes that have no row, fewer than lanes pay for.
SIZES = [(8, 16), (19, 40), (13, 33), (3, 5), (1, 64), (2, 4)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("function", SHARED)
def test_lanes_store(check, function, size):
    if function is triangle:
        size = (size[0], max(size))
    kernel = check(function, lambda: rows_of(*size), tolerance=1e-12)
    assert shares(kernel, *rows_of(*size))


@pytest.mark.parametrize("dtype", ["float32", "int64", "int16", "complex64"])
@pytest.mark.parametrize("function", [scaled, row, sum_then_row, one_after_the_other])
def test_other_dtypes(check, function, dtype):
    kernel = check(function, lambda: rows_of(19, 40, dtype), tolerance=1e-4)
    assert shares(kernel, *rows_of(19, 40, dtype))


def prefix(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(1, a.shape[1]):
            a[i, k] = a[i, k] + a[i, k - 1]
        y[i] = 1.0


def shifted_down(a, b, x, y):
    for i in range(a.shape[0]):
        a[i, 1:] = a[i, :-1]
        y[i] = 1.0


def from_the_end(a, b, x, y):
    n = a.shape[1]
    for i in range(a.shape[0]):
        for k in range(-n, n):
            a[i, k] = a[i, k] * 2.0 + x[k]
        y[i] = 1.0


def one_element(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            y[i] = a[i, k] - y[i]


def scattered(a, b, x, y):
    n = a.shape[1]
    for i in range(a.shape[0]):
        for k in range(n):
            a[i, k // 2] = b[i, k]
        y[i] = 1.0


def twice(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(a.shape[1] - 1):
            a[i, k] = b[i, k]
            a[i, k + 1] = b[i, k] + 1.0
        y[i] = 1.0


def carried(a, b, x, y):
    for i in range(a.shape[0]):
        t = 0.0
        for k in range(a.shape[1]):
            a[i, k] = t
            t = b[i, k] - t
        y[i] = 1.0


def stores_where_some_come(a, b, x, y):
    for i in range(a.shape[0]):
        if y[i] > 0.5:
            a[i, 0] = 3.0
        for k in range(a.shape[1]):
            b[i, k] = a[i, 0] + x[k]
        y[i] = 1.0


def as_often_as_the_row_says(a, b, x, y):
    for i in range(a.shape[0]):
        for _ in range(i):
            for k in range(a.shape[1]):
                a[i, k] = a[i, k] + x[k]
        y[i] = 1.0


def with_step(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(0, a.shape[1], 2):
            a[i, k] = b[i, k]
        y[i] = 1.0


def variable_read(a, b, x, y):
    for i in range(a.shape[0]):
        k = 0
        for k in range(a.shape[1]):
            a[i, k] = b[i, k]
        y[i] = k


def starts_from_what_is_written(a, b, x, y):
    for i in range(a.shape[0]):
        first = int(y[i]) % 2
        for k in range(a.shape[1] - first):
            a[i, k] = b[i, k] + x[k]
        y[i] = 1.0


@qgraph.func
def before(a, i, k):
    return a[i, k - 1] if k > 0 else 0.5


def by_a_function(a, b, x, y):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            a[i, k] = before(a, i, k) + x[k]
        y[i] = 1.0


@qgraph.func
def chosen(y, x, i):
    return x[int(y[i]) % 3]


def place_by_a_function(a, b, x, y):
    for i in range(a.shape[0]):
        first = chosen(y, x, i)
        for k in range(a.shape[1]):
            a[i, k] = b[i, k] + first
        y[i] = 1e9


PLAIN = [
    *(by_a_function, place_by_a_function),
    *(prefix, shifted_down, from_the_end, one_element, scattered, twice, carried, stores_where_some_come, with_step),
    *(as_often_as_the_row_says, variable_read, starts_from_what_is_written),
]


@pytest.mark.parametrize("function", PLAIN)
def test_what_has_an_order_stays_as_it_is(check, function):
    kernel = check(function, lambda: rows_of(19, 40), tolerance=1e-12)
    assert not shares(kernel, *rows_of(19, 40))


def from_the_other(a, b):
    for i in range(a.shape[0]):
        for k in range(a.shape[1] - 1):
            a[i, k] = b[i, k + 1] * 2.0
        a[i, 0] = 1.0


def test_arrays_that_are_the_same(check):
    def alike():
        a = rows_of(19, 40)[0]
        return a, a

    kernel = check(from_the_other, alike, tolerance=0)
    assert not shares(kernel, *alike())
    assert shares(kernel, *rows_of(19, 40)[:2])


def of_some_rows(count, a, b, x, y):
    n = count[0]
    for i in range(n):
        y[i] = a[i] @ x
        a[i] -= y[i] * b[i]


@pytest.mark.parametrize("count", [0, 1, 13, 19])
def test_as_many_rows_as_the_device_knows(check, count):
    def make():
        return [np.array([count]), *rows_of(19, 40)]

    kernel = check(of_some_rows, make, tolerance=1e-12, noop=not count)
    assert shares(kernel, *make())


def largest(a, b, x, y):
    for i in range(a.shape[0]):
        most = a[i, 0]
        for k in range(a.shape[1]):
            most = np.maximum(most, a[i, k])
        for k in range(a.shape[1]):
            b[i, k] = 1.0 / most


def test_lanes_agree_about_zeros(rig):
    """Which of two zeros is the greater one nobody says, but it is one of them for a whole row."""
    a, b, x, y = rows_of(19, 40)
    a[:] = np.where(np.arange(40) % 3 == 0, 0.0, -0.0)
    rig.run(rig.kernel(largest), a, b, x, y)
    assert np.isinf(b).all()
    assert (b == b[:, :1]).all()
