"""How long does long code take to compile: many loops, terms, branches?

``python -m benchmarks.long_code [--quick]``. It needs no GPU: PTX is not linked. Answers are compared with plain Python's.
Times are the processor's, of all threads: a compilation may take minutes, of which other processes get their share.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots
from benchmarks.long_kernels import arrays, long_function
from benchmarks.results import Answer, Target, main

LENGTHS = {
    "loops": (100, 200, 400, 1000),
    "equal_loops": (100, 200, 400, 1000),
    "terms": (625, 1250, 2500, 5000),
    "array_terms": (625, 1250, 2500, 5000),
    "elifs": (125, 250, 500, 1000),
    "kernel_elifs": (125, 250, 500, 1000),
}
QUICK = 2
# What is made of a function, each from the start.
STEPS = ("plan", "PTX", "CPU")
COLUMNS = ("kind", "length", "step", "seconds", "ms a part")
# A part of the longest code may take so much longer than one of the shortest.
GROWTH = 2.0


def measure(quick: bool) -> Answer:
    """A row for each kind, length and step; each kernel's answer is checked."""
    answer = Answer(
        "long_code", "From a function to its plan, PTX, and first answer on the CPU, seconds of the processor", COLUMNS
    )
    # What is imported, and found out once, belongs to no row.
    for step in STEPS:
        _seconds("loops", 3, step)
    for kind, lengths in LENGTHS.items():
        for length, step in itertools.product(lengths[:QUICK] if quick else lengths, STEPS):
            seconds = _seconds(kind, length, step)
            row = dict(zip(COLUMNS, (kind, length, step, round(seconds, 3), round(seconds / length * 1e3, 3)), strict=True))
            answer.rows.append(row)
            parts.say(f"{kind} {length}: {step}: {seconds:.2f} s")
    answer.targets += _targets(answer.rows)
    return answer


def _targets(rows: list[dict[str, Any]]) -> list[Target]:
    """A part takes as long in long code as in short code."""
    found = []
    for kind, step in itertools.product(LENGTHS, STEPS):
        each = [row["ms a part"] for row in rows if (row["kind"], row["step"]) == (kind, step)]
        found.append(
            Target(f"{kind}, {step}: a part of the longest over one of the shortest", each[-1] / each[0], "<=", GROWTH, "x")
        )
    return found


def _seconds(kind: str, length: int, step: str) -> float:
    function, args = long_function(kind, length), arrays()
    kernel = qgraph.kernel(backend="cpu")(function)
    actions: dict[str, Callable[..., object]] = {"plan": kernel.plan, "PTX": kernel.ptx, "CPU": kernel}
    start = time.process_time()
    actions[step](*args)
    seconds = time.process_time() - start
    if step == "CPU":
        expected = arrays()
        kernel.reference(*expected)
        for found, wanted in zip(args, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=f"{length} {kind}")
    return seconds


def draw(record: dict[str, Any], file: Path) -> None:
    """Seconds over the length, a line a kind: whole on the CPU, dashed for PTX."""
    figure, axes = plots.figure("Compiling long code", record)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for kind, colour in zip(LENGTHS, dict.fromkeys(plots.COLOURS.values()), strict=False):
        for step, dashes in (("CPU", "-"), ("PTX", "--")):
            rows = [row for row in record["rows"] if (row["kind"], row["step"]) == (kind, step)]
            label = f"{kind.replace('_', ' ')}, {step}"
            axes.plot(
                [row["length"] for row in rows], [row["seconds"] for row in rows], dashes, marker="o", color=colour, label=label
            )
    axes.set_xlabel("how many")
    axes.set_ylabel("seconds of the processor")
    axes.legend(frameon=False, fontsize=7, ncols=2)
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
