"""The Program: a kernel as it was written, for one choice of argument types. Frontend -> Program -> lowering.

Kernel-level statements only. The body of a loop stays a Python AST with the user's line numbers: Numba compiles bodies. In
them every argument leaf is a plain name (``Leaf.name``), and every other global is a key of ``Task.names``.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from qgraph.captured_state import CompiledIn
from qgraph.ir.argument_types import Leaf
from qgraph.ir.blocks import BlockShape, TileCost
from qgraph.ir.faults import EarlyExits, Fault
from qgraph.ir.profile_places import Place
from qgraph.ir.slots import Progress, Slot
from qgraph.ir.verdicts import Race, Verdict
from qgraph.records import dataclass
from qgraph.source import Span

if TYPE_CHECKING:
    # Read when there is a loop to look at: nothing of it is needed to mark a function.
    from qgraph.polyhedral.array_sections import Section


@dataclass(frozen=True, slots=True)
class Effects:
    """Leaves and scratch slots that a statement reads and writes. Order between statements comes from these alone."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    @property
    def touched(self) -> frozenset[str]:
        """What it reads or writes."""
        return self.reads | self.writes

    def __or__(self, other: Effects) -> Effects:
        return Effects(self.reads | other.reads, self.writes | other.writes)


# --- values known to the host, and places on the device ---------------------------------------------------------------


# What a value of the host must satisfy.
Check = Literal["", "step", "max_iter", "same", "size", "shape", "length", "tiles"]


@dataclass(frozen=True, slots=True)
class HostValue:
    """An integer that the host computes before a launch, from shapes, scalar arguments and constants.

    ``source`` is a Python expression over leaf names; the kernels see the result under ``name``. ``check`` says what the
    value must satisfy: a step is not 0, an iteration limit is at least 1, two things are the same (1), a size is not negative,
    shapes agree (not 0; else ``note``, an expression like ``source``, is the message, and ``text`` the hint). One of "tiles"
    says whether arrays are large enough for them (not 0). ``text`` is what the user wrote, for messages.
    """

    name: str
    source: str
    span: Span
    check: Check = ""
    text: str = ""
    note: str = ""


# The most partial results of a reduction: blocks on CUDA, chunks on the CPU.
MAX_PARTIALS = 1024
# In the body of a loop with a reduction that has ``at``: the number of the iteration, from 0.
NUMBER = "_number"


@dataclass(frozen=True, slots=True)
class Cast:
    """A function of generated code: its argument as the type of a slot, or of an array's elements (``dtype``).

    ``scalar``: it is the type of a slot, known by now. On the simulator an int64 of such is an ``Int64``.
    ``keeps``: "min", "max" or "^" of the argument and what has that type is wanted: it may become the closest number of that.
    """

    slot: Slot | None
    dtype: str = ""
    scalar: bool = False
    keeps: Literal["", "min", "max", "^"] = ""


@dataclass(frozen=True, slots=True)
class Temporary:
    """An array that lives during a launch: ``leaf`` as bodies know it, its extents as names of host values.

    ``in_graph``: nodes of a CUDA graph take and free its memory. ``computed``: its type is that of what fills it. ``depth``:
    so many loops are around what makes it, each turn anew. ``memory``: the leaf of another one in whose memory it lies, or of
    an array that is returned.
    """

    leaf: Leaf
    shape: tuple[str, ...]
    span: Span
    in_graph: bool = False
    computed: bool = False
    depth: int = 0
    memory: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """A name for arrays that change places at run time: ``local`` is that one of ``leaves`` whose number is in ``slot``.

    ``read``, ``written``: something may be loaded, or stored, through this name.
    """

    local: str
    slot: Slot
    leaves: tuple[str, ...]
    read: bool = True
    written: bool = True


@dataclass(frozen=True, slots=True)
class Carried:
    """A variable that a reduction computes: ``local`` in the body, and where its value comes from and goes to.

    Either ``slot``, a kernel scalar, or ``element``, an array element (a subscript over leaf names whose index does not vary).
    ``partials`` is a slot for one value a block, or a chunk on the CPU. ``dtype`` is empty for a slot of inferred type.
    """

    local: str
    slot: Slot | None
    element: ast.Subscript | None
    dtype: str
    partials: Slot


