"""Recorded graphs: what other libraries launch on a stream becomes a graph of its own (``qgraph.capture``)."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from qgraph.errors import ArgumentError, BackendError, CudaError
from qgraph.language import in_reference
from qgraph.nodes.child_graph import RecordedGraph
from qgraph.pickling import not_pickled
from qgraph.records import dataclass
from qgraph.runtime.arguments.library_captures import Workspace
from qgraph.runtime.driver.captures import KEPT, MODES, Capture, KeptForGraphs, begin_capture, end_capture
from qgraph.runtime.driver.driver import DeviceContext, call, driver, failure, outside_captures
from qgraph.runtime.driver.stream import LASTING, captures, current_streams, handle_of, is_capturing, order_after
from qgraph.runtime.graph.graph_builder import connect, neighbours
from qgraph.runtime.graph.launch_serialiser import LaunchSerialiser
from qgraph.runtime.graph.recorded_nodes import RecordedPlan, recorded_plan
from qgraph.runtime.graph.touched_memory import KnownNodes, known_nodes

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_HINT = "record it first: with qgraph.capture() as g: ..."


class Recording(RecordedGraph):
    """What is launched on a stream while ``with`` lasts, as a graph: made by ``qgraph.capture``.

    Called in a kernel it is a child-graph node.
    """

    __reduce__ = not_pickled(
        "a recorded graph cannot be pickled or copied: its nodes belong to this process", "record it again in the other one"
    )

    def __init__(
        self, device: DeviceContext, stream: object, mode: str, keep: Sequence[Any], *, may_be_empty: bool = False
    ) -> None:
        if mode not in MODES:
            raise ArgumentError(f"{mode!r} is not a mode of a capture", hint=f"the modes are {', '.join(map(repr, MODES))}")
        self._device, self._epoch, self._mode, self._may_be_empty = device, device.epoch, mode, may_be_empty
        self.ordinal = device.ordinal
        given = None if stream is None else handle_of(stream)
        if given in LASTING:
            raise ArgumentError(
                "the default stream cannot be captured",
                hint="pass another stream, or none: then it has one of its own, which PyTorch and CuPy use meanwhile",
            )
        with device.activate():
            if not captures():
                device.free_retired()
        lent = device.once(_Workspaces).lend(given)
        self._workspace, self.stream = lent.workspace, lent.workspace.handle
        # What the nodes of the graph work on.
        self._kept: list[Any] = [*keep, stream, lent]
        self._state: Literal["new", "recording", "recorded", "failed"] = "new"
        self._libraries = ExitStack()
        self._graph: _Graph | None = None
        self._lock = threading.RLock()

    # --- recording -----------------------------------------------------------------------------------------------------

    @contextmanager
    def uncaptured(self) -> Iterator[None]:
        """While this lasts, libraries work on the stream as they will while it is captured, and run."""
        with self._device.activate(), self._workspace.recorded(self.ordinal, []):
            yield

    def __enter__(self) -> Self:
        if self._state != "new":
            raise CudaError("this graph is recorded already, or being recorded", hint="each capture makes its own graph")
        with self._device.activate():
            if is_capturing(self.stream):
                raise CudaError(f"the stream {self.stream:#x} is being captured already", hint="captures cannot be nested")
            self._libraries.enter_context(self._workspace.recorded(self.ordinal, self._kept))
            try:
                begin_capture(self.stream, self._mode)
            except BaseException:
                self._libraries.close()
                # Others get its stream, whoever still has the list.
                self._state = "failed"
                self._kept.clear()
                raise
        self._state = "recording"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._state = "failed"
        kept, self._kept = self._kept, []
        with self._device.activate():
            try:
                self._libraries.close()
            finally:
                graph = self._ended(error)
            if graph is None:
                return
            made = _Graph(self._device, graph, kept)
            if not made.plan.nodes and not self._may_be_empty:
                raise CudaError(
                    "the capture recorded nothing: whatever was launched went to other streams",
                    hint="launch on `g.stream`: PyTorch, CuPy and qgraph do that, numba.cuda takes it in brackets",
                )
        self._graph, self._state = made, "recorded"

    def _ended(self, error: BaseException | None) -> Any:
        """The graph; None where ``error`` ended the capture early, and is raised."""
        if error is None:
            return end_capture(self.stream)
        try:
            call(driver.cuGraphDestroy, end_capture(self.stream))
        except CudaError as broken:
            # What broke it is told by the error itself.
            error.add_note(f"the capture ended with it: {broken.found}")
        return None

    # --- use -----------------------------------------------------------------------------------------------------------

    def __call__(self, *, reads: Any = (), writes: Any = ()) -> None:
        """Launch it on the current stream: that of ``qgraph.stream``, and in order with those of PyTorch and CuPy.

        Args:
            reads: arrays, for kernels that call it: what it reads.
            writes: what it writes. Without both it is in order with everything.

        Raises:
            CudaError: it is not recorded, or the driver refused.
        """
        if in_reference():
            raise BackendError(
                "a recorded graph works on memory of the device, and the reference runs on NumPy arrays",
                hint="call what was recorded instead",
            )
        first, *others = current_streams()
        with self._device.activate():
            captured = [each for each in (first, *others) if each and is_capturing(each)]
            if captured:
                first, others = captured[0], []
            for other in others:
                order_after(first, other)
            self.run(first)
            for other in others:
                order_after(other, first)

    def launch(self, stream: object = None) -> None:
        """Launch it on ``stream``, without waiting; None: on the default stream.

        Raises:
            ArgumentError: ``stream`` is no stream.
            CudaError: it is not recorded, or the driver refused.
        """
        with self._device.activate():
            self.run(handle_of(stream))

    @property
    def plan(self) -> RecordedPlan:
        """Its nodes, named by their kernels, with what they touch where that is known, and edges."""
        return self._recorded().plan

    @property
    def reads(self) -> tuple[range, ...] | None:
        """The addresses that it reads; None where that is not known of some node, as of kernels that others launched."""
        touched = self.plan.touched
        return None if touched is None else touched.reads

    @property
    def writes(self) -> tuple[range, ...] | None:
        """The addresses that it writes, besides memory of its own; None as for ``reads``."""
        touched = self.plan.touched
        return None if touched is None else touched.writes

    def _recorded(self) -> _Graph:
        if self._graph is None:
            found = {
                "new": "this graph is not recorded yet",
                "recording": "this graph is being recorded",
                "failed": "this graph was not recorded: its capture failed",
            }
            raise CudaError(found[self._state], hint=_HINT)
        # ``refresh`` raises where the context is lost.
        if self._device.refresh() != self._epoch:
            raise CudaError("this graph was recorded before its CUDA context was reset, and is gone", hint="record it again")
        return self._graph

    # --- as a child graph ----------------------------------------------------------------------------------------------

    def not_in_graph(self) -> str:
        """Which node keeps it from being a child graph."""
        return self.plan.not_in_graph()

    def not_in_body(self) -> str:
        """Which node keeps it out of bodies."""
        return self.plan.not_in_body()

    def add_to(self, graph: Any) -> Any:
        """Add a child-graph node."""
        with self._lock:
            return call(driver.cuGraphAddChildGraphNode, graph, None, 0, self._recorded().handle)

    def patch(self, executable: Any, node: Any, before: RecordedGraph) -> bool:
        """``cuGraphExecChildGraphNodeSetParams``, where the driver has nothing to refuse."""
        if not isinstance(before, Recording) or before.plan != self.plan:
            return False
        with self._lock:
            return int(driver.cuGraphExecChildGraphNodeSetParams(executable, node, self._recorded().handle)[0]) == 0

    def replace(self, graph: Any, node: Any) -> Any:
        """Another node with the same edges: CUDA cannot change the child graph of a node. Both or none: each would run."""
        befores, afters = neighbours(node)
        made = self.add_to(graph)
        try:
            connect(graph, [(each, made) for each in befores], programmatic=False)
            connect(graph, [(made, each) for each in afters], programmatic=False)
            call(driver.cuGraphDestroyNode, node)
        except BaseException:
            call(driver.cuGraphDestroyNode, made)
            raise
        return made

    def run(self, stream: int) -> None:
        """``cuGraphLaunch``, or a child-graph node where the stream is being captured."""
        if stream not in LASTING and is_capturing(stream):
            self._add_to_capture(stream)
            return
        with self._lock:
            code = self._recorded().launch(stream)
        if code != 0:
            raise failure(code, "cuGraphLaunch")

    def _add_to_capture(self, stream: int) -> None:
        refused = self.not_in_graph()
        if refused:
            raise CudaError(f"the stream {stream:#x} is being captured, and this graph cannot be part of that: {refused}")
        capture = Capture.on(stream)
        self._device.once(KeptForGraphs).keep(self, capture.graph)
        first = capture.begin()
        child = self.add_to(capture.graph)
        touched, kept = self.plan.touched, KEPT.get()
        if touched is not None and kept is not None:
            kept.append(KnownNodes({int(child): touched}))
        connect(capture.graph, [(first, child)], programmatic=False)
        capture.end([child])

    def __repr__(self) -> str:
        return f"<{self._state} graph{f' of {len(self._graph.plan.nodes)} nodes' if self._graph else ''}>"


class _Graph:
    """A CUgraph, its one executable, which is made at the first launch, and what both work on.

    Whoever has a copy of it as a child graph holds the recording, and so this.
    """

    def __init__(self, device: DeviceContext, handle: Any, kept: list[Any]) -> None:
        self.handle = handle
        self._executables: list[Any] = []
        # Freed with the next executable or recording: a finalizer may not wait for the device.
        release = partial(_release, device, device.epoch, handle, self._executables, kept)
        weakref.finalize(self, device.retire, release).atexit = False
        self.plan = recorded_plan(handle, known_nodes(kept))
        decides = any(node.kind == "conditional" for node in self.plan.nodes)
        self._launch = device.once(LaunchSerialiser).launch if decides else driver.cuGraphLaunch

    def launch(self, stream: int) -> int:
        """Launch it on ``stream``; gives the driver's code."""
        if not self._executables:
            with outside_captures():
                self._executables.append(call(driver.cuGraphInstantiate, self.handle, 0))
        return int(self._launch(self._executables[0], stream)[0])


def _release(device: DeviceContext, epoch: int, handle: Any, executables: Sequence[Any], kept: list[Any]) -> None:
    if device.alive(epoch):
        with device.activate(), outside_captures():
            # Copies of it may still run, on memory that others get next.
            call(driver.cuCtxSynchronize)
            for executable in executables:
                call(driver.cuGraphExecDestroy, executable)
            call(driver.cuGraphDestroy, handle)
    kept.clear()


class _Workspaces:
    """The workspaces of a device that no recording uses, by the stream that was given, None for streams of their own."""

    def __init__(self, device: DeviceContext) -> None:
        self._device = device
        self._free: dict[int | None, list[Workspace]] = {}

    def lend(self, given: int | None) -> _Lent:
        """One that nobody uses while the result lives."""
        with self._device.lock:
            free = self._free.setdefault(given, [])
            workspace = free.pop() if free else None
        if workspace is None:
            with self._device.activate(), outside_captures():
                workspace = Workspace(int(call(driver.cuStreamCreate, _NON_BLOCKING)) if given is None else given)
        lent = _Lent(workspace)
        weakref.finalize(lent, free.append, workspace).atexit = False
        return lent


@dataclass(eq=False)
class _Lent:
    """A workspace for one recording."""

    workspace: Workspace
