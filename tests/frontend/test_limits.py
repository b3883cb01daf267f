"""The most that an extent can be: never less than what Python finds, and exact where the bounds of a slice tell it."""

from __future__ import annotations

import ast
import builtins
import itertools

import pytest

from qgraph.frontend.limits import most_of

BOUNDS = [None, *range(-4, 5)]
LONG = 40


def limit(text, **known):
    return most_of(
        ast.parse(text, mode="eval").body,
        lambda node: getattr(builtins, node.id, None) if isinstance(node, ast.Name) else None,
        known,
    )


def longest(lower, upper, step):
    return max(len(range(n)[lower:upper:step]) for n in range(LONG))


@pytest.mark.parametrize("step", [None, 1, 2, 3, -1, -2])
def test_the_length_of_a_slice(step):
    for lower, upper in itertools.product(BOUNDS, BOUNDS):
        written = f"{'' if lower is None else lower}:{'' if upper is None else upper}:{'' if step is None else step}"
        found = limit(f"len(x[{written}])")
        assert found == limit(f"len(range(*slice({lower}, {upper}, {step}).indices(n)))")
        most = longest(lower, upper, step)
        assert most > 10 if found is None else found >= most, written


@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_the_length_of_a_slice_around_a_number_that_is_not_known(step):
    for a, b in itertools.product(range(-3, 4), range(-3, 4)):
        found = limit(f"len(x[t + {a}:t + {b}:{step}])")
        for t in range(-9, 10):
            assert found is None or found >= longest(t + a, t + b, step), (a, b, t)
    assert limit("len(x[t - 1:t + 1])") == 2


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("3", 3),
        ("n", None),
        ("k", 7),
        ("min(n, 4) - 1", 3),
        ("max(k, 4)", 7),
        ("max(n, 4)", None),
        ("n % 4", 3),
        ("k // 2", 3),
        ("min(n, 5) if n else 9", 9),
        ("len(range(2, min(n, 6)))", 4),
        ("len(range(*slice(None, None, None).indices(k)))", 7),
        ("abs(3)", None),
    ],
)
def test_expressions(text, most):
    assert limit(text, k=7) == most
