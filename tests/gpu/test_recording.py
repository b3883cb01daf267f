"""Graphs recorded by ``qgraph.capture``: launched by themselves, and as child graphs of kernels, in loops and branches."""

from __future__ import annotations

import gc
import pickle
import threading
import warnings

import numpy as np
import pytest

import qgraph

PATHS = [
    pytest.param({}, id="graph"),
    pytest.param({"conditional": "host"}, id="host"),
    pytest.param({"graph": False}, id="stream"),
]


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def product(torch, n=64):
    """A matrix, vectors x and y, and a graph of y = A x, which PyTorch computes."""
    a = torch.rand(n, n, device="cuda", dtype=torch.float64)
    x, y = torch.rand(n, device="cuda", dtype=torch.float64), torch.zeros(n, device="cuda", dtype=torch.float64)
    torch.mv(a, x, out=y)
    torch.cuda.synchronize()
    with qgraph.capture() as g:
        torch.mv(a, x, out=y)
    return a, x, y, g


# --- by itself ---------------------------------------------------------------------------------------------------------


def test_torch_is_recorded(torch):
    x = torch.rand(1000, device="cuda")
    y, z = torch.zeros(1000, device="cuda"), torch.zeros(1000, device="cuda")
    expected = (x.cpu().double() * 2 + 1).sin()
    torch.sin(x * 2 + 1)
    with qgraph.capture() as g:
        y.copy_(torch.sin(x * 2 + 1))
        z.add_(y)
    torch.cuda.synchronize()
    assert not y.any()
    assert not z.any()
    for times in range(1, 4):
        g()
        torch.cuda.synchronize()
        assert torch.allclose(y.cpu().double(), expected, atol=1e-6)
        assert torch.allclose(z.cpu().double(), times * expected, atol=1e-5)
    assert {node.kind for node in g.plan.nodes} <= {"kernel", "memcpy"}
    assert len(g.plan.nodes) >= 4
    assert any("elementwise" in node.label for node in g.plan.nodes)
    assert str(g.plan).startswith(f"{len(g.plan.nodes)} nodes, {len(g.plan.edges)} edges")


def test_cupy_is_recorded(cupy):
    x, y = cupy.random.rand(1000), cupy.zeros(1000)
    cupy.sin(x * 2) + cupy.sort(x)
    with qgraph.capture(keep=[x, y]) as g:
        y += cupy.sin(x * 2) + cupy.sort(x)
    cupy.cuda.Device().synchronize()
    assert not y.any()
    for _ in range(3):
        g()
    host = cupy.asnumpy(x)
    np.testing.assert_allclose(cupy.asnumpy(y), 3 * (np.sin(host * 2) + np.sort(host)))


