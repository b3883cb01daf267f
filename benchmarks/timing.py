"""The one way to time things here: warm up, repeat, take medians, and keep the spread."""

from __future__ import annotations

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

    def as_json(self) -> dict[str, float]:
        """The four numbers by name."""
        return asdict(self)


def total(action: Action, wait: Action, *, calls: int, repeats: int = 9) -> Timing:
    """Time of one call among ``calls`` in a row, from the first call to the end of the last one's work."""
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
