"""Heat in a plate, from the lines of NumPy to tiles: the steps of docs/guide/slow_to_fast.md, on a GPU or the CPU.

``python -m benchmarks.slow_to_fast [--quick]``
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import plots
from benchmarks.results import Answer, has_gpu, main
from benchmarks.timing import Timing

# The side of the plate, the tolerance, and how often the last two steps look at it.
PLATES = ((256, 1e-4, 65), (4096, 1.5e-3, 65))
STEPS = ("NumPy", "the same lines", "one loop", "looks seldom", "fuse=True")
COLUMNS = ("side", *STEPS)


def as_in_numpy(u, dt, tolerance):
    """Sweeps until no point changes by more than the tolerance; how many."""
    sweeps = 0
    change = tolerance + 1.0
    while change > tolerance:
        new = u.copy()
        new[1:-1, 1:-1] += dt * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        change = np.max(np.abs(new - u))
        u[:] = new
        sweeps += 1
    return sweeps


def in_one_loop(u, v, dt, tolerance):
    """The same in one pass over memory; ``v`` starts as a copy of ``u``."""
    sweeps = 0
    change = tolerance + 1.0
    while change > tolerance:
        change = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = u[i, j] + dt * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])
            change = max(change, abs(v[i, j] - u[i, j]))
        u, v = v, u
        sweeps += 1
    return sweeps


def looks_seldom(u, v, dt, tolerance, every):
    """The same, with a look at the change at each ``every``-th sweep."""
    sweeps = 0
    change = tolerance + 1.0
    while change > tolerance:
        for _ in qgraph.serial(range(every - 1)):
            for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
                v[i, j] = u[i, j] + dt * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])
            u, v = v, u
        change = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = u[i, j] + dt * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])
            change = max(change, abs(v[i, j] - u[i, j]))
        u, v = v, u
        sweeps += every
    return sweeps


def plate(side: int) -> np.ndarray:
    """Cold, with a hot edge."""
    u = np.zeros((side, side), np.float32)
    u[0] = 1
    return u


def measure(quick: bool) -> Answer:
    """Microseconds a sweep: the time of a call over the sweeps that it made."""
    backend = "cuda" if has_gpu() else "cpu"
    question, where = ("slow_to_fast", "a GPU") if backend == "cuda" else ("slow_to_fast_cpu", "the CPU")
    answer = Answer(question, f"Heat in a plate from slow to fast on {where}, float32, us a sweep", COLUMNS)
    seldom = [qgraph.kernel(backend=backend, fuse=fuse)(looks_seldom) for fuse in (False, True)]
    steps: tuple[tuple[Callable[..., Any], int], ...] = (
        (as_in_numpy, 1),
        (qgraph.kernel(backend=backend)(as_in_numpy), 1),
        (qgraph.kernel(backend=backend)(in_one_loop), 2),
        *((kernel, 2) for kernel in seldom),
    )
    for side, tolerance, every in PLATES[:1] if quick else PLATES:
        row: dict[str, Any] = {"side": side}
        counts = {}
        for name, (run, arrays) in zip(STEPS, steps, strict=True):
            if name == "NumPy" and backend == "cuda":
                continue
            numbers = (0.2, tolerance, every) if run in seldom else (0.2, tolerance)
            counts[name], row[name] = _sweeps(run, [plate(side)] * arrays, numbers, None if name == "NumPy" else backend, quick)
        if len({math.ceil(count / every) for count in counts.values()}) != 1:
            raise AssertionError(f"the steps made {counts} sweeps")
        answer.rows.append(row)
    return answer


def _sweeps(
    run: Callable[..., int], values: list[np.ndarray], numbers: tuple[Any, ...], backend: str | None, quick: bool
) -> tuple[int, dict[str, float]]:
    """How many sweeps a call makes, and the time of one."""
    samples = []
    compiled = backend is not None
    for _ in range((2 if quick else 5) if compiled else 1):
        arrays = [value.copy() if backend is None else qgraph.asarray(value.copy(), backend=backend) for value in values]
        qgraph.synchronize()
        start = time.perf_counter()
        count = run(*arrays, *numbers)
        samples.append((time.perf_counter() - start) / count * 1e6)
    # The first one compiles.
    return count, Timing.of(samples[compiled:]).as_json()


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: time of a sweep."""
    figure, axes = plots.figure("Heat in a plate: time of a sweep", record)
    plots.bars(axes, record, "side", STEPS)
    axes.set_yscale("log")
    axes.set_xlabel("side of the plate")
    axes.set_ylabel("microseconds")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
