"""Loops of stencils in tiles: many sweeps for a pass over memory give the elements that one at a time gives, bit for bit."""

from __future__ import annotations

import ast
import linecache
import random
import zlib

import numpy as np
import pytest

import qgraph
from qgraph.lowering.codegen.cpu_chunks import chunk_function
from qgraph.lowering.loops import overlapped_tiles
from qgraph.runtime.values.temporaries import Temporaries
from tests.conftest import THOROUGH, thorough

SHAPES = [(20, 31), (16, 24), (17, 25), (4, 60), (60, 4), (3, 30), (1, 1), (0, 5)]
COUNTS = (0, 1, 4, 12, 25)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of a few elements, and no array is too small for them."""
    monkeypatch.setattr(overlapped_tiles, "TILE", (8, 12))
    monkeypatch.setattr(overlapped_tiles, "HALO", 6)
    monkeypatch.setattr(overlapped_tiles, "FEW", 0)
    monkeypatch.setattr(overlapped_tiles, "BLOCK_TILES", ((20, 24),))
    monkeypatch.setattr(overlapped_tiles, "BLOCK_HALOS", (6,))
    monkeypatch.setattr(overlapped_tiles, "BLOCK_ROWS", (4,))
    monkeypatch.setattr(overlapped_tiles, "BLOCK_GAIN", 0)
    monkeypatch.setattr(overlapped_tiles, "BLOCK_LANES", 8)
    monkeypatch.setattr(overlapped_tiles, "BLOCK_HELD", 1 << 12)
    monkeypatch.setattr(overlapped_tiles, "BLOCK_HELD_ALONE", 1 << 12)


def in_tiles(kernel, *args):
    """Whether a loop of the kernel runs in tiles; and its plan."""
    plan = str(kernel.plan(*args))
    return "in two passes over memory" in plan, plan


class Compared:
    """A kernel whose arrays hold after a call what they hold after plain Python."""

    def __init__(self, rig, function):
        self._rig, self._kernel, self._planned = rig, rig.kernel(function, fuse=True), False

    def __call__(self, arrays, *rest):
        if not self._planned:
            found, plan = in_tiles(self._kernel, *arrays, *rest)
            assert found, plan
            self._planned = True
        expected, got = ([array.copy() for array in arrays] for _ in range(2))
        theirs = self._kernel.reference(*expected, *rest)
        assert self._rig.run(self._kernel, *got, *rest) == theirs
        for mine, other in zip(got, expected, strict=True):
            if mine.dtype.kind == "f":
                np.testing.assert_allclose(mine, other, rtol=1e-4 if mine.dtype == np.float32 else 1e-12)
            else:
                np.testing.assert_array_equal(mine, other)


def integers(shape, count=2, dtype=np.int64):
    generator = np.random.default_rng(7)
    return [generator.integers(0, 1000, shape).astype(dtype) for _ in range(count)]


def there_and_back(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + 2 * u[i + 1, j] + 3 * u[i, j - 1] + 4 * u[i, j + 1]) % 1009
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = (v[i - 1, j] + 5 * v[i + 1, j] + 7 * v[i, j - 1] + v[i, j + 1] + u[i, j]) % 1009


def copied_back(u, v, n):
    """One sweep an iteration, and loops as Python has them."""
    for _ in qgraph.serial(range(n)):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = (u[i - 1, j - 1] + 2 * u[i + 1, j + 1] + 3 * u[i, j]) % 1009
        for i in range(u.shape[0]):
            for j in range(u.shape[1]):
                u[i, j] = v[i, j]


def edges(u, v, n):
    """Rows and columns at the edge follow their neighbours."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + 2 * u[i + 1, j] + 3 * u[i, j - 1] + 4 * u[i, j + 1]) % 1009
        for j in range(u.shape[1]):
            v[0, j] = v[1, j] + 1
        for j in range(u.shape[1]):
            v[u.shape[0] - 1, j] = v[u.shape[0] - 2, j] + 2
        for i in range(u.shape[0]):
            v[i, 0] = v[i, 2]
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j]


