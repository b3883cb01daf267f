"""Loops of stencils over three axes: tiles whose planes stream through a block give the elements of plain loops."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles, streamed_tiles
from tests.conftest import thorough
from tests.lowering.loops.test_overlapped_tiles import in_tiles


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of a few planes and rows, for arrays of any size; a row is one of a warp."""
    monkeypatch.setattr(overlapped_tiles, "STREAM_LARGE", 0)
    monkeypatch.setattr(overlapped_tiles, "BLOCK_GAIN", 0)
    monkeypatch.setattr(streamed_tiles, "PLANES", 5)
    monkeypatch.setattr(streamed_tiles, "SHAPES", ((6, 2, 1 << 12),))


def seven_points(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            around = 2 * u[i - 1, j, k] + 3 * u[i + 1, j, k] + 5 * u[i, j - 1, k] + 7 * u[i, j + 1, k]
            v[i, j, k] = (around + 11 * u[i, j, k - 1] + 13 * u[i, j, k + 1] + u[i, j, k]) % 1009
        u, v = v, u


def corners(u, v, n):
    """Also what is in other rows and columns at once, and farther away along the last axis."""
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (3, u.shape[2] - 2)):
            v[i, j, k] = (u[i - 1, j - 1, k - 3] + 3 * u[i + 1, j + 1, k + 2] + 5 * u[i, j - 1, k + 1] + i - 2 * j + k) % 1009
        for i, j, k in qgraph.ndrange(*u.shape):
            u[i, j, k] = (v[i, j, k] + 2 * u[i, j, k]) % 997


def around(u, v, n):
    """All axes are periodic."""
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange(*u.shape):
            before = u[i - 1, j, k] + 3 * u[i, j - 1, k] + 5 * u[i, j, k - 1]
            behind = u[(i + 1) % u.shape[0], j, k] + 3 * u[i, (j + 1) % u.shape[1], k] + 5 * u[i, j, (k + 1) % u.shape[2]]
            v[i, j, k] = (before + 7 * behind + i) % 1009
        u, v = v, u


def reflecting(u, v, n):
    """Planes at two edges hold what is beside them."""
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            v[i, j, k] = (u[i - 1, j, k] + 2 * u[i + 1, j, k] + 3 * u[i, j + 1, k] + 4 * u[i, j, k - 1]) % 1009
        for j, k in qgraph.ndrange(u.shape[1], u.shape[2]):
            v[0, j, k] = v[1, j, k] % 7
        for i, j in qgraph.ndrange(u.shape[0], u.shape[1]):
            v[i, j, 0] = v[i, j, 1] + 1
        u, v = v, u


def staggered(e, h, n):
    """In place, one array by the other one."""
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange(e.shape[0] - 1, e.shape[1] - 1, e.shape[2] - 1):
            h[i, j, k] += (e[i + 1, j, k] - 2 * e[i, j + 1, k] + 3 * e[i, j, k + 1] - e[i, j, k]) % 11
        for i, j, k in qgraph.ndrange((1, e.shape[0]), (1, e.shape[1]), (1, e.shape[2])):
            e[i, j, k] += (h[i, j, k] + h[i - 1, j, k] - h[i, j - 1, k] + h[i, j, k - 1]) % 13


PROGRAMS = (seven_points, corners, around, reflecting, staggered)
# Rows that hold vectors, and such as do not; more than one tile along each axis.
SHAPES = ((13, 20, 248), (7, 17, 131))


@pytest.mark.parametrize("function", [*PROGRAMS[:3], *thorough(*PROGRAMS[3:])])
def test_as_plain_loops(rig, small_tiles, function):
    kernel = rig.kernel(function, fuse=True)
    for shape, count in zip(SHAPES, (9, 6), strict=True):
        arrays = [np.random.default_rng(k).integers(0, 1000, shape) for k in range(2)]
        found, plan = in_tiles(kernel, *arrays, 30)
        assert found == (kernel.options.backend != "cpu"), plan
        rig.compare(kernel, lambda count=count, arrays=arrays: (*(array.copy() for array in arrays), count))
