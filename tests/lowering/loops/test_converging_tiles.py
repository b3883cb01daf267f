"""Loops that test in each iteration how far they are, in tiles: they end where plain loops end, with the same elements."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles
from tests.conftest import thorough

SHAPES = [(20, 31), (23, 32), (4, 60), (0, 5)]
# The most iterations: where a loop ends at them, it does so anywhere in a block, which has up to six sweeps.
MOST = (0, 1, 6, 7, 12, 13, 31, 1000)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of a few elements, and no array is too small for them."""
    sizes = {"TILE": (8, 12), "HALO": 6}
    blocks = {"TILES": ((16, 20),), "HALOS": (4,), "ROWS": (4,), "GAIN": 0, "LANES": 4, "HELD_ALONE": 400}
    for name, value in (sizes | {f"BLOCK_{name}": value for name, value in blocks.items()}).items():
        monkeypatch.setattr(overlapped_tiles, name, value)


def largest(u, v, res, tol, most):
    it = 0
    res[0] = tol + 1
    while res[0] > tol and it < most:
        res[0] = 0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) // 4
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            res[0] = max(res[0], abs(v[i, j] - u[i, j]))
            u[i, j] = v[i, j]
        it += 1
    return it


def swapped(u, v, res, tol, most):
    """Arrays change places, and the loop that looks at both writes nothing else."""
    it = 0
    res[0] = tol + 1
    while it < most and res[0] > tol:
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) // 4
        res[0] = 0
        for i, j in qgraph.ndrange((2, u.shape[0]), (0, u.shape[1] - 1)):
            res[0] = max(res[0], abs(v[i - 1, j] - u[i - 1, j + 1]) % 1000)
        u, v = v, u
        it += 1
    return it


def several(u, v, res, tol, most):
    """Two reductions, a sum of integers among them, which is never set back, and numbers that depend on both."""
    it = 0
    last = 0
    res[0] = 0
    res[1] = 0
    while it < most and last < 50_000 + tol:
        res[1] = 1_000_000
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i + 1, j - 1] = (u[i - 1, j] + 2 * u[i, j + 1]) % 1009
            res[1] = min(res[1], u[i, j] + 17)
        last = last + res[1] + it
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = (u[i, j] + v[i, j]) % 997
            res[0] += u[i, j]
        it += 2
    return last


def bodies_first(u, v, res, tol, most):
    """Tested behind its body."""
    it = 0
    while True:
        res[0] = 0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) // 4
        for i, j in qgraph.ndrange(*u.shape):
            res[0] = max(res[0], abs(v[i, j] - u[i, j]))
            u[i, j] = v[i, j]
        it += 1
        if res[0] <= tol or it >= most:
            break
    return it


def twice(u, v, res, tol, most):
    """In a loop of another kind, from where it ended before."""
    total = 0
    for k in qgraph.serial(range(3)):
        it = 0
        res[0] = tol + 1
        while res[0] > tol and it < most:
            res[0] = 0
            for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
                v[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) // 4
            for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
                res[0] = max(res[0], abs(v[i, j] - u[i, j]))
                u[i, j] = v[i, j]
            it += 1
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = (u[i, j] * 7 + k) % 5003
        total += it
    return total


def around(u, v, res, tol, most):
    """Periodic along both axes, in several ways to write it; the last tile goes on beyond the end."""
    it = 0
    total = 0
    rows, columns = u.shape
    while it < most:
        res[0] = 0
        for i in range(rows):
            for j in range(columns):
                below = i + 1 if i < rows - 1 else 0
                left = columns - 1 if j == 0 else j - 1
                v[i, j] = (u[i - 1, j] + 2 * u[below, j] + 3 * u[i, left] + u[i, (j + 1) % columns] + i - 2 * j) % 1009
                res[0] += v[i, j]
        u, v = v, u
        total = (total + res[0]) % 65521
        if total % 97 == tol:
            break
        it += 1
    return total


