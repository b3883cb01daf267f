"""Indices of stencils that are written as choices, or by a name, are of the same elements in plain words."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles
from tests.conftest import thorough

AROUND = [
    "i - 1 if i > 0 else u.shape[0] - 1",
    "u.shape[0] - 1 if i == 0 else i - 1",
    "i - 1 if i >= 1 else i - 1 + u.shape[0]",
    "i + 1 if i < u.shape[0] - 1 else 0",
    "0 if i == u.shape[0] - 1 else i + 1",
    "i + 1 if i + 1 != u.shape[0] else 0",
    "i + 2 if i + 2 < u.shape[0] else i + 2 - u.shape[0]",
    "i - 2 if i > 1 else (i - 2) % u.shape[0]",
]
OTHERS = [
    # Not around, or not for all elements.
    "i - 1 if i > 0 else 0",
    "i - 1 if i > 1 else u.shape[0] - 1",
    "i + 1 if i < u.shape[0] - 2 else 0",
    "i + 1 if i < 7 else 0",
    "i - 1 if j > 0 else u.shape[0] - 1",
    "i - 1 if c[i] > 0 else i",
]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of a few elements, and no array is too small for them."""
    for name, value in {"TILE": (8, 12), "HALO": 6, "FEW": 0}.items():
        monkeypatch.setattr(overlapped_tiles, name, value)


def stencil(index, *, named):
    lines = [f"k = {index}"] * named + [f"v[i, j] = (u[{'k' if named else index}, j] + 3 * u[i, j]) % 1009"]
    loops = ["    for _ in qgraph.serial(range(n)):", "        for i, j in qgraph.ndrange(*u.shape):"]
    lines = ["def stencil(u, v, c, n):", *loops, *(f"            {line}" for line in lines), "        u, v = v, u"]
    source, file = "\n".join(lines) + "\n", f"<{index}, {named}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"qgraph": qgraph}
    exec(compile(source, file, "exec"), names)
    return names["stencil"]


def run(kernel, shape=(21, 17)):
    found = []
    for call in (kernel, kernel.reference):
        arrays = [np.random.default_rng(k).integers(0, 1000, shape) for k in range(2)]
        call(*arrays, np.ones(shape[0], int), 31)
        found.append(arrays)
    np.testing.assert_array_equal(*found)
    return "two passes over memory" in str(kernel.plan(*arrays, np.ones(shape[0], int), 31))


# Each with a name for it, and some without one.
CASES = [*((each, True) for each in AROUND), (AROUND[4], False), (AROUND[0], False)]


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("case", [CASES[0], CASES[8], *thorough(*CASES[1:8], CASES[9])])
def test_choices_that_go_around_run_in_tiles(case):
    index, named = case
    assert run(qgraph.kernel(backend="cpu", fuse=True)(stencil(index, named=named)))


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("index", OTHERS)
def test_other_choices_do_not(index):
    assert not run(qgraph.kernel(backend="cpu", fuse=True)(stencil(index, named=True)))


@pytest.mark.needs("compiler")
def test_a_name_that_is_assigned_twice_is_no_index():
    def twice(u, v, c, n):
        for _ in qgraph.serial(range(n)):
            for i, j in qgraph.ndrange(*u.shape):
                k = i - 1 if i > 0 else u.shape[0] - 1
                if j > 3:
                    k = i
                v[i, j] = (u[k, j] + 3 * u[i, j]) % 1009
            u, v = v, u

    assert not run(qgraph.kernel(backend="cpu", fuse=True)(twice))
