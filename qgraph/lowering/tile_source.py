"""Loops that read along one axis and write along the other, as a transpose does: neighbouring threads have a tile, not a row.

With a row for a warp, one of the two arrays would be accessed a line apart. With a tile a warp touches a few sectors of each,
and the warps of a block the rest of these.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from qgraph.lowering.slot_source import generated
from qgraph.program import ArrayType, Axis, Program, Task

# Rows and columns of a tile: that many threads are a block of the usual size, and eight warps of 8 by 4 iterations.
_ROWS = 32
_COLUMNS = 8


def turns(program: Program, task: Task) -> bool:
    """Whether a loop of two axes has arrays that run along either of them in memory."""
    if len(task.axes) != 2:
        return False
    layouts = {leaf.name: leaf.type.layout for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}
    along: set[str] = set()
    for statement in task.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Tuple):
                layout = layouts.get(node.value.id)
                # One of no dimensions is `a[()]`.
                if layout is not None and node.slice.elts:
                    along |= _along(node.slice.elts[0 if layout == "F" else -1], task.axes)
    return len(along) == 2


def _along(index: ast.expr, axes: Sequence[Axis]) -> set[str]:
    """The variable of the only axis that an index depends on."""
    names = {child.id for child in ast.walk(index) if isinstance(child, ast.Name)}
    found = {axis.variable for axis in axes} & names
    return found if len(found) == 1 else set()


def tile(index: str, extents: Sequence[str], width: str) -> tuple[list[ast.stmt], tuple[str, str]]:
    """Statements that find iteration ``index`` in its tile, and the expressions of its row and column.

    Rows are in bands, the iterations of a band in tiles from left to right; the last band is lower, and its last tile
    narrower. So each iteration has one index below the product of the ``extents``, whatever these are. ``width`` is "short_"
    where that product has 32 bits.
    """
    rows, columns = extents
    statements = generated(
        f"_band = _{width}quotient({index}, {columns}) // {_ROWS} * {_ROWS}\n"
        f"_high = _min({_ROWS}, {rows} - _band)\n"
        f"_at = {index} - _band * {columns}\n"
        f"if _high == {_ROWS}:\n"
        f"    _left = (_at >> {(_ROWS * _COLUMNS).bit_length() - 1}) * {_COLUMNS}\n"
        "else:\n"
        f"    _left = _{width}quotient(_at, _high * {_COLUMNS}) * {_COLUMNS}\n"
        "_at -= _left * _high\n"
        f"if _high == {_ROWS} and _left + {_COLUMNS} <= {columns}:\n"
        # Each warp has 8 rows of 4: whole sectors of float32 that are written along rows, halves of those read.
        "    _row = (_at & 7) + ((_at >> 5) & 3) * 8\n"
        "    _column = ((_at >> 3) & 3) + (_at >> 7) * 4\n"
        "else:\n"
        f"    _row = _{width}remainder(_at, _high)\n"
        f"    _column = _{width}quotient(_at, _high)\n"
    )
    return statements, ("_at_least(_band + _row, 0)", "_at_least(_left + _column, 0)")
