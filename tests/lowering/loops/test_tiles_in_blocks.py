"""Tiles in shared memory, a block of threads for each: what is compiled for CUDA, and passes that leave arrays out."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.lowering.loops import overlapped_tiles, register_tiles
from tests.conftest import THOROUGH, thorough
from tests.lowering.loops.test_conditions_in_tiles import chosen
from tests.lowering.loops.test_overlapped_tiles import function_of

# Some tiles in it are far from every edge.
SHAPE = (45, 63)


@pytest.fixture
def small_tiles(monkeypatch):
    """Blocks of a few threads with tiles of a few elements, for arrays of any size."""
    sizes = {"TILE": (8, 12), "HALO": 4, "FEW": 0}
    blocks = {"TILES": ((16, 20),), "HALOS": (4,), "ROWS": (4,), "GAIN": 0, "LANES": 4, "HELD_ALONE": 400}
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


def whole_arrays(u, v, n):
    """New arrays that are numbers where loops were joined: those loops as written would need them."""
    for _ in qgraph.serial(range(n)):
        product = u[1:-1, 1:-1] * v[1:-1, 1:-1] % 7
        around = u[:-2, 1:-1] + 3 * u[1:-1, 2:]
        v[1:-1, 1:-1] = (around - product) % 1009
        u[1:-1, 1:-1] = (u[1:-1, 1:-1] + 2 * v[1:-1, 1:-1]) % 997


PROGRAMS = (shifted, not_everywhere, skipped, added, one_after_another, staggered, whole_arrays)


@pytest.mark.parametrize("function", [*PROGRAMS[:2], whole_arrays, *thorough(*PROGRAMS[2:-1])])
def test_far_from_the_edges(rig, small_tiles, function):
    kernel = rig.kernel(function, fuse=True)
    arrays = [np.random.default_rng(k).integers(0, 1000, SHAPE) for k in range(2)]
    assert "in two passes over memory" in str(kernel.plan(*arrays, 30))
    for count in (0, 9, 18):
        rig.compare(kernel, lambda count=count: (*(array.copy() for array in arrays), count), noop=count == 0)


@pytest.mark.parametrize("function", [*PROGRAMS[:1], *thorough(*PROGRAMS[1:])])
@pytest.mark.parametrize(("columns", "skipped"), [(64, 0), (63, 0), (64, 1)])
def test_rows_that_are_vectors_and_others(rig, small_tiles, monkeypatch, function, columns, skipped):
    """A thread has as many columns as a vector; rows end in the middle of one, or the first one begins there."""
    monkeypatch.setattr(overlapped_tiles, "BLOCK_TILES", ((16, 16),))
    kernel = rig.kernel(function, fuse=True)

    def arrays():
        elements = np.random.default_rng(0).integers(0, 1000, (2, SHAPE[0] * columns + skipped)).astype(np.int32)
        return (*(each[skipped:].reshape(SHAPE[0], columns) for each in elements.copy()), 18)

    assert "in two passes over memory" in str(kernel.plan(*arrays()))
    rig.compare(kernel, arrays)


def test_edges_of_both_arrays_stay(rig, small_tiles):
    """Passes load and store one of two arrays that change places, but for tiles at the edges."""
    kernel = rig.kernel(jacobi, fuse=True)
    for count in (9, 18, 27):
        arrays = [np.random.default_rng(k).random(SHAPE) for k in range(2)]
        rig.compare(kernel, lambda count=count, arrays=arrays: (*(array.copy() for array in arrays), count))


def rounded(u, v, w, n):
    """What an iteration looks at again has the type of the array that it was stored to."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = u[i - 1, j] / 3 + u[i, j + 1] / 7
            x = v[i, j] * 16 + 1
            w[i, j] = x / 64 + v[i, j]
            v[i, j] += x / 3
            w[i, j] += v[i, j] / 7
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = w[i, j] / 4 + u[i, j] / 4


