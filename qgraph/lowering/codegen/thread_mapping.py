"""Which iterations a thread of a CUDA kernel has where the host knows how many there are, and the code that finds them.

The grids that fit are those of ``runtime/graph/launch_shapes.py``.
"""

from __future__ import annotations

import ast

from qgraph.ir.artifacts import COARSENING, TILE_HEIGHT, TILE_ROWS
from qgraph.ir.program import Task
from qgraph.lowering.codegen.generated_names import Dtypes, Statements, generated
from qgraph.lowering.codegen.task_codegen import affine, index_tuple, product, prologue, replace_continue, unravel


def several_iterations(task: Task, dtypes: Dtypes) -> Statements:
    """One iteration a thread on a grid that has enough of them; else ``COARSENING``, a block apart so that accesses coalesce.

    The loads of all of them start before the first store, which one iteration a thread cannot fill memory with. The body is
    there twice: for threads with all of their iterations, and for one iteration or those that are left.
    """
    return generated(
        f"_n = {product(task.axes)}",
        "_first = _cuda.grid(1)",
        "if _first >= _n: return",
        "before",
        # One iteration: the next one is past the end.
        "if _cuda.gridsize(1) < _n:",
        "    _across = _cuda.threadIdx.x",
        "    _step = _cuda.blockDim.x",
        f"    _first = (_first - _across) * {COARSENING} + _across",
        f"    if _first + _step * {COARSENING - 1} < _n:",
        f"        for _part in _range({COARSENING}):",
        "            _t = _assume_ge(_first + _part * _step, 0)",
        "            iteration",
        "        return",
        f"    _stop = _min(_n, _first + _step * {COARSENING})",
        "else:",
        "    _step = _n",
        "    _stop = _n",
        "while _first < _stop:",
        "    _t = _assume_ge(_first, 0)",
        "    _first += _step",
        "    iteration",
        before=prologue(task, dtypes),
        iteration=[*unravel(task, "_t", task.axes), *task.body],
    )


def by_rows(task: Task, dtypes: Dtypes, *, several: bool) -> Statements:
    """A column of the last axis for each thread, and one row of the others together: no division for the last two axes.

    ``several``: on a grid with too few threads for all rows, each has ``COARSENING`` neighbouring rows, whose loads start
    together. The body is there twice then: for threads with all of their rows, and for one row or those that are left.
    Extents have 32 bits, and so have indices of two axes.
    """
    *others, last = task.axes
    rows = product(others)
    # Numbers of a launch have 32 bits, and so have sums and products of them: two axes are in 32 bits, where that is certain,
    # since in a short kernel each instruction counts.
    row = "_assume_ge(_cuda.grid(2)[1] + _cuda.gridsize(2)[1] * _cuda.blockIdx.z, 0)"
    all_rows, short = "_cuda.gridsize(2)[1] * _cuda.gridDim.z", ""
    if len(others) == 1:
        rows, short = f"_assume_u32({rows})", "_assume_u32"
        row = "_assume_u32((_cuda.blockIdx.z * _cuda.gridDim.y + _cuda.blockIdx.y) * _cuda.blockDim.y + _cuda.threadIdx.y)"
        all_rows = "_assume_u32(_cuda.gridDim.y * _cuda.blockDim.y * _cuda.gridDim.z)"
    head = [
        "_column = _assume_u32(_cuda.blockIdx.x * _cuda.blockDim.x + _cuda.threadIdx.x)",
        f"if _column >= _assume_u32({ast.unparse(last.count)}): return",
        f"_row = {row}",
    ]
    before, iteration = prologue(task, dtypes), row_iteration(task)
    if not several:
        iteration = replace_continue(iteration)
        return generated(
            *head, f"if _row >= {rows}: return", "before", "_at = _row", "iteration", before=before, iteration=iteration
        )
    if len(others) > 1:
        return [*generated(*head, "before", before=before), *_by_planes(task)]
    return generated(
        *head,
        "before",
        f"if {all_rows} < {rows}:",
        f"    _row = {short}(_row * {COARSENING})",
        f"    if _row + {COARSENING - 1} < {rows}:",
        f"        for _part in _range({COARSENING}):",
        "            _at = _assume_ge(_row + _part, 0)",
        "            iteration",
        "        return",
        "    _step = 1",
        "else:",
        # One row: the next one is past the end.
        f"    _step = {rows}",
        f"while _row < {rows}:",
        "    _at = _assume_ge(_row, 0)",
        f"    _row = {short}(_row + _step)",
        "    iteration",
        before=before,
        iteration=iteration,
    )


def _by_planes(task: Task) -> Statements:
    """As ``by_rows``, but that a thread with several rows has them in neighbouring planes: what they share it loads once."""
    first, *middle, last = task.axes
    planes, rows = ast.unparse(first.count), product(middle)
    iteration = generated(
        f"{first.variable} = {affine(first, '_at')}",
        "between",
        f"{last.variable} = {affine(last, '_column')}",
        between=unravel(task, "_between", middle, narrow=True),
    )
    return generated(
        f"_plane = _assume_u32(_quotient(_row, {rows}))",
        f"_between = _assume_u32(_remainder(_row, {rows}))",
        f"if _cuda.gridsize(2)[1] * _cuda.gridDim.z < {planes} * {rows}:",
        f"    _plane *= {COARSENING}",
        f"    if _plane + {COARSENING - 1} < {planes}:",
        f"        for _part in _range({COARSENING}):",
        "            _at = _assume_u32(_plane + _part)",
        "            iteration",
        "        return",
        f"    _stop = {planes}",
        "else:",
        f"    _stop = _min(_plane + 1, {planes})",
        "while _plane < _stop:",
        "    _at = _assume_u32(_plane)",
        "    _plane += 1",
        "    iteration",
        iteration=[*iteration, *index_tuple(task), *task.body],
    )


def row_iteration(task: Task, row: str = "_at") -> Statements:
    """The iteration at column ``_column`` of ``row``."""
    across = generated(f"{task.axes[-1].variable} = {affine(task.axes[-1], '_column')}")
    return [*unravel(task, row, task.axes[:-1], narrow=True), *across, *index_tuple(task), *task.body]


def in_tiles(task: Task, dtypes: Dtypes) -> Statements:
    """A column of the last of two axes for each thread, and ``COARSENING`` rows of the first, ``TILE_HEIGHT`` apart.

    So the threads of a warp have neighbouring columns and neighbouring rows. Extents have 32 bits.
    """
    rows, columns = (product([axis]) for axis in task.axes)
    shift = TILE_HEIGHT.bit_length() - 1
    return generated(
        f"_column = _assume_u32(_cuda.blockIdx.x * (_cuda.blockDim.x >> {shift}) + (_cuda.threadIdx.x >> {shift}))",
        "_row = (_cuda.blockIdx.z * _cuda.gridDim.y + _cuda.blockIdx.y) * "
        f"{TILE_ROWS} + (_cuda.threadIdx.x & {TILE_HEIGHT - 1})",
        "_row = _assume_u32(_row)",
        f"if _column >= {columns}: return",
        "before",
        f"if _row + {TILE_ROWS - TILE_HEIGHT} < {rows}:",
        f"    for _part in _range({COARSENING}):",
        f"        _at = _row + _part * {TILE_HEIGHT}",
        "        iteration",
        "    return",
        f"while _row < {rows}:",
        "    _at = _row",
        f"    _row += {TILE_HEIGHT}",
        "    iteration",
        before=prologue(task, dtypes),
        iteration=row_iteration(task),
    )
