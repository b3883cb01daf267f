"""Pending errors of host callbacks and device kernels, until somebody synchronises."""

from __future__ import annotations

from typing import Protocol

from qgraph import forks


class Source(Protocol):
    """Where an exception may be found, once."""

    def error(self) -> BaseException | None:
        """The exception, which is then forgotten; None if there is none."""


class PendingErrors:
    """The first exception of work on a device, until somebody waits and is told. Safe from several threads.

    Host functions bring theirs; ``watch`` adds a source that is looked at where somebody waits.
    """

    __slots__ = ("_error", "_later", "_lock", "_sources")

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._error: BaseException | None = None
        self._later = 0
        self._sources: tuple[Source, ...] = ()

    def watch(self, source: Source) -> None:
        """Look at ``source`` whenever somebody waited."""
        with self._lock:
            self._sources += (source,)

    def unwatch(self, source: Source) -> None:
        """Look at it no more."""
        with self._lock:
            self._sources = tuple(other for other in self._sources if other is not source)

    def keep(self, error: BaseException, note: str = "") -> None:
        """Note an exception. The first is told, of the others only how many there were."""
        with self._lock:
            if self._error is not None:
                self._later += 1
                return
            if note:
                error.add_note(note)
            self._error = error

    def tell(self) -> None:
        """Raise the exception that was noted, if there is one, and forget it."""
        # Looked at without the lock: this is asked after every wait, and the answer is nearly always no.
        for source in self._sources:
            found = source.error()
            if found is not None:
                self.keep(found)
        if self._error is None:
            return
        with self._lock:
            error, later = self._error, self._later
            self._error, self._later = None, 0
        if error is not None:
            if later:
                error.add_note(f"{later} more exceptions were raised before this one was told")
            raise error
