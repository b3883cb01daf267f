"""Nodes of a graph that take and free the memory of a temporary: ``qgraph.empty(n, alloc=True)``."""

from __future__ import annotations

from typing import Any

from qgraph.ir.plan import Node
from qgraph.ir.program import Effects, NodeStatement, Program, Temporary, effects_of
from qgraph.nodes.join import EmptyNode
from qgraph.nodes.kind import Allocating, GraphNode, NodeKind, Owner, Planned
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Allocation(NodeKind):
    """The memory of a temporary, ``leaf``: an ``alloc`` node takes it, and a ``free`` node gives it back."""

    leaf: str

    @property
    def touched(self) -> Effects:
        """Nobody uses the memory before it is taken, nor after it is free."""
        return Effects(writes=frozenset({self.leaf}))

    def in_graph(self, node: Node, owner: Owner) -> GraphNode:
        """The node; one that does nothing where the memory lies with that of other temporaries."""
        if not owner.one_graph:
            return EmptyNode(node, owner)
        if node.kind == "free":
            return FreeNode(node, owner, owner.allocations[self.leaf])
        made = owner.allocations[self.leaf] = AllocNode(node, owner)
        return made


def planned(kind: str, temporary: Temporary) -> tuple[Planned, Allocation]:
    """An ``alloc`` or ``free`` node of a temporary."""
    what = Allocation(temporary.leaf.name)
    return Planned(kind, f"{kind} {temporary.leaf.path}", what.touched), what


def lifetimes(program: Program) -> tuple[dict[int, list[Temporary]], dict[int, list[Temporary]]]:
    """Temporaries in memory of the graph, by the positions of the first and the last statement that touches them."""
    starts: dict[int, list[Temporary]] = {}
    ends: dict[int, list[Temporary]] = {}
    for temporary in program.temporaries:
        if not temporary.in_graph:
            continue
        used = [
            position
            for position, statement in enumerate(program.body)
            # A barrier touches everything, and none of this.
            if not (isinstance(statement, NodeStatement) and statement.is_barrier)
            and temporary.leaf.name in effects_of(statement).touched
        ]
        if used:
            starts.setdefault(used[0], []).append(temporary)
            ends.setdefault(used[-1], []).append(temporary)
    return starts, ends


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
