"""What ``kernel.profile`` gives: the times between stamps, by the statements of the user's source."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qgraph.ir.profile_places import HEAD, Place
from qgraph.source import Span
from qgraph.specialisation import LastLaunch


@dataclass(frozen=True, slots=True)
class Row:
    """One statement of the kernel. Times are nanoseconds, by the clock of where it ran.

    Attributes:
        kind: ``task``, ``loop`` (on the device, or of the host that stands for it) or ``branch``.
        spans: where it is written.
        depth: in how many loops and branches it is.
        count: how often it ran; of a loop, its iterations.
        total: from the end of what ran before it to its own end, in all; with what is inside.
    """

    kind: str
    spans: tuple[Span, ...]
    depth: int
    count: int
    total: int

    @property
    def mean(self) -> float:
        """Of one run, or of one iteration of a loop."""
        return self.total / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The times of one call; ``str()`` tells them by source line.

    Attributes:
        kernel: its name.
        result: what the call returned.
        launched: what ran: the path, and why that one.
        total: nanoseconds from before the first statement to after the last one.
        rows: each statement, in program order.
    """

    kernel: str
    result: Any
    launched: LastLaunch
    total: int
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values; times are nanoseconds."""
        rows = [
            {
                "kind": row.kind,
                "file": row.spans[0].file,
                "lines": [span.line for span in row.spans],
                "count": row.count,
                "total": row.total,
                "mean": row.mean,
                "share": row.total / self.total if self.total else 0.0,
            }
            for row in self.rows
        ]
        launched = self.launched
        return {"kernel": self.kernel, "path": launched.path, "reason": launched.reason, "total": self.total, "rows": rows}

    def __str__(self) -> str:
        head = f"{self.kernel}: {self.total / 1e3:.1f} us, {self.launched.path}: {self.launched.reason}"
        columns = f"{'total us':>12} {'count':>9} {'mean us':>11} {'share':>6}  line"
        return "\n".join([head, columns, *map(self._line, self.rows)])

    def _line(self, row: Row) -> str:
        share = 100 * row.total / self.total if self.total else 0.0
        numbers = f"{row.total / 1e3:12.1f} {row.count:9d} {row.mean / 1e3:11.2f} {share:5.1f}%"
        lines = (f"{span.line}: {'  ' * row.depth}{linecache.getline(span.file, span.line).strip()}" for span in row.spans)
        return f"{numbers}  " + "\n".join(lines)


def profile_of(name: str, result: Any, launched: LastLaunch, places: Sequence[Place], words: np.ndarray) -> Profile:
    """The profile of a call that left ``words`` (``qgraph.ir.profile_places``) behind."""
    rows = tuple(_rows(places, words, 0))
    return Profile(name, result, launched, sum(row.total for row in rows if row.depth == 0), rows)


def _rows(places: Sequence[Place], words: np.ndarray, depth: int) -> Iterator[Row]:
    for place in places:
        counted = place.bodies[0][0] if place.kind == "loop" else place.end
        total = sum(int(words[HEAD + 2 * number + 1]) for number in place.stamps)
        yield Row(place.kind, place.spans, depth, int(words[HEAD + 2 * counted]), total)
        for _, inside in place.bodies:
            yield from _rows(inside, words, depth + 1)
