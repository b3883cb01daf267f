"""Dormand and Prince's Runge-Kutta method of order 5(4), which chooses its steps on the device.

python -m examples.dormand_prince
"""

from __future__ import annotations

import math

import numpy as np

import qgraph


@qgraph.func
def lorenz96(dy, y, force):
    """Lorenz's model of 1996: a ring of cells in a weather that is the same everywhere."""
    n = y.shape[0]
    for i in range(n):
        dy[i] = (y[(i + 1) % n] - y[(i - 2) % n]) * y[(i - 1) % n] - y[i] + force


@qgraph.kernel
def dormand_prince(y, force, end, step, rtol, atol):
    """Integrate ``lorenz96`` from time 0 to ``end``, in place; ``step`` is the first step to try.

    A step is taken where the root mean square of its error, each over ``atol + rtol * |y|``, is below 1. Returns the numbers
    of steps taken and refused.
    """
    n = y.shape[0]
    k1, k2, k3 = qgraph.empty(n, y.dtype), qgraph.empty(n, y.dtype), qgraph.empty(n, y.dtype)
    k4, k5, k6 = qgraph.empty(n, y.dtype), qgraph.empty(n, y.dtype), qgraph.empty(n, y.dtype)
    k7, stage, new = qgraph.empty(n, y.dtype), qgraph.empty(n, y.dtype), qgraph.empty(n, y.dtype)

    lorenz96(k1, y, force)
    t = 0.0
    taken = 0
    refused = 0
    after_refusal = False
    while t < end:
        later = min(t + step, end)
        h = later - t
        for i in range(n):
            stage[i] = y[i] + h * (1 / 5 * k1[i])
        lorenz96(k2, stage, force)
        for i in range(n):
            stage[i] = y[i] + h * (3 / 40 * k1[i] + 9 / 40 * k2[i])
        lorenz96(k3, stage, force)
        for i in range(n):
            stage[i] = y[i] + h * (44 / 45 * k1[i] - 56 / 15 * k2[i] + 32 / 9 * k3[i])
        lorenz96(k4, stage, force)
        for i in range(n):
            stage[i] = y[i] + h * (19372 / 6561 * k1[i] - 25360 / 2187 * k2[i] + 64448 / 6561 * k3[i] - 212 / 729 * k4[i])
        lorenz96(k5, stage, force)
        for i in range(n):
            stage[i] = y[i] + h * (
                9017 / 3168 * k1[i] - 355 / 33 * k2[i] + 46732 / 5247 * k3[i] + 49 / 176 * k4[i] - 5103 / 18656 * k5[i]
            )
        lorenz96(k6, stage, force)
        for i in range(n):
            new[i] = y[i] + h * (
                35 / 384 * k1[i] + 500 / 1113 * k3[i] + 125 / 192 * k4[i] - 2187 / 6784 * k5[i] + 11 / 84 * k6[i]
            )
        lorenz96(k7, new, force)

        squares = 0.0
        for i in range(n):
            error = h * (
                71 / 57600 * k1[i]
                - 71 / 16695 * k3[i]
                + 71 / 1920 * k4[i]
                - 17253 / 339200 * k5[i]
                + 22 / 525 * k6[i]
                - 1 / 40 * k7[i]
            )
            squares += (error / (atol + rtol * max(abs(y[i]), abs(new[i])))) ** 2
        norm = math.sqrt(squares / n)

        growth = 10.0
        if norm > 0.0:
            growth = min(10.0, 0.9 * norm**-0.2)
        if norm < 1.0:
            if after_refusal:
                growth = min(1.0, growth)
            after_refusal = False
            t = later
            taken += 1
            y[:] = new
            k1[:] = k7  # the last stage of this step is the first of the next
        else:
            growth = max(0.2, growth)
            after_refusal = True
            refused += 1
        step = h * growth
    return taken, refused


def main() -> None:
    """The weather of 40 cells, one of them disturbed."""
    n = 40
    start = np.full(n, 8.0)
    start[n // 2] += 0.01
    y = qgraph.asarray(start)
    taken, refused = dormand_prince(y, 8.0, 5.0, 0.01, 1e-8, 1e-8)
    energy = 0.5 * np.sum(qgraph.to_numpy(y) ** 2)
    path = dormand_prince.last_launch.path
    print(f"Dormand-Prince: {taken} steps taken, {refused} refused, energy {energy:.3f}, path {path}")


if __name__ == "__main__":
    main()
