"""Loops over grids, pairs and products: how near they come to what C and cuBLAS do with the same arithmetic, float32."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, raw_c, timing
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing

SOURCE = Path(__file__).resolve().with_name("raw_stencils.cu")
# What qgraph is measured against does not change beside it.
SHA256 = "517a4eefe5776591a5aa63bd1f4d32c3eb1d0c6eaa8ef4b2d1a2a59c54043eab"
SIZES = {
    "heat3": (128, 256, 512),
    "heat2": (2048, 4096, 8192, 16384),
    "bodies": (1024, 4096, 16384, 65536),
    "product": (1024, 2048, 4096),
    "product, fuse=True": (1024, 2048, 4096),
}
# At most so many times what the peer takes, or at least such a part of the rate of the largest size.
WANTED_OF_C, WANTED_RATE = 1.1, 0.5
WANTED_TERAFLOPS = 10.0
# Where it is known to be a product of matrices.
WANTED_OF_CUBLAS = 0.9


def heat3(a, b):
    """A 7-point stencil."""
    for i, j, k in qgraph.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1), (1, a.shape[2] - 1)):
        sides = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
        b[i, j, k] = 0.5 * a[i, j, k] + sides * (0.5 / 6)


def heat2(a, b):
    """A 5-point stencil."""
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = 0.5 * a[i, j] + (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) * 0.125


def bodies(at, force):
    """What all bodies do to each."""
    for i in range(at.shape[0]):
        x = 0.0
        y = 0.0
        z = 0.0
        for j in range(at.shape[0]):
            dx = at[j, 0] - at[i, 0]
            dy = at[j, 1] - at[i, 1]
            dz = at[j, 2] - at[i, 2]
            near = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
            pull = near * near * near
            x += pull * dx
            y += pull * dy
            z += pull * dz
        force[i, 0] = x
        force[i, 1] = y
        force[i, 2] = z


def product(a, b, c):
    """A product of matrices, as three loops."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


# Of each its function, the shapes of its arrays, of which the last is written, and what a call moves or computes.
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int], list[tuple[int, ...]]], Callable[[int], float], str]] = {
    "heat3": (heat3, lambda n: [(n, n, n)] * 2, lambda n: 8.0 * n**3, "GB/s"),
    "heat2": (heat2, lambda n: [(n, n)] * 2, lambda n: 8.0 * n**2, "GB/s"),
    "bodies": (bodies, lambda n: [(n, 3)] * 2, lambda n: float(n * n), "10^9 pairs/s"),
    "product": (product, lambda n: [(n, n)] * 3, lambda n: 2.0 * n**3, "GFLOP/s"),
    "product, fuse=True": (product, lambda n: [(n, n)] * 3, lambda n: 2.0 * n**3, "GFLOP/s"),
}


def measure(quick: bool) -> Answer:
    """Microseconds of a call; C has the fastest of some shapes."""
    answer = Answer(
        "shapes",
        "Grids, pairs and products of matrices, float32, us a call",
        ("program", "n", "qgraph", "peer", "shape", "ratio", "rate", "unit"),
    )
    for program, (_, _, work, unit) in PROGRAMS.items():
        for n in SIZES[program][:1] if quick else SIZES[program]:
            mine = _qgraph(program, n)
            row: dict[str, Any] = {"program": program, "n": n, "qgraph": mine.as_json(), "unit": unit}
            row["rate"] = round(work(n) / mine.median / 1e3, 1)
            of_cublas = program.startswith("product")
            peer = "cuBLAS" if of_cublas else "CUDA C"
            make = functools.partial(_in_cublas if of_cublas else _in_c, program, n)
            found = parts.attempt(answer, f"{program} {n}", peer, make)
            if found is not None:
                row |= {"peer": found["microseconds"], "shape": found["shape"]}
                row["ratio"] = round(mine.median / found["microseconds"], 4)
            answer.rows.append(row)
    answer.targets += _targets(answer.rows)
    return answer


