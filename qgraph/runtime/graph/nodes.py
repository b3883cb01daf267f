"""The nodes of a graph that are no kernels and decide nothing: host callbacks, events, fills and copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qgraph.errors import ArgumentError
from qgraph.ir.plan import Box, GraphPlan, Node
from qgraph.ir.program import WORD, ConstantType, EventMark, HostCall
from qgraph.runtime.driver.driver import DeviceContext, call, driver
from qgraph.runtime.driver.memory import Buffer, PinnedWords, copy_out
from qgraph.runtime.driver.stream import Event
from qgraph.runtime.graph.alloc_nodes import AllocNode, EmptyNode, FreeNode
from qgraph.runtime.graph.memory_nodes import MemcpyNode, MemoryNode, MemsetNode
from qgraph.runtime.graph.node_base import OtherNode
from qgraph.runtime.values.events import event_handle
from qgraph.runtime.values.host_callbacks import HostFunction, Numbers


class NumbersNode(OtherNode):
    """Copies the scratch words that a host call reads to page-locked memory."""

    def __init__(self, node: Node, numbers: Numbers, scratch: int, pinned: PinnedWords) -> None:
        super().__init__(node)
        self._source = scratch + numbers.first * WORD
        self._pinned = pinned
        self._nbytes = numbers.words * WORD

    def add(self, graph: Any) -> Any:
        """Add a memcpy node."""
        copy = driver.CUDA_MEMCPY3D()
        copy.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice = self._source
        copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_HOST
        copy.dstHost = self._pinned.pointer
        copy.WidthInBytes, copy.Height, copy.Depth = self._nbytes, 1, 1
        self.handle = call(driver.cuGraphAddMemcpyNode, graph, None, 0, copy, call(driver.cuCtxGetCurrent))
        return self.handle

    def run(self, stream: int) -> None:
        """Copy, without waiting."""
        copy_out(self._source, self._pinned.pointer, self._nbytes, stream, wait=False)


class CallbackNode(OtherNode):
    """Calls the function of a host call."""

    def __init__(self, node: Node, function: HostFunction) -> None:
        super().__init__(node)
        self._function = function

    def add(self, graph: Any) -> Any:
        """Add a host node."""
        parameters = driver.CUDA_HOST_NODE_PARAMS()
        parameters.fn = driver.CUhostFn(self._function.address)
        parameters.userData = self._function.data
        self.handle = call(driver.cuGraphAddHostNode, graph, None, 0, parameters)
        return self.handle

    def run(self, stream: int) -> None:
        """Call it after the work that the stream has now."""
        call(driver.cuLaunchHostFunc, stream, driver.CUhostFn(self._function.address), self._function.data)


class EventNode(OtherNode):
    """Records an event, or waits for one. Until the first call tells which, it is one of its own."""

    def __init__(self, node: Node, mark: EventMark, leaf: int | None, placeholder: Event) -> None:
        super().__init__(node)
        self._records = mark.kind == "record"
        self._leaf = leaf
        self._event = placeholder.handle
        if isinstance(mark.event, ConstantType):
            self._event = _constant_event(mark, mark.event.value)

    def add(self, graph: Any) -> Any:
        """Add an event record or wait node."""
        add = driver.cuGraphAddEventRecordNode if self._records else driver.cuGraphAddEventWaitNode
        self.handle = call(add, graph, None, 0, self._event)
        return self.handle

    def run(self, stream: int) -> None:
        """Record after, or wait before, what the stream gets."""
        if self._records:
            call(driver.cuEventRecord, self._event, stream)
        else:
            call(driver.cuStreamWaitEvent, stream, self._event, 0)

    def define(self) -> None:
        """Give the definition the event."""
        change = driver.cuGraphEventRecordNodeSetEvent if self._records else driver.cuGraphEventWaitNodeSetEvent
        call(change, self.handle, self._event)

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the event of a call."""
        if self._leaf is None:
            return False
        event = event_handle(values[self._leaf])
        if event == int(self._event):
            return False
        if self.executable is not None:
            change = driver.cuGraphExecEventRecordNodeSetEvent if self._records else driver.cuGraphExecEventWaitNodeSetEvent
            call(change, self.executable, self.handle, event)
        self._event = event
        return True


