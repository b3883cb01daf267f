"""A compiled plan on one device: its kernels, their arguments, and what a launch does; which graphs there are is open."""

from __future__ import annotations

import ctypes
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from qgraph.errors import BackendError, CudaError, StreamCaptured
from qgraph.ir.artifacts import CudaPlan
from qgraph.ir.plan import BLOCK_THREADS, GraphPlan
from qgraph.ir.slots import WORD
from qgraph.nodes.kind import GraphNode
from qgraph.runtime.driver.arena import Arena
from qgraph.runtime.driver.device_errors import DeviceFaults
from qgraph.runtime.driver.driver import ContextLost, DeviceContext, ExecutableClosed, driver
from qgraph.runtime.driver.memory import Buffer, PinnedWords, copy_out, fill
from qgraph.runtime.driver.side_stream import SideStream
from qgraph.runtime.driver.stream import LASTING, is_capturing, private_stream, refuse_capture
from qgraph.runtime.executors.graph_exec_cache import KEEP_AFTER
from qgraph.runtime.executors.relaunch import Relaunch, again
from qgraph.runtime.executors.resources import Resources
from qgraph.runtime.executors.single_block import BlockForm
from qgraph.runtime.graph.graph_builder import RawGraph
from qgraph.runtime.graph.kernel_parameters import Parameters
from qgraph.runtime.graph.kernels import KernelContext, KernelNode, LoadedCode
from qgraph.runtime.graph.node_updates import patch_kernels
from qgraph.runtime.graph.nodes import NonKernelNodes
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.prepared_call import Call, ReplayCode
from qgraph.runtime.values.results import ResultReader
from qgraph.runtime.values.running_loops import StoppableLoops
from qgraph.runtime.values.temporaries import Temporaries