def arrays_of(shape, dtype=np.int64):
    return [np.random.default_rng(k).integers(0, 5000, shape).astype(dtype) for k in range(2)]


@pytest.mark.parametrize("function", [largest, *thorough(swapped, several, bodies_first, twice, around)])
def test_they_end_where_plain_loops_end(rig, function):
    kernel = rig.kernel(function, fuse=True)
    assert "iterations in two passes over memory" in str(kernel.plan(*arrays_of((9, 9)), np.zeros(2, int), 3, 9))
    ends = set()
    # The simulator takes a second a call.
    quick = rig.backend != "cpu"
    for shape in SHAPES[1::2] if quick else SHAPES:
        for most in (1, 13, 1000) if quick else MOST:
            for tol in (0, 40, 700) if most == 1000 else (0,):
                got, expected = ([*arrays_of(shape), np.full(2, 5)] for _ in range(2))
                theirs = kernel.reference(*expected, tol, most)
                assert rig.run(kernel, *got, tol, most) == theirs, (shape, tol, most)
                for mine, plain in zip(got, expected, strict=True):
                    np.testing.assert_array_equal(mine, plain, err_msg=f"{shape}, {tol}, {most}")
                ends.add(theirs)
    assert len(ends) > (2 if quick else 7)


def test_a_tile_owns_all_or_nothing_of_what_a_thread_does(rig, monkeypatch):
    """As on a device, where the halo has as many elements as threads have rows and columns, or a multiple of that."""
    monkeypatch.setattr(overlapped_tiles, "BLOCK_TILES", ((16, 16),))
    kernel = rig.kernel(several, fuse=True)
    for most in (7, 31):
        got, expected = ([*arrays_of((23, 24)), np.full(2, 5)] for _ in range(2))
        assert rig.run(kernel, *got, 0, most) == kernel.reference(*expected, 0, most)
        for mine, plain in zip(got, expected, strict=True):
            np.testing.assert_array_equal(mine, plain)


def an_element(u, v, res, tol):
    sweeps = 0
    res[0] = tol + 1.0
    while res[0] > tol:
        res[0] = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            res[0] = max(res[0], abs(v[i, j] - u[i, j]))
            u[i, j] = v[i, j]
        sweeps += 1
    return sweeps


def a_scalar(u, v, res, tol):
    """In one loop, which looks at what it stored."""
    sweeps = 0
    change = tol + 1.0
    while change > tol:
        change = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
            change = max(change, abs(v[i, j] - u[i, j]))
        u, v = v, u
        sweeps += 1
    res[0] = change
    return sweeps


def a_norm(u, v, res, tol):
    """A sum, and numbers that no iteration reads before it assigns to them."""
    sweeps = 0
    change = tol + 1.0
    while change > tol:
        total = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            new = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
            difference = new - u[i, j]
            total += difference * difference
            v[i, j] = new
        change = total**0.5 / 4
        u, v = v, u
        sweeps += 1
    res[0] = change
    return sweeps


@pytest.mark.parametrize("dtype", [np.float32, *thorough(np.float64)])
@pytest.mark.parametrize("function", [a_norm, *thorough(a_scalar, an_element)])
def test_floats(rig, function, dtype):
    fused, plain = (rig.kernel(function, fuse=fuse) for fuse in (True, False))
    for tol in (0.5, 0.1, 0.02, 0.01):
        found = []
        for kernel in (fused, plain):
            # Of one array: where edges change places there must be no end.
            arrays = [arrays_of((20, 31), dtype)[0] / 5000 for _ in range(2)]
            res = np.zeros(1, dtype)
            found.append([rig.run(kernel, *arrays, res, tol), *arrays, res])
        assert "two passes" in str(fused.plan(*arrays, res, tol))
        for mine, theirs in zip(*found, strict=True):
            # The sum of tiles is not added up in the order of the loop as written, which ends here at the same sweep.
            np.testing.assert_allclose(mine, theirs, rtol=1e-6 if function is a_norm else 0)


