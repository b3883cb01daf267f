"""Products, factors and solutions of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

import qgraph
from examples.npbench.programs import numbers, positive_definite, program


@program(lambda n: (1.5, 1.2, numbers(n, n + 1), numbers(n, n + 2), numbers(n + 2, n + 1)))
def gemm(alpha: float, beta: float, out: Any, left: Any, right: Any) -> None:
    out[:] = beta * out + alpha * left @ right


@program(lambda n: (1.5, 1.2, numbers(n, n + 1), numbers(n + 1, n + 2), numbers(n + 2, n), numbers(n, n)))
def k2mm(alpha: float, beta: float, a: Any, b: Any, c: Any, out: Any) -> None:
    out[:] = beta * out + alpha * a @ b @ c


@program(lambda n: (numbers(n, n + 1), numbers(n + 1, n), numbers(n, n + 2), numbers(n + 2, n)))
def k3mm(a: Any, b: Any, c: Any, d: Any) -> Any:
    return (a @ b) @ (c @ d)


@program(lambda n: (numbers(n, n + 3), numbers(n + 3)))
def atax(a: Any, x: Any) -> Any:
    return a.T @ (a @ x)


@program(lambda n: (numbers(n + 3, n), numbers(n), numbers(n + 3)))
def bicg(a: Any, p: Any, r: Any) -> Any:
    return a.T @ r, a @ p


@program(lambda n: (numbers(n), numbers(n, seed=1), numbers(n, seed=2), numbers(n, seed=3), numbers(n, n)))
def mvt(x: Any, y: Any, by_rows: Any, by_columns: Any, a: Any) -> None:
    x += a @ by_rows
    y += by_columns @ a


@program(lambda n: (1.5, 1.2, numbers(n, n), *(numbers(n, seed=k) for k in range(8))))
def gemver(alpha: float, beta: float, a: Any, u: Any, v: Any, p: Any, q: Any, w: Any, x: Any, y: Any, z: Any) -> None:
    a += np.outer(u, v) + np.outer(p, q)
    x += z + beta * (a.T @ y)
    w += alpha * (a @ x)


@program(lambda n: (1.5, 1.2, numbers(n, n), numbers(n, n, seed=1), numbers(n)))
def gesummv(alpha: float, beta: float, a: Any, b: Any, x: Any) -> Any:
    return alpha * (a @ x) + beta * (b @ x)


@program(lambda n: (numbers(n, 4, 5), numbers(5, 5)))
def doitgen(a: Any, weights: Any) -> None:
    a[:] = (np.reshape(a, (a.shape[0], a.shape[1], 1, a.shape[2])) @ weights)[:, :, 0]


@program(lambda n: (1.5, 1.2, numbers(n, n + 1), numbers(n, n), numbers(n, n + 1, seed=1)))
def symm(alpha: float, beta: float, c: Any, a: Any, b: Any) -> None:
    above = np.empty(c.shape[1])
    c *= beta
    for i in qgraph.serial(range(c.shape[0])):
        for j in range(c.shape[1]):
            c[:i, j] += alpha * b[i, j] * a[i, :i]
            above[j] = np.dot(a[i, :i], b[:i, j])
        c[i] += alpha * (b[i] * a[i, i] + above)


@program(lambda n: (1.5, 1.2, numbers(n, n), numbers(n, n + 2)))
def syrk(alpha: float, beta: float, c: Any, a: Any) -> None:
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[: i + 1, k] * a[i, k]


@program(lambda n: (1.5, 1.2, numbers(n, n), numbers(n, n + 2), numbers(n, n + 2, seed=1)))
def syr2k(alpha: float, beta: float, c: Any, a: Any, b: Any) -> None:
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * (a[: i + 1, k] * b[i, k] + b[: i + 1, k] * a[i, k])


@program(lambda n: (1.5, numbers(n, n), numbers(n, n + 1)))
def trmm(alpha: float, a: Any, b: Any) -> None:
    for i in qgraph.serial(range(b.shape[0])):
        for j in range(b.shape[1]):
            b[i, j] += a[i + 1 :, i] @ b[i + 1 :, j]
    b *= alpha


@program(lambda n: (positive_definite(n), np.zeros(n), numbers(n)))
def trisolv(lower: Any, x: Any, b: Any) -> None:
    for i in qgraph.serial(range(x.shape[0])):
        x[i] = (b[i] - np.dot(lower[i, :i], x[:i])) / lower[i, i]


@program(lambda n: (positive_definite(n),))
def cholesky(a: Any) -> None:
    for i in qgraph.serial(range(a.shape[0])):
        for j in qgraph.serial(range(i)):
            a[i, j] = (a[i, j] - np.dot(a[i, :j], a[j, :j])) / a[j, j]
        a[i, i] = np.sqrt(a[i, i] - np.dot(a[i, :i], a[i, :i]))


@program(lambda n: (positive_definite(n),))
def cholesky2(a: Any) -> None:
    a[:] = np.linalg.cholesky(a) + np.triu(a, k=1)


@program(lambda n: (positive_definite(n),))
def lu(a: Any) -> None:
    for i in qgraph.serial(range(a.shape[0])):
        for j in qgraph.serial(range(i)):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


@program(lambda n: (positive_definite(n), numbers(n)))
def ludcmp(a: Any, b: Any) -> Any:
    n = a.shape[0]
    for i in qgraph.serial(range(n)):
        for j in qgraph.serial(range(i)):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]
    x, y = np.zeros_like(b), np.zeros_like(b)
    for i in qgraph.serial(range(n)):
        y[i] = b[i] - a[i, :i] @ y[:i]
    for i in qgraph.serial(range(n - 1, -1, -1)):
        x[i] = (y[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x, y


@program(lambda n: (numbers(n) / n,))
def durbin(r: Any) -> Any:
    y = np.empty_like(r)
    y[0] = -r[0]
    reflection, error = -r[0], 1.0
    for k in qgraph.serial(range(1, r.shape[0])):
        error *= 1.0 - reflection * reflection
        reflection = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / error
        y[:k] += reflection * np.flip(y[:k])
        y[k] = reflection
    return y


@program(lambda n: (numbers(n + 2, n) + np.eye(n + 2, n),))
def gramschmidt(a: Any) -> Any:
    n = a.shape[1]
    q, r = np.zeros_like(a), np.zeros((n, n))
    for k in qgraph.serial(range(n)):
        r[k, k] = np.sqrt(a[:, k] @ a[:, k])
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, n):
            r[k, j] = q[:, k] @ a[:, j]
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


@program(lambda n: (numbers(n + 3, n),))
def covariance(data: Any) -> Any:
    n = data.shape[1]
    data -= np.mean(data, axis=0)
    result = np.zeros((n, n))
    for i in qgraph.serial(range(n)):
        result[i:, i] = result[i, i:] = data[:, i] @ data[:, i:] / (data.shape[0] - 1.0)
    return result


@program(lambda n: (numbers(n + 3, n),))
def covariance2(data: Any) -> Any:
    apart = data - np.mean(data, axis=0)
    return apart.T @ apart / (data.shape[0] - 1)


@program(lambda n: (numbers(n + 3, n),))
def correlation(data: Any) -> Any:
    n = data.shape[1]
    spread = np.std(data, axis=0)
    spread[spread <= 0.1] = 1.0
    data -= np.mean(data, axis=0)
    data /= spread * np.sqrt(float(data.shape[0]))
    result = np.eye(n)
    for i in qgraph.serial(range(n - 1)):
        result[i + 1 :, i] = result[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
    return result


@program(lambda n: (4 * np.exp(2j * np.pi * numbers(n)), numbers(3, 4, 4) + 5 * np.eye(4), numbers(4, 2) + 0j), size=3)
def contour_integral(points: Any, blocks: Any, right: Any) -> Any:
    zeroth, first = np.zeros(right.shape, dtype=np.complex128), np.zeros(right.shape, dtype=np.complex128)
    for z in qgraph.serial(points):
        total = np.zeros(blocks.shape[1:], dtype=np.complex128)
        for n in qgraph.serial(range(blocks.shape[0])):
            total += np.power(z, 1.0 - n) * blocks[n]
        x = np.linalg.solve(total, right)
        if abs(z) < 1.0:
            x = -x
        zeroth += x
        first += z * x
    return zeroth, first
