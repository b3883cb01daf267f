"""Executable graphs of alternating calls, as in double buffering: each keeps its arguments, so none is patched."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from qgraph.errors import CudaError
from qgraph.runtime.driver.driver import call, driver, outside_captures
from qgraph.runtime.driver.stream import LASTING, ONE_DEFAULT
from qgraph.runtime.executors.relaunch import Relaunch
from qgraph.runtime.graph.graph_builder import GraphInstance
from qgraph.runtime.graph.kernels import KernelNode
from qgraph.runtime.graph.node_updates import patch_in

# Patches after which a call gets an executable of its own: to instantiate one costs as much as several patches.
KEEP_AFTER = 2
# Cached graphs of one executable.
MAX_KEPT = 8


class GraphExecCache:
    """The graphs of one executable. All methods but ``__init__`` need its lock held and the context current.

    With shared scratch memory all launches must be of one stream, which orders them; the first launch elsewhere disables the
    cache for good.

    Args:
        instance: the graph.
        kernels: all its nodes.
        shared: whether they use scratch memory.
    """

    def __init__(self, instance: GraphInstance, kernels: Sequence[KernelNode], *, shared: bool) -> None:
        self._instance, self._kernels, self._shared = instance, kernels, shared
        # Each with the call that it is for, as long as that may come back.
        self._entries: list[tuple[weakref.ref[Relaunch], Any]] = []
        self._ended = False

    def keep(self, repeat: Relaunch, stream: int, context: int) -> None:
        """Let ``repeat``, whose arguments the kernels have, have a graph of its own; where it cannot, do nothing."""
        # A stream's handle may be that of an earlier stream, whose launches may still use scratch memory.
        if self._ended or (self._shared and not (ONE_DEFAULT and stream in LASTING)):
            return
        gone = [entry for entry in self._entries if entry[0]() in (None, repeat)]
        if len(self._entries) - len(gone) >= MAX_KEPT:
            # Each call that finds no room comes here: it must not take long.
            return
        with outside_captures():
            self._forget(gone)
            try:
                executable = call(driver.cuGraphInstantiate, self._instance.graph, 0)
            except CudaError:  # no room for another one: it would only save time, and the launch has been made
                self._ended = True
                return
            self._entries.append((weakref.ref(repeat), executable))
            try:
                # It has the arguments that the definition was made with.
                patch_in(executable, self._kernels)
            except CudaError:  # as above
                self._ended = True
                self._forget(self._entries[-1:])
                return
        repeat.open(stream, context, executable)

    def about_to_launch(self, stream: int) -> None:
        """A launch of another graph is to come: on another stream than those of kept ones, it may wait for them."""
        if self._shared and self._entries and stream not in LASTING:
            self.end()

    def end(self) -> None:
        """Keep no graph any more; afterwards no launch of one is in flight."""
        self._ended = True
        if self._entries:
            with outside_captures():
                self._forget(self._entries)
                call(driver.cuCtxSynchronize)

    def close(self) -> None:
        """Let nobody launch these graphs from here on."""
        for entry in self._entries:
            _close(entry)

    def destroy(self) -> None:
        """Destroy all of them."""
        self._ended = True
        self._forget(self._entries)

    def _forget(self, entries: Sequence[tuple[weakref.ref[Relaunch], Any]]) -> None:
        self._entries = [entry for entry in self._entries if entry not in entries]
        # All of them, even where the driver refuses one.
        with ExitStack() as each:
            for entry in entries:
                _close(entry)
                # Launches in flight finish: the driver frees it after them.
                each.callback(call, driver.cuGraphExecDestroy, entry[1])


def _close(entry: tuple[weakref.ref[Relaunch], Any]) -> None:
    repeat = entry[0]()
    if repeat is not None:
        repeat.close()
