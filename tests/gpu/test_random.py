"""Random numbers of a GPU are those of the CPU, whichever way the loop runs; generators go on between replays."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph import random


def filled(x, y, seed):
    for i in range(x.shape[1]):
        x[0, i], x[1, i], x[2, i], x[3, i] = random.normal(seed, i, size=4)
        x[4, i] = random.exponential(seed, i, 1)
        y[0, i], y[1, i] = random.normal(seed, i, 2, dtype=np.float64, size=2)
        y[2, i] = random.exponential(seed, i, 3, dtype=np.float64)
        y[3, i] = random.uniform(seed, i, 4, dtype=np.float64)
        y[4, i] = random.integers(seed, i, 5, low=-(2**40), high=2**50)


def test_a_million_of_each():
    arrays = []
    for backend in ("cpu", "cuda"):
        x, y = (qgraph.zeros((5, 1_000_000), dtype, backend=backend) for dtype in (np.float32, np.float64))
        qgraph.kernel(backend=backend)(filled)(x, y, 2**40 + 3)
        arrays.append((qgraph.to_numpy(x), qgraph.to_numpy(y)))
    for on_cpu, on_cuda in zip(*arrays, strict=True):
        np.testing.assert_array_equal(on_cpu.view(f"u{on_cpu.itemsize}"), on_cuda.view(f"u{on_cuda.itemsize}"))


@pytest.mark.parametrize("options", [{}, {"graph": False}, {"fuse": True}])
def test_launches_go_on(options):
    def walk(x, rng, turns):
        t = 0
        while t < turns:
            for i in range(x.shape[0]):
                x[i] += rng.normal(i, t)
            t += 1

    kernel = qgraph.kernel(backend="cuda", **options)(walk)
    x, y, rng, twin = qgraph.zeros(50, np.float64, backend="cuda"), np.zeros(50), random.Generator(3), random.Generator(3)
    bound = kernel.bind(x, rng, 5)
    for _ in range(3):
        bound.launch()
        kernel(x, rng, 5)
        kernel.reference(y, twin, 5)
        kernel.reference(y, twin, 5)
    np.testing.assert_allclose(x.numpy(), y, rtol=1e-12)
    assert rng.step == twin.step == 6
    with pytest.raises(qgraph.BackendError, match="generator of random numbers"):
        _ = bound.graph
