"""In qgraph: the whole iteration is one launch; the two sets of ranks change names."""

from __future__ import annotations

from typing import Any

import qgraph
from benchmarks.peers import Device, Run, nothing, with_options
from benchmarks.whole.pagerank.problem import DAMPING, Links, Problem


@qgraph.kernel
def pagerank(links, rank, damping, tolerance, limit):
    """The ranks into ``rank``; returns the number of iterations."""
    n = rank.shape[0]
    old, new = rank, qgraph.empty(n, rank.dtype)
    old[:] = 1.0 / n
    iterations = 0
    change = tolerance + 1.0
    while change > tolerance and iterations < limit:
        stuck = 0.0
        for i in range(n):
            if links.inverse[i] == 0.0:
                stuck += old[i]
        change = 0.0
        for i in range(n):
            arriving = 0.0
            for k in range(links.start[i], links.start[i + 1]):
                j = links.source[k]
                arriving += old[j] * links.inverse[j]
            new[i] = damping * (arriving + stuck / n) + (1.0 - damping) / n
            change += abs(new[i] - old[i])
        old, new = new, old
        iterations += 1
    rank[:] = old
    return iterations


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(pagerank, fuse=fuse)
    links = Links(*(qgraph.asarray(part, backend=device) for part in problem.links))
    rank = qgraph.zeros(problem.nodes, "float32", backend=device)
    result: list[Any] = [0]

    def solve() -> None:
        result[0] = kernel(links, rank, DAMPING, problem.tolerance, problem.limit)

    return Run(solve, nothing, lambda: {"rank": qgraph.to_numpy(rank), "iterations": result[0]})
