"""A compiled plan as one CUDA graph: built once, patched where arguments changed, launched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Set
from typing import Any

from qgraph.ir.artifacts import CudaPlan
from qgraph.ir.plan import GraphPlan
from qgraph.runtime.driver.driver import DeviceContext, driver, failure, outside_captures
from qgraph.runtime.driver.stream import LASTING
from qgraph.runtime.executors.base import CudaExecutable
from qgraph.runtime.executors.graph_exec_cache import GraphExecCache
from qgraph.runtime.executors.relaunch import Relaunch
from qgraph.runtime.executors.single_block import BlockForm
from qgraph.runtime.graph.graph_builder import GraphInstance, Layout, RawGraph, add_node, node_of_task
from qgraph.runtime.graph.kernels import KernelNode
from qgraph.runtime.graph.launch_serialiser import LaunchSerialiser
from qgraph.runtime.graph.node_updates import NodeUpdates
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.prepared_call import Call

# How much of the device each kernel of a row fills at most. Such that need more run faster at once: on an H200 that was so from
# somewhere between a quarter of the device and all of it on.
_ROW = 1 / 3


class CudaGraphExecutable(CudaExecutable):
    """The whole plan as ONE graph; loops and branches are conditional nodes, decided on the device."""

    path = "cuda-graph"
    _one_graph = _repeats = True

    def __init__(
        self,
        plan: CudaPlan,
        device: DeviceContext,
        *,
        block_size: int | None = None,
        reason: str = "the whole kernel is one CUDA graph",
    ) -> None:
        super().__init__(plan, device, block_size=block_size, reason=reason)

    def _handle_loops(self, plan: GraphPlan) -> dict[str, int]:
        return node_of_task(plan)

    def _row_edges(self, plan: CudaPlan) -> Set[tuple[int, int]]:
        return frozenset(itertools.pairwise(plan.plan.row)) if plan.waits_inside else frozenset()

    def _build(self) -> None:
        self._patches = NodeUpdates([*self._kernels.values()])
        # A graph with conditional nodes takes turns with those of others.
        self._decides = any(node.control is not None for node in self.plan.plan.nodes)
        self._launch_graph = self.device.once(LaunchSerialiser).launch if self._decides else driver.cuGraphLaunch
        # The bytes of the memory that the graph takes, in the order of its allocation nodes; None where there is no graph.
        self._sizes: tuple[int, ...] | None = None
        self._instance = self._begin()
        # Sizes decide whether there is a row.
        self._unfinished = bool(self._row)
        if not self._others.allocations and not self._row:
            self._complete()
        if self._block_kernel is not None:
            self._block = self._block_form(self._block_kernel)

    def _block_form(self, kernel: KernelNode) -> BlockForm:
        instance = GraphInstance()
        self._resources.graphs.append(instance)
        add_node(instance.graph, kernel)
        instance.instantiate([kernel])
        return BlockForm(self.plan.plan, kernel, instance.executable)

    def _begin(self) -> GraphInstance:
        instance = GraphInstance()
        self._resources.graphs.append(instance)
        instance.exclusive = self._decides or bool(self._others.allocations)
        return instance

    def _complete(self) -> None:
        instance = self._instance
        layout = Layout(self.plan.plan, self._nodes, self._programmatic, self._parameters.set_handle, self._row)
        layout.fill(instance.graph, instance.graph, 0)
        instance.instantiate(self._nodes.values())

    def _place(self, host: tuple[int, ...]) -> tuple[ArrayView, ...]:
        allocations = self._others.allocations
        if not allocations:
            return super()._place(host)
        found = self._arena.sizes(host)
        sizes = tuple(found[name] for name in allocations)
        if sizes != self._sizes:
            # A node's size and address never change: it takes another graph.
            self._begin_again()
            for node, size in zip(allocations.values(), sizes, strict=True):
                node.allocate(self._instance.graph, size)
            self._sizes = sizes
        return self._arena.values(host, {name: node.pointer for name, node in allocations.items()})

    def _begin_again(self) -> None:
        if self._sizes is not None:
            self.rebuilds += 1
        self._sizes = None
        self._resources.start_again(self._instance)
        self._begin_next()

    def _begin_next(self) -> None:
        self._others.forget()
        self._instance = self._begin()
        self._unfinished, self._half_built = True, False

    def _resize(self, host: tuple[int, ...]) -> None:
        super()._resize(host)
        if self._row and max(self._kernels[index].share for index in self.plan.plan.row) > _ROW:
            self._leave_row()

    def _leave_row(self) -> None:
        """The kernels of the row have grown: from now on they start at once."""
        self._set_row(frozenset())
        if not self._unfinished:
            # Before anything else: should something interrupt, the next launch does it, whatever sizes it has.
            self._unfinished, self._half_built, self._placed, self._token = True, True, None, None
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Another graph takes the place of this one, which may still run, and is freed with the executable."""
        kept = self._resources.kept
        if kept is not None:
            with outside_captures():
                kept.destroy()
            self._resources.kept = None
        if self._instance.executable is None:
            self._resources.drop(self._instance)
        self._begin_next()

    def _patch(self, request: Call) -> None:
        if self._half_built and not self._others.allocations:
            # An earlier launch did not get it done. Before its nodes are told what they work on.
            self._begin_anew()
        super()._patch(request)

    def _finish_building(self) -> None:
        self._half_built = True
        try:
            with outside_captures():
                self._complete()
        except BaseException:
            # The next call begins again.
            self._sizes = None
            raise
        self._unfinished = self._half_built = False
        # Each node was just made with what it works on; the one that is a graph of its own is none of them.
        self._parameters.changed &= 0 if self._block is None else self._block.bit
        for node in self._others.nodes.values():
            node.rejected = False

    def graph(self, request: Call) -> RawGraph:
        """The graph, with these arguments."""
        with self._changing():
            pushed = self._enter()
            try:
                self._end_keeping()
                self._stay_whole()
                if request.token is not self._token or self._token is None:
                    self._patch(request)
                return self._raw()
            finally:
                if pushed:
                    self.device.pop()

    def _stay_whole(self) -> None:
        # Who launches the graph itself knows nothing of another one, so from now on there is none.
        if self._block is not None:
            self._block.wait()
            if self._block.chosen:
                self.nodes, self.reason = self._as_whole
            self._block = self._token = None
        if self._row:
            self._leave_row()
        self._keeps = False

    def _raw(self) -> RawGraph:
        return RawGraph(self._instance.graph, self._instance.executable)

    def _repeatable(self) -> tuple[Any, Callable[[Relaunch], Any] | None]:
        executable = self._block.executable if self._block is not None and self._block.chosen else self._running()
        # Who launches loops is noted, and a graph with conditional nodes has to wait for its turn.
        return executable, None if self._resources.loops is None and not self._decides else self._launch_again

    def _running(self) -> Any:
        """The graph that ``_run`` launched."""
        return self._instance.executable

    def _launch_again(self, repeat: Relaunch) -> Any:
        """The driver's code; None, and nothing ran, where ``_run`` would launch another graph."""
        try:
            self._inside = True
            # From here on no signal's handler launches anything else.
            if repeat.executable is None:
                return None
            if self._resources.loops is not None:
                self.device.running.launched(self._resources.loops, anywhere=repeat.stream not in LASTING)
            launch = driver.cuGraphLaunch if self._block is not None and self._block.chosen else self._launch_graph
            return launch(repeat.executable, repeat.handle)[0]
        finally:
            self._inside = False

    def _keep(self, repeat: Relaunch, stream: int) -> None:
        if not self._keeps or (self._block is not None and self._block.chosen) or self._context_id is None:
            return
        kept = self._resources.kept
        if kept is None:
            # Conditional nodes and nodes that take memory allow one executable, and other nodes are patched in their own ways.
            if self._instance.exclusive or self._others.nodes or not self._arena.empty:
                return
            shared = self.plan.plan.scratch_words > 0
            kept = self._resources.kept = GraphExecCache(self._instance, [*self._kernels.values()], shared=shared)
        kept.keep(repeat, stream, self._context_id)

    def _apply(self, changed: int) -> None:
        self._patches.patch(self._instance.executable, changed)

    def _run(self, stream: int) -> None:
        # Launches of one executable graph run one after another, on whatever streams: they share the scratch slots.
        code = self._launch_graph(self._instance.executable, stream)[0]
        if code != 0:
            raise failure(code, "cuGraphLaunch")