def history(u, v, res, tol, most):
    it = 0
    res[0] = tol + 1
    while res[0] > tol and it < most:
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] // 2
        res[0] = 0
        for i, j in qgraph.ndrange(*u.shape):
            res[0] = max(res[0], v[i, j])
            u[i, j] = v[i, j]
        res[it + 1] = res[0]
        it += 1


def with_its_number(u, v, res, tol, most):
    it = 0
    res[0] = tol + 1
    while res[0] > tol and it < most:
        res[0] = 0
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] // 2 + it
        for i, j in qgraph.ndrange(*u.shape):
            res[0] = max(res[0], v[i, j])
            u[i, j] = v[i, j]
        it += 1


def looked_at(u, v, res, tol, most):
    it = 0
    while u[0, 0] > tol and it < most:
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] // 2
        for i, j in qgraph.ndrange(*u.shape):
            res[0] = max(res[0], v[i, j])
            u[i, j] = v[i, j]
        it += 1


def a_number(u, v, res, tol, most):
    r = tol + 1
    while r > tol:
        r = 0
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] // 2
        for i, j in qgraph.ndrange(*u.shape):
            r = max(r, v[i, j])
            u[i, j] = v[i, j]


def a_product(u, v, res, tol, most):
    res[0] = tol + 1.0
    while res[0] > tol:
        res[0] = 1.0
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] * 0.5
        for i, j in qgraph.ndrange(*u.shape):
            res[0] *= v[i, j]
            u[i, j] = v[i, j]


def two_types(u, v, res, tol, most):
    """A sum that is of float64 where the arrays are of float32."""
    total = np.float64(1.0)
    while total > tol:
        total = np.float64(0.0)
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] * 0.5
        for i, j in qgraph.ndrange(*u.shape):
            total += v[i, j]
            u[i, j] = v[i, j]


def without(u, v, res, tol, most):
    it = 0
    while it < most and res[0] > tol:
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] // 2
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j]
        it += 1


def along_an_edge(u, v, res, tol, most):
    res[0] = tol + 1
    while res[0] > tol:
        res[0] = 0
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] // 2
        for j in range(u.shape[1]):
            res[0] = max(res[0], v[0, j])
            u[0, j] = v[0, j]


def along_a_diagonal(u, v, res, tol, most):
    it = 0
    res[0] = tol + 1
    while res[0] > tol and it < most:
        res[0] = 0
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] // 2
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j]
        for i in range(u.shape[0]):
            res[0] = max(res[0], u[i, i])
        it += 1


def over_three_axes(u, v, res, tol, most):
    it = 0
    res[0] = tol + 1
    while res[0] > tol and it < most:
        res[0] = 0
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] // 2
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j]
        for i, j, k in qgraph.ndrange(u.shape[0], u.shape[1], 3):
            res[0] = max(res[0], k * u[i, j])
        it += 1


def its_elements_are_indices(u, v, res, tol, most):
    """The loop ends before they lie beyond the end."""
    it = 0
    res[0] = 0
    while res[0] < res.shape[0] - 1 and it < most:
        for i, j in qgraph.ndrange(*u.shape):
            x = u[i, j] + 1
            v[i, j] = x + tol[x]
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j]
            res[0] = max(res[0], v[i, j])
        it += 1


def its_elements_are_bounds(u, v, res, tol, most):
    """The loop ends before there is one with which the loop inside of it would not."""
    it = 0
    res[0] = 9
    while res[0] > tol and it < most:
        res[0] = 1000
        for i, j in qgraph.ndrange(*u.shape):
            x = u[i, j]
            while x < 64:
                x = x * 2
            v[i, j] = u[i, j] - x // 64
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j]
            res[0] = min(res[0], v[i, j])
        it += 1


@qgraph.func
def element_of(array, i):
    return array[i]


