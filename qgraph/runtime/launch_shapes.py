"""Launch shapes: how many blocks of how many threads a kernel has, and how they lie over the iterations of a loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from qgraph.compiled import WARP

# The most blocks that a launch can have along x, and along y.
MAX_GRID = 2**31 - 1
MAX_GRID_DOWN = 65535
# A block is no narrower than this many columns, a sector of float32, if there are so many.
_NARROW = 8
# Idle threads at the end of each row, for one with work, that are no reason for a narrower block.
_FEW_IDLE = 1 / 8


class Shape(NamedTuple):
    """Blocks along x and y, and threads of a block along x and y."""

    blocks: int
    threads: int
    blocks_down: int = 1
    threads_down: int = 1

    @property
    def all_blocks(self) -> int:
        """The number of blocks."""
        return self.blocks * self.blocks_down


def by_rows(extents: Sequence[int], threads: int, share: int) -> Shape:
    """The shape for a loop of several axes: x along the last one, y along the others together, ``share`` rows for a thread.

    Args:
        extents: iterations of each axis.
        threads: the most threads of a block.
        share: rows that a thread has, if there are that many.

    Returns:
        A shape with a thread for each column, and for ``share`` rows each, or fewer where a launch cannot have so many:
        threads go on a grid further down.
    """
    columns, rows = max(extents[-1], 1), max(math.prod(extents[:-1]), 1)
    across = min(_across(columns), threads)
    down = min(threads // across, _power_of_two(-(-rows // share)))
    # A few rows: the block lies along them.
    across = min(threads // down, max(across, _power_of_two(columns)))
    return Shape(-(-columns // across), across, min(-(-rows // (down * share)), MAX_GRID_DOWN), down)


def _across(columns: int) -> int:
    """The width of a block: a warp, or less where that leaves many threads without a column."""
    widths = [WARP]
    while widths[-1] > _NARROW:
        widths.append(widths[-1] // 2)
    if columns <= _NARROW:
        return _power_of_two(columns)
    idle = {width: -columns % width / columns for width in widths}
    return next((width for width in widths if idle[width] <= _FEW_IDLE), min(widths, key=lambda width: (idle[width], -width)))


def _power_of_two(number: int) -> int:
    """The least power of two that is not below ``number``."""
    return 1 << (number - 1).bit_length()