def waves(p, vx, vy, c, n):
    """A staggered grid: arrays of three shapes, and one that is only read, at elements of its own."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, vx.shape[0] - 1), vx.shape[1]):
            vx[i, j] -= (p[i, j] - p[i - 1, j]) % 11
        for i, j in qgraph.ndrange(vy.shape[0], (1, vy.shape[1] - 1)):
            if p[i, j] > 3:
                vy[i, j] -= (p[i, j] - p[i, j - 1]) % 13
        for i, j in qgraph.ndrange(*p.shape):
            k = (c[j % c.shape[0]] + i) % 17
            p[i, j] = (p[i, j] + k * (vx[i + 1, j] - vx[i, j] + vy[i, j + 1] - vy[i, j])) % 1009


def red_black(u, n):
    """In place: the elements of one colour are all that changes, and those of the other one all that is read."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 2 == 0:
                u[i, j] = (u[i - 1, j] + 2 * u[i + 1, j] + 3 * u[i, j - 1] + 4 * u[i, j + 1]) % 1009
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            if (i + j) % 2 == 1:
                u[i, j] = (u[i - 1, j] + 2 * u[i + 1, j] + 3 * u[i, j - 1] + 4 * u[i, j + 1]) % 1009


@qgraph.func
def limited(x, most):
    while x > most:
        x -= most
    return x


def with_inner_loops(u, v, w, a, n):
    t = 0
    for t in qgraph.serial(range(3, 3 + 2 * n, 2)):
        for i, j in qgraph.ndrange((3, u.shape[0] - 3), (3, u.shape[1] - 3)):
            s = 0
            for k in range(3):
                if (i + j + k) % 5 == 0:
                    continue
                s += w[k] * a
            v[i, j] = limited(s + u[i - 3, j + 3] + u[i + 1, j - 2], 997)
        for i, j in qgraph.ndrange((3, u.shape[0] - 3), (3, u.shape[1] - 3)):
            x = v[i, j] if v[i, j] > 10 else v[i, j + 1]
            u[i, j] = x + u[i, j] % 7
    return t


def test_two_arrays(rig):
    compared = Compared(rig, there_and_back)
    for shape in SHAPES:
        for count in COUNTS:
            compared(integers(shape), count)


def test_edges_follow_their_neighbours(rig):
    compared = Compared(rig, edges)
    for shape in SHAPES:
        if min(shape) > 2:
            for count in COUNTS:
                compared(integers(shape), count)


@THOROUGH
def test_a_staggered_grid(rig):
    compared = Compared(rig, waves)
    for rows, columns in SHAPES[:5]:
        (p,), (vx,), (vy,) = (integers(shape, 1) for shape in ((rows, columns), (rows + 1, columns), (rows, columns + 1)))
        for count in COUNTS:
            compared([p, vx, vy, np.arange(7)], count)


def test_in_place(rig):
    compared = Compared(rig, red_black)
    for shape in SHAPES:
        for count in COUNTS:
            compared(integers(shape, 1), count)


def test_inner_loops_funcs_and_numbers(rig):
    compared = Compared(rig, with_inner_loops)
    for shape in SHAPES[:3]:
        for count in (1, 3, 9):
            compared([*integers(shape), np.arange(3)], 5, count)


def swapped(u, v, n, dt):
    rows, columns = u.shape
    last = rows - 1
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, rows - 1), (2, columns - 1)):
            v[i, j] = u[i, j] + dt * (u[i - 1, j] + u[i + 1, j] + u[i, j - 2] + u[i, j + 1] - 4.0 * u[i, j])
        for j in range(columns):
            v[last, j] = v[rows - 2, j] + v[-3, j]
        u, v = v, u


