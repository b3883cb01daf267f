"""In Quadrants: one graph with a device-side loop; sums into local names, which it reduces by threads."""

from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.pagerank.problem import DAMPING, Problem

Integers = qd.types.ndarray(qd.i32, ndim=1)
Numbers = qd.types.ndarray(qd.f32, ndim=1)
Count = qd.types.ndarray(qd.i32, ndim=0)


def ranker(n: int) -> Any:
    """The kernel for graphs of ``n`` nodes: bounds known when it is compiled are its fast way."""

    @qd.kernel(graph=True)
    def pagerank(
        start: Integers,
        source: Integers,
        inverse: Numbers,
        rank: Numbers,
        new: Numbers,
        iterations: Count,
        going: Count,
        damping: qd.f32,
        tolerance: qd.f32,
        limit: qd.i32,
    ):
        for i in range(n):
            rank[i] = 1.0 / n
        # As a bare statement this would take `stuck = 0.0` out of the loop with it: the sums would then grow for ever.
        for _ in range(1):
            iterations[()] = 0
        while qd.graph.do_while(going):
            stuck = 0.0
            for i in range(n):
                if inverse[i] == 0.0:
                    stuck += rank[i]
            change = 0.0
            for i in range(n):
                arriving = 0.0
                for k in range(start[i], start[i + 1]):
                    j = source[k]
                    arriving += rank[j] * inverse[j]
                new[i] = damping * (arriving + stuck / n) + (1.0 - damping) / n
                change += qd.abs(new[i] - rank[i])
            for i in range(n):
                rank[i] = new[i]
            for _ in range(1):
                iterations[()] += 1
                going[()] = 1
                if change <= tolerance or iterations[()] >= limit:
                    going[()] = 0

    return pagerank


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.nodes
    pagerank = ranker(n)
    parts = []
    for part, kind in zip(problem.links, (qd.i32, qd.i32, qd.f32), strict=True):
        parts.append(qd.ndarray(kind, shape=part.shape))
        parts[-1].from_numpy(part)
    rank, new = (qd.ndarray(qd.f32, shape=(n,)) for _ in range(2))
    iterations, going = (qd.ndarray(qd.i32, shape=()) for _ in range(2))
    going.fill(1)
    result = [0]

    def solve() -> None:
        pagerank(*parts, rank, new, iterations, going, DAMPING, problem.tolerance, problem.limit)
        result[0] = int(iterations[()])

    return Run(solve, qd.sync, lambda: {"rank": rank.to_numpy(), "iterations": result[0]})
