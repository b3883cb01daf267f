"""Calls that are the ones before them again: the driver's launch and little else, and never the wrong one."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qgraph
from qgraph.errors import CudaError
from qgraph.runtime.driver import native
from qgraph.runtime.driver.driver import call, device, driver
from tests.processes import printed_by

N = 5000


@pytest.fixture(params=["machine code", "Python"])
def way(request, monkeypatch):
    """How the driver is called when a call comes back."""
    monkeypatch.setattr(native, "may_launch", lambda: request.param == "machine code")
    return request.param


@pytest.fixture
def context(way):
    made = device(0)
    with made.activate():
        yield made


def scale(x, a):
    for i in range(x.shape[0]):
        x[i] = x[i] * 0.5 + a


def counted(x, left, a):
    while qgraph.graph_do_while(left):
        for i in range(x.shape[0]):
            x[i] += a
        left[()] -= 1


def total(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
        x[i] += 1.0
    return s


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def executable_of(kernel):
    return next(iter(kernel._cache.specialisations.values())).executable


def looks_of(kernel):
    """Counts the launches of the kernel's executable that are more than the driver's."""
    executable = executable_of(kernel)
    plainly, looked = executable.launch, []

    def launch(request, repeat=None):
        looked.append(request)
        return plainly(request, repeat)

    executable.launch = launch
    return looked


def halved(start, calls):
    for a in calls:
        start = start * 0.5 + a
    return start


@pytest.mark.parametrize("bound", [False, True])
def test_the_same_call(context, way, bound):
    kernel = qgraph.kernel(backend="cuda")(scale)
    x, y = on_device(np.full(N, 64.0)), on_device(np.zeros(N))
    run = kernel.bind(x, 1.0).launch if bound else lambda: kernel(x, 1.0)
    for _ in range(4):
        run()
    looked = looks_of(kernel)
    for _ in range(5):
        run()
    assert not looked
    assert (executable_of(kernel)._ready().direct is not None) == (way == "machine code")
    kernel(y, 3.0)
    run()
    assert len(looked) == 2
    np.testing.assert_array_equal(x.numpy(), halved(64.0, [1.0] * 10))
    np.testing.assert_array_equal(y.numpy(), 3.0)
    assert kernel.stats.replays == 11
    assert kernel.last_launch.path == "cuda-graph"


def test_numbers_that_change_and_come_back(context):
    kernel = qgraph.kernel(backend="cuda")(scale)
    x, expected = on_device(np.zeros(N)), 0.0
    for turn in range(60):
        a = float([1, 1, 1, 2, 1, 2, 2, 2, 3, 1][turn % 10])
        kernel(x, a)
        expected = expected * 0.5 + a
    np.testing.assert_array_equal(x.numpy(), expected)


def chain(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i] + 1.0
    for i in range(x.shape[0]):
        x[i] = y[i] * 0.5
    for i in range(y.shape[0]):
        y[i] += x[i]


@pytest.mark.parametrize("size", [7, N])
def test_new_arrays_each_time(context, way, size):
    kernel = qgraph.kernel(backend="cuda")(chain)
    random = np.random.default_rng(size)
    sent = [random.standard_normal((2, size)) for _ in range(12)]
    arrays = [(on_device(x), on_device(y)) for x, y in sent]
    # One launch is in flight while the next one is patched.
    for pair in arrays:
        kernel(*pair)
    assert (executable_of(kernel)._patches._run is not None) == (way == "machine code")
    for (x, _), (dx, dy) in zip(sent, arrays, strict=True):
        expected = (x + 1.0) * 0.5
        np.testing.assert_array_equal(dx.numpy(), expected)
        np.testing.assert_allclose(dy.numpy(), x + 1.0 + expected, rtol=1e-15)


def test_a_launch_that_the_driver_refuses(context):
    kernel = qgraph.kernel(backend="cuda")(scale)
    x = on_device(np.zeros(N))
    bound = kernel.bind(x, 1.0)
    for _ in range(3):
        bound.launch()
    qgraph.synchronize()
    before = kernel.stats.replays
    # The default stream would have to wait for this one.
    stream = call(driver.cuStreamCreate, 0)
    call(driver.cuStreamBeginCapture, stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    with pytest.raises(CudaError, match="cuGraphLaunch failed with CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
        bound.launch()
    driver.cuStreamEndCapture(stream)
    call(driver.cuStreamDestroy, stream)
    assert kernel.stats.replays == before
    bound.launch()
    np.testing.assert_array_equal(x.numpy(), halved(0.0, [1.0] * 4))


def test_loops_that_become_long_and_short_again(context):
    kernel = qgraph.kernel(backend="cuda")(counted)
    x, left, expected = on_device(np.zeros(100)), on_device(np.array(1)), 0.0
    bound = kernel.bind(x, left, 1.0)
    for turns in (2, 2, 2, 2, 300, 300, 300, 300, 300, 3, 3, 3, 3, 3, 300, 300, 300, 300, 1, 1, 1):
        left.fill(turns)
        bound.launch()
        expected += turns
        # The host learns how long the loop was.
        np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("bound", [False, True])
def test_a_kernel_that_returns_a_number(context, bound):
    kernel = qgraph.kernel(backend="cuda")(total)
    x = on_device(np.zeros(100))
    run = kernel.bind(x).launch if bound else lambda: kernel(x)
    assert [run() for _ in range(6)] == [100.0 * turn for turn in range(6)]


def test_other_streams_in_between(context):
    kernel = qgraph.kernel(backend="cuda")(scale)
    streams = [call(driver.cuStreamCreate, 1) for _ in range(2)]
    x = on_device(np.full(N, 8.0))
    bound = kernel.bind(x, 1.0)
    qgraph.synchronize()
    turns = [0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1]
    marks = []
    for before, turn in itertools.pairwise([turns[0], *turns]):
        # What is launched on one stream after the other is in no order by itself.
        marks.append(call(driver.cuEventCreate, 2))
        call(driver.cuEventRecord, marks[-1], streams[before])
        call(driver.cuStreamWaitEvent, streams[turn], marks[-1], 0)
        with qgraph.stream(int(streams[turn])):
            bound.launch()
            kernel(x, 1.0)
    np.testing.assert_array_equal(x.numpy(), halved(8.0, [1.0] * 2 * len(turns)))
    for stream in streams:
        call(driver.cuStreamDestroy, stream)
    for mark in marks:
        call(driver.cuEventDestroy, mark)


def test_threads_with_calls_of_their_own(context):
    kernel = qgraph.kernel(backend="cuda")(scale)

    def work(seed):
        x = on_device(np.full(N, 4.0))
        bound = kernel.bind(x, float(seed))
        for turn in range(400):
            (bound.launch if turn % 3 else lambda: kernel(x, float(seed)))()
        return x.numpy()

    with ThreadPoolExecutor(4) as pool:
        for seed, found in enumerate(pool.map(work, range(4))):
            np.testing.assert_array_equal(found, halved(4.0, [float(seed)] * 400))
    assert kernel.stats.replays == 1600


def added(x, a):
    for i in range(x.shape[0]):
        x[i] += a


def test_threads_with_the_same_call(context):
    """They take turns at the one graph, whoever prepared its launch."""
    kernel = qgraph.kernel(backend="cuda")(added)
    x = on_device(np.zeros(N))
    bound = kernel.bind(x, 1.0)

    def work(_):
        for turn in range(500):
            (bound.launch if turn % 3 else lambda: kernel(x, 1.0))()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    np.testing.assert_array_equal(x.numpy(), 2000.0)
    assert kernel.stats.replays == 2000


def test_after_clear_cache(context):
    kernel = qgraph.kernel(backend="cuda")(scale)
    x = on_device(np.full(N, 4.0))
    bound = kernel.bind(x, 1.0)
    for _ in range(4):
        bound.launch()
        kernel(x, 1.0)
    kernel.clear_cache()
    for _ in range(4):
        bound.launch()
        kernel(x, 1.0)
    np.testing.assert_array_equal(x.numpy(), halved(4.0, [1.0] * 16))
    # One for what is bound, as it was described before, and one for what is described anew.
    assert kernel.stats.graph_builds == 1 + 2


def test_the_context_of_the_first_device_stays_current_on_a_thread_that_had_none():
    kernel = qgraph.kernel(backend="cuda")(scale)
    x, seen = on_device(np.full(N, 4.0)), []

    def work():
        seen.append(int(call(driver.cuCtxGetCurrent)))
        for _ in range(4):
            kernel(x, 1.0)
        looked = looks_of(kernel)
        seen.append(int(call(driver.cuCtxGetCurrent)))
        kernel(x, 1.0)
        seen.append(len(looked))
        call(driver.cuCtxSetCurrent, None)
        kernel(x, 1.0)
        seen.append(len(looked))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0, device(0)._pointer, 0, 1]
    np.testing.assert_array_equal(x.numpy(), halved(4.0, [1.0] * 6))


def test_a_tensor_on_streams_in_turn(context):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    kernel = qgraph.kernel(backend="cuda")(scale)
    x = torch.full((N,), 4.0, device="cuda", dtype=torch.float64)
    side = torch.cuda.Stream()
    bound, expected = kernel.bind(x, 1.0), 4.0
    for turn in range(24):
        stream = side if turn // 5 % 2 else torch.cuda.default_stream()
        with torch.cuda.stream(stream):
            # Read and written on the stream that is current: a launch on the other one would be out of order.
            x.mul_(2.0)
            bound.launch()
            kernel(x, 1.0)
            x.add_(1.0)
        torch.cuda.synchronize()
        expected = (expected * 2.0 * 0.5 + 1.0) * 0.5 + 1.0 + 1.0
    assert (x == expected).all()


# Nothing is run on the arrays, since the reset takes their memory: the loop is empty.
AFTER_A_RESET = """
import numpy as np
import qgraph
from qgraph.errors import CudaError
from qgraph.runtime.driver.driver import call, device, driver

