"""The ground state of a trapped Bose-Einstein condensate, by imaginary time.

python -m examples.bose_einstein
"""

from __future__ import annotations

import math

import numpy as np

import qgraph


@qgraph.func
def weight(psi, spacing):
    """The integral of the square of ``psi``."""
    total = 0.0
    for i, j in qgraph.ndrange(*psi.shape):
        total += psi[i, j] ** 2
    return total * spacing**2


@qgraph.kernel
def ground_state(wave, trap, interaction, spacing, dt, tolerance, limit):
    """Gross and Pitaevskii's ground state in a potential; lengths are in oscillator lengths, energies in their quanta.

    Args:
        wave: (rows, columns): a first guess, which gets the normalised wave function. It is 0 outside of the grid.
        trap: the potential, of the same shape.
        interaction: strength of the repulsion.
        spacing: of the grid.
        dt: the step of imaginary time, below ``spacing**2 / 2`` and less where the potential is high.
        tolerance: stop where the chemical potential changes by less in a step.
        limit: stop after so many steps in any case.

    Returns:
        the number of steps, and the chemical potential.
    """
    rows, columns = wave.shape
    psi, new = wave, qgraph.empty(wave.shape, wave.dtype)
    steps = 0
    mu = 0.0
    change = tolerance + 1.0
    scale = 1.0 / math.sqrt(weight(psi, spacing))
    while change > tolerance and steps < limit:
        for i, j in qgraph.ndrange(rows, columns):
            here = scale * psi[i, j]
            around = -4.0 * here
            if i > 0:
                around += scale * psi[i - 1, j]
            if i < rows - 1:
                around += scale * psi[i + 1, j]
            if j > 0:
                around += scale * psi[i, j - 1]
            if j < columns - 1:
                around += scale * psi[i, j + 1]
            potential = trap[i, j] + interaction * here**2
            new[i, j] = here - dt * (potential * here - 0.5 * around / spacing**2)
        # A step multiplies the ground state by 1 - mu dt.
        norm = math.sqrt(weight(new, spacing))
        previous = mu
        mu = (1.0 - norm) / dt
        change = abs(mu - previous)
        scale = 1.0 / norm
        psi, new = new, psi
        steps += 1
    for i, j in qgraph.ndrange(rows, columns):
        wave[i, j] = scale * psi[i, j]
    return steps, mu


def harmonic(side: int, spacing: float) -> np.ndarray:
    """The potential of an isotropic trap in the middle of a grid of ``side`` by ``side``."""
    x = (np.arange(side) - (side - 1) / 2) * spacing
    return 0.5 * (x[:, None] ** 2 + x[None, :] ** 2)


def main() -> None:
    """With interaction the cloud is wider, and its chemical potential above the 1 of the free one."""
    side, spacing = 64, 0.2
    trap = qgraph.asarray(harmonic(side, spacing))
    for interaction in (0.0, 50.0):
        wave = qgraph.full((side, side), 1.0)
        steps, mu = ground_state(wave, trap, interaction, spacing, 0.01, 1e-9, 100_000)
        path = ground_state.last_launch.path
        print(f"Bose-Einstein condensate: interaction {interaction:g}, mu = {mu:.6f} after {steps} steps, path {path}")


if __name__ == "__main__":
    main()
