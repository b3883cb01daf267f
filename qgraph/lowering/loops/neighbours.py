"""Program -> Program: what loops look up in every iteration, in fewer instructions.

``(i + 1) % n``, where ``i`` runs over ``range(n)`` and ``n`` is an extent, is a comparison, no division. And the shape
of an array that changes places with others is that of any of them: that of one which the loop has anyway, since an array of
which it needs the shape alone is one more that might be changed, and then nothing is loaded as a constant.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from qgraph.ir.program import Axis, Program, Task
from qgraph.ir.rewrite import with_tasks
from qgraph.ir.trees import parsed
from qgraph.lowering.codegen.purity import names_stored
from qgraph.source import copied, nodes_of, standing_for


def with_near_neighbours(program: Program) -> Program:
    """``program`` with tasks that divide less and look at fewer arrays; the numbers are the same."""
    counts = {value.name: value.source for value in program.host_values}

    def changed(task: Task) -> Task:
        stored = frozenset().union(*map(names_stored, task.body))
        ends = {axis.variable: end for axis in task.axes if axis.variable not in stored and (end := _end(axis, counts))}
        shapes = {leaf: each.local for each in task.selections for leaf in each.leaves}
        if not ends and not shapes:
            return task
        writer = _Writer(ends, shapes)
        return replace(task, body=tuple(writer.visit(statement) for statement in copied(list(task.body))))

    return with_tasks(program, changed)


def _end(axis: Axis, counts: Mapping[str, str]) -> str:
    """The source of ``n`` where the axis is ``range(n)``, an extent; empty where it is another one."""
    if (ast.unparse(axis.start), ast.unparse(axis.step)) != ("0", "1") or not isinstance(axis.count, ast.Name):
        return ""
    source = counts.get(axis.count.id, "")
    return source[len("max(0, ") : -1] if source.startswith("max(0, ") else ""


class _Writer(ast.NodeTransformer):
    def __init__(self, ends: Mapping[str, str], shapes: Mapping[str, str]) -> None:
        self._ends, self._shapes = ends, shapes

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A remainder, if it is one of a neighbour."""
        match node:
            case ast.BinOp(
                left=ast.BinOp(left=ast.Name(id=variable), op=ast.Add() | ast.Sub() as operator, right=ast.Constant(value=1)),
                op=ast.Mod(),
                right=ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape")) as end,
            ) if self._ends.get(variable) == ast.unparse(end):
                # The loop runs, so there is a last one.
                after, before = "{i} + 1 if {i} + 1 < ({n}) else 0", "{i} - 1 if {i} > 0 else ({n}) - 1"
                near = after if isinstance(operator, ast.Add) else before
                found = parsed(near.format(i=variable, n=ast.unparse(end)))
                for child in nodes_of(found):
                    ast.copy_location(child, node)
                return self.visit(standing_for(found, node))  # type: ignore[no-any-return]
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """The shape of an array, by another name."""
        if node.attr == "shape" and isinstance(node.value, ast.Name) and (local := self._shapes.get(node.value.id)):
            node.value = ast.copy_location(ast.Name(local, ast.Load()), node.value)
        return self.generic_visit(node)
