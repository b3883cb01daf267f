"""Arrays of PyTorch, CuPy, JAX and Numba as arguments of kernels on the device."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.errors import ArgumentError

pytestmark = pytest.mark.unsanitized(reason="other libraries' kernels")


@qgraph.kernel
def axpy(a, x, y):
    for i in range(y.shape[0]):
        y[i] = a * x[i] + y[i]


@qgraph.kernel
def transpose_add(x, y):
    for i, j in qgraph.ndrange(*y.shape):
        y[i, j] += x[j, i]


@dataclass
class State:
    x: Any
    y: Any


@qgraph.kernel
def double(state):
    for i in range(state.y.shape[0]):
        state.y[i] = 2 * state.x[i]


@pytest.fixture(scope="module")
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    return module


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def jax():
    module = pytest.importorskip("jax")
    if all(device.platform == "cpu" for device in module.devices()):
        pytest.skip("JAX without CUDA")
    return module


# --- PyTorch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16"])
def test_torch_tensors(torch, dtype):
    x = torch.arange(1000, device="cuda").to(getattr(torch, dtype)) % 50
    y = torch.ones_like(x)
    axpy(2, x, y)
    assert torch.equal(y, 2 * x + 1)
    assert axpy.last_launch.path.startswith("cuda")


def test_torch_views(torch):
    x = torch.arange(60.0, device="cuda").reshape(6, 10)
    y = torch.zeros(10, 6, device="cuda")
    transpose_add(x, y)
    transpose_add(x[:, ::2].T.contiguous().T, y[::2])
    expected = x.T.clone()
    expected[::2] *= 2
    assert torch.equal(y, expected)


def test_torch_runs_on_the_current_stream(torch):
    # Without order between the streams, the copies would be read before the long product has written them.
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(20):
            m = torch.rand(2000, 2000, device="cuda")
            x = (m @ m @ m)[0].clone()
            y = torch.zeros_like(x)
            axpy(3.0, x, y)
            z = y * 1.0
            assert torch.allclose(z, 3.0 * x)


def test_torch_storage_may_change_between_calls(torch):
    x = torch.arange(4.0, device="cuda").reshape(2, 2)
    y = torch.zeros(2, 2, device="cuda")
    transpose_add(x, y)
    x.t_()
    transpose_add(x, y)
    assert y.cpu().tolist() == [[0.0, 3.0], [3.0, 6.0]]
    x.data = torch.full((2, 2), 10.0, device="cuda")
    transpose_add(x, y)
    assert y.cpu().tolist() == [[10.0, 13.0], [13.0, 16.0]]


def test_torch_tensors_that_change_while_calls_come_back(torch):
    """Whatever a tensor is now counts, however often the call came with the same one before."""
    order, side = random.Random(3), 4

    def fresh():
        return torch.rand(side, side, device="cuda")

    changes = [
        lambda x: x.t_(),
        lambda x: setattr(x, "data", fresh()),
        lambda x: setattr(x, "data", x.detach().t()),
        lambda x: x.set_(fresh()),
        lambda x: x.as_strided_((side, side), (1, side)),
        lambda x: x.add_(1.0),
    ]
    x, y, z = fresh(), fresh(), torch.zeros(side, side, dtype=torch.complex64, device="cuda")
    z.real, z.imag = fresh(), fresh()
    for _ in range(60):
        for _ in range(order.randrange(1, 5)):
            expected = y + x.t()
            transpose_add(x, y)
            assert torch.equal(y, expected)
        what = order.randrange(5)
        if what == 0:
            order.choice(changes)(x)
        elif what == 1:
            order.choice(changes)(y)
        elif what == 2:
            # The same memory, and what lies in it is another number.
            plain, negated = z.imag, z.conj().imag
            for _ in range(4):
                expected = y + plain.t()
                transpose_add(plain, y)
                assert torch.equal(y, expected)
            with pytest.raises(ArgumentError, match="negated"):
                transpose_add(negated, y)
            assert torch.equal(y, expected)
        elif what == 3:
            x = x[:]
        else:
            x = fresh()


def test_torch_requires_grad(torch):
    x = torch.ones(10, device="cuda", requires_grad=True)
    y = torch.zeros(10, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        axpy(2.0, x, y)
    assert y.cpu().tolist() == [2.0] * 10


def test_torch_tensors_that_are_refused(torch):
    y = torch.zeros(10, device="cuda")
    for tensor, word in (
        (torch.zeros(10, device="cuda", dtype=torch.bfloat16), "bfloat16"),
        (torch.zeros(10, device="cuda", dtype=torch.complex64).conj(), "conjugated"),
        (torch.zeros(10, device="cuda").to_sparse(), "sparse"),
        (torch.zeros(10, device="meta"), "meta"),
        (torch.zeros(10), "device"),
    ):
        with pytest.raises(ArgumentError, match=word):
            axpy(2.0, tensor, y)
    assert not y.any()


def test_torch_takes_our_arrays(torch):
    held = qgraph.asarray(np.arange(12.0).reshape(3, 4), backend="cuda")
    for theirs in (torch.as_tensor(held, device="cuda"), torch.from_dlpack(held), torch.from_dlpack(held[:, ::2])):
        assert theirs.is_cuda
        np.testing.assert_array_equal(theirs.cpu().numpy(), held.numpy() if theirs.shape[1] == 4 else held[:, ::2].numpy())
    torch.from_dlpack(held)[0, 0] = 77.0
    torch.cuda.synchronize()
    assert held[0, 0] == 77.0


# --- CuPy ---------------------------------------------------------------------------------------------------------------


def test_cupy_arrays(cupy):
    x = cupy.arange(100, dtype=cupy.float32)[::-1]
    y = cupy.ones(200, dtype=cupy.float32)[::2]
    axpy(2.0, x, y)
    cupy.testing.assert_array_equal(y, 2 * x + 1)
    with cupy.cuda.Stream(non_blocking=True):
        x = cupy.random.rand(10**6)
        y = cupy.zeros_like(x)
        axpy(2.0, x, y)
        cupy.testing.assert_allclose(y, 2 * x)


def test_cupy_takes_our_arrays(cupy):
    held = qgraph.asarray(np.arange(12.0).reshape(3, 4), backend="cuda")
    np.testing.assert_array_equal(cupy.asarray(held[::-1]).get(), held[::-1].numpy())
    np.testing.assert_array_equal(cupy.from_dlpack(held[:, 1:]).get(), held[:, 1:].numpy())


# --- JAX ----------------------------------------------------------------------------------------------------------------


def test_jax_arrays_are_read_only(jax):
    x = jax.numpy.arange(100.0)
    y = qgraph.zeros(100, dtype=x.dtype, backend="cuda")
    axpy(2.0, x, y)
    np.testing.assert_array_equal(y.numpy(), 2 * np.asarray(x))
    with pytest.raises(ArgumentError, match="read-only"):
        axpy(2.0, y, x)
    with pytest.raises(ArgumentError, match="bfloat16"):
        axpy(2.0, x.astype("bfloat16"), y)


# --- Numba, and mixtures ------------------------------------------------------------------------------------------------


def test_numba_arrays():
    from qgraph.compat.numba_cuda import cuda

    x, y = cuda.to_device(np.arange(50.0)), cuda.to_device(np.ones(50))
    axpy(2.0, x, y)
    qgraph.synchronize()
    np.testing.assert_array_equal(y.copy_to_host(), 2 * np.arange(50.0) + 1)


def test_libraries_may_be_mixed_in_one_call(torch, cupy):
    x = torch.arange(50.0, device="cuda", dtype=torch.float64)
    y = cupy.zeros(50)
    double(State(x, y))
    cupy.testing.assert_array_equal(y, 2 * cupy.arange(50.0))
    held = qgraph.zeros(50, dtype=np.float64, backend="cuda")
    double(State(y, held))
    np.testing.assert_array_equal(held.numpy(), 4 * np.arange(50.0))


# --- captures: test_captured.py has the others --------------------------------------------------------------------------


def test_nothing_waits_for_a_captured_stream(torch, cupy):
    """An array of a library that captures, second to one of a library that does not: no order between the two is made."""
    x, y = cupy.ones(100, cupy.float32), torch.zeros(100, device="cuda")
    graph = torch.cuda.CUDAGraph()
    other = torch.zeros(4, device="cuda")
    with torch.cuda.graph(graph):
        other.add_(1)
        with pytest.raises(qgraph.CudaError, match="no other stream can wait for it: nothing ran"):
            axpy(2.0, x, y)
    graph.replay()
    axpy(2.0, x, y)
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 2.0))
    assert torch.equal(other, torch.ones_like(other))


def test_sparse_matrices_of_cupy(cupy):
    sparse = pytest.importorskip("cupyx.scipy.sparse")

    def powers(A, x, y, turns):
        for _t in qgraph.serial(range(turns)):
            y[:] = A @ x
            for i in range(A.shape[0]):
                x[i] = 0.5 * y[i]

    kernel = qgraph.kernel(powers)
    for seed, density in ((0, 0.01), (1, 0.2), (2, 0.01)):
        A = sparse.random(500, 500, density, random_state=seed, format="csr")
        x, y = cupy.random.default_rng(seed).random(500), cupy.full(500, cupy.nan)
        host = A.get(), x.get(), y.get()
        kernel(A, x, y, 20)
        kernel.reference(*host, 20)
        np.testing.assert_allclose(x.get(), host[1], rtol=1e-12)
        np.testing.assert_allclose(y.get(), host[2], rtol=1e-12)
