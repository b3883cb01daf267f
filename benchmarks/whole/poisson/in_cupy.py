"""In CuPy: the solver of ``cupyx.scipy.sparse.linalg`` over a matrix-free operator."""

from __future__ import annotations

from typing import Any

import cupy as cp
from cupyx.scipy.sparse.linalg import LinearOperator, cg

from benchmarks.peers import Device, Run
from benchmarks.whole.poisson.problem import Problem

laplacian = cp.ElementwiseKernel(
    "raw float32 x, int32 n",
    "float32 y",
    """
    int row = i / n, column = i % n;
    float total = 4.0f * x[i];
    if (row > 0) total -= x[i - n];
    if (row < n - 1) total -= x[i + n];
    if (column > 0) total -= x[i - 1];
    if (column < n - 1) total -= x[i + 1];
    y = total;
    """,
    "laplacian",
)


def make(problem: Problem, device: Device) -> Run:
    """Ready to run."""
    n = problem.side
    b = cp.asarray(problem.b.ravel())
    operator = LinearOperator((n * n, n * n), matvec=lambda x: laplacian(x, n, cp.empty_like(x)), dtype=cp.float32)
    result: dict[str, Any] = {}

    def solve() -> None:
        count = 0

        def step(_: Any) -> None:
            nonlocal count
            count += 1

        result["x"], _ = cg(operator, b, maxiter=problem.limit, callback=step, rtol=problem.tolerance)
        result["iterations"] = count

    return Run(
        solve,
        cp.cuda.Device().synchronize,
        lambda: {"x": cp.asnumpy(result["x"]).reshape(n, n), "iterations": result["iterations"]},
    )
