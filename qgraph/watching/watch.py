"""``watch``: a block in which calls of a kernel tell how far they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from qgraph import forks
from qgraph.dispatch.dispatch_cache import DispatchCache
from qgraph.errors import ArgumentError, QGraphError
from qgraph.kernel import Kernel
from qgraph.operations.progress_ring import ITERATION, LINE, RUN, TIME, VALUE
from qgraph.pickling import not_pickled
from qgraph.runtime.values.prepared_call import CHANGED, captures
from qgraph.stack import raises_to_user
from qgraph.watching.display import Display, display
from qgraph.watching.rings import CURRENT, HISTORY, Ring
from qgraph.watching.watched_kernel import WatchedKernel

# Seconds between two looks at the rows that came, and after which a call that compiles says so.
_PAUSE, _LONG = 0.02, 2.0

Found = TypeVar("Found")


class watch:  # noqa: N801 - a word, spelled as those of the language
    """``with qgraph.watch(kernel) as w:`` shows what the kernel tells by ``qgraph.progress``, while it runs.

    Calls of the kernel in this thread, and what it is bound to meanwhile, run with rows of a ring that the host reads; other
    threads, and calls that are captured into a graph, run as always. The block ends when the device has finished.

    Args:
        kernel: what is watched.
        show: whether to draw it: curves where the output is a terminal (with rich, if that is installed) or the cell of a
            notebook, else a line now and then.

    Attributes:
        lost: how many rows were written over before the host read them: there is room for 4,096, read 50 times a second.

    Raises:
        ArgumentError: ``kernel`` is no kernel, or the watch was open before.
    """

    __reduce__ = not_pickled("a watch cannot be pickled or copied: a thread of this process reads for it", "keep its history")

    @raises_to_user
    def __init__(self, kernel: Any, *, show: bool = True) -> None:
        # Of an instance's method, the kernel.
        kernel = getattr(kernel, "kernel", kernel)
        if not isinstance(kernel, Kernel):
            raise ArgumentError(
                f"{type(kernel).__name__} is no kernel, and cannot be watched", hint="pass what @qgraph.kernel made"
            )
        self._kernel = kernel
        self._display: Display | None = display(kernel._source.name) if show else None
        self._lock = threading.Lock()
        self._rings: list[Ring] = []
        # The ring of plain calls, by backend and device.
        self._of_calls: dict[tuple[str, int], Ring] = {}
        self._runs: dict[tuple[int, int], int] = {}
        self._history: list[np.ndarray] = []
        # How many parts of it were shown.
        self._shown = 0
        self._token: Any = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        # The begin of the compilation that was told last.
        self._told: float | None = None

    @property
    def history(self) -> np.ndarray:
        """What was told so far, in order: a one-dimensional array of records.

        ``run`` is the number of the launch, from 0 in order of their first rows, ``line`` that of the statement, and
        ``iteration`` and ``residual`` what it told, and ``time`` when, in nanoseconds of the clock of where it ran: that of the
        GPU, or ``time.perf_counter_ns``. All are int64 but ``residual``, which is float64.
        """
        with self._lock:
            if not self._ended.is_set():
                self._read()
            return np.concatenate([np.empty(0, HISTORY), *self._history])

    @property
    def lost(self) -> int:
        """How many rows were written over before the host read them."""
        return sum(ring.lost for ring in self._rings)

    # --- the block ------------------------------------------------------------------------------------------------------

    @raises_to_user
    def __enter__(self) -> Self:
        if self._thread is not None:
            raise ArgumentError("this watch was open before", hint="make another one: qgraph.watch(kernel)")
        _watchers(self._kernel).add(self)
        self._token = _OPEN.set((*_OPEN.get(), self))
        self._thread = threading.Thread(target=self._look, name="qgraph-watch", daemon=True)
        self._thread.start()
        return self

    @raises_to_user
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        _OPEN.reset(self._token)
        _watchers(self._kernel).remove(self)
        try:
            if any(backend == "cuda" for backend, _ in self._of_calls):
                from qgraph.arrays import synchronize

                with suppress(*([QGraphError] if error is not None else [])):
                    synchronize()
        finally:
            self._ended.set()
            assert self._thread is not None
            self._thread.join()
            with self._lock:
                self._read(ended=True)
            if self._display is not None:
                self._display.end(self._unshown(), self.lost)

    def _look(self) -> None:
        while not self._ended.wait(_PAUSE):
            with self._lock:
                self._read()
            if self._display is not None:
                self._tell_compiling(self._display)
                self._display.show(self._unshown())

    def _tell_compiling(self, shown: Display) -> None:
        begin = _watchers(self._kernel).kernel.building
        if begin not in (None, self._told) and time.perf_counter() - begin > _LONG:
            self._told = begin
            shown.compiling()

    def _unshown(self) -> list[np.ndarray]:
        new = self._history[self._shown :]
        self._shown += len(new)
        return new

    def _read(self, *, ended: bool = False) -> None:
        for number, ring in enumerate(self._rings):
            rows = ring.take(ended=ended)
            if not len(rows):
                continue
            records = np.empty(len(rows), HISTORY)
            records["run"] = [self._runs.setdefault((number, run), len(self._runs)) for run in rows[:, RUN].tolist()]
            records["line"], records["iteration"] = rows[:, LINE], rows[:, ITERATION]
            records["residual"], records["time"] = rows[:, VALUE].copy().view(np.float64), rows[:, TIME]
            self._history.append(records)

    # --- calls ----------------------------------------------------------------------------------------------------------

    def _run(self, values: tuple[Any, ...], step: Callable[[WatchedKernel], Found], *, bound: bool = False) -> Found:
        """``step`` with the kernel that writes rows; they go to the ring of plain calls, or to one of its own."""
        kernel = self._kernel
        # Where it would run without a watch.
        variant = kernel._with_ones(lambda: kernel._read(kernel._complete(values))[1].variant)
        where = (variant.backend, variant.device)
        ring = None if bound else self._of_calls.get(where)
        if ring is None:
            ring = Ring(*where)
            with self._lock:
                self._rings.append(ring)
            self._of_calls.setdefault(where, ring)
        token = CURRENT.set(ring)
        try:
            return step(_watchers(kernel).kernel)
        finally:
            CURRENT.reset(token)


_OPEN: ContextVar[tuple[watch, ...]] = ContextVar("qgraph_watches", default=())


class _Watchers:
    """The open watches of one kernel, and the kernel that runs for them: made once, so that it compiles once."""

    def __init__(self, kernel: Kernel[..., Any]) -> None:
        self._watched = kernel
        self._lock = forks.lock()
        self._open: list[watch] = []
        self.kernel = WatchedKernel(kernel)

    def add(self, one: watch) -> None:
        with self._lock:
            self._open.append(one)
            kernel = self._watched
            kernel._watched = self
            # A call that runs now, in another thread, notes in the old one what comes after it.
            kernel._recent = DispatchCache(kernel._ran, kernel._lock)

    def remove(self, one: watch) -> None:
        with self._lock:
            self._open.remove(one)
            if not self._open:
                self._watched._watched = None

    def of(self, other: Kernel[..., Any]) -> watch | None:
        """A watch for ``other``, where this thread watches this kernel."""
        return None if self._mine() is None else watch(other, show=False)

    def _mine(self) -> watch | None:
        """The innermost open watch of this thread for this kernel."""
        return next((each for each in reversed(_OPEN.get()) if each._kernel is self._watched), None)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the call gives under a watch; ``CHANGED`` where nobody watches it, and nothing ran."""
        mine = self._mine()
        # What is captured may run when nobody watches any more.
        if mine is None or captures():
            return CHANGED
        return mine._run(self._watched._bind(args, kwargs), lambda kernel: kernel(*args, **kwargs))

    def bind(self, values: tuple[Any, ...]) -> Any:
        """The kernel with its arguments; None where nobody watches."""
        mine = self._mine()
        return None if mine is None else mine._run(values, lambda kernel: kernel._bound(values), bound=True)


_WATCHERS_LOCK = forks.lock()


def _watchers(kernel: Kernel[..., Any]) -> _Watchers:
    with _WATCHERS_LOCK:
        if kernel._watchers is None:
            kernel._watchers = _Watchers(kernel)
        found: _Watchers = kernel._watchers
        return found
