"""Conjugate gradients for a sparse symmetric positive definite matrix: the whole solve is one launch.

python -m examples.conjugate_gradient
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import qgraph


class Csr(NamedTuple):
    """A sparse matrix by rows: row ``i`` has ``value[k]`` in ``column[k]`` for ``k`` in ``start[i]`` to ``start[i + 1]``."""

    start: Any
    column: Any
    value: Any


@qgraph.func
def multiply(y, matrix, x):
    """``y = matrix @ x``."""
    for i in range(y.shape[0]):
        total = 0.0
        for k in range(matrix.start[i], matrix.start[i + 1]):
            total += matrix.value[k] * x[matrix.column[k]]
        y[i] = total


@qgraph.func
def dot(x, y):
    """The inner product of two vectors."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@qgraph.kernel
def conjugate_gradient(matrix, x, b, tolerance, limit):
    """Solve ``matrix @ x = b`` from the guess in ``x`` until ``|r| <= tolerance * |b|``; returns iterations and ``|r|``."""
    n = b.shape[0]
    r = qgraph.empty(n, b.dtype)
    p = qgraph.empty(n, b.dtype)
    q = qgraph.empty(n, b.dtype)

    multiply(q, matrix, x)
    for i in range(n):
        r[i] = b[i] - q[i]
        p[i] = r[i]
    rs = dot(r, r)
    enough = tolerance * tolerance * dot(b, b)
    iterations = 0
    while rs > enough and iterations < limit:
        multiply(q, matrix, p)
        alpha = rs / dot(p, q)
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]
        previous = rs
        rs = dot(r, r)
        beta = rs / previous
        for i in range(n):
            p[i] = r[i] + beta * p[i]
        iterations += 1
    return iterations, math.sqrt(rs)


def laplacian(side: int) -> Csr:
    """The five-point Laplacian of a ``side`` by ``side`` grid with zeros around it, times -1: positive definite."""
    start, column, value = [0], [], []
    for i in range(side):
        for j in range(side):
            for di, dj, entry in ((-1, 0, -1.0), (0, -1, -1.0), (0, 0, 4.0), (0, 1, -1.0), (1, 0, -1.0)):
                if 0 <= i + di < side and 0 <= j + dj < side:
                    column.append((i + di) * side + j + dj)
                    value.append(entry)
            start.append(len(column))
    return Csr(np.array(start, np.int32), np.array(column, np.int32), np.array(value))


def main() -> None:
    """Solve Poisson's equation on a grid."""
    side = 128
    matrix = Csr(*(qgraph.asarray(part) for part in laplacian(side)))
    b = qgraph.asarray(np.ones(side * side))
    x = qgraph.zeros(side * side)
    iterations, residual = conjugate_gradient(matrix, x, b, 1e-10, 10_000)
    path = conjugate_gradient.last_launch.path
    print(f"conjugate gradient: {side * side} unknowns, {iterations} iterations, |r| = {residual:.1e}, path {path}")


if __name__ == "__main__":
    main()