@dataclass(frozen=True, slots=True)
class Reduction:
    """Values of all iterations combined into one.

    ``operator``: ``+ * & | ^ min max and or`` combine values; ``first`` and ``last`` keep, with its companions, the value that
    ``test`` (a comparison such as ``<``, of a new value with the best so far) prefers, where ties go to the first or last
    iteration; ``store`` keeps what the last iteration that assigned stored. ``at`` holds the number of the iteration that
    the value came from, -1 where there is none: the body sets its local to ``NUMBER``. The body starts with each local at the
    identity of the operation, and converts what it assigns to the variable's type.
    """

    operator: str
    variables: tuple[Carried, ...]
    span: Span
    test: str = ""
    at: Carried | None = None


# --- statements --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a parallel loop: ``variable = start + t * step`` for ``0 <= t < count``.

    Each of start, step and count is an expression over leaf names, host values and ``_slots``. ``on_device``: count reads
    device memory, so the host does not know it.
    """

    variable: str
    start: ast.expr
    step: ast.expr
    count: ast.expr
    on_device: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Task:
    """Code that becomes one kernel: a parallel loop (``axes``), or a run of statements for one thread (no axes)."""

    name: str
    role: Literal["loop", "serial", "enter", "condition", "bounds", "decide", "start"]
    span: Span
    axes: tuple[Axis, ...]
    body: tuple[ast.stmt, ...]
    names: Mapping[str, object] = field(compare=False)
    effects: Effects
    verdict: Verdict | None = None
    # For which arguments a call is refused.
    races: tuple[Race, ...] = ()
    # The parts that it touches of arrays, by leaf; a leaf that is not there it may touch anywhere.
    sections: Mapping[str, tuple[Section, ...]] = field(default_factory=dict, compare=False)
    # The variable that holds the tuple of all axes in ``for I in ndrange(...)``; empty where the target is unpacked.
    index_tuple: str = ""
    # Slots that the body reads: (local name, slot), loaded once at its start.
    scalars: tuple[tuple[str, Slot], ...] = ()
    # Numbers that the kernel around the body assigns: the variables of a loop, in a copy of its body.
    given: frozenset[str] = frozenset()
    # Names of arrays that are looked up once at its start.
    selections: tuple[Selection, ...] = ()
    # Kernel scalars that a one-thread body assigns: (local name, slot), stored at its end.
    results: tuple[tuple[str, Slot], ...] = ()
    reductions: tuple[Reduction, ...] = ()
    # With reductions: how many blocks are done, 0 between launches.
    ticket: Slot | None = None
    # The loops as written, in order, that became this one; and why this one was not joined with the loop before it.
    joined: tuple[Task, ...] = ()
    note: str = ""
    # The host value that says how many iterations the longest loop inside has on average, where threads that share it find
    # neighbouring elements; empty elsewhere. With ``broadcast`` others read the same elements anyway, or neighbouring ones:
    # of those ``most_lanes``, where that is not 0, share an iteration without reading memory for nothing.
    inner_length: str = ""
    broadcast: bool = False
    most_lanes: int = 0
    # Where names of arrays change places: for each slot, the one that its number is from, or that. ``moves``: all it does.
    moves: tuple[tuple[Slot, Slot | int], ...] = ()
    trades: tuple[tuple[Slot, Slot | int], ...] = ()
    # The same task where nothing ends it early: what is assigned to kernel scalars has its types.
    plain: Task | None = field(default=None, compare=False)
    # Where a block of threads does each iteration; and of a pass in overlapped tiles, what each tile takes.
    block: BlockShape | None = None
    tile: TileCost | None = field(default=None, compare=False)
    # Of a task in a counted loop that only tells the progress: of how many iterations one is told.
    every: int = 0

    @property
    def on_device(self) -> bool:
        """Whether some extent is known on the device only."""
        return any(axis.on_device for axis in self.axes)

    @property
    def written(self) -> tuple[Task, ...]:
        """The loops as written that it runs: itself, where nothing was joined."""
        return self.joined or (self,)


@dataclass(frozen=True, slots=True)
class TaskStatement:
    """Run a task."""

    task: Task


@dataclass(frozen=True, slots=True)
class Counter:
    """How a loop counts that ends when it has counted, and not before.

    Slot ``left`` holds how many iterations are left, and the one that runs counts. ``skip`` are statements that do what the
    condition does ``MANY`` times, for as long as more iterations follow. ``steps``: the variables that grow by the same number
    each time, and that number. ``count``: how many iterations there are, where the range is of constants. ``range``: of one
    variable, start, step and the number of iterations as bodies may compute them, where the host knows them.
    """

    left: Slot
    skip: tuple[ast.stmt, ...]
    steps: tuple[tuple[Slot, ast.expr], ...]
    count: int | None = None
    range: tuple[ast.expr, ast.expr, ast.expr] | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop at kernel level, run on the device where it can be.

    Every executor does the same: run ``enter`` (if any), then, if ``test_first`` and slot ``condition_slot`` is zero, skip;
    else repeat ``body`` and ``condition`` until that slot is zero. In a graph the slot is a conditional handle instead:
    both tasks end with ``_set_condition``. ``times``: how many iterations as written ``body`` is. ``note``: what a
    pass says of it in the plan.
    """

    kind: Literal["do_while", "serial", "while"]
    span: Span
    condition_slot: Slot
    enter: Task | None
    test_first: bool
    body: tuple[Statement, ...]
    condition: Task
    label: str
    counter: Counter | None = None
    times: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """A choice at kernel level.

    Every executor does the same: run ``decide``, which ends with ``_set_condition``, then the region that the condition slot
    names. ``if``: the first where it is not 0, else the second, if there is one. ``switch``: the one of that number, and none
    where there is no such region.
    """

    kind: Literal["if", "switch"]
    span: Span
    condition_slot: Slot
    decide: Task
    regions: tuple[tuple[Statement, ...], ...]
    label: str

    def region(self, value: int) -> int | None:
        """Which region runs where the condition slot is ``value``, None for none."""
        if self.kind == "if":
            value = 0 if value != 0 else 1
        return value if 0 <= value < len(self.regions) else None


