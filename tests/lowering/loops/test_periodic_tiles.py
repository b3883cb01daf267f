"""Stencils over periodic axes in tiles, which hold copies of what lies beyond the end."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles
from tests.conftest import thorough

SHAPES = [(20, 31), (52, 64), (4, 30), (30, 4), (1, 1), (0, 5)]
COUNTS = (0, 1, 12, 25)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of a few elements, and no array is too small for them."""
    for name, value in {"TILE": (8, 12), "HALO": 6, "FEW": 0}.items():
        monkeypatch.setattr(overlapped_tiles, name, value)
    blocks = {
        "TILES": ((20, 24),),
        "HALOS": (6,),
        "ROWS": (4,),
        "GAIN": 0,
        "LANES": 8,
        "HELD": 1 << 12,
        "HELD_ALONE": 1 << 12,
    }
    for name, value in blocks.items():
        monkeypatch.setattr(overlapped_tiles, f"BLOCK_{name}", value)


def everywhere(u, v, m):
    """Along both axes, by remainders and by indices below 0; a variable is used besides."""
    n = u.shape[0]
    for _ in qgraph.serial(range(m)):
        for i, j in qgraph.ndrange(n, u.shape[1]):
            around = u[(i + 1) % n, j] + 2 * u[(i - 1) % n, j] + 3 * u[i, (j + 1) % u.shape[1]] + 5 * u[i, j - 1]
            v[i, j] = (around + i - 2 * j) % 1009
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j] if (i + j) % 3 != 0 else v[i - 1, j - 2]


def one_axis(u, v, m):
    """Rows are periodic, columns have edges."""
    for _ in qgraph.serial(range(m)):
        for i, j in qgraph.ndrange(u.shape[0], (1, u.shape[1] - 1)):
            v[i, j] = (u[(i + 2) % u.shape[0], j - 1] + 2 * u[i - 1, j + 1] + 3 * u[i, j]) % 1009
        for i in range(u.shape[0]):
            v[i, 0] = v[i, 1] + 1
        u, v = v, u


def in_place(u, v, m):
    for _ in qgraph.serial(range(m)):
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] += (v[(i + 1) % u.shape[0], j] - v[i, (j + 1) % u.shape[1]]) % 11 + i
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] -= (u[i - 1, j] - u[i, j - 1]) % 13 - j


def integers(shape):
    return [np.random.default_rng(k).integers(0, 1000, shape) for k in range(2)]


@pytest.mark.parametrize("function", [everywhere, *thorough(one_axis), in_place])
def test_periodic(rig, function):
    kernel = rig.kernel(function, fuse=True)
    plan = str(kernel.plan(*integers((20, 31)), 30))
    assert "in two passes over memory" in plan, plan
    assert rig.backend == "cpu" or "of them in the registers of a thread" in plan
    for shape in SHAPES:
        for count in COUNTS:
            got, expected = integers(shape), integers(shape)
            if count and min(shape) < 3 and 0 not in shape:
                continue
            kernel.reference(*expected, count)
            rig.run(kernel, *got, count)
            for mine, plain in zip(got, expected, strict=True):
                np.testing.assert_array_equal(mine, plain, err_msg=f"{shape}, {count}")


def two_sizes(u, v, m):
    for _ in qgraph.serial(range(m)):
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = (v[i, j] + 3 * v[i - 1, j]) % 1009
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = (v[i, j] + u[(i + 1) % u.shape[0], j]) % 997


@pytest.mark.parametrize("rows", [20, 21, 28])
def test_arrays_that_end_elsewhere(rig, rows):
    """What is at an index below 0 of a longer array is no neighbour: the loop takes one sweep a pass."""
    kernel = rig.kernel(two_sizes, fuse=True)
    (u, _), (v, _) = integers((20, 31)), integers((rows, 31))
    for count in COUNTS:
        rig.compare(kernel, lambda count=count: (u.copy(), v.copy(), count), noop=count == 0)


def part(u, v, m):
    for _ in qgraph.serial(range(m)):
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[(i + 1) % u.shape[0], j] + 1
        for i, j in qgraph.ndrange((1, u.shape[0]), u.shape[1]):
            u[i, j] = v[i, j] % 1009


def an_edge(u, v, m):
    for _ in qgraph.serial(range(m)):
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[(i + 1) % u.shape[0], j] + 1
        for j in range(u.shape[1]):
            u[0, j] = v[0, j] % 1009


def of_a_number(u, v, m):
    for _ in qgraph.serial(range(m)):
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[(i + 1) % m, j] + 1
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j] % 1009


NOT_TILED = {
    part: "goes over a part of axis 0, which is periodic",
    an_edge: "goes over a part of axis 0, which is periodic",
    of_a_number: "the index `(i + 1) % m` in line",
}


@pytest.mark.parametrize("function", NOT_TILED)
def test_what_does_not_run_in_tiles_says_why(function):
    plan = str(qgraph.kernel(fuse=True, backend="cpu")(function).plan(*integers((9, 9)), 30))
    assert "one sweep for a pass over memory: " in plan
    assert NOT_TILED[function] in plan
