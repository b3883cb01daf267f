"""A compiled plan among the nodes of a graph that somebody else captures: PyTorch, CuPy, or whoever captures a stream."""

from __future__ import annotations

from typing import Any

from qgraph.errors import CudaError
from qgraph.ir.plan import GraphPlan
from qgraph.nodes.join import EmptyNode
from qgraph.runtime.driver.captures import KEPT, Capture, KeptForGraphs
from qgraph.runtime.driver.driver import outside_captures
from qgraph.runtime.executors.base import CudaExecutable
from qgraph.runtime.executors.graph import CudaGraphExecutable
from qgraph.runtime.graph.graph_builder import Layout, connect, node_of_task
from qgraph.runtime.graph.kernels import KernelNode
from qgraph.runtime.graph.touched_memory import KnownNodes, touched_by
from qgraph.runtime.values.prepared_call import Call


def capture(executable: CudaExecutable, call: Call) -> CapturedExecutable:
    """Add ``call`` to the graph that is captured on its stream, as what ``executable`` would run; gives what was added.

    Raises:
        ArgumentError: a size does not fit; nothing was added.
        CudaError: the kernel returns numbers or needs the host, and nothing was added; or the driver refused.
    """
    plan = executable.plan
    found = f"the stream {call.stream:#x} is being captured into a graph, and "
    if plan.plan.program.returns_arrays:
        raise CudaError(
            f"{found}the array that the kernel returns would be a new one at each launch: nothing ran",
            hint="pass an array for the result, and write to that",
        )
    if plan.plan.program.result is not None:
        raise CudaError(
            f"{found}the call would wait for the numbers that the kernel returns: nothing ran",
            hint="let the kernel write them to an array",
        )
    if not isinstance(executable, CudaGraphExecutable) and any(node.control is not None for node in plan.plan.nodes):
        raise CudaError(
            f"{found}the host decides loops and branches of this kernel: nothing ran. {executable.reason}",
            hint="conditional='device' refuses such a kernel as soon as it is built",
        )
    # Memory is allocated and code is loaded, which waits for no stream.
    with outside_captures():
        reason = "it is part of a graph that was captured"
        added = CapturedExecutable(plan, executable.device, block_size=executable.block_size, reason=reason)
        added.add_to_capture(call)
        return added


class CapturedExecutable(CudaExecutable):
    """The plan in a graph under capture; conditional nodes are nodes like others there (a child graph may not have any).

    It shares nothing with the executable of calls that run, whose arguments change: the captured graph keeps those of its call.
    """

    path = "cuda-capture"
    # Its nodes are made when the arguments are known.
    _unfinished = True
    _captured = True

    def _handle_loops(self, plan: GraphPlan) -> dict[str, int]:
        return node_of_task(plan)

    def _build(self) -> None:
        """There is a graph, which others launch."""
        if self._resources.loops is not None:
            self.device.running.launched(self._resources.loops, anywhere=True)

    def _finish_building(self) -> None:
        # What no executable could be given is in the nodes as they are made.
        for node in self._others.nodes.values():
            node.rejected = False

    def add_to_capture(self, call: Call) -> None:
        """Add the nodes, with the arguments of ``call``, behind what its stream has now."""
        kept = KEPT.get()
        if kept is not None:
            kept.append(call)
        with self.device.activate():
            self._patch(call)
            self._run(call.stream)
        if kept is not None:
            found = touched_by(self.plan.plan, call)
            kept.append(KnownNodes({int(self._added[index]): touched for index, touched in found.items()}))

    def _run(self, stream: int) -> None:
        capture = Capture.on(stream)
        # Before any node uses what this owns.
        self.device.once(KeptForGraphs).keep(self, capture.graph)
        layout = Layout(self.plan.plan, self._present(), self._programmatic, self._parameters.set_handle)
        first = capture.begin()
        entries, exits = layout.fill(capture.graph, capture.graph, 0)
        connect(capture.graph, [(first, entry) for entry in entries], programmatic=False)
        capture.end(exits or [first])
        self._added = layout.added

    def _present(self) -> dict[int, Any]:
        """The nodes; those that have nothing to do are switched off in an executable, of which there is none: empty ones."""
        nodes = self.plan.plan.nodes
        return {
            index: node if isinstance(node, KernelNode) or not node.off else EmptyNode(nodes[index], self._others)
            for index, node in self._nodes.items()
        }