def rotated(u, v, w, c, n):
    """Leapfrog, as waves have it: three levels, of which the oldest becomes the newest, and a sweep behind the change."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            w[i, j] = (v[i - 1, j] + v[i + 1, j] + 3 * v[i, j - 1] + v[i, j + 1] - u[i, j]) % c
        u, v, w = v, w, u
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            w[i + 1, j - 1] = v[i, j] + u[i, j - 1]


def two_pairs(u, v, a, b, n):
    """Arrays of two types change places, every other pair twice."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + u[i, j + 1] + int(a[i, j])) % 1009
            b[i, j] = (a[i + 1, j] + a[i, j - 1]) % 101
        u, v = v, u
        a, b = b, a
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + u[i, j + 1]) % 1009
        u, v = v, u


@pytest.mark.parametrize("dtype", [np.float32])
def test_arrays_that_change_places(rig, dtype):
    compared = Compared(rig, swapped)
    for shape in SHAPES[:5]:
        if min(shape) > 2:
            for count in COUNTS:
                compared([array / 1000 for array in integers(shape, dtype=dtype)], count, 0.1)


def test_three_arrays_that_change_places(rig):
    compared = Compared(rig, rotated)
    for shape in SHAPES[:5]:
        for count in COUNTS:
            compared(integers(shape, 3), 1009, count)


@THOROUGH
def test_two_pairs_that_change_places(rig):
    compared = Compared(rig, two_pairs)
    for shape in SHAPES[:5]:
        for count in COUNTS:
            compared([*integers(shape), *integers(shape, dtype=np.int16)], count)


def of_its_own(x, n):
    """A temporary is in tiles, too; so is an array that is returned."""
    t = np.zeros(x.shape, np.int64)
    y = x + 1
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1)):
            t[i, j] = (y[i - 1, j] + y[i, j + 1] + x[i, j]) % 1009
        for i, j in qgraph.ndrange(*x.shape):
            y[i, j] = t[i, j] + y[i, j] % 7
    return y


@THOROUGH
def test_temporaries_and_returned_arrays(rig):
    kernel = rig.kernel(of_its_own, fuse=True)
    for shape in SHAPES[:5]:
        (x,) = integers(shape, 1)
        assert in_tiles(kernel, x, 30)[0]
        for count in COUNTS:
            np.testing.assert_array_equal(rig.run(kernel, x, count), kernel.reference(x, count))


def by_slices(u, v, n):
    for _ in qgraph.serial(range(n)):
        v[1:-1, 1:-1] = (u[:-2, 1:-1] + 3 * u[2:, 1:-1] + 5 * u[1:-1, :-2] + u[1:-1, 2:]) % 1009
        u[1:-1, 1:-1] = (v[:-2, 1:-1] + 3 * v[2:, 1:-1] + 5 * v[1:-1, :-2] + v[1:-1, 2:]) % 1009


@THOROUGH
def test_slices(rig):
    compared = Compared(rig, by_slices)
    for shape in SHAPES[:5]:
        for count in COUNTS:
            compared(integers(shape), count)


@THOROUGH
@pytest.mark.parametrize("dtype", [np.int16])
def test_other_types_and_layouts(rig, dtype):
    compared = Compared(rig, copied_back)
    for shape in SHAPES[:3]:
        u, v = integers(shape, dtype=dtype)
        compared([u, v], 30)
        wide = np.empty((shape[0], 2 * shape[1]), dtype)
        wide[:, ::2] = u
        compared([np.asfortranarray(u), wide[:, ::2]], 30)


def own_variable(u, v, n):
    for t in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0]), u.shape[1]):
            v[i, j] = u[i - 1, j] + t
        for i, j in qgraph.ndrange((1, u.shape[0]), u.shape[1]):
            u[i, j] = v[i, j] % 1009


def a_sum(u, v, n):
    total = 0
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] + 1
        for i, j in qgraph.ndrange(*u.shape):
            total += v[i, j]
            u[i, j] = v[i, j] % 1009
    return total


def wider(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i - 5, j] + 1
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j] % 1009


def transposed(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(*u.shape):
            v[j, i] = u[i, j] + 1
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j] % 1009


