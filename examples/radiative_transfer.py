"""Newton's method with a dense Jacobian: Chandrasekhar's H-equation of radiative transfer.

python -m examples.radiative_transfer

H(m) = 1 / (1 - c/2 * integral of m / (m + s) * H(s) over s from 0 to 1), at the midpoints of n intervals
(C. T. Kelley, Iterative Methods for Linear and Nonlinear Equations, SIAM, 1995). Each iteration solves a linear system.
"""

from __future__ import annotations

import numpy as np

import qgraph


@qgraph.kernel
def albedo(h, c, tolerance, limit):
    """Solve for ``h``, (n,), which begins as the first guess; at most ``limit`` iterations.

    Args:
        h: the values at the midpoints; changed in place.
        c: the average total number of particles emerging from a collision, 0 to 1.
        tolerance: stop when no equation is off by more.
        limit: the most iterations.

    Returns:
        how many iterations there were, and the largest residual.
    """
    n = h.shape[0]
    jacobian, residual, step = qgraph.empty((n, n)), qgraph.empty(n), qgraph.empty(n)
    iterations = 0
    largest = tolerance + 1.0
    while largest > tolerance and iterations <= limit:
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += (i + 0.5) / (i + j + 1.0) * h[j]
            residual[i] = h[i] - 1.0 / (1.0 - 0.5 * c / n * total)
        largest = 0.0
        for i in range(n):
            largest = max(largest, abs(residual[i]))
        if largest > tolerance:
            for i, j in qgraph.ndrange(n, n):
                # Where the equation holds, 1 / (1 - ...) is h.
                inverse = h[i] - residual[i]
                own = 1.0 if i == j else 0.0
                jacobian[i, j] = own - inverse * inverse * 0.5 * c / n * (i + 0.5) / (i + j + 1.0)
            step[:] = np.linalg.solve(jacobian, residual)
            for i in range(n):
                h[i] -= step[i]
            iterations += 1
    return iterations, largest


def main() -> None:
    """An atmosphere that absorbs almost nothing."""
    n, c = 200, 0.9999
    h = qgraph.full(n, 1.0)
    iterations, largest = albedo(h, c, 1e-11, 30)
    last = float(qgraph.to_numpy(h)[-1])
    path = albedo.last_launch.path
    print(f"radiative transfer: {n} angles, {iterations} iterations, residual {largest:.0e}, H(1) = {last:.4f}, path {path}")


if __name__ == "__main__":
    main()
