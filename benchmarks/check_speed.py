"""How many accesses to elements ``kernel.check`` looks at in a second: ``python -m benchmarks.check_speed``."""

from __future__ import annotations

import time

import numpy as np

import qgraph


@qgraph.kernel
def stencil(u: np.ndarray, v: np.ndarray, steps: int) -> None:
    """Six accesses an element and step."""
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = v[i, j]


@qgraph.kernel
def product(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """A matrix in the format CSR with a vector: three accesses for each element that is stored."""
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            s += data[k] * x[indices[k]]
        y[i] = s


def main() -> None:
    """Print accesses per second of each; all orders of iterations are in the time, and compilation is not."""
    grid = np.random.default_rng(1).random((1000, 1000))
    rows, columns = 500_000, 8
    places = np.random.default_rng(2).integers(0, rows, rows * columns)
    matrix = (np.ones(rows * columns), places, np.arange(0, rows * columns + 1, columns))
    for kernel, args in ((stencil, (grid, grid.copy(), 2)), (product, (*matrix, np.ones(rows), np.zeros(rows)))):
        # Compiled code is kept, so that the second run has none to make.
        kernel.check(*args)
        start = time.process_time()
        report = kernel.check(*args)
        seconds = time.process_time() - start
        runs = 1 + report.orders
        each = runs * report.accesses / seconds
        print(f"{report.kernel}: {report.accesses} accesses, {runs} runs, {seconds:.2f} s of one core: {each:.3g} a second")


if __name__ == "__main__":
    main()
