"""``while qgraph.graph_do_while(flag)``: counts, nesting, siblings, limits, and flags of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph import graph_do_while as again


def step(x, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] = x[i] + 1.0
        counter[()] -= 1


@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_counter_runs_the_body_that_often(rig, count):
    x, counter = np.zeros(10), np.array(count)
    rig.run(rig.kernel(step), x, counter)
    assert (x == count).all()
    assert counter == 0


def test_the_body_runs_at_least_once(rig):
    x, counter = np.zeros(10), np.array(1)
    kernel = rig.kernel(step, conditional="auto")
    rig.run(kernel, x, counter)
    counter[()] = 1
    rig.run(kernel, x, counter)
    assert (x == 2).all()


def only_once(x, flag):
    while qgraph.graph_do_while(flag):
        for i in range(x.shape[0]):
            x[i] += 1


def test_a_flag_that_is_zero_from_the_start(rig):
    kernel = rig.check(only_once, lambda: (np.zeros(4), np.array([0])))
    x = np.zeros(4)
    rig.run(kernel, x, np.array([0]))
    assert (x == 1).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_flags_of_every_integer_type(rig, dtype):
    def args():
        return np.zeros(4), np.array(3, dtype)

    rig.check(step, args)


def until_false(x, go, n):
    while qgraph.graph_do_while(go):
        for i in range(x.shape[0]):
            x[i] += 1
        if x[0] >= n:
            go[0] = False


def test_a_bool_flag_of_one_dimension(rig):
    kernel = rig.check(until_false, lambda: (np.zeros(5, np.int32), np.array([True]), 6))
    x = np.zeros(5, np.int32)
    rig.run(kernel, x, np.array([True]), 9)
    assert (x == 9).all()


def two_axes(x, go):
    while qgraph.graph_do_while(go):
        for i in range(x.shape[0]):
            x[i] += 1
        go[0, 0] -= 1


def test_a_flag_of_two_dimensions(check):
    check(two_axes, lambda: (np.zeros(3), np.array([[4]], np.uint8)))


def high_bits(x, flag):
    while qgraph.graph_do_while(flag):
        for i in range(x.shape[0]):
            x[i] += 1
        if x[0] >= 3:
            flag[()] = 0


@pytest.mark.parametrize("value", [1 << 32, -(1 << 63), 1 << 62, -1])
def test_any_nonzero_bit_means_again(rig, value):
    x = np.zeros(3)
    rig.run(rig.kernel(high_bits), x, np.array(value))
    assert (x == 3).all()


def nested_3x4(x, y, outer, inner):
    while qgraph.graph_do_while(outer):
        inner[()] = 4
        while qgraph.graph_do_while(inner):
            for i in range(x.shape[0]):
                x[i] += 1
            inner[()] -= 1
        for i in range(y.shape[0]):
            y[i] += 1
        outer[()] -= 1


def test_nested_3x4(rig):
    x, y = np.zeros(6, np.int64), np.zeros(3, np.int64)
    kernel = rig.kernel(nested_3x4)
    for round_ in (1, 2):
        rig.run(kernel, x, y, np.array(3), np.array(0))
        assert (x == 12 * round_).all()
        assert (y == 3 * round_).all()
    rig.check(nested_3x4, lambda: (np.zeros(6), np.zeros(3), np.array(3), np.array(0)))


def nested_2x3x2(x, a, b, c, trace):
    while qgraph.graph_do_while(a):
        b[()] = 3
        while qgraph.graph_do_while(b):
            c[()] = 2
            while qgraph.graph_do_while(c):
                for i in range(x.shape[0]):
                    x[i] = (x[i] * 3 + 1) % 10_007
                c[()] -= 1
            for i in range(x.shape[0]):
                x[i] = (x[i] * 5 + 2) % 10_007
            trace[1] += 1
            b[()] -= 1
        for i in range(x.shape[0]):
            x[i] = (x[i] * 7 + 3) % 10_007
        trace[0] += 1
        a[()] -= 1


def test_nested_2x3x2(rig):
    def args():
        return np.arange(5), np.array(2), np.array(9), np.array(9), np.zeros(2, np.int64)

    rig.check(nested_2x3x2, args)
    given = args()
    rig.run(rig.kernel(nested_2x3x2), *given)
    assert given[4].tolist() == [2, 6]


def siblings(x, y, first, second):
    while qgraph.graph_do_while(first):
        for i in range(x.shape[0]):
            x[i] += 1
        first[()] -= 1
    while qgraph.graph_do_while(second):
        for i in range(y.shape[0]):
            y[i] += x[i]
        second[()] -= 1


def test_siblings_5_and_3(rig):
    x, y = np.zeros(4, np.int64), np.zeros(4, np.int64)
    rig.run(rig.kernel(siblings), x, y, np.array(5), np.array(3))
    assert (x == 5).all()
    assert (y == 15).all()
    rig.check(siblings, lambda: (np.zeros(4), np.zeros(4), np.array(5), np.array(3)))


def before_inside_after(x, counter):
    for i in range(x.shape[0]):
        x[i] = 0
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] += 1
        counter[()] -= 1
    for i in range(x.shape[0]):
        x[i] += 5
    for i in range(x.shape[0]):
        x[i] *= 2


def test_loops_before_and_after_0_plus_100_plus_5_times_2(rig):
    x = np.full(3, 77, np.int64)
    rig.run(rig.kernel(before_inside_after), x, np.array(100))
    assert (x == 210).all()


def between(x, first, second):
    for i in range(x.shape[0]):
        x[i] = 1000
    while qgraph.graph_do_while(first):
        for i in range(x.shape[0]):
            x[i] += 10
        first[0] -= 1
    for i in range(x.shape[0]):
        x[i] *= 2
    while qgraph.graph_do_while(second):
        for i in range(x.shape[0]):
            x[i] += 4
        second[0] -= 1
    for i in range(x.shape[0]):
        x[i] -= 1040


def test_loops_between_1000_plus_40_plus_12(rig):
    x = np.full(3, 77, np.int32)
    rig.run(rig.kernel(between), x, np.array([4], np.int32), np.array([3], np.int32))
    assert (x == (1000 + 40) * 2 + 12 - 1040).all()
    assert (x == 1000 + 40 + 12).all()


def threshold(x, go, limit):
    while qgraph.graph_do_while(go):
        for i in range(x.shape[0]):
            x[i] += 0.75
        for i in range(x.shape[0]):
            if i == 0 and x[i] >= limit:
                go[()] = 0


def test_a_threshold_argument_ends_it(rig):
    kernel = rig.kernel(threshold)
    for limit in (3.0, 10.0, 0.5):
        x = np.zeros(4, np.float32)
        rig.run(kernel, x, np.array(1, np.int32), limit)
        expected = np.float32(0.75)
        while expected < limit:
            expected += np.float32(0.75)
        assert (x == expected).all()
    assert kernel.stats.compilations == 1
    assert kernel.stats.graph_builds == 1


def limited(x, flag, most):
    while qgraph.graph_do_while(flag, max_iter=most):
        for i in range(x.shape[0]):
            x[i] += 1
        flag[()] -= 1


def limited_by_constant(x, flag):
    while qgraph.graph_do_while(flag, 3):
        for i in range(x.shape[0]):
            x[i] += 1


def test_max_iter(rig):
    kernel = rig.kernel(limited)
    for flag, most, expected in ((10, 4, 4), (2, 4, 2), (5, 1, 1), (3, 3, 3)):
        x, left = np.zeros(3), np.array(flag)
        rig.run(kernel, x, left, most)
        assert (x == expected).all()
        assert left == flag - expected
    assert kernel.stats.compilations == 1
    assert kernel.stats.graph_builds == 1
    x = np.zeros(3)
    rig.run(rig.kernel(limited_by_constant), x, np.array(1))
    assert (x == 3).all()


@pytest.mark.parametrize("most", [0, -2])
def test_max_iter_below_one_is_refused_before_anything_runs(rig, most):
    x, flag = np.zeros(3), np.array(3)
    kernel = rig.kernel(limited)
    with pytest.raises(qgraph.ArgumentError, match="max_iter"):
        kernel(rig.device(x), rig.device(flag), most)
    assert (x == 0).all()


def nested_limited(x, outer, inner):
    while qgraph.graph_do_while(outer):
        while qgraph.graph_do_while(inner, max_iter=3):
            for i in range(x.shape[0]):
                x[i] += 1
        outer[()] -= 1


def test_an_inner_limit_starts_afresh_at_each_entry(rig):
    x = np.zeros(3, np.int64)
    rig.run(rig.kernel(nested_limited), x, np.array(4), np.array(1))
    assert (x == 12).all()


@dataclass
class State:
    x: Any
    counter: Any


def field_of_a_dataclass(state):
    while qgraph.graph_do_while(state.counter):
        for i in range(state.x.shape[0]):
            state.x[i] += 2
        state.counter[()] -= 1


def test_a_flag_in_a_dataclass(check):
    check(field_of_a_dataclass, lambda: (State(np.zeros(6), np.array(5)),))


def aliased_word(x, counter):
    while again(counter):
        for i in range(x.shape[0]):
            x[i] += 1
        counter[()] -= 1


def test_an_alias_of_the_word_means_the_word(rig):
    x = np.zeros(6)
    rig.run(rig.kernel(aliased_word), x, np.array(7))
    assert (x == 7).all()


def two_flags(x, y, a, b):
    while qgraph.graph_do_while(a):
        for i in range(x.shape[0]):
            x[i] += 1
        a[()] -= 1
    while qgraph.graph_do_while(b):
        for i in range(y.shape[0]):
            y[i] += 1
        b[()] -= 1


def test_swapped_and_alternating_flag_arrays(rig):
    kernel = rig.kernel(two_flags)
    first, second = rig.device(np.array(0)), rig.device(np.array(0))
    for turn in range(4):
        one, two = (first, second) if turn % 2 == 0 else (second, first)
        one[()], two[()] = 3 + turn, 2
        x, y = rig.device(np.zeros(3)), rig.device(np.zeros(3))
        kernel(x, y, one, two)
        assert (qgraph.to_numpy(x) == 3 + turn).all()
        assert (qgraph.to_numpy(y) == 2).all()
        assert qgraph.to_numpy(one) == 0
    assert kernel.stats.compilations == 1
    assert kernel.stats.graph_builds == 1


def test_a_new_flag_array_each_call(rig):
    kernel = rig.kernel(step)
    kept = []
    for count in (2, 5, 1, 3):
        x, flag = rig.device(np.zeros(4)), rig.device(np.array(count, np.int32))
        kept.append(flag)
        kernel(x, flag)
        assert (qgraph.to_numpy(x) == count).all()
    assert kernel.stats.graph_builds == 1


def flag_written_by_a_loop(x, residual, busy, tolerance):
    while qgraph.graph_do_while(busy, max_iter=500):
        busy[0] = 0
        for i in range(1, x.shape[0] - 1):
            residual[i] = 0.5 * (x[i - 1] + x[i + 1]) - x[i]
        for i in range(1, x.shape[0] - 1):
            x[i] += 0.9 * residual[i]
            if abs(residual[i]) > tolerance:
                qgraph.atomic_or_(busy, 0, 1)


def test_a_solver_that_stops_at_a_tolerance(rig):
    def args():
        x = np.zeros(12)
        x[0] = 1.0
        return x, np.zeros(12), np.array([1], np.int32), 1e-3

    rig.check(flag_written_by_a_loop, args)


def serial_and_do_while(x, counter):
    for t in qgraph.serial(range(3)):
        counter[()] = t + 1
        while qgraph.graph_do_while(counter):
            for i in range(x.shape[0]):
                x[i] = x[i] * 2 + t
            counter[()] -= 1


def do_while_around_serial(x, counter):
    while qgraph.graph_do_while(counter):
        for t in qgraph.serial(range(counter[()])):
            for i in range(x.shape[0]):
                x[i] = x[i] * 2 + t
        counter[()] -= 1


def test_do_while_and_serial_inside_each_other(check):
    check(serial_and_do_while, lambda: (np.arange(5), np.array(0)))
    check(do_while_around_serial, lambda: (np.arange(5), np.array(4)))


@pytest.mark.parametrize("conditional", ["auto", "host"])
def test_the_host_gives_the_same_answer(rig, conditional):
    rig.check(
        nested_2x3x2,
        lambda: (np.arange(5), np.array(2), np.array(9), np.array(9), np.zeros(2, np.int64)),
        conditional=conditional,
    )


@pytest.mark.needs("graph")
def test_conditional_host_is_named_in_last_launch(rig):
    kernel = rig.kernel(step, conditional="host")
    rig.run(kernel, np.zeros(4), np.array(3))
    assert kernel.last_launch.path == "cuda-host-loop"
    assert kernel.last_launch.reason


def test_tasks_and_nodes_of_a_do_while(rig):
    kernel = rig.kernel(step)
    rig.run(kernel, np.zeros(4), np.array(2))
    assert kernel.last_launch.tasks == 2
    assert kernel.last_launch.nodes == len(kernel.plan(np.zeros(4), np.array(2)).nodes)
