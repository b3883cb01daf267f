"""What does ``A @ p`` of a sparse matrix cost beside the loop over its rows written out? Conjugate gradients, Poisson.

``python -m benchmarks.sparse [--only 1024^2 ...] [--quick]``
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

COLUMNS = ("grid", "size", "peer", "us", "ratio")
WRITTEN = "the loop written out"
SIZES = {"256^2": 256, "1024^2": 1024, "2048^2": 2048}
ITERATIONS = 200
LEAST = 0.98  # of the loop's speed: what is left is noise


def _conjugate_gradients(A, x, r, p, q, iterations, written_out: qgraph.Static):
    rr = np.dot(r, r)
    for _i in qgraph.serial(range(iterations)):
        if written_out:
            for i in range(A.shape[0]):
                total = 0.0
                for k in range(A.indptr[i], A.indptr[i + 1]):
                    total += A.data[k] * p[A.indices[k]]
                q[i] = total
        else:
            q[:] = A @ p
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

    kernel = qgraph.kernel(_conjugate_gradients)
    runs: dict[str, Callable[[], Any]] = {
        "qgraph": functools.partial(kernel, A, x, r, p, q, iterations, written_out=False),
        WRITTEN: functools.partial(kernel, A, x, r, p, q, iterations, written_out=True),
        "CuPy": in_cupy,
    }
    measures = {}
    for peer, run in runs.items():
        start()
        run()
        residual = float(cupy.linalg.norm(b - A @ x) / cupy.linalg.norm(r))
        assert abs(residual - 1) < 1e-6, f"{peer}: the residual is {residual} times what it was told to be"
        measures[peer] = functools.partial(_time, start, run, cupy.cuda.Device().synchronize, iterations)
    parts.add_rows(answer, part, n * n, parts.in_turns(measures, rounds=1 if quick else 5), {})


def _time(start: Callable[[], Any], run: Callable[[], Any], wait: Callable[[], Any], iterations: int) -> Timing:
    start()
    # The numbers that it goes on with do not change how long it takes.
    return timing.total(run, wait, calls=1, repeats=7).each(iterations)


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """As fast as the loop, and ahead of CuPy."""
    return parts.targets(rows, key, {WRITTEN: LEAST})


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: time of an iteration, relative to that with ``A @ p``."""
    title = "Conjugate gradients with a sparse matrix"
    plots.ratios(record, file, "grid", (WRITTEN, "CuPy"), title=title, what="an iteration")


if __name__ == "__main__":
    raise SystemExit(parts.main(begin, {size: functools.partial(measure, size) for size in SIZES}, draw, judge))
