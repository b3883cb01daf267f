"""Tiles of the sizes that loops of stencils have on a device give the elements of plain loops, bit for bit in integers."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import qgraph
from benchmarks.overlapped_tiles import fdtd, heat, jacobi
from qgraph.lowering.loops import overlapped_tiles
from tests.lowering.loops.test_converging_tiles import (
    a_norm,
    a_scalar,
    an_element,
    around,
    bodies_first,
    largest,
    several,
    swapped,
    twice,
)

SHAPES = [(300, 500), (257, 1001), (1030, 129), (113, 4), (5, 300)]
COUNTS = (1, 7, 16, 33, 60)


@pytest.fixture(autouse=True)
def arrays_of_any_size(monkeypatch):
    """No array is too small for tiles, and no loop too slow."""
    monkeypatch.setattr(overlapped_tiles, "BLOCK_LARGE", 0)
    monkeypatch.setattr(overlapped_tiles, "BLOCK_GAIN", 0)


def counting(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + 2 * u[i + 1, j] + 3 * u[i, j - 1] + 4 * u[i, j + 1]) % 1009
        u, v = v, u


def in_place(p, q, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(p.shape[0] - 1, p.shape[1] - 1):
            p[i, j] = (p[i, j] + q[i + 1, j] - q[i, j + 1] + i) % 1009
        for i, j in qgraph.ndrange((1, p.shape[0]), (1, p.shape[1])):
            if (i + j) % 3 != 0:
                q[i, j] = (q[i, j] + p[i - 1, j] - p[i, j - 1] + j) % 997


def far_away(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((3, u.shape[0] - 3), (3, u.shape[1] - 3)):
            v[i, j] = (u[i - 3, j + 3] + 2 * u[i + 2, j - 3] + 3 * u[i, j]) % 1009
        for j in range(u.shape[1]):
            v[0, j] = v[1, j] % 7
        u, v = v, u


def shifted(u, v, n):
    """What is written first lies beside the variables."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(u.shape[0] - 2, (1, u.shape[1] - 1)):
            v[i + 2, j - 1] = (u[i, j] + 3 * u[i + 1, j - 1] + 5 * u[i + 2, j + 1] + i - 2 * j) % 1009
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = (v[i, j] + u[i, j]) % 997


def periodic(u, v, n):
    """Along both axes, by remainders and by indices below 0."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(*u.shape):
            around = u[(i + 1) % u.shape[0], j] + 2 * u[i - 1, j] + 3 * u[i, (j + 1) % u.shape[1]] + 5 * u[i, j - 1]
            v[i, j] = (around + i - 2 * j) % 1009
        u, v = v, u


def leaky(u, v, n):
    """A product is what one sweep stores and the next one adds to."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.3 * ((u[i - 1, j] + u[i + 1, j]) + (u[i, j - 1] + u[i, j + 1]))
        u, v = v, u


@functools.cache
def kernel_of(function, *options):
    """Compiled once for all shapes."""
    return qgraph.kernel(backend="cuda", **dict(options))(function)


