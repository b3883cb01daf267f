"""Does each rule of the graph gain where it is used, and cost nothing elsewhere? The same kernels with it and without it."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import qgraph
from benchmarks import chains, parts, plots, timing
from benchmarks.launch import expect
from benchmarks.overlapped_tiles import averaged
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing
from qgraph.dispatch import specialisation
from qgraph.ir.artifacts import CudaPlan
from qgraph.ir.program import MAX_PARTIALS
from qgraph.kernel import Kernel
from qgraph.lowering import plan_builder
from qgraph.lowering.codegen import cuda_codegen, unrolling
from qgraph.lowering.loops import overlapped_tiles
from qgraph.lowering.loops.register_tiles import NotInRegisters, RegisterTile
from qgraph.runtime.executors.graph import CudaGraphExecutable
from qgraph.runtime.graph.kernels import KernelNode

BACKEND = "cuda"
# What each rule is in the code, and what takes its place: no user has a switch for it.
RULES: dict[str, tuple[Any, str, Any]] = {
    "programmatic edges": (CudaPlan, "waits_inside", mock.PropertyMock(return_value=False)),
    "rows": (CudaGraphExecutable, "_row_edges", mock.MagicMock(return_value=frozenset())),
    "unrolling": (plan_builder, "unroll_loops", mock.MagicMock(side_effect=lambda plan: plan)),
    "rows that combine": (cuda_codegen, "_over_rows", mock.MagicMock(return_value=False)),
    "few blocks that combine": (KernelNode, "_most_blocks", mock.MagicMock(return_value=MAX_PARTIALS)),
    "arrays of copies": (unrolling, "_trading", mock.MagicMock(return_value=())),
    "copies of one kernel": (unrolling, "COPIES", unrolling.COPIES[1:]),
    "results handed on": (unrolling, "hand_on", mock.MagicMock(return_value=None)),
    "extents in common": (specialisation, "equal_shapes", mock.MagicMock(return_value=())),
    "tiles": (overlapped_tiles, "tile_loops", mock.MagicMock(side_effect=lambda program, _, **_tiles: program)),
    "tiles in registers": (RegisterTile, "refuse", mock.MagicMock(side_effect=NotInRegisters("off"))),
}
COMBINING = tuple(RULES)[3:8]
TILES = tuple(RULES)[-2:]
COLUMNS = ("rule", "program", "size", "with", "without", "ratio")
# Elements of the programs that grow with them, and iterations of those that grow with these.
ELEMENTS = (1024, 65_536, 1_048_576, 16_777_216, 67_108_864)
INDEPENDENT = (1024, 16_384, 65_536, 131_072, 262_144, 524_288, 1_048_576, 4_194_304)
ITERATIONS = (1, 2, 4, 8, 20, 64, 1000)
# n of n x n, of sweeps that combine values, and how many.
SIDES = (128, 512, 2048)
SWEEPS = 320
# The same in tiles, with ``fuse``: the first one is too small for them, and in none.
TILED = (512, 1024, 2048, 4096)
# The same for arrays with three axes.
TILED_OF_THREE, STEPS_OF_THREE = (128, 256, 512), 64
# What is at least wanted of the ratio, by the iterations: a loop that ends at once may lose a tenth, a long one gains.
LEAST = {1: 1 / 1.1, 64: 1.0, 1000: 1.0}


@dataclass(frozen=True, slots=True)
class _Program:
    rule: str
    name: str
    size: int
    function: Callable[..., Any]
    # Its arguments: so many arrays of n elements, or of that shape, numbers, and so many flags. A call adds so much to each
    # element.
    n: int | tuple[int, ...]
    arrays: int
    numbers: tuple[float, ...]
    flags: int
    added: int
    fuse: bool = False


def do_while(x, a, turns, left):
    """A do-while that counts down."""
    left[()] = turns
    while qgraph.graph_do_while(left):
        for i in range(x.shape[0]):
            x[i] = x[i] + a
        left[()] -= 1


def test_first(x, a, turns):
    """A ``while`` that looks before each iteration."""
    k = 0
    while k < turns:
        for i in range(x.shape[0]):
            x[i] = x[i] + a
        k += 1


def counted(x, a, turns):
    """A ``for`` whose number of iterations is known."""
    for _ in qgraph.serial(range(turns)):
        for i in range(x.shape[0]):
            x[i] = x[i] + a


def nested(x, a, turns, left):
    """Such a do-while in one of four iterations."""
    for _ in qgraph.serial(range(4)):
        left[()] = turns
        while qgraph.graph_do_while(left):
            for i in range(x.shape[0]):
                x[i] = x[i] + a
            left[()] -= 1


def sweeps(u, v, most):
    """Sweeps with the largest change of each."""
    done = 0
    change = 0.0
    while change >= 0.0 and done < most:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
                change = max(change, abs(v[i, j] - u[i, j]))
        u, v = v, u
        done += 1


def spreading(u, v, p, q, steps):
    """Two quantities that spread over a torus."""
    n, m = u.shape
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(n, m):
            p[i, j] = 0.25 * (u[i - 1, j] + u[(i + 1) % n, j] + u[i, j - 1] + u[i, (j + 1) % m]) + v[i, j]
            q[i, j] = 0.25 * (v[i - 1, j] + v[(i + 1) % n, j] + v[i, j - 1] + v[i, (j + 1) % m]) - u[i, j]
        u, p = p, u
        v, q = q, v


def measure(quick: bool) -> Answer:
    """Microseconds a call, end to end."""
    answer = Answer("rules", "Each rule on and off: us a call", COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        times = {program: _both(program, folder, rounds=1 if quick else 5) for program in _programs(quick)}
    for program, (on, off) in times.items():
        ratio = off.median / on.median
        row = {"rule": program.rule, "program": program.name, "size": program.size}
        answer.rows.append({**row, "with": on.as_json(), "without": off.as_json(), "ratio": round(ratio, 4)})
        least = LEAST.get(program.size) if program.rule == "unrolling" else 0.98
        if least is not None:
            name = f"{program.rule}: {program.name}, {program.size:,}: without over with"
            answer.targets.append(Target(name, ratio, ">=", round(least, 3), "x"))
    return answer


def _both(program: _Program, folder: str, rounds: int) -> tuple[Timing, Timing]:
    """With its rule and without it. What a rule makes of a program is compiled once, whatever the size."""
    cache = f"{folder}/{program.rule}/{zlib.crc32(program.name.encode())}"
    # The same arrays for both: on an H200 a chain of ten small loops takes 6.6 or 7.4 us, as the address of its array has it.
    arrays = [qgraph.zeros(program.n, np.float32, backend=BACKEND) for _ in range(program.arrays)]
    measures = {}
    for name in ("with", "without"):
        kernel = qgraph.kernel(backend=BACKEND, fuse=program.fuse)(program.function)
        measures[name] = functools.partial(_measured, program, kernel, arrays, on=name == "with", cache=f"{cache}/{name}")
    times = parts.in_turns(measures, rounds=rounds)
    return times["with"], times["without"]


def _programs(quick: bool) -> Iterator[_Program]:
    chain, beside = chains.chain(10), chains.independent(8)
    for n in ELEMENTS[:2] if quick else ELEMENTS:
        yield _Program("programmatic edges", "10 loops in a row, elements", n, chain, n, 1, (1.0,), 0, 10)
    for n in ELEMENTS[:2] if quick else ELEMENTS:
        yield _Program("programmatic edges", "8 iterations, elements", n, do_while, n, 1, (1.0, 8), 1, 8)
    for n in INDEPENDENT[:2] if quick else INDEPENDENT:
        yield _Program("rows", "8 independent loops, elements", n, beside, n, 8, (1.0,), 0, 1)
    for name, function, flags, times in (
        ("do-while, iterations", do_while, 1, 1),
        ("while, iterations", test_first, 0, 1),
        ("for, iterations", counted, 0, 1),
        ("do-while in a for of 4, iterations", nested, 1, 4),
    ):
        for turns in ITERATIONS[:2] if quick else ITERATIONS:
            yield _Program("unrolling", name, turns, function, chains.N, 1, (1.0, turns), flags, times * turns)
    for rule in COMBINING:
        for n in SIDES[:2] if quick else SIDES:
            yield _Program(rule, f"{SWEEPS} sweeps with a maximum, n of n x n", n, sweeps, (n, n), 2, (SWEEPS,), 0, 0)
    for n in SIDES[:2] if quick else SIDES:
        yield _Program(
            "extents in common", f"{SWEEPS} steps of two stencils, n of n x n", n, spreading, (n, n), 4, (SWEEPS,), 0, 0
        )
    for rule, sizes in zip(TILES, (TILED, TILED[1:]), strict=True):
        yield from _in_tiles(rule, sizes[:1] if quick else sizes)
    yield from _streamed(TILED_OF_THREE[:1] if quick else TILED_OF_THREE)


def _in_tiles(rule: str, sizes: tuple[int, ...]) -> Iterator[_Program]:
    for n in sizes:
        name = f"{SWEEPS} sweeps with a maximum, fused, n of n x n"
        yield _Program(rule, name, n, sweeps, (n, n), 2, (SWEEPS,), 0, 0, fuse=True)
        name = f"{SWEEPS} steps of two stencils, fused, n of n x n"
        yield _Program(rule, name, n, spreading, (n, n), 4, (SWEEPS,), 0, 0, fuse=True)


def _streamed(sizes: tuple[int, ...]) -> Iterator[_Program]:
    for n in sizes:
        name = f"{STEPS_OF_THREE} steps of six points, fused, n of n x n x n"
        yield _Program(TILES[0], name, n, averaged, (n, n, n), 2, (STEPS_OF_THREE,), 0, 0, fuse=True)


def _measured(program: _Program, kernel: Kernel[..., Any], arrays: list[Any], *, on: bool, cache: str) -> Timing:
    """Of a graph made for this: one and the same graph is 5% faster or slower the next time that it is built."""
    kernel._close_executables()
    before = [qgraph.to_numpy(array) for array in arrays]
    flags = [qgraph.zeros((), np.int32, backend=BACKEND) for _ in range(program.flags)]
    arguments = (*arrays, *program.numbers, *flags)
    owner, name, instead = RULES[program.rule]
    asked = isinstance(instead, mock.MagicMock)
    if asked:
        instead.reset_mock()
    # What was compiled with a rule is of no use without it.
    own = mock.patch.dict(os.environ, {"QGRAPH_CACHE_DIR": cache})
    # A plan that is built anew asks; the next one lies in the cache.
    anew = not os.path.isdir(cache)
    with own, contextlib.nullcontext() if on else mock.patch.object(owner, name, instead):
        # How long loops run is known after some calls: all graphs that will be wanted are built here.
        for _ in range(6):
            kernel(*arguments)
            qgraph.synchronize()
    if not on and anew and asked and not instead.called:
        raise AssertionError(f"nobody asked for {name}: the rule was not off")
    for array, values in zip(arrays, before, strict=True):
        expect(qgraph.to_numpy(array) - values, 6 * program.added, f"{program.name} {program.size}")

    def action() -> None:
        kernel(*arguments)

    calls = timing.calls_for(action, qgraph.synchronize, seconds=0.01, most=500)
    return timing.total(action, qgraph.synchronize, calls=calls, repeats=5)


def draw(record: dict[str, Any], file: Path) -> None:
    """How many times as fast with a rule as without, by size: a line a program."""
    figure, axes = plots.figure("Times as fast with each rule as without it", record, width=11, height=5)
    names = list(dict.fromkeys((row["rule"], row["program"]) for row in record["rows"]))
    for number, (rule, program) in enumerate(names):
        rows = [row for row in record["rows"] if (row["rule"], row["program"]) == (rule, program)]
        # There are ten colours.
        style = {"color": f"C{number % 10}", "marker": "os"[number // 10], "linestyle": "-:"[number // 10]}
        axes.plot([row["size"] for row in rows], [row["ratio"] for row in rows], **style, label=f"{rule}: {program}")
    axes.axhline(1, color=plots.INK, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("size: elements, iterations, or n")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
