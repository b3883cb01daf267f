"""A loop that is all of a parallel loop's body: an axis where every pair of iterations is independent, else in order."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

POISON = 77.0


def grid(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


def blank(*shape):
    return np.full(shape, POISON)


def stencil(x, y):
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])


def three_deep(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                y[k, i, j] = x[i, j, k] * 2 + i - 10 * k


def steps(x, y):
    for i in range(x.shape[0] - 1, -1, -2):
        for j in range(1, x.shape[1], 3):
            y[i, j] = x[i, j] + i * j


def product(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            total = 0.0
            for k in range(x.shape[1]):
                total += x[i, k] * x[j, k]
            y[i, j] = total


def skipping(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if (i + j) % 3 == 0:
                continue
            half = x[i, j] / 2
            y[i, j] = half


def sizes(x, y, n, m):
    for i in range(n):
        for j in range(2, m):
            y[i, j] = x[i, j] + n


def summed(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            s += x[i, j]
    y[0, 0] = s


def first_of_the_least(x, y):
    least, row, column = 2.0, -1, -1
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] < least:
                least, row, column = x[i, j], i, j
    y[0, 0], y[0, 1], y[0, 2] = least, row, column


def zeroed(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = 0.0


def counted(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            qgraph.atomic_add(y, (0, int(x[i, j] * 4)), 1)


PAIRED = {
    stencil: 2,
    three_deep: 3,
    steps: 2,
    product: 2,
    skipping: 2,
    sizes: 2,
    summed: 2,
    first_of_the_least: 2,
    zeroed: 2,
    counted: 2,
}


def arguments(function, rows=9, columns=20):
    if function is three_deep:
        return grid(rows, columns, 3), blank(3, rows, columns)
    x = grid(rows, columns)
    if function is first_of_the_least:
        # Ties: the first one in program order wins.
        x = np.round(x, 1)
    y = blank(rows, max(rows, columns, 3)) if rows else blank(1, 3)
    return (x, y, rows, columns) if function in (sizes, from_the_end) else (x, y)


def axes_of(kernel, *args):
    return [len(task.axes) for task in kernel.plan(*args).tasks if task.axes]


@pytest.mark.parametrize("function", PAIRED)
def test_pairs_are_independent(check, function):
    kernel = check(function, lambda: arguments(function))
    assert axes_of(kernel, *arguments(function)) == [PAIRED[function]]
    assert "the loop inside (line " in str(kernel.plan(*arguments(function)))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 300), (300, 1), (17, 33)])
@pytest.mark.parametrize("function", [skipping, steps, summed, first_of_the_least])
def test_any_extents(rig, function, shape):
    rows, columns = (rig.size(extent) for extent in shape)
    nothing = (0 in shape and function is skipping) or (function is steps and (0 in shape or columns == 1))
    rig.check(function, lambda: arguments(function, rows, columns), noop=nothing)


def transposed(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[j, i] = x[i, j] + 1


@pytest.mark.parametrize("shape", [(40, 35), (3, 70), (70, 3), (32, 8)])
@pytest.mark.parametrize("options", [{}, {"block_size": 32}], ids=str)
def test_transposes_have_every_element(check, shape, options):
    check(transposed, lambda: (grid(*shape), blank(*shape[::-1])), **options)


def row_sums(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, 0] += x[i, j]


def triangle(x, y):
    for i in range(x.shape[0]):
        for j in range(i):
            y[i, j] = x[i, j]


def in_order(x, y):
    for i in range(x.shape[0]):
        for j in range(1, x.shape[1]):
            y[i, j] = y[i, j - 1] + x[i, j]


def left_early(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 0.7:
                break
            y[i, j] = x[i, j]


def with_else(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j]
        else:
            y[i, 0] = -1.0


def scattered(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, int(x[i, j] * 3)] = j


def from_the_end(x, y, n, m):
    for i in range(n):
        for j in range(m - 22, m):
            y[i, j] = x[i, j] + j


def few(x, y):
    for i in range(x.shape[0]):
        for j in range(3):
            y[i, j] = x[i, j]


def counted_by_the_device(x, y):
    for i in range(x.shape[0]):
        for j in range(int(x[0, 0] * 3) + 2):
            y[i, j] = x[i, j]


def changed_row(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j]
            i = i + 0  # noqa: PLW2901 - what is tested


def stepped(x, y):
    step = x.shape[0] - 7
    for i in range(x.shape[0]):
        for j in range(0, x.shape[1], step):
            y[i, j] = x[i, j]


def declared(x, y):
    for i in qgraph.parallel(range(x.shape[0])):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j]


def serial_inside(x, y):
    for i in range(x.shape[0]):
        for j in qgraph.serial(range(x.shape[1])):
            y[i, j] = x[i, j]


def more_than_a_loop(x, y):
    for i in range(x.shape[0]):
        y[i, 0] = 1.0
        for j in range(1, x.shape[1]):
            y[i, j] = x[i, j]


def taken_in_order(x, y):
    for i in range(x.shape[0]):
        for j in range(1, x.shape[1]):
            y[i, j] = qgraph.atomic_add(x, (i, 0), 1.0)


def last_one_stays(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            qgraph.atomic_exch(y, (i, 0), x[i, j])


@qgraph.func
def keep(a, i, value):
    qgraph.atomic_exch(a, (i, 0), value)


def last_one_stays_by_a_func(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            keep(y, i, x[i, j])


def one_row(x, y):
    for i in range(1):
        for j in range(x.shape[1]):
            qgraph.atomic_exch(y, (0, i), x[i, j])


ORDERED = [
    *(row_sums, from_the_end, triangle, in_order, left_early, with_else, scattered, few, counted_by_the_device, changed_row),
    *(stepped, declared, serial_inside, more_than_a_loop),
    *(taken_in_order, last_one_stays, last_one_stays_by_a_func, one_row),
]


@pytest.mark.parametrize("function", ORDERED)
def test_one_thread_has_a_row(check, function):
    kernel = check(function, lambda: arguments(function))
    assert axes_of(kernel, *arguments(function)) == [1]
    assert "the loop inside (line " not in str(kernel.plan(*arguments(function)))


def test_names_of_the_outer_loop_inside_a_func(check):
    @qgraph.func
    def scaled(a, b, factor):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                b[i, j] = a[i, j] * factor

    def twice(x, y):
        scaled(x, y, 2.0)
        scaled(y, x, 3.0)

    kernel = check(twice, lambda: (grid(6, 7), blank(6, 7)))
    assert axes_of(kernel, grid(6, 7), blank(6, 7)) == [2, 2]


def sum_of_all(x, total):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total[()] += x[i, j]


def test_a_reduction_over_a_nest_is_told_as_one():
    first = sum_of_all.__code__.co_firstlineno
    expected = f"independent: reduction into `total[()]`, the loop inside (line {first + 2}) included (line {first + 3})"
    assert expected in str(qgraph.kernel(sum_of_all).plan(np.ones((3, 4)), np.zeros(())))


def down_columns(x, y):
    for j in range(x.shape[1]):
        s = np.float32(0)
        for i in range(x.shape[0]):
            s += x[i, j] * x[i, j]
        y[0, j] = s


def products(x, y):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            s = np.float32(0)
            for k in range(y.shape[0]):
                s += x[i, k] * x[k, j]
            y[i, j] = s


def down_columns_from_behind(x, y):
    for j in range(x.shape[1] - 1, 0, -1):
        m = x[0, j]
        n = j % 3
        for i in range(1, x.shape[0]):
            m = max(m, x[i, j] + x[i, j - 1])
            n += i
        y[0, j] = m + n


@pytest.mark.parametrize("columns", [0, 1, 15, 16, 17, 40])
@pytest.mark.parametrize("function", [down_columns, products, down_columns_from_behind])
def test_loops_down_columns(check, function, columns):
    """On the CPU sixteen columns are gone down together, and what is left one by one."""
    rows = columns if function is products else 7

    def make_args():
        return grid(rows, columns).astype(np.float32), np.zeros((rows, columns), np.float32)

    check(function, make_args, noop=columns < 1 + (function is down_columns_from_behind))


def bits(x, y):
    for j in range(x.shape[1]):
        s = 1.0
        for i in range(x.shape[0]):
            s = (s + x[i, j]) * 0.75
        y[j] = s


def test_columns_together_have_the_bits_of_each_alone(rig):
    x = grid(50, 33)
    kernel = rig.kernel(bits)
    together, alone = np.zeros(33), np.zeros(33)
    rig.run(kernel, x, together)
    for j in range(33):
        rig.run(kernel, x[:, j : j + 1].copy(), alone[j : j + 1])
    np.testing.assert_array_equal(together, alone)


def beside_a_number(x, w):
    for i in range(x.shape[0]):
        for j in range(3):
            x[i] = j + w[()]


def test_a_loop_inside_reads_an_array_without_axes(check):
    check(beside_a_number, lambda: (np.zeros(5), np.array(2.5)))
