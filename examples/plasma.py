"""Electrons on a line as particles in cells: their charge is scattered on a grid, the grid's field pushes them.

python -m examples.plasma
"""

from __future__ import annotations

import math

import numpy as np

import qgraph


@qgraph.func
def deposit(density, x):
    """Each particle of ``x`` (in cells) shares itself between the two grid points next to it; many meet at one point."""
    cells = density.shape[0]
    for p in range(x.shape[0]):
        left = int(x[p])
        share = x[p] - left
        density[left % cells] += 1.0 - share
        density[(left + 1) % cells] += share


@qgraph.kernel
def plasma(x, v, density, field, strength, dt, steps):
    """Leap-frog ``steps`` of length ``dt`` in a periodic box, over ions that do not move; returns the energy at the end.

    Args:
        x: positions in cells, 0 <= x < cells; changed in place.
        v: velocities in cells a unit of time, half a step behind the positions.
        density: (cells,), gets the electrons at each grid point.
        field: (cells,), gets the acceleration half a cell to the right of each grid point.
        strength: the acceleration that one electron causes; its square plasma frequency is ``strength`` times electrons a cell.
        dt: the step.
        steps: how many.

    Returns:
        the kinetic energy of the electrons, and the field's, in units of an electron's mass.
    """
    cells = density.shape[0]
    ions = x.shape[0] / cells
    for _ in qgraph.serial(range(steps)):
        density[:] = 0.0
        deposit(density, x)
        total = 0.0
        for c in qgraph.serial(range(cells)):
            total += strength * (density[c] - ions)
            field[c] = total
        mean = 0.0
        for c in range(cells):
            mean += field[c]
        mean = mean / cells
        for c in range(cells):
            field[c] -= mean
        for p in range(x.shape[0]):
            left = int(x[p])
            share = x[p] - left
            here = 0.5 * (field[(left - 1) % cells] + field[left])
            there = 0.5 * (field[left] + field[(left + 1) % cells])
            v[p] += dt * ((1.0 - share) * here + share * there)
            x[p] = (x[p] + dt * v[p]) % cells
            if x[p] >= cells:  # the remainder of a tiny negative number is rounded up
                x[p] = 0.0
    kinetic = 0.0
    for p in range(x.shape[0]):
        kinetic += 0.5 * v[p] ** 2
    electric = 0.0
    for c in range(cells):
        electric += 0.5 * field[c] ** 2 / strength
    return kinetic, electric


def main() -> None:
    """A cold plasma that swings at its own frequency."""
    cells, a_cell, dt = 64, 1000, 0.05
    rest = (np.arange(cells * a_cell) + 0.5) / a_cell
    x = qgraph.asarray((rest + 0.1 * np.sin(2 * np.pi * rest / cells)) % cells)
    v = qgraph.zeros(len(rest))
    steps = round(2 * math.pi / dt)
    kinetic, electric = plasma(x, v, qgraph.zeros(cells), qgraph.zeros(cells), 1 / a_cell, dt, steps)
    path = plasma.last_launch.path
    print(f"plasma: {len(rest)} electrons, {steps} steps, energy {kinetic:.3f} + {electric:.3f}, path {path}")


if __name__ == "__main__":
    main()
