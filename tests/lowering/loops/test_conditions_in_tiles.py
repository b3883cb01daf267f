"""Loops that store where a condition holds, in tiles: what is under one, and neighbours in the array that is stored to."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles
from tests.conftest import thorough

# Some tiles in it are far from every edge.
SHAPE = (44, 63)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Blocks of a few threads with tiles of a few elements, for arrays of any size."""
    sizes = {"TILE": (8, 12), "HALO": 4, "FEW": 0}
    blocks = {"TILES": ((16, 24),), "HALOS": (4,), "ROWS": (4,), "GAIN": 0, "LANES": 8, "HELD_ALONE": 400}
    for name, value in (sizes | {f"BLOCK_{name}": value for name, value in blocks.items()}).items():
        monkeypatch.setattr(overlapped_tiles, name, value)


def red_black(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 2 == 0:
                r = u[i - 1, j] + 3 * u[i + 1, j] - u[i, j - 1] + 5 * u[i, j + 1] + v[i, j]
                u[i, j] += r % 101 - i
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 2 == 1:
                r = u[i - 1, j] + 3 * u[i + 1, j] - u[i, j - 1] + 5 * u[i, j + 1] - v[i, j]
                u[i, j] += r % 103 + j


def of_either_colour(u, v, n):
    """The same loop for both colours, and an array besides that has all elements written."""
    for _ in qgraph.serial(range(n)):
        for colour in qgraph.static(range(2)):
            for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
                v[i, j] = (v[i, j] + u[i, j]) % 997
                if (i + j) % 2 == colour:
                    u[i, j] = (u[i - 1, j] + u[i + 1, j] + 2 * u[i, j - 1] + u[i, j + 1]) % 1009


def every_third(u, v, n):
    """Two arrays in one loop, each under a condition of its own; and what a condition asks changes."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if j % 3 == 0:
                u[i, j] = (u[i, j - 1] + 2 * u[i, j + 1] + v[i, j]) % 1009
            if (i + 2 * j) % 3 == 1 and v[i, j] > 100:
                v[i, j] -= 90
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if u[i, j] % 2:
                v[i, j] += u[i - 1, j] % 50


def limited(u, v, n):
    """One of several values, by a name that each branch assigns."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), u.shape[1]):
            a = u[i, j] - u[i - 1, j]
            b = u[i + 1, j] - u[i, j]
            if a * b <= 0:
                s = 0
            elif abs(a) < abs(b):
                s = a
            else:
                s = b
            v[i, j] = (u[i, j] - s) % 1009
        u, v = v, u


def both_branches(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if u[i, j] % 2 == 0:
                v[i, j] = u[i - 1, j] // 2
            else:
                v[i, j] = (3 * u[i, j + 1] + 1) % 1009
        u, v = v, u


def safe_only_there(u, v, n):
    """What is under the condition means nothing without it."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if u[i - 1, j] > 2:
                v[i, j] = 10_000 // (u[i - 1, j] - 2) + u[i, j + 1] % 7
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if v[i, j] > u[i, j]:
                u[i, j] = v[i, j] % 500


def one_after_the_other(u, v, n):
    """What one condition stores another one adds to."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 3 != 0:
                v[i, j] = u[i - 1, j] % 500
            if (i - j) % 4 == 0:
                v[i, j] += 7
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = (u[i, j] + v[i, j - 1]) % 1009


def alone(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 3 != 0:
                v[i, j] = u[i - 1, j] + u[i, j + 1]
        u, v = v, u


PROGRAMS = (red_black, of_either_colour, every_third, limited, both_branches, safe_only_there, one_after_the_other)


@pytest.mark.parametrize("function", [*PROGRAMS[:2], *thorough(*PROGRAMS[2:])])
def test_conditions(rig, function):
    kernel = rig.kernel(function, fuse=True)
    arrays = [np.random.default_rng(k).integers(0, 1000, SHAPE) for k in range(2)]
    plan = str(kernel.plan(*arrays, 30))
    assert "in two passes over memory" in plan
    if kernel.options.backend != "cpu":
        assert "of them in the registers of a thread" in plan
    for count in (0, 5, 14):
        rig.compare(kernel, lambda count=count: (*(array.copy() for array in arrays), count), noop=count == 0)


def relaxed(u, f, least, most):
    """Colours, and how much they changed."""
    sweeps = 0
    change = least + 1
    while change > least and sweeps < most:
        change = 0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 2 == 0:
                r = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + f[i, j]) // 4 - u[i, j]
                u[i, j] += r
                change = max(change, abs(r))
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 2 == 1:
                r = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + f[i, j]) // 4 - u[i, j]
                u[i, j] += r
        sweeps += 1
    return sweeps, change


def test_colours_that_converge(rig):
    kernel = rig.kernel(relaxed, fuse=True)
    rng = np.random.default_rng(4)
    u, f = rng.integers(0, 1000, SHAPE), rng.integers(-3, 4, SHAPE)
    for least, most in ((300, 50), (40, 50), (20, 9)):
        mine, theirs = u.copy(), u.copy()
        assert rig.run(kernel, mine, f, least, most) == kernel.reference(theirs, f, least, most)
        np.testing.assert_array_equal(mine, theirs)


def beside_it(u, v, n):
    """Of two branches one stores to what all look at."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 2 == 0:
                u[i, j] = u[i - 1, j] + 1
            else:
                v[i, j] = u[i, j]
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 2 == 1:
                u[i, j] = u[i - 1, j] - v[i, j]


@pytest.mark.needs("compiler")
def test_what_is_not_in_registers():
    plan = str(qgraph.kernel(fuse=True)(beside_it).plan(*[np.zeros((9, 9), np.int64) for _ in range(2)], 100))
    assert re.search("not in registers: line [0-9]+ looks at neighbours in an array that it writes", plan), plan


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(("function", "least"), [(one_after_the_other, 16 << 20), (red_black, 16 << 20), (alone, 8 << 20)])
def test_from_which_size_tiles_pay(monkeypatch, function, least):
    """From twice the bytes where threads at edges do one iteration after another."""
    monkeypatch.undo()
    plan = qgraph.kernel(fuse=True)(function).plan(*[np.zeros((9, 9), np.int64) for _ in range(2)], 100)
    (large,) = (value.source for value in plan.program.host_values if value.check == "tiles")
    assert f">= {least} and" in large


def left_early(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 5 == 0:
                continue
            v[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]
        u, v = v, u


@pytest.mark.needs("compiler")
def test_tiles_that_do_not_pay(monkeypatch):
    """A thread that does one iteration after another waits for each: a sweep for each pass is quicker."""
    monkeypatch.undo()
    arrays = [np.zeros((1500, 1500), np.int64) for _ in range(2)]
    plan = str(qgraph.kernel(fuse=True)(left_early).plan(*arrays, 100))
    assert re.search(
        "one sweep for a pass over memory: tiles, not in registers: .*, would be about 0.[0-9] times as fast", plan
    )
    assert "in two passes over memory" in str(qgraph.kernel(fuse=True)(red_black).plan(*arrays, 100))


def chosen(u, v, k, n):
    """All elements are the same, so no iteration looks at ``k``."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(*u.shape):
            same = u[i - 1, j] == u[(i + 1) % u.shape[0], j]
            v[i, j] = u[i, (j + 1) % u.shape[1]] + 1 if same else k[i + 500]
        u, v = v, u


def chosen_by_branches(u, v, k, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(*u.shape):
            same = u[i - 1, j] == u[(i + 1) % u.shape[0], j]
            if same:
                v[i, j] = u[i, (j + 1) % u.shape[1]] + 1
            else:
                v[i, j] = k[i + 500]
        u, v = v, u


@pytest.mark.parametrize("function", [chosen, chosen_by_branches])
def test_elements_at_which_no_iteration_looks(rig, monkeypatch, function):
    """At the rim of a tile in registers elements are wrong, and may not decide at which others it looks."""
    for name, value in {"TILES": ((20, 24),), "HALOS": (6,), "HELD": 1 << 12, "HELD_ALONE": 1 << 12}.items():
        monkeypatch.setattr(overlapped_tiles, f"BLOCK_{name}", value)
    kernel = rig.kernel(function, fuse=True)
    arrays = [np.full((52, 64), 3) for _ in range(2)]
    plan = str(kernel.plan(*arrays, np.arange(10), 30))
    assert "in two passes over memory" in plan
    assert "of them in the registers of a thread" not in plan
    rig.compare(kernel, lambda: (*(array.copy() for array in arrays), np.arange(10), 22))
