"""How a host waits for device loops that may not end: signals reach it meanwhile, and what they raise ends the loops.

A wait in the driver sees no signal. So the host asks whether the device is done, after pauses that grow with the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field

from qgraph import forks
from qgraph.errors import CudaError
from qgraph.records import dataclass
from qgraph.runtime.values.watchdog import limit, tell
from qgraph.source import Span

# Seconds in which the host asks without a pause, as the driver would; then it sleeps for so small a part of the time that it
# has waited, and for no longer than this.
_AT_ONCE = 5e-3
_PART = 128
_LONGEST = 0.02
# How many loops the watchdog names.
_NAMED = 4


@dataclass(frozen=True, slots=True, eq=False)
class StoppableLoops:
    """The device loops of one executable.

    Attributes:
        spans: where they stand.
        write: sets the word at which their conditions look, or clears it; when it returns that is so on the device.
        threads: those that launched it.
    """

    spans: tuple[Span, ...]
    write: Callable[[int], None]
    threads: set[int] = field(default_factory=set)


class RunningLoops:
    """The loops that may run on one device. Safe from several threads.

    Args:
        block: waits for all work on the device.
        tell_others: keeps an error for who waits next.
    """

    def __init__(self, block: Callable[[], None], tell_others: Callable[[BaseException], None]) -> None:
        self._block, self._tell_others = block, tell_others
        self._lock = forks.lock()
        self._loops: tuple[StoppableLoops, ...] = ()
        # Whether some of them may run on another stream than the default one.
        self._anywhere = False

    def add(self, loops: StoppableLoops) -> None:
        """They may run from now on."""
        with self._lock:
            self._loops = (*self._loops, loops)

    def remove(self, loops: StoppableLoops) -> None:
        """They run no more, or nobody can stop them."""
        with self._lock:
            self._loops = tuple(each for each in self._loops if each is not loops)

    def launched(self, loops: StoppableLoops, *, anywhere: bool) -> None:
        """This thread has launched them; ``anywhere``: not on the default stream, but on one that may be gone by now."""
        loops.threads.add(threading.get_ident())
        self._anywhere |= anywhere

    @property
    def some(self) -> bool:
        """Whether there are any."""
        return bool(self._loops)

    def wait(self, ended: Callable[[], bool], block: Callable[[], None]) -> None:
        """Wait as ``block`` does, which no signal reaches; ``ended`` tells without waiting whether it would return at once.

        What a signal's handler raises on the main thread, or the watchdog as an error, sets the words of all loops, waits for
        their end, clears the words, and is raised. If other threads launched some of them, who waits next is told.
        """
        seconds = limit()
        if self._loops and (seconds is not None or threading.current_thread() is threading.main_thread()):
            try:
                self._look(ended, seconds)
            except BaseException:
                self._stop()
                raise
        block()

    def wait_for_all(self, ended: Callable[[], bool]) -> None:
        """The same for all work on the device, where ``ended`` asks the default stream alone: other ones wait in a thread."""
        block = self._block
        if not self._anywhere:
            self.wait(ended, block)
            return
        waiting: list[_Aside] = []

        def begun() -> bool:
            # Only where somebody looks: a thread takes longer than most waits.
            if not waiting:
                waiting.append(_Aside(block))
            return waiting[0].done(_LONGEST)

        self.wait(begun, block)

    def _look(self, ended: Callable[[], bool], seconds: float | None) -> None:
        began = time.perf_counter()
        while not ended():
            waited = time.perf_counter() - began
            if seconds is not None and waited > seconds:
                tell(tuple(span for loops in self._loops for span in loops.spans)[:_NAMED], seconds)
                seconds = None
            if waited > _AT_ONCE:
                time.sleep(min(waited / _PART, _LONGEST))

    def _stop(self) -> None:
        """In a thread, where no handler interrupts it: a word that stays set would end every later loop."""
        mine, loops = threading.get_ident(), self._loops
        if any(each.threads - {mine} for each in loops):
            found = "a device loop that another thread had launched was ended, too, when this process was interrupted"
            self._tell_others(CudaError(found, hint="what it wrote is not complete: launch it again"))
        stopping = _Aside(lambda: _stopped(loops, self._block))
        while True:
            with suppress(BaseException):  # the first one is raised, when all is in order
                while not stopping.done(1.0):
                    pass
                break
        if stopping.error is not None:
            self._tell_others(stopping.error)


def _stopped(loops: tuple[StoppableLoops, ...], block: Callable[[], None]) -> None:
    try:
        for each in loops:
            each.write(1)
        block()
    finally:
        for each in loops:
            each.write(0)
            each.threads.clear()


class _Aside:
    """A call in a thread of its own; ``error`` is what it raised."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self._done = threading.Event()
        threading.Thread(target=self._run, args=(call,), name="qgraph-wait", daemon=True).start()

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - for the thread that asks
            self.error = error
        finally:
            self._done.set()

    def done(self, seconds: float) -> bool:
        """Whether it has returned, or does within so long."""
        return self._done.wait(seconds)
