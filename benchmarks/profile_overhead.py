"""What do the stamps of ``kernel.profile`` cost? A device loop of two sweeps, float32 n x n, with and without them.

``python -m benchmarks.profile_overhead [--quick]``
"""

from __future__ import annotations

import functools
import statistics
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import plots, timing
from benchmarks.results import Answer, Target, has_gpu, main
from benchmarks.timing import Timing

COLUMNS = ("n", "plain", "with stamps", "overhead", "loop, profiled", "sum over plain", "more a call")
SIZES = (128, 512, 1024, 2048, 4096)
# So many that what a call with a profile takes besides, which has a column of its own, is little of each.
ITERATIONS = 1000
# Of an iteration, where it takes so many microseconds or more; and how near the profile's own sum shall be.
WANTED, FROM_US, NEAR = 0.02, 10.0, 0.05


def sweeps(u: np.ndarray, v: np.ndarray, n: int) -> None:
    """There and back, so that the arrays stay where they are."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = 0.25 * (v[i - 1, j] + v[i + 1, j] + v[i, j - 1] + v[i, j + 1])


def measure(quick: bool) -> Answer:
    """Microseconds an iteration, with and without stamps in turns, and what a call takes besides; answers come first."""
    backend = "cuda" if has_gpu() else "cpu"
    where = "" if backend == "cuda" else "_cpu"
    answer = Answer(f"profile_overhead{where}", "kernel.profile: two sweeps in a device loop, us an iteration", COLUMNS)
    iterations = 100 if quick else ITERATIONS
    for n in SIZES[:2] if quick else SIZES:
        plain = qgraph.kernel(backend=backend)(sweeps)
        given = np.random.default_rng(n).random((n, n), np.float32)
        made = [[qgraph.asarray(given.copy(), backend=backend) for _ in range(2)] for _ in range(2)]
        plain(*made[0], iterations)
        plain.profile(*made[1], iterations)
        np.testing.assert_allclose(*(qgraph.to_numpy(u) for u, _ in made), rtol=1e-5)
        # Of one iteration and of many, each without stamps and with them. The last of them decides which graph the loop takes
        # in the profile: after one of few iterations it would not be the one that is compared with.
        runs: list[Any] = [
            functools.partial(run, *arrays, count)
            for count in (1, iterations)
            for run, arrays in zip((plain, plain._profiled["times"]), made, strict=True)
        ]
        samples: list[list[Timing]] = [[] for _ in runs]
        loops = []
        for _ in range(2 if quick else 9):
            for found, run in zip(samples, runs, strict=True):
                found.append(timing.total(run, qgraph.synchronize, calls=3, repeats=3))
            profile = plain.profile(*made[1], iterations)
            loops.append(next(row.total for row in profile.rows if row.kind == "loop") / 1e3 / iterations)
        one, one_stamped, whole, stamped = (statistics.median(each.median for each in found) for found in samples)
        before, after = whole / iterations, stamped / iterations
        overhead, near = after / before - 1, statistics.median(loops) / before
        figures = (before, after, overhead, statistics.median(loops), near, one_stamped - one)
        answer.rows.append(dict(zip(COLUMNS, (n, *(round(each, 3) for each in figures)), strict=True)))
        if before >= FROM_US:
            answer.targets.append(Target(f"{n} x {n}: overhead", round(overhead, 4), "<=", WANTED))
            answer.targets.append(Target(f"{n} x {n}: sum over plain", round(near, 4), "<=", 1 + NEAR))
    return answer


def draw(record: dict[str, Any], file: Path) -> None:
    """The share of an iteration that stamps add, by its length."""
    figure, axes = plots.figure("Time that kernel.profile adds to an iteration", record)
    rows = record["rows"]
    axes.plot(
        [row["plain"] for row in rows], [100 * row["overhead"] for row in rows], color=plots.COLOURS["qgraph"], marker="o"
    )
    axes.axhline(100 * WANTED, color="#7b8794", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("us an iteration, without")
    axes.set_ylabel("%")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
