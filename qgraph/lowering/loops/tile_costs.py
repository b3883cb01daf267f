"""What a tile takes in a pass over memory, and why iterations may run so: what ``explain`` and ``profile`` tell of tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from qgraph.ir.blocks import TileCost
from qgraph.lowering.graph.traffic import traffic
from qgraph.lowering.loops.block_codegen import BlockCode
from qgraph.lowering.loops.iterations_together import runs_together
from qgraph.lowering.loops.register_tiles import RegisterTile
from qgraph.lowering.loops.stencils import Stage
from qgraph.lowering.loops.streamed_tiles import StreamCode
from qgraph.lowering.loops.tile_codegen import TileCode

# What a byte of shared memory takes, of what one of device memory does: H200, 33 TB/s, and 3.3 in plain loops of stencils. And
# times as much where a thread does one iteration after another, so that each waits for its loads. Of 16 forms at 4096 x 4096
# that keep nothing in registers 13 took what these say but for a fourth, and three of several float64 arrays a fourth to a half
# less.
_SHARED, _ONE_BY_ONE = 0.1, 2.2


def gain(code: BlockCode | StreamCode) -> float:
    """How many times as fast a pass is, far from every edge, as the same iterations one by one, by the bytes that both move."""
    stages = [stage for stage in code.stencils.stages if stage.is_everywhere]
    sizes = {key: np.dtype(code.arrays[leaves[0]].dtype).itemsize for key, leaves in code.stencils.leaves.items()}
    alone = sum(sizes[key] for stage in stages for key, _ in {(each.array, each.writes) for each in stage.accesses})
    kept = sum(sizes[key] for key in code.stencils.leaves if key not in code.stencils.overwritten)
    owned = math.prod(code.tile)
    halo = math.prod(code.extents) / owned
    device = kept * (halo + 1) / code.sweeps
    registers = code.registers if isinstance(code, BlockCode) else None
    if isinstance(code, StreamCode):
        shared = halo * code.exchanged()
    elif isinstance(registers, RegisterTile):
        shared = halo * registers.shared()
    else:
        shared = 0.0
        for stage in stages:
            done = sum(_iterations(code, stage, left) for left in range(code.sweeps)) / (code.sweeps * owned)
            moved = sum(sizes[each.array] for each in dict.fromkeys(stage.accesses))
            shared += done * moved * (1 if runs_together(stage, code.rows) else _ONE_BY_ONE)
    cost = device + _SHARED * shared
    return alone / cost if stages and cost else math.inf


def tile_cost(code: TileCode) -> TileCost:
    """Of a tile far from every edge; loops along edges are not counted."""
    stencils, sweeps = code.stencils, 0 if code.copies else code.sweeps
    kept = [leaves[0] for key, leaves in stencils.leaves.items() if key not in stencils.overwritten]
    element = sum(np.dtype(code.arrays[leaf].dtype).itemsize for leaf in kept)
    loads, stores = element * math.prod(code.extents), element * math.prod(code.tile)
    costs = [(stage, traffic(code.program, stage.task)) for stage in stencils.stages if stage.is_everywhere]
    # The pass back does the same.
    reasons = [] if code.back or not sweeps else [*_halo(code), *_legal(code)]
    if reasons and isinstance(code, BlockCode | StreamCode):
        reasons.append(f"estimated {gain(code):.1f} times as fast as iterations one by one, by the bytes that both move")
    if not sweeps or not costs or any(cost.why_not for _, cost in costs):
        return TileCost(loads, stores, 0, tuple(reasons))
    done = [sum(_iterations(code, stage, left) for left in range(sweeps)) for stage, _ in costs]
    owned = sweeps * math.prod(code.tile)
    alone, moved = owned * sum(cost.memory for _, cost in costs), loads + stores
    more = f"{alone / moved:.1f} times as much memory" if moved else f"{alone:,} bytes of memory for each tile, and a pass none"
    halo = 1 - owned * len(costs) / sum(done)
    lost = f"{halo:.0%} of what a tile computes lies in its halo, and other tiles compute it, too"
    reasons += [] if code.back else [f"{sweeps} iterations one by one move {more}; {lost}"]
    return TileCost(
        loads, stores, sum(cost.operations * many for (_, cost), many in zip(costs, done, strict=True)), tuple(reasons)
    )


def _iterations(code: TileCode, stage: Stage, left: int) -> int:
    """How many a loop has in a tile, in a sweep behind which so many are left."""
    axes = zip(code.tile, stage.beyond, code.stencils.reach, strict=True)
    return math.prod(tile + below + above + 2 * left * reach for tile, (below, above), reach in axes)


def _halo(code: TileCode) -> Iterator[str]:
    """Where the halo is from."""
    for stage in code.stencils.stages:
        found = []
        for axis, first in enumerate(stage.anchor):
            by = [each.places[axis].offset - first for each in stage.accesses if not each.writes]
            if any(by):
                found.append(f"{min(by)} to {max(by)} along axis {axis}")
        where = f"elements {' and '.join(found)} from the one that it stores" if found else "no neighbours of what it stores"
        yield f"line {stage.task.span.line} reads {where}"
    reach, halo = (" by ".join(map(str, each)) for each in (code.stencils.reach, code.halo))
    yield f"so an iteration needs {reach} elements around a tile, and {code.sweeps} of them need a halo of {halo}"


def _legal(code: TileCode) -> Iterator[str]:
    """What proves that tiles may do iterations before other tiles have done theirs."""
    for stage in code.stencils.stages:
        verdict = stage.task.verdict
        assert verdict is not None
        yield f"legal: line {stage.task.span.line} is {verdict.kind}, {verdict.reason}"
    yield "legal: what tiles store goes to copies of the arrays, at which none of them looks"
