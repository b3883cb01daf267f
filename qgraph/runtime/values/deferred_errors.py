"""Faults that tasks noted, as the errors they mean."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

import numpy as np

from qgraph.errors import QGraphError
from qgraph.ir.faults import FAULT_WORDS, KEY_BITS, Fault
from qgraph.ir.program import Task
from qgraph.source import Span


class FaultReader:
    """Knows what the words mean that the tasks of one program note faults in: all 0 until there is one."""

    __slots__ = ("_faults", "_tasks")

    def __init__(self, faults: Iterable[Fault], tasks: Iterable[Task] = ()) -> None:
        self._faults = tuple(faults)
        # In the order that keys go by.
        self._tasks = tuple(tasks)

    def words(self) -> np.ndarray:
        """Fresh words on the host, for one call."""
        return np.zeros(FAULT_WORDS, np.int64)

    def error(self, words: Any) -> QGraphError | None:
        """The error that was noted, None if there is none; it is then forgotten."""
        number = int(words[0])
        if number == 0:
            return None
        fault = self._faults[number - 1]
        key, *details = map(int, words[1:]) if fault.ends else (0, *map(int, words[1:]))
        found = fault.found % tuple(details[: fault.details]) if fault.details else fault.found
        words[0] = 0
        where, also = self._iteration(key) if fault.ends else ("", ())
        return fault.error(found + where, fault.span, also=also, hint=fault.hint)

    def _iteration(self, key: int) -> tuple[str, tuple[tuple[str, Span], ...]]:
        """Which iteration a key means, for the message, and the place of its loop."""
        order, number = divmod(key, 1 << KEY_BITS)
        task = self._tasks[order].plain or self._tasks[order]
        if not task.axes:
            return "", ()
        axis, *more = task.axes
        first, step = _integer(axis.start), _integer(axis.step)
        place = ("the loop is here", task.span)
        if more or first is None or step is None or axis.variable.startswith("_"):
            return f", in iteration {number}, from 0", (place,)
        return f", where {axis.variable} = {first + number * step}", (place,)

    def tell(self, words: Any) -> None:
        """Raise the error that was noted, if there is one."""
        error = self.error(words)
        if error is not None:
            raise error


def _integer(node: ast.expr) -> int | None:
    try:
        return int(ast.literal_eval(node))
    except (ValueError, TypeError):  # it is no constant
        return None
