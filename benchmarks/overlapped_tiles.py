"""On the CPU: loops of stencils in tiles, many sweeps for a pass over memory, against the same loops one sweep at a time."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import qgraph
from benchmarks import plots, timing
from benchmarks.results import Answer, Target, main
from qgraph.lowering.loops import overlapped_tiles

SIZES = (2048, 4096)
# Iterations of a call: some turns, and some that are left.
ITERATIONS = 200
WANTED_FROM, WANTED = 4096, 2.0


def jacobi(u, v, n):
    """Five points; the arrays change places."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u, v = v, u


def heat(u, v, n):
    """Nine points, there and back."""
    for _ in qgraph.serial(range(n // 2)):
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            straight = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
            across = u[i - 1, j - 1] + u[i + 1, j + 1] + u[i + 1, j - 1] + u[i - 1, j + 1]
            v[i, j] = u[i, j] + 0.02 * (4.0 * straight + across - 20.0 * u[i, j])
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            straight = v[i - 1, j] + v[i + 1, j] + v[i, j - 1] + v[i, j + 1]
            across = v[i - 1, j - 1] + v[i + 1, j + 1] + v[i + 1, j - 1] + v[i - 1, j + 1]
            u[i, j] = v[i, j] + 0.02 * (4.0 * straight + across - 20.0 * v[i, j])


def fdtd(ez, hx, hy, n):
    """Waves on a staggered grid: three arrays in place, two loops."""
    for _ in qgraph.serial(range(n)):
        for i, j in qgraph.ndrange(hx.shape[0] - 1, hx.shape[1] - 1):
            hx[i, j] -= 0.5 * (ez[i, j + 1] - ez[i, j])
            hy[i, j] += 0.5 * (ez[i + 1, j] - ez[i, j])
        for i, j in qgraph.ndrange((1, ez.shape[0]), (1, ez.shape[1])):
            ez[i, j] += 0.5 * (hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1])


PROGRAMS: dict[str, tuple[Callable[..., None], int]] = {"jacobi": (jacobi, 2), "heat": (heat, 2), "fdtd": (fdtd, 3)}
VERSIONS = ("plain", "tiles")


def measure(quick: bool) -> Answer:
    """Microseconds a sweep, both versions taking turns; each starts from the same arrays."""
    answer = Answer("overlapped_tiles", "CPU: sweeps in tiles, us a sweep", ("program", "dtype", "n", *VERSIONS, "ratio"))
    for program, (function, count) in PROGRAMS.items():
        for dtype in (np.float32, np.float64):
            # Both are fused; the plain one is what runs where arrays are small.
            kernels = {version: qgraph.kernel(backend="cpu", fuse=True)(function) for version in VERSIONS}
            for n in SIZES[:1] if quick else SIZES:
                arrays = [np.random.default_rng(k).random((n, n)).astype(dtype) for k in range(count)]
                _check(program, kernels, arrays)
                times, ratio = _times(kernels, arrays, rounds=3 if quick else 5)
                columns = {version: timed.each(ITERATIONS).as_json() for version, timed in times.items()}
                answer.rows.append({"program": program, "dtype": np.dtype(dtype).name, "n": n, **columns, "ratio": ratio})
                if n >= WANTED_FROM:
                    name = f"{program}, {np.dtype(dtype).name}, {n} x {n}, times as fast"
                    answer.targets.append(Target(name, ratio, ">=", WANTED, "x"))
    return answer


def _run(kernels: dict[str, Any], version: str, arrays: list[np.ndarray], n: int) -> None:
    # An executable is built in the first call, so it keeps what was said then.
    with mock.patch.object(overlapped_tiles, "LARGE", 1 << 62) if version == "plain" else nullcontext():
        kernels[version](*arrays, n)


def _check(program: str, kernels: dict[str, Any], arrays: list[np.ndarray]) -> None:
    results = {}
    for version in VERSIONS:
        results[version] = [array.copy() for array in arrays]
        _run(kernels, version, results[version], ITERATIONS)
    for plain, tiles, before in zip(results["plain"], results["tiles"], arrays, strict=True):
        np.testing.assert_allclose(plain, tiles, rtol=1e-4, atol=1e-6, err_msg=program)
        if np.array_equal(tiles, before):
            raise AssertionError(f"{program} changed nothing")
    assert "in two passes over memory" in str(kernels["tiles"].plan(*arrays, ITERATIONS)), program


def _times(kernels: dict[str, Any], arrays: list[np.ndarray], rounds: int) -> tuple[dict[str, timing.Timing], float]:
    samples: dict[str, list[timing.Timing]] = {version: [] for version in VERSIONS}
    for turn in range(rounds):
        for version in VERSIONS if turn % 2 else VERSIONS[::-1]:
            action = lambda version=version: _run(kernels, version, arrays, ITERATIONS)  # noqa: E731
            samples[version].append(timing.total(action, lambda: None, calls=1, repeats=1))
    ratios = [plain.median / tiles.median for plain, tiles in zip(samples["plain"], samples["tiles"], strict=True)]
    return {version: timing.middle(found) for version, found in samples.items()}, round(statistics.median(ratios), 4)


def draw(record: dict[str, Any], file: Path) -> None:
    """How many times as fast tiles are, over the size."""
    figure, axes = plots.figure("CPU: sweeps in tiles, times as fast as one sweep a pass", record)
    colours = list(dict.fromkeys(plots.COLOURS.values()))
    for program, colour in zip(PROGRAMS, colours, strict=False):
        for dtype, style in (("float32", "-"), ("float64", "--")):
            rows = [row for row in record["rows"] if (row["program"], row["dtype"]) == (program, dtype)]
            label = f"{program}, {dtype}"
            axes.plot([row["n"] for row in rows], [row["ratio"] for row in rows], style, color=colour, marker="o", label=label)
    axes.axhline(WANTED, color="#7b8794", linestyle=":", linewidth=1.2, label=f"wanted from {WANTED_FROM} on")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("n, arrays of n x n")
    axes.set_ylabel("time of the plain loop / time in tiles")
    axes.legend(frameon=False, fontsize=9)
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
