"""Code for arrays of one shape, and what becomes of it when arrays come that have different ones."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.errors import CudaError


def weighted(x, y, z):
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            z[i, j] = x[i, j] + 2 * y[i - 1, -j] - x[-1, j]


def converging(x, y, most):
    it, change = 0, 1
    while change > 0 and it < most:
        change = 0
        for i in range(1, x.shape[0]):
            for j in range(x.shape[1]):
                change = max(change, abs(x[i, j] - x[i - 1, -j]))
                y[i, j] = (x[i, j] + x[i - 1, -j]) // 2
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                x[i, j] = y[i, j]
        it += 1
    return it


def made(x, y):
    t = 2 * x
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            t[i, j] += y[i - 1, j - 1]
    return t - 1


def arrays(*shapes):
    random = np.random.default_rng()
    return [random.integers(-9, 9, shape) for shape in shapes]


def agrees(kernel, *args):
    """Run on the device, and as plain Python; what is returned, and what was written."""
    given = [qgraph.asarray(each, backend="cuda") if isinstance(each, np.ndarray) else each for each in args]
    expected = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
    found, wanted = kernel(*given), kernel.reference(*expected)
    if wanted is not None:
        np.testing.assert_array_equal(found if isinstance(wanted, int) else qgraph.to_numpy(found), wanted)
    for mine, theirs in zip(given, expected, strict=True):
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(qgraph.to_numpy(mine), theirs)


LIKE = ((70, 33), (70, 33), (70, 33))
UNLIKE = ((70, 45), (81, 33), (69, 32))
# Function, how many arrays of those shapes it takes, and what else.
CASES = {"weighted": (weighted, 3, ()), "converging": (converging, 2, (70,)), "made": (made, 2, ())}


@pytest.mark.parametrize("name", CASES)
def test_unlike_shapes_take_other_code(name):
    function, count, more = CASES[name]
    kernel = qgraph.kernel(backend="cuda")(function)
    for number, shapes in enumerate((LIKE, [(7, 5)] * 3, ((70, 33), (81, 45), (69, 32)), LIKE, ((9, 7), (9, 8), (8, 7)))):
        agrees(kernel, *arrays(*shapes[:count]), *more)
        assert kernel.stats.compilations == (1 if number < 2 else 2)


@pytest.mark.parametrize("name", CASES)
def test_code_for_unlike_shapes_is_for_all(name):
    function, count, more = CASES[name]
    kernel = qgraph.kernel(backend="cuda")(function)
    for shapes in (((70, 33), (81, 45), (69, 32)), LIKE, ((9, 7), (10, 8), (8, 7))):
        agrees(kernel, *arrays(*shapes[:count]), *more)
    # All but the first two of `made` have one shape, whatever comes.
    assert kernel.stats.compilations == 1


def test_bound_to_unlike_ones():
    kernel = qgraph.kernel(backend="cuda")(weighted)
    agrees(kernel, *arrays(*LIKE))
    hosts = arrays(*UNLIKE)
    args = [qgraph.asarray(each, backend="cuda") for each in hosts]
    bound = kernel.bind(*args)
    for _ in range(3):
        args[2].fill(77)
        bound.launch()
        kernel.reference(*hosts)
        np.testing.assert_array_equal(qgraph.to_numpy(args[2]), hosts[2])
        agrees(kernel, *arrays(*LIKE))
        assert kernel.stats.compilations == 2


def test_bound_when_others_come():
    kernel = qgraph.kernel(backend="cuda")(weighted)
    hosts = arrays(*LIKE)
    args = [qgraph.asarray(each, backend="cuda") for each in hosts]
    bound = kernel.bind(*args)
    kernel.reference(*hosts)
    for number, shapes in enumerate((LIKE, UNLIKE, LIKE)):
        args[2].fill(77)
        bound.launch()
        np.testing.assert_array_equal(qgraph.to_numpy(args[2]), hosts[2])
        agrees(kernel, *arrays(*shapes))
        assert kernel.stats.compilations == min(number, 1) + 1


def test_a_captured_stream_asks_for_one_call():
    torch = pytest.importorskip("torch")
    kernel = qgraph.kernel(weighted)
    kernel(*(torch.as_tensor(each, device="cuda") for each in arrays(*LIKE)))
    hosts = arrays(*UNLIKE)
    args = [torch.as_tensor(each, device="cuda") for each in hosts]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        # PyTorch warns of a graph that is empty.
        args[2].zero_()
        with pytest.raises(CudaError, match="not compiled for these arguments yet"):
            kernel(*args)
    kernel(*args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*args)
    args[2].fill_(77)
    graph.replay()
    kernel.reference(*hosts)
    np.testing.assert_array_equal(args[2].cpu().numpy(), hosts[2])


def test_under_jit(monkeypatch):
    # Otherwise it takes three quarters of the device's memory.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    kernel = qgraph.kernel(made)
    jitted = jax.jit(lambda x, y: kernel(x, y))
    for shapes in (((70, 33), (70, 33)), ((70, 33), (81, 45)), ((70, 33), (70, 33))):
        x, y = (each.astype(np.float32) for each in arrays(*shapes))
        np.testing.assert_array_equal(np.asarray(jitted(x, y)), kernel.reference(x, y))
