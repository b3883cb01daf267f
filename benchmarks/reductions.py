"""Convergence loops, a sweep with a maximum and conjugate gradients: qgraph and CUDA C, both in a while node."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, raw_c, timing
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing

SOURCE = Path(__file__).resolve().with_name("raw_reductions.cu")
# What qgraph is measured against does not change beside it.
SHA256 = "894a02483af607b63dd9277a1f5b71f637ed723fbb831cec09afb8f8017ff786"
SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
OWN = {"qgraph": False, "qgraph, fuse=True": True}
RAW = "CUDA C"
# At most so many times what C takes.
WANTED = 1.12


def jacobi(u, v, f, tolerance, most):
    """Sweeps until none changes an element by more than ``tolerance``."""
    sweeps = 0
    change = tolerance + 1.0
    while change > tolerance and sweeps < most:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + f[i, j])
                change = max(change, abs(v[i, j] - u[i, j]))
        u, v = v, u
        sweeps += 1
    return sweeps, change


def cg(x, r, p, q, b, tolerance, most):
    """Conjugate gradients for the Laplacian, until the square of the residual is no more than ``tolerance``."""
    norm = 0.0
    for i in range(1, b.shape[0] - 1):
        for j in range(1, b.shape[1] - 1):
            x[i, j] = 0.0
            r[i, j] = b[i, j]
            p[i, j] = b[i, j]
            norm += b[i, j] * b[i, j]
    steps = 0
    while norm > tolerance and steps < most:
        dot = 0.0
        for i in range(1, p.shape[0] - 1):
            for j in range(1, p.shape[1] - 1):
                q[i, j] = 4.0 * p[i, j] - p[i - 1, j] - p[i + 1, j] - p[i, j - 1] - p[i, j + 1]
                dot += q[i, j] * p[i, j]
        alpha = norm / dot
        left = 0.0
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                x[i, j] += alpha * p[i, j]
                r[i, j] -= alpha * q[i, j]
                left += r[i, j] * r[i, j]
        beta = left / norm
        norm = left
        for i in range(1, p.shape[0] - 1):
            for j in range(1, p.shape[1] - 1):
                p[i, j] = r[i, j] + beta * p[i, j]
        steps += 1
    return steps, norm


# The functions, and how many arrays each has beside the right side.
PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {"jacobi": (jacobi, 2), "cg": (cg, 4)}


def measure(quick: bool) -> Answer:
    """Microseconds an iteration, of one call with many."""
    answer = Answer(
        "reductions", "A convergence loop, float32 n x n, us an iteration", ("program", "n", *OWN, RAW, "shape", "ratio")
    )
    for program in PROGRAMS:
        for n in SIZES[:2] if quick else SIZES:
            row: dict[str, Any] = {"program": program, "n": n}
            for name, fuse in OWN.items():
                row[name] = _qgraph(program, n, fuse=fuse).as_json()
            found = parts.attempt(answer, f"{program} {n}", RAW, functools.partial(_in_c, program, n))
            if found is not None:
                row |= {RAW: found["microseconds"], "shape": f"{found['blocks']} blocks of {found['threads']}"}
                row["ratio"] = round(row["qgraph"]["median"] / found["microseconds"], 4)
                name = f"{program}, {n} x {n}: qgraph against {RAW}"
                answer.targets.append(Target(name, row["ratio"], "<=", WANTED, "x"))
            answer.rows.append(row)
    return answer


def iterations(program: str, n: int) -> int:
    """How many a measured call has: whole turns of unrolled bodies, and of CG no more than until the residual is 0."""
    most = 960 if n <= 1024 else 192 if n <= 4096 else 64
    return most if program == "jacobi" else most // 4


def _in_c(program: str, n: int) -> dict[str, Any]:
    """The shape of grid with which C is fastest."""
    rows = raw_c.answers(SOURCE, [program, str(n), str(iterations(program, n))])
    return min(rows, key=lambda row: float(row["microseconds"]))


def _qgraph(program: str, n: int, *, fuse: bool, backend: str = "cuda") -> Timing:
    """The time of an iteration, once the loop has ended where it must."""
    function, _ = PROGRAMS[program]
    kernel = qgraph.kernel(backend=backend, fuse=fuse)(function)
    few = 20 if n <= 1024 else 4
    host = begin(program, n)
    tolerance, steps, value = wanted(program, few, host)
    arrays = [qgraph.asarray(array, backend=backend) for array in host]
    expect(kernel(*arrays, tolerance, 10 * few), steps, value)
    most = iterations(program, n)

    def action() -> None:
        expect(kernel(*arrays, -1.0, most), most)

    # A loop is unrolled when it was seen to run long.
    for _ in range(6):
        action()
    return timing.total(action, qgraph.synchronize, calls=1, repeats=9).each(most)


def begin(program: str, n: int) -> list[np.ndarray]:
    """Arrays of which the edge is 0."""
    random = np.random.default_rng(n)
    made = [np.zeros((n, n), np.float32) for _ in range(PROGRAMS[program][1] + 1)]
    made[-1][1:-1, 1:-1] = 0.01 * (random.random((n - 2, n - 2), np.float32) - 0.5)
    if program == "jacobi":
        made[0][1:-1, 1:-1] = random.random((n - 2, n - 2), np.float32)
        made[1][...] = made[0]
    return made


def wanted(program: str, few: int, arrays: list[np.ndarray]) -> tuple[float, int, float]:
    """A tolerance between the values of the last two of so many iterations, and the number and the value at the end."""
    values = [float("inf")]
    for value in (_sweeps if program == "jacobi" else _steps)(arrays):
        values.append(value)
        if len(values) > few:
            break
    # The least value so far that has a gap above it: rounding does not move the end.
    at = min(range(1, len(values)), key=values.__getitem__)
    above = min(values[1:at], default=values[at] * 2)
    return (values[at] + above) / 2, at, values[at]


def _sweeps(arrays: list[np.ndarray]) -> Iterator[float]:
    u, f = arrays[0].copy(), arrays[-1]
    while True:
        v = u.copy()
        v[1:-1, 1:-1] = np.float32(0.25) * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + f[1:-1, 1:-1])
        yield float(np.max(np.abs(v - u)))
        u = v


def _steps(arrays: list[np.ndarray]) -> Iterator[float]:
    r = arrays[-1].astype(np.float64)
    p, norm = r.copy(), float(np.sum(r * r))
    while True:
        q = np.zeros_like(p)
        q[1:-1, 1:-1] = 4 * p[1:-1, 1:-1] - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]
        r -= norm / float(np.sum(p * q)) * q
        left = float(np.sum(r * r))
        yield left
        p, norm = r + left / norm * p, left


def expect(found: tuple[int, float], steps: int, value: float | None = None) -> None:
    """``AssertionError`` where a loop did not end after ``steps`` with about ``value``."""
    if found[0] != steps or not np.isfinite(found[1]) or (value is not None and abs(found[1] - value) > 1e-3 * abs(value)):
        raise AssertionError(f"{found[0]} iterations and {found[1]}, not {steps} and {value}")


def draw(record: dict[str, Any], file: Path) -> None:
    """Microseconds an iteration over the size: a line for each program and who runs it."""
    figure, axes = plots.figure("A convergence loop, us an iteration", record)
    for number, program in enumerate(PROGRAMS):
        for style, name in (("-", "qgraph"), ("--", RAW)):
            rows = [row for row in record["rows"] if row["program"] == program and name in row]
            times = [row[name] if name == RAW else row[name]["median"] for row in rows]
            axes.plot([row["n"] for row in rows], times, f"C{number}{style}", marker="o", label=f"{program}: {name}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("n, of n x n")
    axes.legend(frameon=False, fontsize=8)
    plots.save(figure, file)


def unchanged() -> bool:
    """Whether the program in C is the one that results are compared with."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest() == SHA256


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
