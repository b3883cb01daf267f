"""Decisions, drawn so that they shrink: the first option, no, and small numbers are the simplest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices:
    """Draws from one Hypothesis example."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def pick(self, options: Sequence[T]) -> T:
        """One of ``options``."""
        return self._draw(st.sampled_from(options))

    def maybe(self, percent: int = 50) -> bool:
        """Yes, in about that many cases of a hundred."""
        return self.integer(0, 99) >= 100 - percent

    def integer(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return self._draw(st.integers(low, high))

    def some(self, least: int, most: int, percent: int = 60) -> Iterator[int]:
        """Count up to a number between ``least`` and ``most``: each more with that chance."""
        for number in range(most):
            if number >= least and not self.maybe(percent):
                return
            yield number
