"""Sinkhorn's scaling against a linear programme, and against SciPy's optimum of the same problem with entropy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from examples.sinkhorn import sinkhorn


def problem(n, m, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.5, 1, n), rng.uniform(0.5, 1, m)
    return rng.uniform(0, 1, (n, m)), a / a.sum(), b / b.sum()


def linear_programme(cost, a, b):
    n, m = cost.shape
    sums = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    return scipy.optimize.linprog(cost.ravel(), A_eq=sums, b_eq=np.concatenate([a, b]), bounds=(0, None))


def test_with_little_entropy_it_is_the_linear_programme(run):
    cost, a, b = problem(run.size(7, 3), run.size(9, 4), 1)
    regularisation, plan = run.tolerance(0.004, 0.04), np.full(cost.shape, 77.0)
    _, spent, missed = run(sinkhorn, cost, a, b, plan, regularisation, 1e-8, 5_000)
    best = linear_programme(cost, a, b)
    assert missed <= 1e-8
    # The entropy of a plan is at most the logarithm of its number of entries.
    assert best.fun - 1e-7 <= spent <= best.fun + regularisation * np.log(cost.size)
    assert (plan[best.x.reshape(cost.shape) > 0.02] > 0.001).all()


def test_with_much_entropy_it_is_scipys_optimum(run):
    cost, a, b = problem(5, 6, 2)
    regularisation, plan = 0.2, np.full(cost.shape, 77.0)

    def dual(potentials):
        f, g = potentials[:5], potentials[5:]
        flow = np.exp((f[:, None] + g - cost) / regularisation)
        return regularisation * flow.sum() - f @ a - g @ b, np.concatenate([flow.sum(1) - a, flow.sum(0) - b])

    best = scipy.optimize.minimize(dual, np.zeros(11), jac=True, method="BFGS", options={"gtol": 1e-11})
    expected = np.exp((best.x[:5, None] + best.x[5:] - cost) / regularisation)
    iterations, spent, _ = run(sinkhorn, cost, a, b, plan, regularisation, 1e-12, 1_000)
    np.testing.assert_allclose(plan, expected, rtol=1e-7)
    assert spent == pytest.approx(np.sum(plan * cost))
    assert 2 < iterations < 1_000


def test_rows_and_columns(run):
    cost, a, b = problem(run.size(12, 3), run.size(5, 3), 3)
    plan = np.full(cost.shape, 77.0)
    iterations, _, missed = run(sinkhorn, cost, a, b, plan, 0.1, 0.0, 3)
    assert iterations == 3
    np.testing.assert_allclose(plan.sum(0), b, rtol=1e-12)
    assert missed == pytest.approx(np.abs(plan.sum(1) - a).sum())
    run(sinkhorn, cost, a, b, plan, 0.1, 1e-13, 1_000)
    np.testing.assert_allclose(plan.sum(1), a, rtol=1e-11)
