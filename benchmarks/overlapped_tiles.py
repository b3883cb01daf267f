"""Loops of stencils in tiles, many sweeps for a pass over memory, against the same loops one sweep at a time.

On a GPU: what loops take with ``fuse=True`` and without, beside CUDA C, which has them in tiles, too, and a copy.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import qgraph
from benchmarks import plots, raw_c, raw_tiles, timing
from benchmarks.results import Answer, Target, has_gpu, main
from qgraph.lowering.loops import overlapped_tiles

SIZES = (2048, 4096)
# Iterations of a call: some turns, and some that are left.
ITERATIONS = 200
WANTED_FROM, WANTED = 4096, 2.0
# By what elements near 0 may differ between the two forms on a GPU, after 200 sweeps of values from 0 to 1: `waves` of float32
# differs from float64 by 7e-7 (standard deviation), and up to 1e-4 where waves are as high as 50.
ROUNDING = 2e-5
# On a GPU: times what C in tiles takes at most, and the bandwidth of a copy at least, effectively.
GPU_SIZES = (2048, 4096, 8192)
WANTED_OF_C, WANTED_OF_COPY = 1.25, 2.0
# The same of n x n x n, and how many times as fast as without tiles: what PERKS gains over a launch a sweep (Zhang et al., ICS
# 2023).
SIZES_OF_THREE, WANTED_OF_THREE = (256, 384, 512), 1.24


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


def converging(u, v, n):
    """Five points, until none changes any more, which takes longer than ``n`` iterations."""
    sweeps = 0
    change = 1.0
    while change > 0.0 and sweeps < n:
        change = 0.0
        for i, j in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
            change = max(change, abs(v[i, j] - u[i, j]))
        u, v = v, u
        sweeps += 1


def averaged(u, v, n):
    """Six points of three axes; the arrays change places."""
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
            along = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
            v[i, j, k] = 0.16666667 * along
        u, v = v, u


def waves(e, h, n):
    """Two arrays of three axes in place, two loops."""
    for _ in qgraph.serial(range(n)):
        for i, j, k in qgraph.ndrange(e.shape[0] - 1, e.shape[1] - 1, e.shape[2] - 1):
            h[i, j, k] += 0.1 * (e[i + 1, j, k] + e[i, j + 1, k] + e[i, j, k + 1] - 3.0 * e[i, j, k])
        for i, j, k in qgraph.ndrange((1, e.shape[0]), (1, e.shape[1]), (1, e.shape[2])):
            e[i, j, k] += 0.1 * (3.0 * h[i, j, k] - h[i - 1, j, k] - h[i, j - 1, k] - h[i, j, k - 1])


PROGRAMS: dict[str, tuple[Callable[..., None], int]] = {
    "jacobi": (jacobi, 2),
    "converging": (converging, 2),
    "heat": (heat, 2),
    "fdtd": (fdtd, 3),
}
# Arrays with three axes: on a CPU they have no tiles.
PROGRAMS_OF_THREE: dict[str, tuple[Callable[..., None], int]] = {"averaged": (averaged, 2), "waves": (waves, 2)}
VERSIONS = ("plain", "tiles")
# Arrays that a sweep at least reads or writes.
MOVED = {"jacobi": 2, "converging": 2, "heat": 2, "fdtd": 6, "averaged": 2, "waves": 4}
GPU_COLUMNS = ("plain", "fused", "form", "C plain", "C tiles", "C shape", "GB/s", "copy GB/s")


def measure(quick: bool) -> Answer:
    """Microseconds a sweep: on the GPU where there is one, else on the CPU."""
    return _on_gpu(quick) if has_gpu() else _on_cpu(quick)


def _on_cpu(quick: bool) -> Answer:
    """Both versions taking turns; each starts from the same arrays."""
    answer = Answer("overlapped_tiles_cpu", "CPU: sweeps in tiles, us a sweep", ("program", "dtype", "n", *VERSIONS, "ratio"))
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


def _on_gpu(quick: bool) -> Answer:
    columns = ("program", "dtype", "axes", "n", *GPU_COLUMNS)
    answer = Answer("overlapped_tiles", "CUDA: several sweeps a pass over memory, us a sweep", columns)
    if not raw_tiles.unchanged():
        raise AssertionError("the program in C is not the one that results are compared with")
    for axes, sizes, programs in ((2, GPU_SIZES, PROGRAMS), (3, SIZES_OF_THREE, PROGRAMS_OF_THREE)):
        for n, (program, (function, count)) in itertools.product(sizes[:1] if quick else sizes, programs.items()):
            arrays = [np.random.default_rng(k).random((n,) * axes, np.float32) for k in range(count)]
            shape = " x ".join([str(n)] * axes)
            row = {"program": program, "dtype": "float32", "axes": axes, "n": n, **gpu_times(function, arrays)}
            fused = row["fused"]["median"]
            row["GB/s"] = round(MOVED[program] * 4 * n**axes / fused / 1e3, 1)
            try:
                row["copy GB/s"] = round(raw_tiles.copy_rate(round(n ** (axes / 2))), 1)
                plain, tiles = in_c(program, n)
            except raw_c.Missing as missing:
                answer.missing[f"CUDA C, {program}, {n}"] = str(missing)
                plain, tiles = {}, {}
            if tiles:
                row |= {"C tiles": tiles["microseconds"], "C shape": tiles["shape"]}
                row |= {"C plain": plain["microseconds"]} if plain else {}
                what = f"{program}, {shape}, times what C in tiles takes"
                answer.targets.append(Target(what, fused / tiles["microseconds"], "<=", WANTED_OF_C, "x"))
            if "copy GB/s" in row and program in ("jacobi", "fdtd") and n >= WANTED_FROM:
                what = f"{program}, {shape}, effective bandwidth over a copy's"
                answer.targets.append(Target(what, row["GB/s"] / row["copy GB/s"], ">=", WANTED_OF_COPY, "x"))
            if axes > 2:
                what = f"{program}, {shape}, times as fast as a sweep a pass"
                answer.targets.append(Target(what, row["plain"]["median"] / fused, ">=", WANTED_OF_THREE, "x"))
            answer.rows.append(row)
    return answer


def in_c(program: str, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What CUDA C takes for a program, plain and in tiles, where it has the program."""
    match program:
        case "jacobi":
            return raw_tiles.jacobi(n)
        case "converging":
            return {}, raw_tiles.converging(n, ITERATIONS)
        case "averaged":
            return raw_tiles.averaged(n)
    return {}, {}


