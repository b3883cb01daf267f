"""Augmented assignments of numbers as plain ones."""

from __future__ import annotations

import ast

from qgraph.source import copied


def as_assignment(node: ast.AugAssign) -> ast.Assign:
    """``x = x + e`` for ``x += e``."""
    load = copied(node.target)
    load.ctx = ast.Load()
    value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
    return ast.copy_location(ast.Assign([node.target], value), node)
