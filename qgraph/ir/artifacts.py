"""The CompiledPlan: code for every task of a plan, and how each is called. lowering -> CompiledPlan -> runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.plan import GraphPlan
from qgraph.ir.program import Task
from qgraph.records import dataclass
from qgraph.source import Span

# Iterations of a light loop that one thread has where there are many more than threads.
COARSENING = 4
# Columns of each of as many rows that a thread has of a loop whose inner loop they share (unroll and jam).
JAMMED_COLUMNS = 2
# Threads of a tile that have neighbouring rows of one column: a warp has 8 rows of 4, whole sectors of float32 that are written
# along rows, halves of those read. And rows of a tile.
TILE_HEIGHT = 8
TILE_ROWS = TILE_HEIGHT * COARSENING
# Ends the names of kernels that are in copies of unrolled loops alone.
COPIED = "_copied"
# Ends the name of the kernel behind all copies of a loop that hands results on.
ENDING = "_ending"
# The first compute capability whose kernels can start before those that they wait for have ended.
PROGRAMMATIC = (9, 0)
# What the parameter ``early`` of such a kernel says: it lets others start first of all, or when it has waited itself; and it
# waits last, not first.
TRIGGERS_FIRST, TRIGGERS_LATER, WAITS_LAST = 1, 2, 4
# Loops side by side begin at a multiple of so many threads.
WARP = 32
# Inner loops of fewer iterations are not shared by several threads.
FEW_INSIDE = 12
# The most threads of a block that combines values.
REDUCTION_BLOCK = 256


Kind = Literal["leaf", "host", "slots", "faults", "handle", "whole", "callback", "loop"]
CopyKind = Literal["guard", "copy", "peeks", "parts", "next", "turns", "early"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a task's function, in order.

    ``leaf``: an array or scalar of the call, by ``name``. ``host``: an int64 the host computed (``HostValue.name``).
    ``slots``: the scratch memory as a C-ordered array of one dimension: ``_slots`` sees it as int64, ``_slots_float32`` (with
    that ``type``) as float32, and so on. ``faults``: int64 words that the host reads too, where a task notes what it found
    wrong. ``handle``: uint64, the conditional handle of the node that this task arms or decides, 0 where a slot is written
    instead. ``whole``: uint64, for the task that enters a counted loop, the handle of its turns without guards, or 0.
    ``callback``: uint64, the address of a host call's function (``HostCall.name``), or of what it is given
    (``HostCall.name`` and ``_data``); on the CPU only. ``loop``: uint64, the address of what a loop calls now and then
    (``CpuPlan.loops``); on the CPU only. ``guard``: uint32, in the body of an unrolled loop, the word of scratch
    that is 0 where the kernel does nothing; 0 where nothing is tested. ``copy`` and ``peeks``: uint32, in the body of a loop
    that is counted: the word then says how many iterations are left, and the kernel does nothing where those are no more than
    ``copy``; a grid of no more than ``peeks`` blocks looks before it waits, at the words that are spread. In the body of a loop
    that hands results on ``copy`` is the number of the copy, and ``parts``: uint32, how many blocks left results for this
    kernel. ``next``: int64, for
    the kernel with the condition of such a loop the word that guards what comes after it; 0 where that is not guarded.
    ``turns``: int64 words that the host reads too, where unrolled loops tell how many iterations they had. ``early``: uint32,
    not 0 where the kernels behind this one may start beside it, at once (``TRIGGERS_FIRST``) or when it has waited itself
    (``TRIGGERS_LATER``), and where it waits when it is done, and not before (``WAITS_LAST``); the last parameter of every CUDA
    kernel.
    """

    kind: Kind | CopyKind
    name: str
    type: ArrayType | ScalarType | None = None

    @property
    def is_array(self) -> bool:
        """Whether it is memory: an array of the call, the scratch slots, or words that the host reads too."""
        return self.kind in ("slots", "faults", "turns") or isinstance(self.type, ArrayType)


