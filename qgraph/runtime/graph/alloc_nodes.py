"""Nodes of a graph that take and free memory, and nodes that do nothing."""

from __future__ import annotations

from typing import Any

from qgraph.ir.plan import Node
from qgraph.nodes.kind import Allocating, GraphNode, Owner


class EmptyNode(GraphNode):
    """Only has edges: a join, or what takes and frees memory where the arena has it."""

    def add(self, graph: Any) -> Any:
        """Add an empty node."""
        self.handle = self.call(self.driver.cuGraphAddEmptyNode, graph, None, 0)
        return self.handle

    def run(self, stream: int) -> None:
        """Nothing: a stream keeps its order."""


class AllocNode(GraphNode):
    """Takes memory, whose address is known as soon as the node is in a graph, and whose size never changes there.

    Attributes:
        pointer: the address.
    """

    def __init__(self, node: Node, owner: Owner) -> None:
        super().__init__(node, owner)
        self._ordinal = owner.ordinal
        self.pointer = 0

    def allocate(self, graph: Any, nbytes: int) -> None:
        """Add an allocation node of ``nbytes`` bytes (at least 1) to ``graph``, without edges."""
        parameters = self.driver.CUDA_MEM_ALLOC_NODE_PARAMS()
        properties = self.driver.CUmemPoolProps()
        properties.allocType = self.driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        location = self.driver.CUmemLocation()
        location.type = self.driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        location.id = self._ordinal
        properties.location = location
        parameters.poolProps = properties
        parameters.bytesize = max(1, nbytes)
        self.handle = self.call(self.driver.cuGraphAddMemAllocNode, graph, None, 0, parameters)
        # Written by the driver, into the record that it was given.
        self.pointer = int(parameters.dptr)

    def add(self, graph: Any) -> Any:
        """The node, which ``allocate`` has added: others needed its address."""
        return self.handle

    def run(self, stream: int) -> None:
        """Never: outside a graph the arena has the memory."""
        raise AssertionError("allocation nodes live in graphs")


class FreeNode(GraphNode):
    """Frees the memory of an ``AllocNode``, so that the graph may be launched again."""

    def __init__(self, node: Node, owner: Owner, allocation: Allocating) -> None:
        super().__init__(node, owner)
        self._allocation = allocation

    def add(self, graph: Any) -> Any:
        """Add a free node, after the allocation: it must be ordered behind it from the start."""
        allocation = self._allocation
        self.handle = self.call(self.driver.cuGraphAddMemFreeNode, graph, [allocation.handle], 1, allocation.pointer)
        return self.handle

    def run(self, stream: int) -> None:
        """Never: outside a graph the arena has the memory."""
        raise AssertionError("free nodes live in graphs")
