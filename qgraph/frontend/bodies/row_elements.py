"""Rows of arrays and their elements as expressions: what vectors are made of, and stored to."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from qgraph.frontend.bodies.value_resolution import at
from qgraph.frontend.inference.ranks import known
from qgraph.frontend.names.scope import Scope
from qgraph.ir.trees import parts_of
from qgraph.operations.vectors import Shape
from qgraph.source import copied


def places_of_rows(shape: Shape) -> list[list[tuple[int, ...]]]:
    """The places of the components of a vector, or of a matrix row by row."""
    if len(shape) == 1:
        return [[(k,) for k in range(shape[0])]]
    return [[(row, k) for k in range(shape[1])] for row in range(shape[0])]


def taken_apart(scope: Scope, node: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
    """The array that ``node`` is a part of, and the indices."""
    indices: list[ast.expr] = []
    while isinstance(node, ast.Subscript) and known(scope, node) is None:
        indices[:0] = _without_wholes(node)
        node = node.value
    return node, indices


def _without_wholes(node: ast.Subscript) -> list[ast.expr]:
    """The indices of ``x[i, :]`` without what takes all of the last axes."""
    indices = parts_of(node)
    while indices and isinstance(indices[-1], ast.Slice) and ast.unparse(indices[-1]) in (":", "::"):
        indices = indices[:-1]
    return indices


def item(node: ast.expr, place: Sequence[int]) -> ast.Subscript:
    """An element of a row, by its place there."""
    base, indices = (node.value, _without_wholes(node)) if isinstance(node, ast.Subscript) else (node, [])
    every = [*map(copied, indices), *map(ast.Constant, place)]
    inside = every[0] if len(every) == 1 else ast.Tuple(every, ast.Load())
    return at(ast.Subscript(_read(base), inside, ast.Load()), node)


def _read(node: ast.expr) -> ast.expr:
    found = copied(node)
    for child in ast.walk(found):
        if isinstance(child, (ast.Name, ast.Subscript, ast.Attribute)):
            child.ctx = ast.Load()
    return found
