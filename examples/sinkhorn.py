"""Optimal transport with entropy: Sinkhorn's scaling of the rows and columns of a matrix in turn.

python -m examples.sinkhorn
"""

from __future__ import annotations

import math

import numpy as np

import qgraph


@qgraph.kernel
def sinkhorn(cost, a, b, plan, regularisation, tolerance, limit):
    """Move the weights ``a`` (n) to ``b`` (m), both of sum 1, at ``cost[i, j]`` for a unit from i to j.

    ``plan`` (n, m) gets how much goes from where to where: the plan of the least cost, minus ``regularisation`` times its
    entropy. Returns iterations, the cost of the plan, and how much its rows miss ``a``; its columns meet ``b``.
    """
    n, m = cost.shape
    kernel = qgraph.empty((n, m), cost.dtype)
    u = qgraph.full(n, 1.0, cost.dtype)
    v = qgraph.full(m, 1.0, cost.dtype)
    for i, j in qgraph.ndrange(n, m):
        kernel[i, j] = math.exp(-cost[i, j] / regularisation)

    iterations = 0
    missed = math.inf
    while missed > tolerance and iterations < limit:
        for i in range(n):
            row = 0.0
            for j in range(m):
                row += kernel[i, j] * v[j]
            u[i] = a[i] / row
        for j in range(m):
            column = 0.0
            for i in range(n):
                column += kernel[i, j] * u[i]
            v[j] = b[j] / column
        missed = 0.0
        for i in range(n):
            row = 0.0
            for j in range(m):
                row += kernel[i, j] * v[j]
            missed += abs(u[i] * row - a[i])
        iterations += 1

    spent = 0.0
    for i, j in qgraph.ndrange(n, m):
        plan[i, j] = u[i] * kernel[i, j] * v[j]
        spent += plan[i, j] * cost[i, j]
    return iterations, spent, missed


def main() -> None:
    """Two heaps on a line become one."""
    n = 200
    x = np.linspace(0, 1, n)
    two = np.exp(-((x - 0.2) ** 2) / 0.005) + np.exp(-((x - 0.8) ** 2) / 0.005)
    one = np.exp(-((x - 0.5) ** 2) / 0.02)
    cost, a, b = (qgraph.asarray(array) for array in ((x[:, None] - x) ** 2, two / two.sum(), one / one.sum()))
    iterations, spent, missed = sinkhorn(cost, a, b, qgraph.zeros((n, n)), 0.005, 1e-9, 10_000)
    path = sinkhorn.last_launch.path
    print(f"Sinkhorn: cost {spent:.5f} after {iterations} iterations, rows miss by {missed:.1e}, path {path}")


if __name__ == "__main__":
    main()
