"""Products, factors and solutions of matrices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.npbench_in_jax.versions import first, put_column, put_row, version


@version(changes=("out",))
def gemm(alpha: Any, beta: Any, out: Any, left: Any, right: Any) -> tuple[Any, ...]:
    return (beta * out + alpha * (left @ right),)


@version(changes=("out",))
def k2mm(alpha: Any, beta: Any, a: Any, b: Any, c: Any, out: Any) -> tuple[Any, ...]:
    return (beta * out + alpha * (a @ b @ c),)


@version()
def k3mm(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    return ((a @ b) @ (c @ d),)


@version()
def atax(a: Any, x: Any) -> tuple[Any, ...]:
    return (a.T @ (a @ x),)


@version()
def bicg(a: Any, p: Any, r: Any) -> tuple[Any, ...]:
    return a.T @ r, a @ p


@version(changes=("x", "y"))
def mvt(x: Any, y: Any, by_rows: Any, by_columns: Any, a: Any) -> tuple[Any, ...]:
    return x + a @ by_rows, y + by_columns @ a


@version(changes=("a", "x", "w"))
def gemver(alpha: Any, beta: Any, a: Any, u: Any, v: Any, p: Any, q: Any, w: Any, x: Any, y: Any, z: Any) -> tuple[Any, ...]:
    a = a + jnp.outer(u, v) + jnp.outer(p, q)
    x = x + z + beta * (a.T @ y)
    return a, x, w + alpha * (a @ x)


@version()
def gesummv(alpha: Any, beta: Any, a: Any, b: Any, x: Any) -> tuple[Any, ...]:
    return (alpha * (a @ x) + beta * (b @ x),)


@version(changes=("a",))
def doitgen(a: Any, weights: Any) -> tuple[Any, ...]:
    return (a @ weights,)


@version(changes=("c",))
def symm(alpha: Any, beta: Any, c: Any, a: Any, b: Any) -> tuple[Any, ...]:
    symmetric = jnp.tril(a) + jnp.tril(a, -1).T
    return (beta * c + alpha * (symmetric @ b),)


def _lower_updated(c: Any, beta: Any, update: Any) -> Any:
    """``beta * c + update`` on and below the diagonal, ``c`` above."""
    return jnp.where(jnp.tri(*c.shape, dtype=bool), beta * c + update, c)


@version(changes=("c",))
def syrk(alpha: Any, beta: Any, c: Any, a: Any) -> tuple[Any, ...]:
    return (_lower_updated(c, beta, alpha * (a @ a.T)),)


@version(changes=("c",))
def syr2k(alpha: Any, beta: Any, c: Any, a: Any, b: Any) -> tuple[Any, ...]:
    product = a @ b.T
    return (_lower_updated(c, beta, alpha * (product + product.T)),)


@version(changes=("b",))
def trmm(alpha: Any, a: Any, b: Any) -> tuple[Any, ...]:
    # A row is added to those above it before it changes itself: each product has the old ``b``.
    return (alpha * (b + jnp.tril(a, -1).T @ b),)


def _forward(lower: Any, b: Any, x: Any, *, unit: bool) -> Any:
    """The solution with a lower triangle, row by row; ``unit``: its diagonal is taken for ones."""

    def row(i: Any, x: Any) -> Any:
        rest = b[i] - jnp.sum(lower[i] * first(i, x))
        return put_row(rest if unit else rest / lower[i, i], x, i)

    return lax.fori_loop(0, b.shape[0], row, x)


@version(changes=("x",))
def trisolv(lower: Any, x: Any, b: Any) -> tuple[Any, ...]:
    return (_forward(lower, b, x, unit=False),)


@version(changes=("a",))
def cholesky(a: Any) -> tuple[Any, ...]:
    """By columns, whose elements are independent, with the products of rows that the program has."""
    n = a.shape[0]
    index = jnp.arange(n)

    def column(j: Any, a: Any) -> Any:
        rest = a[:, j] - a @ first(j, a[j])
        root = jnp.sqrt(rest[j])
        new = jnp.where(index > j, rest / root, jnp.where(index == j, root, a[:, j]))
        return put_column(new, a, j)

    return (lax.fori_loop(0, n, column, a),)


@version(changes=("a",))
def cholesky2(a: Any) -> tuple[Any, ...]:
    return (lax.linalg.cholesky(a, symmetrize_input=False) + jnp.triu(a, k=1),)


def _lu(a: Any) -> Any:
    """Crout's order: a row of the upper factor, then a column of the lower one, each by a product with what is done."""
    n = a.shape[0]
    index = jnp.arange(n)

    def turn(k: Any, a: Any) -> Any:
        # Both from the old array: nothing reads the new one in this turn, so that it can take its place.
        row, column = a[k], a[:, k]
        row = jnp.where(index >= k, row - first(k, row) @ a, row)
        below = (column - a @ first(k, column)) / row[k]
        column = jnp.where(index > k, below, jnp.where(index == k, row[k], column))
        row, column = lax.optimization_barrier((row, column))
        return put_column(column, put_row(row, a, k), k)

    return lax.fori_loop(0, n, turn, a)


