"""Task -> Python: one chunk of a parallel loop, as the CPU's threads run it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.artifacts import Parameter
from qgraph.ir.functions import Function
from qgraph.ir.program import Axis, Program, Task
from qgraph.ir.trees import names_in
from qgraph.lowering.codegen.cooperative_codegen import renamed
from qgraph.lowering.codegen.cooperative_rows import around_loop, stored_in
from qgraph.lowering.codegen.generated_names import Dtypes, Statements, generated, walk
from qgraph.lowering.codegen.privatised_histogram_cpu import collecting, collecting_names
from qgraph.lowering.codegen.privatised_histogram_cuda import bins_of
from qgraph.lowering.codegen.reduction_codegen import ReductionCode
from qgraph.lowering.codegen.task_codegen import affine, called_name, has_loops, index_tuple, outlined, prologue, unravel
from qgraph.lowering.number_types.nonnegative_indices import with_natural_remainders
from qgraph.operations import intrinsics
from qgraph.source import copied, nodes_of

# Constants up to which the bound of a loop and the distance of an index from its variable count as small.
_SMALL = 1 << 16
# Neighbouring columns that are gone down together. On a Zen 3 (4096 x 4096 float64) 16 were quicker than 8, and 32 no quicker.
_COLUMNS = 16
# The most nodes of the syntax tree of an iteration that is there so often.
_MOST_NODES = 150
_PLAIN = (ast.Assign, ast.AugAssign)

# Which iterations a chunk has. A division takes as long as a few iterations.
_PLACE_IN_ROW = "_col0 = _max(0, _chunk * _col_step)\n_col1 = _min(_cols, _col0 + _col_step)"
_PLACE = """
if _col_step >= _cols:
    _row0, _col0 = _chunk * _row_step, 0
else:
    _across = (_cols + _col_step - 1) // _col_step
    _row0, _col0 = _chunk // _across * _row_step, _chunk % _across * _col_step
