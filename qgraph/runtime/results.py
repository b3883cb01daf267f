"""What a kernel returns: numbers read out of its scratch, as Python's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from qgraph.program import WORD, Result


class ResultReader:
    """Knows where in scratch the numbers of ``result`` lie, and their types.

    Attributes:
        first: the first 8-byte word that must be read.
        words: how many, from there on.
    """

    __slots__ = ("_places", "first", "words")

    def __init__(self, result: Result, dtypes: Mapping[str, str]) -> None:
        slots = list(result.slots())
        self.first = min((slot.index for slot in slots), default=0)
        self.words = max((slot.index + slot.words for slot in slots), default=0) - self.first
        self._places = [((slot.index - self.first) * WORD, np.dtype(slot.dtype or dtypes[slot.name])) for slot in slots]

    def read(self, scratch: np.ndarray) -> tuple[Any, ...]:
        """The numbers, in order. ``scratch`` is all of it."""
        return self.read_range(scratch[self.first : self.first + self.words])

    def read_range(self, part: np.ndarray) -> tuple[Any, ...]:
        """The numbers, from the words that hold them."""
        data = part.tobytes()
        return tuple(np.frombuffer(data, dtype, 1, offset).item() for offset, dtype in self._places)


def assemble(result: Result, numbers: Sequence[Any]) -> Any:
    """What the kernel returns: a number, or tuples, named tuples and dataclasses of numbers."""
    return _assemble(result, iter(numbers))


def _assemble(result: Result, numbers: Iterator[Any]) -> Any:
    if result.slot is not None:
        return next(numbers)
    items = [_assemble(item, numbers) for item in result.items]
    assert result.cls is not None
    return tuple(items) if result.cls is tuple else result.cls(*items)
