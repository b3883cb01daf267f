"""Programmatic edges on the device: kernels start early, and nobody sees what is not yet written."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import qgraph
from qgraph.runtime.cuda_driver import device, driver

PROGRAMMATIC = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)


@pytest.fixture(autouse=True)
def _needs_hopper():
    if device().capability < (9, 0):
        pytest.skip("compute capability below 9.0")


class EdgeData(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    )


def edge_types(kernel, *args):
    """The types of the edges of the root of a CUDA graph, as the driver tells them."""
    # Not through cuda.bindings 13.3, which gives the same data for every edge.
    get = ctypes.CDLL("libcuda.so.1").cuGraphGetEdges_v2
    graph, count = ctypes.c_void_p(int(kernel.bind(*args).graph.handle)), ctypes.c_size_t()
    with device().activate():
        assert get(graph, None, None, None, ctypes.byref(count)) == 0
        befores, afters = ((ctypes.c_void_p * count.value)() for _ in range(2))
        data = (EdgeData * count.value)()
        assert get(graph, befores, afters, data, ctypes.byref(count)) == 0
    return sorted(each.type for each in data)


def scramble(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i] * 3 + 1
    for i in range(x.shape[0]):
        x[i] = y[x.shape[0] - 1 - i] * 5 + 2
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i] * 7 + 3
    for i in range(x.shape[0]):
        x[i] = y[i] * 9 + x[i]


def expected(x, turns):
    for _ in range(turns):
        y = x * 3 + 1
        x = y[::-1] * 5 + 2
        y = x[::-1] * 7 + 3
        x = y * 9 + x
    return x


@pytest.mark.parametrize("n", [1, 255, 1024, 33_000, 200_000, 1_000_003, 5_000_000])
@pytest.mark.parametrize("conditional", ["device", "host"])
def test_a_chain_that_does_not_commute(n, conditional):
    @qgraph.kernel(backend="cuda", conditional=conditional)
    def kernel(x, y, turns):
        while qgraph.graph_do_while(turns):
            scramble_func(x, y)
            turns[()] -= 1

    rng = np.random.default_rng(n)
    x = rng.integers(-100, 100, n)
    for turns in (1, 2, 50):
        dx, dy = qgraph.asarray(x, backend="cuda"), qgraph.asarray(np.full(n, 77), backend="cuda")
        kernel(dx, dy, qgraph.asarray(np.array(turns), backend="cuda"))
        np.testing.assert_array_equal(qgraph.to_numpy(dx), expected(x, turns))


scramble_func = qgraph.func(scramble)


def test_sizes_that_move_between_one_block_and_all_of_the_device():
    kernel = qgraph.kernel(backend="cuda")(scramble)
    rng = np.random.default_rng(1)
    for n in (10, 4_000_000, 1000, 70_000, 3_000_000, 5, 300_000):
        x = rng.integers(-100, 100, n)
        dx, dy = qgraph.asarray(x, backend="cuda"), qgraph.asarray(np.full(n, 77), backend="cuda")
        kernel(dx, dy)
        np.testing.assert_array_equal(qgraph.to_numpy(dx), expected(x, 1))
        early = [each.early for each in kernel.bind(dx, dy)._arguments.executable._kernels.values()]
        if n <= 1000:
            assert early == [True, True, True, False]  # nobody waits for the last
        elif n >= 3_000_000:
            assert not any(early)
    assert kernel.stats.graph_builds == 1


def test_the_edges_of_the_graph_are_programmatic_between_kernels():
    def kernel(x, y):
        scramble_func(x, y)
        x[:] = 0

    arrays = [qgraph.asarray(np.ones(100, np.int64), backend="cuda") for _ in range(2)]
    assert edge_types(qgraph.kernel(backend="cuda")(scramble), *arrays) == [PROGRAMMATIC] * 3
    assert edge_types(qgraph.kernel(backend="cuda")(kernel), *arrays) == [0] + [PROGRAMMATIC] * 3


def test_several_that_wait_for_several():
    @qgraph.kernel(backend="cuda")
    def kernel(a, b, c, d):
        for i in range(a.shape[0]):
            a[i] = a[i] * 3 + 1
        for i in range(b.shape[0]):
            b[i] = b[i] * 5 + 2
        for i in range(c.shape[0]):
            c[i] = a[i] - b[c.shape[0] - 1 - i]
        for i in range(d.shape[0]):
            d[i] = a[d.shape[0] - 1 - i] + b[i]
        for i in range(a.shape[0]):
            a[i] = c[i] * d[a.shape[0] - 1 - i]

    for n in (7, 1000, 100_000, 2_000_000):
        rng = np.random.default_rng(n)
        a, b = rng.integers(-50, 50, n), rng.integers(-50, 50, n)
        arrays = [qgraph.asarray(each, backend="cuda") for each in (a, b, np.full(n, 77), np.full(n, 77))]
        kernel(*arrays)
        first, second = a * 3 + 1, b * 5 + 2
        np.testing.assert_array_equal(qgraph.to_numpy(arrays[0]), (first - second[::-1]) * (first[::-1] + second)[::-1])
