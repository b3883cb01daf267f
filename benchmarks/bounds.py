"""What does ``bounds_check=True`` cost? The programs of ``benchmarks.cpu``, with and without, on a GPU or one thread of a CPU.

``python -m benchmarks.bounds [--quick]``
"""

from __future__ import annotations

import functools
import statistics
from pathlib import Path
from typing import Any

import numba
import numpy as np

import qgraph
from benchmarks import plots, timing
from benchmarks.cpu import PROGRAMS
from benchmarks.results import Answer, has_gpu, main
from benchmarks.timing import Timing

COLUMNS = ("program", "elements", "unchecked", "checked", "ratio")
SIZE = 2**21


def measure(quick: bool) -> Answer:
    """Microseconds a call, with and without in turns on the same arrays; the answers are compared first."""
    backend = "cuda" if has_gpu() else "cpu"
    # What an iteration costs, on a machine that may be busy.
    numba.set_num_threads(1)
    question, where = ("bounds", "a GPU") if backend == "cuda" else ("bounds_cpu", "one thread of the CPU")
    answer = Answer(question, f"bounds_check=True on {where}, float32, us a call", COLUMNS)
    size = SIZE // 64 if quick else SIZE
    for program, (kernel, _) in PROGRAMS.items():
        function: Any = kernel.__wrapped__  # type: ignore[attr-defined]
        runs = [qgraph.kernel(backend=backend, bounds_check=checks)(function) for checks in (False, True)]
        shape = (int(size**0.5),) * 2 if program == "stencil" else (size,)
        values = [np.random.default_rng(number).random(shape, np.float32) for number in range(3)]
        values[0] = values[0][:256] if program == "histogram" else values[0]
        results = []
        for run in runs:
            arrays = [qgraph.asarray(value.copy(), backend=backend) for value in values]
            run(*arrays)
            results.append(qgraph.to_numpy(arrays[0]))
        np.testing.assert_allclose(*results, rtol=1e-4, err_msg=program)
        samples: list[list[Timing]] = [[], []]
        for _ in range(3 if quick else 15):
            for found, run in zip(samples, runs, strict=True):
                found.append(timing.total(functools.partial(run, *arrays), qgraph.synchronize, calls=5, repeats=3))
        ratio = statistics.median(after.median / before.median for before, after in zip(*samples, strict=True))
        unchecked, checked = (timing.middle(found).as_json() for found in samples)
        elements = int(np.prod(shape))
        answer.rows.append(dict(zip(COLUMNS, (program, elements, unchecked, checked, round(ratio, 2)), strict=True)))
    return answer


def draw(record: dict[str, Any], file: Path) -> None:
    """A bar a program: how many times as long it takes."""
    figure, axes = plots.figure("Time with bounds_check=True, as a multiple of the time without", record)
    rows = record["rows"]
    axes.barh([row["program"] for row in rows], [row["ratio"] for row in rows], color=next(iter(plots.COLOURS.values())))
    axes.axvline(1, color="#7b8794", linewidth=1)
    axes.set_xlabel("time / time without")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
