"""How much memory do programs of NPBench take at most beside their arguments, with qgraph on the CPU and with NumPy?

``python -m benchmarks.peak_memory [--quick]``. It is what ``tracemalloc`` has seen at most during a call, of arrays and of
Python's objects, in one that is not the first or second of the kernel. Arguments are as large as NumPy takes half a second
for, or is stopped at.
"""

from __future__ import annotations

import copy
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import qgraph
from benchmarks import plots
from benchmarks.npbench import patience, words_and_plain
from benchmarks.results import Answer, Target, main
from examples.npbench.programs import PROGRAMS, Program

ENOUGH, LONGEST = 0.5, 5.0
# Below it objects of Python are what counts: kB.
SMALL = 500


def measure(quick: bool) -> Answer:
    """Kilobytes of a call."""
    warnings.simplefilter("ignore")
    answer = Answer("peak_memory", "Memory that a call takes at most, kB (CPU)", ("program", "qgraph", "NumPy", "ratio"))
    for name, program in PROGRAMS.items():
        plain = words_and_plain(program)[1]
        kernel = qgraph.kernel(backend="cpu")(program.function)
        args = program.make(program.size) if quick else _large(program, plain)
        for _ in range(2):
            # The second one prepares those that come.
            kernel(*copy.deepcopy(args))
        # The least of some: now and then a table of Python's own grows meanwhile.
        ours, theirs = (round(min(peak(run, args) for _ in range(3)) / 1e3, 1) for run in (kernel, plain))
        ratio = round(ours / max(theirs, 0.1), 2)
        answer.rows.append({"program": name, "qgraph": ours, "NumPy": theirs, "ratio": ratio})
        if max(ours, theirs) >= SMALL:
            answer.targets.append(Target(f"{name}: memory over NumPy's", ratio, "<=", 1.0, "x"))
    return answer


def _large(program: Program, plain: Callable[..., Any]) -> tuple[Any, ...]:
    """The largest arguments, by powers of two, before those that NumPy takes long for."""
    size, args = program.size, program.make(program.size)
    for _ in range(6):
        given = copy.deepcopy(args)
        try:
            with patience(LONGEST):
                start = time.perf_counter()
                plain(*given)
        except TimeoutError:
            break
        if time.perf_counter() - start > ENOUGH:
            break
        size *= 2
        args = program.make(size)
    return program.make(size)


def peak(run: Callable[..., Any], args: tuple[Any, ...]) -> int:
    """The bytes that a call takes at most, besides its arguments."""
    given = copy.deepcopy(args)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    result = run(*given)
    found = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    del result
    return found


def draw(record: dict[str, Any], file: Path) -> None:
    """A bar a program that needs some."""
    rows = [row for row in record["rows"] if max(row["qgraph"], row["NumPy"]) >= SMALL]
    figure, axes = plots.figure("Memory of a call over that of NumPy", record, width=8.0, height=1.6 + 0.2 * len(rows))
    axes.barh([row["program"] for row in rows], [row["ratio"] for row in rows], color=plots.COLOURS["qgraph"])
    axes.axvline(1, color=plots.INK, linewidth=1.2)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("most memory of a call / that of NumPy")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
