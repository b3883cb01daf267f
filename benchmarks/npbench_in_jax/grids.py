"""Stencils, recurrences along an axis, and flows.

The numbers of steps are static: XLA then knows how often a loop runs, and the host need not look at a condition each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from benchmarks.npbench_in_jax.versions import put, put_row, version

# Rows in a turn of a scan whose body only has work for one row of threads: a turn costs the start of a kernel.
UNROLL = 4


def there_and_back(sweep: Callable[..., Any], steps: Any, u: Any, v: Any) -> tuple[Any, ...]:
    """In each step a sweep of u to v, and one of v to u."""

    def step(_: Any, carry: Any) -> Any:
        u, v = carry
        v = sweep(v, u)
        return sweep(u, v), v

    u, v = lax.fori_loop(1, steps, step, (u, v))
    return u, v


@version(static=("steps",), changes=("u", "v"))
def jacobi_1d(steps: Any, u: Any, v: Any) -> tuple[Any, ...]:
    def smoothed(out: Any, u: Any) -> Any:
        return put((u[:-2] + u[1:-1] + u[2:]) / 3, out, 1)

    return there_and_back(smoothed, steps, u, v)


@version(static=("steps",), changes=("u", "v"))
def jacobi_2d(steps: Any, u: Any, v: Any) -> tuple[Any, ...]:
    def smoothed(out: Any, u: Any) -> Any:
        total = u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1]
        return put(0.2 * total, out, 1, 1)

    return there_and_back(smoothed, steps, u, v)


@version(static=("steps",), changes=("u", "v"))
def heat_3d(steps: Any, u: Any, v: Any) -> tuple[Any, ...]:
    def warmed(out: Any, u: Any) -> Any:
        middle = u[1:-1, 1:-1, 1:-1]
        x = u[2:, 1:-1, 1:-1] - 2 * middle + u[:-2, 1:-1, 1:-1]
        y = u[1:-1, 2:, 1:-1] - 2 * middle + u[1:-1, :-2, 1:-1]
        z = u[1:-1, 1:-1, 2:] - 2 * middle + u[1:-1, 1:-1, :-2]
        return put(middle + 0.125 * x + 0.125 * y + 0.125 * z, out, 1, 1, 1)

    return there_and_back(warmed, steps, u, v)


@version(static=("steps",), changes=("u",))
def seidel_2d(steps: Any, u: Any) -> tuple[Any, ...]:
    """By fronts of points (i, j) with the same ``2 * i + j``: these are independent, and all they need is in fronts before.

    What a point takes from those after it has the old values, and is summed before the fronts start.
    """
    rows, columns = u.shape
    i, j = jnp.arange(rows), jnp.arange(columns)
    front = 2 * i[:, None] + j
    count = 2 * (rows - 1) + columns

    def column(front: Any) -> Any:
        """By row: where the front is, which may be outside."""
        return front - 2 * i

    def inside(front: Any) -> Any:
        return (column(front) > 0) & (column(front) < columns - 1) & (i > 0) & (i < rows - 1)

    def advance(k: Any, fronts: Any) -> Any:
        # The west neighbour is one front back, those of the row above are one to three.
        three, two, one, later = lax.dynamic_slice(fronts, (k - 3, 0), (4, rows))
        new = (later + one + jnp.roll(one + two + three, 1)) / 9.0
        return put_row(jnp.where(inside(k), new, later), fronts, k)

    def step(_: Any, u: Any) -> Any:
        later = jnp.pad(u[1:-1, 1:-1] + u[1:-1, 2:] + u[2:, :-2] + u[2:, 1:-1] + u[2:, 2:], 1)
        each = jnp.arange(count)[:, None]
        place = jnp.clip(column(each), 0, columns - 1)
        fronts = lax.fori_loop(3, count, advance, jnp.where(inside(each), later[i, place], u[i, place]))
        return fronts[front, i[:, None]]

    return (lax.fori_loop(0, steps - 1, step, u),)


@version(static=("steps",), changes=("ex", "ey", "hz"))
def fdtd_2d(steps: Any, ex: Any, ey: Any, hz: Any, source: Any) -> tuple[Any, ...]:
    top = jnp.arange(ey.shape[0])[:, None] == 0

    def step(t: Any, carry: Any) -> Any:
        # Padded differences: each array is updated element by element, in place.
        ex, ey, hz = carry
        ey = jnp.where(top, source[t], ey - 0.5 * jnp.pad(hz[1:] - hz[:-1], ((1, 0), (0, 0))))
        ex = ex - 0.5 * jnp.pad(hz[:, 1:] - hz[:, :-1], ((0, 0), (1, 0)))
        # Not computed again for the curl, from an ``hz`` that would have to be kept.
        ex, ey = lax.optimization_barrier((ex, ey))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, hz - 0.7 * jnp.pad(curl, ((0, 1), (0, 1)))

    ex, ey, hz = lax.fori_loop(0, steps, step, (ex, ey, hz))
    return ex, ey, hz


@version(changes=("paths",))
def floyd_warshall(paths: Any) -> tuple[Any, ...]:
    def through(k: Any, paths: Any) -> Any:
        # A kernel that reads both from the array it writes to would need a copy of it.
        row, column = lax.optimization_barrier((paths[k], paths[:, k, None]))
        return jnp.minimum(paths, column + row)

    return (lax.fori_loop(0, paths.shape[0], through, paths),)


def _implicit_sweep(new: Any, old: Any, across: Any, along: Any) -> Any:
    """Tridiagonal systems in the columns of ``new``, by the Thomas algorithm: a scan over rows, there and back."""
    ones = jnp.ones(new.shape[1] - 2, new.dtype)
    sources = across * (old[1:-1, :-2] + old[1:-1, 2:]) + (1.0 - 2.0 * across) * old[1:-1, 1:-1]

    def eliminate(carry: Any, source: Any) -> Any:
        p, q = carry
        below = 1.0 + 2.0 * along - along * p
        p, q = along / below, (source + along * q) / below
        return (p, q), (p, q)

    def substitute(after: Any, given: Any) -> Any:
        p, q = given
        now = p * after + q
        return now, now

    _, factors = lax.scan(eliminate, (jnp.zeros_like(ones), ones), sources, unroll=UNROLL)
    _, solution = lax.scan(substitute, ones, factors, reverse=True, unroll=UNROLL)
    return put(jnp.pad(solution, ((1, 1), (0, 0)), constant_values=1.0), new, 0, 1)


@version(static=("steps",), changes=("u",))
def adi(steps: Any, u: Any) -> tuple[Any, ...]:
    def step(_: Any, carry: Any) -> Any:
        u, v = carry
        v = _implicit_sweep(v, u, 0.5, 1.0)
        return _implicit_sweep(u.T, v.T, 1.0, 0.5).T, v

    u, _ = lax.fori_loop(0, steps, step, (u, jnp.zeros_like(u)))
    return u, u


@version()
def deriche(alpha: Any, image: Any) -> tuple[Any, ...]:
    decay = jnp.exp(-alpha)
    k = (1.0 - decay) ** 2 / (1.0 + 2.0 * alpha * decay - decay * decay)
    now, before, after, further = k, k * decay * (alpha - 1.0), k * decay * (alpha + 1.0), -k * decay * decay
    near, far = 2.0**-alpha, -decay * decay

    def recur(carry: Any, source: Any) -> Any:
        one, two = carry
        new = source + near * one + far * two
        return (new, one), new

    def blurred(x: Any) -> Any:
        """Down and up the rows, both in one scan: what comes from ``x`` is known before."""
        padded = jnp.pad(x, ((1, 2), (0, 0)))
        forth = now * x + before * padded[:-3]
        back = after * padded[2:-1] + further * padded[3:]
        sources = jnp.stack((forth, jnp.flip(back, axis=0)), axis=1)
        nothing = jnp.zeros(sources.shape[1:], sources.dtype)
        _, both = lax.scan(recur, (nothing, nothing), sources, unroll=UNROLL)
        return both[:, 0] + jnp.flip(both[:, 1], axis=0)

    return (blurred(blurred(image.T).T),)


@version(changes=("out",))
def hdiff(field: Any, out: Any, strength: Any) -> tuple[Any, ...]:
    curved = 4.0 * field[1:-1, 1:-1] - field[2:, 1:-1] - field[:-2, 1:-1] - field[1:-1, 2:] - field[1:-1, :-2]
    steep = curved[1:, 1:-1] - curved[:-1, 1:-1]
    rows = jnp.where(steep * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0, steep)
    steep = curved[1:-1, 1:] - curved[1:-1, :-1]
    columns = jnp.where(steep * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0, steep)
    return (field[2:-2, 2:-2] - strength * (rows[1:] - rows[:-1] + columns[:, 1:] - columns[:, :-1]),)


@version(changes=("stage",))
def vadv(rate: Any, stage: Any, speed: Any, place: Any, tendency: Any, wind: Any) -> tuple[Any, ...]:
    # Levels first: a scan runs along the first axis. All but the recurrences is computed for all levels at once.
    stage, speed, place, tendency, wind = (jnp.moveaxis(each, 2, 0) for each in (stage, speed, place, tendency, wind))
    between = 0.125 * (wind[1:, 1:] + wind[1:, :-1])
    low, high = jnp.pad(-between, ((1, 0), (0, 0), (0, 0))), jnp.pad(between, ((0, 1), (0, 0), (0, 0)))
    climb = speed[1:] - speed[:-1]
    drift = high * jnp.pad(climb, ((0, 1), (0, 0), (0, 0))) - low * jnp.pad(climb, ((1, 0), (0, 0), (0, 0)))
    sources = rate * place + tendency + stage - drift

    def eliminate(carry: Any, given: Any) -> Any:
        c, d = carry
        low, high, source = given
        divisor = rate - low - high - low * c
        c, d = high / divisor, (source - low * d) / divisor
        return (c, d), (c, d)

    def substitute(last: Any, given: Any) -> Any:
        c, d, place = given
        last = d - c * last
        return last, rate * (last - place)

    nothing = jnp.zeros_like(rate)
    _, (c, d) = lax.scan(eliminate, (nothing, nothing), (low, high, sources))
    _, stage = lax.scan(substitute, nothing, (c, d, place), reverse=True)
    return (jnp.moveaxis(stage, 0, 2),)


def _divergence(u: Any, v: Any, h: Any, dt: Any) -> Any:
    """The right side of the pressure's equation, inside of the walls."""
    ux, uy = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * h), (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * h)
    vx, vy = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * h), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * h)
    return (ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2


def _carried(w: Any, u: Any, v: Any, h: Any, dt: Any, nu: Any) -> Any:
    """``w`` after a step of convection by (``u``, ``v``) and diffusion, inside of the walls."""
    middle, west, south = w[1:-1, 1:-1], w[1:-1, :-2], w[:-2, 1:-1]
    spread = w[1:-1, 2:] + west + w[2:, 1:-1] + south - 4 * middle
    along = u[1:-1, 1:-1] * (middle - west) + v[1:-1, 1:-1] * (middle - south)
    return middle - dt / h * along + nu * dt / h**2 * spread


def _relaxed(p: Any, source: Any) -> Any:
    """A turn of Jacobi's method, inside of the walls."""
    return 0.25 * (p[1:-1, 2:] + p[1:-1, :-2] + p[2:, 1:-1] + p[:-2, 1:-1]) - source


@version(static=("steps", "turns"), changes=("u", "v", "p"))
def cavity_flow(steps: Any, turns: Any, u: Any, v: Any, p: Any, nu: Any, dt: Any) -> tuple[Any, ...]:
    h = 2.0 / (u.shape[0] - 1)

    def step(_: Any, carry: Any) -> Any:
        u, v, p = carry
        source = 0.25 * h**2 * _divergence(u, v, h, dt)

        def relax(_: Any, p: Any) -> Any:
            # The walls have what is next to them, but the last row is 0.
            upper = jnp.pad(_relaxed(p, source), ((1, 0), (1, 1)), mode="edge")
            return jnp.pad(upper, ((0, 1), (0, 0)))

        p = lax.fori_loop(0, turns, relax, p)
        push = dt / (2 * h)
        next_u = _carried(u, u, v, h, dt, nu) - push * (p[1:-1, 2:] - p[1:-1, :-2])
        next_v = _carried(v, u, v, h, dt, nu) - push * (p[2:, 1:-1] - p[:-2, 1:-1])
        lid = jnp.ones_like(u[-1:])
        return put(lid, put(next_u, u, 1, 1), u.shape[0] - 1, 0), put(next_v, v, 1, 1), p

    u, v, p = lax.fori_loop(0, steps, step, (u, v, p))
    return u, v, p


def _with_ends(w: Any) -> Any:
    """``w`` with the last column before the first one, and the first one behind: the channel is a ring."""
    return jnp.pad(w, ((0, 0), (1, 1)), mode="wrap")


@version(static=("turns",), changes=("u", "v", "p"))
def channel_flow(turns: Any, u: Any, v: Any, p: Any, nu: Any, dt: Any, force: Any, tol: Any) -> tuple[Any, ...]:
    h = 2.0 / (u.shape[0] - 1)

    def step(carry: Any) -> Any:
        u, v, p, _, steps = carry
        ring_u, ring_v = _with_ends(u), _with_ends(v)
        source = 0.25 * h**2 * _divergence(ring_u, ring_v, h, dt)

        def relax(_: Any, p: Any) -> Any:
            return jnp.pad(_relaxed(_with_ends(p), source), ((1, 1), (0, 0)), mode="edge")

        p = lax.fori_loop(0, turns, relax, p)
        ring, push = _with_ends(p), dt / (2 * h)
        next_u = _carried(ring_u, ring_u, ring_v, h, dt, nu) - push * (ring[1:-1, 2:] - ring[1:-1, :-2]) + force * dt
        next_v = _carried(ring_v, ring_u, ring_v, h, dt, nu) - push * (ring[2:, 1:-1] - ring[:-2, 1:-1])
        new_u = put(next_u, u, 1, 0)
        total = jnp.sum(new_u)
        return new_u, put(next_v, v, 1, 0), p, (total - jnp.sum(u)) / total, steps + 1

    start = u, v, p, jnp.ones((), u.dtype), jnp.zeros((), jnp.int64)
    u, v, p, _, steps = lax.while_loop(lambda carry: carry[3] > tol, step, start)
    return steps, u, v, p
