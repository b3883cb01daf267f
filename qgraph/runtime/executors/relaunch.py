"""Lock-free relaunch of a prepared launch, by the thread that made it.

Lock holders call ``stop`` before they change shared state. This relies on the order in which threads under the GIL see each
other's assignments; without a GIL there is no relaunch.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from qgraph.errors import CudaError
from qgraph.runtime.driver.driver import driver, failure
from qgraph.runtime.driver.stream import LASTING
from qgraph.runtime.native import native_launch
from qgraph.runtime.native.machine_code import new_words
from qgraph.runtime.native.native_launch import Counter
from qgraph.runtime.values.prepared_call import Call, ReplayCode

_ONE_AT_A_TIME: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
# Polling interval, in seconds, while another thread is in the driver, which may block on a full queue.
_PAUSE = 2e-5
# Launches of a ``_Checked`` after which machine code replaces it. To load the compiler takes 0.1 s, as these launches do.
_OFTEN = 50_000
# What the driver says of a stream that is not being captured.
_NOT_CAPTURED = (0, 0)


@dataclass(frozen=True, slots=True)
class GraphLaunch:
    """How an executable graph is launched.

    Attributes:
        context: the number of the context in which it was made; None where that is not known.
        executable: the graph, a CUgraphExec.
        launch: what launches it, as ``cuGraphLaunch`` does.
        counter: counts the launches.
        settled: whether the next launch still runs this graph; None where it does for sure.
    """

    context: int | None
    executable: Any
    launch: Callable[[Any, Any], tuple[Any, ...]]
    counter: Counter
    settled: Callable[[], bool] | None = None


class PreparedLaunch(ABC):
    """A prepared launch: an executable graph with the arguments of one call, on one stream.

    Attributes:
        thread: the one that may repeat it.
    """

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    @property
    @abstractmethod
    def go(self) -> Callable[[int], Any]:
        """``go(stream)`` launches and counts it; gives the driver's code, 0 for success.

        None, and nothing ran, where this is another stream, thread or context, it is being captured, or it was stopped.
        """

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether its thread is about to launch. No other thread changes it."""

    @abstractmethod
    def close(self) -> None:
        """Invalidate it. The caller holds the lock."""


class _Checked(PreparedLaunch):
    """The guard in Python, and any function that launches.

    Args:
        stream: the stream of the call.
        what: the graph.
        times: after so many launches it is stopped, for something better to take its place; None: never.
    """

    __slots__ = (
        "_busy",
        "_context",
        "_counter",
        "_executable",
        "_handle",
        "_launch",
        "_left",
        "_may_be_captured",
        "_open",
        "_settled",
        "_stream",
    )

    def __init__(self, stream: int, what: GraphLaunch, times: int | None) -> None:
        super().__init__()
        self._stream, self._context, self._executable = stream, what.context, what.executable
        self._launch, self._settled, self._counter, self._left = what.launch, what.settled, what.counter, times
        # The stream as the bindings' own type, which saves a conversion.
        self._handle = driver.CUstream(stream)
        self._may_be_captured = stream not in LASTING
        self._busy, self._open = False, True

    @property
    def go(self) -> Callable[[int], Any]:
        return self._go

    @property
    def busy(self) -> bool:
        return self._busy

    def close(self) -> None:
        self._open = False

    def _go(self, stream: int) -> Any:
        # Whether it is open comes last of the conditions: only when ``busy`` can be seen. A signal's handler or a finaliser may
        # call while this very thread is on the way: then it still is afterwards. The number of the current context is that of
        # no other one, and there is none where no context is current, or where it was reset.
        if stream != self._stream or threading.get_ident() != self.thread:
            return None
        before, self._busy = self._busy, True
        try:
            if driver.cuCtxGetId(None)[1] != self._context or not (self._settled is None or self._settled()) or not self._open:
                return None
            if self._may_be_captured and driver.cuStreamIsCapturing(self._handle) != _NOT_CAPTURED:
                return None
            code = self._launch(self._executable, self._handle)[0]
            if not code:
                self._counter.add()
                if self._left is not None:
                    self._count_down(self._left - 1)
            return code
        finally:
            self._busy = before

    def _count_down(self, left: int) -> None:
        self._left = left
        if left == 0:
            native_launch.want()
            self.close()


