"""Lists of indices, `x[[0, 2]]`, as the arrays that NumPy makes of them."""

from __future__ import annotations

import ast

import numpy as np

from qgraph.frontend.inference.indexing import word
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.frontend.syntax.unsupported_syntax import index_lists
from qgraph.ir.trees import at_place, parts_of
from qgraph.source import copied, standing_for


def with_index_arrays(scope: Scope, node: ast.stmt) -> ast.stmt:
    """A statement at kernel level with `np.array((0, 2))` in place of such lists; not those in its own statements."""
    if not scope.asked(_has_lists, scope.source) or not index_lists(node):
        return node
    result = copied(node)
    _Arrays(scope).generic_visit(result)
    return result


def _has_lists(source: SourceFunction) -> bool:
    return bool(index_lists(source.tree))


class _Arrays(ast.NodeTransformer):
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def visit(self, node: ast.AST) -> ast.AST:
        """A part of the statement; what is a statement itself comes later."""
        found: ast.AST = node if isinstance(node, (ast.stmt, ast.match_case)) else super().visit(node)
        return found

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        """A list that is the index, or one of several."""
        self.generic_visit(node)
        parts = [self._array(part) if isinstance(part, ast.List) else part for part in parts_of(node)]
        several = isinstance(node.slice, ast.Tuple)
        node.slice = ast.copy_location(ast.Tuple(parts, ast.Load()), node.slice) if several else parts[0]
        return node

    def _array(self, node: ast.List) -> ast.expr:
        made = word(self._scope, np.array, ast.copy_location(ast.Tuple(node.elts, ast.Load()), node))
        return standing_for(at_place(made, node), node)
