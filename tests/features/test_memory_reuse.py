"""New arrays that are never needed at the same time lie in the same memory, and nobody sees it but in the size of it."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import qgraph
from qgraph.ir.blocks import BlockShape
from qgraph.ir.program import tasks_of
from qgraph.lowering.graph.in_place import element_filled


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


def in_place(x, y):
    a = x * 2.0
    b = (a + 1.0) / 3.0
    c = b * b - x
    y[:] = np.flip(c, axis=0)


def needed_behind_it(x, y):
    a = x * 2.0
    b = a + 1.0
    y[:] = np.flip(b, axis=0) * a


def other_elements(x, y):
    a = x * 2.0
    b = a.T + 1.0
    c = b + b[:, :1]
    y[:] = np.flip(c, axis=0)


def other_types(x, y):
    a = x * 2.0
    b = a.astype(np.float32)
    y[:] = np.flip(b, axis=0)


def read_behind_the_store(x, y):
    a, b = x * 2.0, np.empty_like(x)
    for i, j in qgraph.ndrange(*x.shape):
        b[i, j] = a[i, j] + 1.0
        y[i, j] = a[i, j]
    for i, j in qgraph.ndrange(*x.shape):
        y[i, j] += b[i, j]


def stored_twice(x, y):
    a, b = x * 2.0, np.empty_like(x)
    for i, j in qgraph.ndrange(*x.shape):
        b[i, j] = 1.0
        b[i, j] = a[i, j] + b[i, j]
    y[:] = np.flip(b, axis=0)


def of_another_iteration(x, y):
    n = x.shape[1]
    a, b = x[0] * 2.0, np.empty(n)
    for i in range(n):
        s = a[i]
        i = n - 1 - i  # noqa: PLW2901 - the element is another one
        b[i] = s + 1.0
    for i in range(n):
        y[0, i] = b[i]


def of_another_place(x, y):
    n = x.shape[1]
    a, b = x[0] * 2.0, np.empty(n)
    for i in range(n):
        k = i
        s = a[k]
        k = n - 1 - i
        b[k] = s + 1.0
    for i in range(n):
        y[0, i] = b[i]


def by_rows(x, y):
    a, b = x * 2.0, np.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            b[i, j] = a[i, x.shape[1] - 1 - j]
    y[:] = np.flip(b, axis=0)


def with_a_sum(x, y):
    a, b, s = x * 2.0, np.empty_like(x), 0.0
    for i, j in qgraph.ndrange(*x.shape):
        s += a[i, j]
        b[i, j] = a[i, j] * a[i, j]
    y[:] = np.flip(b, axis=0) + s


def a_copy(x, y):
    a = np.flip(x, axis=0) * 2.0
    b = a.copy()
    c = np.sqrt(np.abs(b))
    y[:] = np.flip(c, axis=0)


def in_place_in_turns(x, y):
    for t in qgraph.serial(range(9)):
        a = np.flip(y, axis=0) * 0.5
        b = a + x
        c = np.flip(b, axis=1)
        d = c * 0.5 - t
        y[:] = d


def only_written(x, y):
    a, b = np.empty_like(x), np.empty_like(x)
    for i, j in qgraph.ndrange(*x.shape):
        a[i, j] = 7.0
        b[i, j] = x[i, j] + 1.0
    y[:] = np.flip(b, axis=0)


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
    in_place: (1, 3),
    needed_behind_it: (2, 2),
    other_elements: (2, 3),
    other_types: (2, 2),
    read_behind_the_store: (2, 2),
    stored_twice: (2, 2),
    of_another_iteration: (2, 2),
    of_another_place: (2, 2),
    by_rows: (2, 2),
    with_a_sum: (1, 2),
    a_copy: (1, 3),
    in_place_in_turns: (2, 3),
    only_written: (1, 2),
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


def of_two_shapes(x, y):
    a = np.flip(x, axis=0) * 2.0
    s = np.sum(a, axis=0)
    b = np.flip(a, axis=1) + s
    u = np.sum(b, axis=1)
    y[:] = np.flip(b, axis=0) - u[:, None]


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (6, 6)])
def test_calls_again_where_arrays_of_two_shapes_share_memory(rig, shape):
    kernel = rig.kernel(of_two_shapes)
    x, y, expected = np.random.default_rng().normal(size=shape), np.empty(shape), np.empty(shape)
    of_two_shapes(x, expected)
    for _ in range(5):
        y.fill(np.nan)
        rig.run(kernel, x, y)
        np.testing.assert_allclose(y, expected)


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


def before_it(x, y):
    a = np.flip(x, axis=0) * 2.0
    y[:] = np.flip(a, axis=1)
    return x * 0.5


def in_its_place(x, y):
    a = np.flip(x, axis=0) + 1.0
    b = np.flip(a, axis=1) * 2.0
    return b - y


def behind_it(x, y):
    out = x * 2.0
    a = np.flip(x, axis=0) + 1.0
    y[:] = np.flip(a, axis=1)
    return out


def of_another_shape(x, y):
    a = np.sum(x, axis=0)
    y[:] = x - a
    return y * 2.0


def two_of_them(x, y):
    a = np.flip(x, axis=0) + 1.0
    b = np.flip(a, axis=1) * 2.0
    c = np.flip(b, axis=0) - y
    return c, np.flip(c, axis=1) * 3.0


def in_one_branch(x, y):
    out = np.empty_like(x)
    if x.shape[0] > 2:
        out[:] = x * 3.0
        a = np.flip(x, axis=0) + 1.0
        y[:] = np.flip(a, axis=1)
    else:
        b = np.flip(x, axis=1) + 1.0
        out[:] = np.flip(b, axis=0)
    return out


# How many pieces of memory hold them and what is returned, of how many, on the CPU.
RETURNING = {
    before_it: (1, 2),
    in_its_place: (2, 3),
    behind_it: (2, 2),
    of_another_shape: (2, 2),
    two_of_them: (2, 4),
    in_one_branch: (2, 3),
}


@pytest.mark.parametrize("function", RETURNING, ids=lambda function: function.__name__)
def test_what_is_returned_is_the_callers(rig, check, function):
    kernel = check(function, lambda: matrices(5), tolerance=1e-10)
    given = [rig.run(kernel, *matrices(n)) for n in (5, 5, 5, 3, 1, 5)]
    for n, result in zip((5, 5, 5, 3, 1, 5), given, strict=True):
        np.testing.assert_allclose(result, function(*matrices(n)))
    arrays = [each for result in given for each in (result if isinstance(result, tuple) else (result,))]
    assert not any(np.shares_memory(*pair) for pair in itertools.combinations(arrays, 2))


@pytest.mark.parametrize("function", RETURNING, ids=lambda function: function.__name__)
def test_new_arrays_in_memory_that_is_returned(function):
    program = qgraph.kernel(backend="cpu")(function).plan(*matrices(5)).program
    arrays = (*program.returned, *program.temporaries)
    assert (len({each.memory or each.leaf.name for each in arrays}), len(arrays)) == RETURNING[function]


def test_a_graph_has_the_callers_arrays_alone():
    program = qgraph.kernel(backend="cuda")(in_its_place).plan(*matrices(5)).program
    assert not any(each.memory for each in program.temporaries)


def test_the_plan_tells_which_loops_work_in_place(rig):
    assert "in the memory of `x * 2.0`" in str(rig.kernel(in_place).plan(*matrices(5)))


def test_blocks_of_threads_do_not_work_in_place():
    """All threads of a block do an iteration: some would read what others have stored."""
    program = qgraph.kernel(backend="cuda")(needed_behind_it).plan(*matrices(5)).program
    loop = [task for task in program.tasks() if len(task.effects.touched) == 2][1]
    assert element_filled(loop)[0]
    assert element_filled(replace(loop, block=BlockShape((32, 1), 0, ""))) == ("", frozenset())


def scaled_product(x, y):
    a = x - np.mean(x, axis=0)
    return a.T @ a / (x.shape[0] - 1)


def after_sweeps(x, y):
    a = np.zeros_like(x)
    for t in qgraph.serial(range(3)):
        for i in range(x.shape[0]):
            a[i, 0] = y[t, i]
    y[:] = np.flip(a, axis=1)
    return y + 0.0


def of_an_inverse(x, y):
    a = np.flip(x, axis=0) * 2.0
    y[:] = np.linalg.inv(a) + np.triu(x, k=1)


def peak(run, *args):
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    run(*args)
    found = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return found


HUNGRY = [chain, in_turns, around_turns, by_a_library, in_place, scaled_product, after_sweeps, of_an_inverse]


@pytest.mark.parametrize("function", HUNGRY, ids=lambda function: function.__name__)
def test_no_more_than_numpy_takes(function):
    kernel, (x, y) = qgraph.kernel(backend="cpu")(function), matrices(300)
    for _ in range(3):
        # The second call prepares those that come, which run in another way.
        kernel(x, y.copy())
    # A row beside the matrices.
    assert peak(kernel, x, y.copy()) <= peak(kernel.reference, x, y.copy()) + 8 * y.shape[1]


def inverse_of(x, y):
    y[:] = np.linalg.inv(x)


def test_an_array_of_the_callers_is_as_it_was_where_there_is_no_answer():
    y = np.full((3, 3), 7.0)
    with pytest.raises(np.linalg.LinAlgError):
        qgraph.kernel(backend="cpu")(inverse_of)(np.zeros((3, 3)), y)
    assert (y == 7.0).all()
