"""Memcpy nodes: loops that only copy a box of one array to another."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from qgraph.ir.plan import Node
from qgraph.ir.program import Program, Task
from qgraph.nodes.kind import GraphNode, Owner
from qgraph.nodes.memory_region import Box, MemRegion, MemRegionNode, Rows, arrays_of, places_of, store_of, whole_axes
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Memcpy(MemRegion):
    """Copy as many elements of ``source``, from ``source_starts`` on."""

    name = "memcpy"

    source: str
    source_starts: tuple[int, ...]

    @property
    def arrays(self) -> tuple[str, ...]:
        """The target, then the source."""
        return self.target, self.source

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The first indices in each of them."""
        return self.starts, self.source_starts

    @classmethod
    def of_loop(cls, program: Program, task: Task) -> Memcpy | None:
        """A loop that copies a box of an array of the same type that shares no memory with the target.

        Parts of two-dimensional arrays stay kernels: a copy with a pitch cannot be told of other arrays.
        """
        store = store_of(program, task)
        if store is None or not isinstance(store.value, ast.Subscript):
            return None
        target, counts = store.target, store.places.counts
        places = places_of(task, store.value.slice)
        if not isinstance(store.value.value, ast.Name) or places is None or places.counts != counts:
            return None
        source, types = store.value.value.id, arrays_of(program)
        alike = source in types and replace(types[source], readonly=False) == replace(store.type, readonly=False)
        shared = source == target or any({source, target} == set(pair) for pair in program.aliases)
        fits = len(counts) == 1 or (len(counts) == 2 and all(whole_axes(program, target, store.places)))
        return cls(target, store.places.starts, counts, source, places.starts) if alike and fits and not shared else None

    def in_graph(self, node: Node, owner: Owner) -> GraphNode | None:
        """A memcpy node, which copies a word of nobody until a call tells."""
        return MemcpyNode(node, owner, self) if owner.in_graphs else None


class MemcpyNode(MemRegionNode):
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
