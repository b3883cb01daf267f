"""A compiled plan whose loops the host drives, or which is launched kernel by kernel: where device loops cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qgraph.compiled import CudaPlan
from qgraph.errors import CudaError
from qgraph.plan import Node
from qgraph.program import WORD, Branch, Loop
from qgraph.runtime.cuda_driver import DeviceContext, call, driver, failure
from qgraph.runtime.cuda_graph import CudaExecutable
from qgraph.runtime.cuda_kernels import KernelNode
from qgraph.runtime.cuda_layout import GraphInstance, add_edges, add_node, segments_of
from qgraph.runtime.cuda_memory import copy_out
from qgraph.runtime.cuda_other import OtherNode
from qgraph.runtime.cuda_stream import Event


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes with no loop between them, in program order; ``graph`` is None where each is launched by itself."""

    nodes: tuple[KernelNode | OtherNode, ...]
    graph: GraphInstance | None


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop that the host repeats until slot ``slot`` is 0; ``test_first``: not even once if it is 0 before."""

    slot: int
    test_first: bool
    body: tuple[Step, ...]


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
        graph = instance.definition.handle
        handles = {member.index: add_node(graph, member) for member in members}
        add_edges(graph, self.plan.plan.edges, handles, self._programmatic)
        instance.instantiate(members)
        return Segment(members, instance)

    def _control(self, node: Node) -> HostLoop | HostBranch:
        regions = tuple(self._region(body) for body in node.bodies)
        match node.control:
            case Loop():
                return HostLoop(node.control.condition_slot.index, node.control.test_first, regions[0])
            case Branch():
                return HostBranch(node.control, regions)
            case None:
                raise CudaError(f"the node {node.label} of the plan decides nothing")

    def _run(self, stream: int) -> None:
        if self._done is None:
            self._run_steps(self._steps, stream)
            return
        if self._last_stream is not None and self._last_stream != stream:
            self._done.wait(stream)
        self._last_stream = stream
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
        while True:
            self._run_steps(loop.body, stream)
            if not self._read_slot(loop.slot, stream):
                return

    def _read_slot(self, slot: int, stream: int) -> int:
        scratch, pinned = self._resources.scratch, self._resources.pinned
        if scratch is None or pinned is None:
            raise CudaError("this executable was closed")
        copy_out(scratch.pointer + slot * WORD, pinned.pointer, WORD, stream)
        return int(pinned.words[0])


def _launch_nodes(nodes: tuple[KernelNode | OtherNode, ...], stream: int) -> None:
    launch = driver.cuLaunchKernel
    for kernel in nodes:
        if isinstance(kernel, OtherNode):
            kernel.run(stream)
            continue
        shape = kernel.launch
        parameters = shape.kernelParams
        code = launch(kernel.function, kernel.grid, 1, 1, kernel.block, 1, 1, 0, stream, parameters, 0)[0]
        if code != 0:
            raise failure(code, "cuLaunchKernel")
