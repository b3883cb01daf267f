"""Interval arithmetic, against all numbers of small intervals: each result is in the interval, and most ends are reached."""

from __future__ import annotations

import itertools
import operator

import pytest

from qgraph.operations import intervals

SPANS = [(low, high) for low, high in itertools.product(range(-4, 5), repeat=2) if low <= high]
PAIRS = list(itertools.product(SPANS, repeat=2))


def numbers(span):
    return range(span[0], span[1] + 1)


@pytest.mark.parametrize(
    ("interval", "function", "exact"),
    [
        (intervals.corners(operator.add), operator.add, True),
        (intervals.corners(operator.mul), operator.mul, True),
        (intervals.quotient, operator.floordiv, True),
        (intervals.remainder, operator.mod, False),
        (intervals.power, operator.pow, False),
        (intervals.left_shift, operator.lshift, True),
        (intervals.right_shift, operator.rshift, True),
        (intervals.bits(operator.and_), operator.and_, False),
        (intervals.bits(operator.or_), operator.or_, False),
        (intervals.bits(operator.xor), operator.xor, False),
    ],
    ids=["+", "*", "//", "%", "**", "<<", ">>", "&", "|", "^"],
)
def test_results_are_in_the_interval(interval, function, exact):
    said = 0
    for a, b in PAIRS:
        found = interval(a, b)
        if found is None:
            continue
        said += 1
        results = [function(x, y) for x in numbers(a) for y in numbers(b)]
        ends = min(results), max(results)
        assert found[0] <= ends[0] <= ends[1] <= found[1], (a, b)
        if exact or (a[0] == a[1] and b[0] == b[1]):
            assert found == ends, (a, b)
    assert said >= len(PAIRS) // 4


@pytest.mark.parametrize("divisor", [(1, 4), (3, 3), (-4, -1), (-2, -2)])
def test_remainders_take_the_sign_of_the_divisor(divisor):
    results = [x % y for x in range(-20, 21) for y in numbers(divisor)]
    assert intervals.remainder((-20, 20), divisor) == (min(results), max(results))


@pytest.mark.parametrize("span", SPANS)
def test_absolute_values(span):
    results = [abs(x) for x in numbers(span)]
    assert intervals.absolute(span) == (min(results), max(results))


def test_what_raises_or_grows_beyond_reason_is_unknown():
    assert intervals.quotient((1, 2), (0, 3)) is intervals.remainder((1, 2), (-1, 1)) is None
    assert intervals.power((0, 3), (-1, 2)) is intervals.power((0, 2), (0, 33)) is None
    assert intervals.left_shift((0, 1), (0, 33)) is intervals.right_shift((0, 1), (-1, 2)) is None
