"""Expressions as the user wrote them, for messages."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from qgraph.source import as_written, copied


def user_text(node: ast.AST, paths: Mapping[str, str]) -> str:
    """The source of ``node`` with its names as the user writes them; ``paths``: of each leaf."""
    return as_written(_Rename(paths).visit(copied(node)))


class _Rename(ast.NodeTransformer):
    """Leaves to what the user wrote; locals stand for that themselves."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.paths = paths

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.paths.get(node.id, node.id)
        return node
