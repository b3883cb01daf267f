"""In CuPy: cuSPARSE's product, fused elementwise kernels, and the host asks whether to go on."""

from __future__ import annotations

from typing import Any

import cupy as cp
from cupyx.scipy.sparse import csr_matrix

from benchmarks.peers import Device, Run
from benchmarks.whole.pagerank.problem import DAMPING, Problem

difference = cp.ReductionKernel("float32 x, float32 y", "float32 z", "abs(x - y)", "a + b", "z = a", "0", "difference")


@cp.fuse()
def damped(arriving: Any, stuck: Any, n: Any) -> Any:
    """Ranks out of what arrives."""
    return cp.float32(DAMPING) * (arriving + stuck / n) + cp.float32(1.0 - DAMPING) / n


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.nodes
    start, source, inverse = (cp.asarray(part) for part in problem.links)
    matrix = csr_matrix((inverse[source], source, start), shape=(n, n))
    empty = (inverse == 0.0).astype(cp.float32)
    count = cp.float32(n)
    result: dict[str, Any] = {}

    def solve() -> None:
        rank = cp.full(n, 1.0 / n, cp.float32)
        iterations, change = 0, problem.tolerance + 1.0
        while change > problem.tolerance and iterations < problem.limit:
            new = damped(matrix @ rank, empty @ rank, count)
            change = float(difference(new, rank))
            rank = new
            iterations += 1
        result.update(rank=rank, iterations=iterations)

    return Run(
        solve,
        cp.cuda.Device().synchronize,
        lambda: {"rank": cp.asnumpy(result["rank"]), "iterations": result["iterations"]},
    )
