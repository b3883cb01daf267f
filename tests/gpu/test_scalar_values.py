"""``qgraph.scalar`` on the device: updates in the order of streams, and graphs of others that see them."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph

torch = pytest.importorskip("torch")


def note(seen, alpha, k):
    for i in range(1):
        seen[k + i] = alpha[()]


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128", "bool"])
def test_no_update_is_lost_or_early(dtype):
    count = 1000
    alpha, seen = qgraph.scalar(dtype, 0, backend="cuda"), qgraph.zeros(count, dtype, backend="cuda")
    kernel = qgraph.kernel(note)
    kernel(seen, alpha, 0)
    values = (np.arange(count) % 2 == 0) if dtype == "bool" else np.arange(count).astype(dtype)
    for k in range(count):
        alpha.update(values[k])
        kernel(seen, alpha, k)
    np.testing.assert_array_equal(seen.numpy(), values)


def test_in_the_order_of_pytorchs_stream():
    alpha = qgraph.scalar(np.float32, 0, backend="cuda")
    x = torch.zeros(1 << 20, device="cuda")
    seen = torch.zeros(100, device="cuda")
    kernel = qgraph.kernel(note)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for k in range(100):
            x.add_(1).sin_()
            alpha.update(k)
            kernel(seen, alpha, k)
    stream.synchronize()
    assert seen.tolist() == list(range(100))


@pytest.mark.parametrize("library", ["torch", "cupy", "qgraph"])
def test_graphs_of_others_see_updates(library):
    alpha = qgraph.scalar(np.float32, 2, backend="cuda")

    def scaled(x, alpha):
        for i in range(x.shape[0]):
            x[i] *= alpha[()]

    kernel = qgraph.kernel(scaled)
    if library == "cupy":
        cupy = pytest.importorskip("cupy")
        x = cupy.ones(100, cupy.float32)
        kernel(x, alpha)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            kernel(x, alpha)
            graph = stream.end_capture()
        launch = lambda: graph.launch(cupy.cuda.get_current_stream())  # noqa: E731
    else:
        x = torch.ones(100, device="cuda")
        kernel(x, alpha)
        if library == "torch":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                kernel(x, alpha)
            launch = graph.replay
        else:
            with qgraph.capture() as launch:
                kernel(x, alpha)
    for value in (3, 0.5, 7):
        alpha.update(value)
        launch()
    qgraph.synchronize()
    assert float(x[0]) == float(x[99]) == 2 * 3 * 0.5 * 7


def test_an_update_in_a_capture_is_refused_and_breaks_nothing():
    alpha = qgraph.scalar(np.float32, 2, backend="cuda")
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    with qgraph.capture() as g:
        x.add_(1)
        with pytest.raises(qgraph.CudaError, match="part of the graph"):
            alpha.update(3)
        x.add_(1)
    g()
    torch.cuda.synchronize()
    assert x.tolist() == [2.0] * 10
    assert alpha.value == 2
