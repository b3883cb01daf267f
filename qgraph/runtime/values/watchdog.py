"""``QGRAPH_WATCHDOG=seconds``: a warning of each device loop that runs longer, with its line. 0, or no such variable: none.

And what such a loop on the CPU calls now and then.
"""

from __future__ import annotations

import os
import threading
import time
import warnings

from qgraph.errors import PerformanceWarning, rendered
from qgraph.source import Span
from qgraph.stack import stack_level

# Settings that mean nothing and were told.
_SAID: set[str] = set()


def limit() -> float | None:
    """How many seconds a loop may run without a warning; None without end. A setting that means nothing is one warning."""
    text = os.environ.get("QGRAPH_WATCHDOG", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds >= 0:
        return seconds or None
    if text not in _SAID:
        _SAID.add(text)
        warnings.warn(
            f"QGRAPH_WATCHDOG={text!r} is no number of seconds: no loop is watched; QGRAPH_WATCHDOG=10 warns after ten",
            PerformanceWarning,
            stacklevel=stack_level(),
        )
    return None


def tell(loops: tuple[Span, ...], seconds: float) -> None:
    """Warn that the loop at ``loops[0]``, or another of them, has run for more than ``seconds``."""
    first, *others = loops
    found = "this loop has" if not others else "one of these loops has"
    message = rendered(
        f"{found} run for more than {seconds:g} s",
        first,
        tuple(("or", other) for other in others),
        "see whether its condition can become false; Ctrl-C on the main thread ends it",
    )
    warnings.warn(message, PerformanceWarning, stacklevel=stack_level())


class PolledLoop:
    """What the loop at ``span`` calls now and then while it runs on the CPU.

    A call of Python is where CPython runs the handlers of signals, on the main thread, and raises what another thread sent
    (``PyThreadState_SetAsyncExc``); what is raised ends the kernel.
    """

    __slots__ = ("_runs", "_span")

    def __init__(self, span: Span) -> None:
        self._span = span
        # By thread: which entry of the loop it is, and since when it runs; None when that was told.
        self._runs: dict[int, tuple[int, float | None]] = {}

    def __call__(self, entered: int) -> None:
        """It still runs, and was entered at ``entered``, on whatever clock."""
        seconds = limit()
        if seconds is None:
            return
        thread, now = threading.get_ident(), time.monotonic()
        known, since = self._runs.get(thread, (None, None))
        if known != entered:
            self._runs[thread] = entered, now
        elif since is not None and now - since > seconds:
            self._runs[thread] = entered, None
            tell((self._span,), seconds)
