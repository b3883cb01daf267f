"""New arrays that are never needed at the same time lie in the same memory, and nobody sees it but in the size of it."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

import qgraph
from qgraph.ir.program import tasks_of


def chain(x, y):
    a = x * 2.0
    b = np.flip(a, axis=0) + 1.0
    c = np.flip(b, axis=1) * a.shape[0]
    d = np.flip(c, axis=0) - 1.0
    y[:] = np.flip(d, axis=1)


def kept(x, y):
    a = x * 2.0
    b = np.flip(a, axis=0) + 1.0
    c = np.flip(b, axis=1) * 3.0
    y[:] = np.flip(c, axis=0) + a


def in_turns(x, y):
    for t in qgraph.serial(range(20)):
        a = np.flip(y, axis=0) * 0.5 + x
        b = np.flip(a, axis=1) - t
        c = np.flip(b, axis=0) * 0.5
        y[:] = np.flip(c, axis=1) + x


def around_turns(x, y):
    a = np.flip(x, axis=0) * 2.0
    for t in qgraph.serial(range(9)):
        b = np.flip(a, axis=1) + t
        a = np.flip(b, axis=0) * 0.5
    c = np.flip(a, axis=0) + 1.0
    y[:] = np.flip(c, axis=1)


def from_turn_to_turn(x, y):
    n = x.shape[0]
    before = np.empty((n, n))
    for t in qgraph.serial(range(n)):
        for j in range(n):
            before[t, j] = x[t, j] * 2.0
        after = np.flip(x, axis=0) + 1.0
        other = np.flip(after, axis=1)
        for j in range(n):
            y[t, j] = before[t // 2, j] + other[j, t]


def that_change_places(x, y):
    a, b = x * 2.0, x + 1.0
    for t in qgraph.serial(range(5)):
        c = np.flip(a, axis=0)
        d = np.flip(c, axis=1) + b
        b[:] = np.flip(d, axis=0) * 0.5
        a, b = b, a
    y[:] = a - b


def in_branches(x, y):
    a = np.flip(x, axis=0) * 2.0
    if x[0, 0] > 0:
        b = np.flip(a, axis=1) + 1.0
        c = np.flip(b, axis=0) * 2.0
        y[:] = np.flip(c, axis=1)
    else:
        b = np.flip(a, axis=1) - 1.0
        c = np.flip(b, axis=0) * 3.0
        y[:] = np.flip(c, axis=1)
    d = np.flip(y, axis=0)
    y[:] = np.flip(d, axis=1) + 1.0


def of_two_kinds(x, y):
    a = np.flip(x, axis=0) * 2.0
    s = np.sum(a, axis=0)
    b = np.flip(a, axis=1) + s
    u = np.sum(b, axis=1)
    c = np.flip(b, axis=0) - u
    y[:] = np.flip(c, axis=1)


def by_a_library(x, y):
    a = x @ x
    b = a @ x
    c = b @ np.flip(a, axis=0)
    d = c @ x + 1.0
    y[:] = d @ x


def while_it_shrinks(x, y):
    y[:] = x
    while np.max(np.abs(y)) > 0.5:
        a = np.flip(y, axis=0) * 0.75
        b = np.flip(a, axis=1) + y * 0.125
        y[:] = np.flip(b, axis=0) * 0.75


# How many pieces of memory hold the new arrays, of how many.
KERNELS = {
    chain: (2, 4),
    kept: (3, 3),
    in_turns: (2, 3),
    around_turns: (3, 4),
    from_turn_to_turn: (2, 2),
    that_change_places: (3, 3),
    in_branches: (5, 8),
    of_two_kinds: (3, 5),
    by_a_library: (3, 6),
    while_it_shrinks: (2, 2),
}


def matrices(n):
    return np.random.default_rng(n).normal(size=(n, n)), np.full((n, n), 7.0)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("function", KERNELS, ids=lambda function: function.__name__)
def test_the_same_comes_of_it(check, function, n, fuse):
    kernel = check(function, lambda: matrices(n), fuse=fuse, tolerance=1e-10)
    # Other sizes, in the memory that is there.
    check.__self__.compare(kernel, lambda: matrices(n + 3), tolerance=1e-10)


@pytest.mark.parametrize("function", KERNELS, ids=lambda function: function.__name__)
def test_how_much_memory_there_is(rig, function):
    temporaries = rig.kernel(function).plan(*matrices(5)).program.temporaries
    memories = {each.memory or each.leaf.name for each in temporaries}
    assert (len(memories), len(temporaries)) == KERNELS[function]


def touched(node):
    parts = (*node.tasks, *(() if node.what is None else (node.what,)))
    effects = [each.effects if hasattr(each, "effects") else each.touched for each in parts]
    control = () if node.control is None else tuple(tasks_of((node.control,)))
    effects += [each.effects for each in control]
    return {name for each in effects for name in each.touched}


def parts_apart(x, y):
    a = np.flip(x[0]) * 2.0
    y[0] = np.flip(a)
    b = y[1] + np.flip(x[1])
    y[2] = np.flip(b)


def turns_apart(x, y):
    for t in qgraph.serial(range(x.shape[0])):
        a = np.flip(x[t]) * 2.0
        b = np.flip(a) + 1.0
        c = np.flip(b) * 3.0
        y[t] = np.flip(c)


@pytest.mark.parametrize("function", [*KERNELS, parts_apart, turns_apart], ids=lambda function: function.__name__)
def test_nodes_that_touch_one_memory_have_an_order(function):
    """A backend without a GPU runs nodes one behind the other: there an edge that is missing shows in nothing else."""
    plan = qgraph.kernel(backend="cuda")(function).plan(*matrices(5))
    memory = {each.leaf.name: each.memory or each.leaf.name for each in plan.program.temporaries}
    for region in plan.regions:
        # Of two copies of the body of an unrolled loop, where it is one.
        loop = next((node for node in plan.nodes if region.index in node.bodies), None)
        counted = None if loop is None else loop.counted
        copies = 1 if counted is None else 2
        order = [(copy, node) for copy in range(copies) for node in region.nodes if counted is None or node != counted.node]
        edges = [((copy, early), (copy, late)) for copy in range(copies) for early, late in plan.edges if (copy, late) in order]
        edges += [((0, early), (1, late)) for early, late in (() if counted is None else counted.carried)]
        before = {place: set() for place in order}
        for place in order:
            for early, late in edges:
                if late == place and early in before:
                    before[late] |= before[early] | {early}
        for at, late in enumerate(order):
            for early in order[:at]:
                mine, others = ({name for name in touched(plan.nodes[k]) if name in memory} for _, k in (late, early))
                for one, other in itertools.product(mine, others):
                    assert one == other or memory[one] != memory[other] or early in before[late]


def two_ways(x, y):
    a = np.flip(x) * 2.0
    y[0] = np.flip(a)
    b = np.flip(x) + 1.0
    y[1] = np.flip(b)


def test_loops_of_a_graph_still_run_beside_each_other(rig):
    x, y, expected = np.random.default_rng(0).normal(size=6), np.zeros((2, 6)), np.zeros((2, 6))
    kernel = rig.kernel(two_ways)
    assert any(each.memory for each in kernel.plan(x, y).program.temporaries) == (rig.backend == "cpu")
    rig.run(kernel, x, y)
    two_ways(x, expected)
    np.testing.assert_allclose(y, expected)


def peak(run, *args):
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    run(*args)
    found = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return found


@pytest.mark.parametrize("function", [chain, in_turns, around_turns, by_a_library], ids=lambda function: function.__name__)
def test_no_more_than_numpy_takes(function):
    kernel, (x, y) = qgraph.kernel(backend="cpu")(function), matrices(300)
    for _ in range(3):
        # The second call prepares those that come, which run in another way.
        kernel(x, y.copy())
    assert peak(kernel, x, y.copy()) <= peak(kernel.reference, x, y.copy())
