"""Conditional expressions of tuples as `if` statements: each value then goes to a name of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from qgraph.ir.trees import at_place
from qgraph.source import copied


def with_choices(tree: ast.FunctionDef, is_tuple: Callable[[ast.expr], bool]) -> ast.FunctionDef:
    """``tree`` with `if` statements for ``a, b = (1, 2) if c else (3, 4)`` and ``return (a, b) if c else (d, e)``.

    ``is_tuple`` tells what is returned as several numbers; anything else may stay a conditional expression.
    """
    tree = copied(tree)
    tree.body = [_Choices(is_tuple).visit(statement) for statement in tree.body]
    return tree


class _Choices(ast.NodeTransformer):
    def __init__(self, is_tuple: Callable[[ast.expr], bool]) -> None:
        self._is_tuple = is_tuple

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Tuple):
            return node
        return self._split(node)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        return self._split(node) if isinstance(node.value, ast.IfExp) and self._several(node.value) else node

    def _several(self, value: ast.expr) -> bool:
        if isinstance(value, ast.IfExp):
            return self._several(value.body) or self._several(value.orelse)
        return self._is_tuple(value)

    def _split(self, node: Any) -> ast.stmt:
        """A statement with a value, which may be a conditional expression, and that of another one."""
        if not isinstance(node.value, ast.IfExp):
            result: ast.stmt = node
            return result
        then, other = copied(node), copied(node)
        then.value, other.value = node.value.body, node.value.orelse
        return at_place(ast.copy_location(ast.If(node.value.test, [self._split(then)], [self._split(other)]), node), node)