def test_what_was_stored_is_rounded(rig, small_tiles):
    kernel = rig.kernel(rounded, fuse=True)
    given, expected = ([np.random.default_rng(0).random(SHAPE), *np.zeros((2, *SHAPE), np.float32)] for _ in range(2))
    assert "in two passes over memory" in str(kernel.plan(*given, 18))
    kernel.reference(*expected, 18)
    rig.run(kernel, *given, 18)
    for mine, theirs in zip(given, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def beside(u, v, a, b, c, n):
    """Arrays change places in one statement, and some of them no loop touches: after three iterations, not after two."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + u[i, j + 1]) % 1009
        u, v, a, b, c = v, u, b, c, a
    a[0] = 10
    b[0] = 20
    c[0] = 30


def test_others_that_change_places_in_one_statement(rig, small_tiles):
    kernel = rig.kernel(beside, fuse=True)
    arrays = [np.random.default_rng(k).integers(0, 1000, (20, 31)) for k in range(2)]
    assert "names arrays that the loops do not" in str(kernel.plan(*arrays, *np.zeros((3, 4)), 9))
    for count in (9, 22):
        rig.compare(kernel, lambda count=count: (*(array.copy() for array in arrays), *np.zeros((3, 4)), count))


def with_a_smaller_array(u, v, k, n):
    """What loops only look at is not in tiles, and may end before a tile does."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = (u[i - 1, j] + 3 * u[i, j + 1] + k[i - 1, j - 1]) % 1009
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = (v[i, j] + u[i, j]) % 997


def test_beyond_the_end_of_an_array(rig, small_tiles):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 1000, shape) for shape in (SHAPE, SHAPE, (SHAPE[0] - 2, SHAPE[1] - 2))]
    kernel = rig.kernel(with_a_smaller_array, fuse=True)
    if kernel.options.backend != "cpu":
        assert "of them in the registers of a thread" in str(kernel.plan(*arrays, 30))
    rig.compare(kernel, lambda: (*(array.copy() for array in arrays), 18))


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
        # At edges: eight rows and the two around them, and of each row what is beside it: nothing is loaded twice.
        blocks = [block.split() for block in re.split(r"\$L\w+:", text)]
        loads = max(block.count("ld.shared.f32") for block in blocks if "bar.sync" not in block)
        assert loads == 10 + 2 * 8
        # Far from them a thread has 8 by 4 elements in registers: in each of two sweeps it looks at those around, and stores
        # its own ones at the rim.
        (sweeps,) = (block for block in blocks if block.count("bar.sync") == 2)
        assert sweeps.count("ld.shared.f32") == 2 * 2 * (8 + 4)
        assert sweeps.count("st.shared.f32") == 2 * (2 * (8 + 4) - 4)
        assert sweeps.count("mul.rn.f32") == 2 * 32
        # Each of its rows is a vector.
        assert text.count("ld.global.v4.f32") == text.count("st.global.v4.f32") == 8


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("dtype", [np.float64, *thorough(np.uint8, np.complex64)])
def test_vectors_have_at_most_sixteen_bytes(dtype):
    moved = {np.float64: "global.v2.f64", np.uint8: "global.v4.u8"}.get(dtype, "")
    kernel, arrays = qgraph.kernel(fuse=True)(jacobi), [np.zeros((9, 9), dtype) for _ in range(2)]
    (text,) = (text for name, text in kernel.ptx(*arrays, 100).items() if name.endswith("_tiles"))
    if moved:
        assert f"ld.{moved}" in text and f"st.{moved}" in text
    else:
        assert "ld.global.v" not in text


