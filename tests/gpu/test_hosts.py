"""Kernels in ``torch.compile`` and ``jax.jit`` on the device, their streams, captured graphs, and gradients."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import qgraph
from tests.hosts import kernels
from tests.hosts.kernels import axpy, interleaved, running, several, square, step

pytestmark = [
    pytest.mark.unsanitized(reason="other libraries' kernels"),
    # PyTorch captures a first graph with nothing in it, and catches the warning where it is no error.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:The CUDA Graph is empty"),
]


@qgraph.kernel
def relaxed(x, y, residual, tolerance):
    """A loop of the device, whose turns depend on the data."""
    residual[0] = 2 * tolerance
    while residual[0] > tolerance:
        for i in range(1, x.shape[0] - 1):
            y[i] = (x[i - 1] + x[i + 1]) / 2
        residual[0] = np.max(np.abs(y[1:-1] - x[1:-1]))
        for i in range(1, x.shape[0] - 1):
            x[i] = y[i]


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    module.compiler.reset()
    return module


@pytest.fixture(scope="module")
def jax():
    # Otherwise it takes three quarters of the device's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    module = pytest.importorskip("jax")
    if all(device.platform == "cpu" for device in module.devices()):
        pytest.skip("JAX without CUDA")
    return module


# --- PyTorch ------------------------------------------------------------------------------------------------------------


def mixed(x, y):
    x = x + 1
    axpy(2.0, x, y)
    z = interleaved(x * 2)
    axpy(y=y, a=0.5, x=z[: y.shape[0]])
    return y * 2, z.sum()


@pytest.mark.parametrize("compiler", ["eager", "aot_eager", "inductor"])
def test_it_means_the_same(torch, compiler):
    compiled = torch.compile(mixed, fullgraph=True, backend=compiler)
    for n in (50, 50, 1000, 77):
        x, y = torch.rand(2, n, device="cuda", dtype=torch.float64)
        given, wanted = y.clone(), y.clone()
        for found, expected in zip(compiled(x, given), mixed(x, wanted), strict=True):
            assert found.is_cuda
            torch.testing.assert_close(found, expected)
        torch.testing.assert_close(given, wanted)
    assert axpy.last_launch.path.startswith("cuda")


def test_dtypes(torch):
    compiled = torch.compile(interleaved, fullgraph=True, backend="aot_eager")
    for dtype in (torch.float16, torch.float32, torch.int32, torch.int64, torch.complex64):
        x = torch.arange(5, device="cuda").to(dtype)
        found = compiled(x)
        assert found.dtype == dtype and torch.equal(found, interleaved(x))


def test_floats_that_change_are_kept_open(torch):
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(lambda a, x, y: axpy(a, x, y) or y * 1, fullgraph=True, backend=counter)
    x = torch.arange(100.0, device="cuda")
    for a in range(12):
        y = torch.ones_like(x)
        torch.testing.assert_close(compiled(a / 7 + 0.1, x, y), (a / 7 + 0.1) * x + 1)
    assert counter.frame_count <= 3


def test_on_the_current_stream(torch):
    compiled = torch.compile(lambda x: square(x) + 1, fullgraph=True, backend="aot_eager")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(20):
            m = torch.rand(2000, 2000, device="cuda")
            x = (m @ m @ m)[0].clone()
            torch.testing.assert_close(compiled(x), x * x + 1)


def test_in_graphs_of_pytorch(torch):
    """Its own CUDA graphs take a kernel that changes its arguments, device loops included."""
    from torch._dynamo.utils import counters

    def program(x):
        y = torch.zeros_like(x)
        axpy(2.0, x, y)
        work, residual = x.clone(), x.new_zeros(1)
        relaxed(work, y, residual, 1e-3)
        return y + work, residual * 1

    counters.clear()
    compiled = torch.compile(program, fullgraph=True, mode="reduce-overhead")
    for seed in range(6):
        x = torch.rand(200, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))
        torch.compiler.cudagraph_mark_step_begin()
        for found, expected in zip(compiled(x), program(x), strict=True):
            torch.testing.assert_close(found.clone(), expected)
    assert counters["inductor"]["cudagraph_skips"] == 0


def test_between_graphs_of_pytorch(torch):
    """A kernel that returns an array is no part of a captured graph, and what is around it may be."""

    def program(x):
        return (square(torch.sin(x) * 2) + 1) * 3

    compiled = torch.compile(program, fullgraph=True, mode="reduce-overhead")
    for seed in range(6):
        x = torch.rand(200, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))
        torch.compiler.cudagraph_mark_step_begin()
        torch.testing.assert_close(compiled(x).clone(), program(x))


@pytest.mark.parametrize("compiler", [None, "aot_eager", "inductor"])
def test_gradients(torch, compiler):
    def changed(x, y):
        z = y.clone()
        step(3.0, x, z)
        return z * square(x)

    function = changed if compiler is None else torch.compile(changed, fullgraph=True, backend=compiler)
    x, y = (torch.rand(5, device="cuda", dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(function, (x, y))


def test_an_argument_that_is_passed_twice(torch):
    def program(x):
        running(x, x)
        return x + 0

    x = torch.tensor([1.0, 5, 5, 5], device="cuda")
    assert torch.compile(program, fullgraph=True, backend="inductor")(x).tolist() == [1, 4, 13, 40]


# --- JAX ----------------------------------------------------------------------------------------------------------------


def test_jax_between_its_operations(jax):
    """In order with what is before and behind it in JAX's stream: the products take long."""

    @jax.jit
    def program(m):
        x = (m @ m @ m)[0]
        return interleaved(square(x) + 1) * 2, x

    for seed in range(20):
        m = jax.random.uniform(jax.random.key(seed), (2000, 2000))
        found, x = program(m)
        assert next(iter(found.devices())).platform != "cpu"
        y = 2 * (np.asarray(x) ** 2 + 1)
        np.testing.assert_allclose(np.asarray(found)[::2], y, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(found)[1::2], -y, rtol=1e-6)
    assert square.last_launch.path.startswith("cuda")


