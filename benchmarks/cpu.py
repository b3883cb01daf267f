"""On the CPU: qgraph against the same loops written by hand with Numba's ``prange``, from 2**10 to 2**24 elements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

import qgraph
from benchmarks import plots, timing
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing

SIZES = (2**10, 2**14, 2**18, 2**21, 2**24)
PEERS = ("qgraph", "numba prange")
LIMIT = 1.1


@qgraph.kernel(backend="cpu")
def triad(a, b, c):
    """One loop, three arrays."""
    for i in range(a.shape[0]):
        a[i] = b[i] + 3.0 * c[i]


@njit(parallel=True)
def triad_prange(a, b, c):
    """The same by hand."""
    for i in prange(a.shape[0]):
        a[i] = b[i] + np.float32(3.0) * c[i]


@qgraph.kernel(backend="cpu")
def stencil(a, b, c):
    """A five-point stencil; the last array only makes the three kernels alike to call."""
    for i, j in qgraph.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
        a[i, j] = 0.25 * (b[i - 1, j] + b[i + 1, j] + b[i, j - 1] + b[i, j + 1]) - c[i, j]


@njit(parallel=True)
def stencil_prange(a, b, c):
    """The same by hand: rows in parallel."""
    for i in prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            a[i, j] = np.float32(0.25) * (b[i - 1, j] + b[i + 1, j] + b[i, j - 1] + b[i, j + 1]) - c[i, j]


@qgraph.kernel(backend="cpu")
def chain(a, b, c):
    """Three loops in a row, each with a square root."""
    for i in range(a.shape[0]):
        a[i] = math.sqrt(b[i] + 1.0)
    for i in range(a.shape[0]):
        c[i] = a[i] * b[i]
    for i in range(a.shape[0]):
        a[i] = c[i] + math.sqrt(a[i])


@njit(parallel=True)
def chain_prange(a, b, c):
    """The same by hand."""
    for i in prange(a.shape[0]):
        a[i] = math.sqrt(b[i] + np.float32(1.0))
    for i in prange(a.shape[0]):
        c[i] = a[i] * b[i]
    for i in prange(a.shape[0]):
        a[i] = c[i] + math.sqrt(a[i])


@qgraph.kernel(backend="cpu")
def dot(a, b, c):
    """A sum."""
    total = 0.0
    for i in range(b.shape[0]):
        total += b[i] * c[i]
    a[0] = total


@njit(parallel=True, fastmath={"reassoc"})
def dot_prange(a, b, c):
    """The same by hand, in whatever order is fastest."""
    total = np.float32(0.0)
    for i in prange(b.shape[0]):
        total += b[i] * c[i]
    a[0] = total


@qgraph.kernel(backend="cpu")
def histogram(a, b, c):
    """Updates that collide: 256 bins."""
    for i in range(b.shape[0]):
        a[int(b[i] * 255.0)] += c[i]


@njit(parallel=True)
def histogram_prange(a, b, c):
    """The same by hand: each thread has bins of its own."""
    n, parts = b.shape[0], get_num_threads()
    bins = np.zeros((parts, 256), a.dtype)
    for part in prange(parts):
        for i in range(part * n // parts, (part + 1) * n // parts):
            bins[part, int(b[i] * np.float32(255.0))] += c[i]
    for part in range(parts):
        for k in range(256):
            a[k] += bins[part, k]


@qgraph.kernel(backend="cpu")
def rows(a, b, c):
    """A sparse matrix of eight elements a row times a vector; where they are is computed, so that all kernels take the same."""
    for i in range(a.shape[0] // 8):
        total = 0.0
        for k in range(8 * i, 8 * i + 8):
            total += b[k] * c[k * 40503 % c.shape[0]]
        a[i] = total


@njit(parallel=True)
def rows_prange(a, b, c):
    """The same by hand."""
    for i in prange(a.shape[0] // 8):
        total = np.float32(0.0)
        for k in range(8 * i, 8 * i + 8):
            total += b[k] * c[k * 40503 % c.shape[0]]
        a[i] = total


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "triad": (triad, triad_prange),
    "stencil": (stencil, stencil_prange),
    "chain of 3": (chain, chain_prange),
    "dot": (dot, dot_prange),
    "histogram": (histogram, histogram_prange),
    "sparse rows": (rows, rows_prange),
}


def measure(quick: bool) -> Answer:
    """Microseconds a call, both versions taking turns on the same arrays."""
    answer = Answer(
        "cpu", "CPU: qgraph against hand-written prange, float32, us a call", ("program", "elements", *PEERS, "ratio")
    )
    for program, versions in PROGRAMS.items():
        for size in SIZES[:3] if quick else SIZES:
            arrays = _arrays(program, size)
            _check(program, versions, arrays)
            times, ratio = paired([_bound(version, arrays) for version in versions], rounds=5 if quick else 15)
            columns = dict(zip(PEERS, (timed.as_json() for timed in times), strict=True))
            answer.rows.append({"program": program, "elements": size, **columns, "ratio": ratio})
            answer.targets.append(Target(f"{program}, {size:,} elements, against prange", ratio, "<=", LIMIT, "x"))
    return answer


def _arrays(program: str, size: int) -> tuple[np.ndarray, ...]:
    side = math.isqrt(size)
    shape = (side, size // side) if program == "stencil" else (size,)
    rng = np.random.default_rng(0)
    first, second, third = (rng.random(shape, np.float32) for _ in range(3))
    return first[:256].copy() if program == "histogram" else first, second, third


def _check(program: str, versions: tuple[Callable[..., Any], ...], arrays: tuple[np.ndarray, ...]) -> None:
    results = []
    for version in versions:
        copies = tuple(array.copy() for array in arrays)
        version(*copies)
        results.append(copies[0])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, err_msg=program)
    if np.array_equal(results[0], arrays[0]):
        raise AssertionError(f"{program} changed nothing")


def paired(runs: Sequence[Callable[[], Any]], rounds: int) -> tuple[list[Timing], float]:
    """The time of two versions, and the ratio: the median over rounds in which both ran, one right after the other."""
    calls = timing.calls_for(runs[1], _done, seconds=0.01)
    samples: list[list[Timing]] = [[], []]
    for turn in range(rounds):
        # Who goes first changes, so that neither always finds the caches as the other left them.
        for which in (0, 1) if turn % 2 else (1, 0):
            samples[which].append(timing.total(runs[which], _done, calls=calls, repeats=3))
    ratios = [ours.median / theirs.median for ours, theirs in zip(*samples, strict=True)]
    return [timing.middle(found) for found in samples], round(statistics.median(ratios), 4)


def _bound(version: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Callable[[], Any]:
    a, b, c = arrays
    return lambda: version(a, b, c)


def _done() -> None:
    """Calls on the CPU are over when they return."""


def draw(record: dict[str, Any], file: Path) -> None:
    """The ratio to prange over the size, one line a program, and the limit."""
    figure, axes = plots.figure("CPU: time of qgraph, as a multiple of hand-written prange", record)
    axes.set_xscale("log", base=2)
    colours = list(dict.fromkeys(plots.COLOURS.values()))[: len(PROGRAMS)]
    for program, colour in zip(PROGRAMS, colours, strict=True):
        rows = [row for row in record["rows"] if row["program"] == program]
        sizes, ratios = [row["elements"] for row in rows], [row["ratio"] for row in rows]
        axes.plot(sizes, ratios, color=colour, marker="o", markersize=4.5, linewidth=1.8, label=program)
    axes.axhline(LIMIT, color="#7b8794", linestyle=":", linewidth=1.2, label=f"limit {LIMIT}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("elements, float32")
    axes.set_ylabel("time / time of prange")
    axes.legend(frameon=False, fontsize=9)
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
