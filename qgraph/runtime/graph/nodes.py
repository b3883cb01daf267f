"""The nodes of an executable that are neither kernels nor conditional, and their owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from qgraph.ir.plan import GraphPlan
from qgraph.ir.slots import WORD
from qgraph.nodes.kind import Allocating, GraphNode, Readers, kind_of
from qgraph.runtime.driver.driver import DeviceContext, call, driver
from qgraph.runtime.driver.memory import Buffer, PinnedWords, copy_in, copy_out, page_locked
from qgraph.runtime.driver.stream import Event
from qgraph.runtime.values.results import reader_of

T = TypeVar("T")


class NonKernelNodes:
    """All nodes of a plan that are no kernels and decide nothing, and their owner (``nodes.kind.Owner``).

    Args:
        plan: the plan.
        dtypes: the types of kernel scalars.
        device: where they run.
        scratch: the address of scratch memory.
        in_graphs: nodes live in graphs; where each is launched by itself, fills and copies are kernels.
        one_graph: there is one graph, which takes and frees the memory of some temporaries.
    """

    def __init__(
        self,
        plan: GraphPlan,
        dtypes: Mapping[str, str],
        device: DeviceContext,
        scratch: int,
        *,
        in_graphs: bool,
        one_graph: bool,
    ) -> None:
        self.driver: Any = driver
        self.call: Callable[..., Any] = call
        self.leaves: Mapping[str, int] = {leaf.name: index for index, leaf in enumerate(plan.program.arrays_and_scalars)}
        self.hosts: Mapping[str, int] = {value.name: index for index, value in enumerate(plan.program.host_values)}
        self.scratch = scratch
        self.in_graphs, self.one_graph = in_graphs, one_graph
        self.ordinal = device.ordinal
        self.allocations: dict[str, Allocating] = {}
        self.reader: Readers = reader_of(dtypes)
        self._device = device
        # What the nodes share, and what must outlive the graphs.
        self._made: dict[str, Any] = {}
        self._pinned: list[PinnedWords] = []
        self._events: list[Event] = []
        self._room: Buffer | None = None
        self.nodes: dict[int, GraphNode] = {}
        for node in plan.nodes:
            made = None if node.what is None else kind_of(node.what).in_graph(node, self)
            if made is not None:
                self.nodes[node.index] = made
        # What a call's values may change.
        self.changing = [node for node in self.nodes.values() if node.changes]

    # --- for the kinds of nodes ---

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What ``make`` made for the first node that asked for ``key``."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def pinned(self, words: int) -> PinnedWords:
        """Page-locked memory, which is freed with the nodes."""
        made = PinnedWords(self._device, words)
        self._pinned.append(made)
        return made

    def room(self) -> int:
        """Two words of device memory, where fills and copies go until the first call tells."""
        if self._room is None:
            self._room = Buffer(self._device, 2 * WORD)
        return self._room.pointer

    def event(self) -> int:
        """An event, which lives as long as this object."""
        made = Event(self._device)
        self._events.append(made)
        return made.handle

    def copy_out(self, source: int, target: int, nbytes: int, stream: int) -> None:
        """Copy device memory to page-locked memory, without waiting."""
        copy_out(source, target, nbytes, stream, wait=False)

    def copy_in(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy page-locked memory to the device, without waiting."""
        copy_in(target, source, nbytes, stream, wait=False)

    def page_locked(self, nbytes: int) -> Any:
        """Page-locked bytes, for as long as anybody holds them."""
        return page_locked(self._device, nbytes)

    def recorder(self, statement: Any) -> Callable[[Sequence[Any]], Any]:
        """What records ``statement``, a call of a library, for given arrays."""
        # Libraries are asked only by kernels that call them.
        from qgraph.runtime.graph.library_recorder import LibraryRecorder

        return self._device.once(LibraryRecorder).of(statement)

    def errors(self) -> Callable[[BaseException, str], None]:
        """Takes what a function of the host raised."""
        self._device.wait_at_exit()
        return self._device.kept.keep

    # --- for the executable ---

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
            node.forget()

    @property
    def rejected(self) -> bool:
        """Whether some change could not be made in an executable graph."""
        return any(node.rejected for node in self.changing)

    def free(self) -> None:
        """Free the host memory: no graph with these nodes may run any more."""
        for pinned in self._pinned:
            pinned.free()
        if self._room is not None:
            self._room.free()
