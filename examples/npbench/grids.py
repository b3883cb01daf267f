"""Stencils, recurrences along an axis, and flows."""

from __future__ import annotations

from typing import Any

import numpy as np

import qgraph
from examples.npbench.programs import numbers, program


@program(lambda n: (5, numbers(n), numbers(n)))
def jacobi_1d(steps: int, u: Any, v: Any) -> None:
    for _ in qgraph.serial(range(1, steps)):
        v[1:-1] = (u[:-2] + u[1:-1] + u[2:]) / 3
        u[1:-1] = (v[:-2] + v[1:-1] + v[2:]) / 3


@qgraph.func
def smoothed(out: Any, u: Any) -> None:
    out[1:-1, 1:-1] = 0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1])


@program(lambda n: (4, numbers(n, n + 1), numbers(n, n + 1)))
def jacobi_2d(steps: int, u: Any, v: Any) -> None:
    for _ in qgraph.serial(range(1, steps)):
        smoothed(v, u)
        smoothed(u, v)


@qgraph.func
def warmed(out: Any, u: Any) -> None:
    middle = u[1:-1, 1:-1, 1:-1]
    out[1:-1, 1:-1, 1:-1] = (
        middle
        + 0.125 * (u[2:, 1:-1, 1:-1] - 2 * middle + u[:-2, 1:-1, 1:-1])
        + 0.125 * (u[1:-1, 2:, 1:-1] - 2 * middle + u[1:-1, :-2, 1:-1])
        + 0.125 * (u[1:-1, 1:-1, 2:] - 2 * middle + u[1:-1, 1:-1, :-2])
    )


@program(lambda n: (3, numbers(n, n, n), numbers(n, n, n)), size=4)
def heat_3d(steps: int, u: Any, v: Any) -> None:
    for _ in qgraph.serial(range(1, steps)):
        warmed(v, u)
        warmed(u, v)


@program(lambda n: (3, numbers(n, n)))
def seidel_2d(steps: int, u: Any) -> None:
    for _ in qgraph.serial(range(steps - 1)):
        for i in qgraph.serial(range(1, u.shape[0] - 1)):
            around = u[i - 1, :-2] + u[i - 1, 1:-1] + u[i - 1, 2:] + u[i + 1, :-2] + u[i + 1, 1:-1] + u[i + 1, 2:]
            u[i, 1:-1] += around + u[i, 2:]
            for j in qgraph.serial(range(1, u.shape[1] - 1)):
                u[i, j] = (u[i, j] + u[i, j - 1]) / 9.0


@program(lambda n: (3, numbers(n, n), numbers(n, n, seed=1), numbers(n, n, seed=2), numbers(3)))
def fdtd_2d(steps: int, ex: Any, ey: Any, hz: Any, source: Any) -> None:
    for t in qgraph.serial(range(steps)):
        ey[0] = source[t]
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@program(lambda n: (np.random.default_rng(1).integers(1, 50, (n, n)),))
def floyd_warshall(paths: Any) -> None:
    for k in qgraph.serial(range(paths.shape[0])):
        paths[:] = np.minimum(paths, np.add.outer(paths[:, k], paths[k]))


@qgraph.func
def implicit_sweep(new: Any, old: Any, across: float, along: float) -> None:
    """One direction of an alternating method: a tridiagonal system in each row of ``new``, by the Thomas algorithm."""
    n = new.shape[0]
    p, q = np.zeros((n, n)), np.zeros((n, n))
    new[1:-1, 0] = new[1:-1, n - 1] = 1.0
    q[1:-1, 0] = new[1:-1, 0]
    for j in qgraph.serial(range(1, n - 1)):
        below = 1.0 + 2.0 * along - along * p[1:-1, j - 1]
        p[1:-1, j] = along / below
        source = across * (old[:-2, j] + old[2:, j]) + (1.0 - 2.0 * across) * old[1:-1, j]
        q[1:-1, j] = (source + along * q[1:-1, j - 1]) / below
    for j in qgraph.serial(range(n - 2, 0, -1)):
        new[1:-1, j] = p[1:-1, j] * new[1:-1, j + 1] + q[1:-1, j]


