"""``python -m qgraph bench``: what this machine takes for loops in one graph, and for the same loops one launch at a time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from qgraph.arrays import asarray, synchronize, to_numpy
from qgraph.info import info
from qgraph.kernel import kernel
from qgraph.language import Static, static
from qgraph.records import dataclass

LADDER = (1, 3, 10)
ITERATIONS = 100
_LENGTH = 1024
# Seconds that a sample takes at least, and how many there are.
_SAMPLE, _SAMPLES = 0.02, 9
_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Rung:
    """One question: microseconds, the median of several samples, for each of the two ways.

    Attributes:
        name: the question.
        ways: what was run, and how long it took.
    """

    name: str
    ways: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Bench:
    """What was measured; ``str()`` draws it.

    Attributes:
        backend: where.
        device: its name.
        path: how the kernels of the ladder ran.
        rungs: the questions.
    """

    backend: str
    device: str
    path: str
    rungs: tuple[Rung, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values; times are microseconds."""
        rungs = [{"name": rung.name, "us": dict(rung.ways)} for rung in self.rungs]
        return {"backend": self.backend, "device": self.device, "path": self.path, "rungs": rungs}

    def __str__(self) -> str:
        path = "a call is compiled code, and no graph" if self.path == "cpu" else self.path
        lines = [
            f"{self.backend}: {self.device}",
            f"{path}; float32, the median of {_SAMPLES} samples",
        ]
        name = max(len(way) for rung in self.rungs for way, _ in rung.ways)
        for rung in self.rungs:
            lines += ["", rung.name]
            longest = max(us for _, us in rung.ways)
            for way, us in rung.ways:
                lines.append(f"  {way:<{name}} {us:10.1f} us  {'█' * max(1, round(_WIDTH * us / longest))}")
        return "\n".join(lines)


def bench(backend: str) -> Bench:
    """Measure on ``backend``; each way must give what plain Python gives, first."""
    ladder = []
    path = ""
    for loops in LADDER:
        whole, single = kernel(backend=backend)(_several), kernel(backend=backend, graph=False)(_one)
        x, y = (asarray(np.zeros(_LENGTH, np.float32), backend=backend) for _ in range(2))

        def one_by_one(single: Any = single, y: Any = y, loops: int = loops) -> None:
            for _ in range(loops):
                single(y, 1.0)

        def together(whole: Any = whole, x: Any = x, loops: int = loops) -> None:
            whole(x, 1.0, loops)

        ways = (("one call", together, x), ("a call a loop", one_by_one, y))
        ladder.append(Rung(f"{loops} loop{'s' * (loops > 1)} over {_LENGTH} elements", _measured(ways, float(loops))))
        path = str(whole.last_launch.path) if whole.last_launch is not None else ""
    return Bench(backend, _device(backend), path, (*ladder, _do_while(backend)))


def _do_while(backend: str) -> Rung:
    inside, step = kernel(backend=backend)(_until), kernel(backend=backend)(_step)
    x, y = (asarray(np.zeros(_LENGTH, np.float32), backend=backend) for _ in range(2))
    left = asarray(np.array([0]), backend=backend)

    def on_host() -> None:
        left[0] = ITERATIONS
        while True:
            step(y, left)
            if int(to_numpy(left)[0]) == 0:
                break

    ways = (("loop in the kernel", lambda: inside(x, ITERATIONS), x), ("loop in Python", on_host, y))
    return Rung(f"{ITERATIONS} iterations until a flag is 0", _measured(ways, float(ITERATIONS)))


def _several(x: Any, a: float, loops: Static) -> None:
    for _ in static(range(loops)):
        for i in range(x.shape[0]):
            x[i] = x[i] + a


def _one(x: Any, a: float) -> None:
    for i in range(x.shape[0]):
        x[i] = x[i] + a


def _until(x: Any, most: int) -> None:
    left = most
    while left > 0:
        for i in range(x.shape[0]):
            x[i] = x[i] + 1
        left -= 1


def _step(x: Any, left: Any) -> None:
    for i in range(x.shape[0]):
        x[i] = x[i] + 1
    left[0] -= 1


def _measured(ways: tuple[tuple[str, Callable[[], Any], Any], ...], wanted: float) -> tuple[tuple[str, float], ...]:
    """The ways by turns, so that what disturbs the machine disturbs both."""
    counts = []
    for name, run, x in ways:
        run()
        found = to_numpy(x)
        if not (found == wanted).all():
            raise AssertionError(f"{name} gives {found[0]} instead of {wanted}: its time means nothing")
        counts.append(max(1, round(_SAMPLE / _seconds(run, 3))))
    samples: list[list[float]] = [[] for _ in ways]
    for _ in range(_SAMPLES):
        for mine, count, (_, run, _x) in zip(samples, counts, ways, strict=True):
            mine.append(_seconds(run, count))
    return tuple((name, 1e6 * statistics.median(mine)) for mine, (name, *_) in zip(samples, ways, strict=True))


def _seconds(run: Callable[[], Any], count: int) -> float:
    synchronize()
    began = time.perf_counter()
    for _ in range(count):
        run()
    synchronize()
    return (time.perf_counter() - began) / count


def _device(backend: str) -> str:
    if backend == "cuda":
        return str(info()["device"])
    from numba import get_num_threads

    return f"{get_num_threads()} threads"
