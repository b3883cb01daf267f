"""Parallel loops whose range a serial loop's turn decides, and slices that a turn begins or ends: `range(i, n)`, `x[i:]`."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

AXIS = "is an axis of it"
INSIDE = "runs inside of each"


# --- kernels whose turns need nothing of each other, but for elements that an iteration has to itself ---


def from_the_turn_on(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n)):
        for j in range(i, n):
            y[i, j] = x[i, j] + i
            y[j, i] = x[j, i] * 2.0


def up_to_the_turn(x, y):
    for i in qgraph.serial(range(y.shape[0])):
        for j in range(i + 1):
            y[i, j] = x[i, j] - j


def upside_down(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n - 1, -1, -1)):
        for j in range(n - i - 1, n):
            y[i, j] = x[i, j] * i


def every_other(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(1, n, 2)):
        for j in range(2 * i, n):
            y[i, j] = x[i, j] + 1.0


def from_both_sides(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n)):
        for j in range(i, n - i):
            y[i, j] = -x[i, j]


def of_products(x, y):
    n = x.shape[1]
    z = np.zeros((n, n))
    for i in qgraph.serial(range(n)):
        z[i:, i] = z[i, i:] = x[:, i] @ x[:, i:] / (x.shape[0] + 1.0)
    y[:] = z


def of_slices(x, y):
    n = x.shape[0]
    z, w = np.zeros((n, n)), np.zeros((n, n))
    w[:] = x
    for i in qgraph.serial(range(n - 1)):
        z[i, i + 1 :] = w[i, i + 1 :] * 0.5
        z[i + 1 :, i] = w[i + 1 :, i] - i
    y[:] = z


def of_slices_to_the_turn(x, y):
    n = x.shape[0]
    z = np.zeros((n, n))
    for i in qgraph.serial(range(1, n)):
        t = z[0, :i] + 2.0
        z[i, :i] = t * i
    y[:] = z + x


def with_numbers(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n)):
        weight = i * 0.25
        for j in range(i, n):
            y[i, j] = x[i, j] * weight


def rows_in_turn(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(1, n)):
        for j in range(i, n):
            y[0, j] += x[i, j] * y[0, j]


# --- and those that stay as they are ---


def windows(x, y):
    for i in qgraph.serial(range(y.shape[0] - 2)):
        for j in range(i, i + 3):
            y[i, j] = x[i, j]


def that_need_each_other(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n - 1)):
        for j in range(i + 1, n):
            y[j, 0] -= y[i, 0] * x[j, i]


def by_steps(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n)):
        for j in range(i, n, 2):
            y[i, j] = x[i, j]


def two_ranges(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n)):
        for j in range(i, n):
            y[i, j] = x[i, j]
        for j in range(i):
            y[i, j] = -x[i, j]


def summed(x, y):
    n = y.shape[0]
    for i in qgraph.serial(range(n)):
        for j in range(i, n):
            for k in range(n):
                y[i, j] += x[i, k] * x[j, k]


def of_slices_of_unlike_arrays(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        y[i, i:] = x[i, i:]


KERNELS = {
    from_the_turn_on: AXIS,
    up_to_the_turn: AXIS,
    upside_down: AXIS,
    every_other: AXIS,
    from_both_sides: AXIS,
    of_products: AXIS,
    of_slices: AXIS,
    of_slices_to_the_turn: AXIS,
    with_numbers: AXIS,
    rows_in_turn: INSIDE,
    windows: "",
    that_need_each_other: "",
    by_steps: "",
    two_ranges: "",
    summed: AXIS,
    of_slices_of_unlike_arrays: "",
}


def matrices(n, seed=0):
    x, y = np.random.default_rng((seed, n)).normal(size=(2, n, n))
    return x, y


@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("function", KERNELS, ids=lambda function: function.__name__)
def test_any_range_of_a_turn(check, function, fuse, n):
    x, y = matrices(n)
    qgraph.kernel(function).reference(x, y)
    check(function, lambda: matrices(n), fuse=fuse, tolerance=1e-12, noop=np.array_equal(y, matrices(n)[1]))


@pytest.mark.parametrize("function", KERNELS, ids=lambda function: function.__name__)
def test_where_it_is_one_loop(function):
    plan = qgraph.kernel(fuse=True)(function).plan(*matrices(7))
    found = {how for how in (AXIS, INSIDE) if how in str(plan)}
    assert found == ({KERNELS[function]} if KERNELS[function] else set())
    assert any(node.label.startswith("serial") for node in plan.nodes) != bool(found)


def bounded(x, y, turns, n):
    for i in qgraph.serial(range(turns)):
        for j in range(i, n):
            y[i, j] = x[i, j]


@pytest.mark.parametrize(("turns", "n"), [(5, 7), (5, 3), (7, 7), (1, 1), (0, 5), (5, 0), (-3, 4), (4, -2), (-2, -2)])
def test_turns_and_ranges_of_all_lengths(check, turns, n):
    kernel = check(bounded, lambda: (*matrices(9), turns, n), fuse=True, noop=min(turns, n) <= 0)
    assert AXIS in str(kernel.plan(*matrices(9), turns, n))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "uint64"])
def test_bounds_of_any_type(check, dtype):
    number = np.dtype(dtype).type
    check(bounded, lambda: (*matrices(7), number(6), number(2)), fuse=True)


# --- slices that a turn begins or ends ---


def kept(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        row, rest = x[i], x[i, i:]
        y[i, 0] = row[0]
        y[i, i:] = rest[:] * 2.0 + row[0]


def kept_beside_the_turn(x, y):
    for i in qgraph.serial(range(1, x.shape[0] - 1)):
        before, after = x[i - 1], x[i + 1]
        y[i] = before + 2.0 * after
        y[i, :2] = x[i + 1] @ x[:, :2]


def kept_around_the_start(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        before = x[i - 1]
        y[i - 2] += before * i
        y[:, i - 1] -= x[:, i - 3]


def behind_the_end(x, y):
    for i in qgraph.serial(range(x.shape[1] + 3)):
        y[0, i:] += x[0, i:]
        y[1, :i] -= x[1, :i]


def below_the_start(x, y):
    for i in qgraph.serial(range(x.shape[1])):
        y[0, i - 2 :] += x[0, i - 2 :]
        y[1, : i - 2] -= x[1, : i - 2]


def beside_the_start(x, y):
    for i in qgraph.serial(range(2, x.shape[1])):
        y[0, i - 2 :] += x[0, i - 2 :]
        y[1, : i - 1] -= x[1, : i - 1]
        y[2, 1 : i - 1] -= x[2, 1 : i - 1]


def behind_its_own_end(x, y):
    for i in qgraph.serial(range(x.shape[1])):
        y[0, 2:i] += x[0, 2:i]
        y[1, i:2] -= x[1, i:2]


def windows_around_the_turn(x, y):
    n = x.shape[1]
    for i in qgraph.serial(range(1, n - 1)):
        y[0, i] = np.sum(x[0, i - 1 : i + 2])
        y[1, i - 1 : i + 2] += x[1, i - 1 : i + 2] * i
    for i in qgraph.serial(range(n)):
        y[2, i - 1 : i + 2] += x[2, i - 1 : i + 2]
        y[0, i + 1 : i - 1] += 1.0


def windows_of_two_speeds(x, y):
    n = x.shape[1]
    for i in qgraph.serial(range(n // 2)):
        y[0, 2 * i : 2 * i + 2] += x[0, 2 * i : 2 * i + 2] * i
        y[1, i : 2 * i] += x[1, i : 2 * i]
        y[2, i : n - 1] -= x[2, i : n - 1]
    for i in qgraph.serial(range(n - 1)):
        y[0, 2 * i : 2 * i + 2] += x[1, 2 * i : 2 * i + 2]


def nested(x, y):
    n = x.shape[1]
    for i in qgraph.serial(range(n)):
        for k in qgraph.serial(range(1, n - 1)):
            y[i, k:] += x[k, k:] * x[i, : n - k]
            y[k - 1, i:] -= 0.25 * x[i, i:]


def downwards(x, y):
    n = x.shape[1]
    for i in qgraph.serial(range(n - 1, 0, -2)):
        y[0, i:] += x[0, i:]
        y[1, :i] += x[1, :i]
        y[2, 1:i] -= x[0, 1:i]


def downwards_behind_the_end(x, y):
    n = x.shape[1]
    for i in qgraph.serial(range(n + 1, -3, -1)):
        y[0, i:] += x[0, i:]
        y[1, :i] += x[1, :i]


def with_a_step(x, y):
    for i in qgraph.serial(range(x.shape[1])):
        y[0, i::2] += x[0, i::2]
        y[1, :i:2] -= x[1, :i:2]


def two_arrays(x, y):
    z = np.zeros(2 * x.shape[1])
    for i in qgraph.serial(range(x.shape[1])):
        z[x.shape[1] + i :] += y[0, i:]
        z[i : x.shape[1]] += x[0, i:]
    y[1, :] = z[x.shape[1] :] + z[: x.shape[1]]


SLICES = (
    *(kept, kept_beside_the_turn, kept_around_the_start, behind_the_end, below_the_start, beside_the_start, behind_its_own_end),
    *(windows_around_the_turn, windows_of_two_speeds, nested, downwards, downwards_behind_the_end, with_a_step, two_arrays),
)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("n", [3, 8, 33])
@pytest.mark.parametrize("function", SLICES, ids=lambda function: function.__name__)
def test_slices_of_a_turn(check, function, n, fuse):
    check(function, lambda: matrices(n, 1), fuse=fuse, tolerance=1e-12)


def unlike(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        y[i:] = x[i:]


def test_slices_that_do_not_fit(rig):
    kernel = rig.kernel(unlike)
    y = rig.device(np.zeros(5))
    kernel(rig.device(np.ones(5)), y)
    assert np.asarray(y if rig.backend != "cuda" else y.numpy()).all()
    with pytest.raises(qgraph.ArgumentError, match=r"`x\[i:\]` has length"):
        kernel(rig.device(np.ones(5)), rig.device(np.zeros(8)))
        qgraph.synchronize()
