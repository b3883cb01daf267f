"""How many accesses to elements does ``kernel.check`` look at in a second, on one core, all orders of iterations counted?

``python -m benchmarks.check_speed [--quick]``
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import plots
from benchmarks.results import Answer, Target, main

COLUMNS = ("program", "accesses", "runs", "seconds", "accesses a second")
WANTED = 1e6


@qgraph.kernel
def stencil(u: np.ndarray, v: np.ndarray, steps: int) -> None:
    """Six accesses an element and step."""
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            u[i, j] = v[i, j]


@qgraph.kernel
def product(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """A matrix in the format CSR with a vector: three accesses for each element that is stored."""
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            s += data[k] * x[indices[k]]
        y[i] = s


def measure(quick: bool) -> Answer:
    """Accesses a second of processor time; compiled code is kept, so that only the first run has some to make."""
    answer = Answer("check_speed", "kernel.check on one core of the CPU", COLUMNS)
    side, rows, columns = (200, 20_000, 8) if quick else (1000, 500_000, 8)
    grid = np.random.default_rng(1).random((side, side))
    places = np.random.default_rng(2).integers(0, rows, rows * columns)
    matrix = (np.ones(rows * columns), places, np.arange(0, rows * columns + 1, columns))
    for kernel, args in ((stencil, (grid, grid.copy(), 2)), (product, (*matrix, np.ones(rows), np.zeros(rows)))):
        report = kernel.check(*args)
        seconds = statistics.median(_processor_time(kernel, args) for _ in range(1 if quick else 5))
        runs = 1 + report.orders
        rate = runs * report.accesses / seconds
        values = (report.kernel, report.accesses, runs, round(seconds, 3), float(f"{rate:.3g}"))
        answer.rows.append(dict(zip(COLUMNS, values, strict=True)))
        answer.targets.append(Target(f"{report.kernel}: accesses a second", rate, ">=", WANTED))
    return answer


def _processor_time(kernel: Any, args: tuple[Any, ...]) -> float:
    start = time.process_time()
    kernel.check(*args)
    return time.process_time() - start


def draw(record: dict[str, Any], file: Path) -> None:
    """A bar a program."""
    figure, axes = plots.figure("Accesses that kernel.check looks at in a second", record)
    rows = record["rows"]
    colour = next(iter(plots.COLOURS.values()))
    axes.barh([row["program"] for row in rows], [row["accesses a second"] for row in rows], color=colour)
    axes.axvline(WANTED, color="#7b8794", linewidth=1)
    axes.set_xlabel("accesses a second")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
