"""Channel flow against the published number of steps, NumPy's slices, and Poiseuille's profile."""

from __future__ import annotations

import numpy as np
import pytest

from examples.channel_flow import channel_flow


def at_rest(rows, columns):
    return np.zeros((rows, columns)), np.zeros((rows, columns)), np.ones((rows, columns))


def test_the_published_number_of_steps(run):
    # Lesson 15 of CFD Python prints 499 for its 41 columns, as the program does in test_mains.py. The flow is the same in each
    # column, and the pressure stays 1.
    u, v, p = at_rest(41, 3)
    steps, udiff = run(channel_flow, u, v, p, 1.0, 0.05, 0.01, 1.0, 0.1, 1.0, 1, 0.001)
    assert steps == 499
    assert 0.0009 < udiff <= 0.001
    assert abs(u - u[:, :1]).max() < 1e-12


def by_slices(u, v, p, dx, dy, dt, rho, nu, force, sweeps):
    """A step in NumPy, rolled along the channel."""

    def inside(a):
        return a[1:-1]

    def east(a):
        return np.roll(a, -1, 1)[1:-1]

    def west(a):
        return np.roll(a, 1, 1)[1:-1]

    def ddx(a):
        return (east(a) - west(a)) / (2 * dx)

    def ddy(a):
        return (a[2:] - a[:-2]) / (2 * dy)

    def convected(a):
        upwind = u[1:-1] * (inside(a) - west(a)) / dx + v[1:-1] * (inside(a) - a[:-2]) / dy
        diffused = (east(a) - 2 * inside(a) + west(a)) / dx**2 + (a[2:] - 2 * inside(a) + a[:-2]) / dy**2
        return inside(a) + dt * (nu * diffused - upwind)

    b = rho * ((ddx(u) + ddy(v)) / dt - ddx(u) ** 2 - 2 * ddy(u) * ddx(v) - ddy(v) ** 2)
    for _ in range(sweeps):
        new = ((east(p) + west(p)) * dy**2 + (p[2:] + p[:-2]) * dx**2 - dx**2 * dy**2 * b) / (2 * (dx**2 + dy**2))
        p = np.pad(new, ((1, 1), (0, 0)), mode="edge")
    u_new = np.pad(convected(u) - dt / rho * ddx(p) + dt * force, ((1, 1), (0, 0)))
    v_new = np.pad(convected(v) - dt / rho * ddy(p), ((1, 1), (0, 0)))
    return u_new, v_new, p


def test_a_disturbed_flow(run):
    rows, columns = run.size(12, 6), run.size(9, 4)
    # A strong force on a small channel needs few steps.
    force, tolerance = run.tolerance(1.5, 60.0), run.tolerance(0.005, 0.1)
    rng = np.random.default_rng(1)
    u, v, p = (np.pad(rng.uniform(low, 1, (rows - 2, columns)), ((1, 1), (0, 0))) for low in (0.5, -1, 0))
    constants = 0.21, 0.17, 0.01, 1.3, 0.2, force, 7
    expected, count, udiff = (u, v, p), 0, 1.0
    while udiff > tolerance:
        before = expected[0].sum()
        expected = by_slices(*expected, *constants)
        udiff = (expected[0].sum() - before) / expected[0].sum()
        count += 1
    steps, last = run(channel_flow, u, v, p, *constants, tolerance)
    assert steps == count
    assert steps > 1
    assert last == pytest.approx(udiff, rel=1e-9)
    for got, wanted in zip((u, v, p), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)


def test_poiseuilles_profile(run):
    rows = run.size(11, 4)
    y = np.linspace(0, 2, rows)
    columns = run.size(3, 2)
    u, v, p = at_rest(rows, columns)
    run(channel_flow, u, v, p, 0.5, y[1], 0.1 * y[1], 1.0, 0.5, 1.0, 1, run.tolerance(1e-10, 1e-3))
    np.testing.assert_allclose(u, np.repeat(y * (2 - y), columns).reshape(rows, columns), atol=run.tolerance(1e-8, 2e-2))
    assert (v == 0).all()
