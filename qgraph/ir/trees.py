"""Small syntax trees, which generated code is put together from, and the names in a tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import TypeVar

from qgraph.source import children_of, copied, nodes_of

_Tree = TypeVar("_Tree", bound=ast.AST)

# What ``range`` is called in bodies.
RANGE = "_range"
# Comparisons that are one boolean, also of arrays.
MEMBERSHIP = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def load(name: str) -> ast.Name:
    """A name that is read."""
    return ast.Name(name, ast.Load())


def stored(name: str) -> ast.Name:
    """A name that is assigned."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr, node: ast.AST | None = None) -> ast.stmt:
    """``name = value``, at the place of ``node`` where one is given."""
    statement = ast.Assign([stored(name)], value)
    return statement if node is None else at_place(statement, node)


def call_of(function: str, *arguments: ast.expr) -> ast.Call:
    """A call of what ``function`` names."""
    return ast.Call(load(function), list(arguments), [])


def counted_loop(variable: str, start: ast.expr, stop: ast.expr, step: ast.expr, body: list[ast.stmt]) -> ast.For:
    """``for variable in range(start, stop, step): body``, where ``RANGE`` names ``range``."""
    return ast.For(stored(variable), call_of(RANGE, start, stop, step), body, [])


def parsed(text: str) -> ast.expr:
    """The expression that ``text`` is the source of."""
    return ast.parse(text, mode="eval").body


def is_none(node: ast.expr | None) -> bool:
    """Whether an argument, or a bound of a slice, is left out, or written as None."""
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def at_place(tree: _Tree, node: ast.AST) -> _Tree:
    """``tree``, the parts of which that have no place get that of ``node``."""
    for child in nodes_of(tree):
        if isinstance(child, (ast.expr, ast.stmt)) and not hasattr(child, "lineno"):
            ast.copy_location(child, node)
    return tree


def with_names(tree: _Tree, stands: Mapping[str, ast.expr]) -> _Tree:
    """``tree``, which nobody else has, with expressions in the place of names."""
    result: _Tree = _Standing(stands).visit(tree)
    return result


class _Standing(ast.NodeTransformer):
    def __init__(self, stands: Mapping[str, ast.expr]) -> None:
        self._stands = stands

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copied(self._stands[node.id]) if node.id in self._stands else node


def names_in(node: ast.AST) -> frozenset[str]:
    """The names that are read or written under ``node``."""
    return frozenset(child.id for child in nodes_of(node) if isinstance(child, ast.Name))


def asks_for(node: ast.AST, variable: str) -> bool:
    """Whether something names what loops count with, but for these loops: what they leave in it behind their end."""
    match node:
        case ast.For(target=ast.Name(name), iter=items) if name == variable:
            return variable in names_in(items)
        case ast.Name(name):
            return name == variable
    return any(asks_for(child, variable) for child in children_of(node))


def operands_of(node: ast.AST) -> list[ast.expr]:
    """The expressions that ``node`` directly consists of, in order of evaluation."""
    return [child for child in children_of(node) if isinstance(child, ast.expr)]


def with_operands(node: _Tree, operands: Sequence[ast.expr | None]) -> _Tree | None:
    """``node`` with other operands; None where one of them is None."""
    if None in operands:
        return None
    given: dict[ast.AST, ast.expr | None] = dict(zip(operands_of(node), operands, strict=True))
    result = copy.copy(node)
    for name, value in ast.iter_fields(node):
        setattr(result, name, [given.get(each, each) for each in value] if isinstance(value, list) else given.get(value, value))
    return result


def constants_of(node: ast.expr) -> dict[str, object]:
    """The keyword arguments of a call that are written as constants."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return {str(each.arg): each.value.value for each in keywords if isinstance(each.value, ast.Constant)}


def parts_of(node: ast.Subscript) -> list[ast.expr]:
    """The indices between the brackets."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def index_with(node: ast.Subscript, parts: list[ast.expr]) -> ast.expr:
    """What stands between the brackets, with other indices, as many as there are."""
    return ast.copy_location(ast.Tuple(parts, ast.Load()), node.slice) if isinstance(node.slice, ast.Tuple) else parts[0]
