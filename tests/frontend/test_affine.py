"""Polynomials over symbols, and the proof that a system has no integer solution."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qgraph.frontend.affine import Poly, infeasible, sizes_not_negative

n, m, i, j = (Poly.symbol(name) for name in "nmij")
one = Poly.const(1)


def c(value: int) -> Poly:
    return Poly.const(value)


def test_arithmetic_is_that_of_polynomials() -> None:
    assert (i + one) * (i - one) == i * i - one
    assert i * m + j - j == m * i
    assert i - i == Poly()
    assert -(n - m) == m - n


def test_constants() -> None:
    assert Poly().constant == 0
    assert (c(3) * c(-4)).constant == -12
    assert n.constant is None
    assert (n - n + c(2)).constant == 2


def test_substitution_is_simultaneous() -> None:
    assert (i * m + j).substitute({"i": j, "j": i}) == j * m + i
    assert (i * i).substitute({"i": n + one}) == n * n + n + n + one


def test_split_by_a_symbol() -> None:
    assert (i * m + j).split("i") == (m, j)
    assert (i * i).split("i") is None
    assert j.split("i") == (Poly(), j)


def test_exact_division() -> None:
    assert (c(6) * n - c(3) * m).divided_by(c(2) * n - m) == 3
    assert (c(3) * n).divided_by(c(2) * n) is None
    assert n.divided_by(m) is None
    assert Poly().divided_by(n) == 0


@pytest.mark.parametrize(
    ("poly", "text"),
    [(n - one, "-1 + n"), (c(2) * i + j, "2*i + j"), (Poly(), "0"), (-i, "-i"), (Poly.symbol("#x.shape[0]"), "x.shape[0]")],
)
def test_text(poly: Poly, text: str) -> None:
    assert str(poly) == text


def test_sizes_are_not_negative() -> None:
    size = Poly.symbol("#x.shape[0]")
    assert sizes_not_negative([i + size]) == [size]
    assert infeasible([], [-size - one, *sizes_not_negative([size])])


@pytest.mark.parametrize(
    ("equalities", "inequalities"),
    [
        ([c(1)], []),
        ([c(2) * i - c(2) * j - one], []),
        ([], [i, -i - one]),
        ([i - j], [i - j - one]),
        ([i - j - n], [i, n - one - i, j, n - one - j]),  # i and j in range(n) are not n apart
        ([c(3) * i - j], [j - one, c(2) - j]),
        ([], [c(2) * i - one, one - c(2) * i]),  # only 1/2
        ([i * m - j], [i * m - j - one]),  # a product counts as a variable
    ],
)
def test_no_solution(equalities: list[Poly], inequalities: list[Poly]) -> None:
    assert infeasible(equalities, inequalities)


NAMES = ("i", "j", "n")
rows = st.lists(st.integers(-3, 3), min_size=4, max_size=4)


def poly_of(row: list[int]) -> Poly:
    return Poly.of({(): row[3], **{(name,): k for name, k in zip(NAMES, row, strict=False)}})


@settings(max_examples=300, deadline=None)
@given(st.lists(rows, max_size=2), st.lists(rows, min_size=1, max_size=5))
def test_infeasible_is_never_wrong(equalities: list[list[int]], inequalities: list[list[int]]) -> None:
    def value(row: list[int], point: tuple[int, ...]) -> int:
        return row[3] + sum(k * x for k, x in zip(row, point, strict=False))

    solved = any(
        all(value(row, point) == 0 for row in equalities) and all(value(row, point) >= 0 for row in inequalities)
        for point in product(range(-5, 6), repeat=3)
    )
    if solved:
        assert not infeasible([poly_of(row) for row in equalities], [poly_of(row) for row in inequalities])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=3, max_size=3))
def test_boxes_are_decided(bounds: list[tuple[int, int]]) -> None:
    facts = [Poly.symbol(name) - c(low) for name, (low, _) in zip(NAMES, bounds, strict=True)]
    facts += [c(high) - Poly.symbol(name) for name, (_, high) in zip(NAMES, bounds, strict=True)]
    assert infeasible([], facts) == any(low > high for low, high in bounds)