def slots_dtype(parameter: Parameter) -> str:
    """The dtype as which a ``slots`` parameter sees scratch."""
    return "int64" if parameter.type is None else parameter.type.dtype


@dataclass(frozen=True, slots=True)
class TaskCode:
    """One task as a function.

    ``source`` is the generated Python (what is hashed, shown and simulated), ``entry`` the name of the kernel in the cubin.
    ``counts`` names, for each loop that it runs, the host values whose product is the number of iterations; loops side by side
    have threads of their own, in order, ``WARP`` by ``WARP``. It is empty with ``on_device`` (a grid-stride loop over a count
    that only the device knows) and for one-thread tasks (``single``). ``several``: on a grid of fewer threads each has
    ``COARSENING`` iterations. ``plane``: how threads cover a loop of several axes, if not one after the other: ``rows`` (those
    along x have the last axis, those along y and z the others together, each a row, or as many as ``several`` says), ``tiles``
    (a block has ``TILE_ROWS`` rows, and a column for every ``TILE_HEIGHT`` of its threads), ``blocks`` (a block of the shape
    that the task says has one iteration). ``jammed``: with ``several`` it has
    ``JAMMED_COLUMNS`` columns, too. ``constant`` are the array
    parameters that nothing changes meanwhile. ``reduces``: it runs right with any number of blocks from 1 to
    ``MAX_PARTIALS``, of at most ``REDUCTION_BLOCK`` threads. ``lanes`` names the host value that says how many iterations the
    longest loop inside has on average, where neighbouring threads can share these: threads along x have one iteration of the
    outer loop together, a power of two up to ``WARP``, or more where iterations are few, and those along y have one each; with
    ``broadcast`` no more than fill the device, and where that is not 0 ``most_lanes`` at most, unless a warp each does not fill
    half of it. ``arrays``: of each
    parameter that is another array from copy to copy of an unrolled loop its name, and the leaf that it is in copy 0, 1, ...,
    until that begins again. ``handed``: it combines what blocks of an earlier kernel left, as a ``copy``, or as the one block
    at the ``end`` of a turn.
    """

    task: Task
    entry: str
    source: str
    parameters: tuple[Parameter, ...]
    counts: tuple[tuple[str, ...], ...]
    single: bool
    on_device: bool
    several: bool = False
    plane: Literal["", "rows", "tiles", "blocks"] = ""
    constant: frozenset[str] = frozenset()
    reduces: bool = False
    lanes: str = ""
    broadcast: bool = False
    most_lanes: int = 0
    jammed: bool = False
    arrays: tuple[tuple[str, tuple[str, ...]], ...] = ()
    handed: Literal["", "copy", "end"] = ""

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a launch must ask for."""
        return self.task.block.shared if self.task.block is not None else 0

    @property
    def waits(self) -> bool:
        """Whether the kernel can start before those that it depends on have ended."""
        return any(parameter.kind == "early" for parameter in self.parameters)

    @property
    def stores(self) -> bool:
        """Whether it writes arrays of the call."""
        leaves, writes = dict(self.arrays), self.task.effects.writes
        return any(each.kind == "leaf" and writes & {*leaves.get(each.name, (each.name,))} for each in self.parameters)

    def share(self, *, several: bool) -> tuple[int, int]:
        """The rows that a thread has of a loop of several axes, and the columns of each."""
        return (COARSENING, JAMMED_COLUMNS if self.jammed else 1) if several else (1, 1)

    def leaf_of(self, name: str, place: int) -> str:
        """The leaf that parameter ``name`` is in copy ``place`` of an unrolled loop."""
        leaves = dict(self.arrays).get(name)
        return name if leaves is None else leaves[place % len(leaves)]


@dataclass(frozen=True, slots=True)
class Extents:
    """What CUDA code takes for granted of the extents of arrays of several dimensions; a launch of others is refused.

    ``index64``: they may have ``intrinsics.U32_LIMIT`` elements or more: their places have 64 bits. ``equal``: groups of leaves
    of one shape, of which a kernel reads one's extents: it computes the place of ``i, j`` once for all of them.
    """

    index64: bool = False
    equal: tuple[tuple[str, ...], ...] = ()

    def same(self, code: TaskCode) -> tuple[int, ...]:
        """For each parameter of a kernel the first one that has its extents, whichever leaves they are in a copy."""
        groups = {name: number for number, group in enumerate(self.equal) for name in group}
        arrays = dict(code.arrays)
        first: dict[int, int] = {}
        found = []
        for index, parameter in enumerate(code.parameters):
            leaves = arrays.get(parameter.name, (parameter.name,)) if parameter.kind == "leaf" else ()
            among = {groups.get(leaf) for leaf in leaves}
            group = among.pop() if len(among) == 1 else None
            found.append(index if group is None else first.setdefault(group, index))
        return tuple(found)


# Of an array's own, and with fewer elements than that: what holds of any but the largest.
ANY_EXTENTS = Extents()


def equal_shapes(shapes: Mapping[str, tuple[int, ...]]) -> tuple[tuple[str, ...], ...]:
    """The names, by groups, whose shapes are the same and have several dimensions."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, shape in shapes.items():
        groups.setdefault(shape, []).append(name)
    return tuple(tuple(group) for shape, group in groups.items() if len(shape) > 1 and len(group) > 1)


