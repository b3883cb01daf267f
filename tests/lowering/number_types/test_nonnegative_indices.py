"""Which remainders the compiler is told of: those in an index that are certainly not negative."""

from __future__ import annotations

import ast

import pytest

from qgraph.lowering.number_types.nonnegative_indices import with_natural_remainders
from qgraph.operations import intrinsics


def told(code: str) -> str:
    (statement,) = with_natural_remainders(ast.parse(code).body, {"b", "c"})
    ast.fix_missing_locations(statement)
    return ast.unparse(statement)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a[i] = b[k % 8]", "a[i] = b[_assume_ge(k % 8, 0)]"),
        ("a[i, k % 8 + 1] = 0", "a[i, _assume_ge(k % 8, 0) + 1] = 0"),
        ("a[i] += c[k % c.shape[0]]", "a[i] += c[_assume_ge(k % _assume_ge(c.shape[0], 0), 0)]"),
        ("a[b[i % 4] % 2] = 1", "a[_assume_ge(b[_assume_ge(i % 4, 0)] % 2, 0)] = 1"),
    ],
)
def test_remainders_of_extents_and_positive_constants_are_natural(code, expected):
    assert told(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "a[i] = k % 8",
        "a[i] = b[k % -8]",
        "a[i] = b[k % 0]",
        "a[i] = b[k % n]",
        "a[i] = b[k % d.shape[0]]",
        "a[i] = b[k // 8]",
        "a[i] = b[int(x % 8.0)]",
        f"a[i] = b[k % {intrinsics.INDEX_LIMIT}]",
    ],
)
def test_no_others_are(code):
    assert told(code) == code


def test_a_constant_of_a_negative_number_is_none():
    """As that of a global: where it is written it is an operator and a constant."""
    tree = ast.parse("a[i] = b[k % 8]")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = -8
    assert ast.unparse(with_natural_remainders(tree.body, ())) == "a[i] = b[k % -8]"


def test_the_statements_stay_as_they_were():
    tree = ast.parse("a[i] = b[k % 8]")
    with_natural_remainders(tree.body, ())
    assert ast.unparse(tree) == "a[i] = b[k % 8]"
