"""Executable graphs of alternating calls, as in double buffering: each keeps its arguments, so none is patched."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from qgraph.errors import CudaError
from qgraph.runtime.driver.driver import call, driver, outside_captures
from qgraph.runtime.driver.stream import LASTING
from qgraph.runtime.executors.relaunch import GraphLaunch, PreparedLaunch, Relaunch, can_repeat, make_ready, stop
from qgraph.runtime.graph.graph_builder import GraphInstance
from qgraph.runtime.graph.kernels import KernelNode
from qgraph.runtime.graph.node_updates import patch_in

# Patches after which a call gets an executable of its own: to instantiate one costs as much as several patches.
KEEP_AFTER = 2
# Cached graphs of one executable.
MAX_KEPT = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    repeat: weakref.ref[Relaunch]
    executable: Any
    ready: PreparedLaunch


class GraphExecCache:
    """The graphs of one executable. All methods but ``__init__`` need its lock held and the context current.

    With shared scratch memory all launches must be of one stream and thread, which orders them; the first launch elsewhere
    disables the cache for good.

    Args:
        instance: the graph.
        kernels: all its nodes.
        shared: whether they use scratch memory.
    """

    def __init__(self, instance: GraphInstance, kernels: Sequence[KernelNode], *, shared: bool) -> None:
        self._instance, self._kernels, self._shared = instance, kernels, shared
        self._entries: list[_Entry] = []
        self._place: tuple[int, int] | None = None
        self._ended = False

    @property
    def readies(self) -> list[PreparedLaunch]:
        """The prepared launches."""
        return [entry.ready for entry in self._entries]

    def keep(self, repeat: Relaunch, stream: int, what: GraphLaunch) -> None:
        """Make ``repeat``, whose arguments the kernels have, ready to run a graph of its own; where it cannot, do nothing.

        ``what`` is how that of all calls is launched.
        """
        # A stream's handle may be that of an earlier stream, whose launches may still use scratch memory.
        if self._ended or (self._shared and stream not in LASTING):
            return
        gone = [entry for entry in self._entries if entry.repeat() in (None, repeat)]
        if len(self._entries) - len(gone) >= MAX_KEPT or not can_repeat():
            # Each call that finds no room comes here: it must not take long.
            return
        with outside_captures():
            self._forget(gone)
            try:
                executable = call(driver.cuGraphInstantiate, self._instance.graph, 0)
            except CudaError:  # no room for another one: it would only save time, and the launch has been made
                self._ended = True
                return
            ready = make_ready(stream, replace(what, executable=executable))
            assert ready is not None
            self._place = threading.get_ident(), stream
            self._entries.append(_Entry(weakref.ref(repeat), executable, ready))
            try:
                # It has the arguments that the definition was made with.
                patch_in(executable, self._kernels)
            except CudaError:  # as above
                self._ended = True
                self._forget(self._entries[-1:])
                return
        repeat.go = ready.go

    def about_to_launch(self, stream: int) -> None:
        """A launch is to come: on another stream, or from another thread, than those of kept graphs, it may wait for them."""
        if self._shared and self._entries and self._place != (threading.get_ident(), stream):
            self.end()

    def end(self) -> None:
        """Keep no graph any more; afterwards no launch of one is in flight."""
        self._ended = True
        if self._entries:
            with outside_captures():
                self._forget(self._entries)
                call(driver.cuCtxSynchronize)

    def destroy(self) -> None:
        """Destroy all of them."""
        self._ended = True
        self._forget(self._entries)

    def _forget(self, entries: Sequence[_Entry]) -> None:
        stop(entry.ready for entry in entries)
        self._entries = [entry for entry in self._entries if entry not in entries]
        # All of them, even where the driver refuses one.
        with ExitStack() as each:
            for entry in entries:
                # Launches in flight finish: the driver frees it after them.
                each.callback(call, driver.cuGraphExecDestroy, entry.executable)
