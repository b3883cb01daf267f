"""The one way to time things here: warm up, repeat, take medians, and keep the spread."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Action = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds: the median of ``samples`` measurements, and their quartiles."""

    median: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, microseconds: Sequence[float]) -> Timing:
        """The summary of at least one measurement."""
        low, middle, high = statistics.quantiles(microseconds, n=4) if len(microseconds) > 1 else microseconds * 3
        return cls(round(middle, 4), round(low, 4), round(high, 4), len(microseconds))

    def each(self, count: int) -> Timing:
        """The time of one of ``count`` equal parts."""
        return Timing(*(round(whole / count, 4) for whole in (self.median, self.low, self.high)), self.samples)

    def as_json(self) -> dict[str, float]:
        """The four numbers by name."""
        return asdict(self)


@dataclass(slots=True)
class _Pace:
    """How fast Python ran at best in this process, and how long was waited for that so far; seconds."""

    best: float = math.inf
    waited: float = 0.0

    def now(self) -> float:
        """The time of a short loop now."""
        start = time.perf_counter()
        for _ in range(20_000):
            pass
        taken = time.perf_counter() - start
        self.best = min(self.best, taken)
        return taken


_PACE = _Pace()
# A pace so much slower than the best one is another one; nobody waits longer for the better one, in one process.
_SLOWER, _LONGEST_WAIT = 1.2, 30.0


def await_pace() -> None:
    """Wait until Python runs as fast as it can: beside other tenants of a machine it takes twice as long for seconds."""
    if math.isinf(_PACE.best):
        for _ in range(4000):
            _PACE.now()
    start = time.perf_counter()
    # Twice in a row, since a moment is no pace.
    while not all(_PACE.now() <= _SLOWER * _PACE.best for _ in range(2)):
        if _PACE.waited + time.perf_counter() - start > _LONGEST_WAIT:
            break
    _PACE.waited += time.perf_counter() - start


def total(action: Action, wait: Action, *, calls: int, repeats: int = 9) -> Timing:
    """Time of one call among ``calls`` in a row, from the first call to the end of the last one's work."""
    await_pace()
    action()
    wait()
    samples = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        for _ in range(calls):
            action()
        wait()
        samples.append((time.perf_counter_ns() - start) / 1e3 / calls)
    return Timing.of(samples)


def cpu(action: Action, wait: Action, *, burst: int = 20, bursts: int = 60) -> Timing:
    """Time the caller spends in one call, work on the device not awaited.

    Calls come in bursts short enough not to fill the driver's queue, and the device is idle before each burst.
    """
    await_pace()
    for _ in range(burst):
        action()
    wait()
    samples = []
    for _ in range(bursts):
        start = time.perf_counter_ns()
        for _ in range(burst):
            action()
        samples.append((time.perf_counter_ns() - start) / 1e3 / burst)
        wait()
    return Timing.of(samples)


def per_iteration(run: Callable[[int], Any], prepare: Callable[[int], Any], *, few: int, many: int, repeats: int = 9) -> Timing:
    """Time of one iteration of a loop: a run of ``many`` less a run of ``few``, so that what a launch costs falls out.

    ``prepare(n)`` sets the loop up for n iterations and is not timed; ``run(n)`` runs it to its end.
    """
    prepare(few)
    run(few)
    samples = []
    for _ in range(repeats):
        times = {}
        for count in (few, many):
            prepare(count)
            start = time.perf_counter_ns()
            run(count)
            times[count] = time.perf_counter_ns() - start
        samples.append((times[many] - times[few]) / 1e3 / (many - few))
    return Timing.of(samples)


def calls_for(action: Action, wait: Action, *, seconds: float, least: int = 3, most: int = 2000) -> int:
    """How many calls take about ``seconds``, between ``least`` and ``most``."""
    action()
    wait()
    start = time.perf_counter()
    action()
    wait()
    once = max(time.perf_counter() - start, 1e-7)
    return int(min(max(seconds / once, least), most))


def middle(timings: Sequence[Timing]) -> Timing:
    """Several rounds of one measurement as one: the round whose median is in the middle."""
    return sorted(timings, key=lambda timing: timing.median)[len(timings) // 2]