def gpu_times(function: Callable[..., None], host: list[np.ndarray], backend: str = "cuda") -> dict[str, Any]:
    """Microseconds a sweep without ``fuse`` and with it, taking turns, and what the plan says of the loop with it."""
    kernels = {name: qgraph.kernel(backend=backend, fuse=name == "fused")(function) for name in GPU_COLUMNS[:2]}
    arrays = {name: [qgraph.asarray(array.copy(), backend=backend) for array in host] for name in kernels}
    for name, kernel in kernels.items():
        kernel(*arrays[name], ITERATIONS)
    found = {name: [qgraph.to_numpy(array) for array in each] for name, each in arrays.items()}
    for plain, fused in zip(*found.values(), strict=True):
        np.testing.assert_allclose(plain, fused, rtol=1e-4, atol=ROUNDING, err_msg=function.__name__)
    if all(map(np.array_equal, found["fused"], host)):
        raise AssertionError(f"{function.__name__} changed nothing")
    samples: dict[str, list[timing.Timing]] = {name: [] for name in kernels}
    for turn in range(4):
        for name in (*kernels,)[:: 1 if turn % 2 else -1]:
            run = lambda name=name: kernels[name](*arrays[name], ITERATIONS)  # noqa: E731
            samples[name].append(timing.total(run, qgraph.synchronize, calls=1, repeats=3))
    plan = str(kernels["fused"].plan(*arrays["fused"], ITERATIONS))
    form = "tiles" if "passes over memory" in plan else "one sweep a pass"
    return {name: timing.middle(each).each(ITERATIONS).as_json() for name, each in samples.items()} | {"form": form}


def _run(kernels: dict[str, Any], version: str, arrays: list[np.ndarray], n: int) -> None:
    # An executable is built in the first call, so it keeps what was said then. Smaller arrays show from where tiles pay.
    with mock.patch.object(overlapped_tiles, "LARGE", 1 << 62 if version == "plain" else 0):
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
    """How many times as fast tiles are, over the size; on the GPU the effective bandwidth."""
    if record["question"] == "overlapped_tiles":
        _draw_bandwidth(record, file)
        return
    figure, axes = plots.figure("CPU: sweeps in tiles, times as fast as one sweep a pass", record)
    for program, colour in zip(PROGRAMS, ("C0", "C1", "C2", "C3"), strict=True):
        for dtype, style in (("float32", "-"), ("float64", "--")):
            rows = [row for row in record["rows"] if (row["program"], row["dtype"]) == (program, dtype)]
            label = f"{program}, {dtype}"
            axes.plot([row["n"] for row in rows], [row["ratio"] for row in rows], style, color=colour, marker="o", label=label)
    axes.axhline(WANTED, color="#7b8794", linestyle=":", linewidth=1.2, label=f"wanted from {WANTED_FROM} on")
    # Room for the legend above all lines.
    axes.set_ylim(0, 1.5 * max(row["ratio"] for row in record["rows"]))
    axes.set_xlabel("n, arrays of n x n")
    axes.set_ylabel("time of the plain loop / time in tiles")
    axes.legend(frameon=False, fontsize=9, ncol=3, loc="upper left")
    plots.save(figure, file)


def _draw_bandwidth(record: dict[str, Any], file: Path) -> None:
    """Of arrays with two axes."""
    figure, axes = plots.figure("CUDA: effective bandwidth of sweeps", record)
    for number, program in enumerate(PROGRAMS):
        rows = [row for row in record["rows"] if row["program"] == program]
        axes.plot([row["n"] for row in rows], [row["GB/s"] for row in rows], f"C{number}-", marker="o", label=program)
    copies = {row["n"]: row["copy GB/s"] for row in record["rows"] if "copy GB/s" in row and row["program"] in PROGRAMS}
    axes.plot([*copies], [*copies.values()], ":", color="#7b8794", linewidth=1.2, label="a copy")
    for program, marker in (("jacobi", "s"), ("converging", "^")):
        rows = [row for row in record["rows"] if row["program"] == program and "C tiles" in row]
        rates = [MOVED[program] * 4 * row["n"] ** 2 / row["C tiles"] / 1e3 for row in rows]
        label = f"{program}, CUDA C in tiles"
        axes.plot([row["n"] for row in rows], rates, "--", color="#7b8794", marker=marker, label=label)
    # Room for the legend above all lines.
    axes.set_ylim(0, 1.4 * max(row["GB/s"] for row in record["rows"] if row["program"] in PROGRAMS))
    axes.set_xlabel("n, arrays of n x n")
    axes.set_ylabel("GB/s, each array once a sweep")
    axes.legend(frameon=False, fontsize=9, ncol=2, loc="upper left")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