_row0, _col0 = _max(0, _row0), _max(0, _col0)
_row1 = _min(_rows, _row0 + _row_step)
_col1 = _min(_cols, _col0 + _col_step)
"""


def chunk_function(program: Program, task: Task, dtypes: Dtypes) -> tuple[tuple[Parameter, ...], Function]:
    """The CPU's share of a parallel loop: chunk ``_chunk`` of a grid of ``_rows`` by ``_cols`` iterations.

    The last axis is the columns, so that the innermost loop runs along memory; the others together are the rows. Chunks hold
    ``_row_step`` rows and ``_col_step`` columns; which iterations a chunk has does not depend on the number of threads.
    """
    bins = bins_of(program, task)
    reductions = ReductionCode(task, dtypes)
    head = generated(_PLACE if task.axes[:-1] or bins else _PLACE_IN_ROW)
    number = reductions.numbering(f"{'_row * _cols + ' if task.axes[:-1] else ''}_t")
    iteration, loose = reductions.reassociable_sums()
    memory = _Memory(task.names)
    iteration = memory.taken_from(iteration)
    bounds = {axis.variable: start for axis in task.axes if (start := _constant_bound(axis)) is not None}
    arrays = {leaf.name for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}

    def loops_around(statements: Statements) -> Statements:
        return _checked_loops(task, bounds, [*number, *with_natural_remainders(statements, arrays)])

    loops = collecting(task, bins, iteration, loops_around) if bins else loops_around(iteration)
    names = {**reductions.names, **loose, **(collecting_names(bins) if bins else {})}
    first = [*head, *prologue(task, dtypes), *memory.allocations, *generated(*reductions.identities)]
    body = [*first, *loops, *reductions.chunk_partials()]
    fixed = ["_chunk", "_rows", "_cols", "_row_step", "_col_step"]
    return outlined(program, f"{task.name}_chunk", body, names, task.span, first=fixed)


def finish_function(program: Program, task: Task, dtypes: Dtypes) -> tuple[tuple[Parameter, ...], Function]:
    """On the CPU: combines the results of ``_chunks`` chunks of a loop with reductions."""
    reductions = ReductionCode(task, dtypes)
    body = [*prologue(task, dtypes), *reductions.cpu_finish()]
    return outlined(program, f"{task.name}_finish", body, reductions.names, task.span, first=["_chunks"])


def _checked_loops(task: Task, bounds: Mapping[str, int], iteration: Statements) -> Statements:
    """The loops of a chunk. ``bounds`` are the variables that are known not to fall below a constant.

    Where only the arguments tell whether an index may be negative, there are two copies: one for chunks in which none is,
    and one that counts negative indices from the end, and which the compiler can rarely vectorise.
    """
    plain = _loops(task, bounds, iteration)
    offsets = _index_offsets(task.body)
    checked = {axis.variable: axis for axis in task.axes if axis.variable in offsets and axis.variable not in bounds}
    if not checked or any(_never(axis) for axis in checked.values()) or has_loops(walk(task.body)):
        return plain
    conditions = []
    for position, axis in enumerate(task.axes):
        if axis.variable in checked:
            ends = _ends(task, position)
            if ends is None:
                return plain
            first, last = (affine(axis, value) for value in ends)
            low, high = offsets[axis.variable], intrinsics.INDEX_LIMIT
            conditions.append(f"_min({first}, {last}) >= {low} and _max({first}, {last}) < {high}")
    known = {**bounds, **{name: offsets[name] for name in checked}}
    choice = [f"if {' and '.join(conditions)}:", "    fast", "else:", "    plain"]
    return generated(*choice, fast=_loops(task, known, iteration), plain=plain)


def _loops(task: Task, bounds: Mapping[str, int], iteration: Statements) -> Statements:
    """The loops over the rows and columns of a chunk; the compiler is told what ``bounds`` says of the loop variables."""
    *rows, last = task.axes
    across = [*unravel(task, "_t", (last,)), *_told((last,), bounds), *index_tuple(task), *iteration]
    loop = generated("for _t in _range(_col0, _col1):", "    iteration", iteration=across)
    if _goes_down_columns(task, iteration):
        loop = generated(
            f"_last = _col0 + (_col1 - _col0) // {_COLUMNS} * {_COLUMNS}",
            f"for _t in _range(_col0, _last, {_COLUMNS}):",
            "    columns",
            "for _t in _range(_last, _col1):",
            "    iteration",
            columns=_columns(task, bounds, iteration),
            iteration=across,
        )
    if not rows:
        return loop
    row = [*unravel(task, "_row", rows), *_told(rows, bounds), *loop]
    return generated("for _row in _range(_row0, _row1):", "    row", row=row)


def _goes_down_columns(task: Task, iteration: Statements) -> bool:
    """Whether each iteration has one loop, of plain statements, that goes down a column of an array, as sums along its rows do.

    The next iteration has the column beside it, and takes as many cache lines again.
    """
    proved = task.verdict is not None and task.verdict.kind == "independent"
    loops = [each for each in iteration if isinstance(each, ast.For)]
    if not proved or len(loops) != 1 or task.reductions or task.index_tuple or len([*walk(iteration)]) > _MOST_NODES:
        return False
    (loop,) = loops
    around = [each for each in iteration if each is not loop]
    statements = [*around, *loop.body]
    if loop.orelse or not isinstance(loop.target, ast.Name) or not all(isinstance(each, _PLAIN) for each in statements):
        return False
    inner, column = loop.target.id, task.axes[-1].variable
    own = stored_in(statements) | {column}
    if inner in own.union(*map(names_in, around)) or own & names_in(loop.iter):
        return False
    indices = (node.slice for node in walk(loop.body) if isinstance(node, ast.Subscript))
    several = (index.elts for index in indices if isinstance(index, ast.Tuple) and index.elts)
    found = (([*map(names_in, first)], names_in(last)) for *first, last in several)
    return any(column in last and inner not in last and inner in frozenset().union(*first) for first, last in found)


def _columns(task: Task, bounds: Mapping[str, int], iteration: Statements) -> Statements:
    """``_COLUMNS`` neighbouring iterations whose loops are one: each does what it does alone, in the same order."""
    last = task.axes[-1]
    before, loop, after = around_loop([_InOrder(task.names).visit(copied(each)) for each in iteration])
    own = stored_in([*before, *loop.body, *after]) | {last.variable}
    parts: list[list[ast.stmt]] = [[], [], []]
    for column in range(_COLUMNS):
        names = {name: f"_column{column}_{name}" for name in own}
        begin = [*generated(f"{last.variable} = {affine(last, f'(_t + {column})')}"), *_told((last,), bounds), *before]
        for number, statements in enumerate((begin, loop.body, after)):
            parts[number] += renamed(statements, names)
    together = copied(loop)
    together.body = parts[1]
    return [*parts[0], together, *parts[2]]


class _Memory(ast.NodeTransformer):
    """What allocates arrays on the heap in an iteration, which leaves nothing there to the next one: a chunk does it once.

    Each page of new memory may be a fault, where the one before it was given back to the system.
    """

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names
        self.allocations: list[ast.stmt] = []

    def taken_from(self, iteration: list[ast.stmt]) -> list[ast.stmt]:
        """``iteration`` without them."""
        if not any(value is intrinsics.heap_array for value in self._names.values()):
            return iteration
        left = (self.visit(copied(each)) for each in iteration)
        return [each for each in left if each is not None]

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        if not isinstance(node.value, ast.Call) or self._names.get(called_name(node.value)) is not intrinsics.heap_array:
            return node
        self.allocations.append(node)
        return None


class _InOrder(ast.NodeTransformer):
    """Sums that go along a column one by one: columns that are side by side fill vectors, and a sum in parts would gather."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if self._names.get(called_name(node)) is not intrinsics.reassociable_add:
            return node
        left, right = node.args
        return ast.copy_location(ast.BinOp(left, ast.Add(), right), node)


