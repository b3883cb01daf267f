"""Funcs that change arrays, called in indices and operands: what Python has computed before a call is not changed by it."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import qgraph


@qgraph.func
def doubles(y):
    """In a loop, which becomes one of the kernel's."""
    for i in range(1):
        y[i, 0] *= 2
    return y[0, 0] % 3


@qgraph.func
def grows(y):
    for i in range(2):
        y[i, 0] += 1
    return 7


@qgraph.func
def stores(y):
    y[0, 0] += 1
    y[1, 0] += 1
    return 7


@qgraph.func
def adds(y):
    qgraph.atomic_add(y, (0, 0), 1)
    return stores(y)


@numba.njit
def compiled(y):
    """Of Numba's: nobody looks into it."""
    y[0, 0] += 1
    return 7


@qgraph.func
def by_a_compiled_one(y):
    return compiled(y)


@qgraph.func
def at(v, i, j):
    return v[i, j]


@qgraph.func
def four(x):
    if 1 != 3:
        return 4
    return 7


def element(x, y):
    y[y[0, 0] % 2, y[1, 0] % 2] *= grows(y)


def element_by_a_call(x, y):
    y[doubles(y), grows(y) % 3] += x[doubles(y), 1] + grows(y)


def element_by_two_indices(x, y):
    y[at(y, 0, 0) % y.shape[0], 0] += at(x, four(x) % y.shape[0], 1)


def row(x, y):
    y[y[0, 0] % 2] += grows(y)


def part(x, y):
    y[y[0, 0] % 2 :, 0] += grows(y)


def part_by_a_call(x, y):
    y[doubles(y) : 3, 1] += doubles(y) + grows(y)


def part_by_a_func_that_stores(x, y):
    y[y[0, 0] % 2 :, 0] = stores(y)


def masked(x, y):
    y[y > 3] += grows(y)


def masked_by_a_func_that_stores(x, y):
    y[y > 3] += stores(y)


def by_indices(x, y):
    y[y[0] % 3, 0] += adds(y)


def operand(x, y):
    x[:] = y + stores(y)


def operand_behind_a_computed_one(x, y):
    x[:] = y * 2 + stores(y)


def operand_in_a_sum(x, y):
    x[0, 0] = np.sum(y * 2 + adds(y)) + stores(y)


def new_array(x, y):
    t = y * y + adds(y)
    x[:] = t


def operand_of_numbas(x, y):
    x[:] = y + compiled(y)


def operand_of_numbas_behind_a_computed_one(x, y):
    x[:] = y * 2 + compiled(y)


def operand_by_a_func(x, y):
    x[:] = y * 2 + by_a_compiled_one(y)


def part_by_numbas(x, y):
    y[y[0, 0] % 2 :, 0] = compiled(y)


def index_by_numbas(x, y):
    x[y[0, 0] % 2, compiled(y) % 3] = y[compiled(y) % 3, y[0, 0] % 3]
    x[compiled(y) % 3, y[0, 0] % 3] += compiled(y)


def range_by_numbas(x, y):
    for i in qgraph.serial(range(compiled(y) - 7, compiled(y) - 4)):
        x[i, 0] += compiled(y)
        for j in range(3):
            x[i, j] += y[0, 0]
    for i in range(compiled(y) - 7, compiled(y) - 5):
        x[i, 1] = y[0, 0]


def bounds(x, y):
    x[y[0, 0] : stores(y) % 5, 0] = 9
    x[y[0, 0] - 1 : doubles(y) + 2] += 20
    part = y[y[0, 0] - 2 : grows(y) % 5]
    part[0] = np.sum(x[y[0, 2] - 6 : grows(y) % 5])


def bounds_in_several_places(x, y):
    x[y[0, 0] : grows(y) % 5, 1] = y[0, y[0, 0] - 1 : grows(y) % 6] = grows(y)


def element_of_a_row(x, y):
    x[y[0, 0]][grows(y) % 3] = y[1][doubles(y)]
    x[y[0, 0] % 2].T[grows(y) % 3] -= y[y[0, 0] % 3][grows(y) % 3]


def row_by_a_call(x, y):
    x[stores(y) % 3][y[0, 0] :] = stores(y)
    x[stores(y) % 5][stores(y) % 6 :] += y[0, 0]


def operand_by_an_element(x, y):
    x[0] = y[y[0, 0]] * 2 + grows(y)
    x[1:] = np.transpose(y[:, y[0, 0] % 3 :])[0] - stores(y)


