"""Langevin dynamics against the distribution that it samples."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from examples.langevin import langevin

STIFFNESS = qgraph.mat((4.0, 1.0, 0.0), (1.0, 2.0, 0.5), (0.0, 0.5, 1.0))


def test_covariance_and_energies(run):
    n, steps = (20_000, 60) if run.name in ("cpu", "cuda") else (40, 20)
    x, v, rng = np.zeros((n, 3)), np.zeros((n, 3)), qgraph.random.Generator(7)
    run(langevin, x, v, STIFFNESS, rng, steps, 0.2, 1.0, 0.5)
    potential, kinetic = run(langevin, x, v, STIFFNESS, rng, steps, 0.2, 1.0, 0.5)
    known = 0.5 * np.linalg.inv(np.array(STIFFNESS))
    # Four standard deviations of the estimate of a covariance, and of a mean energy with three degrees of freedom.
    deviation = np.sqrt((known**2 + np.outer(known.diagonal(), known.diagonal())) / n)
    assert (np.abs(np.cov(x.T) - known) < 4 * deviation).all()
    error = 4 * 0.5 * np.sqrt(1.5 / n)
    assert potential == pytest.approx(0.75, abs=error)
    # That of velocities depends on the length of a step.
    assert kinetic == pytest.approx(0.72, abs=0.02 + error)


def test_it_is_what_plain_python_computes(run):
    results = []
    for step in (lambda *args: run(langevin, *args), langevin.reference):
        x, v, rng = np.ones((5, 3)), np.zeros((5, 3)), qgraph.random.Generator(7)
        energies = [step(x, v, STIFFNESS, rng, 3, 0.1, 1.0, 0.5) for _ in range(2)]
        results.append((x, v, np.array(energies)))
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
