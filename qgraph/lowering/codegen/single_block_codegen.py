"""Program -> one CUDA kernel of one block: control flow included, each task's iterations spread over the block's threads.

All threads run the control flow, which is the same for all of them; barriers stand there alone, never in the functions that
tasks become, so every thread meets each of them. Between two tasks there is one, unless one thread runs both. What decides a
loop or branch reaches all threads through the barrier itself: nobody reads a slot that the first thread may be writing again.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

import numpy as np

from qgraph.ir.artifacts import Parameter, TaskCode
from qgraph.ir.functions import Function
from qgraph.ir.plan import BLOCK_THREADS, GraphPlan
from qgraph.ir.program import Branch, Loop, NodeStatement, Program, Statement, Task, TaskStatement
from qgraph.ir.slots import itemsize
from qgraph.lowering.codegen.generated_names import (
    HANDLE,
    SLOTS,
    Dtypes,
    Statements,
    generated,
    indented,
    place_at,
    shared_arrays,
    walk,
)
from qgraph.lowering.codegen.privatised_histogram_cuda import strided
from qgraph.lowering.codegen.reduction_codegen import ReductionCode
from qgraph.lowering.codegen.task_codegen import (
    BUILTINS,
    CUDA_MODULE,
    EARLY,
    called_name,
    kernel_code,
    ordered,
    outlined,
    product,
    prologue,
    serial_function,
    unravel,
    without_handles,
)
from qgraph.lowering.graph.single_block import entry_of
from qgraph.records import dataclass
from qgraph.source import Span

_BARRIER = "_cuda.syncthreads()"
# A loop looks whether it was stopped once in so many iterations: a look takes as long as a short iteration.
_SELDOM = 64
# How many values a thread combines between two barriers.
_FAN = 8
# Bytes of shared memory that values of reductions may take: devices have 48 KiB for the asking.
_SHARED_BYTES = 40 * 1024


def block_code(plan: GraphPlan, cuda: object, dtypes: Dtypes) -> tuple[TaskCode, Function]:
    """The kernel that is the whole program of ``plan``, right for one block of any number of threads.

    ``cuda`` is the module that gives thread indices, ``numba.cuda`` or its simulator, or what stands for it meanwhile.
    """
    program = plan.timed or plan.program
    writer = _Block(program, plan.stop, cuda, dtypes)
    body = [*writer.head(), *writer.body()]
    # Its place among the tasks of the plan is that of the first: a code has one.
    first = next(node.task for node in plan.nodes if node.task is not None)
    parameters = (*ordered(program, writer.used - {HANDLE.name}), EARLY)
    # What one task reads, another one of this kernel may write.
    code, function = kernel_code(program, first, entry_of(program), parameters, body, writer.names, tuple(program.tasks()))
    return replace(code, single=False, on_device=False), function


@dataclass(slots=True)
class _Lines:
    """Lines of the kernel, and what stands between them and those that follow.

    ``owed``: ``one`` where only the first thread has run something since the last barrier, ``all`` where others have too.
    """

    lines: list[str] = field(default_factory=list)
    owed: str = ""
    _pad: str = ""

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """What is written meanwhile is in a block of its own."""
        before = self._pad
        self._pad += "    "
        yield
        self._pad = before

    def _write(self, *lines: str) -> None:
        self.lines += [self._pad + line for line in lines]

    def one(self, *statements: str) -> None:
        """Statements for the first thread, behind all that any thread did."""
        if self.owed == "all":
            self.settle()
        self._write(*([] if self.owed else ["if _lane == 0:"]), *indented(statements))
        self.owed = "one"

    def all(self, *statements: str) -> None:
        """Statements for all threads, behind all that any thread did."""
        self.settle()
        self._write(*statements)
        self.owed = "all"

    def settle(self) -> None:
        """A barrier, if anything was done since the last one."""
        if self.owed:
            self._write(_BARRIER)
        self.owed = ""

    def control(self, *lines: str) -> None:
        """Lines that all threads take the same way."""
        assert not self.owed, "a barrier is missing"
        self._write(*lines)

    def vote(self, name: str, condition: str) -> None:
        """Behind all that any thread did, ``name`` is not 0 in every thread if ``condition`` holds in the first: a barrier."""
        self._write(f"{name} = _cuda.syncthreads_or(1 if _lane == 0 and {condition} else 0)")
        self.owed = ""


class _Block:
    """Writes the control flow, and collects the functions of the tasks and what these need."""

    def __init__(self, program: Program, stop: int, cuda: object, dtypes: Dtypes) -> None:
        self._program = program
        self._stop = stop
        self._dtypes = dtypes
        self._reductions = {task.name: ReductionCode(task, dtypes) for task in program.tasks()}
        # How many values a thread may have of each dtype: tasks use the same memory one after another.
        counts = (Counter(dtype for _, dtype in each.locals) for each in self._reductions.values())
        self._totals = functools.reduce(operator.or_, counts, Counter[str]())
        self._lanes = _lanes(self._totals)
        self._out = _Lines()
        self._spans: dict[str, Span] = {}
        self._votes = 0
        self.names: dict[str, object] = {**BUILTINS, CUDA_MODULE: cuda}
        self.used: set[str] = {SLOTS.name}

    def head(self) -> Statements:
        """The thread's place, and the shared memory in which values of reductions meet."""
        # There is one block, so these are the thread and the width; they have 64 bits, and an iteration's number must.
        body = generated("_lane = _cuda.grid(1)", "_width = _cuda.gridsize(1)")
        if not self._totals:
            return body
        self.names |= {f"_type_{dtype}": np.dtype(dtype) for dtype in self._totals}
        arrays = [
            f"{_shared(dtype)} = _cuda.shared.array({count * self._lanes}, _type_{dtype})"
            for dtype, count in self._totals.items()
        ]
        return [*body, *generated(f"_lanes = _min(_width, {self._lanes})"), *shared_arrays(self._program.span, arrays)]

    def body(self) -> Statements:
        """The program as code."""
        self._block(self._program.body)
        body = generated(*self._out.lines or ["pass"])
        # Each call stands where its task does, so that an error in it names the user's line.
        for node in walk(body):
            place_at(node, self._spans.get(called_name(node), self._program.span))
        return body

    def _block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            match statement:
                case TaskStatement():
                    self._task(statement.task)
                case Loop():
                    self._loop(statement)
                case Branch():
                    self._branch(statement)
                case NodeStatement():
                    raise AssertionError("one block has no other nodes")

    def _loop(self, loop: Loop) -> None:
        out, again, decided = self._out, self._vote_name(), loop.condition_slot.index
        if loop.enter is not None:
            self._task(loop.enter)
        if any(isinstance(each, TaskStatement) and each.task.block is not None for each in loop.body):
            # One block has few iterations, and such a loop is not entered.
            return
        if loop.test_first:
            out.vote(again, f"{SLOTS.name}[{decided}] != 0")
        else:
            out.settle()
            out.control(f"{again} = 1")
        left = f"{again}_left"
        out.control(f"while {again} != 0:", f"    {left} = {_SELDOM}", f"    while {again} != 0 and {left} != 0:")
        with out.deeper(), out.deeper():
            out.control(f"{left} -= 1")
            self._block(loop.body)
            self._task(loop.condition)
            out.vote(again, f"{SLOTS.name}[{decided}] != 0")
        with out.deeper():
            out.control(f"if {again} != 0:")
            with out.deeper():
                out.vote(again, f"not _stopped({SLOTS.name}, {self._stop})")

    def _branch(self, branch: Branch) -> None:
        out, chosen, decided = self._out, self._vote_name(), branch.condition_slot.index
        self._task(branch.decide)
        if branch.kind == "if":
            out.vote(chosen, f"{SLOTS.name}[{decided}] != 0")
        else:
            out.settle()
            # All have read it before anybody decides again.
            out.control(f"{chosen} = {SLOTS.name}[{decided}]", _BARRIER)
        for number, region in enumerate(branch.regions):
            test = f"{chosen} == {number}" if branch.kind == "switch" else f"{chosen} {'=' if number else '!'}= 0"
            out.control(f"{'elif' if number else 'if'} {test}:", "    pass")
            with out.deeper():
                self._block(region)
                out.settle()

    def _vote_name(self) -> str:
        self._votes += 1
        return f"_vote{self._votes}"

    # --- tasks ---------------------------------------------------------------------------------------------------------

    def _task(self, task: Task) -> None:
        if not task.axes:
            self._out.one(self._call(task, *serial_function(self._program, task, self._dtypes)))
        elif task.reductions:
            self._reducing(task)
        else:
            self._out.all(self._iterations(task, "_width"))

    def _reducing(self, task: Task) -> None:
        """The iterations leave one value a thread in shared memory; rounds combine these until the first thread has all."""
        out, reductions, places = self._out, self._reductions[task.name], self._places(task)
        total = product(task.axes)
        self.used |= {child.id for child in walk(axis.count for axis in task.axes) if isinstance(child, ast.Name)}
        out.all("if _lane < _lanes:", f"    {self._iterations(task, '_lanes')}")
        out.settle()
        fixed = ["_lane", "_held", "_part"]
        out.control(
            f"_held = _min(_lanes, {total})",
            "while _held > 1:",
            f"    _part = (_held + {_FAN - 1}) // {_FAN}",
            "    if _lane < _part:",
            f"        {self._outlined(task, '_combine', reductions.block_combine(places), fixed)}",
            f"    {_BARRIER}",
            "    _held = _part",
        )
        finish = [*prologue(task, self._dtypes), *reductions.block_finish(places)]
        out.one(f"if {total} > 0:", f"    {self._outlined(task, '_finish', finish)}")

    def _iterations(self, task: Task, width: str) -> str:
        """The call of a function that runs a thread's share of the iterations: every ``width``-th one."""
        reductions = self._reductions[task.name]
        head = generated(*reductions.identities, f"_n = {product(task.axes)}", "_first = _lane")
        loops = strided([*unravel(task, "_t", task.axes), *reductions.numbering(), *task.body], several=False)
        store = generated(*reductions.block_store(self._places(task)))
        body = [*prologue(task, self._dtypes), *head, *loops, *store]
        return self._outlined(task, "", body, ["_lane", "_stride"], ["_lane", width])

    def _places(self, task: Task) -> Mapping[str, str]:
        """For each value that the iterations combine, by local name: its place in shared memory, up to the thread's number."""
        seen = Counter[str]()
        places = {}
        for local, dtype in self._reductions[task.name].locals:
            places[local] = f"{_shared(dtype)}[{seen[dtype] * self._lanes} + "
            seen[dtype] += 1
        return places

    def _outlined(self, task: Task, suffix: str, body: Statements, fixed: Sequence[str] = (), given: Sequence[str] = ()) -> str:
        """The call of a function around ``body``: its parameters ``fixed``, given as ``given``, then shared memory first."""
        reductions = self._reductions[task.name]
        shared = sorted({_shared(dtype) for _, dtype in reductions.locals})
        name = f"{task.name}{suffix}"
        made = outlined(self._program, name, body, reductions.names, task.span, first=[*fixed, *shared])
        return self._call(task, *made, [*(given or fixed), *shared])

    def _call(self, task: Task, parameters: Sequence[Parameter], function: Function, first: Sequence[str] = ()) -> str:
        self.names[function.name] = function
        self._spans[function.name] = task.span
        self.used |= {parameter.name for parameter in parameters}
        return f"{function.name}({', '.join([*first, *without_handles(parameters)])})"


def _shared(dtype: str) -> str:
    return f"_shared_{dtype}"


def _lanes(totals: Mapping[str, int]) -> int:
    """How many threads combine values: as many as there is shared memory for."""
    each = sum(count * itemsize(dtype) for dtype, count in totals.items())
    lanes = BLOCK_THREADS
    while lanes * each > _SHARED_BYTES and lanes > 1:
        lanes //= 2
    return lanes
