"""The condensate against SciPy's eigensolvers: without interaction, and with it in its own mean field."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

from examples.bose_einstein import ground_state, harmonic


def hamiltonian(potential, spacing):
    n, m = potential.shape
    kinetic = scipy.sparse.kronsum(
        scipy.sparse.diags([-0.5, 1.0, -0.5], [-1, 0, 1], shape=(m, m)),
        scipy.sparse.diags([-0.5, 1.0, -0.5], [-1, 0, 1], shape=(n, n)),
    )
    return (kinetic / spacing**2 + scipy.sparse.diags(potential.ravel())).tocsc()


def lowest(potential, spacing):
    values, vectors = scipy.sparse.linalg.eigsh(hamiltonian(potential, spacing), k=1, sigma=0)
    return values[0], np.abs(vectors[:, 0]).reshape(potential.shape) / spacing


@pytest.mark.parametrize("limit", [10_000, 10_001])
def test_without_interaction_it_is_the_lowest_eigenvector(run, limit):
    spacing, potential = 0.5, harmonic(run.size(12, 5), 0.5)
    potential[0, 0] += 3.0
    wave = np.random.default_rng(1).uniform(0.5, 1, potential.shape)
    steps, mu = run(ground_state, wave, potential, 0.0, spacing, 0.05, run.tolerance(1e-13, 1e-9), limit)
    energy, expected = lowest(potential, spacing)
    assert mu == pytest.approx(energy, rel=run.tolerance(1e-9, 1e-7))
    np.testing.assert_allclose(wave, expected, atol=run.tolerance(1e-5, 1e-3))
    assert np.sum(wave**2) * spacing**2 == pytest.approx(1)
    assert 20 < steps < limit


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_last_wave_is_handed_over_after_any_number_of_swaps(run, steps):
    spacing, potential = 0.5, harmonic(5, 0.5)
    wave = np.random.default_rng(2).uniform(0.5, 1, potential.shape)
    step = scipy.sparse.identity(25) - 0.05 * hamiltonian(potential, spacing)
    expected = wave.ravel()
    for _ in range(steps):
        expected = step @ expected
    taken, _ = run(ground_state, wave, potential, 0.0, spacing, 0.05, 0.0, steps)
    assert taken == steps
    np.testing.assert_allclose(wave.ravel(), expected / np.linalg.norm(expected) / spacing, rtol=1e-12)


def test_with_interaction_it_is_the_ground_state_of_its_own_field(run):
    spacing, strength = 0.5, 20.0
    potential = harmonic(run.size(12, 5), 0.5)
    wave = np.ones(potential.shape)
    _, mu = run(ground_state, wave, potential, strength, spacing, 0.04, run.tolerance(1e-13, 1e-9), 10_000)
    energy, expected = lowest(potential + strength * wave**2, spacing)
    free, _ = lowest(potential, spacing)
    assert mu == pytest.approx(energy, rel=1e-7)
    assert mu > free + 0.5
    np.testing.assert_allclose(wave, expected, atol=run.tolerance(1e-5, 1e-3))
