"""Task -> Python: the function that a task becomes on CUDA and the simulator, and which iterations a thread of it has."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from qgraph.ir.artifacts import COARSENING, COPIED, TILE_HEIGHT, TILE_ROWS, WARP, Parameter, TaskCode
from qgraph.ir.functions import Function
from qgraph.ir.plan import GraphPlan, Node, Unrolling
from qgraph.ir.program import NUMBER, Counter, Loop, Program, Selection, Task
from qgraph.ir.renaming import ReservedNames, apart_from
from qgraph.lowering.codegen.cooperative_codegen import lane_names, with_row_threads
from qgraph.lowering.codegen.cooperative_rows import shared_loop
from qgraph.lowering.codegen.generated_names import Dtypes
from qgraph.lowering.codegen.generated_names import generated as _statements
from qgraph.lowering.codegen.privatised_histogram_cuda import Bins, bin_names, binning, bins_of, strided
from qgraph.lowering.codegen.reductions import cuda_finish, identities, numbered, reduction_names
from qgraph.lowering.codegen.store_sinking import with_stores_last
from qgraph.lowering.codegen.task_codegen import (
    BUILTINS,
    CUDA_MODULE,
    EARLY,
    affine,
    index_tuple,
    make_function,
    one_thread_body,
    operations,
    parameters_of,
    product,
    prologue,
    replace_continue,
    serial_function,
    task_names,
    unravel,
)
from qgraph.lowering.codegen.tiling import turns
from qgraph.lowering.codegen.unrolling import TURN, emit_counter_step, emit_guard_store, entering, guard, stepping
from qgraph.source import copied

# As in ``TaskCode``.
Arrays = tuple[tuple[str, tuple[str, ...]], ...]

# The most nodes of the syntax tree of a light loop's body; and how many light loops, joined, are still light.
_LIGHT = 200
_MOST_LIGHT = 3


class Kernels:
    """Writes the kernels of a plan.

    Args:
        cuda: the module that gives thread indices, ``numba.cuda`` or its simulator, or what stands for it meanwhile.
        dtypes: the types of kernel scalars.
    """

    def __init__(self, plan: GraphPlan, cuda: object, dtypes: Dtypes) -> None:
        self._plan = plan
        self._cuda = cuda
        self._dtypes = dtypes
        self._guards = plan.guards
        self._entries = plan.entries

    def of(self, node: Node) -> Iterator[tuple[str, TaskCode, Function]]:
        """All kernels of ``node``, each with its name: one, or a second one for the copies of a loop that is counted."""
        assert node.task is not None
        unrolling = self._guards.get(node.index)
        yield node.task.name, *self._code(node, unrolling)
        counted = None if unrolling is None else unrolling.counted
        arrays = {} if counted is None else dict(counted.arrays)
        if unrolling is not None and node.index in arrays:
            name = f"{node.task.name}{COPIED}"
            code, function = self._code(node, unrolling, arrays[node.index])
            yield name, replace(code, entry=name), replace(function, name=name)

    def _code(self, node: Node, unrolling: Unrolling | None, arrays: Arrays = ()) -> tuple[TaskCode, Function]:
        """The kernel of ``node``; in the body of an unrolled loop it begins with a guard."""
        program, task = self._plan.program, node.task
        entered = self._entries.get(node.index)
        if entered is not None and entered.counted is not None:
            counter = self._counter(entered)
            node = _with_decision(node, lambda task: entering(task, entered, counter))
        if unrolling is None:
            code, function = _code(program, node, self._cuda, self._dtypes, [])
        else:
            head = guard(unrolling, node)
            around = None
            if unrolling.counted is not None:
                counter = self._counter(unrolling)
                if unrolling.counted.node == node.index:
                    around = functools.partial(emit_counter_step, unrolling=unrolling, counter=counter)
                else:
                    node, variables = stepping(node, counter)
                    head += variables
            node = _with_decision(node, lambda task: emit_guard_store(task, unrolling))
            code, function = _code(program, node, self._cuda, self._dtypes, head, arrays, around)
        assert task is not None
        return replace(code, task=task), function

    def _counter(self, unrolling: Unrolling) -> Counter:
        control = self._plan.nodes[unrolling.node].control
        assert isinstance(control, Loop)
        assert control.counter is not None
        return control.counter


def _with_decision(node: Node, change: Callable[[Task], Task]) -> Node:
    """The node with another task in place of the one that sets a condition, if there is one in its kernel."""

    def changed(tasks: Sequence[Task]) -> tuple[Task, ...]:
        return tuple(change(task) if task is node.decision else task for task in tasks)

    assert node.task is not None
    return replace(node, task=changed((node.task,))[0], first=changed(node.first), then=changed(node.then))


def _code(
    program: Program,
    node: Node,
    cuda: object,
    dtypes: Dtypes,
    head: Sequence[ast.stmt],
    arrays: Arrays = (),
    around: Callable[[Sequence[ast.stmt]], list[ast.stmt]] | None = None,
) -> tuple[TaskCode, Function]:
    """The kernel of ``node``, which begins with ``head``.

    ``arrays`` are parameters in place of selections; ``around`` makes its body of that of one thread.
    """
    task = node.task
    assert task is not None
    if node.beside:
        return _beside(program, node, cuda, dtypes, head)
    counts = [axis.count for axis in task.axes]
    names = {**task_names(task, dtypes), **BUILTINS, CUDA_MODULE: cuda}
    several = bool(task.axes) and not task.on_device and _is_light(task)
    bins = bins_of(program, task)
    plane: Literal["", "rows", "tiles"] = ""
    if len(counts) > 1 and not (task.on_device or task.reductions or bins):
        plane = "tiles" if several and turns(program, task) else "rows"
        # What a row loads must wait for what the row before it stores: then as many threads as rows are faster.
        several = several and (plane == "tiles" or not _loads_what_it_stores(task))
    shared = None if node.first or node.then else shared_loop(program, task)
    # Only from here on: both kernels of a node must have the same launch shape.
    selections = task.selections if arrays else ()
    task = _stores_last(program, node, replace(task, selections=()) if arrays else task, bins)
    first, then = ([_call(program, each, dtypes) for each in tasks] for tasks in (node.first, node.then))
    names |= {function.name: function for _, function in (*first, *then)}
    if not task.axes:
        body = [*one_thread_body(task, dtypes), *(call for call, _ in then)]
        body = body if around is None else around(body)
    elif task.reductions:
        names |= reduction_names(task, dtypes)
        several = _is_light(task)
        last = [call for call, _ in first], [call for call, _ in then]
        body = _reducing(task, counts, dtypes, last, several=several)
    elif bins:
        names |= bin_names(bins)
        several = False
        body = _binning(task, counts, dtypes, bins)
    elif task.on_device:
        body = [*prologue(task, dtypes), *_grid_stride(task, counts)]
    elif plane:
        body = _in_tiles(task, counts, dtypes) if plane == "tiles" else _by_rows(task, counts, dtypes, several=several)
    elif shared is not None:
        names |= lane_names()
        body = with_row_threads(task, shared, counts, dtypes)
    else:
        body = _several(task, counts, dtypes) if several else _one_thread(task, counts, dtypes)
    how = _ThreadMapping(
        counts=() if task.on_device or not counts else (tuple(_name_of(count) for count in counts),),
        several=several,
        plane=plane,
        reduces=bool(task.reductions or bins),
        lanes=task.inner_length if shared is not None else "",
        arrays=arrays,
        selections=selections,
    )
    return _finished(program, node, [*head, *body], names, how)


@dataclass(frozen=True, slots=True)
class _ThreadMapping:
    """How threads lie over the iterations of a kernel; as in ``TaskCode``."""

    counts: tuple[tuple[str, ...], ...]
    several: bool = False
    plane: Literal["", "rows", "tiles"] = ""
    reduces: bool = False
    lanes: str = ""
    arrays: Arrays = ()
    selections: tuple[Selection, ...] = ()


def _finished(
    program: Program, node: Node, body: Sequence[ast.stmt], names: Mapping[str, object], how: _ThreadMapping
) -> tuple[TaskCode, Function]:
    """The kernel of ``node`` around its ``body``."""
    task = node.task
    assert task is not None
    types = {leaf.name: leaf.type for leaf in program.arrays_and_scalars}
    named = [Parameter("leaf", name, types[leaves[0]]) for name, leaves in how.arrays]
    parameters = (*parameters_of(program, task, body), *named, EARLY)
    function = make_function(task.name, [p.name for p in parameters], body, names, task)
    code = TaskCode(
        task=task,
        entry=task.name,
        source=ast.unparse(function.tree),
        parameters=parameters,
        counts=how.counts,
        single=not task.axes,
        on_device=task.on_device,
        several=how.several,
        plane=how.plane,
        constant=constant_arrays(program, parameters, node.tasks) - _changing(program, parameters, how.selections),
        reduces=how.reduces,
        lanes=how.lanes,
        arrays=how.arrays,
    )
    return code, function


def _beside(program: Program, node: Node, cuda: object, dtypes: Dtypes, head: Sequence[ast.stmt]) -> tuple[TaskCode, Function]:
    """The kernel of several loops: each has as many warps as it needs, in order, one iteration a thread."""
    task = node.task
    assert task is not None
    names: dict[str, object] = {**BUILTINS, CUDA_MODULE: cuda}
    body = [*head, *_statements("_t = _cuda.grid(1)")]
    common = {leaf.name for leaf in program.arrays_and_scalars} | {value.name for value in program.host_values}
    taken = ReservedNames(frozenset(), {})
    counts = []
    for each in (task, *node.beside):
        part = apart_from(_stores_last(program, node, each), taken)[0]
        taken |= ReservedNames.by(part, common)
        names |= task_names(part, dtypes)
        extents = [axis.count for axis in part.axes]
        counts.append(tuple(map(_name_of, extents)))
        # Threads between the end of a loop and the start of the next one have nothing to do.
        lines = _statements(f"_n = {product(extents)}\nif _t < _n: pass\n_t -= (_n + {WARP - 1}) & -{WARP}\nif _t < 0: return")
        mine = lines[1]
        assert isinstance(mine, ast.If)
        iteration = replace_continue(copied(list(part.body)))
        mine.body = [*prologue(part, dtypes), *unravel(part, "_t", part.axes), *iteration, ast.Return()]
        body += lines
    return _finished(program, node, body, names, _ThreadMapping(tuple(counts)))


def _call(program: Program, task: Task, dtypes: Dtypes) -> tuple[ast.stmt, Function]:
    """A call of a one-thread task, and the function that it is: its names are nothing to the kernel around it."""
    turn = any(isinstance(child, ast.Name) and child.id == TURN for each in task.body for child in ast.walk(each))
    _, function = serial_function(program, task, dtypes, [TURN] if turn else [])
    (call,) = _statements(f"{function.name}({', '.join(argument.arg for argument in function.tree.args.args)})")
    return call, function


def _stores_last(program: Program, node: Node, task: Task, bins: Sequence[Bins] = ()) -> Task:
    """One of the loops of a kernel with its loads before its stores; one that combines values, or is none, as it is."""
    if not task.axes or task.reductions or bins:
        return task
    return with_stores_last(program, task, frozenset().union(*(each.effects.writes for each in node.tasks)))


def constant_arrays(program: Program, parameters: Sequence[Parameter], tasks: Sequence[Task]) -> frozenset[str]:
    """The array parameters that nothing changes while the kernel runs."""
    # Scratch is how blocks talk to each other: its loads and stores stay where the fences are.
    arrays = {parameter.name for parameter in parameters if parameter.is_array and parameter.kind == "leaf"}
    shared = {name for pair in program.aliases if arrays.issuperset(pair) for name in pair}
    return frozenset(arrays - shared).difference(*(task.effects.writes for task in tasks))


def _loads_what_it_stores(task: Task) -> bool:
    """Whether a loop loads through a name, or from an array without another one, that it stores through."""
    moving = {leaf for each in task.selections for leaf in each.leaves}
    plainly = (task.effects.reads & task.effects.writes) - moving
    return bool(plainly) or any(each.read and each.written for each in task.selections)


def _changing(program: Program, parameters: Sequence[Parameter], selections: Sequence[Selection]) -> frozenset[str]:
    """Of names of arrays that change places, those of which something may change the memory. No two are the same array."""
    taken = {parameter.name for parameter in parameters if parameter.is_array}
    shared = {name for pair in program.aliases for name in pair}
    return frozenset(each.local for each in selections if each.written or {*each.leaves} & (taken | shared))


def _is_light(task: Task) -> bool:
    """Whether an iteration is a few operations: then memory is the limit, and a thread should have several in flight."""
    nodes = list(operations(task.body, task.names))
    most = _LIGHT * min(len(task.written), _MOST_LIGHT)
    return len(nodes) <= most and not any(isinstance(node, (ast.For, ast.While)) for node in nodes)


def _several(task: Task, counts: Sequence[ast.expr], dtypes: Dtypes) -> list[ast.stmt]:
    """One iteration a thread on a grid that has enough of them; else ``COARSENING``, a block apart so that accesses coalesce.

    The loads of all of them start before the first store, which one iteration a thread cannot fill memory with. The body is
    there twice: for threads with all of their iterations, and for one iteration or those that are left.
    """
    head = _statements(f"_n = {product(counts)}\n_first = _cuda.grid(1)\nif _first >= _n: return")
    choice, rest = _statements(
        # One iteration: the next one is past the end.
        "if _cuda.gridsize(1) < _n:\n"
        "    _across = _cuda.threadIdx.x\n"
        "    _step = _cuda.blockDim.x\n"
        f"    _first = (_first - _across) * {COARSENING} + _across\n"
        f"    if _first + _step * {COARSENING - 1} < _n:\n"
        f"        for _part in _range({COARSENING}):\n"
        "            _t = _assume_ge(_first + _part * _step, 0)\n"
        "        return\n"
        f"    _stop = _min(_n, _first + _step * {COARSENING})\n"
        "else:\n"
        "    _step = _n\n"
        "    _stop = _n\n"
        "while _first < _stop:\n"
        "    _t = _assume_ge(_first, 0)\n"
        "    _first += _step"
    )
    assert isinstance(choice, ast.If)
    full, left = _loop_in(choice.body[-2]), rest
    assert isinstance(left, ast.While)
    full.body += [*unravel(task, "_t", task.axes), *copied(list(task.body))]
    left.body += [*unravel(task, "_t", task.axes), *copied(list(task.body))]
    return [*head, *prologue(task, dtypes), choice, rest]


def _loop_in(whole: ast.stmt) -> ast.For:
    """The loop over several iterations that is first under a condition."""
    assert isinstance(whole, ast.If)
    full = whole.body[0]
    assert isinstance(full, ast.For)
    return full


def _by_rows(task: Task, counts: Sequence[ast.expr], dtypes: Dtypes, *, several: bool) -> list[ast.stmt]:
    """A column of the last axis for each thread, and one row of the others together: no division for the last two axes.

    ``several``: on a grid with too few threads for all rows, each has ``COARSENING`` neighbouring rows, whose loads start
    together. The body is there twice then: for threads with all of their rows, and for one row or those that are left.
    Extents have 32 bits, and so have indices of two axes.
    """
    *others, last = counts
    rows = product(others)
    # Numbers of a launch have 32 bits, and so have sums and products of them.
    row = "(_cuda.blockIdx.z * _cuda.gridDim.y + _cuda.blockIdx.y) * _cuda.blockDim.y + _cuda.threadIdx.y"
    if len(others) > 1:
        row = "_assume_ge(_cuda.grid(2)[1] + _cuda.gridsize(2)[1] * _cuda.blockIdx.z, 0)"
    head = _statements(
        "_column = _assume_u32(_cuda.blockIdx.x * _cuda.blockDim.x + _cuda.threadIdx.x)\n"
        f"if _column >= _assume_u32({ast.unparse(last)}): return\n"
        f"_row = {row if len(others) > 1 else f'_assume_u32({row})'}"
    )
    # In 32 bits where that is certain: in a short kernel each instruction counts.
    all_rows, short = "_cuda.gridsize(2)[1] * _cuda.gridDim.z", ""
    if len(others) == 1:
        rows, short = f"_assume_u32({rows})", "_assume_u32"
        all_rows = "_assume_u32(_cuda.gridDim.y * _cuda.blockDim.y * _cuda.gridDim.z)"
    (across,) = _statements(f"{task.axes[-1].variable} = {affine(task.axes[-1], '_column')}")
    iteration = [*unravel(task, "_at", task.axes[:-1], narrow=True), across, *index_tuple(task), *task.body]
    if not several:
        (inside,) = _statements(f"if _row >= {rows}: return")
        at = _statements("_at = _row")
        return [*head, inside, *prologue(task, dtypes), *at, *replace_continue(copied(iteration))]
    choice, rest = _statements(
        f"if {all_rows} < {rows}:\n"
        f"    _row = {short}(_row * {COARSENING})\n"
        f"    if _row + {COARSENING - 1} < {rows}:\n"
        f"        for _part in _range({COARSENING}):\n"
        "            _at = _assume_ge(_row + _part, 0)\n"
        "        return\n"
        "    _step = 1\n"
        "else:\n"
        # One row: the next one is past the end.
        f"    _step = {rows}\n"
        f"while _row < {rows}:\n"
        "    _at = _assume_ge(_row, 0)\n"
        f"    _row = {short}(_row + _step)"
    )
    assert isinstance(choice, ast.If)
    assert isinstance(rest, ast.While)
    _loop_in(choice.body[1]).body += copied(iteration)
    rest.body += iteration
    return [*head, *prologue(task, dtypes), choice, rest]


def _in_tiles(task: Task, counts: Sequence[ast.expr], dtypes: Dtypes) -> list[ast.stmt]:
    """A column of the last of two axes for each thread, and ``COARSENING`` rows of the first, ``TILE_HEIGHT`` apart.

    So the threads of a warp have neighbouring columns and neighbouring rows. Extents have 32 bits.
    """
    rows, columns = map(ast.unparse, counts)
    shift = TILE_HEIGHT.bit_length() - 1
    head = _statements(
        f"_column = _assume_u32(_cuda.blockIdx.x * (_cuda.blockDim.x >> {shift}) + (_cuda.threadIdx.x >> {shift}))\n"
        "_row = (_cuda.blockIdx.z * _cuda.gridDim.y + _cuda.blockIdx.y) * "
        f"{TILE_ROWS} + (_cuda.threadIdx.x & {TILE_HEIGHT - 1})\n"
        "_row = _assume_u32(_row)\n"
        f"if _column >= {columns}: return"
    )
    whole, rest = _statements(
        f"if _row + {TILE_ROWS - TILE_HEIGHT} < {rows}:\n"
        f"    for _part in _range({COARSENING}):\n"
        f"        _at = _row + _part * {TILE_HEIGHT}\n"
        "    return\n"
        f"while _row < {rows}:\n"
        "    _at = _row\n"
        f"    _row += {TILE_HEIGHT}"
    )
    (across,) = _statements(f"{task.axes[-1].variable} = {affine(task.axes[-1], '_column')}")
    iteration = [*unravel(task, "_at", task.axes[:-1], narrow=True), across, *index_tuple(task), *task.body]
    _loop_in(whole).body += copied(iteration)
    assert isinstance(rest, ast.While)
    rest.body += iteration
    return [*head, *prologue(task, dtypes), whole, rest]


def _one_thread(task: Task, counts: Sequence[ast.expr], dtypes: Dtypes) -> list[ast.stmt]:
    """One thread an iteration; threads past the end return before they read anything."""
    guard = _statements(f"_t = _assume_ge(_cuda.grid(1), 0)\nif _t >= {product(counts)}: return")
    body = replace_continue(copied(list(task.body)))
    return [*guard, *prologue(task, dtypes), *unravel(task, "_t", task.axes), *body]


def _grid_stride(task: Task, counts: Sequence[ast.expr]) -> list[ast.stmt]:
    head = _statements("_first = _cuda.grid(1)\n_stride = _cuda.gridsize(1)")
    return [*_counted(counts), *head, *strided(_numbered_iteration(task, counts), several=False)]


def _reducing(
    task: Task,
    counts: Sequence[ast.expr],
    dtypes: Dtypes,
    last: tuple[Sequence[ast.stmt], Sequence[ast.stmt]],
    *,
    several: bool,
) -> list[ast.stmt]:
    """A grid-stride loop, then the reductions, with ``last``, what the last thread does before and after storing the results.

    ``several``: so many iterations at once, whose loads start together.
    """
    head = _statements(
        "\n".join(
            [
                *identities(task, dtypes),
                "_lane = _cuda.threadIdx.x",
                "_width = _cuda.blockDim.x",
                "_stride = _cuda.gridsize(1)",
                "_first = _cuda.grid(1)",
            ]
        )
    )
    loops = strided(_numbered_iteration(task, counts), several=several)
    return [*prologue(task, dtypes), *_counted(counts), *head, *loops, *cuda_finish(task, dtypes, *last)]


def _binning(task: Task, counts: Sequence[ast.expr], dtypes: Dtypes, bins: Sequence[Bins]) -> list[ast.stmt]:
    """A grid-stride loop whose colliding updates go to shared memory where that pays."""
    head = [*prologue(task, dtypes), *_counted(counts)]
    return binning(task, bins, head, _numbered_iteration(task, counts), several=_is_light(task))


def _counted(counts: Sequence[ast.expr]) -> list[ast.stmt]:
    """The extents, and their product ``_n``, each computed once."""
    lines = [f"_n{k} = {ast.unparse(count)}" for k, count in enumerate(counts)]
    return _statements("\n".join([*lines, f"_n = {' * '.join(f'_n{k}' for k in range(len(counts)))}"]))


def _numbered_iteration(task: Task, counts: Sequence[ast.expr]) -> list[ast.stmt]:
    """What iteration ``_t`` does, behind ``_counted``."""
    names = [ast.Name(f"_n{k}", ast.Load()) for k in range(len(counts))]
    number = _statements(f"{NUMBER} = _t") if numbered(task) else []
    return [*unravel(task, "_t", task.axes, names), *number, *task.body]


def _name_of(count: ast.expr) -> str:
    assert isinstance(count, ast.Name), "a count that the host knows is a host value"
    return count.id