@version(changes=("a",))
def lu(a: Any) -> tuple[Any, ...]:
    return (_lu(a),)


@version(changes=("a",))
def ludcmp(a: Any, b: Any) -> tuple[Any, ...]:
    a = _lu(a)
    y = _forward(a, b, jnp.zeros_like(b), unit=True)
    # The upper triangle from the last row on is a lower one, seen from the other corner.
    x = jnp.flip(_forward(jnp.flip(a), jnp.flip(y), jnp.zeros_like(y), unit=False))
    return x, y, a


@version()
def durbin(r: Any) -> tuple[Any, ...]:
    n = r.shape[0]
    zeros = jnp.zeros_like(r)
    backward = jnp.concatenate((jnp.flip(r), zeros))

    def turn(k: Any, carry: Any) -> Any:
        y, reflection, error = carry
        # The first k elements of each, the last one first, then zeros.
        r_flipped = lax.dynamic_slice(backward, (n - k,), (n,))
        y_flipped = lax.dynamic_slice(jnp.concatenate((jnp.flip(y), zeros)), (n - k,), (n,))
        error = error * (1.0 - reflection * reflection)
        reflection = -(r[k] + jnp.sum(r_flipped * y)) / error
        return put_row(reflection, y + reflection * y_flipped, k), reflection, error

    start = put_row(-r[0], zeros, 0), -r[0], jnp.ones((), r.dtype)
    y, _, _ = lax.fori_loop(1, n, turn, start)
    return (y,)


@version(changes=("a",))
def gramschmidt(a: Any) -> tuple[Any, ...]:
    index = jnp.arange(a.shape[1])

    def turn(a: Any, k: Any) -> Any:
        column = a[:, k]
        norm = jnp.sqrt(jnp.sum(column * column))
        q = column / norm
        r = jnp.where(index > k, q @ a, 0)
        return a - jnp.outer(q, r), (q, jnp.where(index == k, norm, r))

    a, (q, r) = lax.scan(turn, a, index)
    return q.T, r, a


@version(changes=("data",))
def covariance(data: Any) -> tuple[Any, ...]:
    data = data - jnp.mean(data, axis=0)
    return data.T @ data / (data.shape[0] - 1.0), data


@version()
def covariance2(data: Any) -> tuple[Any, ...]:
    apart = data - jnp.mean(data, axis=0)
    return (apart.T @ apart / (data.shape[0] - 1),)


@version(changes=("data",))
def correlation(data: Any) -> tuple[Any, ...]:
    spread = jnp.std(data, axis=0)
    spread = jnp.where(spread <= 0.1, 1.0, spread)
    data = (data - jnp.mean(data, axis=0)) / (spread * jnp.sqrt(float(data.shape[0])))
    return jnp.where(jnp.eye(data.shape[1], dtype=bool), 1.0, data.T @ data), data


@version()
def contour_integral(points: Any, blocks: Any, right: Any) -> tuple[Any, ...]:
    # The points are independent: one batch of systems.
    powers = jnp.power(points[:, None], 1.0 - jnp.arange(blocks.shape[0]))
    totals = jnp.tensordot(powers, blocks.astype(powers.dtype), axes=1)
    x = jax.vmap(jnp.linalg.solve, in_axes=(0, None))(totals, right)
    x = jnp.where(jnp.abs(points)[:, None, None] < 1.0, -x, x)
    return jnp.sum(x, axis=0), jnp.tensordot(points, x, axes=1)
