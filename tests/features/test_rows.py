"""Rows and slices inside parallel loops, and arrays that an iteration makes for itself."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from tests.conftest import thorough


def numbers(*shape, dtype=np.float64, seed=0):
    values = np.random.default_rng(seed + sum(shape)).integers(-9, 9, shape)
    return (values if np.dtype(dtype).kind in "if" else values + 1j * values[::-1]).astype(dtype)


def types_of_sums(truths, x, y):
    for i in range(y.shape[0]):
        y[i, 0] = np.dot(truths[i], truths[i])
        mixed = np.array((1, 2, x[i], 0.5))
        y[i, 1] = np.sum(mixed)


def test_sums_have_numpys_types(check):
    """A product of booleans is a boolean, and numbers of several types have a common one."""
    truths = np.array([[True, True, False], [False, False, False]])
    check(types_of_sums, lambda: (truths.copy(), np.array([3, 4]), np.full((2, 2), 77.0)))


def of_many(a, y):
    for i in range(a.shape[0]):
        y[i, 0], y[i, 1] = np.sum(a[i]), a[i].mean()


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_sums_of_many_are_as_exact_as_numpys(rig, dtype):
    a, y = np.full((2, 30_000), 0.1, dtype), rig.device(np.zeros((2, 2), dtype))
    rig.kernel(of_many)(rig.device(a), y)
    exact = 30_000 * float(np.float32(0.1))
    np.testing.assert_allclose(qgraph.to_numpy(y), [[exact, exact / 30_000]] * 2, rtol=2e-7)


@pytest.mark.needs("float16")
@pytest.mark.needs("float16_math")
def test_the_sum_of_float16_is_one(check):
    """It is computed in float32: 2048 + 1 is no float16."""

    def sums(halves, y):
        for i in range(y.shape[0]):
            y[i] = np.sum(halves[i])

    check(sums, lambda: (np.array([[2048, 1, 0], [1, 0.5, 3]], np.float16), np.full(2, 77.0)))


def products(a, x, y, z):
    n = a.shape[1]
    for i in range(a.shape[0]):
        y[i] = np.dot(a[i], x)
        z[i, 0] = np.sum(a[i, : i % n])
        z[i, 1] = a[i] @ x - np.vdot(x, a[i])
        z[i, 2] = np.sum(a[i, 1:] * x[:-1] - a[i, :-1])
        z[i, 3] = np.prod(a[i, ::2]) + np.count_nonzero(a[i])
        if np.any(a[i] == x[0]) and not np.all(x == 0):
            z[i, 0] += 1


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
def test_products_and_sums(check, dtype):
    of_sums = np.complex128 if dtype is np.complex128 else np.float64
    wide = np.zeros((6, 14), dtype)
    wide[:, ::2] = numbers(6, 7, dtype=dtype)

    def arguments():
        return wide[:, ::2], numbers(7, dtype=dtype), np.full(6, 77, dtype), np.full((6, 4), 77, of_sums)

    check(products, arguments, tolerance=1e-5)


def extremes(a, values, places):
    for i in range(a.shape[0]):
        row = a[i]
        values[i, 0] = np.min(row)
        values[i, 1] = np.max(-row * 2)
        values[i, 2] = np.mean(row) + np.linalg.norm(row)
        places[i, 0] = np.argmin(row)
        places[i, 1] = row[1:].argmax()


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_extremes_and_their_places(check, dtype):
    def arguments():
        a = numbers(5, 6, dtype=dtype)
        if dtype is np.float64:
            a[1, 3] = a[2, 0] = a[2, 4] = np.nan
        return a, np.full((5, 3), 77.0), np.full((5, 2), 77)

    check(extremes, arguments)


def whole(a, sums):
    for i in range(sums.shape[0]):
        sums[i] = np.sum(a[i:] * a[i]) + np.max(a[:, i])


def test_parts_of_two_dimensions(check):
    check(whole, lambda: (numbers(4, 4), np.full(4, 77.0)))


def stores(a, b, x, n):
    for i in range(a.shape[0]):
        a[i] = b[i] * 2 - x
        a[i, 1:] += x[:-1]
        a[i, 2:] = a[i, :-2] + a[i, 1:-1]
        a[i, :-1] -= a[i, 1:]
        b[i, ::-1] = a[i]
        w = b[i, n:]
        w[1:] = w[:-1]
        w *= x[n:]
        if i % 2:
            a[i, :] = np.where(a[i] > b[i], x[0], b[i])


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_the_right_side_comes_first(check, dtype):
    check(stores, lambda: (numbers(5, 6, dtype=dtype), numbers(5, 6, dtype=dtype, seed=1), numbers(6, dtype=dtype), 2))


@qgraph.func
def normalised(row, weight):
    row[:] = row * weight
    return np.sum(row)


@qgraph.func
def larger(row, x):
    return normalised(row, 2) > np.dot(row, x)


@qgraph.func
def only_calls(row):
    return normalised(row, 3)


def of_funcs(a, x, y):
    for i in range(a.shape[0]):
        y[i] = only_calls(a[i, 1:])
        if larger(a[i], x):
            y[i] += 1


def test_rows_are_passed_to_funcs(check):
    check(of_funcs, lambda: (numbers(5, 4), numbers(4), np.full(5, 77.0)))


def made(a, y):
    for i in range(a.shape[0]):
        t = np.zeros(4, dtype=np.float64)
        t[1:] = a[i, :3]
        m = np.empty((2, 2))
        for j in range(2):
            m[j] = t[j : j + 2]
            step = np.array([a[i, j], 1.0, 2.0])
            t[0] += np.dot(step, a[i, :3])
        if i == 1:
            t = np.full(4, 2.5)
        k = np.ones(3, dtype=np.int32)
        k[i % 3] += i
        y[i] = np.sum(m) + np.max(t) + np.sum(k) * m[1, 0]


def test_arrays_that_an_iteration_makes(check):
    check(made, lambda: (numbers(5, 4), np.full(5, 77.0)))


def mismatched(a, x, y, n):
    for i in range(y.shape[0]):
        if i < n:
            y[i] = np.dot(a[i], x)
    y[0] += 1


def test_lengths_that_differ_are_told(rig):
    kernel = rig.kernel(mismatched)
    rig.compare(kernel, lambda: (numbers(3, 4), numbers(5), np.zeros(3), 0))
    y = np.zeros(3)
    with pytest.raises(qgraph.ArgumentError, match=r"`x` and `a\[i\]` have different lengths"):
        rig.run(kernel, numbers(3, 4), numbers(5), y, 2)


def emptied(a, y, n):
    for i in range(y.shape[0]):
        y[i] = np.sum(a[i, :n]) if n < 1 else np.max(a[i, n:])


def moved(a, s, end, stop):
    for i in range(a.shape[0]):
        a[i, s + 2 : end] = a[i, s:stop]


@pytest.mark.parametrize(("s", "end", "stop"), [(0, 5, 3), (1, 5, 3), (-4, 5, 3), (-5, -1, -3), (-1, 2, 5)])
def test_parts_that_begin_at_a_number(check, s, end, stop):
    check(moved, lambda: (numbers(3, 5), s, end, stop))


def planes_moved(a, s, end, stop):
    for i in range(a.shape[0]):
        a[i, :, 1:] = a[i, :, :-1]
        a[i, :, :0:-1] = a[i, :, -2::-1]
        a[i, s + 1 : end, 1:] = a[i, s:stop, :-1]


def test_parts_of_planes(check):
    check(planes_moved, lambda: (numbers(2, 3, 4), 0, 3, 2))


@pytest.mark.parametrize(("rows", "s"), [(1, -1), (3, -5)])
def test_planes_that_begin_at_both_ends(rig, rows, s):
    """The same rows are read and stored, and their columns would be copied in the wrong direction."""
    kernel = rig.kernel(planes_moved)
    with pytest.raises(qgraph.ArgumentError, match=r"begin at `s \+ 1` and `s`, of which at least one is negative"):
        rig.run(kernel, numbers(2, rows, 4), s, rows, rows)


def test_constants_that_begin_at_both_ends(rig):
    def kernel(a):
        for i in range(a.shape[0]):
            a[i, 1:4] = a[i, -4:-1]

    with pytest.raises(qgraph.KernelSyntaxError, match="parts of one array that overlap"):
        rig.run(rig.kernel(kernel), numbers(2, 6))


def test_parts_that_begin_at_both_ends(rig):
    """`a[i, 0:2] = a[i, -2:3]`: by the numbers the second part lies before the first one, and in the array behind it."""
    kernel, a = rig.kernel(moved), numbers(2, 3)
    before = a.copy()
    with pytest.raises(qgraph.ArgumentError, match=r"begin at `s \+ 2` and `s`, of which at least one is negative"):
        rig.run(kernel, a, -2, 2, 3)
    assert np.array_equal(a, before)


def test_no_elements(rig):
    kernel = rig.kernel(emptied)
    rig.compare(kernel, lambda: (numbers(3, 4), np.full(3, 77.0), 0))
    with pytest.raises(qgraph.ArgumentError, match=r"`np.max\(a\[i, n:\]\)` is of an array without elements"):
        rig.run(kernel, numbers(3, 4), np.zeros(3), 4)


def complex_histogram(keys, z, bins, others):
    for i in range(keys.shape[0]):
        bins[keys[i]] += z[i]
        others[keys[i], 1] -= z[i] * 2


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_colliding_updates_of_complex_numbers(rig, dtype):
    n = rig.size(5_000)
    keys = np.random.default_rng(0).integers(0, 3, n)
    rig.check(complex_histogram, lambda: (keys, numbers(n, dtype=dtype), np.zeros(3, dtype), np.zeros((3, 2), dtype)))


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [products, made, complex_histogram, *thorough(stores, planes_moved, extremes, of_funcs)])
def test_ptx(function):
    args = {
        products: (numbers(3, 4), numbers(4), np.zeros(3), np.zeros((3, 4))),
        stores: (numbers(3, 4), numbers(3, 4), numbers(4), 2),
        planes_moved: (numbers(2, 3, 4), 0, 3, 2),
        made: (numbers(3, 4), np.zeros(3)),
        extremes: (numbers(3, 4), np.zeros((3, 3)), np.zeros((3, 2), int)),
        of_funcs: (numbers(3, 4), numbers(4), np.zeros(3)),
        complex_histogram: (np.zeros(3, int), np.zeros(3, complex), np.zeros(3, complex), np.zeros((3, 2), complex)),
    }[function]
    text = str(qgraph.kernel(function, backend="cuda").ptx(*args, cc=(9, 0)))
    assert ".entry" in text
    # Two additions of halves an update.
    assert text.count(".add.f64") >= 4 or function is not complex_histogram


def from_the_end(a, b, c):
    for r in range(a.shape[0]):
        a[r, -6:] = a[r, -5:]
        b[r, -3:, 1:] = b[r, -3:, :-1]
        c[r, 4::-1] = c[r, 2::-1]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_starts_that_are_clipped_to_one_place(check, n):
    check(from_the_end, lambda: (numbers(2, n), numbers(2, n, 4), numbers(2, n)))


def clipped(a):
    for r in range(a.shape[0]):
        a[r, -6:, 1:] = a[r, -5:, :-1]


def clipped_backwards(a):
    for r in range(a.shape[0]):
        a[r, 4::-1, 1:] = a[r, 2::-1, :-1]


@pytest.mark.parametrize("function", [clipped, clipped_backwards])
def test_where_the_next_axis_would_decide(rig, function):
    """Where few rows are there both begin at one of them, and the order of the columns would be the wrong one."""
    with pytest.raises(qgraph.KernelSyntaxError, match="may be parts of one array that overlap"):
        rig.kernel(function)(rig.device(numbers(2, 3, 4)))


def selected(starts, columns, values, x, y):
    for r in range(starts.shape[0] - 1):
        here = columns[starts[r] : starts[r + 1]]
        y[r, 0] = values[starts[r] : starts[r + 1]] @ x[here]
        y[r, 1] = np.sum(x[here] * x[columns[starts[r] : starts[r + 1]]] + 1) + x[here].sum()
        y[r, 2] = np.max(x[columns]) - np.min(x[here]) + np.argmin(x[here])
        y[r, 3] = np.linalg.norm(x[here] - x[r]) + np.mean(x[here])


@pytest.mark.parametrize("dtype", ["int64", "int32", *thorough("uint8", "int8", "uint64")])
def test_vectors_of_indices_select_what_is_reduced(check, dtype):
    def args():
        columns = np.arange(14) * 3 % 7 - (0 if dtype.startswith("u") else 2)
        return np.arange(8) * 2, columns.astype(dtype), numbers(14), numbers(7), np.full((7, 4), 77.0)

    check(selected, args)


def selected_of_itself(columns, x):
    for r in range(x.shape[0]):
        x[r] = np.sum(x[columns[r:]])


def by_floats(columns, x, y):
    for r in range(x.shape[0]):
        y[r] = np.sum(x[columns[r:]])


def test_elements_that_are_selected_may_be_any(rig):
    plan = str(rig.kernel(selected_of_itself).plan(rig.device(np.arange(4)), rig.device(numbers(4))))
    assert "the element that `x[columns[r:]]` means is known only when it runs" in plan
    with pytest.raises(qgraph.KernelSyntaxError, match="is no integer and no slice"):
        rig.kernel(by_floats).plan(*(rig.device(numbers(4)) for _ in range(3)))


@qgraph.func
def product_of(row):
    first, second = row
    return first * second


def unpacked(pairs, planes, x):
    """In loops, in a func, at kernel level, and of what the kernel makes; rows of several axes too."""
    a, b = pairs[0]
    twice = pairs * 2
    for i in range(pairs.shape[0]):
        first, second = pairs[i]
        row = pairs[i, :]
        third, fourth = row
        x[i, 0], x[i, 1] = twice[i]
        x[i, 2] = first * second + third - fourth + product_of(pairs[i]) + a
    for i, (left, right) in enumerate(pairs):
        x[i, 3] = left - 2 * right + b
    for k in qgraph.serial(range(pairs.shape[0])):
        c, d = pairs[k]
        x[k, 4] = c + 10 * d
        c, d = d, c
        x[k, 5] = c + 10 * d
    for i in range(planes.shape[0]):
        upper, lower = planes[i]
        for j in range(planes.shape[2]):
            x[i, 6] += upper[j] - 3 * lower[j]


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_rows_are_unpacked(check, dtype):
    def args():
        return np.arange(8).reshape(4, 2).astype(dtype), np.arange(24).reshape(4, 2, 3).astype(dtype), np.ones((4, 7), dtype)

    check(unpacked, args)


def of_a_new_array(pairs, x):
    twice = pairs * 2
    for i in range(pairs.shape[0]):
        first, second = twice[i]
        x[i] = first + second


def of_several_axes(planes, x):
    for i in range(planes.shape[0]):
        upper, lower = planes[i]
        x[i] = upper[0] + lower[0]


def of_a_part(planes, x):
    for i in range(1):
        first, second = planes[1:3]
        x[i] = first[0, 0] - second[0, 1]


def test_a_part_that_is_no_row_is_not_unpacked(rig):
    """Its length is not that of the array."""
    with pytest.raises(qgraph.KernelSyntaxError, match="its length is not known before the call"):
        rig.run(rig.kernel(of_a_part), np.ones((5, 2, 2)), np.ones(4))


def in_order(pairs, x):
    for k in qgraph.serial(range(pairs.shape[0])):
        first, second = pairs[k]
        x[k] = first + second


@pytest.mark.parametrize("function", [of_a_new_array, of_several_axes, in_order])
@pytest.mark.parametrize("length", [1, 3])
def test_rows_of_another_length_are_refused_as_python_does(rig, function, length):
    kernel = rig.kernel(function)
    shape = (4, length, 2) if function is of_several_axes else (4, length)
    with pytest.raises(ValueError, match="unpack"):
        kernel.reference(np.ones(shape), np.ones(4))
    with pytest.raises((ValueError, qgraph.KernelSyntaxError), match="unpacked into 2 names"):
        rig.run(kernel, np.ones(shape), np.ones(4))
        qgraph.synchronize()


def rows_with_names(p, out):
    for i in range(p.shape[0]):
        second, first = p[i, 1], p[i, 0]
        first += second
        front = p[i, 1, 1:]
        front += p[i, 1, :-1]
        out[i] = first


def rows_of_which_one_runs_backwards(p, out):
    for i in range(p.shape[0]):
        first = p[i, 0]
        second = p[i, 0, ::-1]
        first += second


def test_rows_with_names_are_told_apart_by_what_they_are_parts_of(check):
    check(rows_with_names, lambda: (numbers(4, 2, 3), numbers(4, 3)))


def test_rows_with_names_that_no_order_is_right_for_are_refused(rig):
    with pytest.raises(qgraph.KernelSyntaxError, match="may be parts of one array that overlap"):
        rig.run(rig.kernel(rows_of_which_one_runs_backwards), numbers(4, 2, 3), numbers(4, 3))


def lines_of_a_transpose(u, x):
    for i in range(u.shape[0]):
        u.T[i, :] = u[:, i] + x[i]
        u.T[i, 1:] = u[:-1, i] * 2
        u[:-1, i] -= u.T[i, 1:]
        u.T.T[..., i] += u.T[i]


def other_lines_of_a_transpose(u, x):
    for i in range(1):
        u.T[i] = u[i] + x[i]


def all_of_a_transpose(u, x):
    for i in range(1):
        u.T[:, :] = u + x[i]


def test_lines_of_an_array_and_of_its_transpose(check, rig):
    def arguments():
        return np.arange(9.0).reshape(3, 3), np.arange(3.0)

    check(lines_of_a_transpose, arguments)
    for function in (other_lines_of_a_transpose, all_of_a_transpose):
        with pytest.raises(qgraph.KernelSyntaxError, match="may be parts of one array that overlap"):
            rig.run(rig.kernel(function), *arguments())


def a_named_row_of_itself(x, y):
    for i in range(x.shape[0]):
        row = x[i]
        row[:] = np.exp(row - row.max())
        row[:] = row / row.sum()
        part = y[i, 1:]
        part[0:] = part * 2 + 1


@pytest.mark.parametrize("turned", [False, True])
def test_a_row_with_a_name_is_assigned_what_is_made_of_it(check, turned):
    def arguments():
        x, y = np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(4, 3) - 3
        return (y.T, x) if turned else (x, y.T)

    check(a_named_row_of_itself, arguments)


def a_named_row_turned(x):
    for i in range(x.shape[0]):
        row = x[i]
        row[::-1] = row


def test_a_row_with_a_name_that_is_assigned_turned_is_refused(rig):
    with pytest.raises(qgraph.KernelSyntaxError, match="may be parts of one array that overlap"):
        rig.run(rig.kernel(a_named_row_turned), np.ones((2, 3)))


def extremes_of_one_name(a, x, y, k):
    for i in range(a.shape[0]):
        a[i, i:] += np.ptp(x)  # of NumPy's `max` and `min`, where Python's have clamped the slice
        y[i] = np.max(a[i, :k]) + max(i, k)
        a[i, : min(i, k)] *= np.min(a[i])


def test_functions_of_numpy_and_python_with_one_name(check):
    check(extremes_of_one_name, lambda: (np.arange(12).reshape(3, 4), np.arange(5) * 7 % 5, np.zeros(3, np.int64), 2))
