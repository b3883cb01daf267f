"""Particles in cells against NumPy's scatters and sums, and against the frequency of a cold plasma."""

from __future__ import annotations

import numpy as np
import pytest

from examples.plasma import plasma


def scattered(x, cells):
    left = x.astype(int)
    once = np.bincount(left % cells, 1 - (x - left), cells) + np.bincount((left + 1) % cells, x - left, cells)
    again = np.zeros(cells)
    np.add.at(again, (left % cells,), 1 - (x - left))
    np.add.at(again, ((left + 1) % cells,), x - left)
    np.testing.assert_allclose(once, again)
    return once


def by_numpy(x, v, cells, strength, dt, steps):
    for _ in range(steps):
        density = scattered(x, cells)
        field = np.cumsum(strength * (density - len(x) / cells))
        field -= field.mean()
        at_points = 0.5 * (field + np.roll(field, 1))
        left = x.astype(int)
        share = x - left
        v = v + dt * ((1 - share) * at_points[left] + share * at_points[(left + 1) % cells])
        x = (x + dt * v) % cells
    return x, v, density, field


def test_one_step_scatters_as_bincount(run):
    cells, count = 8, run.size(300, 100)
    x, density = np.random.default_rng(1).uniform(0, cells, count), np.full(cells, 77.0)
    expected = scattered(x, cells)
    run(plasma, x, np.zeros(count), density, np.zeros(cells), 0.01, 0.1, 1)
    np.testing.assert_allclose(density, expected, rtol=1e-12)
    assert density.sum() == pytest.approx(count)


def test_two_streams(run):
    cells, count, steps = run.size(16, 8), run.size(200, 60), run.size(12, 5)
    rng = np.random.default_rng(2)
    x = rng.uniform(0, cells, count)
    v = rng.choice([-1.5, 1.5], count)
    strength = cells / count
    wanted = by_numpy(x, v, cells, strength, 0.2, steps)
    density, field = np.full(cells, 77.0), np.full(cells, 77.0)
    kinetic, electric = run(plasma, x, v, density, field, strength, 0.2, steps)
    for got, expected in zip((x, v, density, field), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10)
    assert kinetic == pytest.approx(0.5 * np.sum(wanted[1] ** 2))
    assert electric == pytest.approx(0.5 * np.sum(wanted[3] ** 2) / strength)


def test_a_cold_plasma_swings_at_its_own_frequency(run):
    cells, a_cell, dt = run.size(16, 8), run.size(20, 8), 0.1
    rest = (np.arange(cells * a_cell) + 0.5) / a_cell
    moved = 0.05 * np.sin(2 * np.pi * rest / cells)
    quarter = round(np.pi / 2 / dt)
    for steps, sign in ((quarter, 0.0), (2 * quarter, -1.0)):
        x, v = rest + moved, np.zeros(len(rest))
        run(plasma, x, v, np.zeros(cells), np.zeros(cells), 1 / a_cell, dt, steps)
        np.testing.assert_allclose(x - rest, sign * moved, atol=0.01)
