"""``fuse=True``: sums over rows, and what is done with the elements of these rows, are one loop over the rows."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

import qgraph


def matrices(rows, columns):
    rng = np.random.default_rng(rows * 100 + columns)
    return [rng.integers(1, 9, (rows, columns)) / 8 for _ in range(2)]


def loops(function, *args):
    """How many loops of the kernel run, joined ones as one; and what the plan says."""
    plan = qgraph.kernel(function, backend="cuda", fuse=True).plan(*args)
    return sum(task.role == "loop" for node in plan.nodes for task in node.tasks), str(plan)


def softmax(x, y):
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    y[:] = powers / np.sum(powers, axis=-1, keepdims=True)


def normalised(x, y):
    mean = np.mean(x, axis=1, keepdims=True)
    d = x - mean
    y[:] = d / np.sqrt(np.mean(d * d, axis=1, keepdims=True) + 0.5)


def by_loops(x, y):
    total = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        s = 0.0
        for k in range(x.shape[1]):
            s += x[i, k]
        total[i] = s
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] / total[i]


def elements_first(x, y):
    y[:] = x * x
    total = y.sum(axis=1)
    x[:, 0] = total


def in_place(x, y):
    y[:] = x
    y -= y.max(axis=1, keepdims=True)
    y /= y.sum(axis=1, keepdims=True) - 0.5


SIZES = [(13, 40), (5, 16), (40, 3), (1, 100)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("function", [softmax, normalised, by_loops, elements_first, in_place])
def test_rows_are_one_loop(check, function, size):
    check(function, lambda: matrices(*size), fuse=True, tolerance=1e-12)
    assert loops(function, *matrices(*size))[0] == 1


def test_numbers_of_rows_need_no_memory():
    count, plan = loops(softmax, *matrices(13, 40))
    assert count == 1
    assert plan.count("in registers") == 2
    assert "temporary np.max(x, axis=-1, keepdims=True)" not in plan


def test_three_axes(check):
    def function(x, y):
        y[:] = x / x.sum(axis=2, keepdims=True)

    def cubes():
        return [each.reshape(3, 5, 20) for each in matrices(15, 20)]

    check(function, cubes, fuse=True, tolerance=1e-12)
    assert loops(function, *cubes())[0] == 1


def of_the_next_row(x, y):
    total = x.sum(axis=1)
    for i in range(x.shape[0] - 1):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] / total[i + 1]


def next_total(x, y):
    total = x.sum(axis=1)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] - total[x.shape[0] - 1 - i]


def along_columns(x, y):
    total = x.sum(axis=0)
    y[:] = x / total


def no_sums(x, y):
    first = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        first[i] = x[i, 0]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] - first[i]


def one_element_of_each_row(x, y):
    total = x.sum(axis=1)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, x.shape[1] - 1 - j] = total[i] + j


def summed_up_twice(x, y):
    total = x.sum(axis=1)
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            s += total[i] * x[i, j]
    y[0, 0] = s


APART = [of_the_next_row, next_total, along_columns, no_sums, one_element_of_each_row, summed_up_twice]


@pytest.mark.parametrize("function", APART)
def test_what_stays_apart(check, function):
    check(function, lambda: matrices(13, 40), fuse=True, tolerance=1e-12)
    assert loops(function, *matrices(13, 40))[0] > 1


def columns_of(x, y, total):
    for i in range(x.shape[0]):
        s = 0.0
        for k in range(x.shape[1]):
            s += x[i, k]
        total[i, 0] = s
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] - total[i, 0]


def test_an_array_of_the_callers_stays_in_memory(check):
    check(columns_of, lambda: [*matrices(13, 40), np.full((13, 1), 77.0)], fuse=True, tolerance=1e-12)
    count, plan = loops(columns_of, *matrices(13, 40), np.zeros((13, 1)))
    assert count == 1
    assert "in registers" not in plan


def shares_of(x):
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def shares_of_places(x):
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    top = np.argmax(powers, axis=-1)
    return powers * np.sum(powers, axis=-1, keepdims=True) + top[:, None]


IN_ONE = [shares_of, shares_of_places]


def turned(x):
    n = x.shape[1]
    d, y = x * 2.0, np.empty_like(x)
    for i in range(x.shape[0]):
        s = 0.0
        for k in range(n):
            s += d[i, k]
        for k in range(n):
            y[i, k] = d[i, n - 1 - k] * s
    return y


def rounded(x):
    d, y = x * 9.0, np.empty(x.shape, dtype=np.int64)
    total = d.sum(axis=1)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            y[i, k] = int(d[i, k] + total[i])
    return y


def all_but_the_last(x):
    n = x.shape[1]
    d, y = np.empty_like(x), np.ones_like(x)
    for i in range(x.shape[0]):
        for k in range(n):
            d[i, k] = x[i, k] * 2.0
        s = d[i, n - 1]
        for k in range(n - 1):
            y[i, k] = d[i, k] * s
    return y


def over_another(x):
    y = np.sort(x, axis=1)
    d = x * 2.0
    total = d.sum(axis=1)
    for i in range(x.shape[0]):
        for k in range(x.shape[1] - 1):
            y[i, k] = d[i, k] + total[i]
    return y


def both_returned(x):
    d = x * 2.0
    return d, d - d.sum(axis=1, keepdims=True)


def read_of_the_next_row(x):
    d = x * 2.0
    total = d.sum(axis=1)
    y = np.empty_like(x)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            y[i, k] = d[i, k] + total[i]
    return y + d[::-1]


TWO = [turned, rounded, all_but_the_last, over_another, both_returned, read_of_the_next_row]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("function", [*IN_ONE, *TWO])
def test_returned_rows(check, function, size):
    check(function, lambda: matrices(*size)[:1], fuse=True, tolerance=1e-12, noop=True)


@pytest.mark.parametrize("function", [*IN_ONE, *(each for each in TWO if each is not both_returned)])
def test_a_row_that_becomes_another_one_needs_no_memory_of_its_own(function):
    """What is returned has memory; the temporary whose elements become those, in the last loop, has none."""
    _, plan = loops(function, *matrices(13, 40)[:1])
    assert ("temporary" not in plan) is (function in IN_ONE)


# --- loops in a row that are one, so that what is between them is a number ---------------------------------------------------


def squares(x, y):
    d = x - 0.5
    y[:, 0] = np.sum(d * d, axis=1)


def with_a_mask(x, y):
    d = x - 0.5
    e = d * d + 0.25
    e[e > 0.5] = 1.0 / e[e > 0.5]
    y[:, 0] = np.sum(d * e, axis=1)


def three_sums(x, y):
    d = x * 2.0
    e = d + x
    first, second, third = np.sum(d * x, axis=1), np.sum(d * e, axis=1), np.sum(e - d, axis=1)
    y[:, 0] = first - second * third


def of_two_arrays(x, y):
    d = x - y
    y[:, 0] = np.sum(d * x, axis=1)


def products(x, y):
    v = x[0]
    d = x - 0.5
    y[:, 0] = (d * d) @ v - (d + x) @ v


def nothing_but_products(x, y):
    y[:, 0] = (x * 2.0 - y * y) @ x[-1]


def in_turns(x, y):
    for t in qgraph.serial(range(3)):
        d = x + t
        e = d * y
        y[:, 0] = np.sum(e * d, axis=1) / 100.0


def with_numbers_between(x, y):
    d = x * 2.0
    for i in range(x.shape[0]):
        s = t = 0.0
        for k in range(x.shape[1]):
            s += d[i, k]
        p = x[i, 0]
        q = p * 2.0
        for k in range(x.shape[1]):
            t += d[i, k] * q
        y[i, 0] = s + t


JOINED = [with_numbers_between, squares, with_a_mask, three_sums, of_two_arrays, products, nothing_but_products, in_turns]


def needs_the_sum(x, y):
    d = x * 2.0
    total = d.sum(axis=1, keepdims=True)
    y[:, 0] = np.sum(d * total, axis=1)


def backwards(x, y):
    d = x * 2.0
    y[:, 0] = np.sum(d[:, ::-1] * x, axis=1)


def of_the_one_before(x, y):
    d = x * 2.0
    y[:, 0] = np.sum(d[:, 1:] * d[:, :-1], axis=1)


def of_the_first_only(x, y):
    d = x * 2.0
    y[:, 0] = np.sum(d[:, :-1], axis=1)


def changed_between(x, y):
    d = x * y
    s = np.sum(d * x, axis=1)
    x[:] = y[:, ::-1]
    y[:, 0] = np.sum(d * x, axis=1) + s


def of_one_element(x, y):
    d = x * 2.0
    y[:, 0] = np.sum(d * d[:, :1], axis=1)


def of_what_is_returned(x, y):
    d = x * 2.0
    y[:, 0] = np.sum(d * x, axis=1)
    return d


def of_the_other_end(x, y):
    d = x * 2.0
    y[:] = d + 1.0
    x[:, 0] = np.sum(d * y[:, ::-1], axis=1)


def of_the_other_end_of_another(x, y):
    d = x * 2.0
    y[:] = d + 1.0
    y[:, 0] = np.sum(d * x[:, ::-1], axis=1)


def by_a_number_of_the_loop_before(x, y):
    d = x * 2.0
    for i in range(x.shape[0]):
        s = t = 0.0
        for k in range(x.shape[1]):
            s += d[i, k]
        for k in range(x.shape[1]):
            t += d[i, k] * s
        y[i, 0] = t


def of_all_of_the_row(x, y):
    d, e = x * 2.0, x + 1.0
    for i in range(x.shape[0]):
        t = 0.0
        for k in range(x.shape[1]):
            s = 0.0
            for m in range(x.shape[1]):
                s += d[i, m]
            t += s * e[i, k]
        y[i, 0] = t


def where_the_loop_ended(x, y):
    d = x * 2.0
    for i in range(x.shape[0]):
        s, k = 0.0, 0
        for k in range(x.shape[1]):
            s += d[i, k]
        y[i, 0] = s + k


def that_ends_early(x, y):
    d = x * 2.0
    for i in range(x.shape[0]):
        s = 0.0
        for k in range(x.shape[1]):
            if d[i, k] > 1.5:
                break
            s += d[i, k]
        y[i, 0] = s


OTHERS = [
    of_the_other_end,
    of_the_other_end_of_another,
    by_a_number_of_the_loop_before,
    of_all_of_the_row,
    where_the_loop_ended,
    that_ends_early,
    needs_the_sum,
    backwards,
    of_the_one_before,
    of_the_first_only,
    changed_between,
    of_one_element,
    of_what_is_returned,
]


@pytest.mark.parametrize("size", [*SIZES, (40, 40), (3, 2)], ids=str)
@pytest.mark.parametrize("function", [*JOINED, *OTHERS])
def test_loops_in_a_row(check, function, size):
    check(function, lambda: matrices(*size), fuse=True, tolerance=1e-11)


@pytest.mark.parametrize("function", [*JOINED, *OTHERS])
def test_loops_in_a_row_of_one_array(check, function):
    def twice():
        (x, _) = matrices(13, 40)
        return x, x

    check(function, twice, fuse=True, tolerance=1e-11)


@pytest.mark.parametrize("function", JOINED)
def test_what_is_between_loops_in_a_row_needs_no_memory(function):
    _, plan = loops(function, *matrices(13, 40))
    assert not re.search(r"temporary [xdey0-9 ]*[-+*]", plan)


# Where no two arguments are one array these are joined.
@pytest.mark.parametrize("function", [each for each in OTHERS if each is not of_the_other_end_of_another])
def test_what_needs_a_row_in_memory(function):
    _, plan = loops(function, *matrices(13, 40))
    assert "temporary x * " in plan or "returned x * 2.0" in plan


def clamped(x, y):
    spread = np.std(x, axis=0)
    spread[spread <= 0.3] = 1.0
    y[:] = (x - np.mean(x, axis=0)) / spread


@pytest.mark.parametrize("size", [*SIZES, (70, 33)], ids=str)
def test_lanes_share_loops_around_a_choice(check, size):
    def some():
        # A column that is nearly constant, and one that is not.
        x, y = matrices(*size)
        x[:, 0] = 0.5
        return x, y

    check(clamped, some, fuse=True, tolerance=1e-11)
    plan = str(qgraph.kernel(clamped, backend="cuda", fuse=True).plan(*some()))
    assert "only combines values: up to 32 threads share them" in plan


def owners(x, y, cell, place):
    total = np.sum(x, axis=1)
    for i in qgraph.parallel(range(x.shape[0])):
        if cell[place[i]] == i:
            cell[place[i]] = -1
        y[i, 0] = total[i]


def test_only_the_owner_stores(check):
    """Several iterations look at one element, and one of them changes it: the others must not store what they have seen."""

    def arguments():
        return *matrices(40, 13), np.repeat(np.arange(0, 40, 8), 8), np.repeat(np.arange(0, 40, 8), 8)

    check(owners, arguments, fuse=True)
    plan = qgraph.kernel(owners, backend="cuda", fuse=True).plan(*arguments())
    (task,) = (task for task in plan.program.tasks() if task.role == "loop")
    assert any(isinstance(each, ast.If) for each in task.body)


def counts_and_halves(x, y, k):
    total = np.sum(x, axis=0)
    for i in range(x.shape[1]):
        if k[i] > 3:
            k[i] = 0.5
        y[0, i] = k[i] + total[i] * 0


def test_integers_beside_floats_keep_their_digits(check):
    """A choice between both would be a float, and is refused."""

    def some():
        x, y = matrices(13, 40)
        return x, y, np.arange(40) - 2**60 + 1

    check(counts_and_halves, some, fuse=True, tolerance=1e-11)


def where_there_is_one(x, y):
    v = x[0]
    total = np.sum(y, axis=1)
    for i in range(y.shape[0]):
        if i + 1 < v.shape[0] and v[i + 1] > 0.5:
            v[i + 1] = total[i]


def every_other(x, y):
    v = x[0]
    total = np.sum(y, axis=1)
    for i in range(y.shape[0]):
        if i % 2 == 0 and v[i // 2] > 0.5:
            v[i // 2] = total[i]


@pytest.mark.parametrize("function", [where_there_is_one, every_other])
def test_an_element_that_a_condition_keeps_from_an_iteration_is_not_stored(check, function):
    """It may be another iteration's, or of no array."""
    check(function, lambda: matrices(13, 13), fuse=True, tolerance=1e-11)
    (node,) = qgraph.kernel(function, backend="cuda", fuse=True).plan(*matrices(13, 13)).nodes
    assert any(isinstance(each, ast.If) for each in node.task.body)


def beside_a_fill(x, y):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = i + 2 * j
    total = np.sum(x, axis=1)
    return total


def test_loops_that_lanes_share_have_a_kernel_of_their_own(check):
    check(beside_a_fill, lambda: matrices(13, 40), fuse=True)
    plan = qgraph.kernel(beside_a_fill, backend="cuda", fuse=True).plan(*matrices(13, 40))
    assert len(plan.nodes) == 2
    assert not any(node.beside for node in plan.nodes)
    assert "threads share it" in str(plan)
