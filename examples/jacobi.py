"""Jacobi's iteration for Poisson's equation, stopped by a tolerance that the device tests.

python -m examples.jacobi
"""

from __future__ import annotations

import numpy as np

import qgraph


@qgraph.kernel
def jacobi(u, v, f, tol):
    """Solve the five-point Laplacian of ``u`` = ``f`` inside; the edge of ``u`` stays. Returns sweeps and the last change.

    ``u``, ``v`` and ``f`` have one shape (rows, columns); ``f`` is times the square of the grid's spacing, ``v`` is scratch.
    """
    it = 0
    delta = tol + 1.0
    while delta > tol:
        delta = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
            delta = max(delta, abs(v[i, j] - u[i, j]))
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = v[i, j]
        it += 1
    return it, delta


def main() -> None:
    """A plate whose upper edge is hot."""
    side = 64
    plate = np.zeros((side, side))
    plate[0] = 1.0
    u, v, f = (qgraph.asarray(array) for array in (plate, plate.copy(), np.zeros_like(plate)))
    sweeps, delta = jacobi(u, v, f, 1e-6)
    middle = qgraph.to_numpy(u)[side // 2, side // 2]
    print(f"Jacobi: {sweeps} sweeps, last change {delta:.1e}, {middle:.4f} in the middle, path {jacobi.last_launch.path}")


if __name__ == "__main__":
    main()
