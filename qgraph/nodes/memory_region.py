"""What memset and memcpy nodes have in common: a box of an array, found in a loop that does nothing else, and its memory."""

from __future__ import annotations

import ast
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from qgraph.ir.argument_types import ArrayType
from qgraph.ir.plan import Node
from qgraph.ir.program import Axis, Effects, Program, Task
from qgraph.ir.trees import load
from qgraph.nodes.kind import GraphNode, LoopKind, Owner
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class MemRegion(LoopKind):
    """The part of the C-contiguous array ``target`` that a node writes.

    On each axis of the array ``counts`` (a name of a host value, or 1) elements from ``starts`` on.
    """

    target: str
    starts: tuple[int, ...]
    counts: tuple[str | int, ...]

    @property
    def arrays(self) -> tuple[str, ...]:
        """The leaves: the target, then a source."""
        return (self.target,)

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The first indices in each of them."""
        return (self.starts,)

    @property
    def touched(self) -> Effects:
        """It writes the first of its arrays."""
        return Effects(frozenset(self.arrays[1:]), frozenset((self.target,)))


# --- loops -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Store:
    """A loop that is nothing but stores to one box of a C-contiguous array: its target, and what is stored."""

    target: str
    type: ArrayType
    places: IndexBox
    value: ast.expr


def store_of(program: Program, task: Task) -> Store | None:
    """What the loop stores, if it does nothing else."""
    if not task.axes or task.on_device or task.reductions or task.scalars or task.selections:
        return None
    match task.body:
        case (ast.Assign(targets=[ast.Subscript(value=ast.Name(id=target), slice=index)], value=value),):
            pass
        case _:
            return None
    type_ = arrays_of(program).get(target)
    places = places_of(task, index)
    if type_ is None or type_.layout != "C" or places is None or len(places.starts) != type_.ndim:
        return None
    return Store(target, type_, places, value)


def arrays_of(program: Program) -> dict[str, ArrayType]:
    """The types of all arrays, by leaf."""
    return {leaf.name: leaf.type for leaf in program.arrays_and_scalars if isinstance(leaf.type, ArrayType)}


@dataclass(frozen=True, slots=True)
class IndexBox:
    """The elements that an index takes while the loop runs: on each axis of the array the first one, and how many."""

    starts: tuple[int, ...]
    counts: tuple[str | int, ...]


def places_of(task: Task, index: ast.expr) -> IndexBox | None:
    """The box of elements that ``index`` takes: all loop variables in order, plus constants, and constants between them."""
    parts: Sequence[ast.expr] = index.elts if isinstance(index, ast.Tuple) else [index]
    if isinstance(index, ast.Name) and index.id == task.index_tuple:
        parts = [load(axis.variable) for axis in task.axes]
    axes = list(task.axes)
    starts: list[int] = []
    counts: list[str | int] = []
    for part in parts:
        start: int
        count: str | int = 1
        match part:
            case ast.Constant(value=int(start)):
                pass
            case ast.Name(id=name):
                start, count = _along(axes, name)
            case ast.BinOp(op=ast.Add(), left=ast.Constant(value=int(offset)), right=ast.Name(id=name)):
                start, count = _along(axes, name)
                start = offset + start if start >= 0 else start
            case _:
                return None
        if start < 0:
            return None
        starts.append(start)
        counts.append(count)
    return None if axes else IndexBox(tuple(starts), tuple(counts))


def _along(axes: list[Axis], name: str) -> tuple[int, str | int]:
    """First value and number of values of loop variable ``name``, which must be the next one; -1 where it cannot be told."""
    axis = axes.pop(0) if axes and axes[0].variable == name else None
    match axis:
        case Axis(start=ast.Constant(value=int(first)), step=ast.Constant(value=1), count=ast.Name(id=count)):
            return (first, count) if first >= 0 else (-1, 0)
        case _:
            return -1, 0


def whole_axes(program: Program, target: str, places: IndexBox) -> list[bool]:
    """Which axes of the array are covered from end to end, whatever the arguments."""
    sources: dict[str | int, str] = {value.name: value.source for value in program.host_values}
    extents = [f"max(0, {target}.shape[{axis}])" for axis in range(len(places.counts))]
    triples = zip(places.starts, places.counts, extents, strict=True)
    return [start == 0 and sources.get(count) == extent for start, count, extent in triples]


# --- memory ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """``height`` rows of ``width`` bytes from ``pointer`` on, ``pitch`` bytes apart; one row where they are one stretch."""

    pointer: int
    width: int
    height: int = 1
    pitch: int = 0


def rows_of(view: Any, starts: Sequence[int], counts: Sequence[int], *, joined: bool = True) -> Rows:
    """The memory of a box of a C-contiguous array.

    Args:
        view: the array.
        starts: first index on each axis.
        counts: how many from there on.
        joined: rows without a gap between them count as one.
    """
    item = view.dtype.itemsize
    # Not the array's own strides: those of axes with one element may be anything.
    steps = [item * math.prod(view.shape[axis + 1 :]) for axis in range(len(counts))]
    pointer = view.pointer + sum(start * step for start, step in zip(starts, steps, strict=True))
    if 0 in counts:
        return Rows(pointer, 0)
    # The last axis that is not covered from end to end; all behind it is one stretch.
    axis = len(counts) - 1
    while axis > 0 and joined and counts[axis] == view.shape[axis]:
        axis -= 1
    width = counts[axis] * steps[axis]
    outer = [before for before in range(axis) if counts[before] != 1]
    if not outer:
        return Rows(pointer, width)
    (row,) = outer
    return Rows(pointer, width, counts[row], steps[row])


# --- in a graph --------------------------------------------------------------------------------------------------------


def allocation_of(driver: Any, pointer: int) -> int | None:
    """The driver's number of the allocation in which an address lies, which no later one has; None where it does not tell.

    In an executable graph, nodes other than kernels point at what the driver knows of an allocation, not at an address alone.
    Once that was freed, a launch reads freed memory of the driver (580.159) and may crash, though the address is in use again.
    """
    code, number = driver.cuPointerGetAttribute(driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer)
    return int(number) if int(code) == 0 else None


class Box(Protocol):
    """What such a node is told of its statement or loop, as in ``MemRegion``."""

    @property
    def arrays(self) -> tuple[str, ...]:
        """The leaves."""

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The first indices in each of them."""

    @property
    def counts(self) -> tuple[str | int, ...]:
        """How many elements on each axis."""


