"""Launch shapes: grids and blocks, and how threads map to iterations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from qgraph.ir.artifacts import FEW_INSIDE, TILE_HEIGHT, TILE_ROWS, WARP

# The most blocks that a launch can have along x, and along y or z.
MAX_GRID = 2**31 - 1
MAX_GRID_DOWN = 65535
# A block is no narrower than this many columns, a sector of float32, if there are so many.
_NARROW = 8
# Iterations of an inner loop that a thread has, about, where they are shared: on an H200 rows of many lengths, 32 on average,
# took longer with 1 and with 4.
_INSIDE = 2
# Iterations that a thread of several warps has, at least: those meet in shared memory.
_MANY_INSIDE = 16
# The width of a block: an H200 reads long pieces of rows faster, a sweep of FDTD over 4096 x 4096 by 4% than pieces of a warp.
_WIDE = 4 * WARP
# Idle threads at the end of each row, for one with work, that are no reason for a narrower block.
_FEW_IDLE = 1 / 8


class Shape(NamedTuple):
    """Blocks and threads along x; those along y; and how often there are as many blocks again, along z."""

    blocks: int
    threads: int
    blocks_down: int = 1
    threads_down: int = 1
    times: int = 1

    @property
    def all_blocks(self) -> int:
        """The number of blocks."""
        return self.blocks * self.blocks_down * self.times


def by_rows(extents: Sequence[int], threads: int, share: int, columns_each: int = 1, wide: int = _WIDE) -> Shape:
    """The shape for a loop of several axes: x along the last one, y and z along the others together.

    Args:
        extents: iterations of each axis.
        threads: the most threads of a block.
        share: rows that a thread has: neighbours, or with three axes and more those of neighbouring planes.
        columns_each: columns that a thread has.
        wide: the width of a block, where that leaves few threads idle.

    Returns:
        A shape with a thread for each column and ``share`` rows.
    """
    wide = WARP if columns_each > 1 else wide
    if len(extents) > 2 and share > 1:
        extents, share = (-(-extents[0] // share), *extents[1:]), 1
    columns, rows = max(-(-extents[-1] // columns_each), 1), max(math.prod(extents[:-1]), 1)
    across = min(_across(columns, wide), threads)
    down = min(threads // across, _power_of_two(-(-rows // share)))
    # A few rows: the block lies along them.
    across = min(threads // down, max(across, _power_of_two(columns)))
    blocks_down = -(-rows // (down * share))
    times = -(-blocks_down // MAX_GRID_DOWN)
    return Shape(-(-columns // across), across, -(-blocks_down // times), down, times)


def resident(blocks: int, most: int, together: int = 1, enough: int = MAX_GRID) -> int:
    """How many blocks, no more than ``most``, do the work of so many with the least that one of them does.

    That is one part of the work, or a power of two up to ``together``, of which the loads start at once, or a multiple of that.
    More than ``enough`` blocks are no quicker than fewer with as many parts as start at once.
    """
    parts = max(-(-blocks // most), min(-(-blocks // enough), together))
    parts = _power_of_two(parts) if parts <= together else -(-parts // together) * together
    return -(-blocks // max(parts, 1))


def resident_rows(
    extents: Sequence[int],
    threads: int,
    most: int,
    together: int = 1,
    enough: int = MAX_GRID,
    *,
    warp: int = WARP,
    stores: bool = False,
) -> Shape:
    """As ``by_rows`` with a row a thread, in whole warps, and no more than ``most`` blocks, which stride over what is left.

    ``enough`` is also the number of multiprocessors. Where blocks that store, too, would lie in three rows, more than five a
    multiprocessor, they lie in two: on an H200 sweeps over 7,168 to 8,256 columns of float32 take three quarters as long so. No
    more than five, blocks that only read, and as many in other numbers of rows are quicker as they are. Why is not known.
    """
    shape = by_rows(extents, threads, 1, wide=WARP)
    down = max(shape.threads_down, warp // shape.threads)
    blocks = min(shape.blocks, most)
    rows = max(math.prod(extents[:-1]), 1)
    down_most, down_enough = max(most // blocks, 1), max(enough // blocks, 1)
    down_most = 2 if stores and down_most == 3 and down_most * blocks > 5 * enough else down_most
    return Shape(blocks, shape.threads, resident(-(-rows // down), down_most, together, down_enough), down)


def in_tiles(extents: Sequence[int], threads: int) -> Shape:
    """The shape for a loop of two axes in tiles; ``threads`` are the most of a block, if that is enough for a tile."""
    columns, rows = max(extents[-1], 1), max(extents[0], 1)
    across = max(threads // TILE_HEIGHT, 1)
    down = -(-rows // TILE_ROWS)
    times = -(-down // MAX_GRID_DOWN)
    return Shape(-(-columns // across), across * TILE_HEIGHT, -(-down // times), 1, times)


def one_block_each(extents: Sequence[int], threads: Sequence[int]) -> Shape:
    """The shape for a loop of two axes of which a block, so many threads along x and y, does each iteration."""
    rows, columns = (max(extent, 1) for extent in extents)
    times = -(-rows // MAX_GRID_DOWN)
    return Shape(columns, threads[0], -(-rows // times), threads[1], times)


def threads_per_row(
    iterations: int, inside: int, threads: int, warp: int = WARP, most: int | None = None, enough: int = 0, widest: int = 0
) -> Shape:
    """The shape for a loop of which neighbouring threads share each iteration: x along the one, y along all.

    Args:
        iterations: of the loop.
        inside: iterations of the loop inside it, on average.
        threads: of a block.
        warp: threads that can share one at most; where blocks are no whole warps, each thread has one of its own.
        most: threads that are enough for the device; None where more of them read memory better.
        enough: threads that fill the device: fewer of them share an iteration in several warps, where the loop is long.
        widest: the most threads of a block, one for each iteration, of several warps.

    Returns:
        A shape with as many threads along x as share an iteration.
    """
    lanes = 1
    if inside >= FEW_INSIDE and threads % warp == 0:
        # The power of two that is nearest, as a factor.
        useful = warp if most is None else min(warp, most // iterations)
        while lanes < useful and 2 * (lanes * _INSIDE) ** 2 < inside**2:
            lanes *= 2
        while lanes >= WARP and 2 * lanes <= min(widest, enough // iterations, inside // _MANY_INSIDE):
            lanes *= 2
        threads = max(threads, lanes)
    if lanes > 1 and -(-iterations // (threads // lanes)) > MAX_GRID:
        lanes = 1
    return Shape(-(-iterations // (threads // lanes)), lanes, threads_down=threads // lanes)


def _across(columns: int, wide: int) -> int:
    """The width of a block: ``wide``, or less where that leaves many threads without a column."""
    if columns <= _NARROW:
        return _power_of_two(columns)
    idle = {width: -columns % width / columns for width in (wide, WARP, WARP // 2, _NARROW)}
    # The widest of those that leave the fewest idle, if all leave many.
    return next((width for width in idle if idle[width] <= _FEW_IDLE), min(idle, key=lambda width: idle[width]))


def _power_of_two(number: int) -> int:
    """The least power of two that is not below ``number``."""
    return 1 << (number - 1).bit_length()
