"""Kernels in graphs that others capture: replays do what the call did, and later calls leave them alone."""

from __future__ import annotations

import contextlib
import gc
import warnings

import numpy as np
import pytest

import qgraph


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@qgraph.kernel
def axpy(a, x, y):
    for i in range(x.shape[0]):
        y[i] += a * x[i]


@qgraph.kernel
def halve(x, flag, turns):
    while qgraph.graph_do_while(flag):
        for i in range(x.shape[0]):
            x[i] = x[i] / 2
        for i in range(1):
            turns[0] += 1
            flag[0] = 1 if x[0] > 1 else 0


@qgraph.kernel
def relax(u, v, tolerance, limit):
    """Loops, reductions, a branch, temporaries, fills and copies."""
    w = np.empty_like(u)
    turns = 0
    change = tolerance + 1
    while change > tolerance and turns < limit:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1]
            change = max(change, abs(v[i] - u[i]))
        for i in range(1, u.shape[0] - 1):
            u[i] = v[i]
        turns += 1
    if turns < limit:
        for i in range(u.shape[0]):
            w[i] = u[i]
    else:
        for i in range(u.shape[0]):
            w[i] = -1.0
    for i in range(u.shape[0]):
        v[i] = 0.0
    for i in range(u.shape[0]):
        v[i] += w[i] + turns


@contextlib.contextmanager
def captured_by_torch(torch):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        yield graph


@pytest.fixture
def warp():
    wp = pytest.importorskip("warp")
    wp.config.quiet = True
    wp.init()
    assert wp.is_cuda_available(), "Warp finds no device where there is one"
    with wp.ScopedDevice("cuda:0"):
        yield wp


def test_warp_captures_kernels(warp):
    x, y = (warp.full(1000, value, dtype=warp.float32) for value in (1.0, 0.0))
    big, turns = warp.full(100, 64.0, dtype=warp.float32), warp.zeros(1, dtype=warp.int64)
    flag = warp.full(1, 1, dtype=warp.int32)
    kernels = qgraph.kernel(axpy.__wrapped__), qgraph.kernel(halve.__wrapped__)
    kernels[0](2.0, x, y)
    kernels[1](big, flag, turns)
    assert turns.numpy() == 6
    y.zero_()
    warp.synchronize()
    with warp.ScopedCapture() as capture:
        y.fill_(1.0)
        big.fill_(8.0)
        kernels[0](2.0, x, y)
        kernels[1](big, flag, turns)
        assert [each.last_launch.path for each in kernels] == ["cuda-capture"] * 2
        with pytest.raises(qgraph.CudaError, match="captured"):
            qgraph.synchronize()
    assert not y.numpy().any()
    for replay in range(1, 4):
        warp.capture_launch(capture.graph)
        assert (y.numpy() == 3.0).all()
        assert turns.numpy() == 6 + 3 * replay
    # Its current stream, whichever that is.
    with warp.ScopedStream(warp.Stream("cuda:0")):
        for _ in range(3):
            y.fill_(5.0)
            kernels[0](2.0, x, y)
            assert (y.numpy() == 7.0).all()


@pytest.mark.parametrize("bound", [False, True], ids=["called", "bound"])
@pytest.mark.parametrize("warm", [1, 2, 5])
def test_torch_captures_a_kernel(torch, bound, warm):
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    k = qgraph.kernel(axpy.__wrapped__)
    launch = k.bind(2.0, x, y).launch if bound else lambda: k(2.0, x, y)
    for _ in range(warm):
        launch()
    torch.cuda.synchronize()
    y.zero_()
    with captured_by_torch(torch) as graph:
        y.add_(1)
        launch()
        y.mul_(2)
        launch()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.zeros_like(y))
    expected = torch.zeros_like(y)
    for _ in range(3):
        graph.replay()
        expected = (expected + 1 + 2) * 2 + 2
        launch()
        expected = expected + 2
    torch.cuda.synchronize()
    assert torch.equal(y, expected)


@pytest.mark.without_bounds_check
def test_later_calls_leave_a_captured_graph_alone(torch):
    x, y, other = torch.ones(100, device="cuda"), torch.zeros(100, device="cuda"), torch.zeros(5000, device="cuda")
    k = qgraph.kernel(axpy.__wrapped__)
    k(1.0, x, y)
    y.zero_()
    with captured_by_torch(torch) as graph:
        k(3.0, x, y)
        assert (k.last_launch.path, k.last_launch.nodes) == ("cuda-capture", 1)
    for _ in range(4):
        k(7.0, torch.ones(5000, device="cuda"), other)
        assert k.last_launch.path == "cuda-graph"
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 12.0))
    assert torch.equal(other, torch.full_like(other, 28.0))


