"""Yee's scheme against a mode of the box, which it follows exactly, and against NumPy's slices."""

from __future__ import annotations

import numpy as np
import pytest

from examples.fdtd import fdtd


@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 3)])
def test_a_mode_of_the_box(run, p, q):
    n, m, courant, steps = run.size(14, 7), run.size(11, 6), 0.6, run.size(50, 12)
    ez = np.outer(np.sin(np.pi * p * np.arange(n + 1) / n), np.sin(np.pi * q * np.arange(m + 1) / m))
    mode = ez.copy()
    # Standing waves whose frequency is that of the scheme's own dispersion; the magnetic field is half a step behind.
    half = np.arcsin(courant * np.hypot(np.sin(np.pi * p / n / 2), np.sin(np.pi * q / m / 2)))
    along_y, along_x = np.diff(mode, axis=1), np.diff(mode, axis=0)
    hx, hy = 0.5 * courant * along_y, -0.5 * courant * along_x
    electric, magnetic = run(fdtd, ez, hx, hy, courant, steps)
    swing = courant * np.sin(2 * half * (steps - 0.5)) / (2 * np.sin(half))
    np.testing.assert_allclose(ez, np.cos(2 * half * steps) * mode, atol=1e-12)
    np.testing.assert_allclose(hx, -swing * along_y, atol=1e-12)
    np.testing.assert_allclose(hy, swing * along_x, atol=1e-12)
    assert electric == pytest.approx(0.5 * np.sum((np.cos(2 * half * steps) * mode) ** 2))
    assert magnetic == pytest.approx(0.5 * swing**2 * (np.sum(along_y**2) + np.sum(along_x**2)))


@pytest.mark.parametrize("steps", [0, 1, 20])
def test_any_fields_as_slices(run, steps):
    n, m, courant = run.size(9, 5), run.size(13, 6), 0.5
    rng = np.random.default_rng(1)
    ez, hx, hy = rng.normal(size=(n + 1, m + 1)), rng.normal(size=(n + 1, m)), rng.normal(size=(n, m + 1))
    e, x, y = ez.copy(), hx.copy(), hy.copy()
    for _ in range(steps):
        x -= courant * np.diff(e, axis=1)
        y += courant * np.diff(e, axis=0)
        e[1:-1, 1:-1] += courant * (np.diff(y, axis=0)[:, 1:-1] - np.diff(x, axis=1)[1:-1, :])
    electric, magnetic = run(fdtd, ez, hx, hy, courant, steps)
    for got, wanted in ((ez, e), (hx, x), (hy, y)):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12)
    assert electric == pytest.approx(0.5 * np.sum(e[1:-1, 1:-1] ** 2))
    assert magnetic == pytest.approx(0.5 * (np.sum(x**2) + np.sum(y**2)))