def far(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((7, u.shape[0]), u.shape[1]):
            v[i, j] = u[i - 7, j] + 1
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j] % 1009


def few(u, v, n):
    for _ in qgraph.serial(range(2)):
        for i, j in qgraph.ndrange((1, u.shape[0]), u.shape[1]):
            v[i, j] = u[i - 1, j] + n
        for i, j in qgraph.ndrange((1, u.shape[0]), u.shape[1]):
            u[i, j] = v[i, j] % 1009


def until(u, v, n):
    left = n + 1
    while left > 0:
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = u[i, j] + 1
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j] % 1009
        left -= 1


def bare(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i in range(u.shape[0]):
            v[i, 0] = sum_of(u, i) % 1009
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = v[i, j] % 1009


def other_names(u, v, n):
    """What changes places no loop touches."""
    a, b = u[0], u[1]
    w = np.zeros(v.shape)
    x = np.ones(v.shape)
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(*v.shape):
            v[i, j] = v[i, j] % 1009 + 1
        w, x = x, w
    for i, j in qgraph.ndrange(*v.shape):
        v[i, j] += int(w[i, j]) + a[0] + b[0]


@qgraph.func
def sum_of(u, i):
    s = 0
    for j in range(u.shape[1]):
        s += u[i, j]
    return s


def a_new_array_from_its_end(u, v, steps):
    w = np.zeros_like(u)
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            w[i, j] = u[i - 1, j] + u[w.shape[0] - i, j]
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = w[i, j] % 9 + v[0, 0]


def a_new_array_of_one_dimension(u, v, steps):
    w = np.zeros(u.shape[0])
    for _ in qgraph.serial(range(steps)):
        for i in range(u.shape[0]):
            w[i] = u[i, 0]
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = w[i] % 9 + v[0, 0]


def sums_of_rows(u, v, steps):
    w = np.zeros_like(u)
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(*u.shape):
            w[i, j] = np.sum(u[i, :]) % 9
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = w[i, j] + v[0, 0]


NOT_TILED = {
    a_new_array_from_its_end: "the index `w.shape[0] - i` in line",
    a_new_array_of_one_dimension: "writes `w`, which has 1 dimensions",
    sums_of_rows: "memory: an index in line",
    own_variable: "looks at the loop's own variable",
    a_sum: "is no parallel loop over elements alone",
    wider: "the index `i - 5` in line",
    transposed: "have other variables along axis 0",
    far: "it reaches 7 elements beyond what it stores, and a halo has 6",
    few: "it has 2 iterations, and it takes more for two passes to pay",
    bare: "hands on `u` as a whole",
    until: "no loop in it computes what it tests",
    other_names: "names arrays that the loops do not",
}


@pytest.mark.parametrize("where", ["cpu", None])
@pytest.mark.parametrize("kernel", NOT_TILED)
def test_what_does_not_run_in_tiles_says_why(kernel, where):
    found, plan = in_tiles(qgraph.kernel(fuse=True, backend=where)(kernel), *integers((20, 20)), 30)
    assert not found
    assert "one sweep for a pass over memory: " in plan
    assert NOT_TILED[kernel] in plan


@pytest.mark.needs("compiler")
def test_arrays_that_share_memory_are_not_in_tiles():
    kernel = qgraph.kernel(fuse=True, backend="cpu")(by_slices)
    block = integers((30, 40), 1)[0]
    plan = in_tiles(kernel, block[:20], block[10:], 30)[1]
    assert "one sweep for a pass over memory: arrays share memory" in plan
    expected = block.copy()
    kernel.reference(expected[:20], expected[10:], 30)
    kernel(block[:20], block[10:], 30)
    np.testing.assert_array_equal(block, expected)


@pytest.mark.needs("compiler")
def test_small_arrays_and_other_kernels_run_as_they_are(monkeypatch):
    """Tiles are for `fuse`, and for arrays that the cache does not hold: others need no memory for them."""
    arrays = integers((40, 50))
    fused = ({"block_size": 64}, {"bounds_check": True}, {"backend": "cpu", "bounds_check": True})
    for options in ({"backend": "cpu"}, {}, *({"fuse": True, **each} for each in fused)):
        assert not in_tiles(qgraph.kernel(**options)(there_and_back), *arrays, 30)[0], options
    monkeypatch.setattr(overlapped_tiles, "LARGE", 1 << 25)
    kernel = qgraph.kernel(fuse=True, backend="cpu")(there_and_back)
    made = []
    on_host = Temporaries.on_host

    def noted(temporaries, host):
        made.extend(on_host(temporaries, host))
        return made

    monkeypatch.setattr(Temporaries, "on_host", noted)
    expected, bound = ([each.copy() for each in arrays] for _ in range(2))
    kernel.reference(*expected, 30)
    kernel.bind(*bound, 30).launch()
    kernel(*arrays, 30)
    np.testing.assert_array_equal(arrays, expected)
    np.testing.assert_array_equal(bound, expected)
    assert not made
    for told in (kernel.plan, kernel.explain):
        assert "too small: tiles pay from 32 MiB together, and 4 elements along each axis on" in " ".join(
            str(told(*arrays, 30)).split()
        )


def one_pair_after_another(u, v, x, y, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + 2 * u[i + 1, j] + 3 * u[i, j - 1] + 4 * u[i, j + 1]) % 1009
        u, v = v, u
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1)):
            y[i, j] = (x[i - 1, j] + 5 * x[i + 1, j] + 7 * x[i, j - 1] + x[i, j + 1]) % 1009
        x, y = y, x


