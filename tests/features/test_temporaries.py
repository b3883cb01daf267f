"""Arrays that a kernel makes for itself, gone with the launch."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import qgraph
from tests.features.topologies import reachable


@qgraph.func
def reversed_twice(x):
    t = qgraph.empty_like(x)
    for i in range(x.shape[0]):
        t[i] = x[i] * 2
    for i in range(x.shape[0]):
        x[i] = t[t.shape[0] - 1 - i]
    return t[0]


def of_all_kinds(x, n):
    z = qgraph.zeros((n, x.shape[0]), np.float32)
    w = np.full(3, 2.5)
    q = qgraph.zeros(())
    for i, j in qgraph.ndrange(*z.shape):
        z[i, j] += i + j
    c = 0
    while c < n:
        t = qgraph.zeros_like(x)
        for i in range(t.shape[0]):
            t[i] += x[i] + w[0]
        s = reversed_twice(t)
        for i in range(len(t)):
            x[i] = t[i]
        q[()] += s
        c += 1
    return z[n - 1, 1], q[()], z.size, z.ndim


def that_change_places(x, n):
    u = qgraph.empty(x.shape)
    v = qgraph.zeros(x.shape)
    for r in qgraph.serial(range(n)):
        for i in range(u.shape[0]):
            u[i] = v[i] + r + x[i]
        u, v = v, u
    for i in range(x.shape[0]):
        x[i] = v[i]


def fresh_in_each_iteration(x, n):
    for _ in qgraph.serial(range(n)):
        t = qgraph.full(x.shape[0], 3, np.int64)
        for i in range(x.shape[0]):
            t[i] += i
        for i in range(x.shape[0]):
            x[i] += t[i]


def sized(x, n):
    t = qgraph.zeros(n)
    for i in range(t.shape[0]):
        t[i] = i + 1
    for i in range(t.shape[0]):
        x[i] = t[n - 1 - i]


def of_the_graph(x, n):
    t = qgraph.zeros(n, np.int64, alloc=True)
    u = qgraph.empty_like(x, alloc=True)
    w = qgraph.full(n, 7, np.int64)
    for i in range(n):
        t[i] = x[i] * 3 + w[i]
    k = 0
    while k < 3:
        for i in range(n):
            u[i] = t[n - 1 - i] + k
        for i in range(n):
            t[i] = u[i] * 5
        k += 1
    del w, u
    for i in range(n):
        x[i] = t[i]
    del t
    for i in range(n):
        x[i] = x[i] * 2 + 1


@qgraph.func
def halves(x, n):
    t = qgraph.empty(n, alloc=True)
    for i in range(n):
        t[i] = x[i] / 2
    s = 0.0
    for i in range(n):
        s += t[i]
    del t
    return s


def freed_in_a_func(x, n):
    t = qgraph.full(n, 1.5)
    a = halves(x, n)
    b = halves(t, n)
    t = qgraph.zeros(n)
    for i in range(n):
        x[i] += t[i]
    return a, b


@pytest.mark.parametrize("n", [1, 2, 5])
def test_memory_of_the_graph_and_del(check, n):
    check(of_the_graph, lambda: (np.arange(5) + 1, n))


def test_memory_of_the_graph_in_a_func(check):
    check(freed_in_a_func, lambda: (np.arange(6.0), 4), noop=True)


def test_the_plan_shows_who_takes_the_memory_and_when():
    plan = qgraph.kernel(of_the_graph).plan(np.zeros(5, np.int64), 4)
    assert "temporary t: int64[n], memory of the graph" in str(plan)
    assert "temporary w: int64[n]\n" in str(plan)
    root = [plan.nodes[index] for index in plan.regions[0].nodes]
    assert [node.label for node in root if node.kind in ("alloc", "free")] == ["alloc t", "alloc u", "free u", "free t"]
    (alloc,) = (node for node in root if node.label == "alloc t")
    (free,) = (node for node in root if node.label == "free t")
    touching = [node for node in root if node.task is not None and _touches(node.task.effects, "_t_")]
    users = {node.index for node in touching} | {node.index for node in root if node.kind == "while"}
    assert len(users) == 4
    after = reachable(plan.edges, alloc.index)
    assert users <= after
    assert all(free.index in reachable(plan.edges, user) for user in users)
    # What comes later does not wait for it, and nothing of it touches the last loop.
    assert root[-1].kind == "kernel"
    assert free.index not in plan.waits[root[-1].index]


def _touches(effects, start):
    return any(name.startswith(start) for name in effects.reads | effects.writes)


def test_on_the_host_alloc_means_nothing():
    assert qgraph.zeros(3, alloc=True, backend="cpu").tolist() == [0, 0, 0]
    assert qgraph.empty((2, 3), np.int8, "cpu", alloc=False).shape == (2, 3)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_kinds_dtypes_and_calls(check, n):
    check(of_all_kinds, lambda: (np.arange(5.0), n))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_they_change_places(check, n):
    check(that_change_places, lambda: (np.arange(4.0) + 1, n), noop=n == 1)


def test_one_made_in_a_loop_is_new_each_time(check):
    check(fresh_in_each_iteration, lambda: (np.zeros(4), 3))


def test_sizes_grow_and_shrink(rig):
    kernel = rig.kernel(sized)
    for n in (3, 50, 1, 20, 51):
        x = np.full(60, 77.0)
        rig.run(kernel, x, n)
        np.testing.assert_array_equal(x[:n], np.arange(n, 0, -1))
        np.testing.assert_array_equal(x[n:], 77.0)
    assert kernel.stats.graph_builds == 1


def test_an_empty_one(check):
    check(sized, lambda: (np.zeros(3), 0), noop=True)


def test_a_negative_size_is_refused_before_anything_runs(rig):
    x = np.zeros(3)
    with pytest.raises(qgraph.ArgumentError, match="the size `n` of a temporary is -1"):
        rig.run(rig.kernel(sized), x, -1)
    assert not x.any()


def test_the_plan_shows_them():
    text = str(qgraph.kernel(of_all_kinds).plan(np.zeros(5), 2))
    assert "temporary z: float32[n, x.shape[0]]" in text
    assert "temporary q: float64[]" in text


def sized_on_the_device(x, k):
    t = qgraph.zeros(k[0])
    x[0] = t[0]


Pair = namedtuple("Pair", "first second")


def several_names(x, n):
    """Each array is made once, however many names it gets in one statement."""
    a = b = np.zeros(x.shape[0])
    b[0] = 9
    c = d = e = x * 2
    e[1] = a[0]
    d[2] = n
    (f, g) = h = (x + 1, np.full_like(x, 2.5))
    h[1][0] = 4
    f[3] = -1
    i, (j, k) = m = x - 1, (n, x * 3)
    m[0][0], m[1][1][1] = k[2], j
    p = q = Pair(x * 4, n)
    q.first[0] = p.second
    for t in qgraph.serial(range(n)):
        u = v = x * t
        v[t] = 50
        x[:] = u
    return b, c, g, h[0], k, i, p.first


def test_one_array_of_several_names(check):
    check(several_names, lambda: (np.arange(5.0), 2))


def no_dtype(x):
    t = qgraph.zeros(3, "object")
    x[0] = t[0]


def not_understood(x):
    t = qgraph.zeros(3, order="F")
    x[0] = t[0]


@pytest.mark.parametrize(
    ("function", "args", "error", "text"),
    [
        (sized_on_the_device, (np.zeros(2), np.ones(1, np.int64)), qgraph.KernelSyntaxError, "known on the device only"),
        (no_dtype, (np.zeros(2),), qgraph.KernelTypeError, "no dtype of an array"),
        (not_understood, (np.zeros(2),), qgraph.KernelSyntaxError, "is not understood"),
    ],
)
def test_what_is_refused(function, args, error, text):
    with pytest.raises(error, match=text):
        qgraph.kernel(function).plan(*args)
