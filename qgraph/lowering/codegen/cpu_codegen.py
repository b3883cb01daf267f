"""GraphPlan -> one Python function for the CPU: control flow included, each parallel loop in chunks on all threads."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import field

from qgraph.ir.artifacts import Parameter
from qgraph.ir.functions import Function, ParallelFunction, SeparateFunction
from qgraph.ir.program import Branch, Cast, Loop, NodeStatement, Program, Statement, Task, TaskStatement, tasks_of
from qgraph.lowering.cache.memory_key import structural_key
from qgraph.lowering.codegen.cpu_chunks import chunk_function, finish_function
from qgraph.lowering.codegen.cpu_polls import NAMES, Polled, entry_lines, is_short, polled_function, turn_lines
from qgraph.lowering.codegen.generated_names import (
    HANDLE,
    SLOTS,
    Dtypes,
    dtype_of,
    generated,
    indented,
    place_at,
    slot_place,
    slots_name,
    walk,
)
from qgraph.lowering.codegen.privatised_histogram_cuda import bins_of
from qgraph.lowering.codegen.task_codegen import (
    called_name,
    make_function,
    ordered,
    selected_leaf,
    serial_function,
    without_handles,
)
from qgraph.lowering.graph.dependencies import temporaries_together
from qgraph.nodes.kind import statement_kind
from qgraph.operations import intrinsics
from qgraph.records import dataclass
from qgraph.source import Span, copied, nodes_of

# Calls of tasks in one function. Numba and LLVM need time for a function that grows faster than its length, and all of a
# function's loops are inlined there.
MAX_CALLS = 32
# A loop is cut into at most this many chunks. Fixed: the chunks must not depend on the number of threads.
MAX_CHUNKS = 64
# Iterations that are worth a chunk: of a simple body, of one that has calls or short loops, of one that has other loops, of one
# that has loops in these.
GRAIN = 16384
CALLING_GRAIN = 512
LOOPING_GRAIN = 64
NEST_GRAIN = 1
# Of one that begins and ends with a walk through arrays of its own.
COLLECTING_GRAIN = 16384
# Of one that runs in order.
_ALL = 1 << 62
# Operations that are worth a chunk where a simple body has many of them.
OPERATIONS = 1 << 17
# Calls that cost no more than an operator does; float literals are calls of a type, and what a kernel scalar holds is cast.
_CHEAP = (abs, min, max, math.sqrt, math.fabs)


def control_function(program: Program, dtypes: Dtypes, *, in_order: bool = False) -> tuple[tuple[Parameter, ...], Function]:
    """The function of a whole kernel: its parameters in order, and its code. ``in_order``: each loop is one chunk."""
    return _Control(_Kernel(program, dtypes, in_order)).function(program.name, program.body, MAX_CALLS)


@dataclass(slots=True)
class _Kernel:
    """What the functions of one kernel have in common."""

    program: Program
    dtypes: Dtypes
    in_order: bool = False
    # The code of loops and of parts, by what they say.
    _loops: dict[object, ParallelFunction] = field(default_factory=dict)
    _parts: dict[object, SeparateFunction] = field(default_factory=dict)
    # How many parts have names.
    _count: int = 0
    # How many calls of tasks a statement, by identity, comes to.
    _sizes: dict[int, int] = field(default_factory=dict)
    # The loops that may not end.
    polled: Polled = field(init=False)

    def __post_init__(self) -> None:
        self.polled = Polled(self.program)

    def loop(self, parameters: tuple[Parameter, ...], function: Function, *, disjoint: bool, reduces: bool) -> ParallelFunction:
        """The code of a loop: that of an earlier one which says the same of other arrays, if there is one."""
        key = _says(parameters, function), disjoint, reduces
        return self._loops.setdefault(key, ParallelFunction(function, disjoint, reduces))

    def part(self, parameters: tuple[Parameter, ...], function: Function) -> SeparateFunction:
        """The code of some statements: that of earlier ones which say the same of other arrays, if there are any."""
        return self._parts.setdefault(_says(parameters, function), SeparateFunction(function))

    def name(self) -> str:
        """The name of another part."""
        self._count += 1
        return f"_part{self._count}"

    def size(self, statements: Sequence[Statement]) -> int:
        """How many calls of tasks ``statements`` come to."""
        return sum(self._size(statement) for statement in statements)

    def _size(self, statement: Statement) -> int:
        if id(statement) not in self._sizes:
            inside = [(statement.body if isinstance(statement, Loop) else ()), *getattr(statement, "regions", ())]
            self._sizes[id(statement)] = 1 + sum(map(self.size, inside))
        return self._sizes[id(statement)]


def _says(parameters: Sequence[Parameter], function: Function) -> object:
    """What decides the code of a function: equal for those that say the same of other arrays of the same types."""
    return structural_key(function), tuple((parameter.kind, parameter.type) for parameter in parameters)


def _runs(statements: Sequence[Statement], size: Callable[[Sequence[Statement]], int]) -> list[list[Statement]]:
    """``statements`` in runs of no more than ``MAX_CALLS`` calls, and of one statement where that has more."""
    runs: list[list[Statement]] = [[]]
    for statement in statements:
        if runs[-1] and size([*runs[-1], statement]) > MAX_CALLS:
            runs.append([])
        runs[-1].append(statement)
    return runs


class _Control:
    """Writes one function: calls of tasks, and what these need. What is too long for it becomes functions of their own."""

    def __init__(self, kernel: _Kernel, *, whole: bool = True) -> None:
        self._kernel = kernel
        self._program = kernel.program
        self._dtypes = kernel.dtypes
        # Whether it is the function that Python calls.
        self._whole = whole
        self.names: dict[str, object] = {"_split": intrinsics.split_rows}
        self.used: set[str] = set()
        self.callbacks: list[Parameter] = []
        # Of a statement that is a node.
        self._lines: list[str] = []
        # Whether it may end the kernel.
        self.ends = False
        # Where the tasks of the parts that it calls stand.
        self._spans: dict[str, Span] = {}

    def function(self, name: str, statements: Sequence[Statement], room: int) -> tuple[tuple[Parameter, ...], Function]:
        """The function of ``statements``, of about ``room`` calls, and its parameters."""
        lines = self._block(statements, room)
        if self.ends and not self._whole:
            lines.append("return 0")
        body = generated(*lines or ["pass"])
        program = self._program
        tasks = list(tasks_of(tuple(statements)))
        spans = {task.name: task.span for task in tasks} | self._spans
        # Each call stands where its task does, so that an error in it names the user's line.
        for node in walk(body):
            place_at(node, spans.get(called_name(node), program.span))
        # The handle is never passed: on the CPU a condition is a slot.
        parameters = (*ordered(program, self.used - {HANDLE.name}), *self.callbacks)
        span = tasks[0].span if tasks else program.span
        return parameters, make_function(name, [parameter.name for parameter in parameters], body, self.names, span)

    def _block(self, statements: Sequence[Statement], room: int) -> list[str]:
        """``statements`` as about ``room`` calls: those that do not fit are in functions of their own."""
        size = self._kernel.size
        if size(statements) <= room or (len(statements) == 1 and room > 1):
            return [line for statement in statements for line in self._statement(statement, room)]
        if len(statements) == 1 or room < 2:
            return self._part(statements)
        runs = _runs(statements, size)
        # As many runs in one part as let the parts be no more than there is room for.
        few = -(-len(runs) // room)
        parts = (list(itertools.chain(*runs[first : first + few])) for first in range(0, len(runs), few))
        return [line for part in parts for line in self._part(part)]

    def _part(self, statements: Sequence[Statement]) -> list[str]:
        """A call of a function that runs ``statements``."""
        kernel = self._kernel
        name = kernel.name()
        part = _Control(kernel, whole=False)
        parameters, function = part.function(name, statements, MAX_CALLS)
        self.names[name] = kernel.part(parameters, function)
        self._spans[name] = next(tasks_of(tuple(statements)), self._program).span
        self.callbacks += part.callbacks
        self.used |= part.used
        call = f"{name}({', '.join(parameter.name for parameter in parameters)})"
        if not part.ends:
            return [call]
        self._lines = []
        self.end_kernel_if(f"{call} != 0")
        return self._lines

    def _statement(self, statement: Statement, room: int) -> list[str]:
        match statement:
            case TaskStatement():
                return self._task(statement.task)
            case Loop():
                return self._loop(statement, room)
            case Branch():
                return self._branch(statement, room)
            case NodeStatement():
                self._lines = []
                statement_kind(statement).cpu_code(self)
                return self._lines

    # --- what a kind of node writes, as ``CpuCode`` ---------------------------------------------------------------------

    def line(self, text: str) -> None:
        self._lines.append(text)

    def leaf(self, name: str) -> str:
        self.used.add(name)
        return name

    def slots(self) -> str:
        return self.leaf(SLOTS.name)

    def callback(self, name: str) -> str:
        self.callbacks.append(Parameter("callback", name))
        return name

    def end_kernel_if(self, test: str) -> None:
        """Wherever ``test`` holds, whichever function this is."""
        self.ends = True
        self._lines += [f"if {test}:", "    return" if self._whole else "    return 1"]

    # --- loops, branches and tasks --------------------------------------------------------------------------------------

    def _branch(self, branch: Branch, room: int) -> list[str]:
        decided = self._decided(branch)
        lines = self._task(branch.decide)
        room -= 1
        for number, region in enumerate(branch.regions):
            # A branch runs its first region where the slot is not 0, a switch the region of that number.
            test = f"{decided} == {number}" if branch.kind == "switch" else f"({decided} == 0) == ({number} == 1)"
            lines += [f"{'elif' if number else 'if'} {test}:", *indented(["pass", *self._block(region, room)])]
            room -= min(room, self._kernel.size(region))
        return lines

    def _decided(self, statement: Branch | Loop) -> str:
        return f"{self.slots()}[{statement.condition_slot.index}]"

    def _loop(self, loop: Loop, room: int) -> list[str]:
        decided = self._decided(loop)
        enter = [] if loop.enter is None else self._task(loop.enter)
        body = [*self._block(loop.body, room - 1), *self._task(loop.condition)]
        if not loop.test_first:
            body += [f"if {decided} == 0:", "    break"]
        (name,), short = self._kernel.polled.names(loop), is_short(loop)
        self._add_loops([name])
        body += turn_lines(name, short=short)
        first = [*enter, *entry_lines(name, short=short)]
        return [*first, f"while {f'{decided} != 0' if loop.test_first else 'True'}:", *indented(body)]

    def _add_loops(self, names: Sequence[str]) -> None:
        """Get the parameters of polled loops."""
        self.names.update(NAMES)
        self.callbacks += [Parameter("loop", name) for name in names]

    def _task(self, task: Task) -> list[str]:
        program, dtypes = self._program, self._dtypes
        if not task.axes:
            loops = self._kernel.polled.names(task)
            if not loops:
                return [self._call(*serial_function(program, task, dtypes))]
            self._add_loops(loops)
            return [self._call(*polled_function(program, task, dtypes, loops))]
        parameters, function = chunk_function(program, task, dtypes)
        used = {parameter.name for parameter in parameters}
        disjoint = not any(used.issuperset(pair) for pair in (*program.aliases, *temporaries_together(program)))
        call = self._call(parameters, function, "_chunks, _rows, _cols, _row_step, _col_step, ", task.name)
        reduces = bool(task.reductions) and any(each.is_array and each.name in task.effects.writes for each in parameters)
        self.names[task.name] = self._kernel.loop(parameters, function, disjoint=disjoint, reduces=reduces)
        *counts, last = self._counts(task)
        rows = " * ".join(f"({count})" for count in counts) or "1"
        grain = COLLECTING_GRAIN if bins_of(program, task) else _grain(task)
        if self._kernel.in_order:
            grain = _ALL
        finish = [self._call(*finish_function(program, task, dtypes), "_chunks, ")] if task.reductions else []
        return [
            f"_rows, _cols = {rows}, {last}",
            f"_chunks, _row_step, _col_step = _split(_rows, _cols, {grain}, {MAX_CHUNKS})",
            "if _chunks > 0:",
            *indented([call, *finish]),
        ]

    def _call(self, parameters: Sequence[Parameter], function: Function, first: str = "", name: str = "") -> str:
        name = name or function.name
        self.names[name] = function
        self.used |= {parameter.name for parameter in parameters}
        return f"{name}({first}{', '.join(without_handles(parameters))})"

    def _counts(self, task: Task) -> list[str]:
        """The extents of a loop as the control function computes them; names of the task get its name in front."""
        exprs = [copied(axis.count) for axis in task.axes]
        scalars = dict(task.scalars)
        selected = {selection.local: selection for selection in task.selections}
        for name in (child for child in walk(exprs) if isinstance(child, ast.Name)):
            if name.id in task.names:
                value = task.names[name.id]
                name.id = f"{task.name}_{name.id}"
                self.names[name.id] = value
            elif name.id in selected:
                self.used |= {SLOTS.name, *selected[name.id].leaves}
                name.id = f"({selected_leaf(selected[name.id])})"
            elif name.id in scalars:
                slot = scalars[name.id]
                name.id = slot_place(slot, self._dtypes)
                self.used.add(slots_name(dtype_of(slot, self._dtypes)))
            else:
                self.used.add(name.id)
        return [ast.unparse(expr) for expr in exprs]


def _grain(task: Task) -> int:
    """How many iterations the caller runs alone, and are worth a chunk where there are more: few where each takes long."""
    nodes = list(walk(task.body))
    loops = [node for node in nodes if isinstance(node, (ast.For, ast.While))]
    long = [loop for loop in loops if not _is_short(loop)]
    if any(inside in long for loop in long for inside in walk(loop.body)):
        return NEST_GRAIN
    if long:
        return LOOPING_GRAIN
    if loops or any(isinstance(node, ast.Call) and not _is_cheap(task, node) for node in nodes):
        return CALLING_GRAIN
    operations = sum(isinstance(node, (ast.BinOp, ast.Compare, ast.Subscript, ast.Call)) for node in nodes)
    return max(1, min(GRAIN, OPERATIONS // max(1, operations)))


def _is_short(loop: ast.For | ast.While) -> bool:
    """Whether the bounds are small constants, as in ``range(3)``."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return False
    bounds = [child for child in nodes_of(loop.iter) if isinstance(child, (ast.Name, ast.Constant, ast.Attribute))][1:]
    return all(isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= 16 for node in bounds)


def _is_cheap(task: Task, call: ast.Call) -> bool:
    value = task.names.get(called_name(call))
    return isinstance(value, type | Cast) or any(value is cheap for cheap in _CHEAP)
