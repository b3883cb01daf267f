"""Arrays that kernels return, on the side of the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph import CudaError


@qgraph.kernel(backend="cuda")
def scaled(x: Any, n: int) -> Any:
    y = np.empty((n, x.shape[0]), x.dtype)
    for i, j in qgraph.ndrange(n, x.shape[0]):
        y[i, j] = x[j] * i
    return y


@qgraph.kernel(backend="cuda")
def with_a_number(x: Any) -> Any:
    y = np.zeros_like(x)
    y[:] = x + 1
    x[:] = 0
    return y, np.sum(y), x


@pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")
def test_arrays_of_the_host() -> None:
    x = np.arange(4.0)
    for _ in range(3):
        y, total, same = with_a_number(x)
        assert type(y) is np.ndarray
        assert same is x
        assert total == y.sum()
        assert not x.any()
        x[:] = 3


def test_no_array_is_passed() -> None:
    @qgraph.kernel(backend="cuda")
    def made(n: int) -> Any:
        y = qgraph.zeros(n)
        y[:] = 2
        return y

    found = made(3)
    assert type(found) is type(qgraph.zeros(1, backend="cuda"))
    assert qgraph.to_numpy(found).tolist() == [2.0] * 3


@pytest.mark.parametrize("library", ["torch", "cupy", "qgraph"])
def test_each_library_has_its_own(library: str) -> None:
    if library == "qgraph":
        x = qgraph.asarray(np.arange(4, dtype=np.float32), backend="cuda")
    elif library == "torch":
        x = pytest.importorskip("torch").arange(4, dtype=pytest.importorskip("torch").float32, device="cuda")
    else:
        x = pytest.importorskip("cupy").arange(4, dtype="float32")
    kept = [scaled(x, n) for n in (1, 3, 3, 3, 2)]
    for n, array in zip((1, 3, 3, 3, 2), kept, strict=True):
        assert type(array) is type(x)
        np.testing.assert_array_equal(qgraph.to_numpy(array), np.outer(np.arange(n), np.arange(4)).astype(np.float32))
    assert len({array.__cuda_array_interface__["data"][0] for array in kept}) == len(kept)


@pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")
def test_tensors_of_the_host() -> None:
    torch = pytest.importorskip("torch")
    y = scaled(torch.arange(4.0), 3)
    assert isinstance(y, torch.Tensor)
    assert y.device.type == "cpu"
    assert y[2].tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_capture_is_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(4.0, device="cuda")
    scaled(x, 2)
    torch.cuda.synchronize()
    with pytest.raises(CudaError, match="would be a new one at each launch"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.mul_(1)  # PyTorch warns of a graph that has nothing in it.
        scaled(x, 2)
    assert scaled(x, 2)[1].tolist() == x.tolist()


def test_arguments_of_ours_are_the_objects_themselves() -> None:
    x = qgraph.asarray(np.arange(4.0), backend="cuda")
    for _ in range(4):
        _, _, same = with_a_number(x)
        assert same is x
