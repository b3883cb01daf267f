"""Maxwell's equations in two dimensions (TM), by Yee's scheme in a box with conducting walls.

python -m examples.fdtd
"""

from __future__ import annotations

import math

import numpy as np

import qgraph


@qgraph.kernel
def fdtd(ez, hx, hy, courant, steps):
    """Advance the fields by ``steps``; returns the energy in units of a cell, electric then magnetic.

    Args:
        ez: the electric field at the corners of the cells, (n + 1, m + 1); on the walls it stays what it is.
        hx: the magnetic field half a step earlier at the middle of edges along the second axis, (n + 1, m).
        hy: the magnetic field half a step earlier at the middle of edges along the first axis, (n, m + 1).
        courant: speed of light times the step over the spacing, at most 1 / sqrt(2).
        steps: how many.
    """
    n, m = ez.shape[0] - 1, ez.shape[1] - 1
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(n + 1, m):
            hx[i, j] -= courant * (ez[i, j + 1] - ez[i, j])
        for i, j in qgraph.ndrange(n, m + 1):
            hy[i, j] += courant * (ez[i + 1, j] - ez[i, j])
        for i, j in qgraph.ndrange((1, n), (1, m)):
            ez[i, j] += courant * (hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1])
    electric = 0.0
    for i, j in qgraph.ndrange((1, n), (1, m)):
        electric += 0.5 * ez[i, j] ** 2
    magnetic = 0.0
    for i, j in qgraph.ndrange(n + 1, m):
        magnetic += 0.5 * hx[i, j] ** 2
    for i, j in qgraph.ndrange(n, m + 1):
        magnetic += 0.5 * hy[i, j] ** 2
    return electric, magnetic


def main() -> None:
    """A pulse in a square box."""
    n = 200
    x = np.arange(n + 1)[:, None] - n / 2
    y = np.arange(n + 1)[None, :] - n / 2
    ez = qgraph.asarray(np.exp(-(x**2 + y**2) / 50))
    hx, hy = qgraph.zeros((n + 1, n)), qgraph.zeros((n, n + 1))
    electric, magnetic = fdtd(ez, hx, hy, 1 / math.sqrt(2), 1000)
    print(f"FDTD: 1000 steps of {n} x {n} cells, energy {electric:.3f} + {magnetic:.3f}, path {fdtd.last_launch.path}")


if __name__ == "__main__":
    main()
