"""Which one-thread tasks join other kernels, and which stay. What the kernels compute is tested in tests/features."""

from __future__ import annotations

import numpy as np

import qgraph


def nodes_of(function, *arguments):
    """The plan, and the lines of the tasks of each node: those before, its own, those behind."""
    plan = qgraph.kernel(function).plan(*arguments)
    first_line = function.__code__.co_firstlineno
    lines = [
        tuple([task.span.line - first_line for task in tasks] for tasks in (node.first, [node.task], node.then))
        for node in plan.nodes
        if node.task is not None
    ]
    return plan, lines


def test_the_counter_of_a_do_while_and_its_condition_are_one_node():
    def kernel(x, n):
        while qgraph.graph_do_while(n):
            for i in range(x.shape[0]):
                x[i] += 1
            n[()] -= 1

    plan, lines = nodes_of(kernel, np.zeros(4), np.array(3))
    assert [node.kind for node in plan.nodes] == ["while", "kernel", "kernel"]
    assert lines == [([], [2], []), ([], [4], [1])]
    assert plan.edges == ()


def test_a_dot_product_is_one_node():
    def dot(x, y):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i] * y[i]
        return s

    plan, lines = nodes_of(dot, np.zeros(4), np.zeros(4))
    assert lines == [([1], [2], [4])]
    assert len(plan.tasks) == 3
    assert str(plan).index("first dot_") < str(plan).index("then dot_")


def test_two_reductions_that_do_not_touch_each_other_have_no_order():
    def kernel(x, y):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        t = 0.0
        for i in range(y.shape[0]):
            t += y[i]
        return s, t

    plan, lines = nodes_of(kernel, np.zeros(4), np.zeros(4))
    # Both beginnings are one node before both loops: neither loop waits for the other.
    assert lines == [([], [1], [4]), ([], [2], []), ([], [5], []), ([], [7], [])]
    assert plan.edges == ((0, 1), (0, 2), (1, 3), (2, 3))


def test_a_loop_without_reductions_takes_no_statements():
    def kernel(x, n):
        for i in range(x.shape[0]):
            x[i] += 1
        n[0] = x[0]

    assert nodes_of(kernel, np.zeros(4), np.zeros(1))[1] == [([], [1], []), ([], [3], [])]


def test_statements_with_loops_of_their_own_stay():
    def kernel(x, y):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        for _ in qgraph.serial(range(1000)):
            s *= 0.5
        return s

    assert nodes_of(kernel, np.zeros(4), np.zeros(4))[1] == [([1], [2], []), ([], [4], [])]


def test_a_beginning_with_a_loop_of_its_own_stays_before_the_iterations():
    def kernel(x, y):
        s = y[0]
        for _ in qgraph.serial(range(1000)):
            s *= 0.5
        for i in range(x.shape[0]):
            s += x[i]
        return s

    assert nodes_of(kernel, np.zeros(4), np.zeros(4))[1] == [([], [1], []), ([], [4], [6])]


def test_what_iterations_read_is_set_before_them():
    def kernel(x, y):
        s = 0.0
        k = y[0]
        for i in range(x.shape[0]):
            s += k * x[i]
        return s

    assert nodes_of(kernel, np.zeros(4), np.zeros(4))[1] == [([], [1], []), ([], [3], [5])]


def test_what_iterations_change_is_read_before_them():
    def kernel(x):
        s = x[0]
        for i in range(x.shape[0]):
            x[i] += 1.0
            s += x[i]
        return s

    def views(x, y):
        s = y[0]
        for i in range(x.shape[0]):
            x[i] += 1.0
            s += x[i]
        return s

    x = np.zeros(4)
    assert nodes_of(kernel, x)[1] == [([], [1], []), ([], [2], [5])]
    assert nodes_of(views, x, x)[1] == [([], [1], []), ([], [2], [5])]
    assert nodes_of(views, x, x.copy())[1] == [([1], [2], [5])]


def test_bounds_that_a_loop_reads_of_its_own_scalar_are_set_before_it():
    def kernel(x):
        s = 3
        for i in range(s):
            s += x[i]
        return s

    assert nodes_of(kernel, np.zeros(4, np.int64))[1][0][0] == []


def test_what_decides_comes_last():
    def kernel(x, y):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        if s > 1.0:
            for i in range(x.shape[0]):
                x[i] = 0.0
        y[0] = s

    plan, lines = nodes_of(kernel, np.zeros(4), np.zeros(4))
    decides = next(node for node in plan.nodes if node.then)
    assert [task.role for task in decides.then] == ["decide"]
    assert ([], [7], []) in lines


def test_a_task_that_waits_for_two_that_do_not_wait_for_each_other_stays():
    def kernel(x, y):
        s = t = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        for i in range(y.shape[0]):
            t += y[i]
        r = s / t
        for i in range(x.shape[0]):
            x[i] = r
        return r

    plan, lines = nodes_of(kernel, np.zeros(4), np.zeros(4))
    assert lines == [([], [1], []), ([], [2], []), ([], [4], []), ([], [6], [9]), ([], [7], [])]
    assert plan.edges == ((0, 1), (0, 2), (1, 3), (2, 3), (3, 4))


def test_a_kernel_sets_one_condition():
    """The test of the `while` would be set where the sum is, which decides the `if` already: a kernel has one handle."""

    def kernel(x, y):
        s = 0.0
        t = 0
        for i in range(x.shape[0]):
            s += x[i]
        if s > 1.0:
            y[:] = 2.0
        while t < y.shape[0]:
            for i in range(x.shape[0]):
                x[i] = t
            t += 1
        return t

    def alone(x, y):
        s = 0.0
        t = 0
        for i in range(x.shape[0]):
            s += x[i]
        while t < y.shape[0]:
            for i in range(x.shape[0]):
                x[i] = t
            t += 1
        return s, t

    plan, _ = nodes_of(kernel, np.zeros(4), np.zeros(4))
    assert [node.decision.role for node in plan.nodes if node.decision] == ["enter", "decide", "condition"]
    plan, _ = nodes_of(alone, np.zeros(4), np.zeros(4))
    sums, loop = plan.nodes[0], plan.nodes[1].control
    assert sums.task.reductions
    assert sums.decision is sums.first[-1] is loop.enter
