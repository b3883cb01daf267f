"""BiCGSTAB (van der Vorst 1992) for a sparse matrix that need not be symmetric: the whole solve is one launch.

python -m examples.bicgstab
"""

from __future__ import annotations

import math

import numpy as np

import qgraph
from examples.conjugate_gradient import Csr, dot, multiply


@qgraph.kernel
def bicgstab(matrix, x, b, tolerance, limit):
    """Solve ``matrix @ x = b`` from the guess in ``x`` until ``|r| <= tolerance * |b|``; returns iterations and ``|r|``.

    It ends early where the method breaks down: the residual returned is then larger than asked for.
    """
    n = b.shape[0]
    r = qgraph.empty(n, b.dtype)
    shadow = qgraph.empty(n, b.dtype)
    p = qgraph.zeros(n, b.dtype)
    v = qgraph.zeros(n, b.dtype)
    t = qgraph.empty(n, b.dtype)

    multiply(v, matrix, x)
    for i in range(n):
        r[i] = b[i] - v[i]
        shadow[i] = r[i]
        v[i] = 0.0
    enough = tolerance * math.sqrt(dot(b, b))
    residual = math.sqrt(dot(r, r))
    rho = alpha = omega = 1.0
    iterations = 0
    while residual > enough:
        previous = rho
        rho = dot(shadow, r)
        if rho == 0.0 or iterations == limit:
            break
        beta = (rho / previous) * (alpha / omega)
        for i in range(n):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
        multiply(v, matrix, p)
        projected = dot(shadow, v)
        if projected == 0.0:
            break
        alpha = rho / projected
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * v[i]
        multiply(t, matrix, r)
        tt = dot(t, t)
        iterations += 1
        if tt == 0.0:  # the half step was exact
            residual = 0.0
            break
        omega = dot(t, r) / tt
        for i in range(n):
            x[i] += omega * r[i]
            r[i] -= omega * t[i]
        residual = math.sqrt(dot(r, r))
    return iterations, residual


def convection(n: int, wind: float, decay: float) -> Csr:
    """Convection, diffusion and decay on a line of ``n`` points, by central differences: not symmetric where there is wind."""
    start, column, value = [0], [], []
    for i in range(n):
        for j, entry in ((i - 1, -1.0 - wind), (i, 2.0 + decay), (i + 1, -1.0 + wind)):
            if 0 <= j < n:
                column.append(j)
                value.append(entry)
        start.append(len(column))
    return Csr(np.array(start, np.int32), np.array(column, np.int32), np.array(value))


def main() -> None:
    """Solve how a substance is blown along a line, where it decays."""
    n = 2000
    matrix = Csr(*(qgraph.asarray(part) for part in convection(n, 0.2, 0.01)))
    b = qgraph.asarray(np.random.default_rng(1).normal(size=n))
    x = qgraph.zeros(n)
    iterations, residual = bicgstab(matrix, x, b, 1e-10, 10_000)
    print(f"BiCGSTAB: {n} unknowns, {iterations} iterations, |r| = {residual:.1e}, path {bicgstab.last_launch.path}")


if __name__ == "__main__":
    main()
