"""On the CPU: programs of NPBench against NumPy, with its BLAS, and against Numba with the same float settings.

``gemm``, ``k2mm`` and ``k3mm`` are NumPy's source, and so is what NumPy runs. Where Numba is the rival, both have
``fastmath=True``, Numba ``parallel=True`` and qgraph ``fuse=True``. ``arrays`` is the program as it stands, but for what Numba
does not compile (masks of matrices, columns with rows); ``loops`` are written by hand, without arrays in between: rivals of
qgraph's arrays, and of the same source in qgraph (``in loops``).
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, prange

import qgraph
from benchmarks import plots
from benchmarks.cpu import LIMIT, paired
from benchmarks.npbench import flat, words_and_plain
from benchmarks.results import Answer, Target, main
from examples.npbench.programs import PROGRAMS, numbers
from qgraph.language import Func

NUMPY, ARRAYS, LOOPS = "NumPy", "Numba, arrays", "Numba, loops"
Args = Callable[[int], tuple[Any, ...]]


@njit(parallel=True, fastmath=True)
def _rings_as_arrays(values, radius, bins):
    """``azimint_naive`` as it stands, a thread a ring."""
    means, width = np.zeros(bins), radius.max() / bins
    for k in prange(bins):
        ring = np.logical_and(k * width <= radius, radius < (k + 1) * width)
        means[k] = values[ring].mean()
    return means


@njit(parallel=True, fastmath=True)
def _rows(starts, columns, values, x):
    """``spmv`` as loops: a thread a row."""
    y = np.empty(starts.size - 1)
    for i in prange(starts.size - 1):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


@njit(parallel=True, fastmath=True)
def _apart(x):
    """``x.T - x`` of a column, which Numba's parallel loops do not broadcast."""
    found = np.empty((x.size, x.size))
    for i in prange(x.size):
        found[i] = x - x[i]
    return found


@njit(parallel=True, fastmath=True)
def _pulls_as_arrays(places, masses, softening):
    dx, dy, dz = _apart(places[:, 0]), _apart(places[:, 1]), _apart(places[:, 2])
    cubes = dx**2 + dy**2 + dz**2 + softening**2
    for i in prange(cubes.shape[0]):
        for j in range(cubes.shape[1]):
            if cubes[i, j] > 0:
                cubes[i, j] = cubes[i, j] ** -1.5
    return np.hstack(((dx * cubes) @ masses, (dy * cubes) @ masses, (dz * cubes) @ masses))


@njit(parallel=True, fastmath=True)
def _energies_as_arrays(places, speeds, masses):
    inverse = np.sqrt(_apart(places[:, 0]) ** 2 + _apart(places[:, 1]) ** 2 + _apart(places[:, 2]) ** 2)
    for i in prange(inverse.shape[0]):
        for j in range(inverse.shape[1]):
            if inverse[i, j] > 0:
                inverse[i, j] = 1.0 / inverse[i, j]
    return 0.5 * np.sum(masses[:, 0] * np.sum(speeds**2, axis=1)), -np.sum(
        np.triu(np.outer(masses[:, 0], masses[:, 0]) * inverse, 1)
    )


@qgraph.func
def _pulls(places, masses, softening):
    pull = np.empty_like(places)
    for i in range(places.shape[0]):
        x = y = z = 0.0
        for j in range(places.shape[0]):
            dx, dy, dz = places[j, 0] - places[i, 0], places[j, 1] - places[i, 1], places[j, 2] - places[i, 2]
            square = dx * dx + dy * dy + dz * dz + softening * softening
            by = masses[j, 0] / (square * math.sqrt(square)) if square > 0 else 0.0
            x += dx * by
            y += dy * by
            z += dz * by
        pull[i, 0], pull[i, 1], pull[i, 2] = x, y, z
    return pull


