"""Launch shapes of loops of several axes."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qgraph.errors import ArgumentError
from qgraph.ir.artifacts import WARP
from qgraph.ir.blocks import BlockShape
from qgraph.runtime.graph.launch_shapes import MAX_GRID_DOWN, by_rows, in_tiles, one_block_each, resident_rows

SIZES = st.integers(0, 2**40) | st.integers(0, 300)


@given(st.lists(SIZES, min_size=2, max_size=4), st.integers(1, 1024), st.sampled_from([1, 4]))
def test_every_column_and_every_row_has_a_thread(extents, threads, share):
    shape = by_rows(extents, threads, share)
    if len(extents) > 2:
        # The rows that a thread has are those of neighbouring planes.
        extents, share = [-(-extents[0] // share), *extents[1:]], 1
    rows, columns = math.prod(extents[:-1]), extents[-1]
    assert min(shape) >= 1
    assert shape.threads * shape.threads_down <= threads
    assert shape.blocks * shape.threads >= columns
    down = shape.threads_down * share
    assert shape.blocks_down <= MAX_GRID_DOWN
    assert shape.blocks_down * shape.times * down >= rows
    # No block is without work, but for some of the last ones along z.
    assert (shape.blocks - 1) * shape.threads < max(columns, 1)
    assert (shape.blocks_down - 1) * shape.times * down < max(rows, 1)


@given(st.lists(SIZES, min_size=2, max_size=4), st.integers(1, 8), st.integers(1, 2000))
def test_blocks_that_stride_are_few_and_whole_warps(extents, warps, most):
    shape = resident_rows(extents, warps * WARP, most)
    assert min(shape) >= 1
    assert shape.threads * shape.threads_down % WARP == 0
    assert WARP <= shape.threads * shape.threads_down <= warps * WARP
    assert shape.blocks * shape.blocks_down <= most
    rows = max(math.prod(extents[:-1]), 1)
    # As many blocks as need no more rows each than with the most of them.
    times = -(-rows // (max(most // shape.blocks, 1) * shape.threads_down))
    assert -(-rows // (shape.blocks_down * shape.threads_down)) == times


@pytest.mark.parametrize(
    ("extents", "most", "shape"),
    [
        ((126, 126), 528, (4, 32, 16, 8, 1)),
        ((510, 510), 528, (16, 32, 32, 8, 1)),
        ((2046, 2046), 1024, (64, 32, 16, 8, 1)),
        ((8190, 8190), 1024, (256, 32, 4, 8, 1)),
        ((2, 10**7), 1024, (1024, 128, 1, 2, 1)),
        ((5, 3), 1, (1, 4, 1, 8, 1)),
        ((0, 0), 9, (1, 1, 1, 32, 1)),
    ],
)
def test_shapes_that_stride(extents, most, shape):
    assert resident_rows(extents, 256, most) == shape


@pytest.mark.parametrize(("columns", "stores", "rows"), [(8190, True, 2), (8190, False, 3), (6750, True, 3), (4094, True, 6)])
def test_no_more_than_five_blocks_a_multiprocessor_store_in_three_rows(columns, stores, rows):
    assert resident_rows((8190, columns), 256, 792, 4, enough=132, stores=stores).blocks_down == rows


@pytest.mark.parametrize(
    ("extents", "shape"),
    [
        ((1024, 1024), (8, 128, 512, 2, 1)),
        ((1000, 1000), (8, 128, 500, 2, 1)),
        # A narrower block leaves fewer threads without a column.
        ((1000, 33), (5, 8, 32, 32, 1)),
        ((1000, 3), (1, 4, 16, 64, 1)),
        ((1000, 1), (1, 1, 4, 256, 1)),
        # Few rows: wide blocks.
        ((1, 1000), (4, 256, 1, 1, 1)),
        ((3, 1000), (8, 128, 2, 2, 1)),
        ((2, 1), (1, 1, 1, 2, 1)),
        ((20, 50, 64), (2, 32, 125, 8, 1)),
        ((0, 5), (1, 8, 1, 1, 1)),
        ((5, 0), (1, 1, 1, 8, 1)),
        ((65536, 256, 2), (1, 2, 43691, 128, 3)),
    ],
)
def test_shapes(extents, shape):
    assert by_rows(extents, 256, 1) == shape


def test_rows_that_a_thread_has():
    assert by_rows((1024, 1024), 256, 4) == (8, 128, 128, 2, 1)
    assert by_rows((30, 1024), 256, 4) == (8, 128, 4, 2, 1)
    assert by_rows((1024, 90), 256, 4) == (3, 32, 32, 8, 1)
    assert by_rows((5, 64), 256, 4) == (1, 64, 1, 2, 1)


def test_neighbouring_planes_that_a_thread_has():
    assert by_rows((30, 64, 1024), 256, 4) == by_rows((8, 64, 1024), 256, 4)._replace(blocks_down=256)


@given(SIZES, SIZES, st.integers(1, 1024))
def test_every_column_and_every_row_has_a_place_in_a_tile(rows, columns, threads):
    shape = in_tiles((rows, columns), threads)
    assert min(shape) >= 1
    assert shape.threads % 8 == 0
    assert shape.threads <= max(threads, 8)
    assert shape.blocks * (shape.threads // 8) >= columns
    assert shape.blocks_down * shape.times * 32 >= rows
    assert shape.blocks_down <= MAX_GRID_DOWN


def test_tiles():
    assert in_tiles((100, 100), 256) == (4, 256, 4, 1, 1)
    assert in_tiles((0, 0), 256) == (1, 256, 1, 1, 1)
    assert in_tiles((3_000_000, 5), 100) == (1, 96, 46875, 1, 2)


def test_a_block_for_each_iteration():
    assert one_block_each((3, 5), (32, 16)) == (5, 32, 3, 16, 1)
    assert one_block_each((0, 0), (8, 2)) == (1, 8, 1, 2, 1)
    assert one_block_each((100_000, 5), (8, 2)) == (5, 8, 50_000, 2, 2)


@pytest.mark.parametrize("plane", ["rows", "tiles", "blocks"])
def test_what_a_launch_cannot_hold_is_refused(plane):
    kernels = pytest.importorskip("qgraph.runtime.graph.kernels")
    node = kernels.KernelNode.__new__(kernels.KernelNode)
    task = SimpleNamespace(span=None, block=BlockShape((8, 2), 0, ""))
    code = SimpleNamespace(plane=plane, on_device=False, task=task, share=lambda *, several: (1, 1))
    node.code, node.block = code, 8
    most = 2**31 - 1
    assert node._over_plane((most, 2), several=False).times > 1
    for extents in ((most + 1, 2), (2, most + 1)):
        with pytest.raises(ArgumentError, match="an axis of this loop has 2147483648 iterations, and may have 2147483647"):
            node._over_plane(extents, several=False)
    node.block = 1
    if plane == "rows":
        with pytest.raises(ArgumentError, match=f"this loop has {2 * most**2} iterations, more than a launch holds"):
            node._over_plane((most, most, 2), several=False)


@pytest.mark.parametrize(
    ("extents", "several", "shape"),
    [
        # One block has no results of others to combine.
        ((1000,), True, (1, 256, 1, 1, 1)),
        ((1025,), True, (5, 256, 1, 1, 1)),
        ((1 << 20,), True, (512, 256, 1, 1, 1)),
        ((30, 30), True, (1, 32, 1, 8, 1)),
        ((126, 126), True, (4, 32, 16, 8, 1)),
        # A block for each multiprocessor: two rows a thread.
        ((254, 254), True, (8, 32, 16, 8, 1)),
        ((50_000,), True, (98, 256, 1, 1, 1)),
        # Four rows a thread, and half of the device is left.
        ((510, 510), True, (16, 32, 16, 8, 1)),
        ((1022, 1022), True, (32, 32, 16, 8, 1)),
        ((8190, 8190), True, (256, 32, 3, 8, 1)),
        # Long iterations are shared by as many blocks as there may be.
        ((1 << 20,), False, (900, 256, 1, 1, 1)),
        ((100, 100), False, (7, 16, 7, 16, 1)),
        ((0,), True, (1, 256, 1, 1, 1)),
    ],
)
def test_shapes_of_loops_that_combine(extents, several, shape):
    kernels = pytest.importorskip("qgraph.runtime.graph.kernels")
    node = kernels.KernelNode.__new__(kernels.KernelNode)
    plane = "rows" if len(extents) > 1 else ""
    node.code = SimpleNamespace(plane=plane, several=several, reduces=True, on_device=False, stores=False)
    node.block, node._resident, node._most, node._inside = 256, 900, 900, None
    node._multiprocessors = 132
    node._counts = (tuple(range(len(extents))),)
    assert node.shape_for(extents) == shape
    node.code.stores = True
    # What stores, too, has no more than five blocks a multiprocessor in three rows.
    assert node.shape_for(extents) == ((256, 32, 2, 8, 1) if extents == (8190, 8190) else shape)


@pytest.mark.parametrize(("inside", "lanes"), [(3, 1), (12, 8), (40, 16), (4000, 32)])
def test_lanes_of_loops_of_which_the_device_counts_the_iterations(inside, lanes):
    kernels = pytest.importorskip("qgraph.runtime.graph.kernels")
    node = kernels.KernelNode.__new__(kernels.KernelNode)
    node.code = SimpleNamespace(on_device=True)
    node.block, node._most, node._inside, node._counts = 256, 900, 1, ()
    assert node.sized
    assert node.shape_for((7, inside)) == (900, lanes, 1, 256 // lanes, 1)
