"""Conjugate gradients against SciPy's direct and iterative solutions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

from examples.conjugate_gradient import Csr, conjugate_gradient, laplacian


def as_scipy(matrix):
    n = len(matrix.start) - 1
    return scipy.sparse.csr_matrix((matrix.value, matrix.column, matrix.start), shape=(n, n))


def random_matrix(n, seed):
    """Symmetric, positive definite by its diagonal, with rows of different lengths."""
    part = scipy.sparse.random(n, n, density=0.2, random_state=np.random.default_rng(seed), format="csr")
    matrix = (part + part.T + scipy.sparse.diags(np.arange(1.0, n + 1) + 5)).tocsr()
    return Csr(matrix.indptr, matrix.indices, matrix.data)


def test_laplacian_is_what_scipy_builds():
    line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(6, 6))
    one = scipy.sparse.identity(6)
    expected = scipy.sparse.kron(line, one) + scipy.sparse.kron(one, line)
    assert abs(as_scipy(laplacian(6)) - expected).max() == 0


@pytest.mark.parametrize("make", [lambda side: laplacian(side), lambda side: random_matrix(side * side, 1)])
def test_the_solution_is_scipys(run, make):
    matrix = make(run.size(10, 5))
    n = len(matrix.start) - 1
    b = np.random.default_rng(2).normal(size=n)
    x = np.zeros(n)
    iterations, residual = run(conjugate_gradient, matrix, x, b, 1e-12, 500)
    np.testing.assert_allclose(x, scipy.sparse.linalg.spsolve(as_scipy(matrix).tocsc(), b), rtol=1e-9, atol=1e-11)
    assert residual <= 1e-12 * np.linalg.norm(b)
    assert 1 < iterations <= n + 5
    assert residual == pytest.approx(np.linalg.norm(b - as_scipy(matrix) @ x), abs=1e-12 * np.linalg.norm(b))


def test_it_takes_as_many_iterations_as_scipy(run):
    matrix = laplacian(run.size(10, 5))
    n = len(matrix.start) - 1
    b = np.random.default_rng(3).normal(size=n)
    seen = []
    expected, _ = scipy.sparse.linalg.cg(as_scipy(matrix), b, rtol=1e-6, callback=lambda _: seen.append(1))
    x = np.zeros(n)
    iterations, _ = run(conjugate_gradient, matrix, x, b, 1e-6, 500)
    assert iterations == len(seen)
    np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-12)


def test_it_stops_at_the_limit_and_at_once_where_nothing_is_left(run):
    matrix = laplacian(4)
    b = np.ones(16)
    x = np.zeros(16)
    iterations, residual = run(conjugate_gradient, matrix, x, b, 1e-12, 2)
    assert iterations == 2
    assert residual == pytest.approx(np.linalg.norm(b - as_scipy(matrix) @ x))
    x = np.arange(16.0)
    iterations, residual = run(conjugate_gradient, matrix, x, as_scipy(matrix) @ x, 1e-12, 10)
    assert iterations == 0
    assert residual == 0


def test_float32_stays_float32(run):
    matrix = laplacian(5)
    matrix = Csr(matrix.start, matrix.column, matrix.value.astype(np.float32))
    x, b = np.zeros(25, np.float32), np.ones(25, np.float32)
    run(conjugate_gradient, matrix, x, b, 1e-5, 100)
    expected = scipy.sparse.linalg.spsolve(as_scipy(laplacian(5)).tocsc(), np.ones(25))
    np.testing.assert_allclose(x, expected, rtol=1e-4)
