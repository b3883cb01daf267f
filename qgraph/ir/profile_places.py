"""Where a profiled program reads the clock, and what lies in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from qgraph.source import Span

# The array that a profiled kernel returns besides all else, of int64. First how many stamps there were, and when the last one
# was; then, for each place in the program with a stamp, how often it was there, and how long after the stamp before it in all;
# then the stamps themselves, (number, time), of which the last ``CAPACITY`` are kept. Times are nanoseconds.
WORDS = "_profile"
COUNT, LAST, HEAD = 0, 1, 2
# A power of two.
CAPACITY = 1 << 16


@dataclass(frozen=True, slots=True)
class Place:
    """A statement of a profiled program. Stamps have numbers, which say where they stand.

    Attributes:
        kind: a ``task``, or what is no kernel but runs as one; a device ``loop``, a ``branch``.
        label: what it is called in print.
        spans: where it is written: several where loops were joined.
        end: the stamp behind it.
        bodies: for each part that is in it, the stamp that it begins with, and the statements in it.
    """

    kind: Literal["task", "loop", "branch"]
    label: str
    spans: tuple[Span, ...]
    end: int
    bodies: tuple[tuple[int, tuple[Place, ...]], ...] = ()

    @property
    def stamps(self) -> Iterator[int]:
        """All stamps in it, and the one behind it: the time since the one before each is spent here."""
        yield self.end
        for begin, places in self.bodies:
            yield begin
            for place in places:
                yield from place.stamps