# What stands for all memory in the effects of a statement: in what it reads, if it comes after everything before it, and in
# what it writes, if it also comes before everything after it.
HOST = "_host"
EVERYTHING = Effects(frozenset({HOST}), frozenset({HOST}))


class NodeRecord(ABC):
    """What a node of the graph works on that is no kernel and decides nothing: each kind has a class in ``qgraph/nodes``."""

    __slots__ = ()
    # Whether it only has edges.
    does_nothing = False
    # What a plan says below its line.
    told = ""

    @property
    @abstractmethod
    def touched(self) -> Effects:
        """What it reads and writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatement(NodeRecord):
    """A statement that becomes nodes of its kind. ``label`` is what it is called in print.

    In its effects ``HOST`` stands for all memory; the frontend adds all leaves and slots there are. Fields that are
    not compared have no part in what is compiled.
    """

    span: Span
    label: str
    effects: Effects

    @property
    def is_barrier(self) -> bool:
        """Whether it comes after everything before it, whatever that touches."""
        return HOST in self.effects.reads

    @property
    def is_short(self) -> bool:
        """Whether it is some kernels of microseconds, as far as one can say before the call."""
        return False


Statement = TaskStatement | Loop | Branch | NodeStatement


@dataclass(frozen=True, slots=True)
class Result:
    """What the kernel returns: a number in ``slot``, the array ``leaf``, or ``cls`` of ``items``.

    ``cls`` is tuple, a named tuple or a dataclass; ``leaf`` an argument, or one of ``Program.returned``.
    """

    slot: Slot | None = None
    cls: type | None = None
    items: tuple[Result, ...] = ()
    leaf: str = ""

    def slots(self) -> Iterator[Slot]:
        """The slots of all numbers in it."""
        if self.slot is not None:
            yield self.slot
        for item in self.items:
            yield from item.slots()

    def arrays(self) -> Iterator[str]:
        """The leaves of all arrays in it."""
        if self.leaf:
            yield self.leaf
        for item in self.items:
            yield from item.arrays()


# The parameter that is the scratch memory, as int64.
SLOTS = "_slots"
# The one through which unrolled loops tell the host how many iterations they had.
TURNS = "_turns"
# The name of a number of iterations in ``Counter.skip``.
MANY = "_many"


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel for one specialisation. ``float_type`` is F of the number rules; ``written`` are leaves that it writes."""

    name: str
    span: Span
    float_type: Literal["float32", "float64"]
    leaves: tuple[Leaf, ...]
    host_values: tuple[HostValue, ...]
    host_names: Mapping[str, object] = field(compare=False)
    slots: tuple[Slot, ...]
    body: tuple[Statement, ...]
    # Pairs of leaves that share memory in this specialisation: they are one resource.
    aliases: tuple[tuple[str, str], ...]
    # Leaves that decide a do-while, with the place: each must have one element.
    flags: tuple[tuple[str, Span], ...]
    compiled_in: CompiledIn = field(compare=False)
    result: Result | None = None
    # Arrays that are made for the caller before each launch: a call has them after the caller's leaves.
    returned: tuple[Temporary, ...] = ()
    temporaries: tuple[Temporary, ...] = ()
    faults: tuple[Fault, ...] = ()
    # None where no fault ends an iteration, and where nothing is published.
    exits: EarlyExits | None = None
    progress: Progress | None = None
    # Where a profiled program reads the clock; empty for any other.
    places: tuple[Place, ...] = field(default=(), compare=False)

    @property
    def arrays_and_scalars(self) -> tuple[Leaf, ...]:
        """What the tasks take: the caller's leaves, those of arrays that are returned, then the temporaries."""
        return (*self.leaves, *(temporary.leaf for temporary in (*self.returned, *self.temporaries)))

    @property
    def returns_arrays(self) -> bool:
        """Whether some part of what it returns is an array."""
        return self.result is not None and any(self.result.arrays())

    @property
    def numbers(self) -> Result | None:
        """What it returns, where a launch must read numbers for it."""
        return self.result if self.result is not None and (any(self.result.slots()) or not self.returns_arrays) else None

    @property
    def scratch_words(self) -> int:
        """8-byte words of device scratch that the slots need."""
        words = max((slot.index + slot.words for slot in self.slots), default=0)
        # Even, so that all of it can be seen as complex128.
        return words + words % 2

    def tasks(self) -> Iterator[Task]:
        """All tasks in program order, those of loop bodies included."""
        return tasks_of(self.body)

    @property
    def races(self) -> tuple[Race, ...]:
        """For which arguments a call is refused, by its loops as written."""
        return tuple(race for task in self.tasks() for loop in task.written for race in loop.races)

    @property
    def assumed(self) -> tuple[Task, ...]:
        """The loops as written of which nothing proves that they may run in parallel."""
        loops = (loop for task in self.tasks() for loop in task.written)
        return tuple(loop for loop in loops if loop.verdict is not None and loop.verdict.kind == "assumed")

    @property
    def stores(self) -> Iterator[tuple[frozenset[str], Span]]:
        """The names of leaves and slots that each task and statement writes; not what may happen to all memory."""
        for part in parts_of(self.body):
            if HOST not in part.effects.writes:
                yield part.effects.writes, part.span

    @property
    def written(self) -> frozenset[str]:
        """Names of leaves that something writes."""
        return frozenset().union(*(names for names, _ in self.stores))


