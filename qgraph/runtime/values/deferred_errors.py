"""Faults that tasks noted, as the errors they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qgraph.errors import QGraphError
from qgraph.ir.program import FAULT_WORDS, Fault


class FaultReader:
    """Knows what the words mean that the tasks of one program note faults in: all 0 until there is one."""

    __slots__ = ("_faults",)

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults = tuple(faults)

    def words(self) -> np.ndarray:
        """Fresh words on the host, for one call."""
        return np.zeros(FAULT_WORDS, np.int64)

    def error(self, words: Any) -> QGraphError | None:
        """The error that was noted, None if there is none; it is then forgotten."""
        number = int(words[0])
        if number == 0:
            return None
        fault = self._faults[number - 1]
        details = tuple(int(words[1 + k]) for k in range(fault.details))
        words[0] = 0
        return fault.error(fault.found % details if details else fault.found, fault.span, hint=fault.hint)

    def tell(self, words: Any) -> None:
        """Raise the error that was noted, if there is one."""
        error = self.error(words)
        if error is not None:
            raise error
