"""Indices that are never negative by construction: remainders by an extent or by a positive constant."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from qgraph.ir.trees import call_of
from qgraph.operations import intrinsics
from qgraph.source import copied


def with_natural_remainders(statements: Sequence[ast.stmt], arrays: Collection[str]) -> Sequence[ast.stmt]:
    """The same statements, but each ``x % array.shape[0]`` and ``x % 8`` in an index is said not to be negative.

    A remainder has the sign of its divisor, or is 0, and it would cost a test for each element to find out.
    """
    writer = _Remainders(arrays)
    return [writer.visit(statement) for statement in copied(list(statements))]


class _Remainders(ast.NodeTransformer):
    def __init__(self, arrays: Collection[str]) -> None:
        self._arrays = arrays
        self._indices = 0

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        """Whatever is in its brackets is in an index."""
        node.value = self.visit(node.value)
        self._indices += 1
        node.slice = self.visit(node.slice)
        self._indices -= 1
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A remainder, if it is one."""
        self.generic_visit(node)
        if not self._indices or not isinstance(node.op, ast.Mod):
            return node
        if self._is_extent(node.right):
            node.right = _natural(node.right)
        elif not _is_positive(node.right):
            return node
        return _natural(node)

    def _is_extent(self, node: ast.expr) -> bool:
        match node:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape")):
                return name in self._arrays
        return False


def _is_positive(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and 0 < node.value < intrinsics.INDEX_LIMIT


def _natural(node: ast.expr) -> ast.expr:
    call = call_of("_assume_ge", node, ast.Constant(0))
    for child in (call, call.func, call.args[1]):
        ast.copy_location(child, node)
    return call
