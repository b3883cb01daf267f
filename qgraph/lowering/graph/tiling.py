"""Tiling of transposed accesses: a warp has a tile of a loop that reads along one axis and writes along the other.

With a row for a warp, one of the two arrays would be accessed a line apart. With a tile a warp touches a few sectors of each,
and the warps of a block the rest of these.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.program import Axis, Program, Task
from qgraph.ir.trees import names_in
from qgraph.source import nodes_of


def turns(program: Program, task: Task) -> bool:
    """Whether a loop of two axes has arrays that run along either of them in memory."""
    if len(task.axes) != 2:
        return False
    layouts = {leaf.name: leaf.type.layout for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}
    along: set[str] = set()
    for statement in task.body:
        for node in nodes_of(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Tuple):
                layout = layouts.get(node.value.id)
                # One of no dimensions is `a[()]`.
                if layout is not None and node.slice.elts:
                    along |= _along(node.slice.elts[0 if layout == "F" else -1], task.axes)
    return len(along) == 2


def _along(index: ast.expr, axes: Sequence[Axis]) -> set[str]:
    """The variable of the only axis that an index depends on."""
    found = {axis.variable for axis in axes} & names_in(index)
    return found if len(found) == 1 else set()
