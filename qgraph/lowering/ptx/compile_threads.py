"""Threads for NVVM and nvJitLink beside Numba: both release the GIL."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import field
from types import TracebackType
from typing import Any, Self

from qgraph import forks
from qgraph.lowering.ptx.link import CubinLinker
from qgraph.records import dataclass

# Seconds. A thread that returns from NVVM waits so long for Python's lock; it does so several times a kernel.
_SOON = 0.0005


@dataclass(slots=True)
class _Switching:
    """How soon Python's threads give way to each other, which is one number for the whole process."""

    lock: threading.Lock = field(default_factory=forks.lock)
    compilations: int = 0
    usual: float = 0.0

    def begin(self) -> None:
        """Sooner, from now on."""
        with self.lock:
            self.compilations += 1
            if self.compilations == 1:
                self.usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self.usual, _SOON))

    def end(self) -> None:
        """As usual, after the last of those that began."""
        with self.lock:
            self.compilations -= 1
            if not self.compilations:
                sys.setswitchinterval(self.usual)


# Global, as the interval itself is: of two compilations at once, the second would take the first one's for the usual.
_SWITCHING = _Switching()


# Threads that nobody uses, for the next compilation: of each that calls them NVVM keeps 1.5 KB, and nvJitLink 0.6, for ever.
_IDLE: list[tuple[ThreadPoolExecutor, ThreadPoolExecutor]] = []


def _end_idle() -> None:
    """End them, as before a process forks, whose child would not have them."""
    for pool in _take_idle() or ():
        pool.shutdown()


def _take_idle() -> tuple[ThreadPoolExecutor, ThreadPoolExecutor] | None:
    try:
        return _IDLE.pop()
    except IndexError:
        return None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_end_idle, after_in_child=_IDLE.clear)


class CompileThreads:
    """A thread for NVVM, and one for nvJitLink, which takes the texts in the order in which they were begun.

    Where the block of ``with`` raises, what was not begun yet is given up.
    """

    def __init__(self, linking: Callable[[], CubinLinker] | None) -> None:
        """``linking`` is what the texts are added to, or None where they are not linked; the thread makes it."""
        pools = _take_idle() or (ThreadPoolExecutor(1, "qgraph-nvvm"), ThreadPoolExecutor(1, "qgraph-nvjitlink"))
        self._compiler, self._linker = pools
        self._make = linking
        self._begun: list[Future[Any]] = []
        # Of the linking thread.
        self._linking: CubinLinker | None = None
        self._added: list[Future[None]] = []

    def __enter__(self) -> Self:
        _SWITCHING.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            for each in self._begun:
                each.cancel()
            wait([*self._begun, self._linker.submit(self._close)])
            _end_idle()
            _IDLE.append((self._compiler, self._linker))
        finally:
            # An interrupt may come while it waits.
            _SWITCHING.end()

    def begin(self, finish: Callable[[], str]) -> Callable[[], str]:
        """Have ``finish`` make a text, and link it. Gives what waits for the text."""
        text = self._compiler.submit(finish)
        self._begun.append(text)
        self.link(text.result)
        return text.result

    def link(self, text: Callable[[], str]) -> None:
        """Link the text that ``text`` gives or waits for, if one links at all."""
        if self._make is not None:
            self._added.append(self._linker.submit(self._add, text))
            self._begun.append(self._added[-1])

    def cubin(self) -> bytes:
        """All texts as one cubin; empty if there were none.

        Raises:
            BackendError: they do not link.
        """
        for each in self._added:
            each.result()
        return self._linker.submit(self._link).result()

    # --- on the linking thread: nvJitLink (13.3) corrupts the heap where one thread ends what another one began ---

    def _link(self) -> bytes:
        return b"" if self._linking is None else self._linking.cubin()

    def _close(self) -> None:
        if self._linking is not None:
            self._linking.close()

    def _add(self, text: Callable[[], str]) -> None:
        found = text()
        if self._linking is None:
            assert self._make is not None
            self._linking = self._make()
        self._linking.add(found)
