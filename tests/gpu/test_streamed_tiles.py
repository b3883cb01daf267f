"""Tiles that stream through planes, of the sizes that they have on a device: the elements of plain loops, in integers."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles
from tests.lowering.loops.test_streamed_tiles import PROGRAMS, around, seven_points

SHAPES = [(150, 70, 300), (67, 33, 127), (5, 130, 513), (129, 4, 6)]
COUNTS = (1, 6, 13, 24)


@pytest.fixture(autouse=True)
def arrays_of_any_size(monkeypatch):
    """No array is too small for tiles, and no loop too slow."""
    monkeypatch.setattr(overlapped_tiles, "STREAM_LARGE", 0)
    monkeypatch.setattr(overlapped_tiles, "STREAM_GAIN", 0)


def compared(function, arrays, counts, **options):
    kernel = qgraph.kernel(backend="cuda", fuse=True, **options)(function)
    plain = qgraph.kernel(backend="cuda", **options)(function)
    assert "in two passes over memory" in str(kernel.plan(*arrays, 30))
    for count in counts:
        mine, theirs = ([qgraph.asarray(array, backend="cuda") for array in arrays] for _ in range(2))
        kernel(*mine, count)
        plain(*theirs, count)
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(qgraph.to_numpy(one), qgraph.to_numpy(other))


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_as_plain_loops(function, dtype):
    for shape, count in zip(SHAPES, COUNTS, strict=True):
        arrays = [np.random.default_rng(k).integers(0, 1000, shape).astype(dtype) for k in range(2)]
        compared(function, arrays, (count,))


@pytest.mark.parametrize("function", [seven_points, around])
def test_without_while_nodes(function):
    arrays = [np.random.default_rng(k).integers(0, 1000, SHAPES[0]).astype(np.int32) for k in range(2)]
    compared(function, arrays, (13,), conditional="host")


def heat(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
            v[i, j, k] = u[i, j, k] + 0.1 * (around - 6 * u[i, j, k])
        u, v = v, u


def test_floats_within_contraction():
    arrays = [np.random.default_rng(k).random(SHAPES[0], np.float32) for k in range(2)]
    kernel = qgraph.kernel(backend="cuda", fuse=True)(heat)
    mine, theirs = [qgraph.asarray(array, backend="cuda") for array in arrays], [array.astype(np.float64) for array in arrays]
    assert "in two passes over memory" in str(kernel.plan(*mine, 13))
    kernel(*mine, 13)
    inside, shifted = (slice(1, -1),) * 3, [slice(1, -1), slice(None, -2), slice(2, None)]
    for _ in range(13):
        u, v = theirs
        places = [
            [shifted[way] if axis == along else slice(1, -1) for axis in range(3)] for along in range(3) for way in (1, 2)
        ]
        v[inside] = u[inside] + 0.1 * (sum(u[tuple(place)] for place in places) - 6 * u[inside])
        theirs = [v, u]
    # Names change places, and an odd number of times.
    for one, other in zip(map(qgraph.to_numpy, mine), reversed(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_rows_begin_anywhere():
    """Rows of as many elements as vectors hold, and the first of them in the middle of one."""
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).integers(0, 1000, (2, 150, 70, 300)).astype(np.int32)
    found = []
    for fuse in (True, False):
        kernel = qgraph.kernel(backend="cuda", fuse=fuse)(seven_points)
        u, v = (
            torch.zeros(values[0].size + 1, dtype=torch.int32, device="cuda")[1:].reshape(values[0].shape) for _ in range(2)
        )
        for each, value in zip((u, v), values, strict=True):
            each.copy_(torch.from_numpy(value))
        kernel(u, v, 13)
        found.append([each.cpu().numpy() for each in (u, v)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