@dataclass(frozen=True, slots=True)
class CudaPlan:
    """A plan compiled for one compute capability. ``cubin`` holds every task under its entry name."""

    plan: GraphPlan
    codes: Mapping[str, TaskCode]
    ptx: Mapping[str, str]
    cubin: bytes
    capability: tuple[int, int]
    # False: linked without libcudadevrt, which then must come from the driver.
    device_runtime: bool
    # The types of kernel scalars, by slot name.
    dtypes: Mapping[str, str] = field(default_factory=dict)
    # The key in `codes` of the kernel that is the whole plan, for one block; empty where there is none.
    block: str = ""
    # By entry name, which of a kernel's parameters it has, counting each part of an array: those that it reads.
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    extents: Extents = ANY_EXTENTS
    # Whether it was read off the disk as a whole; and why it could not be kept there, where it could not.
    from_disk: bool = field(default=False, compare=False)
    unkept: str = field(default="", compare=False)

    @property
    def waits_inside(self) -> bool:
        """Whether kernels can start before those that they wait for have ended, over programmatic edges."""
        return self.capability >= PROGRAMMATIC


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """A plan compiled for the CPU: ``call(*leaf arrays and scalars, *host values, slots, address)``, in ``parameters``' order.

    ``places(arrays)`` gives words that tell the arrays among the leaves, and what must be held as long as they are: a call that
    gets their address returns False, and has done nothing, where its arrays are others in type, dtype, writeability, address,
    shape or strides. Where the address is 0, nobody looks. ``loops`` tells where those stand that call Python now and then.
    """

    plan: GraphPlan
    source: str
    parameters: tuple[Parameter, ...]
    call: Callable[..., bool] = field(compare=False)
    places: Callable[[Sequence[Any]], tuple[Any, object]] = field(compare=False)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    loops: Mapping[str, Span] = field(default_factory=dict)
    # As in CudaPlan.
    from_disk: bool = field(default=False, compare=False)
    unkept: str = field(default="", compare=False)


class SimulatedKernel(Protocol):
    """A kernel to be launched as ``kernel[grid, block](*arguments)``, along x or more; it returns when it has run."""

    def __getitem__(self, shape: tuple[int | tuple[int, ...], int | tuple[int, ...]], /) -> Callable[..., None]: ...


@dataclass(frozen=True, slots=True)
class SimulatorPlan:
    """The CUDA kernels as plain Python functions, for Numba's simulator."""

    plan: GraphPlan
    codes: Mapping[str, TaskCode]
    kernels: Mapping[str, SimulatedKernel] = field(compare=False)
    # Makes an array of the simulator's device out of a NumPy array, sharing its memory.
    array: Callable[..., object] = field(compare=False)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    # As in CudaPlan.
    block: str = ""
