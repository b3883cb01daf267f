"""The ring in which device loops tell the host numbers while they run: its layout, and what writes a row of it.

It is int64 words that the host can read at any time. Rows have numbers from 1 on, and row ``n`` lies in place ``n % ROWS``. The
words of a row may arrive in any order, so it has a sum of them all: what does not fit together has not arrived. The same row
may be written several times.
"""

from __future__ import annotations

import operator
import struct
import time
from typing import Any

# The number of the last row, and of the last launch that wrote one; then the rows.
LAST, RUNS = 0, 1
HEAD, ROW = 8, 8
# A power of two.
ROWS = 1 << 12
WORDS = HEAD + ROW * ROWS
# The words of a row; the value as the bits of a float64, the time in nanoseconds of the clock of where it runs. The factors of
# the sum are odd, so that each bit of a word counts.
NUMBER, RUN, LINE, ITERATION, VALUE, TIME, CHECK = range(7)
FACTORS = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0xD6E8FEB86659FD93,
    0xA0761D6478BD642F,
    0xE7037ED1A0B428DB,
)
_MASK = (1 << 64) - 1


def publish(ring: Any, number: int, run: int, line: int, iteration: int, value: float) -> None:
    """Write row ``number`` of a launch: what the statement in ``line`` says of ``iteration``."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    row = [int(number), int(run), line, operator.index(iteration), bits, time.perf_counter_ns()]
    check = sum(word * factor for word, factor in zip(row, FACTORS, strict=True)) & _MASK
    first = HEAD + ROW * (row[NUMBER] % ROWS)
    for place, word in enumerate((*row, check - (check >> 63 << 64))):
        ring[first + place] = word
    ring[LAST], ring[RUNS] = row[NUMBER], row[RUN]