def tasks_of(statements: tuple[Statement, ...]) -> Iterator[Task]:
    """The tasks under ``statements``, in program order: enter, body, condition for a loop; decide, regions for a branch."""
    return (part for part in parts_of(statements) if isinstance(part, Task))


def node_statements(statements: tuple[Statement, ...]) -> Iterator[NodeStatement]:
    """The statements under ``statements`` that become nodes of their kinds, in program order."""
    return (part for part in parts_of(statements) if isinstance(part, NodeStatement))


def parts_of(statements: tuple[Statement, ...]) -> Iterator[Task | NodeStatement]:
    """Both, in program order."""
    # What is still to come, the next one last: loops and branches may be a thousand deep.
    waiting: list[Statement | Task] = [*reversed(statements)]
    while waiting:
        statement = waiting.pop()
        match statement:
            case Task() | NodeStatement():
                yield statement
            case TaskStatement():
                yield statement.task
            case Branch():
                yield statement.decide
                waiting += (each for region in reversed(statement.regions) for each in reversed(region))
            case Loop():
                if statement.enter is not None:
                    yield statement.enter
                waiting += (statement.condition, *reversed(statement.body))


def effects_of(statement: Statement) -> Effects:
    """Everything that a statement touches, loop bodies included."""
    result = Effects()
    for part in parts_of((statement,)):
        result |= part.effects
    return result
