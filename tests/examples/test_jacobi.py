"""Jacobi's and Gauss-Seidel's iterations against SciPy's direct solution of the same equations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
import scipy.sparse
import scipy.sparse.linalg

from examples.gauss_seidel import gauss_seidel
from examples.jacobi import jacobi


def solution(u, f):
    """The five-point equations inside ``u``, whose edge is given, by sparse LU."""
    rows, columns = u.shape[0] - 2, u.shape[1] - 2
    laplacian = scipy.sparse.kronsum(
        scipy.sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(columns, columns)),
        scipy.sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(rows, rows)),
    )
    edge = u.copy()
    edge[1:-1, 1:-1] = 0
    stencil = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    right = f - scipy.ndimage.convolve(edge, stencil, mode="constant")
    result = u.copy()
    result[1:-1, 1:-1] = scipy.sparse.linalg.spsolve(laplacian.tocsc(), right[1:-1, 1:-1].ravel()).reshape(rows, columns)
    return result


def problem(rows, columns):
    rng = np.random.default_rng(1)
    return rng.normal(size=(rows, columns)), rng.normal(size=(rows, columns))


def test_jacobi(run):
    u, f = problem(run.size(12, 5), run.size(9, 6))
    expected = solution(u, f)
    tol = run.tolerance(1e-9, 1e-5)
    sweeps, delta = run(jacobi, u, np.zeros_like(u), f, tol)
    np.testing.assert_allclose(u, expected, atol=100 * tol)
    assert delta <= tol
    assert sweeps > 10


def test_jacobi_sweeps_as_numpy_does(run):
    u, f = problem(6, 7)
    slices, count, delta = u.copy(), 0, np.inf
    while delta > 1e-3:
        new = slices.copy()
        new[1:-1, 1:-1] = (slices[:-2, 1:-1] + slices[2:, 1:-1] + slices[1:-1, :-2] + slices[1:-1, 2:] - f[1:-1, 1:-1]) / 4
        delta = np.abs(new - slices).max()
        slices = new
        count += 1
    sweeps, last = run(jacobi, u, np.zeros_like(u), f, 1e-3)
    assert sweeps == count
    assert last == pytest.approx(delta, rel=1e-9)
    np.testing.assert_allclose(u, slices, rtol=1e-12, atol=1e-12)


def test_jacobi_of_a_grid_without_an_inside(run):
    u = np.ones((2, 5))
    assert run(jacobi, u, u.copy(), u.copy(), 1e-3) == (1, 0)


@pytest.mark.parametrize("omega", [1.0, 1.5])
def test_gauss_seidel(run, omega):
    u, f = problem(run.size(12, 5), run.size(9, 6))
    expected = solution(u, f)
    tol = run.tolerance(1e-10, 1e-5)
    sweeps, delta = run(gauss_seidel, u, f, omega, tol)
    np.testing.assert_allclose(u, expected, atol=100 * tol)
    assert delta <= tol
    assert sweeps > 5


def test_gauss_seidel_needs_half_the_sweeps_of_jacobi(run):
    u, f = problem(run.size(8, 5), run.size(8, 4))
    v, tol = u.copy(), run.tolerance(1e-6, 1e-4)
    jacobi_sweeps, _ = run(jacobi, v, v.copy(), f, tol)
    sweeps, _ = run(gauss_seidel, u, f, 1.0, tol)
    assert 0.4 < sweeps / jacobi_sweeps < 0.8