def test_jax_arguments_and_results(jax):
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    for a, n in ((2.5, 2), (3, 3)):
        t, u, same = jax.jit(lambda x, a=a, n=n: several((y,), a, n, x))(x)
        np.testing.assert_array_equal(t, several((y,), a, n, x)[0])
        assert u.tolist() == [0, 1, 2] and same.tolist() == [1, 2, 3]
    assert jax.jit(interleaved)(jax.numpy.zeros(0)).shape == (0,)
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 3, lambda _, x: square(x), x), [1, 256, 6561])
    np.testing.assert_array_equal(jax.jit(jax.vmap(square))(np.float32([[1, 2], [3, 4]])), [[1, 4], [9, 16]])


def test_jax_gradients(jax):
    x = jax.numpy.float32([1, 2, 3])
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: square(x + 1).sum()))(x), [4, 6, 8])


def test_jax_from_several_threads(jax):
    function = jax.jit(lambda x: square(x).sum())
    found = []

    def call(k):
        found.extend(float(function(jax.numpy.full(10, float(k)))) == 10 * k * k for _ in range(30))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 120 and all(found)


def test_jax_on_the_host_of_a_machine_with_a_device(jax):
    with jax.default_device(jax.devices("cpu")[0]):
        assert jax.jit(square)(jax.numpy.arange(4.0)).tolist() == [0, 1, 4, 9]
    assert square.last_launch.path == "cpu"


def test_jax_errors_of_a_call(jax):
    x = jax.numpy.arange(3.0)
    with pytest.raises(qgraph.ArgumentError, match="the kernel writes `y`"):
        jax.jit(lambda x: axpy(2.0, x, x + 1))(x)
    with pytest.raises(Exception, match="DataRaceError"):
        jax.block_until_ready(jax.jit(kernels.colliding)(x))
    assert jax.jit(square)(x).tolist() == [0, 1, 4]
