"""What an executable owns on the device."""

from __future__ import annotations

from contextlib import ExitStack, suppress

from qgraph.errors import CudaError
from qgraph.runtime.driver.arena import Arena
from qgraph.runtime.driver.device_errors import DeviceFaults
from qgraph.runtime.driver.driver import DeviceContext, call, driver, outside_captures
from qgraph.runtime.driver.memory import Buffer, PinnedWords
from qgraph.runtime.driver.stream import captures
from qgraph.runtime.executors.graph_exec_cache import GraphExecCache
from qgraph.runtime.graph.graph_builder import GraphInstance
from qgraph.runtime.graph.kernels import LoadedCode
from qgraph.runtime.graph.nodes import NonKernelNodes
from qgraph.runtime.values.running_loops import StoppableLoops


class Resources:
    """What an executable owns on the device, apart from it, so that a finalizer can let go of it."""

    __slots__ = (
        "arena",
        "code",
        "device",
        "epoch",
        "faults",
        "graphs",
        "kept",
        "loops",
        "more",
        "others",
        "pinned",
        "released",
        "scratch",
    )

    def __init__(self, device: DeviceContext, epoch: int) -> None:
        self.device = device
        self.epoch = epoch
        self.released = False
        self.graphs: list[GraphInstance] = []
        # Graphs that keep the arguments of some calls, where there are any.
        self.kept: GraphExecCache | None = None
        self.code: LoadedCode | None = None
        self.scratch: Buffer | None = None
        self.arena: Arena | None = None
        self.pinned: PinnedWords | None = None
        self.others: NonKernelNodes | None = None
        self.faults: DeviceFaults | None = None
        # Those on the device, which can be stopped.
        self.loops: StoppableLoops | None = None
        # What else there is to free.
        self.more: list[NonKernelNodes | PinnedWords] = []

    def release(self, *, ran: bool = True) -> None:
        """Free everything, after the launches in flight; never raises. Nothing happens the second time.

        Waiting for them breaks every capture that goes on. Where nothing ``ran``, there is nothing to wait for.
        """
        if self.released:
            return
        self.released = True
        self._forget_loops()
        graphs, self.graphs = self.graphs, []
        code, self.code = self.code, None
        if not self.device.alive(self.epoch):
            for graph in graphs:
                graph.abandon()
            if self.faults is not None:
                self.faults.free()
            return
        try:
            with self.device.activate(), outside_captures():
                if ran:
                    call(driver.cuCtxSynchronize)
                self._destroy(graphs, code)
        except CudaError:  # the context is poisoned: nothing in it can be used or freed any more
            for graph in graphs:
                graph.abandon()
        for memory in (self.scratch, self.pinned, self.arena, self.others, self.faults, *self.more):
            if memory is not None:
                memory.free()

    def let_go(self) -> None:
        """The same; while a stream is captured later, with what finalizers retire."""
        goes_on = False
        if self.device.alive(self.epoch):
            with suppress(CudaError), self.device.activate():  # a lost context refuses to say
                goes_on = captures()
        if goes_on:
            self.device.retire(self.release)
        else:
            self.release()

    def _forget_loops(self) -> None:
        # Their words are in scratch.
        if self.loops is not None:
            self.device.running.remove(self.loops)

    def start_again(self, graph: GraphInstance) -> None:
        """Destroy ``graph``, and those that keep arguments: others follow."""
        self.graphs = [each for each in self.graphs if each is not graph]
        with outside_captures():
            call(driver.cuCtxSynchronize)
            self._destroy([graph])

    def drop(self, graph: GraphInstance) -> None:
        """Destroy ``graph``, which never ran: nobody has to wait."""
        self.graphs = [each for each in self.graphs if each is not graph]
        with outside_captures():
            graph.destroy()

    def _destroy(self, graphs: list[GraphInstance], code: LoadedCode | None = None) -> None:
        # Executables may be destroyed while they run; code, and memory that a graph takes, may not: the caller has waited.
        # In the order of these lines from the last one up, each of them, even where the driver refuses one.
        with ExitStack() as last_first:
            if code is not None:
                last_first.callback(code.unload)
            if self.others is not None and self.others.allocations:
                last_first.callback(self.device.trim)
            for graph in graphs:
                last_first.callback(graph.destroy)
            if self.kept is not None:
                last_first.callback(self.kept.destroy)