def run(function, arrays, count, **options):
    """What the arrays hold after a call."""
    kernel = kernel_of(function, *options.items())
    moved = [qgraph.asarray(array.copy(), backend="cuda") for array in arrays]
    if options.get("fuse"):
        assert "in two passes over memory" in str(kernel.plan(*moved, count))
    kernel(*moved, count)
    return [qgraph.to_numpy(array) for array in moved]


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("function", [counting, in_place, far_away, shifted, periodic])
def test_integers_are_those_of_the_plain_loop(function, dtype):
    for shape in SHAPES:
        arrays = [np.random.default_rng(k).integers(0, 1000, shape).astype(dtype) for k in range(2)]
        for count in COUNTS:
            for mine, plain in zip(run(function, arrays, count, fuse=True), run(function, arrays, count), strict=True):
                np.testing.assert_array_equal(mine, plain, err_msg=f"{shape}, {count}")


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [jacobi, heat, fdtd])
def test_floats_are_those_of_the_plain_loop(function, dtype):
    for shape in SHAPES[:3]:
        arrays = [np.random.default_rng(k).random(shape).astype(dtype) for k in range(3 if function is fdtd else 2)]
        for count in COUNTS:
            for mine, plain in zip(run(function, arrays, count, fuse=True), run(function, arrays, count), strict=True):
                np.testing.assert_allclose(mine, plain, rtol=1e-5, atol=1e-5, err_msg=f"{shape}, {count}")


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_without_contraction(dtype):
    """Nothing is contracted in a sweep here, and nothing may be from one sweep to the next, which registers connect."""
    arrays = [np.random.default_rng(k).random((700, 900)).astype(dtype) for k in range(2)]
    for count in (16, 60):
        for mine, plain in zip(run(leaky, arrays, count, fuse=True), run(leaky, arrays, count), strict=True):
            np.testing.assert_array_equal(mine, plain)


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("options", [{"graph": False}, {"conditional": "host"}], ids=str)
def test_launches_ask_for_shared_memory(options):
    arrays = [np.random.default_rng(k).integers(0, 1000, SHAPES[0]) for k in range(2)]
    for mine, plain in zip(run(counting, arrays, 60, fuse=True, **options), run(counting, arrays, 60), strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_the_same_kernel_for_large_and_small_arrays(monkeypatch):
    """Where arrays are small the kernel is one block, then tiles, then one block again."""
    monkeypatch.setattr(overlapped_tiles, "BLOCK_LARGE", 1 << 20)
    fused, plain = (qgraph.kernel(backend="cuda", fuse=fuse)(counting) for fuse in (True, False))
    for shape in [(40, 40), (600, 700), (30, 50), (500, 900)]:
        found = []
        for kernel in (fused, plain):
            moved = [
                qgraph.asarray(np.random.default_rng(k).integers(0, 1000, shape, dtype=np.int32), backend="cuda")
                for k in range(2)
            ]
            kernel(*moved, 40)
            found.append([qgraph.to_numpy(array) for array in moved])
        np.testing.assert_array_equal(*found)
        assert ("one block" in fused.last_launch.reason) == (shape[0] < 100), fused.last_launch.reason


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("function", [largest, swapped, several, bodies_first, twice, around])
def test_loops_that_converge_end_where_plain_loops_end(function, dtype):
    """At any iteration of a block of sweeps, or far behind the first one."""
    fused, plain = (kernel_of(function, ("fuse", fuse)) for fuse in (True, False))
    for shape in SHAPES[:2] + SHAPES[3:]:
        arrays = [np.random.default_rng(k).integers(0, 5000, shape).astype(dtype) for k in range(2)]
        for tol, most in [(0, count) for count in (0, 1, 8, 9, 16, 31)] + [(40, 300), (700, 300)]:
            found = []
            for kernel in (fused, plain):
                moved = [qgraph.asarray(each.copy(), backend="cuda") for each in (*arrays, np.full(2, 5, dtype))]
                found.append([kernel(*moved, tol, most), *map(qgraph.to_numpy, moved)])
            for mine, theirs in zip(*found, strict=True):
                np.testing.assert_array_equal(mine, theirs, err_msg=f"{shape}, {tol}, {most}")
    assert "in two passes over memory" in str(fused.plan(*moved, 1, 1))


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [an_element, a_scalar, a_norm])
def test_floats_that_converge_have_the_same_bits(function, dtype):
    """A power of two times a sum of four: nothing there depends on contraction. A sum of squares is another one in tiles."""
    fused, plain = (kernel_of(function, ("fuse", fuse)) for fuse in (True, False))
    for shape in SHAPES[:3]:
        for tol in (0.5, 0.1, 0.03):
            found = []
            for kernel in (fused, plain):
                arrays = [np.random.default_rng(7).random(shape).astype(dtype)] * 2
                moved = [qgraph.asarray(each.copy(), backend="cuda") for each in (*arrays, np.zeros(1, dtype))]
                found.append([kernel(*moved, tol), *map(qgraph.to_numpy, moved)])
            for mine, theirs in zip(*found, strict=True):
                exact = function is not a_norm
                np.testing.assert_allclose(mine, theirs, rtol=0 if exact else 1e-5, err_msg=f"{shape}, {tol}")
    assert "in two passes over memory" in str(fused.plan(*moved, 1.0))


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("options", [{"graph": False}, {"conditional": "host"}], ids=str)
def test_loops_that_converge_are_driven_by_the_host_too(options):
    found = []
    for each in ({"fuse": True, **options}, {}):
        arrays = [np.random.default_rng(k).integers(0, 5000, SHAPES[0]) for k in range(2)]
        moved = [qgraph.asarray(array, backend="cuda") for array in (*arrays, np.full(2, 5))]
        found.append([kernel_of(swapped, *each.items())(*moved, 2, 77), *map(qgraph.to_numpy, moved)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, theirs)


# No while node: racecheck, synccheck and initcheck can follow these.
DRIVEN = pytest.mark.parametrize("options", [{"graph": False}, {"conditional": "host"}], ids=["stream", "host"])


@pytest.mark.without_bounds_check
@DRIVEN
@pytest.mark.parametrize("function", [counting, in_place, shifted, periodic])
def test_tiles_without_while_nodes(function, options):
    """Some tiles are far from every edge, and in registers."""
    arrays = [np.random.default_rng(k).integers(0, 1000, (110, 240)) for k in range(2)]
    expected = [array.copy() for array in arrays]
    found = run(function, arrays, 17, fuse=True, **options)
    kernel_of(function, ("fuse", True), *options.items()).reference(*expected, 17)
    for mine, plain in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, plain)


@pytest.mark.without_bounds_check
@DRIVEN
@pytest.mark.parametrize(("function", "tolerances"), [(swapped, (2, 13)), (a_scalar, (900.0,))])
def test_tiles_that_converge_without_while_nodes(function, tolerances, options):
    kernel = kernel_of(function, ("fuse", True), *options.items())
    dtype = np.int64 if function is swapped else np.float64
    arrays = [(np.random.default_rng(7).random((110, 240)) * 5000).astype(dtype) for _ in range(2)]
    expected = [*(array.copy() for array in arrays), np.full(2, 5, dtype)]
    moved = [qgraph.asarray(array.copy(), backend="cuda") for array in expected]
    assert "in two passes over memory" in str(kernel.plan(*moved, *tolerances))
    assert kernel(*moved, *tolerances) == kernel.reference(*expected, *tolerances)
    for mine, plain in zip(map(qgraph.to_numpy, moved), expected, strict=True):
        np.testing.assert_array_equal(mine, plain)
