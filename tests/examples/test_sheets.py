"""Sheets against sums over all pairs, and a cloud that falls together at the time that is known."""

from __future__ import annotations

import numpy as np
import pytest

from examples.sheets import collapse


def by_pairs(x, v, dt, steps):
    for _ in range(steps):
        x = x + 0.5 * dt * v
        v = v + dt * np.sign(x[None, :] - x[:, None]).sum(axis=1) / len(x)
        x = x + 0.5 * dt * v
    return x, v


def test_as_the_sum_over_all_pairs(run):
    n, steps = run.size(100, 20), run.size(40, 6)
    rng = np.random.default_rng(1)
    x, v = rng.normal(size=n), 0.1 * rng.normal(size=n)
    wanted = by_pairs(x.copy(), v.copy(), 0.05, steps)
    kinetic, potential = run(collapse, x, v, 0.05, steps)
    np.testing.assert_allclose(x, wanted[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(v, wanted[1], rtol=1e-9, atol=1e-11)
    assert kinetic == pytest.approx(0.5 * np.mean(wanted[1] ** 2))
    pairs = abs(wanted[0][None, :] - wanted[0][:, None]).sum() / 2
    assert potential == pytest.approx(pairs / n**2)


def test_an_even_cloud_falls_together(run):
    # At rest at first, a sheet at x is pulled by -2 x until others pass it: all meet at time 1.
    n, steps = run.size(50, 16), run.size(50, 20)
    x, v = (np.arange(n) + 0.5) / n - 0.5, np.zeros(n)
    run(collapse, x, v, 1 / steps, steps)
    assert abs(x).max() < 1e-9
