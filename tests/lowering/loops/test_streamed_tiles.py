"""Loops of stencils over three axes: tiles whose planes stream through a block give the elements of plain loops."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import qgraph
from benchmarks.overlapped_tiles import averaged
from tests.conftest import thorough
from tests.lowering.loops.test_overlapped_tiles import in_tiles


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
# Rows that hold vectors, in several tiles, some of which are far from the first and last rows; and such as hold none.
SHAPES = ((9, 20, 132), (6, 13, 30))


# Each with either shape; the larger one takes the simulator up to 13 seconds.
CASES = tuple(itertools.product(PROGRAMS, SHAPES))


@pytest.mark.parametrize("case", [CASES[0], CASES[3], *thorough(*CASES[1:3], *CASES[4:])])
def test_as_plain_loops(rig, small_streamed_tiles, case):
    function, shape = case
    kernel = rig.kernel(function, fuse=True)
    arrays = [np.random.default_rng(k).integers(0, 1000, shape).astype(np.int32) for k in range(2)]
    found, plan = in_tiles(kernel, *arrays, 30)
    assert found == (kernel.options.backend != "cpu"), plan
    rig.compare(kernel, lambda: (*(array.copy() for array in arrays), 9 if shape == SHAPES[0] else 6))


def four_corners(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            ends = u[i - 1, j - 1, k - 1] + u[i + 1, j + 1, k + 1]
            v[i, j, k] = 0.25 * (ends + u[i - 1, j + 1, k] + u[i, j - 1, k + 1])
        u, v = v, u


def where_even(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            if (i + j + k) % 2 == 0:
                v[i, j, k] = u[i - 1, j, k] + u[i, j, k + 1]
        u, v = v, u


def plan_of(function, dtype=np.float32):
    kernel, arrays = qgraph.kernel(fuse=True, backend="cuda")(function), [np.zeros((9, 9, 9), dtype) for _ in range(2)]
    return kernel, str(kernel.plan(*arrays, 100))


@pytest.mark.needs("compiler")
def test_vectors_are_loaded_and_neighbours_are_shuffled():
    kernel, plan = plan_of(averaged)
    assert "up to 4 iterations in tiles of 52 by 16 by 120 elements with a halo of 4, 1 for each iteration" in plan
    texts = kernel.ptx(*np.zeros((2, 9, 9, 9), np.float32), 100)
    for name in ("tiles", "tiles_back"):
        (text,) = (text for key, text in texts.items() if re.fullmatch(rf"averaged_L\d+_{name}", key))
        # Each of three planes that follow each other, once in tiles at edges and once in others: two rows, and what is stored.
        assert text.count("shfl.sync.idx") == 3 * 2 * 4 * 4
        assert len(re.findall(r"ld\.global\.(?:nc\.)?v4\.\w+", text)) >= 3 * 2 * 2
        assert len(re.findall(r"st\.shared\.v4\.\w+", text)) >= 3 * 2 * 4 * 2
        assert ".local" not in text


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(
    ("function", "dtype", "why"),
    [
        (averaged, np.float64, "have elements of float64: tiles pay for those of 4 bytes"),
        (four_corners, np.float32, "would be about 1.2 times as fast, and do from 1.3 on"),
        (where_even, np.float32, "does more than assign to elements of arrays with three axes"),
    ],
)
def test_loops_that_run_as_they_are(function, dtype, why):
    _, plan = plan_of(function, dtype)
    assert "one sweep for a pass over memory: " in plan
    assert why in plan


def element_of_row(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            v[i, j, k] = (u[i, j, k - 1] + u[i + 1, j][k]) % 1009
        u, v = v, u


def rows_alone(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            v[i, j][k] = (u[i, j][k - 1] + u[i + 1, j][k]) % 1009
        u, v = v, u


def stored_in_planes(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            v[i][j][k] = (u[i, j, k - 1] + u[i + 1, j, k]) % 1009
        u, v = v, u


@pytest.mark.parametrize("function", [element_of_row, rows_alone, stored_in_planes])
def test_elements_of_rows(rig, small_streamed_tiles, function):
    kernel = rig.kernel(function, fuse=True)
    arrays = [np.random.default_rng(k).integers(0, 1000, (5, 6, 9)).astype(np.int32) for k in range(2)]
    found, plan = in_tiles(kernel, *arrays, 30)
    assert not found
    assert "as a whole, or several of its elements" in plan
    rig.compare(kernel, lambda: (*(array.copy() for array in arrays), 5))


def chosen(u, v, c, n):
    """No element is 0 but where nobody is to look."""
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            v[i, j, k] = c[i + 50] if u[i - 1, j, k] == 0 else u[i, j, k + 1] % 300 + 1
        u, v = v, u


def chosen_by_and(u, v, c, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            none = u[i, j - 1, k] == 0
            v[i, j, k] = (none and c[i + 50] > 2) + u[i, j, k + 1] % 300 + 1
        u, v = v, u


def chosen_by_comparisons(u, v, c, n):
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            v[i, j, k] = (1 > u[i, j - 1, k] > c[i + 50]) + u[i, j, k + 1] % 300 + 1
        u, v = v, u


def chosen_in_tiles(u, v, c, n):
    """What is there for all cells of a tile may be chosen."""
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            first = c[i] if i > 1 else 5
            v[i, j, k] = (u[i, j, k + 1] if u[i - 1, j, k] % 2 else u[i, j - 1, k] + u.shape[1]) % 300 + first
        u, v = v, u


@pytest.mark.parametrize("function", [chosen, chosen_by_and, chosen_by_comparisons, chosen_in_tiles])
def test_elements_at_which_no_iteration_looks(rig, small_streamed_tiles, function):
    kernel = rig.kernel(function, fuse=True)
    arrays = [np.random.default_rng(k).integers(1, 300, (6, 9, 30)).astype(np.int32) for k in range(2)]
    other = np.arange(6, dtype=np.int32)
    found, plan = in_tiles(kernel, *arrays, other, 30)
    if kernel.options.backend != "cpu":
        assert found == (function is chosen_in_tiles), plan
        assert found or "chooses by elements at which others it looks" in plan
    rig.compare(kernel, lambda: (*(array.copy() for array in arrays), other, 7))


@pytest.mark.needs("compiler")
def test_estimate_is_explained():
    kernel = qgraph.kernel(fuse=True, backend="cuda")(averaged)
    explained = str(kernel.explain(*np.zeros((2, 9, 9, 9), np.float32), 100))
    assert "estimated 1.7 times as fast as iterations one by one" in explained
    assert "a halo of 4 by 4 by 4" in explained
