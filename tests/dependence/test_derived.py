"""Integers that are derived from others: equal ones are one symbol, others never are."""

from __future__ import annotations

import pytest

from qgraph.polyhedral.symbolic_integers import Poly, floor_div, least, maximum, minimum, modulo, not_negative, select

n = Poly.symbol("n", "argument")
# What two loops call p.
one, other = Poly.symbol("p@1", "variable"), Poly.symbol("p@2", "variable")


@pytest.mark.parametrize(
    "derived",
    [
        lambda p: modulo(p, n),
        lambda p: floor_div(p, n),
        lambda p: floor_div(p, Poly.const(2)),
        lambda p: maximum(p, n),
        lambda p: minimum(n, p),
        lambda p: select(not_negative(p), p, n),
        lambda p: maximum(modulo(p, n), n),
    ],
)
def test_variables_of_one_name_stay_apart(derived) -> None:
    assert derived(one) == derived(one)
    assert derived(one) != derived(other)
    assert str(derived(one)) == str(derived(other))


@pytest.mark.parametrize(
    ("poly", "bound"),
    [
        (n - floor_div(n, Poly.const(2)) * Poly.const(2), Poly.const(0)),
        (n - floor_div(n + Poly.const(3), Poly.const(3)) * Poly.const(6), -n - Poly.const(6)),
        (n + floor_div(n, Poly.const(2)), n + floor_div(n, Poly.const(2))),
        (n - floor_div(n, Poly.const(2)), n - floor_div(n, Poly.const(2))),
        (n - floor_div(n, Poly.const(-2)) * Poly.const(2), None),
    ],
)
def test_what_an_integer_is_at_least(poly, bound):
    """A multiple of a quotient that is taken away is no more than what was divided; of others nothing is said."""
    assert bound is None or least(poly) == bound
    if least(poly).constant is not None:
        assert least(poly).constant <= 0
