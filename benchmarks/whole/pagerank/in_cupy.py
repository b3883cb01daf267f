"""In CuPy: cuSPARSE's product, an elementwise and a reduction kernel, and the host asks whether to go on."""

from __future__ import annotations

from typing import Any

import cupy as cp
from cupyx.scipy.sparse import csr_matrix

from benchmarks.peers import Device, Run
from benchmarks.whole.pagerank.problem import DAMPING, Problem

difference = cp.ReductionKernel("float32 x, float32 y", "float32 z", "abs(x - y)", "a + b", "z = a", "0", "difference")
damped = cp.ElementwiseKernel(
    "float32 arriving, float32 stuck, float32 damping, float32 n",
    "float32 rank",
    "rank = damping * (arriving + stuck / n) + (1.0f - damping) / n",
    "damped",
)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.nodes
    start, source, inverse = (cp.asarray(part) for part in problem.links)
    matrix = csr_matrix((inverse[source], source, start), shape=(n, n))
    empty = (inverse == 0.0).astype(cp.float32)
    result: dict[str, Any] = {}

    def solve() -> None:
        rank = cp.full(n, 1.0 / n, cp.float32)
        iterations, change = 0, problem.tolerance + 1.0
        while change > problem.tolerance and iterations < problem.limit:
            new = damped(matrix @ rank, empty @ rank, DAMPING, n)
            change = float(difference(new, rank))
            rank = new
            iterations += 1
        result.update(rank=rank, iterations=iterations)

    return Run(
        solve,
        cp.cuda.Device().synchronize,
        lambda: {"rank": cp.asnumpy(result["rank"]), "iterations": result["iterations"]},
    )