def test_torch_captures_a_device_loop(torch):
    x, flag, turns = torch.zeros(1000, device="cuda"), *(torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(2))
    k = qgraph.kernel(halve.__wrapped__, conditional="device")
    x.fill_(100.0)
    k(x, flag, turns)
    with captured_by_torch(torch) as graph:
        turns.zero_()
        x.fill_(100.0)
        flag.fill_(1)
        k(x, flag, turns)
        x.mul_(3)
    for _ in range(3):
        x.fill_(-1.0)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(x, torch.full_like(x, 3 * 100.0 / 128))
        assert turns.item() == 7


@pytest.mark.parametrize("n", [3, 1000, 100_000])
@pytest.mark.parametrize("limit", [4, 10**6])
def test_torch_captures_everything(torch, n, limit):
    rng = np.random.default_rng(n + limit)
    start = rng.random(n)
    expected = start.copy(), np.zeros(n)
    k = qgraph.kernel(relax.__wrapped__)
    tolerance = 1e-2
    k.reference(*expected, tolerance, limit)
    u, v = torch.tensor(start, device="cuda"), torch.zeros(n, dtype=torch.float64, device="cuda")
    source = u.clone()
    k(u, v, tolerance, limit)
    np.testing.assert_allclose(v.cpu().numpy(), expected[1], rtol=1e-12)
    with captured_by_torch(torch) as graph:
        u.copy_(source)
        k(u, v, tolerance, limit)
    for _ in range(3):
        u.fill_(np.nan)
        v.fill_(np.nan)
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_allclose(u.cpu().numpy(), expected[0], rtol=1e-12)
        np.testing.assert_allclose(v.cpu().numpy(), expected[1], rtol=1e-12)


def test_what_has_nothing_to_do_is_captured(torch):
    @qgraph.kernel
    def k(x, y):
        for i in range(x.shape[0]):
            x[i] = 0.0
        for i in range(y.shape[0]):
            y[i] += 1.0

    empty, y = torch.empty(0, device="cuda"), torch.zeros(10, device="cuda")
    k(empty, y)
    with captured_by_torch(torch) as graph:
        k(empty, y)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 2.0))


@pytest.mark.parametrize("non_blocking", [True, False])
def test_cupy_captures_a_kernel(cupy, non_blocking):
    x, y = cupy.ones(100, cupy.float32), cupy.zeros(100, cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    axpy(2.0, x, y)
    cupy.cuda.Device().synchronize()
    with stream:
        y.fill(0)
        stream.begin_capture()
        axpy(2.0, x, y)
        axpy(1.0, x, y)
        graph = stream.end_capture()
        for _ in range(3):
            graph.launch(stream)
    stream.synchronize()
    assert bool((y == 9.0).all())


def test_forks_of_a_capture_join(torch):
    x, y, z = (torch.ones(1000, device="cuda") for _ in range(3))
    k = qgraph.kernel(axpy.__wrapped__)
    k(1.0, x, y)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    y.zero_(), z.zero_()
    with captured_by_torch(torch) as graph:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            k(2.0, x, z)
        k(3.0, x, y)
        torch.cuda.current_stream().wait_stream(side)
        k(1.0, z, y)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 5.0))


