"""Chandrasekhar's H-equation against SciPy's solver, and a case whose integral is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from examples.radiative_transfer import albedo


def residual(h, c):
    n = len(h)
    m = (np.arange(n) + 0.5) / n
    return h - 1 / (1 - 0.5 * c / n * (m[:, None] / (m[:, None] + m[None, :])) @ h)


@pytest.mark.parametrize("c", [0.1, 0.9, 0.999])
def test_the_solution_is_scipys(run, c):
    n = run.size(40, 8)
    h = np.ones(n)
    iterations, largest = run(albedo, h, c, 1e-11, 30)
    wanted = scipy.optimize.fsolve(residual, np.ones(n), (c,), xtol=1e-13)
    np.testing.assert_allclose(h, wanted, rtol=1e-9)
    assert largest <= 1e-11
    assert 2 <= iterations <= 12
    # Chandrasekhar's integral, of the sum that stands for it.
    assert 1 - 0.5 * c * h.mean() == pytest.approx(np.sqrt(1 - c), rel=1e-9)


def test_the_limit_ends_it(run):
    h = np.ones(run.size(20, 8))
    iterations, largest = run(albedo, h, 0.99, 1e-11, 0)
    assert iterations == 1
    assert largest > 1e-11