def _targets(rows: list[dict[str, Any]]) -> list[Target]:
    found = []
    for row in rows:
        if row["program"].startswith("heat") and "ratio" in row:
            name = f"{row['program']}, {row['n']}: qgraph against CUDA C"
            found.append(Target(name, row["ratio"], "<=", WANTED_OF_C, "x"))
    rates = {row["n"]: row["rate"] for row in rows if row["program"] == "bodies"}
    if {4096, 65536} <= {*rates}:
        found.append(
            Target("4,096 bodies: of the rate of 65,536", round(rates[4096] / rates[65536], 4), ">=", WANTED_RATE, "x")
        )
    found += [
        Target(f"product, {row['n']}: qgraph", row["rate"] / 1e3, ">=", WANTED_TERAFLOPS, "TFLOP/s")
        for row in rows
        if row["program"] == "product"
    ]
    found += [
        Target(f"{row['program']}, {row['n']}: of cuBLAS's rate", round(1 / row["ratio"], 4), ">=", WANTED_OF_CUBLAS, "x")
        for row in rows
        if row["program"] == "product, fuse=True" and "ratio" in row
    ]
    return found


def begin(program: str, n: int) -> list[np.ndarray]:
    """Arrays for a call: the last one shall be written, but for the edges of grids."""
    random = np.random.default_rng(n)
    shapes = PROGRAMS[program][1](n)
    made = [random.random(shape, np.float32) for shape in shapes[:-1]]
    return [*made, np.zeros(shapes[-1], np.float32)]


def wanted(program: str, given: list[np.ndarray]) -> np.ndarray:
    """The last array in float64; of bodies the first 64."""
    a = given[0].astype(np.float64)
    if program.startswith("product"):
        return a @ given[1]
    if program == "bodies":
        away = a[None] - a[:64, None]
        return (away * (np.sum(away * away, axis=2) + 1e-3)[..., None] ** -1.5).sum(axis=1)
    inside = (slice(1, -1),) * a.ndim
    b = np.zeros_like(a)
    sides = sum(np.roll(a, by, axis)[inside] for axis in range(a.ndim) for by in (-1, 1))
    b[inside] = 0.5 * a[inside] + sides * (0.5 / (2 * a.ndim))
    return b


def expect(program: str, found: np.ndarray, given: list[np.ndarray]) -> None:
    """``AssertionError`` where an answer is not the one in float64, as near as float32 comes."""
    right = wanted(program, given)
    scale = np.abs(right).max()
    np.testing.assert_allclose(found[: len(right)], right, rtol=1e-3, atol=1e-4 * scale)


def _qgraph(program: str, n: int, backend: str = "cuda") -> Timing:
    kernel = qgraph.kernel(backend=backend, fuse=program.endswith("fuse=True"))(PROGRAMS[program][0])
    host = begin(program, n)
    arrays = [qgraph.asarray(array, backend=backend) for array in host]
    kernel(*arrays)
    expect(program, qgraph.to_numpy(arrays[-1]), host)
    once = timing.total(lambda: kernel(*arrays), qgraph.synchronize, calls=4, repeats=3)
    calls = max(4, int(20_000 / once.median))
    return timing.total(lambda: kernel(*arrays), qgraph.synchronize, calls=calls)


def _in_c(program: str, n: int) -> dict[str, Any]:
    """The shape with which C is fastest."""
    return min(raw_c.answers(SOURCE, [program, str(n)]), key=lambda row: float(row["microseconds"]))


def _in_cublas(program: str, n: int) -> dict[str, Any]:
    """What PyTorch calls, without TF32."""
    import torch

    given = begin(program, n)
    a, b, c = (torch.from_numpy(array).cuda() for array in given)
    assert not torch.backends.cuda.matmul.allow_tf32

    def action() -> None:
        torch.matmul(a, b, out=c)

    action()
    expect(program, c.cpu().numpy(), given)
    found = timing.total(action, torch.cuda.synchronize, calls=20)
    return {"microseconds": found.median, "shape": "PyTorch's matmul"}


def draw(record: dict[str, Any], file: Path) -> None:
    """Time over that of the peer, a line for each program."""
    figure, axes = plots.figure("Time of a call over the peer's: CUDA C, and cuBLAS for products", record)
    for number, program in enumerate(PROGRAMS):
        rows = [row for row in record["rows"] if row["program"] == program and "ratio" in row]
        axes.plot([row["n"] for row in rows], [row["ratio"] for row in rows], f"C{number}-", marker="o", label=program)
    axes.axhline(1, color="#616e7c", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("n")
    axes.legend(frameon=False, fontsize=8)
    plots.save(figure, file)


def unchanged() -> bool:
    """Whether the program in C is the one that results are compared with."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest() == SHA256


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
