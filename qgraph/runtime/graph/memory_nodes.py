"""Memset and memcpy nodes: fills and copies of one box of an array, patched where arrays or sizes change."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qgraph.ir.plan import Box, Node
from qgraph.nodes.kind import GraphNode, Owner
from qgraph.runtime.values.array_view import ArrayView


@dataclass(frozen=True, slots=True)
class Rows:
    """``height`` rows of ``width`` bytes from ``pointer`` on, ``pitch`` bytes apart; one row where they are one stretch."""

    pointer: int
    width: int
    height: int = 1
    pitch: int = 0


def rows_of(view: ArrayView, starts: Sequence[int], counts: Sequence[int], *, joined: bool = True) -> Rows:
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


class MemoryNode(GraphNode):
    """What memset and memcpy nodes have in common.

    A node of no size is not legal: it is switched off, and keeps the parameters it had. Some changes cannot be made in an
    executable graph, such as another shape of a box in two dimensions: then ``rejected`` is set, and the owner makes another
    executable from the definition.
    """

    changes = True

    def __init__(self, node: Node, owner: Owner, box: Box) -> None:
        super().__init__(node, owner)
        self.box = box
        self._placeholder = owner.room()
        self._arrays = tuple(owner.leaves[name] for name in (box.target, box.source) if name)
        self._starts = (box.starts, box.source_starts)
        # Where the host's number is, None for one that is 1.
        self._counts = tuple(None if isinstance(count, int) else owner.hosts[count] for count in box.counts)
        self._known: tuple[Any, ...] = ()
        self._enabled = True

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the arrays and sizes of a call."""
        counts = [1 if index is None else host[index] for index in self._counts]
        rows = self._rows([values[index] for index in self._arrays], counts)
        if rows == self._known:
            return False
        # Forgotten first: should the driver refuse, the next call sets everything again.
        self._known = ()
        enabled = all(part.width > 0 for part in rows)
        if enabled:
            self._set(rows)
            self.rejected = self.executable is None or self._patch() != 0
        if enabled != self._enabled:
            self._enabled = enabled
            self.instantiated()
        self._known = rows
        return True

    @abstractmethod
    def forget(self) -> None:
        """Let go of the arrays of the last call."""

    def instantiated(self) -> None:
        """Switch it on or off in the executable, which starts with everything on."""
        if self.executable is not None:
            self.call(self.driver.cuGraphNodeSetEnabled, self.executable, self.handle, int(self._enabled))

    def run(self, stream: int) -> None:
        """Never: what is launched by itself is a kernel."""
        raise AssertionError("memory nodes live in graphs")

    def _rows(self, views: Sequence[ArrayView], counts: Sequence[int]) -> tuple[Rows, ...]:
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


class MemsetNode(MemoryNode):
    """Fills a box with a pattern of 1, 2 or 4 bytes."""

    def __init__(self, node: Node, owner: Owner, box: Box) -> None:
        super().__init__(node, owner, box)
        self._parameters = self.driver.CUDA_MEMSET_NODE_PARAMS()
        self._parameters.value, self._parameters.elementSize = box.value, box.size
        self.forget()

    def forget(self) -> None:
        """Fill the placeholder."""
        self._known = ()
        self._set((Rows(self._placeholder, self.box.size),))

    def add(self, graph: Any) -> Any:
        """Add a memset node."""
        self.handle = self.call(
            self.driver.cuGraphAddMemsetNode, graph, None, 0, self._parameters, self.call(self.driver.cuCtxGetCurrent)
        )
        return self.handle

    def define(self) -> None:
        """Give the definition the parameters."""
        self.call(self.driver.cuGraphMemsetNodeSetParams, self.handle, self._parameters)

    def _set(self, rows: tuple[Rows, ...]) -> None:
        (part,) = rows
        self._parameters.dst, self._parameters.pitch = part.pointer, part.pitch
        self._parameters.width, self._parameters.height = part.width // self.box.size, part.height

    def _patch(self) -> int:
        context = self.call(self.driver.cuCtxGetCurrent)
        return int(self.driver.cuGraphExecMemsetNodeSetParams(self.executable, self.handle, self._parameters, context)[0])


class MemcpyNode(MemoryNode):
    """Copies a box from one array to another."""

    def __init__(self, node: Node, owner: Owner, box: Box) -> None:
        super().__init__(node, owner, box)
        self._parameters = self.driver.CUDA_MEMCPY3D()
        on_device = self.driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        self._parameters.srcMemoryType = self._parameters.dstMemoryType = on_device
        self._parameters.Depth = 1
        self.forget()

    def forget(self) -> None:
        """Copy from the placeholder to itself."""
        self._known = ()
        self._set((Rows(self._placeholder, 8), Rows(self._placeholder + 8, 8)))

    def add(self, graph: Any) -> Any:
        """Add a memcpy node."""
        self.handle = self.call(
            self.driver.cuGraphAddMemcpyNode, graph, None, 0, self._parameters, self.call(self.driver.cuCtxGetCurrent)
        )
        return self.handle

    def define(self) -> None:
        """Give the definition the parameters."""
        self.call(self.driver.cuGraphMemcpyNodeSetParams, self.handle, self._parameters)

    def _set(self, rows: tuple[Rows, ...]) -> None:
        target, source = rows
        self._parameters.dstDevice, self._parameters.srcDevice = target.pointer, source.pointer
        self._parameters.dstPitch, self._parameters.srcPitch = target.pitch, source.pitch
        self._parameters.WidthInBytes, self._parameters.Height = target.width, target.height

    def _patch(self) -> int:
        context = self.call(self.driver.cuCtxGetCurrent)
        return int(self.driver.cuGraphExecMemcpyNodeSetParams(self.executable, self.handle, self._parameters, context)[0])
