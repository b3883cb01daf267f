"""Parts of arrays that are apart have no order; whatever may meet for some size has one."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.polyhedral import array_sections


def halves(x, y):
    n = x.shape[0]
    for i in range(n // 2):
        x[i] = y[i]
    for i in range(n // 2, n):
        x[i] = 2 * y[i]
    for i in range(1, n):
        x[i] += 1


def rows(m, y):
    for j in range(m.shape[1]):
        m[0, j] = y[j]
    for j in range(m.shape[1]):
        m[1, j] = y[j]
    for i in range(2, m.shape[0]):
        m[i, 0] = 1
    m[-1, 0] = 2  # row 0 of one row, row 1 of two


def interior_and_boundary(m, y):
    for i, j in qgraph.ndrange((1, m.shape[0] - 1), (1, m.shape[1] - 1)):
        m[i, j] = 1
    for j in range(m.shape[1]):
        m[0, j] = y[j]
        m[m.shape[0] - 1, j] = y[j]
    for i in range(1, m.shape[0] - 1):
        m[i, 0] = 2
        m[i, m.shape[1] - 1] = 3


def odd_and_even(x, y):
    for i in range(0, x.shape[0], 2):
        x[i] = y[i]
    for i in range(1, x.shape[0], 2):
        x[i] = y[i]
    x[1:] += 1
    x[:1] = 5


def one_size_too_many(x, y):
    # Of three elements and more these are apart, of two they are not.
    x[0] = y[0]
    for i in range(x.shape[0] - 2, x.shape[0]):
        x[i] = y[i]


VECTORS = (np.arange(9), np.arange(9))
MATRIX = (np.zeros((4, 4), np.int64), np.arange(4))
CASES = [
    (halves, VECTORS, {(0, 2), (1, 2)}),
    (rows, MATRIX, {(0, 3), (1, 3), (2, 3)}),
    (interior_and_boundary, MATRIX, set()),
    (odd_and_even, VECTORS, {(0, 2), (1, 2), (0, 3)}),
    (one_size_too_many, VECTORS, {(0, 1)}),
]


@pytest.mark.parametrize(("function", "arguments", "edges"), CASES, ids=[case[0].__name__ for case in CASES])
def test_edges(function, arguments, edges):
    plan = qgraph.kernel(function).plan(*arguments)
    assert set(plan.edges) == edges
    assert str(plan).count("no order with line") == (0 if function is one_size_too_many else str(plan).count("are apart"))


@pytest.mark.parametrize(("function", "arguments", "edges"), CASES, ids=[case[0].__name__ for case in CASES])
@pytest.mark.parametrize("fuse", [False, True])
def test_answers(function, arguments, edges, fuse):
    kernel = qgraph.kernel(function, backend="cpu") if not fuse else qgraph.kernel(backend="cpu", fuse=True)(function)
    found, expected = ([each.copy() for each in arguments] for _ in range(2))
    kernel(*found)
    kernel.reference(*expected)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_the_same_memory_under_two_names_keeps_its_order():
    def two_names(x, y):
        for i in range(x.shape[0] // 2):
            x[i] = 1
        for i in range(y.shape[0] // 2, y.shape[0]):
            y[i] = 2

    x = np.zeros(8)
    kernel = qgraph.kernel(two_names)
    assert kernel.plan(x, np.zeros(8)).edges == ()
    assert kernel.plan(x, x).edges == ((0, 1),)
    assert kernel.plan(x, x[1:]).edges == ((0, 1),)


def test_many_parts_are_compared_a_few_times(monkeypatch):
    asked = []
    apart = array_sections.apart
    monkeypatch.setattr("qgraph.lowering.graph.dependencies.apart", lambda *pair: asked.append(pair) or apart(*pair))
    for many in (40, 80):
        lines = [f"    for i in range({k}, x.shape[0], 100): x[i] = {k}" for k in range(many)]
        scope = {}
        exec("def many_parts(x):\n" + "\n".join(lines), scope)
        source = "\n".join(["def many_parts(x):", *lines])
        import linecache

        linecache.cache[f"<parts {many}>"] = (len(source), None, source.splitlines(keepends=True), f"<parts {many}>")
        exec(compile(source, f"<parts {many}>", "exec"), scope)
        asked.clear()
        qgraph.kernel(scope["many_parts"]).plan(np.zeros(100))
        assert len(asked) <= 16 * many