def _constant_event(mark: EventMark, event: object) -> int:
    try:
        return event_handle(event)
    except ArgumentError as error:
        raise ArgumentError(error.found, mark.span, hint=error.hint) from None


class OtherNodes:
    """All nodes of a plan that this module knows, and what they own on the host.

    Args:
        plan: the plan.
        dtypes: the types of kernel scalars.
        device: where they run.
        scratch: the address of scratch memory.
        with_boxes: fills and copies too, which otherwise are kernels.
        allocates: there is one graph, which takes and frees the memory of some temporaries.
    """

    def __init__(
        self,
        plan: GraphPlan,
        dtypes: Mapping[str, str],
        device: DeviceContext,
        scratch: int,
        *,
        with_boxes: bool,
        allocates: bool,
    ) -> None:
        self.nodes: dict[int, OtherNode] = {}
        self._device = device
        self._dtypes = dtypes
        self._scratch = scratch
        self._leaves = {leaf.name: index for index, leaf in enumerate(plan.program.arrays_and_scalars)}
        self._hosts = {value.name: index for index, value in enumerate(plan.program.host_values)}
        # By host call: its numbers, where they go, and the function. They must outlive the graphs.
        self._calls: dict[str, tuple[Numbers, PinnedWords, HostFunction]] = {}
        self._placeholders: list[Event] = []
        # Where fills and copies go until the first call tells.
        self._room: Buffer | None = None
        # By leaf: the temporaries whose memory the graph takes.
        self.allocations: dict[str, AllocNode] = {}
        for node in plan.nodes:
            if node.box is not None and with_boxes:
                self.nodes[node.index] = self._memory_node(node, node.box)
            if node.kind in ("alloc", "free", "join"):
                self.nodes[node.index] = self._empty_or_memory(node, allocates and node.kind != "join")
            match node.host:
                case HostCall():
                    self.nodes[node.index] = self._host_call(node, node.host)
                case EventMark():
                    self.nodes[node.index] = self._event_mark(node, node.host)
                case None:
                    pass
        # What a call's values may change.
        self.changing = [node for node in self.nodes.values() if isinstance(node, EventNode | MemoryNode)]

    def _host_call(self, node: Node, host: HostCall) -> OtherNode:
        self._device.wait_at_exit()
        if host.name not in self._calls:
            numbers = Numbers(host, self._dtypes)
            pinned = PinnedWords(self._device, max(1, numbers.words))
            function = HostFunction(host, numbers, pinned.words, self._device.kept)
            self._calls[host.name] = numbers, pinned, function
        numbers, pinned, function = self._calls[host.name]
        if node.kind == "memcpy":
            return NumbersNode(node, numbers, self._scratch, pinned)
        return CallbackNode(node, function)

    def _memory_node(self, node: Node, box: Box) -> OtherNode:
        if self._room is None:
            self._room = Buffer(self._device, 2 * WORD)
        made = MemcpyNode if box.source else MemsetNode
        return made(node, box, self._leaves, self._hosts, self._room.pointer)

    def _empty_or_memory(self, node: Node, memory: bool) -> OtherNode:
        if not memory:
            return EmptyNode(node)
        if node.kind == "free":
            return FreeNode(node, self.allocations[node.temporary])
        made = self.allocations[node.temporary] = AllocNode(node, self._device)
        return made

    def _event_mark(self, node: Node, mark: EventMark) -> OtherNode:
        placeholder = Event(self._device)
        self._placeholders.append(placeholder)
        leaf = None if isinstance(mark.event, ConstantType) else self._leaves[mark.event.name]
        return EventNode(node, mark, leaf, placeholder)

    def update(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Take the values of a call; gives whether anything changed."""
        changed = False
        for node in self.changing:
            changed |= node.update(values, host)
        return changed

    def forget(self) -> None:
        """No node may keep an address: some of the memory is gone, and the nodes are about to enter another graph."""
        for node in self.nodes.values():
            node.executable = None
            node.rejected = False
            if isinstance(node, MemoryNode):
                node.forget()

    @property
    def rejected(self) -> bool:
        """Whether some change could not be made in an executable graph."""
        return any(node.rejected for node in self.changing)

    def free(self) -> None:
        """Free the host memory: no graph with these nodes may run any more."""
        for _numbers, pinned, _function in self._calls.values():
            pinned.free()
        if self._room is not None:
            self._room.free()
