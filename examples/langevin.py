"""Langevin dynamics in a trap: random forces out of counters, vectors in registers, one launch for all steps.

Each step is that of B. Leimkuhler and C. Matthews, "Rational construction of stochastic numerical methods for molecular
sampling", Appl. Math. Res. Express (2013): half a kick, half a drift, friction and noise, half a drift, half a kick. In a
harmonic trap its positions have the covariance of the temperature over the stiffness, however long the steps are.

python -m examples.langevin
"""

from __future__ import annotations

import math

import numpy as np

import qgraph


@qgraph.kernel
def langevin(x, v, stiffness, rng, steps, dt, friction, temperature):
    """Move particles of mass 1 by ``steps``; returns the mean potential and kinetic energy of a particle.

    ``x`` and ``v`` (particles, 3) are their places and velocities, ``stiffness`` is a symmetric ``qgraph.mat``, and ``rng`` a
    ``qgraph.random.Generator``: the next call goes on with other noise.
    """
    kept = math.exp(-friction * dt)
    noise = math.sqrt(temperature * (1 - kept * kept))
    for t in qgraph.serial(range(steps)):
        for i in range(x.shape[0]):
            place = qgraph.vec(x[i])
            speed = qgraph.vec(v[i]) - 0.5 * dt * (stiffness @ place)
            place += 0.5 * dt * speed
            speed = kept * speed + noise * qgraph.vec(rng.normal(i, t, size=3))
            place += 0.5 * dt * speed
            x[i] = place
            v[i] = speed - 0.5 * dt * (stiffness @ place)
    potential = 0.0
    kinetic = 0.0
    for i in range(x.shape[0]):
        place = qgraph.vec(x[i])
        speed = qgraph.vec(v[i])
        potential += 0.5 * place @ (stiffness @ place)
        kinetic += 0.5 * speed @ speed
    return potential / x.shape[0], kinetic / x.shape[0]


def main() -> None:
    """Let particles that start in the middle forget that, and compare with the known covariance."""
    stiffness = qgraph.mat((4.0, 1.0, 0.0), (1.0, 2.0, 0.5), (0.0, 0.5, 1.0))
    x, v = (qgraph.zeros((20000, 3)) for _ in range(2))
    potential, kinetic = langevin(x, v, stiffness, qgraph.random.Generator(1), 100, 0.2, 1.0, 0.5)
    covariance, known = np.cov(qgraph.to_numpy(x).T), 0.5 * np.array(stiffness.inv())
    print(
        f"Langevin: 20000 particles, 100 steps, energies {potential:.2f} and {kinetic:.2f} of 0.75, "
        f"covariance off by {np.abs(covariance - known).max() / known.max():.1%}, path {langevin.last_launch.path}"
    )


if __name__ == "__main__":
    main()
