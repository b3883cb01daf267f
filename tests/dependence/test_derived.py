"""Integers that are derived from others: equal ones are one symbol, others never are."""

from __future__ import annotations

import pytest

from qgraph.polyhedral.symbolic_integers import Poly, floor_div, maximum, minimum, modulo, not_negative, select

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
