"""In qgraph: the whole solve is one launch."""

from __future__ import annotations

import math
from typing import Any

import qgraph
from benchmarks.peers import Device, Run, nothing, with_options
from benchmarks.whole.poisson.problem import Problem


@qgraph.kernel
def conjugate_gradient(x, b, tolerance, limit):
    """Solve for ``x``, from 0; returns iterations and ``|r|``."""
    n, m = b.shape
    r = qgraph.empty(b.shape, b.dtype)
    p = qgraph.empty(b.shape, b.dtype)
    q = qgraph.empty(b.shape, b.dtype)
    rs = 0.0
    for i, j in qgraph.ndrange(n, m):
        x[i, j] = 0.0
        r[i, j] = b[i, j]
        p[i, j] = b[i, j]
        rs += b[i, j] * b[i, j]
    enough = tolerance * tolerance * rs
    iterations = 0
    while rs > enough and iterations < limit:
        pq = 0.0
        for i, j in qgraph.ndrange(n, m):
            total = 4.0 * p[i, j]
            if i > 0:
                total -= p[i - 1, j]
            if i < n - 1:
                total -= p[i + 1, j]
            if j > 0:
                total -= p[i, j - 1]
            if j < m - 1:
                total -= p[i, j + 1]
            q[i, j] = total
            pq += p[i, j] * total
        alpha = rs / pq
        previous = rs
        rs = 0.0
        for i, j in qgraph.ndrange(n, m):
            x[i, j] += alpha * p[i, j]
            left = r[i, j] - alpha * q[i, j]
            r[i, j] = left
            rs += left * left
        beta = rs / previous
        for i, j in qgraph.ndrange(n, m):
            p[i, j] = r[i, j] + beta * p[i, j]
        iterations += 1
    return iterations, math.sqrt(rs)


def make(problem: Problem, device: Device, *, fuse: bool = False) -> Run:
    """Ready to run."""
    kernel = with_options(conjugate_gradient, fuse=fuse)
    b = qgraph.asarray(problem.b, backend=device)
    x = qgraph.zeros(b.shape, b.dtype, backend=device)
    result: list[Any] = [0, 0.0]

    def solve() -> None:
        result[:] = kernel(x, b, problem.tolerance, problem.limit)

    return Run(solve, nothing, lambda: {"x": qgraph.to_numpy(x), "iterations": result[0]})
