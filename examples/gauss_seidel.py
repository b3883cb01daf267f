"""Red-black Gauss-Seidel with over-relaxation for Poisson's equation: the cells of one colour only see the other.

python -m examples.gauss_seidel
"""

from __future__ import annotations

import math

import numpy as np

import qgraph


@qgraph.kernel
def gauss_seidel(u, f, omega, tol):
    """Solve the five-point Laplacian of ``u`` = ``f`` inside; the edge of ``u`` stays. Returns sweeps and the last change.

    ``u`` and ``f`` have one shape (rows, columns); ``f`` is times the square of the grid's spacing. ``omega`` of 1 is
    Gauss-Seidel's own method, up to 2 converges.
    """
    sweeps = 0
    while True:
        delta = 0.0
        for colour in qgraph.serial(range(2)):
            for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
                if (i + j) % 2 == colour:
                    mean = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
                    change = omega * (mean - u[i, j])
                    u[i, j] += change
                    delta = max(delta, abs(change))
        sweeps += 1
        if delta <= tol:
            break
    return sweeps, delta


def main() -> None:
    """A plate whose upper edge is hot, with the best factor for a square."""
    side = 64
    plate = np.zeros((side, side))
    plate[0] = 1.0
    u, f = qgraph.asarray(plate), qgraph.asarray(np.zeros_like(plate))
    omega = 2.0 / (1.0 + math.sin(math.pi / (side - 1)))
    sweeps, delta = gauss_seidel(u, f, omega, 1e-6)
    middle = qgraph.to_numpy(u)[side // 2, side // 2]
    path = gauss_seidel.last_launch.path
    print(f"Gauss-Seidel: {sweeps} sweeps, last change {delta:.1e}, {middle:.4f} in the middle, path {path}")


if __name__ == "__main__":
    main()
