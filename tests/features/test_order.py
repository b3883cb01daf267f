"""Program order: loops and bare statements give what plain Python gives, and each is one task."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from tests.conftest import thorough
from tests.features.topologies import (
    Batch,
    Choice,
    Repeat,
    arguments_of,
    conflict,
    expected,
    function_of,
    make_batch,
    reachable,
    reduced_order,
)

POISON = 77


def two_loops(a, b):
    for i in range(a.shape[0]):
        a[i] += 1.0
    for i in range(b.shape[0]):
        b[i] += 10.0


def three_loops(a, b, c):
    for i in range(a.shape[0]):
        a[i] += 1.0
    for i in range(b.shape[0]):
        b[i] += 10.0
    for i in range(c.shape[0]):
        c[i] = a[i] + b[i]


def nine_loops(a, b, c):
    for i in range(a.shape[0]):
        a[i] = a[i] * 2.0 + 1.0
    for i in range(a.shape[0]):
        a[i] = a[i] * 3.0 + 2.0
    for i in range(a.shape[0]):
        b[i] = a[i] * 5.0 + 3.0
    for i in range(a.shape[0]):
        a[i] = b[i] * 7.0 + 4.0
    for i in range(a.shape[0]):
        c[i] = a[i] - b[i]
    for i in range(a.shape[0]):
        b[i] = c[i] * 0.5 + a[a.shape[0] - 1 - i]
    for i in range(a.shape[0]):
        c[i] = b[a.shape[0] - 1 - i] * 3.0 + 1.0
    for i in range(a.shape[0]):
        a[i] = a[i] * 0.25 + c[i]
    for i in range(a.shape[0]):
        a[i] = a[i] * 3.0 + 1.0


def small(count):
    return lambda: tuple(np.arange(n, n + 100.0) for n in range(count))


def test_2_3_and_9_loops_are_as_many_tasks_and_nodes(rig):
    for function, arrays, count in ((two_loops, 2, 2), (three_loops, 3, 3), (nine_loops, 3, 9)):
        kernel = rig.check(function, small(arrays))
        assert kernel.last_launch.tasks == count
        assert kernel.last_launch.nodes == count
        plan = kernel.plan(*small(arrays)())
        assert len(plan.tasks) == count
        assert len(plan.nodes) == count


def test_a_plus_1_b_plus_10_c_is_a_plus_b(rig):
    a, b, c = np.ones(50), np.full(50, 2.0), np.zeros(50)
    kernel = rig.kernel(three_loops)
    rig.run(kernel, a, b, c)
    assert (c == 14.0).all()
    rig.run(kernel, a, b, c)
    assert (a == 3.0).all()
    assert (b == 22.0).all()
    assert (c == 25.0).all()


def not_commutative(x, y):
    # A chain of x*m + b: any other order of the four gives another number.
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + 1
    for i in range(y.shape[0]):
        y[i] = x[y.shape[0] - 1 - i] * 5 + 2
    for i in range(x.shape[0]):
        x[i] = y[x.shape[0] - 1 - i] * 7 + 3
    for i in range(x.shape[0]):
        x[i] = x[i] * 11 + y[i]


def test_dependent_loops_run_in_program_order(check):
    check(not_commutative, lambda: (np.arange(700), np.zeros(700, np.int64)))


def read_before_write(x, y, z):
    # Nothing but write-after-read and write-after-write edges keep these apart.
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i]
    for i in range(x.shape[0]):
        x[i] = -1
    for i in range(x.shape[0]):
        z[i] = y[i]
    for i in range(x.shape[0]):
        y[i] = 5
    for i in range(x.shape[0]):
        z[z.shape[0] - 1 - i] += x[i]


def test_write_after_read_and_write_after_write(check):
    check(read_before_write, lambda: (np.arange(500), np.full(500, POISON), np.full(500, POISON)))


def bare_statements(x, counter, table, matrix):
    x[0] = 5.0
    counter[()] -= 1
    for i in range(x.shape[0]):
        x[i] = 0.0 + i + counter[()] if i > 0 else x[i] + 1.0
    x[x.shape[0] - 1] = x[1] + x[2]
    x[-2] *= 3.0
    if x[0] > 5.0 and counter[()] != 0:
        table[1] = 8
        table[2] = table[1] // 3
    elif counter[()] == 0:
        table[1] = 9
    else:
        table[1] = 10
    matrix[1, 2] = table[1] + table[2]
    for i in range(matrix.shape[0]):
        matrix[i, 0] = matrix[1, 2] + i
    counter[()] = counter[()] + 100


def test_bare_statements_run_where_they_stand(rig):
    def args(start):
        return lambda: (np.full(20, 77.0), np.array(start), np.zeros(4, np.int32), np.zeros((3, 3), np.float32))

    kernel = rig.check(bare_statements, args(7))
    rig.compare(kernel, args(1))
    plan = kernel.plan(*args(7)())
    # A run of neighbouring statements is one task: 3 runs and 2 loops, plus the last statement.
    assert len(plan.tasks) == 5
    assert [task.role for task in plan.tasks] == ["serial", "loop", "serial", "loop", "serial"]


def statement_only(x):
    x[0] += 1


def test_a_kernel_of_one_statement(check):
    check(statement_only, lambda: (np.zeros(3, np.int64),))


def nested_ifs(x, flags):
    if flags[0] > 0:
        if flags[1] > 0:
            x[0] = 1
        else:
            x[0] = 2
    if not flags[0]:
        x[1] = 3


def test_ifs_around_statements(rig):
    kernel = rig.kernel(nested_ifs)
    for first in (0, 1):
        for second in (0, 1):
            rig.compare(kernel, lambda a=first, b=second: (np.zeros(2), np.array([a, b])), noop=False)


def empty_kernel(x):
    pass


def test_a_kernel_that_does_nothing(check):
    check(empty_kernel, lambda: (np.ones(3),), noop=True)


# --- random topologies that do not commute -------------------------------------------------------------------------------

# For each backend: batches, topologies in each, and statements in a topology. On cuda these are 256 topologies.
PLAIN = {"cpu": (1, 4, 5), "sim": (3, 2, 5), "cuda": (4, 40, 6)}
NESTED = {"cpu": (1, 2, 3), "sim": (3, 2, 3), "cuda": (8, 12, 4)}
RUNS = {"cpu": 2, "sim": 1, "cuda": 5}


def batches_of(backend, sizes, depth):
    count, topologies, statements = sizes[backend]
    return [make_batch(1000 * depth + seed, topologies, statements, depth) for seed in range(count)]


def run_and_compare(rig, batch: Batch, folder):
    """The kernel leaves what the model says, on each run; so does plain Python."""
    function, _ = function_of(batch, folder)
    kernel = rig.kernel(function)
    for run in range(RUNS[rig.backend]):
        arguments = arguments_of(batch, run)
        wanted = expected(batch, arguments)
        if run == 0:
            plain = arguments_of(batch, run)
            with np.errstate(all="ignore"):
                kernel.reference(*plain)
            assert [array.tolist() for array in plain[: len(wanted)]] == wanted
        rig.run(kernel, *arguments)
        assert [array.tolist() for array in arguments[: len(wanted)]] == wanted
    assert kernel.stats.graph_builds == 1
    return kernel


def test_random_topologies_run_in_program_order(rig, tmp_path):
    for batch in batches_of(rig.backend, PLAIN, 0):
        run_and_compare(rig, batch, tmp_path)


def test_random_topologies_in_loops_and_branches(rig, tmp_path):
    for batch in batches_of(rig.backend, NESTED, 2):
        kernel = run_and_compare(rig, batch, tmp_path)
        if rig.backend == "cuda":
            assert kernel.last_launch.path == "cuda-graph"


def without_joins(plan):
    """The edges between nodes that do something."""
    edges = set(plan.edges)
    for join in (node.index for node in plan.nodes if node.kind == "join"):
        before = [edge for edge in edges if edge[1] == join]
        after = [edge for edge in edges if edge[0] == join]
        edges -= {*before, *after}
        edges |= {(first, last) for first, _ in before for _, last in after}
    return edges


@pytest.mark.parametrize("seed", [*range(8), *thorough(*range(8, 25))])
def test_edges_are_the_reduced_order_of_what_touches_the_same_memory(seed, tmp_path):
    batch = make_batch(seed, 3, 10, 0)
    function, places = function_of(batch, tmp_path)
    plan = qgraph.kernel(function).plan(*arguments_of(batch, 0))
    position = {line: k for k, line in enumerate(sorted(places))}
    assert len(plan.tasks) == len(batch.statements)
    edges = {tuple(position[plan.nodes[index].span.line] for index in edge) for edge in without_joins(plan)}
    assert edges == reduced_order(batch.statements)


@pytest.mark.parametrize("seed", [*range(4), *thorough(*range(4, 10))])
def test_in_loops_and_branches_too_what_touches_the_same_memory_has_an_order(seed, tmp_path):
    batch = make_batch(seed, 3, 4, 2)
    function, places = function_of(batch, tmp_path)
    plan = qgraph.kernel(function).plan(*arguments_of(batch, 0))
    checked = 0
    for region in plan.regions:
        # What a line of the program is in this region: a kernel, or a loop or branch with all that is in it.
        found = [(index, places.get(plan.nodes[index].span.line)) for index in region.nodes if is_statement(plan.nodes[index])]
        known = [(index, statement) for index, statement in found if statement is not None]
        for place, (index, statement) in enumerate(known):
            later = reachable(plan.edges, index)
            for other, following in known[place + 1 :]:
                if conflict(statement, following):
                    assert other in later
                    checked += 1
    assert checked > 8


def is_statement(node):
    return node.control is not None or (node.task is not None and node.task.role == "loop")


def test_the_topologies_hold_what_they_should():
    batches = [make_batch(seed, 4, 8, 2) for seed in range(20)]
    assert {loop.word for batch in batches for loop in loops_in(batch.statements)} == {"while", "serial", "do"}
    plans = [make_batch(seed, 3, 10, 0) for seed in range(25)]
    shared = [a.shares(b) and a != b for batch in plans for a in batch.views for b in batch.views if a.owner == b.owner]
    assert sum(shared) > 100


def loops_in(statements):
    for statement in statements:
        match statement:
            case Repeat():
                yield statement
                yield from loops_in(statement.body)
            case Choice():
                yield from loops_in((*statement.first, *statement.second))