@program(lambda n: (2, numbers(n, n)))
def adi(steps: int, u: Any) -> Any:
    v = np.zeros_like(u)
    for _ in qgraph.serial(range(steps)):
        implicit_sweep(v.T, u.T, 0.5, 1.0)
        implicit_sweep(u, v, 1.0, 0.5)
    return u + 0.0


@program(lambda n: (0.25, numbers(n, n + 1)))
def deriche(alpha: float, image: Any) -> Any:
    decay = np.exp(-alpha)
    k = (1.0 - decay) ** 2 / (1.0 + 2.0 * alpha * decay - decay * decay)
    now, before, after, further = k, k * decay * (alpha - 1.0), k * decay * (alpha + 1.0), -k * decay * decay
    near, far = 2.0**-alpha, -decay * decay
    forth, back = np.zeros_like(image), np.zeros_like(image)
    forth[:, 0] = now * image[:, 0]
    forth[:, 1] = now * image[:, 1] + before * image[:, 0] + near * forth[:, 0]
    for j in qgraph.serial(range(2, image.shape[1])):
        forth[:, j] = now * image[:, j] + before * image[:, j - 1] + near * forth[:, j - 1] + far * forth[:, j - 2]
    back[:, -2] = after * image[:, -1]
    for j in qgraph.serial(range(image.shape[1] - 3, -1, -1)):
        back[:, j] = after * image[:, j + 1] + further * image[:, j + 2] + near * back[:, j + 1] + far * back[:, j + 2]
    blurred = forth + back
    forth[0] = now * blurred[0]
    forth[1] = now * blurred[1] + before * blurred[0] + near * forth[0]
    for i in qgraph.serial(range(2, image.shape[0])):
        forth[i] = now * blurred[i] + before * blurred[i - 1] + near * forth[i - 1] + far * forth[i - 2]
    back[-1] = 0.0
    back[-2] = after * blurred[-1]
    for i in qgraph.serial(range(image.shape[0] - 3, -1, -1)):
        back[i] = after * blurred[i + 1] + further * blurred[i + 2] + near * back[i + 1] + far * back[i + 2]
    blurred[:] = forth + back
    return blurred


@program(lambda n: (numbers(n + 4, n + 4, 3), np.zeros((n, n, 3)), numbers(n, n, 3)), size=4)
def hdiff(field: Any, out: Any, strength: Any) -> None:
    curved = 4.0 * field[1:-1, 1:-1] - field[2:, 1:-1] - field[:-2, 1:-1] - field[1:-1, 2:] - field[1:-1, :-2]
    steep = curved[1:, 1:-1] - curved[:-1, 1:-1]
    rows = np.where(steep * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0, steep)
    steep = curved[1:-1, 1:] - curved[1:-1, :-1]
    columns = np.where(steep * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0, steep)
    out[:] = field[2:-2, 2:-2] - strength * (rows[1:] - rows[:-1] + columns[:, 1:] - columns[:, :-1])


@program(lambda n: (numbers(n, n), *(numbers(n, n, 4, seed=k) for k in range(4)), numbers(n + 1, n, 4)), size=4)
def vadv(rate: Any, stage: Any, speed: Any, place: Any, tendency: Any, wind: Any) -> None:
    n = stage.shape[2]
    c, d, last = np.zeros(stage.shape), np.zeros(stage.shape), np.zeros(rate.shape)
    for k in qgraph.serial(range(n)):
        low = -0.125 * (wind[1:, :, k] + wind[:-1, :, k]) * min(k, 1)
        up = min(k + 1, n - 1)
        high = 0.125 * (wind[1:, :, up] + wind[:-1, :, up]) * (up - k)
        drift = low * (speed[:, :, max(k - 1, 0)] - speed[:, :, k]) + high * (speed[:, :, up] - speed[:, :, k])
        source = rate * place[:, :, k] + tendency[:, :, k] + stage[:, :, k] - drift
        divisor = rate - low - high - low * c[:, :, max(k - 1, 0)] * min(k, 1)
        c[:, :, k] = high / divisor
        d[:, :, k] = (source - low * d[:, :, max(k - 1, 0)] * min(k, 1)) / divisor
    for k in qgraph.serial(range(n - 1, -1, -1)):
        last[:] = d[:, :, k] - c[:, :, k] * last
        stage[:, :, k] = rate * (last - place[:, :, k])


