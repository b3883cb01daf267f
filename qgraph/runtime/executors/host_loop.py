"""A compiled plan whose loops the host drives, or which is launched kernel by kernel: where device loops cannot run.

A condition that the host waits for costs a round trip. So it waits for those of the first iterations only, of as many as a
short loop has, or of one where the loop ran long the last time. From there on it launches a graph of several copies of the
body, guarded so that those behind the end do nothing, and while the device runs such a graph the next one waits in the stream
already.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from qgraph.errors import CudaError
from qgraph.ir.artifacts import CudaPlan
from qgraph.ir.plan import Node
from qgraph.ir.program import Branch, Loop
from qgraph.ir.slots import WORD
from qgraph.ir.unrolling import Unrolling
from qgraph.nodes.kind import GraphNode
from qgraph.records import dataclass
from qgraph.runtime.driver.driver import DeviceContext, call, driver, failure, outside_captures
from qgraph.runtime.driver.memory import PinnedWords, copy_out
from qgraph.runtime.driver.stream import LEGACY, Event
from qgraph.runtime.executors.base import CudaExecutable
from qgraph.runtime.graph.graph_builder import GraphInstance, add_edges, add_node, segments_of
from qgraph.runtime.graph.kernels import KernelNode
from qgraph.runtime.graph.unrolled_bodies import VariantGraph, add_copies, body_of, followed_in


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes with no loop between them, in program order; ``graph`` is None where each is launched by itself."""

    nodes: tuple[KernelNode | GraphNode, ...]
    graph: GraphInstance | None


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop that the host repeats until slot ``slot`` is 0; ``test_first``: not even once if it is 0 before.

    ``unrolling``: how the host launches more of it than it knows to be needed, None where it waits for each iteration.
    """

    slot: int
    test_first: bool
    body: tuple[Step, ...]
    unrolling: Unrolling | None


@dataclass(frozen=True, slots=True)
class HostBranch:
    """A branch: the host reads its slot and runs the region that it names."""

    branch: Branch
    regions: tuple[tuple[Step, ...], ...]


Step = Segment | HostLoop | HostBranch


class CudaHostLoopExecutable(CudaExecutable):
    """The plan as segments of kernels in program order, with the host in charge of the loops between them.

    Args:
        plan: compiled for the device's compute capability.
        device: where it runs.
        block_size: threads in a block, None for the default.
        as_graphs: launch each segment as one graph, else kernel by kernel.
        reason: why the plan is not one graph.
    """

    def __init__(
        self, plan: CudaPlan, device: DeviceContext, *, block_size: int | None = None, as_graphs: bool, reason: str
    ) -> None:
        self._as_graphs = self._in_graphs = as_graphs
        self._has_loops = any(node.control is not None for node in plan.plan.nodes)
        # One launch at a time may use the scratch slots; other streams wait for this event.
        self._done: Event | None = None
        self._last_stream: int | None = None
        # By node, the loops of which it launches several iterations at once; and the graphs for that, by node and half.
        self._unrolled = {each.node: each for each in plan.plan.unrolled if as_graphs}
        self._batches: dict[tuple[int, int], VariantGraph] = {}
        self._reasons = (reason, f"{reason}, and launches iterations ahead where loops run long")
        if not as_graphs:
            self.path = "cuda-stream"
        else:
            self.path = "cuda-host-loop" if self._has_loops else "cuda-graph"
        super().__init__(plan, device, block_size=block_size, reason=reason)

    def _words_read(self) -> int:
        return max(super()._words_read(), int(self._has_loops))

    def _build(self) -> None:
        if self.plan.plan.program.slots or self._others.nodes:
            self._done = Event(self.device)
        if self._unrolled:
            self._flags = tuple(_Flag(self.device) for _ in range(2))
            self._resources.more += [flag.pinned for flag in self._flags]
        for each in self._unrolled.values():
            self._parameters.guard_what_follows(each)
        self._steps = self._region(0)

    def _region(self, region: int) -> tuple[Step, ...]:
        parts = segments_of(self.plan.plan, region)
        return tuple(self._control(part) if isinstance(part, Node) else self._segment(part) for part in parts)

    def _segment(self, nodes: Sequence[Node]) -> Segment:
        members = tuple(self._nodes[node.index] for node in nodes)
        if not self._as_graphs:
            return Segment(members, None)
        instance = GraphInstance()
        self._resources.graphs.append(instance)
        graph = instance.graph
        handles = {member.index: add_node(graph, member) for member in members}
        add_edges(graph, self.plan.plan.edges, handles, self._programmatic)
        instance.instantiate(members)
        return Segment(members, instance)

    def _control(self, node: Node) -> HostLoop | HostBranch:
        regions = tuple(self._region(body) for body in node.bodies)
        match node.control:
            case Loop():
                unrolling = self._unrolled.get(node.index)
                return HostLoop(node.control.condition_slot.index, node.control.test_first, regions[0], unrolling)
            case Branch():
                return HostBranch(node.control, regions)
            case None:
                raise CudaError(f"the node {node.label} of the plan decides nothing")

    def _run(self, stream: int) -> None:
        if self._done is None:
            self._run_steps(self._steps, stream)
            return
        # The same handle may be another thread's default stream, or a stream that took the place of one that is gone.
        if self._last_stream is not None and (self._last_stream != stream or stream > LEGACY):
            self._done.wait(stream)
        self._last_stream = stream
        self.reason = self._reasons[0]
        try:
            self._run_steps(self._steps, stream)
        finally:
            self._done.record(stream)

    def _run_steps(self, steps: tuple[Step, ...], stream: int) -> None:
        for step in steps:
            if isinstance(step, HostLoop):
                self._drive(step, stream)
            elif isinstance(step, HostBranch):
                chosen = step.branch.region(self._read_slot(step.branch.condition_slot.index, stream))
                self._run_steps(() if chosen is None else step.regions[chosen], stream)
            elif step.graph is None:
                _launch_nodes(step.nodes, stream)
            else:
                call(driver.cuGraphLaunch, step.graph.executable, stream)

    def _drive(self, loop: HostLoop, stream: int) -> None:
        # The loop's enter task, if it has one, is the end of the segment before it.
        if loop.test_first and not self._read_slot(loop.slot, stream):
            return
        unrolling = loop.unrolling
        for _ in itertools.count() if unrolling is None else range(self._alone(unrolling)):
            self._run_steps(loop.body, stream)
            if not self._read_slot(loop.slot, stream):
                return
        assert unrolling is not None
        self._run_ahead(unrolling, loop.slot, stream)

    def _alone(self, unrolling: Unrolling) -> int:
        """How many iterations are launched one by one: a loop that ends so early would only lose by more."""
        assert self._turns is not None
        ran_long = self._turns.words[unrolling.number] >= 2 * unrolling.copies
        # One at least: it sets the word that guards the first copy.
        return 1 if ran_long else unrolling.copies

    def _run_ahead(self, unrolling: Unrolling, slot: int, stream: int) -> None:
        """Launch the two halves of the copies by turns until the condition is 0; the last may do nothing."""
        self.reason = self._reasons[1]
        self._launch_batch(unrolling, 0, slot, stream)
        if not self._flags[0].wait():
            return
        half = 1
        self._launch_batch(unrolling, half, slot, stream)
        while True:
            # Always one more than the one that the host waits for.
            self._launch_batch(unrolling, 1 - half, slot, stream)
            if not self._flags[half].wait():
                return
            half = 1 - half

    def _launch_batch(self, unrolling: Unrolling, half: int, slot: int, stream: int) -> None:
        batch = self._batches.get((unrolling.node, half))
        if batch is None:
            batch = self._batches[unrolling.node, half] = self._make_batch(unrolling, half)
        batch.bring_up_to_date()
        call(driver.cuGraphLaunch, batch.instance.executable, stream)
        self._flags[half].fetch(self._slot_pointer(slot), stream)

    def _make_batch(self, unrolling: Unrolling, half: int) -> VariantGraph:
        plan, parameters = self.plan.plan, self._parameters
        nodes = body_of(plan, unrolling)
        numbers = range(half * unrolling.copies, (half + 1) * unrolling.copies)
        copies = {index: [self._kernels[index].copied(number, parameters) for number in numbers] for index in nodes}
        kernels = [kernel for each in copies.values() for kernel in each]
        waits_inside = self.plan.waits_inside
        edges = [edge for edge in self._programmatic if edge[0] in nodes]
        first = {index: each[0] for index, each in copies.items()}
        followed = followed_in(first, (*edges, *unrolling.carried) if waits_inside else ())
        self._let_start_early_at_first(followed)
        with outside_captures():
            instance = GraphInstance()
            self._resources.graphs.append(instance)
            add_copies(instance.graph, plan, unrolling, copies, waits_inside=waits_inside)
            instance.instantiate(kernels)
        return VariantGraph(instance, kernels, followed)

    def _resize(self, host: tuple[int, ...]) -> None:
        super()._resize(host)
        for batch in self._batches.values():
            batch.take_shapes(self._kernels)
            self._let_start_early(batch.followed)

    def _apply(self, changed: int) -> None:
        super()._apply(changed)
        # Patched when they are about to run.
        for batch in self._batches.values():
            batch.stale |= changed

    def _read_slot(self, slot: int, stream: int) -> int:
        pinned = self._resources.pinned
        if pinned is None:
            raise CudaError("this executable was closed")
        copy_out(self._slot_pointer(slot), pinned.pointer, WORD, stream)
        return int(pinned.words[0])

    def _slot_pointer(self, slot: int) -> int:
        scratch = self._resources.scratch
        if scratch is None:
            raise CudaError("this executable was closed")
        return scratch.pointer + slot * WORD


class _Flag:
    # A condition on its way to the host.
    __slots__ = ("_event", "pinned")

    def __init__(self, device: DeviceContext) -> None:
        self.pinned = PinnedWords(device)
        self._event = Event(device)

    def fetch(self, pointer: int, stream: int) -> None:
        # After the work that the stream has now.
        copy_out(pointer, self.pinned.pointer, WORD, stream, wait=False)
        self._event.record(stream)

    def wait(self) -> int:
        # What was fetched last.
        self._event.synchronize()
        return int(self.pinned.words[0])


def _launch_nodes(nodes: tuple[KernelNode | GraphNode, ...], stream: int) -> None:
    launch = driver.cuLaunchKernel
    for kernel in nodes:
        if isinstance(kernel, GraphNode):
            kernel.run(stream)
            continue
        parameters, shared = kernel.launch.kernelParams, kernel.code.shared
        blocks, threads, down, threads_down, times = kernel.shape
        code = launch(kernel.function, blocks, down, times, threads, threads_down, 1, shared, stream, parameters, 0)[0]
        if code != 0:
            raise failure(code, "cuLaunchKernel")
