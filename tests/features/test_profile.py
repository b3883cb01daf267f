"""``kernel.profile``: the same answer, exact counts, and totals that add up."""

import time

import numpy as np
import pytest

import qgraph


@qgraph.kernel
def halving(x, tol):
    it = 0
    delta = tol + 1.0
    while delta > tol:
        delta = 0.0
        for i in range(x.shape[0]):
            x[i] = 0.5 * x[i]
            delta = max(delta, x[i])
        for i in range(x.shape[0]):
            x[i] = x[i] + 0.0
        it += 1
    return it


def test_counts_are_exact_and_parts_add_up():
    x, expected = np.ones(8), np.ones(8)
    iterations = halving.reference(expected, 0.1)
    began = time.perf_counter_ns()
    profile = halving.profile(x, 0.1)
    wall = time.perf_counter_ns() - began
    assert profile.result == iterations == 4
    np.testing.assert_array_equal(x, expected)
    (loop,) = [row for row in profile.rows if row.kind == "loop"]
    assert loop.count == iterations
    inside = [row for row in profile.rows if row.depth == 1]
    assert len(inside) >= 2
    assert {row.count for row in inside} == {iterations}
    assert 0 < sum(row.total for row in inside) <= loop.total <= profile.total <= wall
    assert "while delta > tol:" in str(profile)
    assert profile.to_dict()["rows"][profile.rows.index(loop)]["count"] == iterations


@pytest.mark.parametrize("n", [0, 3])
def test_a_kernel_that_returns_nothing(n):
    @qgraph.kernel
    def twice(x):
        for i in range(x.shape[0]):
            x[i] = 2.0 * x[i]

    x = np.ones(n)
    before = str(twice.plan(x))
    profile = twice.profile(x)
    assert profile.result is None
    np.testing.assert_array_equal(x, np.full(n, 2.0))
    assert [row.count for row in profile.rows if row.kind == "task"] == [1]
    assert str(twice.plan(x)) == before


def test_kernels_of_the_gpu_read_its_global_timer():
    halving.profile(np.ones(8), 0.1)
    profiled = "".join(halving._profiled.ptx(np.ones(8), 0.1).values())
    assert "%globaltimer" in profiled
    assert "%globaltimer" not in "".join(halving.ptx(np.ones(8), 0.1).values())
