"""Arrays of host callbacks on a device: the nodes, sizes of launches in flight, allocations of the graph, captures."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

import qgraph
from tests.gpu.test_nodes import kinds

SEEN: list = []


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def twice(x, *_others):
    time.sleep(0.01)
    SEEN.append(x.copy())
    x *= 2


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def stepped(x, y):
    for i in range(x.shape[0]):
        x[i] += 1
    qgraph.host_callback(twice, x, y, writes=x)
    for i in range(x.shape[0]):
        x[i] += y[i]


@pytest.mark.without_bounds_check
def test_the_nodes():
    k = qgraph.kernel(stepped, backend="cuda")
    x, y = on_device(np.arange(5.0)), on_device(np.ones(5))
    assert kinds(k, x, y) == ["HOST", "KERNEL", "KERNEL", "MEMCPY", "MEMCPY", "MEMCPY"]
    k(x, y)
    assert qgraph.to_numpy(x).tolist() == [3, 5, 7, 9, 11]


@pytest.mark.parametrize("options", [{}, {"graph": False}, {"conditional": "host"}])
def test_launches_in_flight_keep_their_sizes(options):
    k = qgraph.kernel(stepped, backend="cuda", **options)
    sizes = [5, 100_000, 0, 7, 5, 1_000_000, 5]
    arrays = [(on_device(np.arange(float(n))), on_device(np.full(n, float(n)))) for n in sizes]
    for x, y in arrays:
        k(x, y)
    qgraph.synchronize()
    for n, (x, _), seen in zip(sizes, arrays, SEEN, strict=True):
        np.testing.assert_array_equal(seen, np.arange(n) + 1.0)
        np.testing.assert_array_equal(qgraph.to_numpy(x), 2 * (np.arange(n) + 1.0) + n)
    assert k.stats.graph_builds == 1


def test_memory_of_the_graph():
    @qgraph.kernel(backend="cuda")
    def kernel(x):
        t = qgraph.empty(x.shape[0], alloc=True)
        t[:] = x + 1
        qgraph.host_callback(twice, t)
        x[:] = t

    for n in (5, 5, 9):
        x = on_device(np.arange(float(n)))
        kernel(x)
        np.testing.assert_array_equal(qgraph.to_numpy(x), 2 * (np.arange(n) + 1.0))


KEPT: list = []


def keep(x):
    KEPT.append(x)


def test_a_kept_array_outlives_the_kernel():
    def kernel(x):
        qgraph.host_callback(keep, x, writes=())

    k = qgraph.kernel(kernel, backend="cuda")
    k(on_device(np.arange(1000.0)))
    qgraph.synchronize()
    k.clear_cache()
    del k
    gc.collect()
    qgraph.synchronize()
    np.testing.assert_array_equal(KEPT.pop(), np.arange(1000.0))
    gc.collect()
    qgraph.synchronize()


def test_in_a_graph_that_torch_captures():
    torch = pytest.importorskip("torch")
    k = qgraph.kernel(stepped, backend="cuda")
    x, y = torch.zeros(100, device="cuda"), torch.ones(100, device="cuda")
    k(x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        k(x, y)
    # Later calls, of other sizes, leave it alone.
    k(torch.zeros(5000, device="cuda"), torch.ones(5000, device="cuda"))
    for _ in range(3):
        graph.replay()
    qgraph.synchronize()
    assert [len(seen) for seen in SEEN] == [100, 5000, 100, 100, 100]
    expected = 0.0
    for _ in range(4):
        expected = 2 * (expected + 1) + 1
    assert torch.equal(x, torch.full_like(x, expected))
