"""Joins: where they stand, what they wait for, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def four_by_four(a, b, c, d, w, x, y, z):
    for i in range(a.shape[0]):
        a[i] = a[i] * 3 + i
    for i in range(b.shape[0]):
        b[i] = b[i] * 5 + i
    for i in range(c.shape[0]):
        c[i] = c[i] * 7 + i
    for i in range(d.shape[0]):
        d[i] = d[i] * 9 + i
    for i in range(w.shape[0]):
        w[i] = a[i] + b[i] + c[i] + d[i]
    for i in range(x.shape[0]):
        x[i] = a[i] - b[i] + c[i] + d[i]
    for i in range(y.shape[0]):
        y[i] = a[i] + b[i] - c[i] + d[i]
    for i in range(z.shape[0]):
        z[i] = a[i] + b[i] + c[i] - d[i]


def three_by_five(a, b, c, v, w, x, y, z):
    for i in range(a.shape[0]):
        a[i] += 1
    for i in range(b.shape[0]):
        b[i] += 1
    for i in range(c.shape[0]):
        c[i] += 1
    for i in range(v.shape[0]):
        v[i] = a[i] + b[i] + c[i]
    for i in range(w.shape[0]):
        w[i] = a[i] + b[i] + c[i]
    for i in range(x.shape[0]):
        x[i] = a[i] + b[i] + c[i]
    for i in range(y.shape[0]):
        y[i] = a[i] + b[i] + c[i]
    for i in range(z.shape[0]):
        z[i] = a[i] + b[i] + c[i]


def in_a_while(a, b, c, d, w, x, y, z):
    k = 0
    while k < 2:
        four_by_four_func(a, b, c, d, w, x, y, z)
        k += 1


four_by_four_func = qgraph.func(four_by_four)


def plan_of(function):
    return qgraph.kernel(function).plan(*(np.zeros(4, np.int64) for _ in range(8)))


def test_sixteen_edges_become_eight():
    plan = plan_of(four_by_four)
    assert [node.kind for node in plan.nodes] == ["kernel"] * 8 + ["join"]
    assert set(plan.edges) == {*((before, 8) for before in range(4)), *((8, after) for after in range(4, 8))}
    # In its region it stands where it runs.
    assert plan.regions[0].nodes == (0, 1, 2, 3, 8, 4, 5, 6, 7)
    assert "join of 4 nodes for 4  [line" in str(plan)
    assert "n8 -> n4;" in plan.to_dot()
    assert len(plan.tasks) == 8


def test_fifteen_edges_stay():
    plan = plan_of(three_by_five)
    assert {node.kind for node in plan.nodes} == {"kernel"}
    assert len(plan.edges) == 15


def test_in_the_body_of_a_loop():
    plan = plan_of(in_a_while)
    (join,) = (node for node in plan.nodes if node.kind == "join")
    assert join.region == 1
    assert join.index in plan.regions[1].nodes
    assert all(plan.nodes[index].region == 1 for edge in plan.edges if join.index in edge for index in edge)


@pytest.mark.parametrize("function", [four_by_four, in_a_while])
def test_joins_change_no_answer(function):
    kernel = qgraph.kernel(function, backend="cpu")
    got, wanted = ([np.arange(5) + k for k in range(8)] for _ in range(2))
    kernel(*got)
    kernel.reference(*wanted)
    np.testing.assert_array_equal(got, wanted)