def test_extents_choose_the_plan(rig, monkeypatch):
    """Of one kernel: where no loop's arrays are large enough for tiles it has none, and where only some are, all are right."""
    for name in ("LARGE", "BLOCK_LARGE"):
        monkeypatch.setattr(overlapped_tiles, name, 1 << 14)
    compared, large, small = Compared(rig, one_pair_after_another), (60, 50), (6, 7)
    kernel = compared._kernel
    for first, second in [(large, small), (small, small), (small, large), (large, large), (small, small), (large, small)]:
        arrays = integers(first) + integers(second)
        compared(arrays, 13)
        assert in_tiles(kernel, *arrays, 13)[0] == (large in (first, second))
        assert kernel.last_launch.tasks == len(kernel.plan(*arrays, 13).tasks)


@pytest.mark.needs("compiler")
def test_check_looks_at_the_loops_as_written():
    arrays = integers((20, 20))
    assert "accesses" in str(qgraph.kernel(fuse=True, backend="cpu")(there_and_back).check(*arrays, 30))


# --- random programs --------------------------------------------------------------------------------------------------------


def random_program(seed):
    """The source of a loop of two to five random stencils over three arrays, and the farthest that one reaches."""
    choose = random.Random(seed)
    arrays, lines = ("u", "v", "w"), [f"def program_{seed}(u, v, w, c, n):", "    for _ in qgraph.serial(range(n)):"]
    least = choose.randrange(1, 4)

    def offset(name):
        by = choose.randrange(-least, least + 1)
        return f"{name} + {by}" if by > 0 else f"{name} - {-by}" if by else name

    for number in range(choose.randrange(2, 6)):
        written = choose.choice(arrays)
        others = [name for name in arrays if name != written]
        low = [least + choose.randrange(3) for _ in range(2)]
        high = [least + choose.randrange(3) for _ in range(2)]
        edge = choose.random() < 0.2
        if edge:
            row = choose.choice(
                [str(choose.randrange(least, 2 * least)), f"{written}.shape[0] - {choose.randrange(least + 1, 2 * least + 1)}"]
            )
            lines.append(f"        for j in range({low[1]}, {written}.shape[1] - {high[1]}):")
            rows = [f"{row} + {choose.randrange(1, least + 1)}", f"{row} - {choose.randrange(1, least + 1)}"]
            terms = [
                f"{choose.randrange(1, 9)} * {choose.choice(others)}[{choose.choice(rows)}, {offset('j')}]" for _ in range(2)
            ]
            lines.append(f"            {written}[{row}, j] = ({' + '.join(terms)} + {number}) % 1009")
            continue
        lines.append(f"        for i in range({low[0]}, {written}.shape[0] - {high[0]}):")
        lines.append(f"            for j in range({low[1]}, {written}.shape[1] - {high[1]}):")
        terms = [
            f"{choose.randrange(1, 9)} * {choose.choice(others)}[{offset('i')}, {offset('j')}]"
            for _ in range(choose.randrange(1, 5))
        ]
        place = f"{written}[{offset('i')}, {offset('j')}]" if choose.random() < 0.3 else f"{written}[i, j]"
        terms += choose.sample([place, "c[(i + j) % c.shape[0]]", "i - j"], choose.randrange(3))
        value = f"({' + '.join(terms)}) % 1009"
        match choose.randrange(4):
            case 0:
                lines += [f"                if (i + {number} * j) % 3 != 0:", f"                    {place} = {value}"]
            case 1:
                lines += [
                    f"                t = {value}",
                    f"                {place} = t if t % 2 == 0 else {others[0]}[i, j]",
                ]
            case _:
                lines.append(f"                {place} = {value}")
    return "\n".join(lines) + "\n"


