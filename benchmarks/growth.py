"""What does a call cost as work grows: more loops, more elements, deeper nesting, more leaves?

``python -m benchmarks.growth [--only loops ...] [--quick]``
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import chains, panels, parts, raw_c, timing
from benchmarks.chains import N
from benchmarks.launch import expect
from benchmarks.peers import Device
from benchmarks.results import Answer
from benchmarks.timing import Action, Timing
from qgraph.dispatch.dispatch_cache import MAX_RECENT

FRESH, CPU, RAW, COPY = "qgraph, new arrays", "CPU of the call", "raw C", "device copy"
TITLES = {
    "loops": f"so many loops in a row, each over {N:,} float32, us a call",
    "elements": "one loop x[i] += a over so many float32, us a call",
    "nesting": "4,096 iterations in so many nested do-whiles, us a call",
    "leaves": f"a dataclass of so many arrays, two of them read; new: one of {MAX_RECENT * 2} in turn",
}
SIZES = {
    "loops": (1, 10, 100, 1000),
    "elements": tuple(2**power for power in range(10, 29, 3)),
    "nesting": (1, 2, 3, 4),
    "leaves": (1, 8, 64, 512),
}
COLUMNS = ("grows", "size", "peer", "us", "ratio")
# Iterations of the innermost loop in all, whatever the depth.
TURNS = 4096


def begin(device: Device) -> Answer:
    """An answer without rows."""
    return Answer("growth", "Cost as work grows, us", COLUMNS)


def measure(part: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one kind of growth; each answer is checked first."""
    for size in SIZES[part][:2] if quick else SIZES[part]:
        times = parts.in_turns(_MEASURES[part](size, answer), rounds=1 if quick else 3)
        parts.add_rows(answer, part, size, times, {})


# What is measured, by peer.
_Measures = Mapping[str, Callable[[], Timing]]


def _whole(action: Action) -> Callable[[], Timing]:
    """From the call to its end, of calls in a row."""
    calls = timing.calls_for(action, qgraph.synchronize, seconds=0.05)
    return lambda: timing.total(action, qgraph.synchronize, calls=calls, repeats=5)


def _caller(action: Action) -> Callable[[], Timing]:
    return lambda: timing.cpu(action, qgraph.synchronize, bursts=20)


def _loops(size: int, answer: Answer) -> _Measures:
    kernel, x = qgraph.kernel(backend="cuda")(chains.chain(size)), qgraph.zeros(N, np.float32, backend="cuda")
    kernel(x, 1.0)
    expect(qgraph.to_numpy(x), size, f"{size} loops")
    action = functools.partial(kernel, x, 1.0)
    found = {"qgraph": _whole(action), CPU: _caller(action)}
    raw = parts.attempt(answer, "loops", RAW, lambda: raw_c.measure("chain", (size,))[size]["graph"]["total"])
    return found if raw is None else {**found, RAW: lambda: Timing.of([raw])}


def _elements(size: int, answer: Answer) -> _Measures:
    x, y = (qgraph.zeros(size, np.float32, backend="cuda") for _ in range(2))
    kernel, copy = (qgraph.kernel(backend="cuda")(function) for function in (chains.chain(1), _copy))
    kernel(x, 1.0)
    copy(x, y)
    expect(qgraph.to_numpy(y), 1, f"{size} elements")
    action = functools.partial(kernel, x, 1.0)
    return {"qgraph": _whole(action), CPU: _caller(action), COPY: _whole(functools.partial(copy, x, y))}


def _copy(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i]


def _nesting(size: int, answer: Answer) -> _Measures:
    turns = round(TURNS ** (1 / size))
    kernel, x = qgraph.kernel(backend="cuda")(chains.nested(size)), qgraph.zeros(N, np.float32, backend="cuda")
    counters = [qgraph.asarray(np.array(1, np.int32), backend="cuda") for _ in range(size)]
    kernel(x, 1.0, turns, *counters)
    expect(qgraph.to_numpy(x), TURNS, f"{size} nested loops")
    action = functools.partial(kernel, x, 1.0, turns, *counters)
    # A few calls: each takes milliseconds.
    return {"qgraph": _whole(action), CPU: lambda: timing.cpu(action, qgraph.synchronize, burst=4, bursts=5)}


def _leaves(size: int, answer: Answer) -> _Measures:
    fields = dataclasses.make_dataclass(f"Fields{size}", [f"x{number}" for number in range(size)])
    sets = [fields(*(qgraph.zeros(16, np.float32, backend="cuda") for _ in range(size))) for _ in range(2 * MAX_RECENT)]
    kernel = qgraph.kernel(backend="cuda")(chains.of_leaves(size))
    following = itertools.cycle(sets).__next__
    for each in sets:
        getattr(each, f"x{size - 1}").fill(1.0)
        kernel(each)
        expect(qgraph.to_numpy(each.x0), 1 + (size == 1), f"{size} leaves")
    return {CPU: _caller(lambda: kernel(sets[0])), FRESH: _caller(lambda: kernel(following()))}


_MEASURES: dict[str, Callable[[int, Answer], _Measures]] = {
    "loops": _loops,
    "elements": _elements,
    "nesting": _nesting,
    "leaves": _leaves,
}


def draw(record: dict[str, Any], file: Path) -> None:
    """A panel for each kind of growth."""
    panels.lines(record, file, "Cost as work grows", ("qgraph", FRESH, CPU, RAW, COPY), TITLES)


if __name__ == "__main__":
    measures = {part: functools.partial(measure, part) for part in SIZES}
    raise SystemExit(parts.main(begin, measures, draw, judge=lambda _rows, _key: []))
