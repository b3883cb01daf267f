"""Small systems of equations: the order of operations, with NumPy's arrays as the lanes of a warp."""

from __future__ import annotations

import numpy as np
import pytest

from qgraph.operations.small_systems import factored_by_lanes, inverted_by_lanes, solved_by_lanes

LANES = np.arange(8)


class ArraysOfLanes:
    """Values are arrays, of a number for each lane; a lane is a number, or the same in each."""

    def of_lane(self, value, lane):
        return np.full_like(value, value[lane])

    def is_lane(self, lane):
        return LANES == lane

    def beyond(self, lane):
        return LANES >= lane

    def greatest(self, value, done):
        return int(np.argmax(np.where(done, -1, np.abs(value))))

    def is_zero(self, a):
        return a == 0

    def is_not_positive(self, a):
        return ~(a > 0)

    def either(self, a, b):
        return a | b

    def choose(self, test, a, b):
        return np.where(test, a, b)

    def quotient(self, a, b):
        with np.errstate(divide="ignore", invalid="ignore"):
            return a / b

    def reduced(self, a, b, c):
        with np.errstate(invalid="ignore"):
            return a - b * c

    def root(self, a):
        return np.sqrt(np.maximum(a, 0))

    def product(self, a, b):
        with np.errstate(invalid="ignore"):
            return a * b

    def zero(self, a):
        return np.zeros_like(a)

    def one(self, a):
        return np.ones_like(a)

    def index(self, number):
        return np.full_like(LANES, number)


def rows_in_lanes(a):
    """Element by element what the lanes hold; those behind the last row hold that once more."""
    return [a[np.minimum(LANES, len(a) - 1), k].copy() for k in range(a.shape[1])]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_solutions(n):
    random = np.random.default_rng(n)
    for _ in range(20):
        a, b = random.standard_normal((n, n)) + 4 * random.permutation(np.eye(n)), random.standard_normal((n, 3))
        found, failed = solved_by_lanes(rows_in_lanes(a), rows_in_lanes(b), ArraysOfLanes())
        np.testing.assert_allclose(np.array(found).T[:n], np.linalg.solve(a, b), rtol=1e-10, atol=1e-10)
        assert not failed.any()


def inverse(a):
    """What lanes with the columns of ``a`` store where."""
    found, rows, column, failed = inverted_by_lanes(rows_in_lanes(a.T), ArraysOfLanes())
    x = np.full_like(a, np.nan)
    for number, row in zip(found, rows, strict=True):
        x[row, column[: len(a)]] = number[: len(a)]
    return x, failed


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_inverses(n):
    random = np.random.default_rng(n)
    for _ in range(20):
        a = random.standard_normal((n, n)) + 4 * random.permutation(np.eye(n))
        found, failed = inverse(a)
        np.testing.assert_allclose(found, np.linalg.inv(a), rtol=1e-10, atol=1e-10)
        assert not failed.any()


def test_inverses_of_ill_conditioned_matrices_have_the_digits_that_there_are():
    """As many as NumPy's, within a factor."""
    random = np.random.default_rng(0)
    for _ in range(50):
        u, _, v = np.linalg.svd(random.standard_normal((8, 8)))
        a = u @ np.diag(np.logspace(0, -9, 8)) @ v
        wanted = v.T @ np.diag(np.logspace(0, 9, 8)) @ u.T
        errors = [np.abs(found - wanted).max() for found in (inverse(a)[0], np.linalg.inv(a))]
        assert errors[0] < 20 * max(errors[1], 1e-8 * np.abs(wanted).max())


def test_pivots_are_the_greatest():
    """Without them nothing would be left of the digits."""
    a = np.array([[1e-20, 1.0], [1.0, 1.0]])
    found, _ = solved_by_lanes(rows_in_lanes(a), rows_in_lanes(np.array([[1.0], [2.0]])), ArraysOfLanes())
    np.testing.assert_allclose(found[0][:2], [1, 1])
    np.testing.assert_allclose(inverse(a)[0], [[-1, 1], [1, 0]], atol=1e-15)


@pytest.mark.parametrize("column", range(4))
def test_singular(column):
    a = np.random.default_rng(0).random((4, 4))
    a[:, column] = 0
    _, failed = solved_by_lanes(rows_in_lanes(a), rows_in_lanes(np.ones((4, 1))), ArraysOfLanes())
    assert failed.all()
    assert inverse(a)[1].all()
    assert inverse(a.T)[1].all()


@pytest.mark.parametrize("n", [1, 3, 8])
def test_cholesky(n):
    a = np.random.default_rng(n).standard_normal((n, n))
    a = a @ a.T + np.eye(n)
    # Of the matrix the lower triangle is read.
    found, failed = factored_by_lanes(rows_in_lanes(np.where(np.tri(n), a, np.nan).T), ArraysOfLanes())
    np.testing.assert_allclose(np.array(found)[:, :n], np.linalg.cholesky(a), rtol=1e-10, atol=1e-12)
    assert not failed.any()
    for wrong in (-1, 0, np.nan):
        a[-1, -1] = wrong
        assert factored_by_lanes(rows_in_lanes(a.T), ArraysOfLanes())[1].all()