@qgraph.kernel(backend="cuda")
def nothing_yet(x, n):
    for i in range(n):
        x[i] += 1.0

gpu = device(0)
x = qgraph.asarray(np.zeros(10), backend="cuda")
bound = nothing_yet.bind(x, 0)
with gpu.activate():
    for _ in range(4):
        bound.launch()
    before = gpu.context_id
    print(call(driver.cuCtxGetId, None) == before)
    call(driver.cuCtxSynchronize)
    call(driver.cuDevicePrimaryCtxReset, 0)
    if {again}:
        call(driver.cuDevicePrimaryCtxRetain, 0)
    # What notices it: the id of the current context, although its handle stays.
    print(driver.cuCtxGetId(None)[1] != before)
    bound.launch()
    bound.launch()
    bound.launch()
    print(nothing_yet.stats.graph_builds, nothing_yet.stats.replays, gpu.epoch)
qgraph.synchronize()
"""


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.unsanitized(reason="destroys the context")
def test_a_reset_between_two_launches_that_are_the_same(again, tmp_path):
    assert printed_by(AFTER_A_RESET.format(again=again), tmp_path).split() == ["True", "True", "2", "7", "2"]


def chained(x, y, a):
    for i in range(x.shape[0]):
        y[i] = x[i] * 0.5 + a
    for i in range(x.shape[0]):
        x[i] = y[x.shape[0] - 1 - i] + 1.0


def summed(x, out):
    for i in range(x.shape[0]):
        out[0] += x[i]


def chained_on_host(x, a, calls):
    for _ in range(calls):
        x = (x * 0.5 + a)[::-1] + 1.0
    return x


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_calls_that_take_turns(context, bound, count):
    kernel = qgraph.kernel(backend="cuda")(chained)
    rng = np.random.default_rng()
    hosts = [rng.random(N + 100 * k) for k in range(count)]
    sets = [(on_device(host), on_device(np.full(host.shape, np.nan)), float(k)) for k, host in enumerate(hosts)]
    runs = [kernel.bind(*each).launch if bound else lambda each=each: kernel(*each) for each in sets]
    for _ in range(6):
        for run in runs:
            run()
    looked, updates = looks_of(kernel), kernel.stats.argument_updates
    for _ in range(5):
        for run in runs:
            run()
    assert not looked
    assert kernel.stats.argument_updates == updates
    # New arrays, an old set out of turn, and again in turn.
    x = rng.random(3 * N)
    new = on_device(x)
    kernel(new, on_device(np.zeros(3 * N)), 7.0)
    assert len(looked) == 1
    runs[0]()
    for run in runs:
        run()
    np.testing.assert_allclose(qgraph.to_numpy(new), chained_on_host(x, 7.0, 1), rtol=1e-13)
    for k, (host, (x, _, a)) in enumerate(zip(hosts, sets, strict=True)):
        np.testing.assert_allclose(qgraph.to_numpy(x), chained_on_host(host, a, 12 + (k == 0)), rtol=1e-12)


@pytest.mark.parametrize("function", [chained, summed])
def test_calls_that_take_turns_on_other_streams(context, function):
    kernel = qgraph.kernel(backend="cuda")(function)
    streams = [None, *(call(driver.cuStreamCreate, 0) for _ in range(2))]
    x = np.random.default_rng().integers(0, 9, N).astype(float)
    sets = [(on_device(x), on_device(np.zeros(N)), 1.0)[: 3 if function is chained else 2] for _ in range(2)]
    calls = 0
    for stream in (None, streams[1], None, streams[2], streams[1]):
        with qgraph.stream(stream):
            for _ in range(5):
                for each in sets:
                    kernel(*each)
                calls += 1
        qgraph.synchronize()
    for each in sets:
        if function is chained:
            np.testing.assert_allclose(qgraph.to_numpy(each[0]), chained_on_host(x, 1.0, calls), rtol=1e-12)
        else:
            assert qgraph.to_numpy(each[1])[0] == calls * x.sum()
    for stream in streams[1:]:
        call(driver.cuStreamDestroy, stream)


def test_calls_that_take_turns_from_threads(context):
    kernel = qgraph.kernel(backend="cuda")(chained)
    x = np.random.default_rng().random(N)
    sets = [(on_device(x), on_device(np.zeros(N)), 1.0) for _ in range(4)]

    def work(mine):
        for _ in range(50):
            for each in mine:
                kernel(*each)
        qgraph.synchronize()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (sets[:2], sets[2:])))
    for each in sets:
        np.testing.assert_allclose(qgraph.to_numpy(each[0]), chained_on_host(x, 1.0, 50), rtol=1e-12)


def test_calls_that_take_turns_until_the_cache_is_cleared(context):
    kernel = qgraph.kernel(backend="cuda")(chained)
    x = np.random.default_rng().random(N)
    sets = [(on_device(x), on_device(np.zeros(N)), 1.0) for _ in range(2)]
    for _ in range(3):
        for _ in range(6):
            for each in sets:
                kernel(*each)
        kernel.clear_cache()
    for each in sets:
        np.testing.assert_allclose(qgraph.to_numpy(each[0]), chained_on_host(x, 1.0, 18), rtol=1e-12)


def doubled(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * 2 + i


def doubled_on_host(x):
    return x * 2 + np.arange(x.shape[0])[:, None]


def test_an_array_of_cupy_that_is_reshaped_in_place(context):
    cupy = pytest.importorskip("cupy")
    kernel = qgraph.kernel(backend="cuda")(doubled)
    host = np.random.default_rng().random(24)
    x, y = cupy.asarray(host).reshape(4, 6), cupy.zeros((4, 6))
    for shape in ((4, 6), (6, 4), (4, 6)):
        x.shape = y.shape = shape
        for _ in range(4):
            y.fill(np.nan)
            kernel(x, y)
            np.testing.assert_array_equal(cupy.asnumpy(y), doubled_on_host(host.reshape(shape)))


@pytest.mark.parametrize("library", ["cupy", "numba"])
def test_arrays_of_other_libraries_that_come_back(context, library):
    if library == "cupy":
        cupy = pytest.importorskip("cupy")
        give, take = cupy.asarray, cupy.asnumpy
    else:
        from qgraph.compat.numba_cuda import cuda

        give, take = cuda.to_device, lambda x: x.copy_to_host()
    kernel = qgraph.kernel(backend="cuda")(chained)
    hosts = [np.random.default_rng().random(n) for n in (100, 100, 31)]
    # The last of them lie in memory of those before, once these are gone.
    for _ in range(3):
        sets = [(give(host), give(np.zeros_like(host)), 1.0) for host in hosts]
        for _ in range(7):
            for each in sets:
                kernel(*each)
        for host, (x, _, a) in zip(hosts, sets, strict=True):
            np.testing.assert_allclose(take(x), chained_on_host(host, a, 7), rtol=1e-13)
        looked = looks_of(kernel)
        for each in sets:
            kernel(*each)
        assert not looked
        del sets, each, x


@pytest.mark.parametrize("holds_it", [True, False])
def test_a_bound_call_that_is_built_anew_stays_on_the_current_stream(holds_it):
    torch = pytest.importorskip("torch")
    kernel = qgraph.kernel(scale)
    x = torch.ones(N, device="cuda")
    bound = kernel.bind(x, 1.0)
    bound.launch()
    launch = bound.launch
    if not holds_it:
        del bound
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(3):
        kernel.clear_cache()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x.fill_(6.0)
            launch()
        stream.synchronize()
        assert (x == 4.0).all()