def test_graphed_callables_of_torch(torch):
    weights = torch.full((64,), 3.0, device="cuda")
    k = qgraph.kernel(axpy.__wrapped__)

    class Module(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            k(1.0, weights, y)
            return y

    sample = torch.ones(64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(Module(), (sample,))
    for value in (1.0, 5.0):
        torch.testing.assert_close(
            graphed(torch.full((64,), value, device="cuda")), torch.full((64,), 2 * value + 3, device="cuda")
        )


# --- lifetimes ----------------------------------------------------------------------------------------------------------


def test_what_a_captured_graph_uses_lives_as_long_as_it(torch):
    from qgraph.runtime.driver.captures import KeptForGraphs
    from qgraph.runtime.driver.driver import device

    x, flag, turns = torch.zeros(1000, device="cuda"), *(torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(2))
    k = qgraph.kernel(halve.__wrapped__)
    k(x, flag, turns)
    with captured_by_torch(torch) as graph:
        x.fill_(100.0)
        k(x, flag, turns)
    kept = device(0).once(KeptForGraphs)
    executable, lifetime = kept._alive[-1]
    released = executable._resources
    # The kernel may go: the graph has all that it needs.
    k.clear_cache()
    del k, executable
    gc.collect()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, torch.full_like(x, 100.0 / 128))
    assert not lifetime.over and not released.released
    graph.reset()
    del graph
    gc.collect()
    torch.cuda.synchronize()
    for _ in range(1000):
        if lifetime.over:
            break
        torch.cuda._sleep(1_000_000)
        torch.cuda.synchronize()
    assert lifetime.over
    # The next capture drops it, and the next executable that is built frees it.
    y = torch.zeros(1000, device="cuda")
    axpy(1.0, x, y)
    with captured_by_torch(torch):
        axpy(1.0, x, y)
    assert released not in [each._resources for each, _ in kept._alive if hasattr(each, "_resources")]
    qgraph.kernel(axpy.__wrapped__)(1.0, x, y)
    assert released.released


def test_many_captures_leave_nothing_behind(torch):
    from qgraph.runtime.driver.captures import KeptForGraphs
    from qgraph.runtime.driver.driver import device

    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    k = qgraph.kernel(axpy.__wrapped__)
    k(1.0, x, y)
    before = len(device(0).once(KeptForGraphs)._alive)
    for _ in range(100):
        with captured_by_torch(torch) as graph:
            k(1.0, x, y)
        graph.replay()
        torch.cuda.synchronize()
        graph.reset()
    torch.cuda.synchronize()
    # The driver says on a thread of its own that a graph is gone.
    assert len(device(0).once(KeptForGraphs)._alive) < before + 10


# --- what cannot be captured ----------------------------------------------------------------------------------------------


def refused(torch, call, match):
    other = torch.zeros(4, device="cuda")
    with captured_by_torch(torch) as graph:
        other.add_(1)
        with pytest.raises(qgraph.CudaError, match=match):
            call()
        other.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    # The capture went on.
    assert torch.equal(other, torch.full_like(other, 2.0))


def test_the_first_call_is_refused(torch):
    x, y = torch.ones(10, device="cuda"), torch.zeros(10, device="cuda")
    k = qgraph.kernel(axpy.__wrapped__)
    refused(torch, lambda: k(1.0, x, y), "not compiled for these arguments yet: nothing ran\nhelp: call it once before")
    k(1.0, x, y)
    torch.cuda.synchronize()
    assert torch.equal(y, x)


def test_returned_numbers_are_refused(torch):
    @qgraph.kernel
    def total(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        return s

    x = torch.ones(10, device="cuda")
    total(x)
    refused(torch, lambda: total(x), "would wait for the numbers that the kernel returns: nothing ran")


def test_generators_are_refused(torch):
    @qgraph.kernel
    def drawn(x, rng):
        for i in range(x.shape[0]):
            x[i] = rng.normal(i)

    x, rng = torch.ones(10, device="cuda"), qgraph.random.Generator(1)
    drawn(x, rng)
    refused(torch, lambda: drawn(x, rng), "would have the random numbers of this call: nothing ran")
    assert rng.step == 1


def test_loops_of_the_host_are_refused(torch):
    x, flag, turns = torch.ones(10, device="cuda"), *(torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(2))
    k = qgraph.kernel(halve.__wrapped__, conditional="host")
    k(x, flag, turns)
    refused(torch, lambda: k(x, flag, turns), "the host decides loops and branches of this kernel: nothing ran")


def test_arguments_that_do_not_fit_are_refused(torch):
    x, turns = torch.ones(10, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
    k = qgraph.kernel(halve.__wrapped__)
    k(x, turns.clone(), turns)
    with captured_by_torch(torch) as graph:
        x.mul_(1)
        with pytest.raises(qgraph.ArgumentError, match="has 2 elements"):
            k(x, torch.zeros(2, dtype=torch.int32, device="cuda"), turns)
    graph.replay()


def test_host_arrays_are_refused(torch):
    x = np.ones(10, np.float32)
    k = qgraph.kernel(axpy.__wrapped__, backend="cuda")
    y = torch.zeros(10, device="cuda")
    # Once a process.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qgraph.PerformanceWarning)
        k(1.0, x, y)
    refused(torch, lambda: k(1.0, x, y), "arrays of the host cannot be copied meanwhile: nothing ran")


def test_kernels_without_a_graph_are_captured(torch):
    x, y = torch.ones(10, device="cuda"), torch.zeros(10, device="cuda")
    k = qgraph.kernel(axpy.__wrapped__, graph=False)
    k(1.0, x, y)
    with captured_by_torch(torch) as graph:
        k(1.0, x, y)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 2.0))
