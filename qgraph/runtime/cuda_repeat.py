"""Launches that ran before, once more: a short way past the lock of an executable, for the thread that ran them.

Whoever holds the lock takes this way from the others before anything that they must not see (``stop``). It rests on the order
in which threads that share the interpreter's lock see each other's assignments; where there is no such lock, it is never open.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from qgraph.runtime.call import Again, Call
from qgraph.runtime.cuda_driver import driver, failure

_ONE_AT_A_TIME: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
# Between two looks at whether another thread is done: it calls the driver, which may wait for room in its queue.
_PAUSE = 2e-5


@dataclass(slots=True, eq=False)
class Ready:
    """A launch that is ready to be repeated: an executable graph that has the arguments of one call, on the same stream.

    Attributes:
        stream: the stream of the call.
        context: the number of the context in which it ran, which is current on the thread.
        executable: the graph.
        launch: what launches it, as ``cuGraphLaunch`` does.
        handle: the stream, as the driver's bindings take it without a conversion.
        settled: whether the next launch still runs this graph; None where it does for sure.
        thread: the one that may repeat it.
        busy: whether that thread is about to. No other thread writes it.
        open: whether it still may. Who holds the lock writes it.
    """

    stream: int
    context: int | None
    executable: Any
    launch: Callable[[Any, Any], tuple[Any, ...]]
    handle: Any
    settled: Callable[[], bool] | None
    thread: int
    busy: bool = False
    open: bool = True


class Repeated(Protocol):
    """An executable whose launches can be repeated."""

    replays: int

    def launch(self, request: Call, repeat: Repeat | None = None) -> tuple[Any, ...] | None:
        """Run, nothing assumed; makes ``repeat`` ready where it can."""


class Repeat:
    """A call that comes back; it holds no array, so whoever lets it run knows that they are alive.

    Attributes:
        ready: how to launch it, if that can be repeated.
        changes: how often it came when the executable had the arguments of another call.
    """

    __slots__ = ("__weakref__", "_owner", "_request", "changes", "ready")

    def __init__(self, owner: Repeated, request: Call) -> None:
        self._owner = owner
        self._request = request.without_owners()
        self.ready: Ready | None = None
        self.changes = 0

    def launch(self, stream: int) -> tuple[Any, ...] | None:
        """Launch it on ``stream``, the long way."""
        request = self._request
        return self._owner.launch(request if stream == request.stream else request.on(stream), self)


def make_ready(
    stream: int,
    context: int | None,
    executable: Any,
    launch: Callable[[Any, Any], tuple[Any, ...]],
    settled: Callable[[], bool] | None,
) -> Ready | None:
    """What lets this thread launch ``executable`` on ``stream`` again; None where threads run at once."""
    if not _ONE_AT_A_TIME:
        return None
    return Ready(stream, context, executable, launch, driver.CUstream(stream), settled, threading.get_ident())


def stop(launches: Iterable[Ready]) -> None:
    """Let nobody repeat these launches from here on; called with the executable's lock held."""
    for ready in launches:
        # Who was busy before that still launches. Who is busy after it finds that it may not any more.
        ready.open = False
        while ready.busy and ready.thread != threading.get_ident():
            time.sleep(_PAUSE)


# ``ready.open`` comes last of the conditions: only when ``busy`` can be seen. A signal's handler or a finaliser may call while
# this very thread is on the way: then it still is afterwards. The number of the current context is that of no other one, and
# there is none where no context is current, or where it was reset.
_STATEMENTS = """\
ready, stream = repeat.ready, find_stream()
if ready is None or ready.stream != stream or ready.thread != this_thread():
    numbers = repeat.launch(stream)
else:
    before, ready.busy = ready.busy, True
    try:
        launched = current_context(None)[1] == ready.context and (ready.settled is None or ready.settled()) and ready.open
        if launched:
            code = ready.launch(ready.executable, ready.handle)[0]
            if code:
                raise failure(code, "cuGraphLaunch")
            owner.replays += 1
    finally:
        ready.busy = before
    numbers = None if launched else repeat.launch(stream)
""".splitlines()


def again(owner: Repeated, request: Call, find_stream: Callable[[], int]) -> Again:
    """How ``request`` runs once more, on the stream that ``find_stream`` gives then; raises as a launch does.

    Where its last launch can be repeated, nothing but the driver's is left of it.
    """
    names = {
        "owner": owner,
        "repeat": Repeat(owner, request),
        "find_stream": find_stream,
        "this_thread": threading.get_ident,
        "current_context": driver.cuCtxGetId,
        "failure": failure,
    }

    def statements(_arrays: Sequence[str]) -> list[str]:
        return _STATEMENTS

    return Again((), names, statements)