@qgraph.func
def _energies(places, speeds, masses):
    kinetic = potential = 0.0
    for i in range(places.shape[0]):
        own = speeds[i, 0] * speeds[i, 0] + speeds[i, 1] * speeds[i, 1] + speeds[i, 2] * speeds[i, 2]
        kinetic += 0.5 * masses[i, 0] * own
        for j in range(i + 1, places.shape[0]):
            dx, dy, dz = places[j, 0] - places[i, 0], places[j, 1] - places[i, 1], places[j, 2] - places[i, 2]
            square = dx * dx + dy * dy + dz * dz
            potential -= masses[i, 0] * masses[j, 0] / math.sqrt(square) if square > 0 else 0.0
    return kinetic, potential


def nbody_in_loops(masses, places, speeds, steps, dt, softening):
    """``nbody`` as loops."""
    speeds -= np.mean(masses * speeds, axis=0) / np.mean(masses)
    kinetic, potential = np.zeros(steps + 1), np.zeros(steps + 1)
    kinetic[0], potential[0] = _energies(places, speeds, masses)
    pull = _pulls(places, masses, softening)
    for k in qgraph.serial(range(steps)):
        speeds += pull * (dt / 2)
        places += speeds * dt
        pull = _pulls(places, masses, softening)
        speeds += pull * (dt / 2)
        kinetic[k + 1], potential[k + 1] = _energies(places, speeds, masses)
    return kinetic, potential


def azimint_in_loops(values, radius, bins):
    """``azimint_naive`` as loops: a thread a ring, and no masks."""
    means, width = np.zeros(bins), np.max(radius) / bins
    for k in range(bins):
        total, count = 0.0, 0
        for i in range(radius.size):
            if k * width <= radius[i] < (k + 1) * width:
                total += values[i]
                count += 1
        means[k] = total / count
    return means


def _threaded(function: Callable[..., Any] | Func) -> Callable[..., Any]:
    """The same in Numba, with threads for the iterations of its first loop."""
    plain = function.source.function if isinstance(function, Func) else function
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(plain))).body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    loop = next(each for each in definition.body if isinstance(each, ast.For))
    assert isinstance(loop.iter, ast.Call)
    loop.iter.func = ast.copy_location(ast.Name("prange", ast.Load()), loop.iter)
    namespace = {"np": np, "math": math, "prange": prange}
    exec(compile(ast.Module([definition], []), plain.__code__.co_filename, "exec"), namespace)
    return njit(parallel=True, fastmath=True)(namespace[definition.name])


def _bodies(pulls: Callable[..., Any], energies: Callable[..., Any]) -> Callable[..., Any]:
    """``nbody`` with these accelerations and energies."""

    @njit(parallel=True, fastmath=True)
    def run(masses, places, speeds, steps, dt, softening):
        for axis in range(3):
            speeds[:, axis] -= np.mean(masses[:, 0] * speeds[:, axis]) / np.mean(masses)
        kinetic, potential = np.zeros(steps + 1), np.zeros(steps + 1)
        kinetic[0], potential[0] = energies(places, speeds, masses)
        pull = pulls(places, masses, softening)
        for k in range(steps):
            speeds += pull * (dt / 2)
            places += speeds * dt
            pull = pulls(places, masses, softening)
            speeds += pull * (dt / 2)
            kinetic[k + 1], potential[k + 1] = energies(places, speeds, masses)
        return kinetic, potential

    return run


def _sparse(less: int) -> tuple[np.ndarray, ...]:
    rows = count = 262_144 // less
    rng = np.random.default_rng(0)
    starts = np.concatenate(([0], np.cumsum(np.bincount(rng.integers(0, rows, count), minlength=rows))))
    return starts, rng.integers(0, rows, count), numbers(count), numbers(rows)


def _cloud(less: int) -> tuple[Any, ...]:
    return numbers(100, 1), numbers(100, 3) - 0.5, numbers(100, 3, seed=1) - 0.5, 80 // less, 0.01, 0.1


