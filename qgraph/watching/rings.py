"""Rings of rows that kernels write while the host reads them, and which of them takes the rows of a call."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from qgraph.captured_state import Attributes
from qgraph.errors import CudaError
from qgraph.operations.progress_ring import CHECK, FACTORS, HEAD, NUMBER, ROW, ROWS, WORDS

_FACTORS = np.array(FACTORS, np.uint64)
# A row, as a watch tells it.
HISTORY = np.dtype(
    {"names": ["run", "line", "iteration", "residual", "time"], "formats": [*[np.int64] * 3, np.float64, np.int64]}
)


class Ring:
    """The rows of some calls on one backend and device, all in order with each other.

    Attributes:
        array: what those calls take.
        lost: rows that were written over before anybody read them.
    """

    def __init__(self, backend: str, device: int) -> None:
        self.array: Any
        self._read: Callable[[], np.ndarray]
        if backend == "cuda":
            from qgraph.runtime.arguments.device_array import words_read_meanwhile

            self.array, self._read = words_read_meanwhile(WORDS, device)
        else:
            words = self.array = np.zeros(WORDS, np.int64)
            self._read = lambda: words
        self.lost = 0
        self._last = 0
        self._stream: int | None = None

    def launched_on(self, stream: int) -> None:
        """A launch follows on this stream: it begins where the rows of the one before it end."""
        if self._stream not in (None, stream):
            from qgraph.arrays import synchronize

            synchronize()
        self._stream = stream

    def take(self, *, ended: bool = False) -> np.ndarray:
        """The rows that came since, in order, as far as none is missing before them; ``ended``: none comes any more."""
        # The memory of a device is gone when that is reset.
        if not getattr(self.array, "alive", True):
            return np.empty((0, ROW), np.int64)
        try:
            words = self._read()
        except CudaError:
            # Told where the kernel is waited for.
            return np.empty((0, ROW), np.int64)
        following = HEAD + ROW * ((self._last + 1) % ROWS) + NUMBER
        if not ended and words[following] <= self._last:
            return np.empty((0, ROW), np.int64)
        rows: np.ndarray = words[HEAD:].reshape(ROWS, ROW).copy()
        sums = (rows[:, :CHECK].view(np.uint64) * _FACTORS).sum(axis=1, dtype=np.uint64)
        rows = rows[(sums == rows[:, CHECK].view(np.uint64)) & (rows[:, NUMBER] > self._last)]
        rows = rows[np.argsort(rows[:, NUMBER])]
        if not len(rows):
            return rows
        newest = int(rows[-1, NUMBER])
        if not ended:
            # What is missing behind the place of the oldest one may still come.
            due = np.arange(max(self._last + 1, newest - ROWS + 1), newest + 1)
            missing = np.setdiff1d(due, rows[:, NUMBER])
            newest = int(missing[0]) - 1 if len(missing) else newest
            rows = rows[rows[:, NUMBER] <= newest]
        self.lost += max(newest - self._last, 0) - len(rows)
        self._last = max(newest, self._last)
        return rows


# The one of the call that this thread makes.
CURRENT: ContextVar[Ring | None] = ContextVar("qgraph_ring", default=None)


class _Current:
    """What a watched kernel finds as the value of a global variable at each call."""

    _nobodys = np.zeros(WORDS, np.int64)

    @property
    def ring(self) -> Any:
        found = CURRENT.get()
        return self._nobodys if found is None else found.array


RINGS = Attributes(_Current())