def _told(axes: Sequence[Axis], bounds: Mapping[str, int]) -> Statements:
    names = [axis.variable for axis in axes if axis.variable in bounds]
    return generated(*(f"{name} = _assume_ge({name}, {bounds[name]})" for name in names))


def _constant_bound(axis: Axis) -> int | None:
    """Where the range counts up from a constant that is not negative, that constant."""
    start, step = _integer(axis.start), _integer(axis.step)
    # A loop with small steps cannot count up to the limit: it would take years.
    small = start is not None and step is not None and 0 <= start <= _SMALL and 0 < step <= _SMALL
    return start if small else None


def _never(axis: Axis) -> bool:
    """Whether the variable certainly starts below zero."""
    start = _integer(axis.start)
    return start is not None and start < 0


def _ends(task: Task, position: int) -> tuple[str, str] | None:
    """The first and last number of iteration that axis ``position`` has in a chunk, or in all chunks where that is simpler."""
    if position == len(task.axes) - 1:
        return "_col0", "_col1 - 1"
    if len(task.axes) == 2:
        return "_row0", "_row1 - 1"
    axis = task.axes[position]
    return None if axis.on_device else ("0", f"({ast.unparse(axis.count)}) - 1")


def _index_offsets(body: Statements) -> dict[str, int]:
    """The names in indices, and how far below each name an index of the form ``name - constant`` reaches."""
    found: dict[str, int] = {}
    for node in (child for child in walk(body) if isinstance(child, ast.Subscript)):
        for child in nodes_of(node.slice):
            if isinstance(child, ast.Name):
                found.setdefault(child.id, 0)
            elif isinstance(child, ast.BinOp) and isinstance(child.op, ast.Sub) and isinstance(child.left, ast.Name):
                below = _integer(child.right)
                if below is not None and 0 <= below <= _SMALL:
                    found[child.left.id] = max(found.get(child.left.id, 0), below)
    return found


def _integer(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _integer(node.operand)
        return None if value is None else -value
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None