class MemRegionNode(GraphNode):
    """What memset and memcpy nodes have in common.

    A node of no size is not legal: it is switched off, and takes the placeholder's parameters. Some changes cannot be made
    in an executable graph, such as another shape of a box in two dimensions: then ``rejected`` is set, and the owner makes
    another executable from the definition.
    """

    changes = True

    def __init__(self, node: Node, owner: Owner, box: Box) -> None:
        super().__init__(node, owner)
        self._placeholder = owner.room()
        self._arrays = tuple(owner.leaves[name] for name in box.arrays)
        self._starts = box.places
        # Where the host's number is, None for one that is 1.
        self._counts = tuple(None if isinstance(count, int) else owner.hosts[count] for count in box.counts)
        self._known: tuple[Any, ...] = ()
        # Those in which they lie.
        self._allocations: tuple[int | None, ...] = ()

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the arrays and sizes of a call."""
        counts = [1 if index is None else host[index] for index in self._counts]
        rows = self._rows([values[index] for index in self._arrays], counts)
        allocations = tuple(allocation_of(self.driver, part.pointer) for part in rows)
        if rows == self._known and allocations == self._allocations and None not in allocations:
            return False
        # Forgotten first: should the driver refuse, the next call sets everything again.
        self._known = ()
        enabled = all(part.width > 0 for part in rows)
        if enabled:
            self._set(rows)
            self.rejected = self.executable is None or self._patch() != 0
        else:
            # The parameters of an earlier call name memory that may be gone when the node is defined again.
            self.forget()
        if enabled is self.off:
            self.off = not enabled
            self.instantiated()
        self._known, self._allocations = rows, allocations
        return True

    @abstractmethod
    def forget(self) -> None:
        """Let go of the arrays of the last call."""

    def instantiated(self) -> None:
        """Switch it on or off in the executable, which starts with everything on."""
        if self.executable is not None:
            self.call(self.driver.cuGraphNodeSetEnabled, self.executable, self.handle, int(not self.off))

    def run(self, stream: int) -> None:
        """Never: what is launched by itself is a kernel."""
        raise AssertionError("memory nodes live in graphs")

    def _rows(self, views: Sequence[Any], counts: Sequence[int]) -> tuple[Rows, ...]:
        places = list(zip(views, self._starts, strict=False))
        joined = tuple(rows_of(view, starts, counts) for view, starts in places)
        if len({(part.width, part.height) for part in joined}) == 1:
            return joined
        # One of the two arrays is larger than the box.
        return tuple(rows_of(view, starts, counts, joined=False) for view, starts in places)

    @abstractmethod
    def _set(self, rows: tuple[Rows, ...]) -> None:
        """Write the parameters."""

    @abstractmethod
    def _patch(self) -> int:
        """Give the executable the parameters; the driver's result, 0 for success."""
