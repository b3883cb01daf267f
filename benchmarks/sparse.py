"""What does ``A @ p`` of a sparse matrix cost beside the loop over its rows written out? Conjugate gradients, Poisson.

``python -m benchmarks.sparse [--only 512^2 ...] [--quick]``
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.peers import Device, require
from benchmarks.results import Answer, Target
from benchmarks.timing import Timing

COLUMNS = ("matrix", "size", "peer", "us", "ratio")
WRITTEN = "the loop written out"
SIZES = {"256^2": 256, "1024^2": 1024, "2048^2": 2048}
ITERATIONS = 200
LEAST = 0.98  # of the loop's speed: what is left is noise


def _with_product(A, x, r, p, q, iterations):
    rr = np.dot(r, r)
    for _i in qgraph.serial(range(iterations)):
        q[:] = A @ p
        alpha = rr / np.dot(p, q)
        for i in range(x.shape[0]):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]
        before = rr
        rr = np.dot(r, r)
        for i in range(x.shape[0]):
            p[i] = r[i] + rr / before * p[i]


def _with_loop(A, x, r, p, q, iterations):
    rr = np.dot(r, r)
    for _i in qgraph.serial(range(iterations)):
        for i in range(A.shape[0]):
            total = 0.0
            for k in range(A.indptr[i], A.indptr[i + 1]):
                total += A.data[k] * p[A.indices[k]]
            q[i] = total
        alpha = rr / np.dot(p, q)
        for i in range(x.shape[0]):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]
        before = rr
        rr = np.dot(r, r)
        for i in range(x.shape[0]):
            p[i] = r[i] + rr / before * p[i]


def begin(device: Device) -> Answer:
    """An answer without rows."""
    return Answer("sparse", "Conjugate gradients with a sparse matrix: us an iteration", COLUMNS)


def measure(part: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one size; the residuals of all are compared first."""
    require("cupy", device)
    import cupy
    from cupyx.scipy import sparse

    n = SIZES[part]
    iterations = 20 if quick else ITERATIONS
    line = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
    A = sparse.csr_matrix(sparse.kron(line, sparse.identity(n)) + sparse.kron(sparse.identity(n), line))
    b = cupy.asarray(np.random.default_rng(0).random(n * n))
    x, r, p, q = (cupy.empty(n * n) for _ in range(4))

    def start() -> None:
        x.fill(0)
        r[:] = p[:] = b

    def in_cupy() -> None:
        rr = r @ r
        for _ in range(iterations):
            q[:] = A @ p
            alpha = rr / (p @ q)
            x[:] += alpha * p
            r[:] -= alpha * q
            before, rr = rr, r @ r
            p[:] = r + rr / before * p

    runs: dict[str, Callable[[], Any]] = {
        "qgraph": functools.partial(qgraph.kernel(_with_product), A, x, r, p, q, iterations),
        WRITTEN: functools.partial(qgraph.kernel(_with_loop), A, x, r, p, q, iterations),
        "CuPy": in_cupy,
    }
    measures = {}
    for peer, run in runs.items():
        start()
        run()
        residual = float(cupy.linalg.norm(b - A @ x) / cupy.linalg.norm(r))
        assert abs(residual - 1) < 1e-6, f"{peer}: the residual is {residual} times what it was told to be"
        measures[peer] = functools.partial(_time, start, run, cupy.cuda.Device().synchronize, iterations)
    parts.add_rows(answer, part, part, parts.in_turns(measures, rounds=1 if quick else 5), {})


def _time(start: Callable[[], Any], run: Callable[[], Any], wait: Callable[[], Any], iterations: int) -> Timing:
    start()
    # The numbers that it goes on with do not change how long it takes.
    found = timing.total(run, wait, calls=1, repeats=7)
    return Timing(*(round(each / iterations, 4) for each in (found.median, found.low, found.high)), found.samples)


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """As fast as the loop."""
    return [
        Target(
            f"{row[key]}: time of {row['peer']} over qgraph's", row["ratio"], ">=", LEAST if row["peer"] == WRITTEN else 1, "x"
        )
        for row in rows
        if row["peer"] != "qgraph" and row["ratio"] is not None
    ]


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: time of an iteration, relative to that with ``A @ p``."""
    peers = (WRITTEN, "CuPy")
    found = {size: {r["peer"]: {"median": r["ratio"]} for r in record["rows"] if r["matrix"] == size} for size in SIZES}
    figure, axes = plots.figure("Conjugate gradients with a sparse matrix", record)
    plots.bars(axes, {**record, "rows": [{"matrix": size, **times} for size, times in found.items() if times]}, "matrix", peers)
    axes.axhline(1, color=plots.COLOURS["qgraph"], linewidth=1.2)
    axes.set_ylabel("time of an iteration over qgraph's")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(parts.main(begin, {size: functools.partial(measure, size) for size in SIZES}, draw, judge))