@qgraph.func
def divergence(u: Any, v: Any, h: float, dt: float) -> Any:
    """The right side of the pressure's equation, inside of the walls."""
    ux, uy = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * h), (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * h)
    vx, vy = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * h), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * h)
    return (ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2


@qgraph.func
def carried(w: Any, u: Any, v: Any, h: float, dt: float, nu: float) -> Any:
    """``w`` after a step of convection by (``u``, ``v``) and diffusion, inside of the walls."""
    middle = w[1:-1, 1:-1]
    west, south = w[1:-1, :-2], w[:-2, 1:-1]
    spread = w[1:-1, 2:] + west + w[2:, 1:-1] + south - 4 * middle
    along = u[1:-1, 1:-1] * (middle - west) + v[1:-1, 1:-1] * (middle - south)
    return middle - dt / h * along + nu * dt / h**2 * spread


@program(lambda n: (3, 2, np.zeros((n, n)), np.zeros((n, n)), numbers(n, n), 0.1, 0.001), size=7)
def cavity_flow(steps: int, turns: int, u: Any, v: Any, p: Any, nu: float, dt: float) -> None:
    h = 2.0 / (u.shape[0] - 1)
    for _ in qgraph.serial(range(steps)):
        b = divergence(u, v, h, dt)
        for _ in qgraph.serial(range(turns)):
            old = p.copy()
            p[1:-1, 1:-1] = 0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1]) - 0.25 * h**2 * b
            p[:, -1] = p[:, -2]
            p[0] = p[1]
            p[:, 0] = p[:, 1]
            p[-1] = 0
        next_u = carried(u, u, v, h, dt, nu) - dt / (2 * h) * (p[1:-1, 2:] - p[1:-1, :-2])
        next_v = carried(v, u, v, h, dt, nu) - dt / (2 * h) * (p[2:, 1:-1] - p[:-2, 1:-1])
        u[1:-1, 1:-1] = next_u
        v[1:-1, 1:-1] = next_v
        u[-1] = 1


@qgraph.func
def with_ends(w: Any) -> Any:
    """``w`` with the last column before the first one, and the first one behind: the channel is a ring."""
    return np.concatenate((w[:, -1:], w, w[:, :1]), axis=1)


@program(lambda n: (2, np.zeros((n, n)), np.zeros((n, n)), np.ones((n, n)), 0.1, 0.01, 1.0, 0.05), size=6)
def channel_flow(turns: int, u: Any, v: Any, p: Any, nu: float, dt: float, force: float, tol: float) -> Any:
    h = 2.0 / (u.shape[0] - 1)
    change, steps = 1.0, 0
    while change > tol:
        ring_u, ring_v = with_ends(u), with_ends(v)
        b = divergence(ring_u, ring_v, h, dt)
        for _ in qgraph.serial(range(turns)):
            old = with_ends(p)
            p[1:-1] = 0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1]) - 0.25 * h**2 * b
            p[-1] = p[-2]
            p[0] = p[1]
        ring = with_ends(p)
        total = np.sum(u)
        u[1:-1] = carried(ring_u, ring_u, ring_v, h, dt, nu) - dt / (2 * h) * (ring[1:-1, 2:] - ring[1:-1, :-2]) + force * dt
        v[1:-1] = carried(ring_v, ring_u, ring_v, h, dt, nu) - dt / (2 * h) * (ring[2:, 1:-1] - ring[:-2, 1:-1])
        change = (np.sum(u) - total) / np.sum(u)
        steps += 1
    return steps
