"""Indices of stencils as a variable plus a constant, perhaps modulo an extent, where they are written in other words.

``im = i - 1 if i > 0 else n - 1`` and then ``u[im, j]`` is ``u[(i - 1) % n, j]``. Such a choice is found out by its values: its
constants are small, so that what it is for all small extents it is for all.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Set
from dataclasses import replace

from qgraph.ir.program import Task
from qgraph.ir.trees import parsed
from qgraph.lowering.codegen.generated_names import walk
from qgraph.source import copied, nodes_of, standing_for

# What a choice may add and subtract in all, and for which extents it is looked at.
_MOST = 8
_EXTENTS = range(4, 4 * _MOST)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def with_plain_indices(task: Task, arrays: Collection[str]) -> Task:
    """``task`` with the indices of ``arrays`` in plain words: of the same elements."""
    stores = Counter(node.id for node in walk(task.body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    variables = {axis.variable for axis in task.axes if not stores[axis.variable]}
    known: dict[str, ast.expr] = {}
    for statement in task.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if stores[name] == 1 and _is_index(value, variables):
                known[name] = _plain(value, variables)
    writer = _Writer(arrays, variables, known)
    body = tuple(writer.visit(each) for each in copied(list(task.body)))
    return replace(task, body=body) if writer.changed else task


class _Writer(ast.NodeTransformer):
    def __init__(self, arrays: Collection[str], variables: Set[str], known: dict[str, ast.expr]) -> None:
        self._arrays, self._variables, self._known = arrays, variables, known
        self.changed = False

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An element."""
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=elements) as index) if name in self._arrays:
                index.elts = [self._written(each) for each in elements]
        return self.generic_visit(node)

    def _written(self, index: ast.expr) -> ast.expr:
        found = self._known.get(index.id, index) if isinstance(index, ast.Name) else index
        if found is index and isinstance(index, ast.IfExp) and _is_index(index, self._variables):
            found = _plain(index, self._variables)
        if found is index:
            return index
        self.changed = True
        found = copied(found)
        for child in nodes_of(found):
            ast.copy_location(child, index)
        return standing_for(found, index)


def _is_index(value: ast.expr, variables: Set[str]) -> bool:
    """Whether an expression is sums, remainders and choices of one loop variable, small constants and extents alone."""
    names, total = set[str](), 0
    for node in nodes_of(value):
        match node:
            case ast.Name(id=name):
                names.add(name)
            case ast.Constant(value=int(number)):
                total += abs(number)
            case ast.Compare(ops=[operator]) if isinstance(operator, _COMPARISONS):
                pass
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mod()) | ast.UnaryOp(op=ast.USub()) | ast.IfExp():
                pass
            case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=ast.Constant()) | ast.Attribute():
                pass
            case ast.expr():
                return False
    extents = {ast.unparse(node.value) for node in nodes_of(value) if isinstance(node, ast.Attribute)}
    return len(names & variables) == 1 and names - variables == extents and total <= _MOST


def _plain(value: ast.expr, variables: Set[str]) -> ast.expr:
    """A choice as a variable plus a constant modulo an extent, if it is that for all values; else as it is."""
    ends = {ast.unparse(node) for node in nodes_of(value) if isinstance(node, ast.Subscript)}
    if not isinstance(value, ast.IfExp) or len(ends) != 1:
        return value
    (end,), (variable,) = ends, {node.id for node in nodes_of(value) if isinstance(node, ast.Name)} & {*variables}
    text = ast.unparse(_Extent().visit(copied(value)))
    code = compile(text, "<index>", "eval")
    found = [(i, n, eval(code, {}, {variable: i, "_n": n})) for n in _EXTENTS for i in range(n)]
    for by in range(-_MOST, _MOST + 1):
        if all(index == (i + by) % n for i, n, index in found):
            return parsed(f"({variable} {'+' if by >= 0 else '-'} {abs(by)}) % {end}")
    return value


class _Extent(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """The only extent."""
        return ast.copy_location(ast.Name("_n", ast.Load()), node)
