"""What ``explain`` tells of launches: how threads cover a loop on a GPU, and why so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from qgraph.ir.artifacts import COARSENING, REDUCTION_BLOCK, TILE_ROWS, WARP, TaskCode
from qgraph.ir.program import MAX_PARTIALS
from qgraph.runtime.graph.launch_shapes import Shape, by_rows, in_tiles, one_block_each

# As ``runtime.graph.kernels`` has it, which needs a driver; a kernel of many registers has fewer.
_BLOCK = 256


def extents_of(code: TaskCode, host: Mapping[str, int]) -> list[list[int]]:
    """For each loop of a kernel the iterations of its axes; none where only the device, or only a call, knows them."""
    return [[host[name] for name in names] for names in code.counts if all(name in host for name in names)]


def launch_note(code: TaskCode, extents: Sequence[Sequence[int]], block_size: int | None) -> str:
    """The grid of a kernel, as far as it does not depend on the device, and the reason for its form."""
    block = block_size or _BLOCK
    if code.single:
        return "one thread: its statements have an order"
    if code.on_device:
        shared = f", of which up to {WARP} threads share an iteration" if code.lanes else ""
        why = "only the device knows how many iterations there are"
        return f"as many blocks of {block} as run at once, which stride{shared}: {why}"
    if len(code.counts) > 1:
        return f"blocks of {block}, the loops one behind the other in whole warps: one kernel starts sooner than several"
    if not extents:
        return ""
    each = extents[0]
    count = math.prod(each)
    if code.reduces:
        block = min(block, REDUCTION_BLOCK)
        most = min(max(-(-count // block), 1), MAX_PARTIALS)
        why = "each leaves one result, and all of these are combined" if code.task.reductions else "each has bins of its own"
        return f"at most {most:,} block{'s' * (most > 1)} of {block}, which stride: {why}"
    if code.task.block is not None:
        return f"{_grid(one_block_each(each, code.task.block.threads))}: a block an iteration, whose threads share it"
    if code.plane == "tiles":
        why = f"a block has {TILE_ROWS} rows: one array runs along the other axis in memory"
        return f"{_grid(in_tiles(each, block))}, in tiles: {why}"
    if code.plane:
        why = "x along the last axis, so that neighbouring threads touch neighbouring elements"
        return f"{_grid(by_rows(each, block, *code.share(several=False)))}: {why}{_several(code)}"
    if code.lanes:
        share = f"of which up to {WARP} threads share an iteration, as long as the loop inside is"
        return f"blocks of {block}, {share}: more of them where there are few"
    return f"{_grid(Shape(max(-(-count // block), 1), block))}: a thread an iteration{_several(code)}"


def _several(code: TaskCode) -> str:
    return f"; {COARSENING} for each where that still fills the device" if code.several else ""


def _grid(shape: Shape) -> str:
    blocks = " x ".join(f"{each:,}" for each in (shape.blocks, shape.blocks_down, shape.times) if each > 1) or "1"
    threads = " x ".join(str(each) for each in (shape.threads, shape.threads_down) if each > 1) or "1"
    return f"{blocks} block{'s' * (shape.all_blocks > 1)} of {threads}"