class CudaExecutable(ABC):
    """A compiled plan on one device, ready to be launched again and again; safe to call from several threads.

    ``close`` frees it at once; one that is merely dropped is freed when the next executable is built for the device.

    Attributes:
        path: how it runs, as in ``last_launch.path``.
        reason: why it runs that way, as a sentence.
        nodes: nodes of the plan's graph, bodies of loops included.
        reinstantiations: how often a graph was made executable again, for a fill or copy of another shape.
        argument_updates: launches so far that had to patch arguments or sizes (the first one only fills them in).
        rebuilds: how often a graph was built again, since memory that it takes itself has another size.
    """

    path: str
    # Whether nodes live in graphs: fills and copies are kernels where they are launched one by one.
    _in_graphs = True
    # Whether the whole plan is one graph: then nodes can take and free memory, and one block of threads can be all of it.
    _one_graph = False
    # Whether the graph was begun, and waits for its nodes to know what they work on; and whether it must be begun anew.
    _unfinished = _half_built = False
    # Whether it is built while a stream is captured: then nothing may wait for the device.
    _captured = False
    # Whether the launch of one graph, and nothing of the host's, is what the same call takes again.
    _repeats = False
    # Whether calls may have graphs of their own: not where the user launches ``graph`` directly.
    _keeps = True
    # Where the whole plan can run as one block: its kernel, and the other graph that is just this kernel.
    _block_kernel: KernelNode | None = None
    # What each launch reads and writes, in places that take no look-up: the dictionary has too many entries to be fast.
    __slots__ = (
        *("__dict__", "__weakref__", "_block", "_context_id", "_instance", "_kernels", "_launch_graph", "_launched", "_lock"),
        *("_inside", "_only_kernels", "_others", "_parameters", "_placed", "_ready", "_resources", "_results", "_token"),
        *("_replays", "argument_updates"),
    )

    def __init__(self, plan: CudaPlan, device: DeviceContext, *, block_size: int | None, reason: str) -> None:
        self.plan = plan
        self.device = device
        self.block_size = block_size
        self.reason = reason
        self.nodes = len(plan.plan.nodes)
        # What is told of the plan's graph, while it runs as one block.
        self._as_whole = self.nodes, reason
        self._replays, self.argument_updates = ctypes.c_int64(), 0
        self.reinstantiations = 0
        self.rebuilds = 0
        # A signal's handler may launch while this very thread does; whether it is in the midst of a change.
        self._lock, self._inside = threading.RLock(), False
        self._token: object = None
        # The call whose arguments the graph has, where it can be repeated as it is: whoever goes the long way closes it first.
        self._ready: weakref.ref[Relaunch] | None = None
        self._launched = False
        self._block: BlockForm | None = None
        if not self._captured:
            device.free_retired()
        with device.activate():
            self._resources = Resources(device, device.epoch)
            # Of the context in which all of it lives.
            self._context_id: int | None = device.context_id
            try:
                self._prepare(plan, block_size)
                self._build()
                # Nothing but the arguments of kernels can change between launches of one size.
                self._only_kernels = self._block is None and not self._others.changing and self._arena.empty
            except BaseException:
                self._resources.release(ran=False)
                raise
        self._finalizer = weakref.finalize(self, device.retire, self._resources.release)
        self._finalizer.atexit = False  # the driver takes everything back when the process ends

    @property
    def replays(self) -> int:
        """Launches so far."""
        return self._replays.value

    def _prepare(self, plan: CudaPlan, block_size: int | None) -> None:
        resources = self._resources
        size = plan.plan.scratch_words * WORD
        scratch = resources.scratch = Buffer(self.device, size)
        unrolled = plan.plan.unrolled
        with private_stream() as own:
            fill(scratch, b"\0", size, own)
            for each in unrolled:
                fill(scratch.pointer + each.guards * WORD, (1).to_bytes(WORD, "little"), 1, own)
        program = plan.plan.program
        # The task that begins a launch looks there, too, whether or not something was found to check.
        noting = program.faults or program.exits is not None
        resources.faults = DeviceFaults(self.device, program) if noting else None
        if plan.plan.loops and self._handle_loops(plan.plan):
            word = scratch.pointer + plan.plan.stop * WORD
            resources.loops = StoppableLoops(plan.plan.loops, self.device.once(SideStream).writer(word))
            self.device.running.add(resources.loops)
        # How many iterations each loop had that can be unrolled; the device writes it, whenever that is.
        self._turns = PinnedWords(self.device, len(unrolled)) if unrolled else None
        if self._turns is not None:
            self._turns.words[:] = [0] * len(unrolled)
            resources.more.append(self._turns)
        turns_pointer = self._turns.pointer if self._turns is not None else 0
        faults_pointer = resources.faults.pointer if resources.faults is not None else 0
        self._parameters = Parameters(plan, scratch.pointer, faults_pointer, turns_pointer)
        self._arena = resources.arena = Arena(self.device, Temporaries(plan.plan.program))
        self._arena_values: tuple[ArrayView, ...] = ()
        # The host values that those are for, and the grids.
        self._placed: tuple[int, ...] | None = None
        result = plan.plan.program.numbers
        self._results = None if result is None else ResultReader(result, plan.dtypes)
        self._others = resources.others = self._make_others(scratch.pointer)
        words = self._words_read()
        resources.pinned = PinnedWords(self.device, words) if words else None
        self._kernels: dict[int, KernelNode] = {}
        if plan.codes:
            resources.code = LoadedCode(plan.cubin)
            self._make_kernels(plan, resources.code, block_size)
        # What stands at each node that decides nothing.
        self._nodes: dict[int, KernelNode | GraphNode] = {**self._kernels, **self._others.nodes}
        self._sized = [kernel for kernel in self._kernels.values() if kernel.sized]
        self._programmatic = self._programmatic_edges(plan)
        # Each kernel with those that wait for it inside.
        self._followed = [
            (kernel, [self._kernels[after] for before, after in self._programmatic if before == index])
            for index, kernel in self._kernels.items()
        ]
        self._set_row(self._row_edges(plan))

    def _make_others(self, scratch: int) -> NonKernelNodes:
        plan, in_graphs = self.plan, self._in_graphs
        return NonKernelNodes(plan.plan, plan.dtypes, self.device, scratch, in_graphs=in_graphs, one_graph=self._one_graph)

    def _make_kernels(self, plan: CudaPlan, loaded: LoadedCode, block_size: int | None) -> None:
        host_index = {value.name: index for index, value in enumerate(plan.plan.program.host_values)}
        setting = self._setting = KernelContext(loaded, self._parameters, self.device, block_size, host_index)
        loops = self._handle_loops(plan.plan)
        for node in plan.plan.nodes:
            if node.task is not None and node.index not in self._others.nodes:
                code = plan.codes[node.task.name]
                bit = 1 << len(self._kernels)
                loop = None if node.decision is None else loops.get(node.decision.name)
                self._kernels[node.index] = KernelNode(node.index, code, bit, loop, setting)
        if plan.block and self._one_graph:
            # One number and one bit more than the nodes of the plan have.
            index, bit = len(plan.plan.nodes), 1 << len(self._kernels)
            wide = replace(setting, block_size=BLOCK_THREADS)
            self._block_kernel = KernelNode(index, plan.codes[plan.block], bit, None, wide)

    def _programmatic_edges(self, plan: CudaPlan) -> Set[tuple[int, int]]:
        """The edges over which kernels wait inside: all between two kernels, where kernels can."""
        if not plan.waits_inside:
            return frozenset()
        return {
            (before, after)
            for before, after in plan.plan.programmatic
            if before in self._kernels and after in self._kernels and self._kernels[after].code.waits
        }

    def _row_edges(self, plan: CudaPlan) -> Set[tuple[int, int]]:
        """Those between neighbours of a row (``GraphPlan.row``): none, where kernels of the root are not of one graph."""
        return frozenset()

    def _set_row(self, row: Set[tuple[int, int]]) -> None:
        """Before a graph is made."""
        self._row, self._heads = row, frozenset(before for before, _ in row)
        self._parameters.set_row(frozenset(after for _, after in row))
        for kernel in self._kernels.values():
            kernel.early = False
        self._let_start_early(self._followed)

    def _let_start_early(self, followed: Iterable[tuple[KernelNode, Sequence[KernelNode]]]) -> None:
        # PDL pays only if both grids are co-resident. In a PDL chain they are.
        for kernel, later in followed:
            fits = kernel.share + sum(each.share for each in later) <= 1
            early = kernel.index in self._heads or (bool(later) and fits)
            if early != kernel.early:
                self._parameters.set_early(kernel, early)
                kernel.early = early

    def _let_start_early_at_first(self, followed: Iterable[tuple[KernelNode, Sequence[KernelNode]]]) -> None:
        # Before these kernels are added to a graph: no other graph has to be told.
        changed = self._parameters.changed
        self._let_start_early(followed)
        self._parameters.changed = changed

    def _handle_loops(self, plan: GraphPlan) -> dict[str, int]:
        """Which tasks get a conditional handle: none, where the host decides."""
        return {}

    def _words_read(self) -> int:
        """How many words of scratch the host reads at once."""
        return 0 if self._results is None else max(1, self._results.words)

    @abstractmethod
    def _build(self) -> None:
        """Make the graphs; called once, with the context current."""

    @abstractmethod
    def _run(self, stream: int) -> None:
        """Launch with the parameters as they are; called with the context current and the lock held."""

    def launch(self, request: Call, repeat: Relaunch | None = None) -> tuple[Any, ...] | None:
        """Run with these arguments, in the order of their stream. The caller keeps the arrays alive until they are used.

        Gives the numbers that the kernel returns, for which it waits; None if it returns nothing. ``repeat`` stands for a call
        that is repeated: its launch is prepared where possible.

        Raises:
            ArgumentError: a size or a number does not fit; nothing ran.
            CudaError: the driver refused, or reported the failure of earlier work.
            ContextLost: the primary context was reset; build the executable again.
            StreamCaptured: the stream is being captured; nothing ran. Later launches change the arguments in this graph.
        """
        with self._lock:
            if self._inside:
                raise _called_inside()
            pushed = False
            try:
                self._inside = True
                if self._ready is not None:
                    self._stop_repeating()
                # In most calls the context in which the executable was built is current; no other one ever has its number.
                pushed = driver.cuCtxGetId(None)[1] != self._context_id and self._enter()
                stream, kept = request.stream, self._resources.kept
                if stream not in LASTING and is_capturing(stream):
                    raise StreamCaptured(request)
                if kept is not None:
                    kept.about_to_launch(stream)
                came_back = request.token is self._token is not None
                if not came_back:
                    self._patch(request)
                self._run_chosen(stream)
                self._replays.value += 1
                if self._results is not None:
                    return self._read(self._results, stream)
                if repeat is not None and self._repeats and not pushed:
                    self._make_ready(repeat, stream, came_back)
                return None
            finally:
                self._inside = False
                if pushed:
                    self.device.pop()

    def again(self, request: Call, find_stream: Callable[[], int]) -> ReplayCode:
        """How these arguments run once more, on the stream that ``find_stream`` gives then; raises as ``launch`` does.

        It is a launch. Where the last one was the same, or such calls take turns, only the driver's launch is left of it.
        """
        return again(Relaunch(self, self._lock, self._replays, request), find_stream)

    def _make_ready(self, repeat: Relaunch, stream: int, came_back: bool) -> None:
        # To make it takes a while, so not at the first time.
        if came_back:
            if self._context_id is not None:
                self._ready = weakref.ref(repeat)
                repeat.open(stream, self._context_id, *self._repeatable())
            return
        repeat.changes += 1
        if repeat.changes > KEEP_AFTER:
            self._keep(repeat, stream)

    def _repeatable(self) -> tuple[Any, Callable[[Relaunch], Any] | None]:
        """The executable graph that just ran, and what ``Relaunch.open`` wants to know; only where ``_repeats``."""
        return None, None

    def _keep(self, repeat: Relaunch, stream: int) -> None:  # noqa: B027 - only one graph can have a second executable
        """Let ``repeat``, which just ran, have a graph of its own, where it can."""

    def _stop_repeating(self) -> None:
        # Before the graph is patched, or launched with other arguments.
        repeat = None if self._ready is None else self._ready()
        if repeat is not None:
            repeat.close()
        self._ready = None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """While this lasts nobody launches, and no call is repeated afterwards before it went the long way again."""
        with self._lock:
            if self._inside:
                raise _called_inside()
            try:
                self._inside = True
                self._stop_repeating()
                yield
            finally:
                self._inside = False

    def _end_keeping(self) -> None:
        if self._resources.kept is not None:
            self._resources.kept.end()

    def _run_chosen(self, stream: int) -> None:
        loops = self._resources.loops
        if loops is not None:
            self.device.running.launched(loops, anywhere=stream not in LASTING)
        if self._block is None:
            self._run(stream)
        else:
            self._block.run(stream, self._run)

    def _read(self, results: ResultReader, stream: int) -> tuple[Any, ...]:
        # Under the lock: the next launch writes the same scratch.
        scratch, pinned = self._resources.scratch, self._resources.pinned
        if scratch is None or pinned is None:
            raise CudaError("this executable was closed")
        running = self.device.running.some
        copy_out(scratch.pointer + results.first * WORD, pinned.pointer, results.words * WORD, stream, wait=not running)
        if running:
            self.device.wait_for(stream)
        self.device.kept.tell()
        return results.read(pinned.words, results.first)

    def replay(self, stream: int) -> None:
        """Run with the arguments of the last ``launch``; raises as that does."""
        with self._changing():
            if not self._launched or self._unfinished:
                raise CudaError("a replay needs a launch before it, which sets the arguments")
            pushed = self._enter()
            try:
                refuse_capture(stream, "a replay cannot be part of it", "call the kernel")
                self._end_keeping()
                self._run_chosen(stream)
            finally:
                if pushed:
                    self.device.pop()
            self._replays.value += 1

    def graph(self, request: Call) -> RawGraph:
        """The graph, with these arguments.

        Raises:
            BackendError: there is no one graph.
        """
        raise BackendError(
            f"this kernel does not run as one CUDA graph: {self.reason}",
            hint="see last_launch.path; the options graph=True and conditional='device' make it one",
        )

    def _enter(self) -> bool:
        # What a reset took away must not be touched, so this comes before anything else.
        pushed = self.device.push(stays=True)
        if self.device.epoch == self._resources.epoch and not self._resources.released:
            self._context_id = self.device.context_id
            return pushed
        if pushed:
            self.device.pop()
        if self._resources.released:
            raise ExecutableClosed("this executable was closed")
        raise ContextLost("the CUDA context was reset after this executable was built")

    def _patch(self, request: Call) -> None:
        parameters = self._parameters
        self._token = None
        if self._only_kernels and request.host == self._placed:
            # Most calls with new arguments: they take as long as a few of these lines.
            parameters.update(request.values)
            if parameters.changed:
                self._apply(parameters.changed)
                parameters.changed = 0
                self.argument_updates += 1
            self._token = request.token
            return
        if request.host != self._placed:
            # Until all went well, grids and places are for none: an exception may have left them half-way.
            self._placed = None
            self._resize(request.host)
            self._arena_values = self._place(request.host)
        values = (*request.values, *self._arena_values) if self._arena_values else request.values
        parameters.update(values)
        mine = -1 if self._block is None else self._choose(self._block, request.host)
        changed = parameters.changed & mine
        if self._others.changing:
            changed = self._update_others(values, request.host) or changed
        if self._unfinished:
            self._finish_building()
        if parameters.changed & mine:
            if self._block is not None and self._block.chosen:
                self._block.patch()
            else:
                self._apply(parameters.changed & mine)
            # Only now: what an exception kept from the graph is applied by the next launch. Kernels of the graph that does not
            # run stay marked.
            parameters.changed &= ~mine
        if changed and self._launched:
            self.argument_updates += 1
        self._placed = request.host
        self._launched = True
        self._token = request.token

    def _choose(self, block: BlockForm, host: tuple[int, ...]) -> int:
        """Decide what runs with these host values, and give the mask of its kernels."""
        before = block.chosen
        block.choose(host)
        if block.chosen and not before:
            self._as_whole = self.nodes, self.reason
            self.nodes, self.reason = 1, block.reason
        elif before and not block.chosen:
            self.nodes, self.reason = self._as_whole
        return block.bit if block.chosen else ~block.bit

    def _update_others(self, values: tuple[Any, ...], host: tuple[int, ...]) -> bool:
        """Patch what is no kernel; gives whether anything changed."""
        changed = self._others.update(values, host)
        if self._others.rejected and not self._unfinished:
            self._instantiate_again()
        return changed

    def _place(self, host: tuple[int, ...]) -> tuple[ArrayView, ...]:
        """The temporaries for these host values."""
        return self._arena.values(host, {})

    def _finish_building(self) -> None:  # noqa: B027 - some graphs are built in two steps
        """Complete a graph that was begun, now that its nodes know what they work on."""

    def _instantiate_again(self) -> None:
        """A fill or copy has another shape than the executable was made for."""
        # The mask first: should anything interrupt, the next launch patches all kernels.
        self._parameters.changed |= (1 << len(self._kernels)) - 1
        for graph in self._resources.graphs:
            self.reinstantiations += graph.instantiate_again()

    def _resize(self, host: tuple[int, ...]) -> None:
        # All shapes are computed, and may be refused, before any changes.
        shapes = [kernel.shape_for(host) for kernel in self._sized]
        parameters = self._parameters
        for kernel, shape in zip(self._sized, shapes, strict=True):
            if shape != kernel.shape:
                parameters.changed |= kernel.bit
                kernel.take_shape(shape)
        self._let_start_early(self._followed)
        parameters.update_host(host)

    def _apply(self, changed: int) -> None:
        patch_kernels(self._kernels.values(), changed)

    def close(self) -> None:
        """Wait for the launches in flight and free everything. Nothing happens the second time, or after a reset.

        While a stream is captured, which waiting would break, all of it is freed later, with what finalizers retire.
        """
        with self._changing():
            if self._resources.kept is not None:
                self._resources.kept.close()
            # Not that of any context, nor what the driver says where there is none.
            self._context_id = -1
            self._finalizer.detach()
            self._resources.let_go()

    def __repr__(self) -> str:
        name = self.plan.plan.program.name
        return f"<{type(self).__name__} of {name}: {self.nodes} nodes, {self.replays} replays>"


def _called_inside() -> CudaError:
    return CudaError(
        "a signal's handler, or a finaliser, called the kernel whose launch it interrupted: nothing ran",
        hint="let it set a flag, and call the kernel afterwards",
    )
