"""Self-gravitating sheets: particles on a line that are sorted in every step of the device loop.

python -m examples.sheets [--picture FILE]

In one dimension gravity does not depend on distance: a sheet is pulled to the right by all that are on its right, and to the
left by the others. So its acceleration is its rank among the positions (F. Hohl and M. Feix, Astrophysical Journal 147, 1967).
"""

from __future__ import annotations

import argparse

import numpy as np

import qgraph


@qgraph.kernel
def collapse(x, v, dt, steps):
    """Leap-frog ``steps`` of length ``dt`` of ``n`` sheets, of mass 1 / n each; returns kinetic and potential energy.

    Args:
        x: (n,) positions; changed in place.
        v: (n,) velocities; changed in place.
        dt: the step.
        steps: how many.
    """
    n = x.shape[0]
    order = qgraph.empty(n, np.int64)
    for _ in qgraph.serial(range(steps)):
        for i in range(n):
            x[i] += 0.5 * dt * v[i]
        order[:] = np.argsort(x)
        # The sheets of an order are all different.
        for rank in qgraph.parallel(range(n)):
            v[order[rank]] += dt * (n - 1 - 2 * rank) / n
        for i in range(n):
            x[i] += 0.5 * dt * v[i]
    order[:] = np.argsort(x)
    kinetic = 0.0
    for i in range(n):
        kinetic += 0.5 * v[i] * v[i] / n
    potential = 0.0
    for rank in range(n):
        potential += (2 * rank + 1 - n) * x[order[rank]] / n / n
    return kinetic, potential


def main(arguments: list[str] | None = None) -> None:
    """A cloud at rest falls into itself and winds up in phase space."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--picture", help="draw positions and velocities at the end to this file")
    picture = parser.parse_args([] if arguments is None else arguments).picture
    n, dt, steps = 5_000, 5e-3, 2000
    start = np.random.default_rng(1).normal(size=n)
    x, v = qgraph.asarray(start), qgraph.zeros(n)
    before = sum(collapse(x, v, dt, 0))
    kinetic, potential = collapse(x, v, dt, steps)
    drift = abs(kinetic + potential - before) / before
    path = collapse.last_launch.path
    print(f"sheets: {n} sheets, {steps} steps, energy {kinetic:.3f} + {potential:.3f}, drift {drift:.0e}, path {path}")
    if picture:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 4.5), layout="constrained")
        axes = figure.subplots()
        axes.plot(qgraph.to_numpy(x), qgraph.to_numpy(v), ",", color="#c2410c")
        axes.set_xlabel("position")
        axes.set_ylabel("velocity")
        figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