@pytest.mark.parametrize(
    "function",
    [
        element,
        element_by_a_call,
        element_by_two_indices,
        row,
        part,
        part_by_a_call,
        part_by_a_func_that_stores,
        masked,
        masked_by_a_func_that_stores,
        by_indices,
        operand,
        operand_behind_a_computed_one,
        operand_in_a_sum,
        new_array,
        operand_of_numbas,
        operand_of_numbas_behind_a_computed_one,
        operand_by_a_func,
        part_by_numbas,
        index_by_numbas,
        range_by_numbas,
        bounds,
        bounds_in_several_places,
        element_of_a_row,
        row_by_a_call,
        operand_by_an_element,
    ],
)
def test_calls_change_nothing_that_was_computed_before(check, function):
    def make_args():
        x = np.arange(9).reshape(3, 3)
        return x, 3 * x

    check(function, make_args)


# --- places that a call counts on ------------------------------------------------------------------------------------------


@qgraph.func
def taken(n):
    return qgraph.atomic_add(n, 0, 1)


@qgraph.func
def counted(n):
    n[0] += 1
    return n[0]


@qgraph.func
def opposite(i):
    return 3 - i


def rows_at_a_counter(x, out, n):
    for i in qgraph.parallel(range(4)):
        if i == 2:
            out[qgraph.atomic_add(n, 0, 1)] = x[i] * 2
            out[qgraph.atomic_add(n, 0, 1)] += x[i]
            out[taken(n), 1:] = x[i, :2] + n[0]
            out[counted(n)] -= x[i] * n[0]
            out[qgraph.atomic_add(n, 0, 1)] = n[0], i, x[i, 0]
            out[taken(n), ::-1] = 1, 2, 3
            out[0, 0] += np.sum(x[qgraph.atomic_sub(n, 0, 1) % 4]) + np.dot(x[taken(n) % 4], x[0])
            for v in x[qgraph.atomic_add(n, 0, 1) % 4]:
                out[0, 1] += v


def rows_by_a_func(x, out, n):
    for i in range(4):
        out[opposite(i)] = i, n[0], x[i, 0]
        out[opposite(i)] += x[i]


def rows_in_order(x, out, n):
    for i in qgraph.serial(range(4)):
        out[taken(n)] = x[i] * 3
        out[taken(n)] += x[i]
        out[counted(n)] = 1, 2, i


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("function", [rows_at_a_counter, rows_by_a_func, rows_in_order])
def test_the_index_of_a_row_is_computed_once(check, function, fuse):
    """Not for each of its elements, and after the value."""
    check(function, lambda: (np.arange(12.0).reshape(4, 3), np.zeros((15, 3)), np.zeros(1, np.int64)), fuse=fuse)


def vector_at_a_counter(x, out, n):
    for i in range(4):
        out[qgraph.atomic_add(n, 0, 1)] += 2 * qgraph.vec(x[i])


def vector_from_a_counter(x, out, n):
    for i in range(4):
        out[i] = qgraph.vec(x[taken(n)])


def numbers_from_a_counter(x, out, n):
    for i in range(4):
        a, b, c = x[taken(n)]
        out[i, 0] = a + b + c


def power_at_a_counter(x, out, n):
    for i in range(4):
        out[taken(n), 0] **= 2


def added_at_kernel_level(x, out, n):
    out[qgraph.atomic_add(n, 0, 1)] += x[1]


def stored_at_kernel_level(x, out, n):
    out[qgraph.atomic_add(n, 0, 1)] = x[1] + n[0]


def summed_at_kernel_level(x, out, n):
    return np.sum(x[qgraph.atomic_add(n, 0, 1)])


def multiplied_at_kernel_level(x, out, n):
    return np.sum(x[0] * qgraph.atomic_add(n, 0, 1))


def filled_at_kernel_level(x, out, n):
    x[1:] = qgraph.atomic_add(n, 0, 1)


@pytest.mark.parametrize("function", [vector_at_a_counter, vector_from_a_counter, numbers_from_a_counter, power_at_a_counter])
def test_an_index_that_is_computed_more_than_once_changes_nothing(rig, function):
    with pytest.raises(qgraph.KernelSyntaxError, match="has a call in its index that changes something"):
        rig.run(rig.kernel(function), np.zeros((4, 3)), np.zeros((15, 3)), np.zeros(1, np.int64))


@pytest.mark.parametrize(
    "function",
    [
        added_at_kernel_level,
        stored_at_kernel_level,
        summed_at_kernel_level,
        multiplied_at_kernel_level,
        filled_at_kernel_level,
    ],
)
def test_an_atomic_is_not_computed_for_each_element(rig, function):
    with pytest.raises(qgraph.KernelSyntaxError, match="changes something, and stands in what is computed for each element"):
        rig.run(rig.kernel(function), np.zeros((4, 3)), np.zeros((15, 3)), np.zeros(1, np.int64))
