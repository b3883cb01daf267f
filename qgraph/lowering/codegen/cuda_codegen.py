"""Task -> Python: the function that a task becomes on CUDA and the simulator, and which iterations a thread of it has."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from qgraph.ir.artifacts import COPIED, ENDING, WARP, Parameter, TaskCode
from qgraph.ir.functions import Function
from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.profile_places import ENDED, WORDS
from qgraph.ir.program import Counter, Loop, Program, Selection, Task
from qgraph.ir.renaming import ReservedNames, apart_from
from qgraph.ir.unrolling import Unrolling
from qgraph.lowering.codegen.cooperative_codegen import lane_names, with_row_threads
from qgraph.lowering.codegen.cooperative_rows import shared_loops
from qgraph.lowering.codegen.generated_names import Dtypes, Globals, Statements, generated, indented, walk
from qgraph.lowering.codegen.handed_on import HandingCode
from qgraph.lowering.codegen.privatised_histogram_cuda import Bins, bin_names, binning, bins_of, strided
from qgraph.lowering.codegen.reduction_codegen import ReductionCode
from qgraph.lowering.codegen.store_sinking import with_stores_last
from qgraph.lowering.codegen.task_codegen import (
    BUILTINS,
    CUDA_MODULE,
    EARLY,
    STAMP_NAMES,
    has_loops,
    kernel_code,
    one_thread_body,
    operations,
    parameters_of,
    product,
    prologue,
    replace_continue,
    serial_function,
    stamp_lines,
    task_names,
    unravel,
)
from qgraph.lowering.codegen.thread_mapping import (
    by_rows,
    can_jam,
    in_tiles,
    jammed,
    one_block_each,
    row_iteration,
    several_iterations,
)
from qgraph.lowering.codegen.unrolling import TURN, emit_counter_step, emit_guard_store, entering, guard, stepping, stopping
from qgraph.lowering.graph.single_block import count_names
from qgraph.lowering.graph.tiling import turns

# As in ``TaskCode``.
Arrays = tuple[tuple[str, tuple[str, ...]], ...]

# The most nodes of the syntax tree of a light loop's body; and how many light loops, joined, are still light.
_LIGHT = 200
_MOST_LIGHT = 3
# Those of a grid that note when they have ended.
_LAST_BLOCKS = 32
_STAMPED = "_stamped"
_FIRST_BLOCK = " and ".join(f"_cuda.blockIdx.{axis} == 0" for axis in "xyz")
# The thread of a block that reads the clock for a profile: its warp has often nothing else to do.
_LAST_THREAD = " and ".join(f"_cuda.threadIdx.{axis} == _cuda.blockDim.{axis} - 1" for axis in "xyz")


class Kernels:
    """Writes the kernels of a plan.

    Args:
        cuda: the module that gives thread indices, ``numba.cuda`` or its simulator, or what stands for it meanwhile.
        dtypes: the types of kernel scalars.
    """

    def __init__(self, plan: GraphPlan, cuda: object, dtypes: Dtypes) -> None:
        self._plan = plan
        self._program = plan.program
        self._globals = {**BUILTINS, CUDA_MODULE: cuda}
        self._dtypes = dtypes
        self._guards = plan.guards
        self._entries = plan.entries
        self._stop = plan.stop
        self._gaps = any(node.ends for node in plan.nodes)

    def of(self, node: Node) -> Iterator[tuple[str, TaskCode, Function]]:
        """All kernels of ``node``, each with its name: one, or others for copies that have arrays of their own, or hand on."""
        assert node.task is not None
        unrolling = self._guards.get(node.index)
        yield node.task.name, *self._guarded(node, unrolling)
        arrays = {} if unrolling is None else dict((unrolling.counted or unrolling).arrays)
        if node.index in arrays:
            name = f"{node.task.name}{COPIED}"
            code, function = self._guarded(node, unrolling, arrays[node.index])
            yield name, replace(code, entry=name), replace(function, name=name)
        if unrolling is not None and unrolling.handed is not None:
            for ending, (code, function) in self._handing(node, unrolling):
                name = f"{node.task.name}{ending}"
                yield name, replace(code, entry=name), replace(function, name=name)

    def _handing(self, node: Node, unrolling: Unrolling) -> Iterator[tuple[str, tuple[TaskCode, Function]]]:
        """The kernel of ``node`` in copies of a loop that hands on, and the one behind these."""
        handed, task = unrolling.handed, node.task
        assert handed is not None
        assert task is not None
        code = HandingCode(self._plan, unrolling, self._dtypes)
        place = handed.nodes.index(node.index)
        arrays = dict(handed.arrays).get(node.index, ())
        selections = task.selections if arrays else ()
        # The results are those of the plain graph: the body is the same, and so is the order in which blocks combine.
        several, plane = _is_light(task), _over_rows(task)
        inside = self._stores_last(node, replace(task, selections=()) if arrays else task)
        reductions = ReductionCode(inside, self._dtypes)
        head, more = code.begin(place)
        loops = (_strided_rows if plane else _strided)(inside, reductions, several=several)
        last = code.leave(reductions) if task.reductions else []
        body = [
            *head,
            *self._stamp(node),
            *code.variables(inside),
            *_counted(inside),
            *generated(*reductions.identities),
            *loops,
            *last,
        ]
        made, function = self._finished(node, body, {**reductions.cuda_names, **self._globals, **more}, arrays)
        yield (
            COPIED,
            (
                replace(
                    made,
                    counts=(count_names(task),),
                    several=several,
                    plane="rows" if plane else "",
                    constant=made.constant - _changing(self._program, made.parameters, selections),
                    reduces=True,
                    arrays=arrays,
                    handed="copy",
                ),
                function,
            ),
        )
        if place == handed.deciding:
            end, more = code.end()
            made, function = self._finished(node, end, {**self._globals, **more})
            yield ENDING, (replace(made, single=False, reduces=True, handed="end"), function)

    def _guarded(self, node: Node, unrolling: Unrolling | None, arrays: Arrays = ()) -> tuple[TaskCode, Function]:
        """The kernel of ``node``; in the body of an unrolled loop it begins with a guard."""
        task = node.task
        assert task is not None
        node = _with_decision(node, lambda task: stopping(task, self._stop, unrolling))
        entered = self._entries.get(node.index)
        if entered is not None and entered.counted is not None:
            counter = self._counter(entered)
            node = _with_decision(node, lambda task: entering(task, entered, counter))
        head: Statements = []
        around = None
        if unrolling is not None:
            head = guard(unrolling, node)
            if unrolling.counted is not None:
                counter = self._counter(unrolling)
                if unrolling.counted.node == node.index:
                    around = functools.partial(emit_counter_step, unrolling=unrolling, counter=counter, stop=self._stop)
                else:
                    node, variables = stepping(node, counter)
                    head = [*head, *variables]
            node = _with_decision(node, lambda task: emit_guard_store(task, unrolling))
        head = [*head, *self._stamp(node)]
        if task.block is not None:
            code, function = self._blocks(node, head)
        else:
            code, function = self._beside(node, head) if node.beside else self._code(node, head, arrays, around)
        return replace(code, task=task), function

    def _counter(self, unrolling: Unrolling) -> Counter:
        control = self._plan.nodes[unrolling.node].control
        assert isinstance(control, Loop)
        assert control.counter is not None
        return control.counter

    def _code(
        self,
        node: Node,
        head: Statements,
        arrays: Arrays,
        around: Callable[[Statements], Statements] | None,
    ) -> tuple[TaskCode, Function]:
        """The kernel of ``node``, which begins with ``head``.

        ``arrays`` are parameters in place of selections; ``around`` makes its body of that of one thread.
        """
        task = node.task
        assert task is not None
        dtypes = self._dtypes
        several = bool(task.axes) and not task.on_device and _is_light(task)
        bins = bins_of(self._program, task)
        plane: Literal["", "rows", "tiles"] = ""
        if task.reductions and _over_rows(task):
            plane = "rows"
        elif len(task.axes) > 1 and not (task.on_device or task.reductions or bins):
            plane = "tiles" if several and turns(self._program, task) else "rows"
            # What a row loads must wait for what the row before it stores: then as many threads as rows are faster.
            several = several and (plane == "tiles" or not _loads_what_it_stores(task))
        shared = () if node.first or node.then else shared_loops(self._program, task)
        plane = "" if shared else plane
        jam = plane == "rows" and can_jam(task)
        # Only from here on: both kernels of a node must have the same launch shape.
        selections = task.selections if arrays else ()
        task = self._stores_last(node, replace(task, selections=()) if arrays else task, bins)
        body: Statements
        reductions = ReductionCode(task, dtypes)
        first, then = ([self._call(each) for each in tasks] for tasks in (node.first, node.then))
        names = {**reductions.names, **self._globals} | {function.name: function for _, function in (*first, *then)}
        before, after = ([call for call, _ in calls] for calls in (first, then))
        if not task.axes:
            body = [*one_thread_body(task, dtypes), *after]
            body = body if around is None else around(body)
        elif task.reductions:
            several = _is_light(task)
            names |= reductions.cuda_names
            loops = _strided_rows(task, reductions, several=several) if plane else _strided(task, reductions, several=several)
            body = _reducing(task, reductions, dtypes, loops, before, after)
        elif bins:
            names |= bin_names(bins)
            several = False
            # Updates that collide go to shared memory where that pays.
            extents = [*prologue(task, dtypes), *_counted(task)]
            body = binning(task, bins, extents, _numbered_iteration(task, reductions), several=_is_light(task))
        elif task.on_device and not shared:
            stride = generated("_first = _cuda.grid(1)", "_stride = _cuda.gridsize(1)")
            loop = strided(_numbered_iteration(task, reductions), several=False)
            body = [*prologue(task, dtypes), *_counted(task), *stride, *loop]
        elif plane == "tiles":
            body = in_tiles(task, dtypes)
        elif plane:
            body = jammed(task, dtypes) if jam else by_rows(task, dtypes, several=several)
        elif shared:
            names |= lane_names()
            body = with_row_threads(task, shared, dtypes)
        else:
            body = several_iterations(task, dtypes) if several else _one_thread(task, dtypes)
        code, function = self._finished(node, [*head, *body], names, arrays)
        return replace(
            code,
            counts=() if task.on_device or not task.axes else (count_names(task),),
            several=several or jam,
            plane=plane,
            jammed=jam,
            constant=code.constant - _changing(self._program, code.parameters, selections),
            reduces=bool(task.reductions or bins),
            lanes=task.inner_length if shared else "",
            broadcast=bool(shared) and task.broadcast,
            most_lanes=task.most_lanes,
            arrays=arrays,
        ), function

    def _finished(self, node: Node, body: Statements, names: Globals, arrays: Arrays = ()) -> tuple[TaskCode, Function]:
        """The kernel of ``node`` around its ``body``."""
        task = node.task
        assert task is not None
        types = {leaf.name: leaf.type for leaf in self._program.arrays_and_scalars}
        named = [Parameter("leaf", name, types[leaves[0]]) for name, leaves in arrays]
        body = _with_end(node, body)
        parameters = (*parameters_of(self._program, body), *named, EARLY)
        return kernel_code(self._program, task, task.name, parameters, body, {**names, **_stamp_names(node)}, node.tasks)

    def _stamp(self, node: Node) -> Statements:
        """For a profile one thread of the first block notes the time."""
        lines = [f"{_STAMPED} = True"] if node.ends else []
        if node.stamp:
            stamp = stamp_lines(node.stamp, alone=False, gaps=self._gaps)
            lines += [f"if {_FIRST_BLOCK} and {_LAST_THREAD}:", *indented(stamp)]
        return generated(*lines)

    def _blocks(self, node: Node, head: Statements) -> tuple[TaskCode, Function]:
        """The kernel of a loop of which a block of threads does each iteration."""
        task = node.task
        assert task is not None
        names = {**task_names(task, self._dtypes), **self._globals}
        code, function = self._finished(node, [*head, *one_block_each(task, self._dtypes)], names)
        changing = _changing(self._program, code.parameters, task.selections)
        return replace(code, counts=(count_names(task),), plane="blocks", constant=code.constant - changing), function

    def _beside(self, node: Node, head: Statements) -> tuple[TaskCode, Function]:
        """The kernel of several loops: each has as many warps as it needs, in order, one iteration a thread."""
        task = node.task
        assert task is not None
        names: dict[str, object] = {**self._globals}
        body = [*head, *generated("_t = _cuda.grid(1)")]
        common = {leaf.name for leaf in self._program.arrays_and_scalars} | {value.name for value in self._program.host_values}
        taken = ReservedNames(frozenset(), {})
        counts = []
        for each in (task, *node.beside):
            part = apart_from(self._stores_last(node, each), taken)[0]
            taken |= ReservedNames.by(part, common)
            names |= task_names(part, self._dtypes)
            counts.append(count_names(part))
            # Threads between the end of a loop and the start of the next one have nothing to do.
            body += generated(
                f"_n = {product(part.axes)}",
                "if _t < _n:",
                "    before",
                "    iteration",
                "    return",
                f"_t -= (_n + {WARP - 1}) & -{WARP}",
                "if _t < 0: return",
                before=[*prologue(part, self._dtypes), *unravel(part, "_t", part.axes)],
                iteration=replace_continue(part.body),
            )
        code, function = self._finished(node, body, names)
        return replace(code, counts=tuple(counts)), function

    def _call(self, task: Task) -> tuple[ast.stmt, Function]:
        """A call of a one-thread task, and the function that it is: its names are nothing to the kernel around it."""
        turn = any(isinstance(child, ast.Name) and child.id == TURN for child in walk(task.body))
        _, function = serial_function(self._program, task, self._dtypes, [TURN] if turn else [])
        (call,) = generated(f"{function.name}({', '.join(argument.arg for argument in function.tree.args.args)})")
        return call, function

    def _stores_last(self, node: Node, task: Task, bins: Sequence[Bins] = ()) -> Task:
        """One of the loops of a kernel with its loads before its stores; one that fills bins, or is none, as it is."""
        if not task.axes or bins:
            return task
        return with_stores_last(self._program, task, frozenset().union(*(each.effects.writes for each in node.tasks)))


def _with_decision(node: Node, change: Callable[[Task], Task]) -> Node:
    """The node with another task in place of the one that sets a condition, if there is one in its kernel."""

    def changed(tasks: Sequence[Task]) -> tuple[Task, ...]:
        return tuple(change(task) if task is node.decision else task for task in tasks)

    assert node.task is not None
    return replace(node, task=changed((node.task,))[0], first=changed(node.first), then=changed(node.then))


def _with_end(node: Node, body: Statements) -> Statements:
    """The body of a kernel; for a profile with launch gaps a thread of each of its last blocks notes when it ends."""
    if not node.ends:
        return body
    x, y, z = (f"_cuda.blockIdx.{axis}" for axis in "xyz")
    columns, rows, layers = (f"_cuda.gridDim.{axis}" for axis in "xyz")
    last = f"{x} + {columns} * ({y} + {rows} * {z}) >= {columns} * {rows} * {layers} - {_LAST_BLOCKS}"
    # A copy of a body whose guard stops it notes nothing.
    first = f"if {_STAMPED} and {_LAST_THREAD}:"
    lines = (first, f"    if {last}:", f"        _atomic_max({WORDS}, {ENDED}, _clock())")
    returns = _BeforeReturns(lambda: generated(*lines))
    return [*generated(f"{_STAMPED} = False"), *returns.visit(ast.Module([*body], [])).body, *generated(*lines)]


class _BeforeReturns(ast.NodeTransformer):
    """Puts statements before each return."""

    def __init__(self, statements: Callable[[], Statements]) -> None:
        self._statements = statements

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        return [*self._statements(), node]


def _stamp_names(node: Node) -> Globals:
    return STAMP_NAMES if node.stamp or node.ends else {}


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
    return len(nodes) <= _LIGHT * min(len(task.written), _MOST_LIGHT) and not has_loops(nodes)


def _one_thread(task: Task, dtypes: Dtypes) -> Statements:
    """One thread an iteration; threads past the end return before they read anything."""
    guard = generated("_t = _assume_ge(_cuda.grid(1), 0)", f"if _t >= {product(task.axes)}: return")
    return [*guard, *prologue(task, dtypes), *unravel(task, "_t", task.axes), *replace_continue(task.body)]


def _reducing(
    task: Task, reductions: ReductionCode, dtypes: Dtypes, loops: Statements, first: Statements, then: Statements
) -> Statements:
    """``loops``, then the reductions; the last thread does ``first`` and ``then`` around storing the results."""
    head = generated(
        *reductions.identities,
        "_lane = _assume_u32(_cuda.threadIdx.y * _cuda.blockDim.x + _cuda.threadIdx.x)",
        "_width = _assume_u32(_cuda.blockDim.x * _cuda.blockDim.y)",
    )
    return [*prologue(task, dtypes), *_counted(task), *head, *loops, *reductions.cuda_finish(first, then)]


def _strided(task: Task, reductions: ReductionCode, *, several: bool) -> Statements:
    """A grid-stride loop over all iterations, of any grid; ``several``: so many at once, whose loads start together."""
    stride = generated("_stride = _cuda.gridsize(1)", "_first = _cuda.grid(1)")
    return [*stride, *strided(_numbered_iteration(task, reductions), several=several)]


def _over_rows(task: Task) -> bool:
    """Whether threads of a loop with reductions have columns and rows."""
    return len(task.axes) > 1 and not task.on_device


def _strided_rows(task: Task, reductions: ReductionCode, *, several: bool) -> Statements:
    """The same with a column of the last axis for each thread, and rows of the others together: no division for two axes."""
    *others, last = _extents(task)
    rows = " * ".join(others)
    iteration = [*reductions.numbering(f"_t * {last} + _column"), *row_iteration(task, "_t")]
    return generated(
        f"_n = {rows}",
        "_column = _assume_u32(_cuda.blockIdx.x * _cuda.blockDim.x + _cuda.threadIdx.x)",
        "_stride = _assume_u32(_cuda.gridDim.y * _cuda.blockDim.y)",
        f"while _column < {last}:",
        "    _first = _assume_u32(_cuda.blockIdx.y * _cuda.blockDim.y + _cuda.threadIdx.y)",
        "    rows",
        "    _column += _cuda.gridDim.x * _cuda.blockDim.x",
        f"_n *= {last}",
        rows=strided(iteration, several=several),
    )


def _counted(task: Task) -> Statements:
    """The extents, and their product ``_n``, each computed once."""
    lines = [f"_n{k} = {ast.unparse(axis.count)}" for k, axis in enumerate(task.axes)]
    return generated(*lines, f"_n = {' * '.join(_extents(task))}")


def _extents(task: Task) -> list[str]:
    return [f"_n{k}" for k in range(len(task.axes))]


def _numbered_iteration(task: Task, reductions: ReductionCode) -> Statements:
    """What iteration ``_t`` does, behind ``_counted``."""
    return [*unravel(task, "_t", task.axes, _extents(task)), *reductions.numbering(), *task.body]
