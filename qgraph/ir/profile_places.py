"""Where a profiled program reads the clock, and what lies in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from qgraph.records import dataclass
from qgraph.source import Span

# The array that a profiled kernel returns besides all else, of int64. First the place of the next stamp, when the last one was,
# the place of its totals, and when the last block of the kernel behind it ended; then the stamps themselves, (number, time), of
# which the last ``CAPACITY`` are kept; then the totals, for each number: how often that stamp was, how long the next one came
# after it in all, and how much of that was behind the last block. Times are nanoseconds.
WORDS = "_profile"
NEXT_STAMP, LAST, BEFORE, ENDED, HEAD = range(5)
# A power of two.
CAPACITY = 1 << 16
TOTALS = HEAD + 2 * CAPACITY
# The totals of a stamp.
EACH = 3
TIMES, ELAPSED, IDLE = range(EACH)
# What a kernel notes: nothing, when it begins, or also when its last blocks end, which takes a microsecond more on an H200.
Profiles = Literal["", "times", "gaps"]
# The number that stands for the time before the first stamp, and that of the last stamp of all.
NOTHING, END = 0, 1


@dataclass(frozen=True, slots=True)
class Place:
    """A statement of a profiled program, or several that are one kernel. Stamps have numbers, which say where they stand.

    Attributes:
        kind: a ``task``, or what is no kernel but runs as one; a device ``loop``, a ``branch``.
        spans: where it is written: several where statements share a kernel.
        enters: the stamps before it; none where a kernel before it enters the loop, too.
        counts: the stamps that are as often as a task or branch ran, or as a loop had iterations: each begins one.
        own: all stamps behind which its time is spent, but for those of what is in it.
        bodies: for each part that is in it, the statements there.
        also: where statements between loops are written that the same kernel runs.
    """

    kind: Literal["task", "loop", "branch"]
    spans: tuple[Span, ...]
    enters: tuple[int, ...]
    counts: tuple[int, ...]
    own: tuple[int, ...]
    bodies: tuple[tuple[Place, ...], ...] = ()
    also: tuple[Span, ...] = ()

    @property
    def inside(self) -> Iterator[Place]:
        """The places in its parts."""
        for places in self.bodies:
            yield from places

    @property
    def stamps(self) -> Iterator[int]:
        """All stamps in it: the time from each to the next one is spent here."""
        yield from self.own
        for place in self.inside:
            yield from place.stamps


def begins(places: tuple[Place, ...]) -> tuple[int, ...]:
    """The stamps of which one is the first in a run of these statements."""
    return (places[0].enters or places[0].counts) if places else ()


def joined(turns: Place, rest: Place) -> Place:
    """The place of a loop that runs as two: several iterations a turn, then those that are left."""
    inside = {place.own: place for place in (*rest.inside, *turns.inside)}
    counts, own = (tuple(dict.fromkeys((*getattr(turns, name), *getattr(rest, name)))) for name in ("counts", "own"))
    return Place("loop", turns.spans, turns.enters, counts, own, (tuple(inside.values()),))