def _rings_of(less: int) -> tuple[Any, ...]:
    return numbers(400_000 // less), numbers(400_000 // less, seed=1), 1000


def _matrices(*shapes: tuple[int, int], before: tuple[float, ...] = ()) -> Args:
    return lambda less: (*before, *(numbers(rows // less, columns // less) for rows, columns in shapes))


# The arguments of each program for how often smaller it is to be, and the rivals, which give what it gives. NPBench's sizes are
# "S", for spmv "L", and for nbody "L" with fewer steps.
RUNS: dict[str, tuple[Args, dict[str, Callable[..., Any]]]] = {
    "gemm": (
        _matrices((1000, 1100), (1000, 1200), (1200, 1100), before=(1.5, 1.2)),
        {NUMPY: words_and_plain(PROGRAMS["gemm"])[1]},
    ),
    "k2mm": (
        _matrices((800, 850), (850, 900), (900, 950), (800, 950), before=(1.5, 1.2)),
        {NUMPY: words_and_plain(PROGRAMS["k2mm"])[1]},
    ),
    "k3mm": (_matrices((800, 850), (850, 900), (900, 950), (950, 1000)), {NUMPY: words_and_plain(PROGRAMS["k3mm"])[1]}),
    "nbody": (
        _cloud,
        {ARRAYS: _bodies(_pulls_as_arrays, _energies_as_arrays), LOOPS: _bodies(_threaded(_pulls), _threaded(_energies))},
    ),
    "nbody in loops": (_cloud, {LOOPS: _bodies(_threaded(_pulls), _threaded(_energies))}),
    "azimint_naive": (_rings_of, {ARRAYS: _rings_as_arrays, LOOPS: _threaded(azimint_in_loops)}),
    "azimint_naive in loops": (_rings_of, {LOOPS: _threaded(azimint_in_loops)}),
    "spmv": (_sparse, {LOOPS: _rows}),
}


IN_LOOPS = {"nbody in loops": nbody_in_loops, "azimint_naive in loops": azimint_in_loops}


def function_of(program: str) -> Callable[..., Any]:
    """A program as qgraph runs it."""
    return IN_LOOPS[program] if program in IN_LOOPS else PROGRAMS[program].function


def measure(quick: bool) -> Answer:
    """Microseconds a call, both taking turns on the same arguments."""
    title = "CPU: programs of NPBench against NumPy, and Numba with fastmath, float64, us a call"
    answer = Answer("cpu_programs", title, ("program", "rival", "qgraph", "us", "ratio"))
    for program, (make, rivals) in RUNS.items():
        args = make(8 if quick else 1)
        for rival, other in rivals.items():
            fast = rival != NUMPY
            kernel = qgraph.kernel(backend="cpu", fastmath=fast, fuse=fast)(function_of(program))
            check(program, kernel, other, args)
            runs = [functools.partial(run, *args) for run in (kernel, other)]
            (ours, theirs), ratio = paired(runs, rounds=5 if quick else 15)
            columns = {"qgraph": ours.as_json(), "us": theirs.as_json(), "ratio": ratio}
            answer.rows.append({"program": program, "rival": rival, **columns})
            answer.targets.append(Target(f"{program}, against {rival}", ratio, "<=", LIMIT, "x"))
    return answer


def check(program: str, kernel: Callable[..., Any], other: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Both give, and make of their arguments, the same but for rounding."""
    found = []
    for version in (kernel, other):
        given = copy.deepcopy(args)
        results = flat(version(*given))
        found.append([*results, *(each for each in given if isinstance(each, np.ndarray))])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, err_msg=program)


def draw(record: dict[str, Any], file: Path) -> None:
    """A bar a rival: qgraph's time over its time, and the limit."""
    title = "CPU: time of qgraph, as a multiple of the rival's"
    plots.below(record, file, ("program", "rival"), LIMIT, title=title, what="the rival")


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