def handed_on(u, v, res, tol, most):
    it = 0
    res[0] = 0
    while res[0] < 39 and it < most:
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] + 1 + element_of(tol, u[i, j] + 1)
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j]
            res[0] = max(res[0], v[i, j])
        it += 1


NOT_TILED = {
    history: "writes elements that no reduction computes",
    with_its_number: "looks at what changes from one iteration to the next",
    looked_at: "looks at arrays that the loops write",
    a_number: "is a kernel scalar whose type is not known here",
    a_product: "`*` of float64 in line",
    two_types: "is a kernel scalar whose type is not known here",
    without: "no loop in it computes what it tests",
    along_an_edge: "is along an edge",
    along_a_diagonal: "is not over rows and columns",
    over_three_axes: "is not over rows and columns",
    its_elements_are_indices: "computes indices from what changes from one iteration to the next",
    its_elements_are_bounds: "has a loop inside whose end depends on what changes from one iteration to the next",
    handed_on: "hands to `element_of`, which has loops or indices, what changes from one iteration to the next",
}


@pytest.mark.parametrize("function", NOT_TILED)
def test_what_does_not_run_in_tiles_says_why(function):
    dtype = {a_product: np.float64, two_types: np.float32}.get(function, np.int64)
    tol = np.zeros(40, int) if function in (its_elements_are_indices, handed_on) else 1
    args = (np.ones((9, 9), dtype), np.ones((9, 9), dtype), np.ones(40, dtype), tol, 9)
    plan = str(qgraph.kernel(fuse=True, backend="cpu")(function).plan(*args))
    assert "one sweep for a pass over memory: " in plan
    assert NOT_TILED[function] in plan
    assert "two passes" not in plan


def beyond_the_end(u, v, res, tol, most):
    """Iterations whose first element lies beyond all arrays, where they do not write it, belong to no tile."""
    it = 0
    res[0] = tol
    while res[0] >= tol and it < most:
        res[0] = 1000
        for i, j in qgraph.ndrange(*u.shape):
            if i < u.shape[0] - 1:
                v[i + 1, j] = u[i, j] // 2 + 50
            res[0] = min(res[0], u[i, j])
        for i, j in qgraph.ndrange(u.shape[0] - 1, u.shape[1]):
            u[i, j] = v[i, j] + 50
        for j in range(u.shape[1]):
            u[u.shape[0] - 1, j] = u[u.shape[0] - 1, j] - 1
        it += 1
    return it


@pytest.mark.parametrize("rows", [16, 17, 24])
def test_each_iteration_belongs_to_a_tile(rig, rows):
    kernel = rig.kernel(beyond_the_end, fuse=True)
    got, expected = ([*arrays_of((rows, 31)), np.zeros(1, np.int64)] for _ in range(2))
    for array in (got[0], expected[0]):
        array[-1] = 10
    assert "where loops go over whole arrays" in str(kernel.plan(*got, 3, 40))
    assert rig.run(kernel, *got, 3, 40) == kernel.reference(*expected, 3, 40)
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.needs("host_arrays")
@pytest.mark.parametrize("function", [swapped, *thorough(twice)])
def test_a_profile_is_of_the_same_tiles(rig, function):
    kernel = rig.kernel(function, fuse=True)
    given, expected = ([*arrays_of((20, 31)), np.zeros(2, np.int64)] for _ in range(2))
    wanted = kernel.reference(*expected, 2, 31)
    profile = kernel.profile(*given, 2, 31)
    assert profile.result == wanted
    for mine, theirs in zip(given, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    told = str(profile)
    assert ("two passes over memory" in told) == ("two passes over memory" in str(kernel.plan(*given, 2, 31)))
    assert profile.total == sum(row.total for row in profile.rows if row.depth == 0)
    if rig.backend == "cpu":
        # As many turns of two blocks as the iterations have room for, and what is left, one by one.
        assert [row.count for row in profile.rows if "two passes" in row.form] == [4 if function is swapped else 12]
