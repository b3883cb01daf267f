"""What tasks note as wrong, and who is told."""

from __future__ import annotations

import numpy as np
import pytest

from qgraph.errors import ArgumentError, BoundsError
from qgraph.ir.faults import Fault
from qgraph.runtime.values.deferred_errors import FaultReader
from qgraph.runtime.values.pending_errors import PendingErrors
from qgraph.source import Span

PLACE = Span("nowhere.py", 3, 4, 3, 9)
READER = FaultReader(
    [
        Fault(ArgumentError, PLACE, "`x` has length %d, and `y %% 2` %d", "a hint", 2),
        Fault(BoundsError, PLACE, "100% wrong", "", 0),
    ]
)


def test_words_become_the_error_they_mean_once():
    words = READER.words()
    READER.tell(words)
    words[:3] = 1, 4, 5
    with pytest.raises(ArgumentError, match=r"`x` has length 4, and `y % 2` 5\n  --> nowhere.py:3:5\nhelp: a hint"):
        READER.tell(words)
    READER.tell(words)


def test_a_message_without_numbers_is_told_as_it_stands():
    with pytest.raises(BoundsError, match="100% wrong"):
        READER.tell(np.array([2, 0, 0]))


class Source:
    def __init__(self):
        self.errors = [LookupError("first"), LookupError("second")]

    def error(self):
        return self.errors.pop(0) if self.errors else None


def test_whoever_waits_is_told_what_sources_found():
    kept, source, other = PendingErrors(), Source(), Source()
    kept.watch(source)
    kept.watch(other)
    with pytest.raises(LookupError, match="first") as caught:
        kept.tell()
    assert caught.value.__notes__ == ["1 more exceptions were raised before this one was told"]
    kept.unwatch(other)
    with pytest.raises(LookupError, match="second"):
        kept.tell()
    kept.tell()
    assert len(other.errors) == 1
