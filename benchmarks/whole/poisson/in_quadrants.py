"""In Quadrants: one graph with a device-side loop; sums into local names, which it reduces by threads."""

import functools
from typing import Any

import quadrants as qd

from benchmarks.peers import Device, Run
from benchmarks.whole.poisson.problem import Problem

Grid = qd.types.ndarray(qd.f32, ndim=2)
Number = qd.types.ndarray(qd.f32, ndim=0)
Count = qd.types.ndarray(qd.i32, ndim=0)


@functools.cache
def solver(n: int) -> Any:
    """The kernel for grids of ``n`` by ``n``: with bounds known when it is compiled its grids are as large as they must be."""

    @qd.kernel(graph=True)
    def solve(
        x: Grid,
        b: Grid,
        r: Grid,
        p: Grid,
        q: Grid,
        rs: Number,
        enough: Number,
        iterations: Count,
        going: Count,
        tolerance: qd.f32,
        limit: qd.i32,
    ):
        first = 0.0
        for i, j in qd.ndrange(n, n):
            x[i, j] = 0.0
            r[i, j] = b[i, j]
            p[i, j] = b[i, j]
            first += b[i, j] * b[i, j]
        for _ in range(1):
            rs[()] = first
            enough[()] = tolerance * tolerance * first
            iterations[()] = 0
        while qd.graph.do_while(going):
            pq = 0.0
            for i, j in qd.ndrange(n, n):
                total = 4.0 * p[i, j]
                if i > 0:
                    total -= p[i - 1, j]
                if i < n - 1:
                    total -= p[i + 1, j]
                if j > 0:
                    total -= p[i, j - 1]
                if j < n - 1:
                    total -= p[i, j + 1]
                q[i, j] = total
                pq += p[i, j] * total
            now = 0.0
            for i, j in qd.ndrange(n, n):
                alpha = rs[()] / pq
                x[i, j] += alpha * p[i, j]
                left = r[i, j] - alpha * q[i, j]
                r[i, j] = left
                now += left * left
            for i, j in qd.ndrange(n, n):
                p[i, j] = r[i, j] + now / rs[()] * p[i, j]
            for _ in range(1):
                rs[()] = now
                iterations[()] += 1
                going[()] = 1
                if now <= enough[()] or iterations[()] >= limit:
                    going[()] = 0

    return solve


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    solve = solver(n)
    x, b, r, p, q = (qd.ndarray(qd.f32, shape=(n, n)) for _ in range(5))
    rs, enough = (qd.ndarray(qd.f32, shape=()) for _ in range(2))
    iterations, going = (qd.ndarray(qd.i32, shape=()) for _ in range(2))
    b.from_numpy(problem.b)
    going.fill(1)
    result = [0]

    def run() -> None:
        solve(x, b, r, p, q, rs, enough, iterations, going, problem.tolerance, problem.limit)
        result[0] = int(iterations[()])

    return Run(run, qd.sync, lambda: {"x": x.to_numpy(), "iterations": result[0]})
