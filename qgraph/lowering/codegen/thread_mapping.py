"""Which iterations a thread of a CUDA kernel has where the host knows how many there are, and the code that finds them.

The grids that fit are those of ``runtime/graph/launch_shapes.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from qgraph.ir.artifacts import COARSENING, JAMMED_COLUMNS, TILE_HEIGHT, TILE_ROWS
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import Program, Task
from qgraph.lowering.codegen.cooperative_codegen import renamed
from qgraph.lowering.codegen.cooperative_rows import around_loop, shared_loops, stored_in
from qgraph.lowering.codegen.generated_names import Dtypes, Statements, generated, walk
from qgraph.lowering.codegen.privatised_histogram_cuda import bins_of
from qgraph.lowering.codegen.task_codegen import (
    affine,
    has_loops,
    index_tuple,
    operations,
    product,
    prologue,
    replace_continue,
    unravel,
)
from qgraph.source import nodes_of

# The most nodes of the syntax tree of iterations that a thread runs together: what they hold shall stay in registers.
_JAMMED = 150


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


def one_block_each(task: Task, dtypes: Dtypes) -> Statements:
    """An iteration of two axes for each block of threads: its body finds its threads itself."""
    rows, columns = task.axes
    return generated(
        f"{columns.variable} = _assume_u32(_cuda.blockIdx.x)",
        f"{rows.variable} = _assume_u32(_cuda.blockIdx.z * _cuda.gridDim.y + _cuda.blockIdx.y)",
        # The whole block.
        f"if {rows.variable} >= {product([rows])} or {columns.variable} >= {product([columns])}: return",
        "before",
        "iteration",
        before=prologue(task, dtypes),
        iteration=task.body,
    )


# --- unroll and jam -----------------------------------------------------------------------------------------------------


def can_jam(task: Task) -> bool:
    """Whether a thread may run neighbouring iterations of two axes together, each a short one with the same loop inside.

    The loop inside is run once for all of them (unroll and jam), so that they share what it loads. Each has the values, and the
    order of operations, that it has alone; which of independent iterations comes first is nobody's business.
    """
    _, body = _guarded(task)
    nodes = list(operations(body, task.names))
    loops = [statement for statement in body if isinstance(statement, (ast.For, ast.While))]
    if len(task.axes) != 2 or task.on_device or task.reductions or len(nodes) > _JAMMED:
        return False
    if len(loops) != 1 or not isinstance(loops[0], ast.For):
        return False
    before, loop, after = around_loop(body)
    if loop.orelse or not isinstance(loop.target, ast.Name) or has_loops(operations([*before, *loop.body, *after], task.names)):
        return False
    if any(isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.comprehension, ast.Lambda)) for node in walk(body)):
        return False
    assigned = stored_in([*before, *loop.body, *after]) | {axis.variable for axis in task.axes} | {task.index_tuple}
    return loop.target.id not in assigned and all(_is_fixed(bound, assigned) for bound in _bounds(loop))


def _guarded(task: Task) -> tuple[ast.expr, Sequence[ast.stmt]]:
    """The test that all of an iteration is under, where it is one of numbers and extents alone, and what is under it."""
    match task.body:
        case [ast.If(test=test, body=body, orelse=[])] if not any(map(_is_asked, nodes_of(test))):
            return test, body
    return ast.Constant(True), task.body


def _is_asked(node: ast.AST) -> bool:
    """Whether it takes more than registers: a call, or an element. A mask leaves few neighbours together."""
    extent = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return isinstance(node, (ast.Call, ast.Subscript)) and not extent


def _bounds(loop: ast.For) -> list[ast.expr]:
    return loop.iter.args if isinstance(loop.iter, ast.Call) else [loop.iter]


def _is_fixed(bound: ast.expr, assigned: frozenset[str]) -> bool:
    """Whether a bound is the same for all iterations: numbers, and extents of arrays."""
    match bound:
        case ast.Constant(value=int()):
            return True
        case ast.Name(id=name):
            return name not in assigned
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant()):
            return name not in assigned
        case ast.UnaryOp(operand=operand):
            return _is_fixed(operand, assigned)
        case ast.BinOp(left=left, right=right):
            return _is_fixed(left, assigned) and _is_fixed(right, assigned)
    return False


def jam_notes(plan: GraphPlan) -> GraphPlan:
    """The plan with what is jammed said of its nodes."""
    return replace(plan, nodes=tuple(_noted(plan.program, node) for node in plan.nodes))


def _noted(program: Program, node: Node) -> Node:
    task = node.task
    if task is None or node.what is not None or node.beside or not can_jam(task) or bins_of(program, task):
        return node
    if not (node.first or node.then) and shared_loops(program, task):
        return node
    line = around_loop(_guarded(task)[1])[1].lineno
    several = COARSENING * JAMMED_COLUMNS
    return replace(node, note=f"{several} neighbouring iterations run the loop at line {line} together where there are many")


def jammed(task: Task, dtypes: Dtypes) -> Statements:
    """As ``by_rows``, but that a thread with several rows has ``JAMMED_COLUMNS`` columns of each, a block apart, too."""
    rows, columns = (product([axis]) for axis in task.axes)
    test, body = _guarded(task)
    before, loop, after = around_loop(body)
    own = stored_in([*before, *loop.body, *after]) | {axis.variable for axis in task.axes} | {task.index_tuple}
    parts: dict[str, list[ast.stmt]] = {"place": [], "begin": [], "inside": [], "end": []}
    tests: list[str] = []
    for part in range(COARSENING * JAMMED_COLUMNS):
        row, column = divmod(part, JAMMED_COLUMNS)
        start = generated(
            f"_at = _assume_u32(_row + {row})",
            f"_column = _assume_u32(_left + {column} * _cuda.blockDim.x)",
        )
        new = {name: f"_part{part}_{name}" for name in own}
        parts["place"] += [*start, *renamed(row_iteration(task)[: -len(task.body)], new)]
        tests += [ast.unparse(each) for each in renamed([ast.Expr(test)], new)]
        parts["begin"] += renamed(before, new)
        parts["inside"] += renamed(loop.body, new)
        parts["end"] += renamed(after, new)
    return generated(
        "_across, _down = 1, 1",
        f"if _cuda.gridDim.x * _cuda.blockDim.x < {columns}: _across = {JAMMED_COLUMNS}",
        f"if _cuda.gridDim.y * _cuda.blockDim.y * _cuda.gridDim.z < {rows}: _down = {COARSENING}",
        "_left = _assume_u32(_cuda.blockIdx.x * _cuda.blockDim.x * _across + _cuda.threadIdx.x)",
        "_row = (_cuda.blockIdx.z * _cuda.gridDim.y + _cuda.blockIdx.y) * _cuda.blockDim.y + _cuda.threadIdx.y",
        "_row = _assume_u32(_row * _down)",
        "before",
        f"if _across > 1 and _down > 1 and _row + {COARSENING - 1} < {rows} and _left + _cuda.blockDim.x < {columns}:",
        "    place",
        f"    if {' and '.join(dict.fromkeys(tests))}:",
        "        begin",
        "        together",
        "        end",
        "        return",
        f"_stop = _min({rows}, _row + _down)",
        f"_right = _min({columns}, _left + _across * _cuda.blockDim.x)",
        "while _row < _stop:",
        "    _at = _assume_u32(_row)",
        "    _row += 1",
        "    _here = _left",
        "    while _here < _right:",
        "        _column = _assume_u32(_here)",
        "        _here += _cuda.blockDim.x",
        "        iteration",
        before=prologue(task, dtypes),
        together=_run(loop, parts["inside"]),
        iteration=row_iteration(task),
        place=parts["place"],
        begin=parts["begin"],
        end=parts["end"],
    )


def _run(loop: ast.For, body: Sequence[ast.stmt]) -> Statements:
    """``loop`` with another body. Where it counts from 0 or above the compiler knows, and asks no index for its sign."""
    match loop:
        case ast.For(
            target=ast.Name(id=name), iter=ast.Call(args=[ast.Constant(value=int(first)), stop, ast.Constant(value=1)])
        ) if first >= 0:
            count = [f"_inside = {first}", f"_end = {ast.unparse(stop)}", "while _inside < _end:"]
            return generated(*count, f"    {name} = _assume_ge(_inside, 0)", "    _inside += 1", "    body", body=body)
    return [ast.copy_location(ast.For(loop.target, loop.iter, list(body), []), loop)]
