"""alloc=True: the graph takes and frees the memory of a temporary, another size builds another graph, and joins are nodes."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.driver import call, device, driver
from tests.nodes.test_join import four_by_four

PATHS = {"device": {"conditional": "device"}, "host": {"conditional": "host"}, "stream": {"graph": False}}


def cuda_kernel(function, **options):
    return qgraph.kernel(backend="cuda", **options)(function)


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def kinds_of(handle):
    """The types of the nodes of a CUgraph, sorted, and how many edges it has."""
    with device().activate():
        count = call(driver.cuGraphGetNodes, handle)[1]
        nodes = call(driver.cuGraphGetNodes, handle, count)[0]
        types = [driver.CUgraphNodeType(int(call(driver.cuGraphNodeGetType, node))) for node in nodes]
        edges = call(driver.cuGraphGetEdges, handle)[-1]
    return sorted(type_.name.removeprefix("CU_GRAPH_NODE_TYPE_") for type_ in types), int(edges)


def reserved():
    """Bytes that the device holds for the allocation nodes of graphs."""
    attribute = driver.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
    with device().activate():
        return int(call(driver.cuDeviceGetGraphMemAttribute, call(driver.cuCtxGetDevice), attribute))


def backwards(x, n):
    t = qgraph.empty(n, np.int64, alloc=True)
    for i in range(n):
        t[i] = x[i] * 3 + i
    for i in range(n):
        x[i] = t[n - 1 - i]
    del t


def check(kernel, n, seed=0):
    x = np.random.default_rng(seed).integers(0, 1000, n)
    expected, y = x.copy(), on_device(x)
    kernel.reference(expected, n)
    kernel(y, n)
    np.testing.assert_array_equal(qgraph.to_numpy(y), expected)


@pytest.mark.without_bounds_check
def test_alloc_and_free_are_nodes():
    kernel = cuda_kernel(backwards)
    bound = kernel.bind(on_device(np.arange(5)), 5)
    kinds, edges = kinds_of(bound.graph.handle)
    assert kinds == ["KERNEL", "KERNEL", "MEM_ALLOC", "MEM_FREE"]
    # The chain; and the free node was made behind the allocation.
    assert edges in (3, 4)
    bound.launch()
    bound.launch()
    assert kernel.last_launch.nodes == 4


def test_another_size_builds_another_graph_and_is_counted():
    kernel = cuda_kernel(backwards)
    builds = 0
    last = None
    for seed, n in enumerate((5, 5, 5, 1000, 1000, 7, 7, 1 << 20, 7, 7)):
        builds += n != last
        last = n
        check(kernel, n, seed)
        assert kernel.stats.graph_builds == builds
    assert kernel.stats.compilations == 1
    assert kernel.stats.replays == 10


def test_other_arrays_of_the_same_size_need_no_other_graph():
    kernel = cuda_kernel(backwards)
    for seed in range(5):
        check(kernel, 100, seed)
    assert kernel.stats.graph_builds == 1


def test_many_launches_in_flight_and_sizes_that_change_meanwhile():
    kernel = cuda_kernel(backwards)
    arrays = [(n, np.arange(n), on_device(np.arange(n))) for n in (300_000, 10, 200_000)]
    for _ in range(6):
        for n, host, array in arrays:
            for _ in range(7):
                kernel(array, n)
                host[:] = (host * 3 + np.arange(n))[::-1]
    for _, host, array in arrays:
        np.testing.assert_array_equal(qgraph.to_numpy(array), host)


def filled_and_copied(x, y):
    t = qgraph.zeros(x.shape, np.float32, alloc=True)
    u = qgraph.empty_like(x, alloc=True)
    for i in range(x.shape[0]):
        t[i] += x[i]
    u[:] = t
    y[:] = u
    del t, u


@pytest.mark.without_bounds_check
def test_fills_and_copies_of_it():
    kernel = cuda_kernel(filled_and_copied)
    for n in (5, 0, 9, 9, 0, 5, 1000):
        x = np.arange(n, dtype=np.float32)
        y = on_device(np.full(n, -1, np.float32))
        if n == 5:
            kinds, _ = kinds_of(kernel.bind(on_device(x), y).graph.handle)
            assert kinds == sorted(["KERNEL", "MEMSET", *["MEMCPY"] * 2, *["MEM_ALLOC"] * 2, *["MEM_FREE"] * 2])
        kernel(on_device(x), y)
        np.testing.assert_array_equal(qgraph.to_numpy(y), x)


def in_loops(x, n, turns):
    t = qgraph.zeros(n, np.int64, alloc=True)
    w = qgraph.empty(n, np.int64)
    k = 0
    while k < turns:
        for i in range(n):
            t[i] += x[i] + k
        if k % 2 == 0:
            for i in range(n):
                w[i] = t[n - 1 - i]
        else:
            for i in range(n):
                w[i] = t[i] * 2
        for i in range(n):
            x[i] = w[i] % 1009
        k += 1
    s = 0
    for i in range(n):
        s += t[i]
    return s


@pytest.mark.parametrize("path", PATHS)
def test_around_loops_and_branches(path):
    kernel = cuda_kernel(in_loops, **PATHS[path])
    sizes = (6, 6, 900, 6)
    for n in sizes:
        x = np.arange(n)
        expected, y = x.copy(), on_device(x)
        wanted = kernel.reference(expected, n, 5)
        assert kernel(y, n, 5) == wanted
        np.testing.assert_array_equal(qgraph.to_numpy(y), expected)
    # Only one graph takes memory itself; elsewhere the arena has it.
    assert kernel.stats.graph_builds == (3 if path == "device" else 1)


def places_changed(x, n):
    u = qgraph.zeros(x.shape, np.int64, alloc=True)
    v = qgraph.zeros(x.shape, np.int64, alloc=True)
    for _ in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            u[i] = v[i] + x[i]
        u, v = v, u
    for i in range(x.shape[0]):
        x[i] = v[i]


def test_they_change_places():
    kernel = cuda_kernel(places_changed, conditional="device")
    for n, size in ((0, 5), (1, 5), (3, 5), (4, 8)):
        x = on_device(np.arange(size))
        kernel(x, n)
        np.testing.assert_array_equal(qgraph.to_numpy(x), np.arange(size) * n)


@pytest.mark.unsanitized(reason="counts memory, and the tool takes some")
def test_the_memory_is_given_back():
    # What earlier tests left goes first.
    gc.collect()
    device().free_retired()
    before = reserved()
    kernel = cuda_kernel(backwards)
    n = 1 << 25
    kernel(on_device(np.zeros(n, np.int64)), n)
    qgraph.synchronize()
    assert reserved() >= before + 8 * n
    check(kernel, 10)
    assert reserved() < before + 8 * n
    kernel.clear_cache()
    qgraph.synchronize()
    assert reserved() <= before


def sized(x, n):
    t = qgraph.empty(n, np.int64, alloc=True)
    for i in range(x.shape[0]):
        t[i] = x[i] + 1
    for i in range(x.shape[0]):
        x[i] = t[i]


@pytest.mark.unsanitized(reason="counts memory, and the tool takes some")
def test_too_much_memory_is_an_error_and_the_next_call_is_right():
    kernel = cuda_kernel(sized)
    x = on_device(np.zeros(5, np.int64))
    kernel(x, 5)
    with pytest.raises(qgraph.CudaError):
        kernel(x, 1 << 46)
        qgraph.synchronize()
    kernel(x, 5)
    kernel(x, 6)
    assert qgraph.to_numpy(x).tolist() == [3] * 5


def test_threads_with_sizes_of_their_own():
    kernel = cuda_kernel(backwards)

    def work(seed):
        for turn in range(20):
            check(kernel, 50 + 10 * seed, turn)

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(work, seed) for seed in range(3)]:
            future.result()


@pytest.mark.unsanitized(reason="destroys the context")
def test_after_a_reset():
    kernel = cuda_kernel(backwards)
    check(kernel, 9)
    qgraph.reset()
    check(kernel, 9)
    check(kernel, 10)


# --- joins --------------------------------------------------------------------------------------------------------------


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("path", PATHS)
def test_a_join_is_an_empty_node(path):
    kernel = cuda_kernel(four_by_four, **PATHS[path])
    arrays = [np.arange(300) + k for k in range(8)]
    on_the_device = [on_device(array) for array in arrays]
    bound = kernel.bind(*on_the_device)
    if path == "stream":
        with pytest.raises(qgraph.BackendError, match="does not run as one CUDA graph"):
            _ = bound.graph
    else:
        kinds, edges = kinds_of(bound.graph.handle)
        assert kinds == ["EMPTY", *["KERNEL"] * 8]
        assert edges == 8
    for _ in range(50):
        bound.launch()
        with np.errstate(over="ignore"):
            kernel.reference(*arrays)
    for got, wanted in zip(on_the_device, arrays, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(got), wanted)


# --- the raw graph ------------------------------------------------------------------------------------------------------


def counted(x, n):
    k = 0
    while k < n:
        for i in range(x.shape[0]):
            x[i] += 1
        k += 1


def test_the_raw_graph_can_be_walked_and_launched():
    kernel = cuda_kernel(counted, conditional="device")
    x = on_device(np.zeros(10, np.int64))
    bound = kernel.bind(x, 4)
    raw = bound.graph
    assert isinstance(raw.handle, driver.CUgraph)
    assert isinstance(raw.executable, driver.CUgraphExec)
    kinds, _ = kinds_of(raw.handle)
    assert sorted(set(kinds)) == ["CONDITIONAL", "KERNEL"]
    with device().activate():
        for _ in range(3):
            call(driver.cuGraphLaunch, raw.executable, 0)
    qgraph.synchronize()
    assert qgraph.to_numpy(x).tolist() == [12] * 10
    bound.launch()
    assert qgraph.to_numpy(x).tolist() == [16] * 10
    # Called with others, and asked again: the arguments are those that it is bound to.
    kernel(on_device(np.zeros(3, np.int64)), 1)
    with device().activate():
        call(driver.cuGraphLaunch, bound.graph.executable, 0)
    assert qgraph.to_numpy(x).tolist() == [20] * 10
    kernel.clear_cache()
    with device().activate():
        call(driver.cuGraphLaunch, bound.graph.executable, 0)
    assert qgraph.to_numpy(x).tolist() == [24] * 10


def test_there_is_no_raw_graph_where_the_host_drives():
    bound = cuda_kernel(counted, conditional="host").bind(on_device(np.zeros(3, np.int64)), 2)
    with pytest.raises(qgraph.BackendError, match="does not run as one CUDA graph"):
        _ = bound.graph


def test_there_is_no_raw_graph_of_numpy_arrays():
    bound = cuda_kernel(counted).bind(np.zeros(3, np.int64), 2)
    with pytest.raises(qgraph.BackendError, match="NumPy arrays"):
        _ = bound.graph
