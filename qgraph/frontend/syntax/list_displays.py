"""Lists that no name can hold, `x[i] = [a, b]`, `for v in [1, 2]`, as the tuples which mean the same there."""

from __future__ import annotations

import ast

from qgraph.source import nodes_of, standing_for


def unnamed_lists(tree: ast.AST) -> set[ast.expr]:
    """The lists in ``tree`` that are only read where they stand, and rows in these."""
    return {each for node in nodes_of(tree) for place in _places(node) for each in _rows(place)}


def _places(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets, value=value) if all(isinstance(each, (ast.Subscript, ast.Tuple)) for each in targets):
            return [value]
        case ast.AugAssign(target=ast.Subscript(), value=value) | ast.Subscript(value=value, ctx=ast.Load()):
            return [value]
        case ast.For(iter=items):
            return [items]
        case ast.Compare(ops=operators, comparators=comparators):
            tests = zip(operators, comparators, strict=True)
            return [each for operator, each in tests if isinstance(operator, (ast.In, ast.NotIn))]
    return []


def _rows(node: ast.expr) -> list[ast.expr]:
    if not isinstance(node, ast.List):
        return []
    return [node, *(row for each in node.elts for row in _rows(each))]


def with_tuples(tree: ast.FunctionDef) -> ast.FunctionDef:
    """``tree`` with tuples in place of such lists."""
    lists = unnamed_lists(tree)
    result: ast.FunctionDef = _Tuples(lists).visit(tree) if lists else tree
    return result


class _Tuples(ast.NodeTransformer):
    def __init__(self, lists: set[ast.expr]) -> None:
        self._lists = lists

    def visit_List(self, node: ast.List) -> ast.expr:
        self.generic_visit(node)
        if node not in self._lists:
            return node
        return standing_for(ast.copy_location(ast.Tuple(node.elts, node.ctx), node), node)
