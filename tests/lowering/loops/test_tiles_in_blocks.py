"""Tiles in shared memory, a block of threads for each: what is compiled for CUDA, and passes that leave arrays out."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles

# Some tiles in it are far from every edge.
SHAPE = (45, 63)


@pytest.fixture
def small_tiles(monkeypatch):
    """Blocks of a few threads with tiles of a few elements, for arrays of any size."""
    sizes = {"TILE": (8, 12), "HALO": 4, "LARGE": 0, "FEW": 0}
    blocks = {"TILES": ((16, 20),), "HALO": 4, "ROWS": 4, "LANES": 4, "LARGE": 0}
    for name, value in (sizes | {f"BLOCK_{name}": value for name, value in blocks.items()}).items():
        monkeypatch.setattr(overlapped_tiles, name, value)


def jacobi(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u, v = v, u


def shifted(u, v, n):
    """What is written first lies beside the variables."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(u.shape[0] - 2, (1, u.shape[1] - 1)):
            v[i + 2, j - 1] = (u[i, j] + 3 * u[i + 1, j - 1] + 5 * u[i + 2, j + 1]) % 1009
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = (v[i, j] + u[i, j]) % 997


def not_everywhere(u, v, n):
    """Where nothing is written the next iteration looks at what was."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 3 != 0:
                v[i, j] = (u[i - 1, j] + 3 * u[i + 1, j]) % 1009
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = (v[i, j] + 2 * v[i, j - 1]) % 997


def skipped(u, v, n):
    """The same of iterations that end before they write."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 3 == 0:
                continue
            v[i, j] = (u[i - 1, j] + 3 * u[i + 1, j]) % 1009
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = (v[i, j] + 2 * v[i, j - 1]) % 997


def added(u, v, n):
    """What is written first depends on what was."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] += u[i - 1, j] % 7
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = (v[i, j] + 2 * v[i, j - 1]) % 997


def one_after_another(u, v, n):
    """An iteration looks at what it has stored."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + 3 * u[i, j + 1]) % 1009
            x = v[i, j] + 1
            v[i, j] = x % 501
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = (v[i, j] + 2 * v[i, j - 1]) % 997


def staggered(u, v, n):
    """In place, several rows together."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(u.shape[0] - 1, u.shape[1] - 1):
            u[i, j] -= (v[i, j + 1] - v[i, j]) % 11 + i
        for i, j in qgraph.ndrange((1, u.shape[0]), (1, u.shape[1])):
            v[i, j] += (u[i, j] - u[i - 1, j]) % 13 - j


PROGRAMS = (shifted, not_everywhere, skipped, added, one_after_another, staggered)


@pytest.mark.parametrize("function", PROGRAMS)
def test_far_from_the_edges(rig, small_tiles, function):
    kernel = rig.kernel(function, fuse=True)
    arrays = [np.random.default_rng(k).integers(0, 1000, SHAPE) for k in range(2)]
    assert "in two passes over memory" in str(kernel.plan(*arrays, 30))
    for count in (0, 9, 18):
        rig.compare(kernel, lambda count=count: (*(array.copy() for array in arrays), count), noop=count == 0)


def test_edges_of_both_arrays_stay(rig, small_tiles):
    """Passes load and store one of two arrays that change places, but for tiles at the edges."""
    kernel = rig.kernel(jacobi, fuse=True)
    for count in (9, 18, 27):
        arrays = [np.random.default_rng(k).random(SHAPE) for k in range(2)]
        rig.compare(kernel, lambda count=count, arrays=arrays: (*(array.copy() for array in arrays), count))


def plan_and_ptx(function, count, **options):
    kernel, arrays = qgraph.kernel(fuse=True, **options)(function), [np.zeros((9, 9), np.float32) for _ in range(count)]
    return str(kernel.plan(*arrays, 100)), kernel.ptx(*arrays, 100)


@pytest.mark.needs("compiler")
def test_tiles_are_in_shared_memory():
    plan, texts = plan_and_ptx(jacobi, 2)
    assert "up to 8 iterations in tiles of 48 by 112 elements with a halo of 8" in plan
    for name in ("jacobi", "jacobi_back"):
        (text,) = (text for key, text in texts.items() if re.fullmatch(rf"jacobi_L\d+_tiles{name[6:]}", key))
        # More than a kernel has for the asking: it is the launch that asks.
        assert text.count(".extern .shared .align 16 .b8") == 1
        assert re.search(r"\.shared [^;]*\[\d+\];", text) is None
        assert ".maxntid 256" in text
        assert ".local" not in text
        # Eight rows and the two around them, and of each row what is beside it: no index is computed, nothing is loaded twice.
        blocks = [block.split() for block in re.split(r"\$L\w+:", text)]
        loads = max(block.count("ld.shared.f32") for block in blocks)
        assert loads == 10 + 2 * 8


@pytest.mark.needs("compiler")
def test_a_form_of_its_own_for_each_size():
    """Where arrays are large they are in tiles; where they are small the kernel is one block, as without tiles."""
    kernel, arrays = qgraph.kernel(fuse=True)(jacobi), [np.zeros((9, 9), np.float32) for _ in range(2)]
    plan = kernel.plan(*arrays, 100)
    assert plan.one_block is not None
    host = dict.fromkeys((value.name for value in plan.program.host_values), 1)
    large = next(task.block.where for task in plan.program.tasks() if task.block is not None)
    assert plan.one_block.fits(host | {large: 0})
    assert not plan.one_block.fits(host)


def many(a, b, c, d, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
            b[i, j] = a[i - 1, j] + a[i, j + 1]
            d[i, j] = c[i + 1, j] + c[i, j - 1]
        for i, j in qgraph.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
            a[i, j] = b[i, j] + d[i, j]
            c[i, j] = b[i, j] - d[i, j]


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(("dtype", "tile"), [(np.float32, "48 by 112"), (np.float64, "48 by 80"), (np.complex128, "16 by 48")])
def test_tiles_are_as_large_as_shared_memory_allows(dtype, tile):
    arrays = [np.zeros((9, 9), dtype) for _ in range(4)]
    plan = str(qgraph.kernel(fuse=True)(many).plan(*arrays, 100))
    assert f"tiles of {tile} elements with a halo of 8" in plan


@pytest.mark.needs("compiler")
def test_too_little_shared_memory(monkeypatch):
    monkeypatch.setattr(overlapped_tiles, "BLOCK_TILES", ((128, 128),))
    plan = str(qgraph.kernel(fuse=True)(many).plan(*[np.zeros((9, 9)) for _ in range(4)], 100))
    assert "one sweep for a pass over memory: tiles of its 4 arrays do not fit into shared memory" in plan
