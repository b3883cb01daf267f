"""Serial loops of parallel ones, turned inside out where no element needs another: the same numbers, and no launch a turn."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

INSIDE = "runs inside of each"


def cumulated(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        for i in range(x.shape[0]):
            y[i, j] = y[i, j - 1] + x[i, j]


def backwards(x, y):
    n = x.shape[1]
    for j in qgraph.serial(range(n - 2, -1, -1)):
        y[:, j] = y[:, j + 1] * 0.5 + x[:, j]


def by_threes(x, y):
    for j in qgraph.serial(range(2, x.shape[1], 3)):
        y[:, j] = y[:, j - 2] - x[:, j]


def with_numbers_of_the_turn(x, y):
    for j in qgraph.serial(range(x.shape[1])):
        before, weight = max(j - 1, 0), min(j, 1) * 0.5
        t = x[:, j] * weight
        y[:, j] = y[:, before] + t


def with_new_arrays(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        below = 2.0 + y[:, j - 1]
        y[:, j] = (x[:, j] + y[:, j - 1]) / below


def under_a_mask(x, y):
    z = np.zeros_like(x)
    for k in qgraph.serial(range(9)):
        near = z < 2.0
        y[near] = k
        z[near] = z[near] ** 2 + x[near]


def two_deep(x, y):
    for t in qgraph.serial(range(3)):
        for j in qgraph.serial(range(1, x.shape[1])):
            y[:, j] += y[:, j - 1] * x[:, t]


def narrow(x, y):
    z = np.zeros(x.shape[0], dtype=np.float32)
    for j in qgraph.serial(range(1, x.shape[1])):
        t = np.where(z > 1, 0, z) + np.float32(0.1)
        z[:] = t * np.float32(1.5)
        y[:, j] = z


def of_integers(x, y):
    n = np.zeros(x.shape[0], dtype=np.int8)
    for j in qgraph.serial(range(x.shape[1])):
        m = n + np.int8(100)
        n[:] = m
        y[:, j] = n


def for_points(x, y):
    for _t in qgraph.serial(range(4)):
        for p in qgraph.ndrange(x.shape[0], x.shape[1]):
            y[p] = y[p] * 0.5 + x[p]


TURNED = (
    *(cumulated, backwards, with_numbers_of_the_turn, with_new_arrays, under_a_mask, two_deep, narrow, of_integers),
    for_points,
)


def arrays():
    x = np.random.default_rng(0).random((5, 11))
    return x, np.ones_like(x)


@pytest.mark.parametrize("kernel", TURNED)
def test_each_element_goes_through_all_turns(check, kernel) -> None:
    check(kernel, arrays, fuse=True)
    assert INSIDE in str(qgraph.kernel(fuse=True)(kernel).plan(*arrays()))
    assert INSIDE not in str(qgraph.kernel(kernel).plan(*arrays()))


AXIS = "is an axis of it"


def rows_alone(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * 2


def rows_backwards(x, y):
    for i in qgraph.serial(range(x.shape[0] - 1, 0, -2)):
        t = x[i, :] + y[i, :]
        y[i, :] = t * t + max(i - 2, 0)


def averages(x, y):
    k = 3
    for i in qgraph.serial(range(x.shape[0] - k + 1)):
        for j in qgraph.serial(range(x.shape[1] - k + 1)):
            y[i, j] = np.sum(x[i : i + k, j : j + k]) / k**2


def convolution(x, y):
    out = np.zeros((x.shape[0] - 1, x.shape[1] - 1, y.shape[1]))
    for i in qgraph.serial(range(out.shape[0])):
        for j in qgraph.serial(range(out.shape[1])):
            out[i, j] = np.sum(x[i, j : j + 2, None] * y[:2], axis=0) + np.sum(x[i : i + 2, j, None] * y[2:4], axis=0)
    y[: out.shape[0], : out.shape[1]] = out[:, :, 1]


def halved(x, y):
    for i in qgraph.serial(range(x.shape[0] // 2)):
        y[i, : x.shape[1] // 2] = np.max(x[2 * i : 2 * i + 2, : x.shape[1] // 2], axis=0)


@pytest.mark.parametrize("kernel", [by_threes, rows_alone, rows_backwards, convolution, halved])
def test_turns_that_need_nothing_of_each_other_are_an_axis(check, kernel) -> None:
    check(kernel, arrays, fuse=True)
    assert AXIS in str(qgraph.kernel(fuse=True)(kernel).plan(*arrays()))
    assert AXIS not in str(qgraph.kernel(kernel).plan(*arrays()))


def test_windows_of_one_number(check) -> None:
    check(averages, arrays, fuse=True)


def beyond_the_end(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        y[i, :] = np.sum(x[i : i + 3], axis=0)


def of_any_width(x, y, k):
    for i in qgraph.serial(range(x.shape[0] - 2)):
        y[i, :] = np.sum(x[i : i + k], axis=0)


def of_its_own_width(x, y, k):
    for i in qgraph.serial(range(x.shape[0] - k + 1)):
        y[i % 5, :] += np.sum(x[i : i + k], axis=0)


def from_the_front(x, y):
    for i in qgraph.serial(range(x.shape[0] - 2)):
        y[i, :] = np.sum(x[i - 1 : i - 1 + 3], axis=0)


def while_the_device_says(x, y):
    n = np.zeros(1, dtype=np.int64)
    n[0] = x.shape[0] - 1
    for i in qgraph.serial(range(n[0])):
        y[i, :] = np.sum(x[i : i + 2], axis=0)
    for i, j in qgraph.serial(qgraph.ndrange(n[0], 2)):
        y[:2, j] += x[i : i + 2, 0]


def test_windows_of_a_range_that_only_the_device_knows(check) -> None:
    check(while_the_device_says, arrays)
    check(while_the_device_says, arrays, fuse=True)


@pytest.mark.parametrize("width", [2, 3, 4, 0, -1, -4])
def test_windows_that_may_stand_out_are_clipped(check, width) -> None:
    check(of_any_width, lambda: (*arrays(), width), fuse=True)
    check(of_its_own_width, lambda: (*arrays(), width), fuse=True, noop=width == 0)
    for kernel in (beyond_the_end, from_the_front) if width == 2 else ():
        check(kernel, arrays, fuse=True)


def of_a_neighbour(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        y[1:, j] = y[:-1, j - 1] + x[1:, j]


def of_all_rows(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        y[:, j] = x[:, j] + y[0, j - 1]


def of_two_ranges(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        y[:, j] = y[:, j - 1] + 1
        y[1:, j] += x[1:, j]


def one_element_for_two(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        for i in range(x.shape[0]):
            y[i // 2, 0] = j


def of_two_lengths(x, y):
    z = np.zeros((3, x.shape[1]))
    for j in qgraph.serial(range(1, x.shape[1])):
        y[:, j] = y[:, j - 1] + x[:, j]
        z[:, j] = z[:, j - 1] + 1
    y[:3, 0] = z[:, -1]


def of_one_element_of_a_new_array(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        t = x[:, j] * 2
        y[:, j] = y[:, j - 1] + t + t[0]


def of_a_new_array_backwards(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        t = x[:, j] * 2
        y[:, j] = t + t[::-1]


def of_the_array_before(x, y):
    t = x[:, 0] + 1
    for j in qgraph.serial(range(1, x.shape[1])):
        y[:, j] = t
        t = x[:, j] * 2


def ends_early(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        if y[0, j - 1] > 3:
            break
        y[:, j] = y[:, j - 1] + x[:, j]


def with_a_sum(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        y[:, j] = x[:, j] / np.sum(y[:, j - 1])


def carries_a_number(x, y):
    s = 0.0
    for j in qgraph.serial(range(1, x.shape[1])):
        y[:, j] = y[:, j - 1] + s
        s = s + 1.0


def of_data(x, y):
    at = np.zeros(1, dtype=np.int64)
    for j in qgraph.serial(range(x.shape[1])):
        for i in range(x.shape[0]):
            y[i, at[0]] = x[i, j]
        at[0] = at[0] + 1


KEPT = (
    *(of_a_neighbour, of_all_rows, of_two_ranges, of_two_lengths, of_one_element_of_a_new_array, of_a_new_array_backwards),
    *(one_element_for_two, of_the_array_before, ends_early, with_a_sum, carries_a_number, of_data),
)


@pytest.mark.parametrize("kernel", KEPT)
def test_what_needs_other_elements_or_numbers_stays_as_it_is(check, kernel) -> None:
    check(kernel, arrays, fuse=True)
    assert INSIDE not in str(qgraph.kernel(fuse=True)(kernel).plan(*arrays()))


def test_the_variable_after_the_loop(check) -> None:
    def last(x, y):
        j = 0
        for j in qgraph.serial(range(1, x.shape[1])):
            y[:, j] = y[:, j - 1] + x[:, j]
        y[0, 0] = j

    check(last, arrays, fuse=True)


def test_one_array_for_two(check) -> None:
    def shared():
        x = np.random.default_rng(1).random((5, 7))
        return x, x

    check(cumulated, shared, fuse=True)
    check(of_a_neighbour, shared, fuse=True)


def test_parts_of_one_array() -> None:
    x = np.random.default_rng(1).random((6, 7))
    with pytest.raises(qgraph.QGraphError, match="overlap"):
        qgraph.kernel(backend="cpu", fuse=True)(cumulated)(x[:-1], x[1:])


def test_new_arrays_of_one_turn_are_numbers() -> None:
    kernel = qgraph.kernel(backend="cpu", fuse=True)(with_new_arrays)
    told = str(kernel.plan(*arrays()))
    assert "reads x, y; writes y" in told


def of_a_window(x, y):
    for j in qgraph.serial(range(1, x.shape[1])):
        step = x[1:, j] + x[:-1, j]
        y[:-1, j] = y[:-1, j - 1] + step


def test_ranges_are_the_same_where_a_statement_compares_them(check) -> None:
    def several(x, y, z):
        for j in qgraph.serial(range(1, y.shape[1])):
            step = x[1:, j] + x[:-1, j]
            y[:, j] = y[:, j - 1] * 0.5 + step
            z[:, j] = z[:, j - 1] + y[:, j]

    def given():
        x, y = arrays()
        return x, y[1:].copy(), np.ones_like(y[1:])

    check(of_a_window, arrays, fuse=True)
    check(several, given, fuse=True)
    assert INSIDE in str(qgraph.kernel(backend="cpu", fuse=True)(several).plan(*given()))


def at_a_variable_that_changes(x, y):
    for t in qgraph.serial(range(y.shape[0])):
        left = x * 2.0
        for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
            i = x.shape[0] - 1 - i
            y[t, i, j] += left[i, j]


def test_elements_at_a_variable_that_changes(check) -> None:
    def given():
        x = np.random.default_rng(0).random((5, 11))
        return x, np.ones((3, 5, 11))

    check(at_a_variable_that_changes, given, fuse=True)
