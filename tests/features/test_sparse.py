"""Sparse matrices as arguments, and their products with vectors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import qgraph

# On CUDA the matrix of SciPy is copied at each call, which a warning tells.
pytestmark = pytest.mark.filterwarnings("ignore:NumPy arrays were passed")


def product(A, x, y):
    y[:] = A @ x


def conjugate_gradient(A, b, x, r, p, q, tolerance):
    n = A.shape[0]
    q[:] = A.dot(x)
    for i in range(n):
        r[i] = b[i] - q[i]
        p[i] = r[i]
    rr = np.dot(r, r)
    steps = 0
    while rr > tolerance and steps < 1000:
        q[:] = A @ p
        alpha = rr / np.dot(p, q)
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]
        before = rr
        rr = np.dot(r, r)
        for i in range(n):
            p[i] = r[i] + rr / before * p[i]
        steps += 1
    return steps


def scaled_rows(A, x, y):
    for i in range(A.shape[0]):
        total = 0.0
        for k in range(A.indptr[i], A.indptr[i + 1]):
            total += A.data[k] * x[A.indices[k]]
        y[i] = total / A.shape[1]


def some(rows, columns, dtype="float64", density=0.3, seed=0, kind=sp.csr_matrix):
    made = sp.random(rows, columns, density, random_state=seed) * 10
    return kind(made.astype(dtype) * (1 + 2j if dtype == "complex128" else 1))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex128"])
@pytest.mark.parametrize("function", [product, scaled_rows])
def test_products(rig, function, dtype, kind):
    kernel = rig.kernel(function)
    for rows, columns, density, seed in ((9, 9, 0.3, 0), (40, 17, 0.1, 1), (5, 60, 1.0, 2), (6, 4, 0.0, 3)):
        A, x = some(rows, columns, dtype, density, seed, kind), np.random.default_rng(seed).random(columns)
        wanted = np.full(rows, np.nan, np.result_type(dtype, x.dtype))
        y = rig.device(wanted)
        kernel(A, rig.device(x), y)
        kernel.reference(A, x, wanted)
        np.testing.assert_allclose(qgraph.to_numpy(y), wanted, rtol=1e-12)


def test_rows_that_are_not_in_order(rig):
    A = sp.csr_matrix((np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 2, 4])), shape=(3, 3))
    y = rig.device(np.full(3, np.nan))
    rig.kernel(product)(A, rig.device(np.array([1.0, 10.0, 100.0])), y)
    assert qgraph.to_numpy(y).tolist() == [102.0, 0.0, 120.0]


def change_places(A, x, y, turns):
    for _t in qgraph.serial(range(turns)):
        y[:] = A @ x
        x, y = y, x


def test_vectors_that_change_places(rig):
    kernel = rig.kernel(change_places)
    for turns in (0, 1, 4, 5):
        A, x, y = some(8, 8), np.random.default_rng(turns).random(8), np.zeros(8)
        found = rig.device(x), rig.device(y)
        kernel(A, *found, turns)
        kernel.reference(A, x, y, turns)
        for each, wanted in zip(found, (x, y), strict=True):
            np.testing.assert_allclose(qgraph.to_numpy(each), wanted, rtol=1e-12)


def test_sums_of_narrow_integers(rig):
    A, x = sp.csr_matrix(np.full((3, 3), 100, np.int8)), np.full(3, 3, np.int8)
    y = rig.device(np.zeros(3, np.int64))
    rig.kernel(product)(A, rig.device(x), y)
    assert qgraph.to_numpy(y).tolist() == (A @ x).tolist()


def test_narrow_floats_stay_narrow(rig):
    A, x, y = some(8, 8, "float32"), np.ones(8, np.float32), rig.device(np.zeros(8, np.float32))
    kernel = rig.kernel(product)
    kernel(A, rig.device(x), y)
    assert "float64" not in str(kernel.explain(A, rig.device(x), y))


def test_memory_of_the_matrix_is_assigned_to_when_the_product_is_done(rig):
    A = some(6, 6, density=1.0)
    y = A.data[:6] if rig.backend != "cuda" else None
    if y is None:
        pytest.skip("SciPy's matrix is copied to the device")
    wanted = A @ np.ones(6)
    rig.kernel(product)(A, np.ones(6), y)
    np.testing.assert_allclose(y, wanted)


def onto_itself(A, x, steps):
    for _ in qgraph.serial(range(steps)):
        x[:] = A @ x
        x[:] = A.dot(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_vector_becomes_its_product(rig, dtype):
    A, x = some(7, 7, dtype, 0.6), np.arange(1, 8).astype(dtype)
    found = rig.device(x.copy())
    rig.kernel(onto_itself)(A, found, 2)
    np.testing.assert_allclose(qgraph.to_numpy(found), A @ (A @ (A @ (A @ x))), rtol=1e-5)
    rig.kernel(product)(A, found, found)
    np.testing.assert_allclose(qgraph.to_numpy(found), A @ (A @ (A @ (A @ (A @ x)))), rtol=1e-5)


def test_complex_products_do_not_become_real(rig):
    A, x, y = some(4, 4, "complex128"), rig.device(np.ones(4)), rig.device(np.full(4, 7.0))
    with pytest.raises(qgraph.QGraphError):
        rig.kernel(product)(A, x, y)
    assert (qgraph.to_numpy(y) == 7).all()


def test_in_a_while(rig):
    n = 60
    A = sp.csr_matrix(sp.diags([-np.ones(n - 1), 3 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1]))
    b = np.random.default_rng(1).random(n)
    x, *rest = (rig.device(np.zeros(n)) for _ in range(4))
    kernel = rig.kernel(conjugate_gradient)
    steps = kernel(A, rig.device(b), x, *rest, 1e-20)
    assert 5 < steps < n
    np.testing.assert_allclose(A @ qgraph.to_numpy(x), b, rtol=1e-9)
    assert kernel.reference(A, b, *(np.zeros(n) for _ in range(4)), 1e-20) == pytest.approx(steps, abs=1)


def solved(A, b, x, tolerance):
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    steps = 0
    while rs > tolerance and steps < 1000:
        q = A @ p
        alpha = rs / (p @ q)
        x += alpha * p
        r -= alpha * q
        before = rs
        rs = r @ r
        p = r + (rs / before) * p
        steps += 1
    return np.linalg.norm(b - A @ x), steps


def test_as_in_numpy(rig):
    n = 60
    A = sp.csr_matrix(sp.diags([-np.ones(n - 1), 3 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1]))
    b, x = np.random.default_rng(1).random(n), np.zeros(n)
    found = rig.device(x)
    norm, steps = rig.kernel(solved)(A, rig.device(b), found, 1e-20)
    assert 5 < steps < n
    assert norm < 1e-9
    np.testing.assert_allclose(A @ qgraph.to_numpy(found), b, rtol=1e-9)
    plan = str(rig.kernel(solved).plan(A, rig.device(b), found, 1e-20))
    assert "temporary A @ p: float64[A.shape[0]]" in plan
    assert "_total" not in plan


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_products_in_expressions(rig, dtype):
    def of_an_expression(A, x, y):
        y[:] = 2 * (A @ (x + 1)) + y

    def of_parts(A, x, y):
        y[1:] = (A @ x[:])[:-1]

    def of_a_product(A, x, y):
        y[:] = A @ (A @ x)

    def from_what_was(A, x, y):
        y -= A @ x

    def returned(A, x, y):
        y += 1
        return A @ x

    for function in (of_an_expression, of_parts, of_a_product, from_what_was, returned):
        A, x, y = some(9, 9, dtype), np.random.default_rng(0).random(9).astype(dtype), np.ones(9, dtype)
        made = rig.device(y)
        found = rig.kernel(function)(A, rig.device(x), made)
        wanted = function(A, x, y)
        np.testing.assert_allclose(qgraph.to_numpy(made), y, rtol=1e-5)
        assert (found is None) == (wanted is None)
        if found is not None:
            np.testing.assert_allclose(qgraph.to_numpy(found), wanted, rtol=1e-5)
            assert qgraph.to_numpy(found).dtype == wanted.dtype


def test_what_changes_between_calls(rig):
    kernel = rig.kernel(product)
    A, x, y = some(8, 8), np.ones(8), rig.device(np.zeros(8))
    kernel(A, rig.device(x), y)
    compilations = kernel.stats.compilations
    A.data *= 2
    kernel(A, rig.device(x), y)
    np.testing.assert_allclose(qgraph.to_numpy(y), A @ x)
    A = some(8, 8, density=0.9, seed=5)
    kernel(A, rig.device(x), y)
    np.testing.assert_allclose(qgraph.to_numpy(y), A @ x)
    assert kernel.stats.compilations == compilations


def test_what_does_not_fit(rig):
    A, x, y = some(6, 4), rig.device(np.ones(4)), rig.device(np.full(6, 7.0))
    kernel = rig.kernel(product)
    for arguments, words in (
        ((A, y, y), "the matrix has 4 columns, and the vector 6 elements"),
        ((A, rig.device(np.ones(5)), y), "the matrix has 4 columns, and the vector 5 elements"),
        ((A, x, rig.device(np.ones(5))), "the matrix has 6 rows, and the vector 5 elements"),
        ((A, rig.device(np.ones((4, 2))), y), "is a product of a sparse matrix, and not with one vector"),
        ((A.tocsc(), x, y), r"pass a CSR matrix: A.tocsr\(\)"),
    ):
        with pytest.raises(qgraph.QGraphError, match=words):
            kernel(*arguments)
    assert (qgraph.to_numpy(y) == 7).all()


def test_products_elsewhere_are_refused(rig):
    def in_a_loop(A, x, y):
        for i in range(y.shape[0]):
            y[i] = (A @ x)[i]

    def by_a_method(A, x, y):
        y[:] = A.dot(x) + 1

    def from_the_left(A, x, y):
        y[:] = x @ A

    def of_a_transpose(A, x, y):
        y[:] = A.T @ x

    for function, words in (
        (in_a_loop, "`A @ x` is a new array"),
        (by_a_method, "a product is written `A @ x`"),
        (from_the_left, "`A` is not a whole array"),
        (of_a_transpose, "`A.T` is not a whole array"),
    ):
        with pytest.raises(qgraph.KernelSyntaxError, match=words):
            rig.kernel(function)(some(4, 4), rig.device(np.ones(4)), rig.device(np.ones(4)))
