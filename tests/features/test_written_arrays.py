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


# --- numbers that are written out for a row --------------------------------------------------------------------------------


@qgraph.func
def set_row(row, a):
    row[:] = a, 2, True
    row[1:] = row[2] + 1, row[1]


def tuples_for_rows(x, k, u, n):
    y = np.zeros((4, 3), np.float32)
    for i in range(4):
        x[i] = i, 0.5, -x[i, 0]
        x[i, :2] = x[i, 1], x[i, 0]
        k[i] = 2.75, i
        y[i, ::-1] = x[i, 1], 1, i
        t = np.zeros(3)
        t[:] = i, 1.5, y[i, 0]
        x[i, :n] += t[:n]
        set_row(y[i], i * 0.25)
    for i in range(3):
        u.T[i] = 1, 2.5, i, n
    for i in qgraph.serial(range(3)):
        y[i + 1] = y[i, 0] + 1, y[i, 2], i
    return y


@pytest.mark.parametrize("fuse", [False, True])
def test_numbers_of_several_types_for_a_row_in_an_iteration(check, fuse):
    def arguments():
        return np.arange(12.0).reshape(4, 3), np.zeros((4, 2), np.int32), np.zeros((4, 3)), 2

    check(tuples_for_rows, arguments, fuse=fuse)


def fewer_numbers(x):
    for i in range(x.shape[0]):
        x[i] = 1.0, 2.0


def one_number(x):
    for i in range(x.shape[0]):
        x[i] = (x[i, 0],)


def more_numbers_than_a_part_has(x):
    for i in range(x.shape[0]):
        x[i, :2] = 1.0, 2.0, 3.0


@pytest.mark.parametrize("function", [fewer_numbers, one_number])
def test_fewer_numbers_than_a_row_has_are_refused(rig, function):
    x = np.ones((4, 3))
    with pytest.raises(qgraph.KernelSyntaxError, match=r"`x\[i\]` has 3 elements, and . are assigned"):
        rig.run(rig.kernel(function), x)


def test_more_numbers_than_a_part_of_a_row_has(rig):
    with pytest.raises(qgraph.ArgumentError, match=r"`x\[i, :2\]` has not 3 elements"):
        rig.run(rig.kernel(more_numbers_than_a_part_has), np.ones((4, 3)))
        qgraph.synchronize()


@qgraph.func
def doubled(v):
    return v, v * 2


@qgraph.func
def put(x, i, t):
    x[i] = t


def tuple_by_name(x, y):
    for i in range(x.shape[0]):
        t = (y[i], 2.0)
        x[i] = t


def tuple_of_a_func(x, y):
    for i in range(x.shape[0]):
        x[i] = doubled(y[i])


def tuple_in_a_func(x, y):
    for i in range(x.shape[0]):
        put(x, i, (y[i], 2.0))


def tuple_among_others(x, y):
    for i in range(x.shape[0]):
        y[i], x[i] = 1.0, (y[i], 2.0)


def tuple_for_two_rows(x, y):
    for i in range(x.shape[0]):
        x[i] = x[i, :] = doubled(y[i])


def either_tuple(x, y):
    for i in range(x.shape[0]):
        x[i] = (y[i], 1.0) if y[i] > 2 else doubled(y[i])


def number_for_a_row(x, y):
    for i in range(x.shape[0]):
        put(x, i, y[i])


TUPLES = (tuple_by_name, tuple_of_a_func, tuple_in_a_func, tuple_among_others, tuple_for_two_rows, either_tuple)


@pytest.mark.parametrize("function", [*TUPLES, number_for_a_row])
def test_tuples_and_numbers_that_a_row_is_assigned(check, function):
    check(function, lambda: (np.zeros((4, 2)), np.arange(4.0) + 1))


@pytest.mark.parametrize("extent", [1, 3])
@pytest.mark.parametrize("function", TUPLES)
def test_a_tuple_of_another_length_is_told(rig, function, extent):
    x, y = np.zeros((4, extent)), np.arange(4.0) + 1
    with pytest.raises(ValueError, match=r"a tuple of another length is assigned to x\[i\]"):
        rig.run(rig.kernel(function), x, y)
        qgraph.synchronize()


@pytest.mark.needs("compiler")
def test_a_tuple_of_known_length_is_not_checked():
    plans = [
        str(qgraph.kernel(backend="cuda")(function).ptx(np.zeros((4, 2)), np.zeros(4)))
        for function in (tuple_of_a_func, tuple_by_name)
    ]
    assert len(plans[0]) < len(plans[1]) / 2


# --- lists that no name holds ----------------------------------------------------------------------------------------------


def lists_in_iterations(x, n):
    for i in range(4):
        x[i] = [0, 1.5, i]
        for v in [1, 2, 3]:
            x[i, 0] += v * x[i, v - 1]
        for a, w in [(1, 0.5), [2, 0.25]]:
            x[i, a] *= w
        if i in [2, n] and i not in [3, 4]:
            x[i, 1] = [0.5, 1.5, 2.5][i]
        c, d = [i, 2 * i]
        x[i, 2] += c + d


def lists_at_kernel_level(x, n):
    x[0] = [0, 1.5, n]
    x[:, 0] = [1, 2, 3, n]
    x[1:3] = [[1, 2, 3], [4, n, 6]]
    x[1:] *= [1.0, 2.0, 0.5]
    x[[0, 2]] += 1
    a, b = [n, 2]
    if n in [1, 2]:
        x[3, 1] = a + b


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("function", [lists_in_iterations, lists_at_kernel_level])
def test_lists_that_are_read_where_they_stand(check, function, n):
    check(function, lambda: (np.arange(12.0).reshape(4, 3), n))


def rows_times_matrices(x, a, y):
    for i in range(x.shape[0]):
        x[i] = x[i] @ a[i]
    for i in range(x.shape[0]):
        d = x[i] - y[i]
        p = d @ a[0]
        u, v, w = (p * 2) @ a[i]
        m = a[i]
        y[i] = p @ m
        y[i, 0] += u - v * w


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.complex128])
def test_rows_times_matrices(check, dtype):
    numbers = np.random.default_rng(5).integers(-3, 4, 60).astype(dtype)
    check(
        rows_times_matrices,
        lambda: (numbers[:12].reshape(4, 3).copy(), numbers[12:48].reshape(4, 3, 3), numbers[48:].reshape(4, 3).copy()),
    )


def rows_times_wide_matrices(x, a, y):
    for i in range(x.shape[0]):
        y[i] = x[i] @ a[i]


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_rows_times_matrices_that_are_not_square(check, columns):
    x, a = np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(12.0 * columns).reshape(4, 3, columns)
    check(rows_times_wide_matrices, lambda: (x, a, np.zeros((4, columns))))


def an_outer_product_by_rows(x, y, a, det):
    for i in range(x.shape[0]):
        for j in range(len(x[i])):
            a[i, j] += x[i, j] * y[i]
        m = a[i]
        c = np.cross(m[1], m[2])
        det[i] = np.dot(m[0], c)


def test_what_messages_write_for_outer_products_and_determinants(check):
    rows = np.arange(12.0).reshape(4, 3)
    check(an_outer_product_by_rows, lambda: (rows, rows[::-1].copy(), np.eye(3) * np.ones((4, 1, 1)), np.zeros(4)))