def function_of(seed):
    return defined(random_program(seed), f"program_{seed}")


def defined(source, name):
    file = f"<stencils {zlib.crc32(source.encode())}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"qgraph": qgraph}
    exec(compile(source, file, "exec"), names)
    return names[name]


@pytest.mark.parametrize("seed", [1, *thorough(2)])
def test_random_stencils(rig, seed):
    compared = Compared(rig, function_of(seed))
    for shape in ((31, 47), (12, 100), (60, 13)):
        for count in (1, 9, 26):
            compared([*integers(shape, 3), np.arange(5)], count)


def returns_a_row(u, v, n):
    """What it returns has one axis, where the arrays in tiles have two."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + 2 * u[i + 1, j] + 3 * u[i, j - 1] + 4 * u[i, j + 1]) % 1009
        u, v = v, u
    row = np.empty(u.shape[0], u.dtype)
    for i in range(u.shape[0]):
        row[i] = u[i, 1]
    return row


@THOROUGH
@pytest.mark.parametrize("n", COUNTS)
def test_beside_arrays_of_one_axis_and_in_a_profile(rig, n):
    kernel = rig.kernel(returns_a_row, fuse=True)
    arrays = integers((20, 31))
    assert in_tiles(kernel, *arrays, n)[0]
    expected = [each.copy() for each in arrays]
    wanted = kernel.reference(*expected, n)
    np.testing.assert_array_equal(qgraph.to_numpy(kernel(*(rig.device(each.copy()) for each in arrays), n)), wanted)
    given = [rig.device(each.copy()) for each in arrays]
    profile = kernel.profile(*given, n)
    np.testing.assert_array_equal(qgraph.to_numpy(profile.result), wanted)
    for mine, theirs in zip(given, expected, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(mine), theirs)
    (loop,) = [row for row in profile.rows if row.kind == "loop"]
    assert (loop.count > 0) == (n > 0)
    assert "two passes over memory" in loop.form


def test_a_chunk_allocates_memory_for_its_tiles_once():
    kernel, arrays = qgraph.kernel(backend="cpu", fuse=True)(there_and_back), [np.zeros((40, 60)) for _ in range(2)]
    plan = kernel.plan(*arrays, 30)
    (task,) = (task for task in plan.tasks if task.name.endswith("_tiles"))
    _, function = chunk_function(plan.program, task, {})
    allocating = [node for node in function.tree.body if "_heap_array" in ast.unparse(ast.fix_missing_locations(node))]
    assert len(allocating) == 2
    assert all(isinstance(node, ast.Assign) for node in allocating)
