"""BiCGSTAB against SciPy's direct solution and its own BiCGSTAB."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from examples.bicgstab import bicgstab, convection
from examples.conjugate_gradient import Csr


def as_scipy(matrix):
    n = len(matrix.start) - 1
    return scipy.sparse.csr_matrix((matrix.value, matrix.column, matrix.start), shape=(n, n))


def random_matrix(n, seed):
    """Not symmetric; solvable by its diagonal."""
    rng = np.random.default_rng(seed)
    matrix = (scipy.sparse.random(n, n, density=0.2, random_state=rng) + scipy.sparse.diags(rng.uniform(3, 9, n))).tocsr()
    return Csr(matrix.indptr, matrix.indices, matrix.data)


def test_a_random_matrix(run):
    n = run.size(80, 16)
    matrix = random_matrix(n, 1)
    b = np.random.default_rng(2).normal(size=n)
    x = np.zeros(n)
    iterations, residual = run(bicgstab, matrix, x, b, 1e-12, 200)
    np.testing.assert_allclose(x, scipy.sparse.linalg.spsolve(as_scipy(matrix).tocsc(), b), rtol=1e-8, atol=1e-10)
    assert residual <= 1e-12 * np.linalg.norm(b)
    assert iterations > 1


def test_it_takes_as_many_iterations_as_scipy(run):
    n = run.size(40, 12)
    matrix = random_matrix(n, 5)
    b = np.random.default_rng(4).normal(size=n)
    seen = []
    expected, _ = scipy.sparse.linalg.bicgstab(as_scipy(matrix), b, rtol=1e-6, callback=lambda _: seen.append(1))
    x = np.zeros(n)
    iterations, _ = run(bicgstab, matrix, x, b, 1e-6, 200)
    assert iterations == len(seen)
    np.testing.assert_allclose(x, expected, rtol=1e-8, atol=1e-10)


def test_convection_and_diffusion(run):
    n = run.size(40, 12)
    matrix = convection(n, 0.2, 0.01)
    assert abs(as_scipy(matrix) - as_scipy(matrix).T).max() > 0
    x, b = np.zeros(n), np.ones(n)
    run(bicgstab, matrix, x, b, 1e-12, 500)
    np.testing.assert_allclose(x, scipy.sparse.linalg.spsolve(as_scipy(matrix).tocsc(), b), rtol=1e-8)


def test_it_stops_at_the_limit_and_where_a_half_step_is_exact(run):
    n = 20
    matrix, b = convection(n, 0.2, 0.01), np.ones(n)
    x = np.zeros(n)
    iterations, residual = run(bicgstab, matrix, x, b, 1e-12, 3)
    assert iterations == 3
    assert residual > 1e-12
    identity = Csr(np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32), np.full(n, 2.0))
    x = np.zeros(n)
    iterations, residual = run(bicgstab, identity, x, b, 1e-12, 3)
    assert (iterations, residual) == (1, 0)
    assert (x == 0.5).all()
