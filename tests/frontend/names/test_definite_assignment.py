"""A private name of a parallel loop must be assigned on every path before it is used."""

from __future__ import annotations

import ast
import textwrap

import pytest

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.definite_assignment import check_private, names_assigned, names_read


def statements(source: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(source)).body


FINE = {
    "straight": "k = i\nx[k] = k",
    "both branches": "if c:\n  k = 1\nelse:\n  k = 2\nx[k] = 1",
    "a branch that leaves": "if c:\n  continue\nelse:\n  k = 2\nx[k] = 1",
    "elif and a return": "if c:\n  k = 1\nelif d:\n  k = 2\nelse:\n  return\nx[k] = 1",
    "inside the loop that assigns it": "for j in range(n):\n  k = j\n  x[k] = j",
    "while True": "while True:\n  k = 1\n  if c: break\nx[k] = 1",
    "while True, break after": "while True:\n  if c:\n    k = 1\n    break\nx[k] = 1",
    "loop else": "for j in range(n):\n  if c:\n    k = 1\n    break\nelse:\n  k = 2\nx[k] = 1",
    "walrus": "if (k := x[i]) > 0:\n  y[i] = k",
    "walrus in and": "if c and (k := x[i]) > 0:\n  y[i] = k",
    "walrus in not or": "if not (c or (k := x[i]) > 0):\n  y[i] = k",
    "conditional expression": "y[i] = (k := 1) if c else 2",
    "tuple": "(k, l), m = f(i)\nx[k] = l + m",
    "match": "match x[i]:\n  case 1:\n    k = 1\n  case _:\n    k = 2\nx[k] = 1",
    "match captures": "match f(i):\n  case (k, l):\n    x[k] = l",
    "argument names are not private": "x[i] = alpha * x[i]",
    "augmented after assignment": "k = 0\nk += x[i]\ny[i] = k",
    "used in its own loop's target": "for k in range(n):\n  x[i] = k",
    "chained comparison": "if 0 < (k := x[i]) < 3:\n  y[i] = k",
    "annotated": "k: int = 3\nx[k] = 1",
}

REFUSED = {
    "never before": ("x[k] = 1\nk = 2", "k", 1),
    "one branch": ("if c:\n  k = 1\nx[k] = 1", "k", 3),
    "empty loop": ("for j in range(n):\n  k = j\nx[k] = 1", "k", 3),
    "loop variable after its loop": ("for j in range(n):\n  x[j] = 1\ny[i] = j", "j", 3),
    "while": ("while c:\n  k = 1\nx[k] = 1", "k", 3),
    "augmented": ("total += x[i]", "total", 1),
    "own value": ("alpha = alpha * 2", "alpha", 1),
    "break before": ("for j in range(n):\n  if c: break\n  k = 1\nelse:\n  k = 2\nx[k] = 1", "k", 6),
    "break in while True": ("while True:\n  if c: break\n  k = 1\nx[k] = 1", "k", 4),
    "walrus in or": ("if c or (k := x[i]) > 0:\n  y[i] = k", "k", 2),
    "conditional expression": ("y[i] = ((k := 1) if c else 2) + k", "k", 1),
    "match without default": ("match x[i]:\n  case 1:\n    k = 1\nx[k] = 1", "k", 4),
    "continue in an inner loop": ("for j in range(n):\n  if c: continue\n  k = 1\nx[k] = 1", "k", 4),
    "index of a target": ("x[k] = (k := 1) if c else 0", "k", 1),
    "later operand of a comparison": ("if 0 < x[i] < (k := 3):\n  y[i] = k", "k", 2),
}


@pytest.mark.parametrize("source", FINE.values(), ids=FINE.keys())
def test_assigned_on_every_path(source: str) -> None:
    check_private(statements(source), ["i"], "loop.py")


@pytest.mark.parametrize(("source", "name", "line"), REFUSED.values(), ids=REFUSED.keys())
def test_maybe_unassigned(source: str, name: str, line: int) -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        check_private(statements(source), ["i"], "loop.py")
    error = caught.value
    assert error.found == f"`{name}` may be used before this iteration has assigned it"
    assert error.span is not None
    assert error.span.line == line
    assert error.hint is not None
    assert "private to the iteration" in error.hint


def test_message_names_the_places() -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        check_private(statements("if c:\n  k = 1\nelif d:\n  k = 2\nx[k] = 1"), ["i"], "loop.py")
    assert [(words, span.line, span.column) for words, span in caught.value.also] == [
        ("it is assigned here", 2, 2),
        ("it is assigned here", 4, 2),
    ]


def test_augmented_hint_shows_the_way_out() -> None:
    with pytest.raises(KernelSyntaxError, match="to combine values of all iterations in it, assign `total` before the loop"):
        check_private(statements("total += x[i]"), ["i"], "loop.py")


def test_names_assigned() -> None:
    source = "a, (b, c) = f()\nx[i] = d = 1\nfor e in g: h += 1\n(k := 2)\n"
    source += "match n:\n  case {'p': q, **r}: pass"
    assert list(names_assigned(statements(source))) == ["a", "b", "c", "d", "e", "h", "k", "r", "q"]


def test_names_read() -> None:
    assert names_read(statements("a = b\nc += d\nx[e] = g")) == {"b", "c", "d", "e", "g", "x"}


def test_nodes_are_given_for_messages() -> None:
    body = statements("k = 1\nk = k + 1")
    assert [node.lineno for node in names_assigned(body)["k"]] == [1, 2]  # type: ignore[attr-defined]
