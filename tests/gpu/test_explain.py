"""The grids that ``explain`` tells are those that are launched."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def line(x, u):
    for i in range(x.shape[0]):
        x[i] = 2.0 * x[i]


def rows(x, u):
    for i, j in qgraph.ndrange(*u.shape):
        u[i, j] = u[i, j] + 1


def one(x, u):
    x[0] = u[0, 0] + 1


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("options", [{}, {"block_size": 64}], ids=str)
@pytest.mark.parametrize("function", [line, rows, one], ids=lambda each: each.__name__)
@pytest.mark.parametrize("n", [1, 37, 300])
def test_grids(function, n, options):
    kernel = qgraph.kernel(backend="cuda", **options)(function)
    given = np.ones(n * n, np.float32), np.ones((n, n), np.float32)
    (note,) = kernel.explain(*given).launches.values()
    kernel(*(qgraph.asarray(each, backend="cuda") for each in given))
    (node,) = kernel._cache._latest.executable._kernels.values()
    shape = node.shape
    if function is one:
        assert note.startswith("one thread")
        assert shape.all_blocks * shape.threads * shape.threads_down == 1
        return
    blocks = " x ".join(f"{each:,}" for each in (shape.blocks, shape.blocks_down, shape.times) if each > 1) or "1"
    threads = " x ".join(str(each) for each in (shape.threads, shape.threads_down) if each > 1) or "1"
    assert note.startswith(f"{blocks} block{'s' * (shape.all_blocks > 1)} of {threads}:")


def summed(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


@pytest.mark.parametrize("n", [1, 1000, 10**7])
def test_reductions_have_no_more_blocks(n):
    kernel = qgraph.kernel(backend="cuda")(summed)
    x = np.ones(n, np.float32)
    notes = [note for note in kernel.explain(x).launches.values() if "at most" in note]
    assert len(notes) == 1
    most = int(notes[0].removeprefix("at most ").partition(" block")[0].replace(",", ""))
    kernel(qgraph.asarray(x, backend="cuda"))
    grids = [node.shape.all_blocks for node in kernel._cache._latest.executable._kernels.values() if node.code.reduces]
    assert len(grids) == 1
    assert 1 <= grids[0] <= most
