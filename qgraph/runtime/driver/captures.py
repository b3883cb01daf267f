"""Captures: where one stands, what comes next in it, how one begins and ends, and what lives as long as its graph."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from qgraph.compat.cuda_bindings import with_edge_data
from qgraph.records import dataclass
from qgraph.runtime.driver.driver import DeviceContext, call, driver, failure

_get_info = with_edge_data(driver, "cuStreamGetCaptureInfo", "v3")
_update_dependencies = with_edge_data(driver, "cuStreamUpdateCaptureDependencies")
_add_dependencies = with_edge_data(driver, "cuGraphAddDependencies")
_SET_DEPENDENCIES = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES
_NO_DESTRUCTOR_SYNC = 1  # CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
_MOVE = 1  # CU_GRAPH_USER_OBJECT_MOVE
_SEMAPHORE = 64  # bytes: no sem_t is larger


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture that goes on: its number, its graph (a CUgraph), and the nodes that what the stream gets next comes after."""

    stream: int
    number: int
    graph: Any
    _dependencies: Sequence[Any]
    _edge_data: Sequence[Any] | None

    @classmethod
    def on(cls, stream: int) -> Capture:
        """That on ``stream``, which is being captured."""
        _status, number, graph, dependencies, edge_data, count = call(_get_info, stream)
        return cls(stream, int(number), graph, list(dependencies or ())[:count], list(edge_data)[:count] if edge_data else None)

    def begin(self) -> Any:
        """Add an empty node behind all that the stream has now."""
        node = call(driver.cuGraphAddEmptyNode, self.graph, None, 0)
        count = len(self._dependencies)
        if count:
            call(_add_dependencies, self.graph, list(self._dependencies), [node] * count, self._edge_data, count)
        return node

    def end(self, last: Sequence[Any]) -> None:
        """Let what the stream gets next come after the nodes ``last``."""
        node = call(driver.cuGraphAddEmptyNode, self.graph, list(last), len(last))
        call(_update_dependencies, self.stream, [node], None, 1, _SET_DEPENDENCIES)


# Takes what the graph works on that qgraph records now; None where it records none. Others keep their own arrays.
KEPT: ContextVar[list[Any] | None] = ContextVar("qgraph_kept", default=None)
MODES = ("global", "thread_local", "relaxed")


def begin_capture(stream: int, mode: str) -> None:
    """What ``stream`` gets from now on is recorded. ``mode``: whose calls that would break a capture are refused."""
    call(driver.cuStreamBeginCapture, stream, driver.CUstreamCaptureMode(MODES.index(mode)))


def end_capture(stream: int) -> Any:
    """End the capture on ``stream``; gives its graph (a CUgraph), which is the caller's.

    Raises:
        CudaError: something broke the capture; its graph is gone.
    """
    code, graph = driver.cuStreamEndCapture(stream)
    if int(code) != 0:
        raise failure(code, "cuStreamEndCapture")
    return graph


class GraphLifetime:
    """Tells whether a graph and all its executables are gone.

    The driver calls the destructor of a user object on a thread of its own, perhaps while the interpreter ends: so it is
    ``sem_post`` of the C library, and no Python.
    """

    __slots__ = ("_semaphore",)

    def __init__(self, graph: Any) -> None:
        libc = _libc()
        # Never freed before the destructor was called: at the end of the process it may be called later than anything.
        self._semaphore: int | None = libc.calloc(1, _SEMAPHORE)
        libc.sem_init(self._semaphore, 0, 0)
        destroy = driver.CUhostFn(ctypes.cast(libc.sem_post, ctypes.c_void_p).value)
        made = call(driver.cuUserObjectCreate, self._semaphore, destroy, 1, _NO_DESTRUCTOR_SYNC)
        call(driver.cuGraphRetainUserObject, graph, made, 1, _MOVE)

    @property
    def over(self) -> bool:
        """Whether it is gone."""
        if self._semaphore is not None and _libc().sem_trywait(self._semaphore) == 0:
            _libc().free(self._semaphore)
            self._semaphore = None
        return self._semaphore is None


@dataclass(slots=True, eq=False)
class KeptForGraphs:
    """What captured graphs of a device need: each thing lives as long as its graph and all its executables and copies."""

    device: DeviceContext
    _alive: list[tuple[object, GraphLifetime]] = field(default_factory=list)

    def keep(self, what: object, graph: Any) -> None:
        """Keep ``what`` for ``graph`` (a CUgraph). What graphs kept that are gone is let go of."""
        lifetime = GraphLifetime(graph)
        with self.device.lock:
            kept, self._alive = self._alive, []
            self._alive = [*(each for each in kept if not each[1].over), (what, lifetime)]
        # Not under the lock: finalizers of other libraries may run.
        del kept


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.calloc.restype, libc.calloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
    libc.sem_init.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint)
    libc.sem_trywait.argtypes = libc.free.argtypes = (ctypes.c_void_p,)
    libc.free.restype = None
    return libc
