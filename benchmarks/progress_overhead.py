"""What does ``qgraph.progress`` cost? Sweeps with the greatest change, float32 n x n, without it, unwatched, and watched.

``python -m benchmarks.progress_overhead [--quick]``
"""

from __future__ import annotations

import functools
import itertools
import statistics
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import plots, timing
from benchmarks.results import Answer, Target, has_gpu, main

COLUMNS = ("loop", "n", "without", "unwatched", "every 16th", "each")
SIZES = (128, 512, 2048)
ITERATIONS = 2000
# Microseconds that an iteration may take longer where every 16th is told.
WANTED = 0.2


def until_small(u: np.ndarray, v: np.ndarray, most: int) -> float:
    """A reduction decides."""
    it = 0
    delta = 1.0
    while delta > -1.0 and it < most:
        delta = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
            delta = max(delta, abs(v[i, j] - u[i, j]))
        u, v = v, u
        it += 1
    return delta


def until_small_16(u: np.ndarray, v: np.ndarray, most: int) -> float:
    """The same, and every 16th is told."""
    it = 0
    delta = 1.0
    while delta > -1.0 and it < most:
        delta = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
            delta = max(delta, abs(v[i, j] - u[i, j]))
        u, v = v, u
        it += 1
        qgraph.progress(it, delta, every=16)
    return delta


def until_small_1(u: np.ndarray, v: np.ndarray, most: int) -> float:
    """The same, and each is told."""
    it = 0
    delta = 1.0
    while delta > -1.0 and it < most:
        delta = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
            delta = max(delta, abs(v[i, j] - u[i, j]))
        u, v = v, u
        it += 1
        qgraph.progress(it, delta)
    return delta


def counted(u: np.ndarray, v: np.ndarray, most: int) -> None:
    """The host knows how many there are."""
    for _ in qgraph.serial(range(most)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u, v = v, u


def counted_16(u: np.ndarray, v: np.ndarray, most: int) -> None:
    """The same, and every 16th is told."""
    for it in qgraph.serial(range(most)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u, v = v, u
        qgraph.progress(it, u[1, 1], every=16)


def counted_1(u: np.ndarray, v: np.ndarray, most: int) -> None:
    """The same, and each is told."""
    for it in qgraph.serial(range(most)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u, v = v, u
        qgraph.progress(it, u[1, 1])


LOOPS = {"reduction": (until_small, until_small_16, until_small_1), "counted": (counted, counted_16, counted_1)}


def measure(quick: bool) -> Answer:
    """Microseconds an iteration, the four in turns; the arrays are compared first, and the rows counted."""
    backend = "cuda" if has_gpu() else "cpu"
    where = "" if backend == "cuda" else "_cpu"
    answer = Answer(f"progress_overhead{where}", "qgraph.progress in a device loop, us an iteration", COLUMNS)
    most = 100 if quick else ITERATIONS
    for (loop, functions), n in ((each, n) for each in LOOPS.items() for n in (SIZES[:1] if quick else SIZES)):
        plain, rarely, always = (qgraph.kernel(backend=backend)(function) for function in functions)
        given = np.random.default_rng(n).random((n, n), np.float32)
        kernels = (plain, rarely, rarely, always)
        # The same arrays for all: where an array lies in the cache of an H200 can be worth a tenth of a short loop.
        arrays = [qgraph.asarray(given.copy(), backend=backend) for _ in range(2)]
        wanted = None
        samples: list[list[float]] = [[] for _ in kernels]
        for turn in range(2 if quick else 7):
            for number, kernel in enumerate(kernels):
                run = functools.partial(kernel, *arrays, most)
                for array in arrays:
                    array[:] = given
                if number < 2:
                    samples[number].append(_time(run, quick) / most)
                else:
                    with qgraph.watch(kernel, show=False) as seen:
                        launches, found = _counted(run, quick)
                        samples[number].append(found / most)
                    told = most // (16 if number == 2 else 1)
                    assert len(seen.history) + seen.lost in range(told * launches, (told + 1) * launches + 1)
                if turn == 0:
                    wanted = qgraph.to_numpy(arrays[0]).copy() if wanted is None else wanted
                    np.testing.assert_allclose(qgraph.to_numpy(arrays[0]), wanted, rtol=1e-5)
        times = [statistics.median(each) for each in samples]
        answer.rows.append(dict(zip(COLUMNS, (loop, n, *(round(each, 3) for each in times)), strict=True)))
        answer.targets.append(Target(f"{loop}, {n} x {n}: every 16th", round(times[2] - times[0], 3), "<=", WANTED))
        answer.targets.append(Target(f"{loop}, {n} x {n}: unwatched over without", round(times[1] / times[0], 3), "<=", 1.02))
    return answer


def _counted(run: Any, quick: bool) -> tuple[int, float]:
    """How often it ran, and the microseconds."""
    launches = itertools.count()
    found = _time(lambda: (next(launches), run()), quick)
    return next(launches), found


def _time(run: Any, quick: bool) -> float:
    return timing.total(run, qgraph.synchronize, calls=1 if quick else 3, repeats=3).median


def draw(record: dict[str, Any], file: Path) -> None:
    """What is added to an iteration."""
    figure, axes = plots.figure("Time that qgraph.progress adds to an iteration", record)
    for loop in LOOPS:
        rows = [row for row in record["rows"] if row["loop"] == loop]
        for form in COLUMNS[3:]:
            added = [row[form] - row["without"] for row in rows]
            axes.plot([row["n"] for row in rows], added, marker="o", label=f"{loop}, {form}")
    axes.axhline(WANTED, color="#7b8794", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("n")
    axes.set_ylabel("us")
    axes.legend()
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
