"""``qgraph.serial``: iterations in order, with parallel loops inside (a counted device loop) or without."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph import serial as in_order

POISON = 77


def time_loop(u, v, steps):
    for t in qgraph.serial(range(steps)):
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.5 * u[i] + 0.25 * (u[i - 1] + u[i + 1]) + t
        for i in range(1, u.shape[0] - 1):
            u[i] = v[i]


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_a_time_loop(rig, steps):
    n = rig.size(300)
    rig.check(time_loop, lambda: (np.sin(np.arange(n)), np.zeros(n), steps), noop=steps == 0)


def test_the_number_of_steps_may_change_without_a_rebuild(rig):
    kernel = rig.kernel(time_loop)
    for steps in (3, 0, 5, -1, 1):
        rig.compare(kernel, lambda steps=steps: (np.arange(20.0) ** 2, np.zeros(20), steps), noop=steps <= 0)
    assert kernel.stats.compilations == 1
    assert kernel.stats.graph_builds == 1


def any_step(x, trace, lo, hi, step):
    for t in qgraph.serial(range(lo, hi, step)):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2 + t
        trace[t] = x[0]
    for t in qgraph.serial(range(hi - 1, lo, -3)):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 - t


def test_any_step_and_the_variable_seen_by_inner_loops(check):
    check(any_step, lambda: (np.arange(10), np.full(12, POISON), 2, 12, 4))
    check(any_step, lambda: (np.arange(10), np.full(12, POISON), 9, 1, -2))


def nested(x, log, n, m):
    for a in qgraph.serial(range(n)):
        for b in qgraph.serial(range(a, m)):
            for i in range(x.shape[0]):
                x[i] = (x[i] * 3 + 7 * a + b) % 1000
            log[a, b] = x[0]
        for i in range(x.shape[0]):
            x[i] += 1


def test_nested_serial_with_a_bound_from_the_outer_variable(check):
    check(nested, lambda: (np.arange(8), np.full((3, 4), POISON), 3, 4))


def triangular(x):
    for k in qgraph.serial(range(x.shape[0])):
        for i in range(k + 1, x.shape[0]):
            x[i] += x[k] * (i - k)
    for k in in_order(range(x.shape[0] - 1, 0, -1)):
        for i in range(k):
            x[i] -= x[k]


def test_a_parallel_bound_from_the_serial_variable(check):
    check(triangular, lambda: (np.arange(1, 10),))


def scan(x, total):
    for i in qgraph.serial(range(1, x.shape[0])):
        x[i] += x[i - 1]
    total[()] = x[x.shape[0] - 1]


def test_without_loops_inside_it_is_one_task(rig):
    kernel = rig.check(scan, lambda: (np.arange(40), np.array(0)))
    assert kernel.last_launch.tasks <= 2


def with_bound_on_the_device(x, n):
    for t in qgraph.serial(range(n[0])):
        for i in range(x.shape[0]):
            x[i] += t + 1
        n[0] = 1  # a range is read once, at its entry


def test_a_bound_is_read_once_at_the_entry(rig):
    kernel = rig.check(with_bound_on_the_device, lambda: (np.zeros(6, np.int64), np.array([4])))
    rig.compare(kernel, lambda: (np.zeros(6, np.int64), np.array([0])), noop=True)


def inside_a_loop(x):
    for i in range(x.shape[0]):
        for j in qgraph.serial(range(1, x.shape[1])):
            x[i, j] += x[i, j - 1]


def test_serial_inside_an_iteration_is_an_ordinary_loop(check):
    check(inside_a_loop, lambda: (np.ones((6, 5)),))


def swap_rows(x, y, n):
    for t in qgraph.serial(range(n)):
        if t % 2 == 0:
            x[0] = t
        else:
            x[1] = t
        for i in range(y.shape[0]):
            y[i] += x[0] * 10 + x[1]


def test_statements_and_ifs_inside_serial(check):
    check(swap_rows, lambda: (np.zeros(2, np.int64), np.zeros(5, np.int64), 5))


def parallel_word(x, index):
    for i in qgraph.parallel(range(x.shape[0])):
        x[index[i]] = i


def test_parallel_is_the_authors_word(check):
    check(parallel_word, lambda: (np.full(20, POISON), np.random.default_rng(5).permutation(20)))


def step_on_the_device(x, trace, k):
    for t in qgraph.serial(range(1, 12, k[0])):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2 + t
        k[0] = 1  # a range is read once, at its entry
        trace[t] = x[0]
    for t in qgraph.serial(range(8, k[1], k[2])):
        for s in qgraph.serial(range(0, 9, t)):
            for i in range(x.shape[0]):
                x[i] += s


@pytest.mark.parametrize(("up", "down"), [(4, -3), (1, -1), (50, -50)])
def test_a_step_read_on_the_device(check, up, down):
    check(step_on_the_device, lambda: (np.arange(5), np.full(12, POISON), np.array([up, 1, down])))


def over_a_grid(x, log, n, m):
    for i, j in qgraph.serial(qgraph.ndrange(n, (1, m))):
        for k in range(x.shape[0]):
            x[k] = (x[k] * 3 + 7 * i + j) % 1000
        log[i, j] = log[i, 0] = x[0]


@pytest.mark.parametrize(("n", "m"), [(3, 4), (1, 2), (4, 1), (0, 5), (2, 0)])
def test_over_a_grid_with_loops_inside(check, n, m):
    log = np.full((n, m), POISON)
    check(over_a_grid, lambda: (np.arange(8), log.copy(), n, m), noop=n * max(m - 1, 0) == 0)


def grid_with_bounds_on_the_device(x, trace, k):
    for a, b, c in qgraph.serial(qgraph.ndrange((k[0], k[1]), 2, (-1, k[2]))):
        k[0] = 0  # a range is read once, at its entry
        k[1] = 9
        k[2] = 9
        for i in range(x.shape[0]):
            x[i] = (x[i] * 5 + 100 * a + 10 * b + c) % 997
        trace[a, b, c] += x[1]
    area = qgraph.ndrange(3, x.shape[0])
    for t in qgraph.serial(range(2)):
        for r, s in qgraph.serial(area):
            for i in range(x.shape[0]):
                x[i] += r * s + t


def test_over_a_grid_whose_bounds_are_on_the_device(rig):
    def args(lo, hi, top):
        return np.arange(4), np.zeros((5, 2, 4), np.int64), np.array([lo, hi, top])

    kernel = rig.check(grid_with_bounds_on_the_device, lambda: args(1, 3, 2))
    rig.compare(kernel, lambda: args(2, 2, 2))
    rig.compare(kernel, lambda: args(0, 4, -3))


def last_value(x, tol):
    for k in qgraph.serial(range(50)):
        r = 0.0
        for i in range(x.shape[0]):
            x[i] = 0.5 * x[i]
            r += x[i]
        if r < tol:
            break
    return k, r


@pytest.mark.parametrize("tol", [1e3, 1.0, 0.0])
def test_the_variable_of_a_constant_loop_is_read_after_it(check, tol):
    check(last_value, lambda: (np.arange(8.0), tol))


def last_value_where_it_may_be_empty(x, n):
    k = -5
    for k in qgraph.serial(range(2, n, 3)):
        for i in range(x.shape[0]):
            x[i] += k
        if x[0] > 6:
            break
    else:
        x[1] = k
    x[2] = k
    for k in qgraph.serial(range(x[3])):
        for i in range(x.shape[0]):
            x[i] = 2 * x[i] + k
    return k


@pytest.mark.parametrize("n", [0, 3, 6, 20])
def test_a_variable_assigned_before_a_loop_that_may_be_empty(check, n):
    check(last_value_where_it_may_be_empty, lambda: (np.array([1, 2, 3, 0, 5]), n))
    check(last_value_where_it_may_be_empty, lambda: (np.arange(5), n))


def last_values_of_axes(x, n):
    i, j = 7, 8
    for i, j in qgraph.serial(qgraph.ndrange(n, (1, 3))):
        for t in range(x.shape[0]):
            x[t] = x[t] * 2 + i + j
    for a, b in qgraph.serial(qgraph.ndrange(2, (4, 7))):
        for t in range(x.shape[0]):
            x[t] += a * b
    return i, j, a, b


@pytest.mark.parametrize("n", [0, 2])
def test_the_variables_of_several_axes_after_their_loop(check, n):
    check(last_values_of_axes, lambda: (np.arange(4), n))


def last_value_of_one_thread(x, n):
    k = 9
    for k in qgraph.serial(range(n)):
        x[0] += k
    for t in qgraph.serial(range(3, 9, 2)):
        last = x[1] + t
        if last > 6:
            break
        for s in qgraph.serial(range(2)):
            inner = s + 5
            if s == x[1]:
                continue
            x[2] += inner
        x[3] += inner + s
    return k, t, last


@pytest.mark.parametrize("n", [0, 4])
def test_names_of_a_loop_of_one_thread_after_it(check, n):
    check(last_value_of_one_thread, lambda: (np.arange(5), n))


def surely_runs(x, limit):
    n = 4
    for _ in qgraph.serial(range(limit, 0, -1)):
        for t in qgraph.serial(range(n - 2)):
            alpha = x[0] * 2
            for i in range(x.shape[0]):
                x[i] = x[i] + alpha
                for s in range(3):
                    v = s + t
                    if v == 2:
                        break
                x[i] += v
            if alpha > 40:
                continue
            beta = alpha
            x[0] = beta
        x[1] += t + alpha
    return n


def test_names_assigned_in_a_loop_that_surely_runs(check):
    check(surely_runs, lambda: (np.arange(4) + 1, 3))


def changes_its_variable(x, n):
    for k in qgraph.serial(range(n)):
        k *= 2
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + k
        k += 1
        x[0] += k


def test_a_body_that_assigns_the_variable(check):
    check(changes_its_variable, lambda: (np.arange(4), 5))


def variable_twice(x, n):
    total = 0
    for t in qgraph.serial(range(3)):
        for k in qgraph.serial(range(1, t + 1)):
            for i in range(x.shape[0]):
                x[i] += k
        for k in qgraph.serial(range(4)):
            for i in range(x.shape[0]):
                x[i] = 2 * x[i] + k
        total += k
    if n > 2:
        for k in qgraph.serial(range(5)):
            for i in range(x.shape[0]):
                x[i] += i
    return total, k, t


@pytest.mark.parametrize("n", [0, 4])
def test_a_variable_of_several_loops(check, n):
    check(variable_twice, lambda: (np.arange(4), n))


# --- rows of matrices -------------------------------------------------------------------------------------------------


def rows_of_one_name(x, y):
    for i in qgraph.serial(range(1, x.shape[0])):
        row = x[i]
        y[i] = row * 2.0 + y[i - 1]


def rows_that_are_made(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        both = x[i] + y[i]
        y[i] = both / 2.0


def rows_of_two_loops(x, y):
    for i in qgraph.serial(range(x.shape[0])):
        for j in qgraph.serial(range(i)):
            step = x[i] - x[j]
            y[j] += step


def elements_of_two_variables(x, y):
    for i, j in qgraph.serial(qgraph.ndrange(x.shape[0], x.shape[1])):
        both = x[i] * x[i, j]
        y[i] += both


def of_a_tuple(x, y):
    for at in qgraph.serial(qgraph.ndrange(x.shape[0], x.shape[1])):
        here = x[at]
        y[at] = here * 2.0 + y[0, 0]


@pytest.mark.parametrize(
    "kernel", [rows_of_one_name, rows_that_are_made, rows_of_two_loops, elements_of_two_variables, of_a_tuple]
)
@pytest.mark.parametrize("columns", [1, 3, 5])
def test_rows_of_a_matrix(check, kernel, columns) -> None:
    def given():
        x = np.random.default_rng(0).random((4, columns))
        return x, np.ones_like(x)

    check(kernel, given)
    check(kernel, given, fuse=True)


@pytest.mark.parametrize("kernel", [rows_of_one_name, rows_that_are_made, rows_of_two_loops])
def test_rows_are_parallel_loops(kernel) -> None:
    x = np.ones((4, 5))
    plan = qgraph.kernel(backend="cpu")(kernel).plan(x, x.copy())
    assert any(task.axes for task in plan.tasks)


def over_arrays_of_the_iteration(x, y):
    for i in qgraph.serial(range(2)):
        part, twice = x[i:], x * 2
        for k, v in qgraph.serial(enumerate(part)):
            y[k] += v * (i + 1)
        for v, w in qgraph.serial(zip(twice, part)):
            y[0] = y[0] * 2 + v - w
        while y[0] < 100:
            fresh = np.full(2, 3.0)
            for v in qgraph.serial(fresh):
                y[0] += v


def test_over_arrays_that_get_their_names_in_the_same_loop(check):
    check(over_arrays_of_the_iteration, lambda: (np.arange(4.0), np.ones(4)))