def leaky(u, v, n):
    """A product is what one sweep stores and the next one adds to."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.3 * (u[i - 1, j] + u[i, j + 1])
        u, v = v, u


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("dtype", [np.float32, *thorough(np.float64)])
def test_sweeps_in_registers_are_not_contracted(dtype):
    """What a sweep stores is rounded before the next one uses it, as it is where arrays hold it."""
    kernel, arrays = qgraph.kernel(fuse=True)(leaky), [np.zeros((9, 9), dtype) for _ in range(2)]
    texts = [text for key, text in kernel.ptx(*arrays, 100).items() if "_tiles" in key]
    assert len(texts) == 2
    for text in texts:
        assert "of them in the registers" in str(kernel.plan(*arrays, 100))
        assert "fma" not in text
        assert re.search(r"\bmul\.f", text) is None
        assert "mul.rn.f" in text


def two_steps(u, v, k, n):
    """What is computed first is used beside where it is, with numbers of another array."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            x = k[i, j] + i
            v[i, j] = (u[i - 1, j] + x * u[i, j + 1] - j) % 1009
        for i, j in qgraph.ndrange((2, u.shape[0] - 1), (1, u.shape[1] - 2)):
            x = v[i - 1, j + 1] - k[i + 1, j - 1]
            u[i, j] = (u[i, j] + x) % 997
        for j in range(u.shape[1]):
            u[0, j] = u[1, j] + 1


