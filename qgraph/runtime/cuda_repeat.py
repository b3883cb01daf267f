"""The launch that ran last, once more: a short way past the lock of an executable, for the thread that ran it.

Whoever holds the lock takes this way from the others before anything else (``stop``). It rests on the order in which threads
that share the interpreter's lock see each other's assignments; where there is no such lock, it is never open.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from qgraph.runtime.call import Call
from qgraph.runtime.cuda_driver import driver, failure

_ONE_AT_A_TIME: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
# Between two looks at whether another thread is done: it calls the driver, which may wait for room in its queue.
_PAUSE = 2e-5


@dataclass(slots=True, eq=False)
class Ready:
    """A launch that is ready to be repeated: with the same arguments on the same stream, no other launch in between.

    Attributes:
        token: of the call.
        stream: its stream.
        context: the number of the context in which it ran, which is current on the thread.
        executable: the graph.
        launch: what launches it, as ``cuGraphLaunch`` does.
        handle: the stream, as the driver's bindings take it without a conversion.
        settled: whether the next launch still runs this graph; None where it does for sure.
        thread: the one that may repeat it.
        busy: whether that thread is about to. No other thread writes it.
        open: whether it still may. Who holds the lock writes it.
    """

    token: object
    stream: int
    context: int
    executable: Any
    launch: Callable[[Any, Any], tuple[Any, ...]]
    handle: Any
    settled: Callable[[], bool] | None
    thread: int
    busy: bool = False
    open: bool = True


class Repeated(Protocol):
    """An executable whose last launch can be repeated: ``ready`` while it can."""

    ready: Ready | None
    replays: int

    def launch(self, request: Call) -> tuple[Any, ...] | None:
        """Run, nothing assumed."""


def make_ready(
    request: Call,
    context: int,
    executable: Any,
    launch: Callable[[Any, Any], tuple[Any, ...]],
    settled: Callable[[], bool] | None,
) -> Ready | None:
    """What lets this thread repeat the launch of ``request`` that just ran ``executable``; None where threads run at once."""
    if not _ONE_AT_A_TIME:
        return None
    stream = request.stream
    return Ready(request.token, stream, context, executable, launch, driver.CUstream(stream), settled, threading.get_ident())


def stop(owner: Repeated) -> None:
    """Let nobody repeat the last launch from here on; called with the executable's lock held."""
    ready = owner.ready
    if ready is None:
        return
    # Who was busy before that still launches. Who is busy after it finds that it may not any more.
    ready.open = False
    while ready.busy and ready.thread != threading.get_ident():
        time.sleep(_PAUSE)
    # Only now: whoever interrupts the wait leaves it to the next one.
    owner.ready = None


def again(owner: Repeated, request: Call, find_stream: Callable[[], int]) -> Callable[[], tuple[Any, ...] | None]:
    """What launches ``request`` once more, on the stream that ``find_stream`` gives then; raises as a launch does."""
    token = request.token
    this_thread, current_context = threading.get_ident, driver.cuCtxGetId

    def run() -> tuple[Any, ...] | None:
        stream = find_stream()
        ready = owner.ready
        if ready is not None and ready.token is token and ready.stream == stream and ready.thread == this_thread():
            # A signal's handler or a finaliser may call while this very thread is on the way: then it still is afterwards.
            before, ready.busy = ready.busy, True
            try:
                if (
                    # Fails where no context is current, and where it was reset.
                    current_context(None)[1] == ready.context
                    and (ready.settled is None or ready.settled())
                    # Last: only now that others see it is busy.
                    and ready.open
                ):
                    code = ready.launch(ready.executable, ready.handle)[0]
                    if code:
                        raise failure(code, "cuGraphLaunch")
                    owner.replays += 1
                    return None
            finally:
                ready.busy = before
        return owner.launch(request if stream == request.stream else request.on(stream))

    return run
