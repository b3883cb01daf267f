"""Names that a program or code binds: those that may be others in a program that is the same."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from qgraph.ir.functions import Function
from qgraph.ir.program import Program
from qgraph.source import nodes_of


def names_of(program: Program) -> frozenset[str]:
    """The names that a program binds: its leaves, host values, slots, and those of its loops."""
    names = {leaf.name for leaf in program.arrays_and_scalars}
    names |= {value.name for value in program.host_values} | {slot.name for slot in program.slots}
    for task in program.tasks():
        names |= {axis.variable for axis in task.axes} | {task.index_tuple}
        names |= {local for local, _ in (*task.scalars, *task.results)} | {selection.local for selection in task.selections}
        for reduction in task.reductions:
            carried = (*reduction.variables, *(() if reduction.at is None else (reduction.at,)))
            names |= {variable.local for variable in carried}
        names |= names_in(task.body, task.names)
    return frozenset(names)


def names_in(trees: Iterable[ast.AST], names: Mapping[str, object]) -> frozenset[str]:
    """The names that code binds, and those of its globals."""
    found = set(names)
    for tree in trees:
        for node in nodes_of(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                found.add(node.id)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
    for value in names.values():
        if isinstance(value, Function):
            found |= names_in([value.tree], value.names)
    return frozenset(found)
