"""Dormand and Prince's method against SciPy's RK45: the same method and the same choice of steps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from examples.dormand_prince import dormand_prince


def slope(_, y, force):
    return (np.roll(y, -1) - np.roll(y, 2)) * np.roll(y, 1) - y + force


@pytest.mark.parametrize(("rtol", "first"), [(1e-4, 0.01), (1e-6, 0.5)])
def test_it_takes_the_steps_that_scipy_takes(run, rtol, first):
    n, end = run.size(16, 5), run.tolerance(1.5, 0.8)
    y = np.full(n, 8.0) + np.sin(np.arange(n))
    scipy = solve_ivp(slope, (0, end), y, args=(8.0,), method="RK45", first_step=first, rtol=rtol, atol=1e-6)
    taken, refused = run(dormand_prince, y, 8.0, end, first, rtol, 1e-6)
    assert taken == len(scipy.t) - 1
    assert scipy.nfev == 1 + 6 * (taken + refused)
    assert taken > 5
    assert refused > 0
    np.testing.assert_allclose(y, scipy.y[:, -1], rtol=1e-9)


def test_the_solution_is_that_of_another_method(run):
    n, end = run.size(12, 5), run.tolerance(1.0, 0.3)
    y = np.full(n, 8.0) + np.cos(np.arange(n))
    scipy = solve_ivp(slope, (0, end), y, args=(8.0,), method="DOP853", rtol=1e-12, atol=1e-12)
    run(dormand_prince, y, 8.0, end, 0.01, 1e-8, 1e-8)
    np.testing.assert_allclose(y, scipy.y[:, -1], rtol=1e-6, atol=1e-6)


def test_the_steady_state_needs_few_steps(run):
    y = np.full(6, 8.0)
    taken, refused = run(dormand_prince, y, 8.0, 10.0, 0.01, 1e-6, 1e-6)
    assert (y == 8).all()
    assert (taken, refused) == (4, 0)