class _Direct(PreparedLaunch):
    """Guard and launch in machine code."""

    __slots__ = ("_launch", "_words")

    def __init__(self, stream: int, what: GraphLaunch) -> None:
        super().__init__()
        assert what.context is not None
        values = {
            native_launch.STREAM: stream,
            native_launch.CONTEXT: what.context,
            native_launch.THREAD: self.thread,
            native_launch.EXECUTABLE: int(what.executable),
            native_launch.GET_CONTEXT: native_launch.address_of("cuCtxGetId"),
            native_launch.LAUNCH: native_launch.address_of("cuGraphLaunch"),
            native_launch.OPEN: 1,
            native_launch.BUSY: 0,
            # Asking takes some of the time of a launch; the default stream is never captured.
            native_launch.IS_CAPTURING: 0 if stream in LASTING else native_launch.address_of("cuStreamIsCapturing"),
        }
        buffer, self._words = new_words([values[number] for number in range(len(values))])
        self._launch = native_launch.launcher(buffer, what.counter)

    @property
    def go(self) -> Callable[[int], Any]:
        return self._launch

    @property
    def busy(self) -> bool:
        return bool(self._words[native_launch.BUSY])

    def close(self) -> None:
        self._words[native_launch.OPEN] = 0


class Relaunchable(Protocol):
    """An executable whose launches can be repeated."""

    def launch(self, request: Call, repeat: Relaunch | None = None) -> tuple[Any, ...] | None:
        """Run, nothing assumed; makes ``repeat`` ready where it can."""


class Relaunch:
    """A repeated call. It holds no array: the caller's guard has shown that they are alive.

    Attributes:
        go: ``PreparedLaunch.go`` of what can be repeated; gives None where nothing can.
        changes: how often it came when the executable had the arguments of another call.
    """

    __slots__ = ("__weakref__", "_owner", "_request", "changes", "go")

    def __init__(self, owner: Relaunchable, request: Call) -> None:
        self._owner = owner
        self._request = request.without_owners()
        self.go: Callable[[int], Any] = _not_ready
        self.changes = 0

    def launch(self, stream: int) -> tuple[Any, ...] | None:
        """Launch it on ``stream``, the long way."""
        request = self._request
        return self._owner.launch(request if stream == request.stream else request.on(stream), self)


def _not_ready(_stream: int) -> None:
    return None


def can_repeat() -> bool:
    """Whether there is a short way: not where threads run at once."""
    return _ONE_AT_A_TIME


def make_ready(stream: int, what: GraphLaunch) -> PreparedLaunch | None:
    """What lets this thread launch a graph on ``stream`` again, in whose context it is; None where there is no short way."""
    if not _ONE_AT_A_TIME:
        return None
    plain = what.settled is None and what.launch is driver.cuGraphLaunch
    if plain and what.context is not None and native_launch.is_worth_it():
        return _Direct(stream, what)
    return _Checked(stream, what, _OFTEN if plain else None)


def stop(launches: Iterable[PreparedLaunch]) -> None:
    """Let nobody repeat these launches from here on; called with the executable's lock held."""
    for ready in launches:
        # Who was busy before that still launches. Who is busy after it finds that it may not any more.
        ready.close()
        while ready.busy and ready.thread != threading.get_ident():
            time.sleep(_PAUSE)


_STATEMENTS = """\
stream = find_stream()
code = repeat.go(stream)
if code is None:
    numbers = repeat.launch(stream)
elif code:
    raise refused(code)
else:
    numbers = None
""".splitlines()


def again(owner: Relaunchable, request: Call, find_stream: Callable[[], int]) -> ReplayCode:
    """How ``request`` runs once more, on the stream that ``find_stream`` gives then; raises as a launch does.

    Where its last launch can be repeated, nothing but the driver's is left of it.
    """
    names = {"repeat": Relaunch(owner, request), "find_stream": find_stream, "refused": _refused}

    def statements(_arrays: Sequence[str]) -> list[str]:
        return _STATEMENTS

    return ReplayCode((), names, statements)


def _refused(code: int) -> CudaError:
    return failure(driver.CUresult(code), "cuGraphLaunch")
