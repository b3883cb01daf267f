"""Expressions as the user wrote them, for messages."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from qgraph.source import as_written, copied


def user_text(node: ast.AST, paths: Mapping[str, str]) -> str:
    """The source of ``node`` with its names as the user writes them; ``paths``: of each leaf."""
    return as_written(_Rename(paths).visit(copied(node)))


class _Rename(ast.NodeTransformer):
    """Leaves and locals to what the user wrote."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.paths = paths

    def visit_Name(self, node: ast.Name) -> ast.Name:
        name = node.id
        if name.endswith("_") and (name[:-1] in self.paths or name.startswith("_")):
            # A local of the user's that has a leaf's name: ``Unit.local_name`` spelled it so.
            node.id = name[:-1]
        else:
            node.id = self.paths.get(name, name)
        return node
