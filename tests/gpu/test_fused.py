"""Fused loops on the device: one node in the graph that CUDA has, and right values for every size without another one."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.driver import call, device, driver

SIZES = [(1000, 70_000, 300), (3, 0, 1), (0, 0, 2), (257, 256, 255), (1_000_000, 5, 40)]


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def nodes_of(kernel, *args):
    handle = kernel.bind(*args).graph.handle
    with device().activate():
        return call(driver.cuGraphGetNodes, handle)[1]


def apart(a, b, c):
    for i in range(a.shape[0]):
        a[i] += i
    for i in range(b.shape[0]):
        if b[i] > 3:
            continue
        b[i] = b[i] * 2 - i
    for i, j in qgraph.ndrange(c.shape[0], 3):
        c[i, j] = i * 3 + j


def args_of(n, m, k):
    return np.arange(n) % 5, np.arange(m, dtype=np.float32) % 7, np.zeros((k, 3), np.int32)


def same_as_python(kernel, make, *rest):
    expected, given = (*make(), *rest), (*make(), *rest)
    kernel.reference(*expected)
    moved = [on_device(each) if isinstance(each, np.ndarray) else each for each in given]
    kernel(*moved)
    for got, wanted in zip(moved, expected, strict=True):
        if isinstance(wanted, np.ndarray):
            np.testing.assert_array_equal(qgraph.to_numpy(got), wanted)


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("options", [{}, {"graph": False}, {"block_size": 64}], ids=str)
def test_loops_side_by_side_follow_the_sizes_without_another_graph(options):
    kernel = qgraph.kernel(backend="cuda", fuse=True, **options)(apart)
    for sizes in (*SIZES, *SIZES[::-1]):
        same_as_python(kernel, lambda sizes=sizes: args_of(*sizes))
    assert kernel.stats.graph_builds == 1
    assert (kernel.last_launch.nodes, kernel.last_launch.tasks) == (1, 3)


@pytest.mark.without_bounds_check
def test_loops_side_by_side_are_one_node():
    kernel = qgraph.kernel(backend="cuda", fuse=True)(apart)
    assert nodes_of(kernel, *map(on_device, args_of(5, 6, 7))) == 1


def turns(a, b, c, flag):
    while qgraph.graph_do_while(flag):
        for i in range(a.shape[0]):
            a[i] += 1
        for i in range(b.shape[0]):
            b[i] += 2
        for i in range(a.shape[0]):
            c[i] += a[i]
        flag[0] -= 1


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("conditional", ["auto", "host"])
def test_fused_loops_in_a_device_loop(conditional):
    kernel = qgraph.kernel(backend="cuda", fuse=True, conditional=conditional)(turns)
    for n, m in ((1, 0), (500, 90_000), (70_000, 3)):
        same_as_python(kernel, lambda n=n, m=m: (np.arange(n), np.arange(m), np.zeros(n, int), np.array([4])))
    assert kernel.stats.graph_builds == 1
    # Too large for one block. The first and the last loop are one, beside the second; then the statement, with the condition.
    assert kernel.last_launch.nodes == 3


def chain(a, b, c):
    s = 0.0
    for i in range(a.shape[0]):
        b[i] = a[i] + 1
    for i in range(a.shape[0]):
        c[i] = b[i] * b[i]
    for i in range(a.shape[0]):
        s += c[i] - b[i]
    return s


@pytest.mark.without_bounds_check
def test_joined_loops_with_a_sum():
    kernel = qgraph.kernel(backend="cuda", fuse=True)(chain)
    for n in (1, 1000, 300_000):
        a = (np.arange(n) % 11).astype(np.float64)
        b, c = np.zeros(n), np.zeros(n)
        moved = [on_device(each) for each in (a, b, c)]
        assert kernel(*moved) == kernel.reference(a, b, c)
        np.testing.assert_array_equal(qgraph.to_numpy(moved[2]), c)
    assert kernel.stats.graph_builds == 1
    assert kernel.last_launch.nodes <= 2


def filled(a, b, c):
    a[:] = 1.0
    b[:] = 2.0
    c[:] = 0


@pytest.mark.without_bounds_check
def test_fills_share_a_kernel():
    kernel = qgraph.kernel(backend="cuda", fuse=True)(filled)
    for sizes in ((5, 600, 70_000), (9, 0, 1)):
        same_as_python(kernel, lambda sizes=sizes: tuple(np.full(n, 7.0) for n in sizes))
    assert nodes_of(kernel, *(on_device(np.zeros(3)) for _ in range(3))) == 1
