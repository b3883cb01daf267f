"""Program -> one CUDA kernel of one block: control flow included, each task's iterations spread over the block's threads.

All threads run the control flow, which is the same for all of them; barriers stand there alone, never in the functions that
tasks become, so every thread meets each of them. Between two tasks there is one, unless one thread runs both. What decides a
loop or branch reaches all threads through the barrier itself: nobody reads a slot that the first thread may be writing again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qgraph.ir.artifacts import Parameter, TaskCode
from qgraph.ir.functions import Function
from qgraph.ir.plan import BLOCK_THREADS, GraphPlan
from qgraph.ir.program import NUMBER, Branch, Loop, NodeStatement, Program, Statement, Task, TaskStatement, itemsize
from qgraph.lowering.codegen.cpu_codegen import calls_name
from qgraph.lowering.codegen.cuda_codegen import constant_arrays
from qgraph.lowering.codegen.generated_names import HANDLE, SLOTS, Dtypes, generated, place_at, shared_arrays
from qgraph.lowering.codegen.privatised_histogram_cuda import strided
from qgraph.lowering.codegen.reductions import (
    block_combine,
    block_finish,
    block_store,
    carried_dtypes,
    identities,
    numbered,
    reduction_names,
)
from qgraph.lowering.codegen.task_codegen import (
    BUILTINS,
    CUDA_MODULE,
    EARLY,
    make_function,
    ordered,
    parameters_of,
    product,
    prologue,
    serial_function,
    task_names,
    unravel,
)
from qgraph.lowering.graph.single_block import entry_of
from qgraph.source import Span

_BARRIER = "_cuda.syncthreads()"
# How many values a thread combines between two barriers.
_FAN = 8
# Bytes of shared memory that values of reductions may take: devices have 48 KiB for the asking.
_SHARED_BYTES = 40 * 1024


def block_code(plan: GraphPlan, cuda: object, dtypes: Dtypes) -> tuple[TaskCode, Function]:
    """The kernel that is the whole program of ``plan``, right for one block of any number of threads.

    ``cuda`` is the module that gives thread indices, ``numba.cuda`` or its simulator, or what stands for it meanwhile.
    """
    program = plan.program
    writer = _Block(program, cuda, dtypes)
    body = [*writer.head(), *writer.block(program.body)]
    # Its place among the tasks of the plan is that of the first: a code has one.
    first = next(node.task for node in plan.nodes if node.task is not None)
    parameters = (*ordered(program, writer.used - {HANDLE.name}), EARLY)
    function = make_function(entry_of(program), [p.name for p in parameters], body, writer.names, first)
    code = TaskCode(
        task=first,
        entry=function.name,
        source=ast.unparse(function.tree),
        parameters=parameters,
        counts=(),
        single=False,
        on_device=False,
        # What one task reads, another one of this kernel may write.
        constant=constant_arrays(program, parameters, tuple(program.tasks())),
    )
    return code, function


@dataclass(slots=True)
class _Lines:
    """Lines of the kernel, and what stands between them and those that follow.

    ``owed``: ``one`` where only the first thread has run something since the last barrier, ``all`` where others have too.
    """

    lines: list[str] = field(default_factory=list)
    owed: str = ""

    def one(self, pad: str, *statements: str) -> None:
        """Statements for the first thread, behind all that any thread did."""
        if self.owed == "all":
            self.settle(pad)
        if not self.owed:
            self.lines.append(f"{pad}if _lane == 0:")
        self.lines += [f"{pad}    {statement}" for statement in statements]
        self.owed = "one"

    def all(self, pad: str, *statements: str) -> None:
        """Statements for all threads, behind all that any thread did."""
        self.settle(pad)
        self.lines += [f"{pad}{statement}" for statement in statements]
        self.owed = "all"

    def settle(self, pad: str) -> None:
        """A barrier, if anything was done since the last one."""
        if self.owed:
            self.lines.append(f"{pad}{_BARRIER}")
        self.owed = ""

    def control(self, pad: str, line: str) -> None:
        """A line that all threads take the same way."""
        assert not self.owed, "a barrier is missing"
        self.lines.append(f"{pad}{line}")

    def vote(self, pad: str, name: str, slot: int) -> None:
        """Behind all that any thread did, ``name`` is not 0 in every thread if the first one finds ``slot`` so: a barrier."""
        self.lines.append(f"{pad}{name} = _cuda.syncthreads_or(1 if _lane == 0 and {SLOTS.name}[{slot}] != 0 else 0)")
        self.owed = ""


class _Block:
    """Writes the control flow, and collects the functions of the tasks and what these need."""

    def __init__(self, program: Program, cuda: object, dtypes: Dtypes) -> None:
        self._program = program
        self._dtypes = dtypes
        self._places = {task.name: _shared_places(task, dtypes) for task in program.tasks() if task.reductions}
        self._lanes = _lanes(self._places.values())
        self._spans: dict[str, Span] = {}
        self._votes = 0
        self.names: dict[str, object] = {**BUILTINS, CUDA_MODULE: cuda}
        self.used: set[str] = {SLOTS.name}

    def head(self) -> list[ast.stmt]:
        """The thread's place, and the shared memory in which values of reductions meet."""
        # There is one block, so these are the thread and the width; they have 64 bits, and an iteration's number must.
        body = generated("_lane = _cuda.grid(1)\n_width = _cuda.gridsize(1)")
        totals = _totals(self._places.values())
        if not totals:
            return body
        self.names |= {f"_type_{dtype}": np.dtype(dtype) for dtype in totals}
        arrays = [
            f"{_shared(dtype)} = _cuda.shared.array({count * self._lanes}, _type_{dtype})" for dtype, count in totals.items()
        ]
        shared = shared_arrays(self._program.span, arrays)
        return [*body, *generated(f"_lanes = _min(_width, {self._lanes})"), *shared]

    def block(self, statements: Sequence[Statement]) -> list[ast.stmt]:
        """The statements of a region as code."""
        out = _Lines()
        self._block(statements, out, "")
        tree = ast.parse("\n".join(out.lines) or "pass")
        # Each call stands where its task does, so that an error in it names the user's line.
        for node in ast.walk(tree):
            called = node.func.id if calls_name(node) and isinstance(node.func, ast.Name) else ""
            place_at(node, self._spans.get(called, self._program.span))
        return tree.body

    def _block(self, statements: Sequence[Statement], out: _Lines, pad: str) -> None:
        for statement in statements:
            match statement:
                case TaskStatement():
                    self._task(statement.task, out, pad)
                case Loop():
                    self._loop(statement, out, pad)
                case Branch():
                    self._branch(statement, out, pad)
                case NodeStatement():
                    raise AssertionError("one block has no other nodes")

    def _loop(self, loop: Loop, out: _Lines, pad: str) -> None:
        again, decided = self._vote_name(), loop.condition_slot.index
        if loop.enter is not None:
            self._task(loop.enter, out, pad)
        if loop.test_first:
            out.vote(pad, again, decided)
        else:
            out.settle(pad)
            out.control(pad, f"{again} = 1")
        out.control(pad, f"while {again} != 0:")
        inner = pad + "    "
        self._block(loop.body, out, inner)
        self._task(loop.condition, out, inner)
        out.vote(inner, again, decided)

    def _branch(self, branch: Branch, out: _Lines, pad: str) -> None:
        decided = branch.condition_slot.index
        chosen = self._vote_name()
        self._task(branch.decide, out, pad)
        if branch.kind == "if":
            out.vote(pad, chosen, decided)
        else:
            out.settle(pad)
            # All have read it before anybody decides again.
            out.control(pad, f"{chosen} = {SLOTS.name}[{decided}]")
            out.control(pad, _BARRIER)
        for number, region in enumerate(branch.regions):
            test = f"{chosen} == {number}" if branch.kind == "switch" else f"{chosen} {'=' if number else '!'}= 0"
            out.control(pad, f"{'elif' if number else 'if'} {test}:")
            out.control(pad, "    pass")
            self._block(region, out, pad + "    ")
            out.settle(pad + "    ")

    def _vote_name(self) -> str:
        self._votes += 1
        return f"_vote{self._votes}"

    # --- tasks ---------------------------------------------------------------------------------------------------------

    def _task(self, task: Task, out: _Lines, pad: str) -> None:
        if not task.axes:
            parameters, function = serial_function(self._program, task, self._dtypes)
            out.one(pad, self._call(function, task, parameters))
        elif task.reductions:
            self._reducing(task, out, pad)
        else:
            out.all(pad, self._iterations(task, "_width"))

    def _reducing(self, task: Task, out: _Lines, pad: str) -> None:
        """The iterations leave one value a thread in shared memory; rounds combine these until the first thread has all."""
        places = self._places[task.name]
        total = product([axis.count for axis in task.axes])
        self.used |= {child.id for axis in task.axes for child in ast.walk(axis.count) if isinstance(child, ast.Name)}
        out.all(pad, "if _lane < _lanes:", f"    {self._iterations(task, '_lanes')}")
        out.settle(pad)
        shared = [Parameter("slots", name) for name in sorted({_shared(dtype) for dtype, _ in places.values()})]
        names = {**task_names(task, self._dtypes), **reduction_names(task, self._dtypes), **BUILTINS}
        body = block_combine(task, self._dtypes, self._shared_place(task))
        fixed = ["_lane", "_held", "_part"]
        combine = make_function(f"{task.name}_combine", [*fixed, *(p.name for p in shared)], body, names, task)
        out.lines += [
            f"{pad}_held = _min(_lanes, {total})",
            f"{pad}while _held > 1:",
            f"{pad}    _part = (_held + {_FAN - 1}) // {_FAN}",
            f"{pad}    if _lane < _part:",
            f"{pad}        {self._call(combine, task, shared, fixed)}",
            f"{pad}    {_BARRIER}",
            f"{pad}    _held = _part",
        ]
        body = [*prologue(task, self._dtypes), *block_finish(task, self._dtypes, self._shared_place(task))]
        parameters = parameters_of(self._program, task, body)
        finish = make_function(f"{task.name}_finish", [p.name for p in (*shared, *parameters)], body, names, task)
        out.one(pad, f"if {total} > 0:", f"    {self._call(finish, task, (*shared, *parameters))}")

    def _iterations(self, task: Task, width: str) -> str:
        """The call of a function that runs a thread's share of the iterations: every ``width``-th one."""
        counts = [axis.count for axis in task.axes]
        number = generated(f"{NUMBER} = _t") if numbered(task) else []
        head = generated("\n".join([*identities(task, self._dtypes), f"_n = {product(counts)}", "_first = _lane"]))
        loops = strided([*unravel(task, "_t", task.axes), *number, *task.body], several=False)
        body = [*prologue(task, self._dtypes), *head, *loops]
        names = {**task_names(task, self._dtypes), **reduction_names(task, self._dtypes), **BUILTINS}
        shared: list[Parameter] = []
        if task.reductions:
            body += block_store(task, self._dtypes, self._shared_place(task))
            places = self._places[task.name].values()
            shared = [Parameter("slots", name) for name in sorted({_shared(dtype) for dtype, _ in places})]
        parameters = parameters_of(self._program, task, body)
        arguments = ["_lane", "_stride", *(p.name for p in (*shared, *parameters))]
        function = make_function(task.name, arguments, body, names, task)
        return self._call(function, task, (*shared, *parameters), ["_lane", width])

    def _shared_place(self, task: Task) -> Mapping[str, str]:
        """For each value that the iterations combine, by local name: its place in shared memory, up to the thread's number."""
        return {
            local: f"{_shared(dtype)}[{number * self._lanes} + " for local, (dtype, number) in self._places[task.name].items()
        }

    def _call(self, function: Function, task: Task, parameters: Sequence[Parameter], first: Sequence[str] = ()) -> str:
        self.names[function.name] = function
        self._spans[function.name] = task.span
        self.used |= {parameter.name for parameter in parameters if not parameter.name.startswith("_shared_")}
        # Nothing here has a conditional handle: conditions are slots.
        arguments = [*first, *("0" if parameter is HANDLE else parameter.name for parameter in parameters)]
        return f"{function.name}({', '.join(arguments)})"