@pytest.mark.filterwarnings("ignore:The 'generic' unit for NumPy timedelta:DeprecationWarning")
def test_numba_cuda_is_recorded(monkeypatch):
    # numba-cuda 0.30 needs a name that NumPy 2.5 has no more.
    monkeypatch.setattr(np, "row_stack", np.vstack, raising=False)
    from numba import cuda

    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    x = cuda.to_device(np.arange(1000.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        double[8, 128](x)
    cuda.synchronize()
    with qgraph.capture(keep=[x]) as g:
        stream = cuda.external_stream(g.stream)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            double[8, 128, stream](x)
            double[8, 128, stream](x)
    g()
    g()
    qgraph.synchronize()
    np.testing.assert_array_equal(x.copy_to_host(), np.arange(1000.0) * 2**5)
    assert [node.kind for node in g.plan.nodes] == ["kernel"] * 2
    assert all("double" in node.label for node in g.plan.nodes)
    assert g.plan.edges == ((0, 1),)


@qgraph.kernel
def increment(x):
    for i in range(x.shape[0]):
        x[i] += 1


@qgraph.kernel
def count_down(x, flag):
    while qgraph.graph_do_while(flag):
        for i in range(x.shape[0]):
            x[i] += 1
        flag[0] -= 1


def test_kernels_are_recorded():
    x, flag = qgraph.zeros(100, backend="cuda"), qgraph.full(1, 3, np.int32, backend="cuda")
    kernels = qgraph.kernel(increment.__wrapped__), qgraph.kernel(count_down.__wrapped__, conditional="device")
    kernels[0](x)
    kernels[1](x, flag)
    flag.fill(5)
    with qgraph.capture() as g:
        kernels[0](x)
        kernels[1](x, flag)
    g()
    np.testing.assert_array_equal(x.numpy(), 4.0 + 1 + 5)
    assert any(node.kind == "conditional" for node in g.plan.nodes)
    # What kernels touch is known.
    places = {each.__cuda_array_interface__["data"][0] for each in (x, flag)}
    assert {each.start for each in g.reads} == {each.start for each in g.writes} == places
    assert sum(map(len, g.writes)) == x.nbytes + flag.nbytes


def test_what_it_touches_is_told_where_it_is_known(torch):
    x, y = torch.zeros(100, device="cuda"), torch.ones(100, device="cuda")
    increment(x)
    torch.cuda.synchronize()
    with qgraph.capture() as copies:
        x.copy_(y)
        x[:10].zero_()
    with qgraph.capture() as g:
        copies()
        increment(x)
    if {node.kind for node in copies.plan.nodes} <= {"memcpy", "memset"}:
        assert copies.reads == (range(y.data_ptr(), y.data_ptr() + 400),)
        assert copies.writes == g.writes == (range(x.data_ptr(), x.data_ptr() + 400),)
    with qgraph.capture() as g:
        x.copy_(y)
        torch.add(x, 1, out=y)
    assert g.reads is g.writes is None
    assert "touches anything" in str(g.plan)


def test_a_given_stream_is_captured(torch):
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    with qgraph.capture(stream) as g:
        x.add_(1)
    g.launch(other)
    g.launch(other)
    other.synchronize()
    assert x.tolist() == [2.0] * 10
    with torch.cuda.stream(other):
        x.mul_(10)
        g()
        x.mul_(10)
    other.synchronize()
    assert x.tolist() == [210.0] * 10


def test_what_it_works_on_lives_as_long(torch):
    def record():
        a, b = torch.full((1 << 20,), 3.0, device="cuda"), torch.full((1 << 20,), 4.0, device="cuda")
        out = torch.zeros(1 << 20, device="cuda")
        torch.sort(a * b)
        torch.cuda.synchronize()
        with qgraph.capture() as g:
            out.copy_(torch.sort(a * b + a)[0])
        return g, out

    g, out = record()
    gc.collect()
    torch.cuda.empty_cache()
    # Whatever was given back is overwritten.
    others = [torch.full((1 << 20,), -1.0, device="cuda") for _ in range(64)]
    g()
    torch.cuda.synchronize()
    assert (out == 15.0).all()
    assert all((each == -1.0).all() for each in others)


@pytest.mark.unsanitized(reason="counts memory, and the tool frees late")
def test_memory_comes_back(torch):
    def once():
        a, out = torch.rand(1 << 22, device="cuda"), torch.zeros(1 << 22, device="cuda")
        torch.sin(a)
        torch.cuda.synchronize()
        with qgraph.capture() as g:
            out.copy_(torch.sin(a) + 1)
        g()
        torch.cuda.synchronize()

    once()
    before = torch.cuda.memory_allocated()
    for _ in range(20):
        once()
        gc.collect()
        # What is retired is freed with the next executable.
        x = qgraph.zeros(4, backend="cuda")
        qgraph.kernel(increment.__wrapped__)(x)
        qgraph.synchronize()
    assert torch.cuda.memory_allocated() - before < 8 * (1 << 24)


def test_threads_launch_it(torch):
    x = torch.zeros(1000, device="cuda", dtype=torch.int64)
    torch.cuda.synchronize()
    with qgraph.capture() as g:
        x.add_(1)
    threads = [threading.Thread(target=lambda: [g.launch() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert (x == 200).all()


def test_inside_somebody_elses_capture(torch):
    _, x, y, g = product(torch)
    graph = torch.cuda.CUDAGraph()
    g()
    torch.cuda.synchronize()
    expected = y.clone()
    with torch.cuda.graph(graph):
        y.zero_()
        g()
        y.mul_(2)
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * expected)
    with qgraph.capture() as outer:
        g()
        x.mul_(2)
    child = [node for node in outer.plan.nodes if node.kind == "child"]
    assert len(child) == 1
    assert any(node.parent == child[0].index for node in outer.plan.nodes)
    outer()
    outer()
    torch.cuda.synchronize()
    assert torch.allclose(y, 2 * expected)


# --- in kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("options", PATHS)
@pytest.mark.parametrize("words", [False, True], ids=["everything", "reads and writes"])
def test_in_straight_line_code(torch, options, words):
    a, x, y, g = product(torch)

    def everything(x, y, z):
        for i in range(x.shape[0]):
            x[i] += 1
        g()
        for i in range(x.shape[0]):
            z[i] = y[i] + x[i]

    def named(x, y, z):
        for i in range(x.shape[0]):
            x[i] += 1
        g(reads=(x,), writes=y)
        for i in range(x.shape[0]):
            z[i] = y[i] + x[i]

    z = torch.zeros_like(y)
    k = qgraph.kernel(named if words else everything, **options)
    host = x.cpu().numpy()
    for times in range(1, 6):
        y.fill_(-7)
        z.fill_(-7)
        k(x, y, z)
        torch.cuda.synchronize()
        now = host + times
        np.testing.assert_allclose(z.cpu().numpy(), a.cpu().numpy() @ now + now)
    plan = k.plan(x, y, z)
    assert [node.kind for node in plan.nodes] == ["kernel", "child", "kernel"]
    # Other arrays of the same types: the recorded graph goes on with its own.
    other = torch.full_like(x, 5.0)
    k(other, torch.zeros_like(y), z)
    torch.cuda.synchronize()
    np.testing.assert_allclose(z.cpu().numpy(), 6.0)


@pytest.mark.parametrize("options", PATHS)
def test_in_device_loops(torch, options):
    a, x, y, g = product(torch)
    a /= a.sum(dim=0)

    @qgraph.kernel(**options)
    def power(x, y, tolerance, limit):
        turns = 0
        change = tolerance + 1.0
        while change > tolerance and turns < limit:
            g(reads=x, writes=y)
            change = 0.0
            for i in range(x.shape[0]):
                change += abs(y[i] - x[i])
            for i in range(x.shape[0]):
                x[i] = y[i]
            turns += 1
        return turns, change

    start = x.clone()
    for tolerance, limit in ((1e-9, 1000), (0.0, 3), (1e-3, 1000), (1e-9, 1000)):
        host = start.cpu().numpy()
        x.copy_(start)
        turns, change = 0, 1.0
        while change > tolerance and turns < limit:
            then = a.cpu().numpy() @ host
            change, host, turns = float(np.abs(then - host).sum()), then, turns + 1
        found = power(x, y, tolerance, limit)
        assert found[0] == turns
        np.testing.assert_allclose(found[1], change, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(x.cpu().numpy(), host)


@pytest.mark.parametrize("options", PATHS)
def test_in_nested_loops_and_branches(torch, options):
    x = torch.zeros(100, device="cuda")
    torch.cuda.synchronize()
    with qgraph.capture() as plus:
        x.add_(1)
    with qgraph.capture() as twice:
        x.mul_(2)

    @qgraph.kernel(**options)
    def k(x, n, m):
        for t in qgraph.serial(range(n)):
            if t % 2 == 0:
                plus(writes=x)
            else:
                for _s in qgraph.serial(range(m)):
                    twice()
                    for i in range(x.shape[0]):
                        x[i] -= 1

    def expected(n, m):
        value = 0.0
        for t in range(n):
            if t % 2 == 0:
                value += 1
            else:
                for _ in range(m):
                    value = value * 2 - 1
        return value

    for n, m in ((1, 1), (4, 3), (7, 2), (0, 5)):
        x.zero_()
        k(x, n, m)
        torch.cuda.synchronize()
        assert x.tolist() == [expected(n, m)] * 100


@pytest.mark.parametrize("operation", ["mm", "fft", "sort", "cumsum", "solve", "cholesky"])
def test_libraries_in_a_device_loop(torch, operation):
    n = 64
    a = torch.rand(n, n, device="cuda", dtype=torch.float64)
    spd = a @ a.T + n * torch.eye(n, device="cuda", dtype=torch.float64)
    x = torch.rand(n, n, device="cuda", dtype=torch.float64)
    out = torch.zeros(n, n, device="cuda", dtype=torch.float64)
    work = {
        "mm": lambda: torch.mm(spd, x) / n,
        "fft": lambda: torch.fft.ifft(torch.fft.fft(x) * 0.5).real,
        "sort": lambda: torch.sort(x, dim=1)[0] * 0.9,
        "cumsum": lambda: torch.cumsum(x, 1) / n,
        "solve": lambda: torch.linalg.solve_ex(spd, x)[0] * n,
        "cholesky": lambda: torch.linalg.cholesky_ex(spd)[0] + 0.5 * x,
    }[operation]
    for _ in range(2):
        out.copy_(work())
    torch.cuda.synchronize()
    with qgraph.capture() as g:
        out.copy_(work())
    start = x.clone()

    @qgraph.kernel
    def loop(x, out, turns):
        for _t in qgraph.serial(range(turns)):
            g(reads=x, writes=out)
            for i, j in qgraph.ndrange(*x.shape):
                x[i, j] = out[i, j] + 0.25

    for turns in (1, 10):
        x.copy_(start)
        loop(x, out, turns)
        torch.cuda.synchronize()
        found = x.clone()
        x.copy_(start)
        for _ in range(turns):
            x.copy_(work() + 0.25)
        torch.cuda.synchronize()
        assert torch.allclose(found, x, rtol=1e-10)


def test_torchs_capture_of_a_kernel_holds_it(torch):
    def capture():
        _, x, y, g = product(torch)

        @qgraph.kernel
        def k(x, y):
            g(reads=x, writes=y)
            for i in range(x.shape[0]):
                x[i] = y[i] / 64

        k(x, y)
        bound = k.bind(x, y)
        before = x.clone()
        bound.launch()
        torch.cuda.synchronize()
        expected = x.clone()
        x.copy_(before)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            k(x, y)
        return graph, x, expected

    graph, x, expected = capture()
    gc.collect()
    others = [torch.full((64, 64), -1.0, device="cuda", dtype=torch.float64) for _ in range(100)]
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, expected)
    assert all((each == -1.0).all() for each in others)


def test_another_recording_under_the_name(torch):
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    graphs = []
    for step in (1, 10):
        with qgraph.capture() as g:
            x.add_(step)
        graphs.append(g)
    g = graphs[0]

    @qgraph.kernel
    def k(x):
        g()
        for i in range(x.shape[0]):
            x[i] *= 2

    k(x)
    g = graphs[1]
    k(x)
    torch.cuda.synchronize()
    assert x.tolist() == [24.0] * 10


# --- what is refused ---------------------------------------------------------------------------------------------------


def test_an_exception_ends_the_capture(torch):
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    g = qgraph.capture()
    with pytest.raises(ZeroDivisionError), g:
        x.add_(1)
        raise ZeroDivisionError
    with pytest.raises(qgraph.CudaError, match="its capture failed"):
        g()
    with pytest.raises(qgraph.CudaError, match="its capture failed"):
        _ = g.plan
    with qgraph.capture() as other:
        x.add_(1)
    other()
    torch.cuda.synchronize()
    assert x.tolist() == [1.0] * 10


@pytest.mark.parametrize("how", ["item", "tolist", "cpu", "bool", "nonzero"])
def test_waiting_is_refused_and_breaks_nothing(torch, how):
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    wait = {
        "item": lambda: x[0].item(),
        "tolist": lambda: x.tolist(),
        "cpu": lambda: x.cpu(),
        "bool": lambda: bool(x[0]),
        "nonzero": lambda: x.nonzero(),
    }[how]
    with qgraph.capture() as g:
        x.add_(1)
        with pytest.raises(qgraph.CudaError, match="waits for the device"):
            wait()
        x.add_(1)
    g()
    torch.cuda.synchronize()
    assert x.tolist() == [2.0] * 10


def test_letting_go_of_a_kernel_breaks_nothing():
    # Of one that ran, and of one whose graph was recorded before.
    x = qgraph.zeros(100, backend="cuda")
    kernel, other = qgraph.kernel(increment.__wrapped__), qgraph.kernel(increment.__wrapped__)
    kernel(x)
    other(x)
    (made,) = kernel._cache.specialisations.values()
    resources = made.executable._resources
    with qgraph.capture() as g:
        other(x)
        kernel.clear_cache()
        other(x)
        assert not resources.released
    g()
    assert (qgraph.to_numpy(x) == 4).all()
    kernel(x)
    assert resources.released
    assert (qgraph.to_numpy(x) == 5).all()


def test_what_qgraph_refuses_breaks_nothing():
    x, y = qgraph.zeros(10, backend="cuda"), qgraph.zeros((3, 3), backend="cuda")
    increment(x)
    with qgraph.capture() as g:
        increment(x)
        with pytest.raises(qgraph.CudaError, match="captured"):
            x.numpy()
        with pytest.raises(qgraph.CudaError, match="captured"):
            qgraph.synchronize()
        with pytest.raises(qgraph.CudaError, match="not compiled"):
            qgraph.kernel(increment.__wrapped__)(y)
        increment(x)
    g()
    np.testing.assert_array_equal(x.numpy(), 3.0)


def test_what_breaks_a_capture_is_told(torch):
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    with pytest.raises(Exception, match=r"(?i)captur") as caught, qgraph.capture():
        x.add_(1)
        torch.cuda.synchronize()
    assert caught.value is not None
    # The next capture is not hurt.
    with qgraph.capture() as g:
        x.add_(1)
    g()
    torch.cuda.synchronize()
    assert x.tolist()[0] == 1.0


def test_misuse(torch):
    with pytest.raises(qgraph.ArgumentError, match="default stream"):
        qgraph.capture(0)
    with pytest.raises(qgraph.ArgumentError, match="not a mode"):
        qgraph.capture(mode="fast")
    with pytest.raises(qgraph.ArgumentError, match="not a CUDA stream"):
        qgraph.capture("x")
    g = qgraph.capture()
    with pytest.raises(qgraph.CudaError, match="not recorded yet"):
        g()
    with pytest.raises(qgraph.CudaError, match="recorded nothing"), g:
        pass
    x = torch.zeros(10, device="cuda")
    with qgraph.capture() as g:
        x.add_(1)
        with pytest.raises(qgraph.CudaError, match="being recorded"):
            g()
        with pytest.raises(qgraph.CudaError, match="captured already"), qgraph.capture(g.stream):
            pass
    with pytest.raises(qgraph.CudaError, match="recorded already"), g:
        pass
    with pytest.raises(qgraph.ArgumentError, match="cannot be pickled"):
        pickle.dumps(g)

    with qgraph.capture() as g:
        x.add_(1)

    @qgraph.kernel
    def k(x):
        g()

    with pytest.raises(qgraph.BackendError, match="reference"):
        k.reference(np.zeros(3))
    with pytest.raises(qgraph.BackendError, match="cannot run on the cpu backend"):
        k(np.zeros(3))


def test_conditional_nodes_are_refused_in_kernels():
    x, flag = qgraph.zeros(10, backend="cuda"), qgraph.full(1, 2, np.int32, backend="cuda")
    inner = qgraph.kernel(count_down.__wrapped__, conditional="device")
    inner(x, flag)
    with qgraph.capture() as g:
        inner(x, flag)

    @qgraph.kernel
    def k(x):
        g()

    with pytest.raises(qgraph.KernelSyntaxError, match="conditional"):
        k(x)


def test_host_nodes_are_refused_in_loops_alone():
    x, seen = qgraph.zeros(10, backend="cuda"), []

    def see(number):
        seen.append(number)

    @qgraph.kernel
    def tell(x):
        for i in range(x.shape[0]):
            x[i] += 1
        qgraph.host_callback(see, 5)

    tell(x)
    with qgraph.capture() as g:
        tell(x)
    assert "host" in {node.kind for node in g.plan.nodes}

    @qgraph.kernel
    def straight(x):
        g()

    @qgraph.kernel
    def loop(x):
        for _t in qgraph.serial(range(3)):
            g()

    straight(x)
    qgraph.synchronize()
    assert seen == [5, 5]
    np.testing.assert_array_equal(x.numpy(), 2.0)
    with pytest.raises(qgraph.KernelSyntaxError, match="host"):
        loop(x)


# --- other hosts -------------------------------------------------------------------------------------------------------


@qgraph.kernel
def square(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i] * x[i]


@qgraph.kernel
def square_gradient(x, gradient, out):
    for i in range(x.shape[0]):
        out[i] = 2 * x[i] * gradient[i]


@pytest.mark.unsanitized(reason="the tool touches the legacy stream while PyTorch captures")
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
def test_graphed_callables(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            square(x.detach(), y)
            ctx.save_for_backward(x)
            return y

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            out = torch.empty_like(x)
            square_gradient(x.detach(), gradient.contiguous(), out)
            return out

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(32, 32)

        def forward(self, x):
            return Square.apply(self.linear(x).flatten())

    module = Module().cuda()
    sample = torch.randn(8, 32, device="cuda", requires_grad=True)
    x = torch.randn(8, 32, device="cuda", requires_grad=True)
    plain = module(x)
    plain.sum().backward()
    expected = plain.detach().clone(), x.grad.clone(), module.linear.weight.grad.clone()
    del plain
    x.grad = None
    module.zero_grad()
    graphed = torch.cuda.make_graphed_callables(module, (sample,))
    found = graphed(x)
    found.sum().backward()
    assert torch.allclose(found, expected[0])
    assert torch.allclose(x.grad, expected[1])
    assert torch.allclose(module.linear.weight.grad, expected[2], atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_graphed_compile(torch):
    @torch.library.custom_op("qgraph_test::square", mutates_args=(), schema="(Tensor x) -> Tensor")
    def op(x):
        y = torch.empty_like(x)
        square(x, y)
        return y

    @op.register_fake
    def _(x):
        return torch.empty_like(x)

    def function(x):
        return op(x + 1) * 2

    x = torch.rand(1000, device="cuda")
    try:
        compiled = torch.compile(function, mode="reduce-overhead")
        compiled(x)
    except Exception as error:  # noqa: BLE001 - no compiler on this machine
        pytest.skip(f"torch.compile does not work here: {error}")
    for _ in range(5):
        x = torch.rand(1000, device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        assert torch.allclose(compiled(x), (x + 1) ** 2 * 2)