def wide(u, v, n):
    """Farther away than the thread beside it."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((4, u.shape[0] - 4), (4, u.shape[1] - 4)):
            v[i + 1, j - 2] = (u[i - 4, j + 4] + 3 * u[i + 4, j - 4] + 5 * u[i, j - 3] + i - 2 * j) % 1009
        for i, j in qgraph.ndrange(*u.shape):
            u[i, j] = (u[i, j] + v[i, j]) % 997


@pytest.mark.parametrize("function", [two_steps, *thorough(wide, function_of(2), function_of(4))])
def test_registers(rig, small_tiles, monkeypatch, function):
    """Tiles that lie inside keep what they own in registers, from sweep to sweep."""
    halo, extents = (12, (32, 40)) if function is wide else (6, (20, 24))
    for name, value in {"TILES": (extents,), "HALOS": (halo,), "HELD": 1 << 12, "HELD_ALONE": 1 << 12, "LANES": 8}.items():
        monkeypatch.setattr(overlapped_tiles, f"BLOCK_{name}", value)
    kernel = rig.kernel(function, fuse=True)
    arrays = [np.random.default_rng(k).integers(0, 1000, (52, 64)) for k in range(2 if function is wide else 3)]
    rest = (np.arange(5),) if function.__name__.startswith("program") else ()
    if kernel.options.backend != "cpu":
        assert "of them in the registers of a thread" in str(kernel.plan(*arrays, *rest, 30))
    for count in (9, 22):
        rig.compare(kernel, lambda count=count: (*(array.copy() for array in arrays), *rest, count))


def picked(u, v, k, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = u[i - 1, j] + k[u[i, j] % k.shape[0]]
        u, v = v, u


@qgraph.func
def second(k, i):
    return k[i] + 1


def handed_on(u, v, k, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            x = i % k.shape[0]
            v[i, j] = u[i - 1, j] + second(k, x)
        u, v = v, u


def by_a_number(u, v, k, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            x = u[i, j] % k.shape[0]
            v[i, j] = u[i - 1, j] + k[x]
        u, v = v, u


def in_one_row(u, v, k, n):
    for _ in qgraph.serial(range(n)):
        for j in range(1, u.shape[1]):
            v[1, j] = u[2, j - 1] + k[0]
        for j in range(1, u.shape[1]):
            u[2, j] = v[1, j]


def looped(u, v, k, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            total = 0
            for each in range(k.shape[0]):
                total += k[each] * u[i - 1, j]
            v[i, j] = total
        u, v = v, u


def anew(u, v, k, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(*u.shape):
            v[i, j] = k[i % 3] + j
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = v[i - 1, j]


NOT_IN_REGISTERS = {
    chosen: "chooses by elements at which others it looks",
    picked: "computes indices",
    handed_on: "computes indices",
    by_a_number: "computes indices",
    in_one_row: "no loop goes over rows and columns",
    looped: "does more than assign to elements",
    anew: "no iteration looks at what the one before it wrote",
}


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", NOT_IN_REGISTERS)
def test_what_is_not_in_registers_says_why(function, monkeypatch):
    monkeypatch.setattr(overlapped_tiles, "BLOCK_GAIN", 0)
    arrays = [np.zeros((9, 9), np.int64) for _ in range(2)]
    plan = str(qgraph.kernel(fuse=True)(function).plan(*arrays, np.arange(5), 100))
    assert re.search(f"in tiles of .*, not in registers: .*{NOT_IN_REGISTERS[function]}", plan), plan


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(("dtype", "why"), [(np.complex128, "a thread would hold"), (np.float16, "elements are float16")])
def test_elements_that_are_not_in_registers(dtype, why, monkeypatch):
    monkeypatch.setattr(overlapped_tiles, "BLOCK_ROWS", (8,))
    arrays = [np.zeros((9, 9), dtype) for _ in range(4)]
    assert f"not in registers: {why}" in str(qgraph.kernel(fuse=True)(many).plan(*arrays, 100))


@pytest.mark.needs("compiler")
def test_lanes_do_not_meet_in_a_bank():
    """Neither those of a thread's own column nor those that load and store neighbouring columns."""
    kernel, arrays = qgraph.kernel(fuse=True)(jacobi), [np.zeros((9, 9), np.float32) for _ in range(2)]
    found = []
    place = register_tiles.RegisterTile._place

    def noted(tile, row, column):
        found.append((tile, place(tile, row, column)))
        return found[-1][1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(register_tiles.RegisterTile, "_place", noted)
        kernel.plan(*arrays, 100)
    assert found
    for tile, code in found:
        names = [{"_lane": lane, "_row": 8, "_assume_u32": int} for lane in range(32)]
        places = [eval(code, {}, each) for each in names]
        assert len({at % 32 for at in places}) == 32
        assert 0 <= min(places) <= max(places) < tile.elements


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
def test_tiles_are_as_large_as_shared_memory_allows(dtype, tile, monkeypatch):
    monkeypatch.setattr(overlapped_tiles, "BLOCK_HALOS", (8,))
    arrays = [np.zeros((9, 9), dtype) for _ in range(4)]
    plan = str(qgraph.kernel(fuse=True)(many).plan(*arrays, 100))
    assert f"tiles of {tile} elements with a halo of 8" in plan


def three(a, b, c, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
            b[i, j] += a[i - 1, j]
            c[i, j] += a[i, j + 1]
        for i, j in qgraph.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
            a[i, j] += b[i, j] - c[i, j]


@THOROUGH
@pytest.mark.needs("compiler")
def test_threads_that_fill_a_multiprocessor_are_one_block(monkeypatch):
    """A thread with three arrays of 32 elements in registers has a hundred of these."""
    monkeypatch.setattr(overlapped_tiles, "BLOCK_HALOS", (8,))
    arrays = [np.zeros((9, 9), np.float32) for _ in range(3)]
    kernel = qgraph.kernel(fuse=True)(three)
    assert "tiles of 112 by 112 elements with a halo of 8" in str(kernel.plan(*arrays, 100))
    texts = [text for key, text in kernel.ptx(*arrays, 100).items() if "_tiles" in key]
    assert all(".maxntid 512" in text and ".local" not in text for text in texts)


def star(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((3, u.shape[0] - 3), (3, u.shape[1] - 3)):
            around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
            v[i, j] = 0.2 * around + 0.01 * (u[i - 3, j] + u[i + 3, j] + u[i, j - 3] + u[i, j + 3])
        u, v = v, u


@pytest.mark.needs("compiler")
@pytest.mark.parametrize(
    ("function", "dtype", "found"),
    [
        (jacobi, np.float32, "up to 8 iterations in tiles of 48 by 112 elements with a halo of 8, 1 .*, 8 by 4 of them"),
        (star, np.float32, "up to 4 iterations in tiles of 40 by 104 elements with a halo of 12, 3 .*, 8 by 4 of them"),
        (three, np.float32, "up to 16 iterations in tiles of 96 by 96 elements with a halo of 16, 1 .*, 8 by 4 of them"),
        (three, np.float64, "up to 12 iterations in tiles of 40 by 104 elements with a halo of 12, 1 .*, 4 by 4 of them"),
    ],
)
def test_the_halo_by_what_is_moved(function, dtype, found):
    """The more arrays for each loop, the more sweeps pay for a wider halo; four rows a thread where eight do not fit."""
    arrays = [np.zeros((9, 9), dtype) for _ in range(3 if function is three else 2)]
    plan = str(qgraph.kernel(fuse=True)(function).plan(*arrays, 100))
    assert re.search(found, plan), plan


@pytest.mark.needs("compiler")
def test_too_little_shared_memory(monkeypatch):
    monkeypatch.setattr(overlapped_tiles, "BLOCK_TILES", ((128, 128),))
    plan = str(qgraph.kernel(fuse=True)(many).plan(*[np.zeros((9, 9)) for _ in range(4)], 100))
    assert "one sweep for a pass over memory: tiles of its 4 arrays do not fit into shared memory" in plan


def test_explain_tells_where_a_halo_is_from_and_what_a_tile_takes(monkeypatch):
    monkeypatch.setattr(overlapped_tiles, "BLOCK_HALOS", (8,))
    kernel = qgraph.kernel(backend="cuda", fuse=True)(shifted)
    arrays = [np.zeros((4096, 4096), np.float32) for _ in range(2)]
    found = kernel.explain(*arrays, 100)
    lines = [line.strip() for line in str(found).splitlines()]
    first = shifted.__code__.co_firstlineno
    for line in (
        f"line {first + 3} reads elements -2 to 0 along axis 0 and 0 to 2 along axis 1 from the one that it stores",
        f"line {first + 5} reads no neighbours of what it stores",
        "so an iteration needs 2 by 2 elements around a tile, and 4 of them need a halo of 8 by 8",
        f"legal: line {first + 3} is independent, no iteration touches what another writes",
        f"legal: line {first + 5} is independent, no iteration touches what another writes",
        "legal: what tiles store goes to copies of the arrays, at which none of them looks",
        # 20 bytes an element and iteration. A tile has (64 * 128 + 48 * 112) / (48 * 112) * 4 for 4 iterations, and a tenth of
        # what goes to shared memory: a thread of 8 by 4 elements looks at 25 around them, and stores 20 for others.
        "estimated 5.9 times as fast as iterations one by one, by the bytes that both move",
        # 20 bytes an element and iteration, against 4 for each that a tile has with its halo, and for each that it owns.
        "4 iterations one by one move 7.9 times as much memory; "
        "16% of what a tile computes lies in its halo, and other tiles compute it, too",
    ):
        assert lines.count(line) == 1, line
    there, back = (node for node in found.to_dict()["nodes"] if any("halo" in loop["note"] for loop in node["loops"]))
    assert [len(node["notes"]) for node in (there, back)] == [8, 0]
    for node in (there, back):
        (cost,) = node["costs"]
        # One array is stored to before anybody looks at it.
        assert (cost["loads"], cost["stores"]) == (4 * 64 * 128, 4 * 48 * 112)
        # What follows behind each of the four iterations needs so many elements more on each side.
        each = sum((48 + 2 * more) * (112 + 2 * more) for more in (6, 4, 2, 0))
        assert cost["operations"] == 5 * each + 2 * each
        assert cost["iterations"] == -(-4096 // 48) * -(-4096 // 112)
        assert node["launch"] == "37 x 86 blocks of 32 x 8: a block an iteration, whose threads share it"