# --- shared memory ----------------------------------------------------------------------------------------------------

# For each local of a task's reductions: its dtype, and the how manieth of that dtype it is.
_Places = Mapping[str, tuple[str, int]]


def _shared(dtype: str) -> str:
    return f"_shared_{dtype}"


def _shared_places(task: Task, dtypes: Dtypes) -> dict[str, tuple[str, int]]:
    counts: dict[str, int] = {}
    places = {}
    for local, dtype in carried_dtypes(task, dtypes):
        places[local] = dtype, counts.get(dtype, 0)
        counts[dtype] = counts.get(dtype, 0) + 1
    return places


def _totals(tasks: Iterable[_Places]) -> dict[str, int]:
    """How many values a thread may have of each dtype: tasks use the same memory one after another."""
    totals: dict[str, int] = {}
    for places in tasks:
        for dtype, number in places.values():
            totals[dtype] = max(totals.get(dtype, 0), number + 1)
    return totals


def _lanes(tasks: Iterable[_Places]) -> int:
    """How many threads combine values: as many as there is shared memory for."""
    each = sum(count * itemsize(dtype) for dtype, count in _totals(tasks).items())
    lanes = BLOCK_THREADS
    while lanes * each > _SHARED_BYTES and lanes > 1:
        lanes //= 2
    return lanes
