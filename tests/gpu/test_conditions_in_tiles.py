"""Loops with conditions, in tiles of the sizes that they have on a device, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles
from tests.lowering.loops.test_conditions_in_tiles import PROGRAMS, relaxed

SHAPES = ((257, 301), (130, 520), (9, 200))


@pytest.fixture(autouse=True)
def arrays_of_any_size(monkeypatch):
    """No array is too small for tiles."""
    monkeypatch.setattr(overlapped_tiles, "BLOCK_LARGE", 0)


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("function", PROGRAMS)
def test_conditions(function, dtype):
    kernel = qgraph.kernel(backend="cuda", fuse=True)(function)
    plain = qgraph.kernel(backend="cuda")(function)
    for shape in SHAPES:
        arrays = [np.random.default_rng(k).integers(0, 1000, shape).astype(dtype) for k in range(2)]
        for count in (1, 6, 15):
            found = []
            for each in (kernel, plain):
                moved = [qgraph.asarray(array.copy(), backend="cuda") for array in arrays]
                each(*moved, count)
                found.append([qgraph.to_numpy(array) for array in moved])
            for mine, theirs in zip(*found, strict=True):
                np.testing.assert_array_equal(mine, theirs, err_msg=f"{shape}, {count}")
    assert "in two passes over memory" in str(kernel.plan(*moved, 100))


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("function", [*PROGRAMS[:2], PROGRAMS[4]])
def test_conditions_without_while_nodes(function):
    """As plain Python has it, and so that the sanitizers can follow."""
    kernel = qgraph.kernel(backend="cuda", fuse=True, conditional="host")(function)
    arrays = [np.random.default_rng(k).integers(0, 1000, (150, 260)) for k in range(2)]
    expected = [array.copy() for array in arrays]
    kernel.reference(*expected, 9)
    moved = [qgraph.asarray(array, backend="cuda") for array in arrays]
    kernel(*moved, 9)
    for mine, theirs in zip(moved, expected, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(mine), theirs)


@pytest.mark.without_bounds_check
def test_colours_that_converge():
    kernel = qgraph.kernel(backend="cuda", fuse=True)(relaxed)
    plain = qgraph.kernel(backend="cuda")(relaxed)
    rng = np.random.default_rng(4)
    u, f = rng.integers(0, 1000, (257, 301)), rng.integers(-3, 4, (257, 301))
    for least, most in ((300, 50), (40, 50), (20, 9)):
        found = []
        for each in (kernel, plain):
            moved = [qgraph.asarray(array.copy(), backend="cuda") for array in (u, f)]
            found.append((each(*moved, least, most), qgraph.to_numpy(moved[0])))
        assert found[0][0] == found[1][0]
        np.testing.assert_array_equal(found[0][1], found[1][1])
