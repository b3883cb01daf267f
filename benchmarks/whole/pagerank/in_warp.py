"""In Warp: ``wp.capture_while``; sums of a tile by ``wp.tile_sum``, then one atomic addition a tile."""

from typing import Any

import warp as wp

from benchmarks.peers import Device, Run
from benchmarks.warp_graphs import captured
from benchmarks.whole.pagerank.problem import DAMPING, Problem

TILE = 256

# Nothing here is differentiated.
wp.set_module_options({"enable_backward": False})


@wp.kernel
def sum_stuck(inverse: wp.array(dtype=float), rank: wp.array(dtype=float), sums: wp.array(dtype=float)):
    """The ranks of nodes that link to none."""
    i = wp.tid()
    value = float(0.0)
    if i < rank.shape[0]:
        if inverse[i] == 0.0:
            value = rank[i]
    wp.tile_atomic_add(sums, wp.tile_sum(wp.tile(value)))


@wp.kernel
def gather(
    start: wp.array(dtype=int),
    source: wp.array(dtype=int),
    inverse: wp.array(dtype=float),
    old: wp.array(dtype=float),
    fresh: wp.array(dtype=float),
    sums: wp.array(dtype=float),
    change: wp.array(dtype=float),
    damping: float,
):
    """New ranks, and how much they change."""
    i = wp.tid()
    n = old.shape[0]
    value = float(0.0)
    if i < n:
        arriving = float(0.0)
        for k in range(start[i], start[i + 1]):
            j = source[k]
            arriving += old[j] * inverse[j]
        rank = damping * (arriving + sums[0] / float(n)) + (1.0 - damping) / float(n)
        fresh[i] = rank
        value = wp.abs(rank - old[i])
    wp.tile_atomic_add(change, wp.tile_sum(wp.tile(value)))


@wp.kernel
def advance(
    sums: wp.array(dtype=float),
    change: wp.array(dtype=float),
    iterations: wp.array(dtype=int),
    going: wp.array(dtype=int),
    tolerance: float,
    limit: int,
):
    """Count, decide, and clear the sums."""
    iterations[0] = iterations[0] + 1
    going[0] = 1
    if change[0] <= tolerance or iterations[0] >= limit:
        going[0] = 0
    sums[0] = 0.0
    change[0] = 0.0


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.nodes
    start, source, inverse = (wp.array(part) for part in problem.links)
    rank, fresh = (wp.zeros(n, dtype=float) for _ in range(2))
    sums, change = (wp.zeros(1, dtype=float) for _ in range(2))
    iterations, going = (wp.zeros(1, dtype=int) for _ in range(2))
    # Whole blocks, because a tile is a block.
    padded = -(-n // TILE) * TILE

    def iterate() -> None:
        wp.launch(sum_stuck, dim=padded, inputs=[inverse, rank, sums], block_dim=TILE)
        arrays = [start, source, inverse, rank, fresh, sums, change, DAMPING]
        wp.launch(gather, dim=padded, inputs=arrays, block_dim=TILE)
        wp.copy(rank, fresh)
        wp.launch(advance, dim=1, inputs=[sums, change, iterations, going, problem.tolerance, problem.limit])

    def solve() -> None:
        rank.fill_(1.0 / n)
        iterations.zero_()
        going.fill_(1)
        wp.capture_while(going, iterate)

    solve()  # loads the modules, each block size its own
    run = captured(solve, device)

    result: list[Any] = [0]

    def action() -> None:
        run()
        result[0] = int(iterations.numpy()[0])

    return Run(action, wp.synchronize_device, lambda: {"rank": rank.numpy(), "iterations": result[0]})
