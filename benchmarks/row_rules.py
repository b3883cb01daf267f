"""Does each rule for loops over rows gain where it is used? The same kernels with it and without it.

``python -m benchmarks.row_rules [--quick]``. The rules: lanes of a warp share inner loops that store, too; several warps share
rows that are few and long; ``fuse=True`` makes one loop over the rows of what is done with sums of them, and with elements.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing
from qgraph.frontend.bodies import loop_fusion
from qgraph.lowering.codegen.cooperative_rows import _Sharing
from qgraph.runtime.graph import launch_shapes

BACKEND = "cuda"


def columns(a, b, x):
    """A step of Gram-Schmidt: all columns without their part along one."""
    for j in range(a.shape[1]):
        x[j] = b[:, 0] @ a[:, j]
        a[:, j] -= b[:, 0] * x[j]


def triangle(a, b, x):
    """The lower triangle of a symmetric product, row by row."""
    for i in range(a.shape[0]):
        for k in range(32):
            a[i, : i + 1] += b[: i + 1, k] * b[i, k]


def sums(a, b, x):
    """The sum of each row."""
    x[:] = a.sum(axis=1)


def shares(a, b, x):
    """The softmax of each row."""
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    b[:] = powers / powers.sum(axis=1, keepdims=True)


def _apart(task: Any, facts: Any, _: Any) -> Any:
    return task, facts


# What each rule is in the code, what takes its place, and its programs with their shapes: no user has a switch for it.
STORES, WARPS, FUSED = "lanes that store", "several warps", "rows fused"
RULES: dict[str, tuple[Any, str, Any]] = {
    STORES: (_Sharing, "_has_own_elements", lambda *_: False),
    WARPS: (launch_shapes, "_MANY_INSIDE", 1 << 40),
    FUSED: (loop_fusion, "_by_rows", _apart),
}
SHAPES: dict[str, list[tuple[Callable[..., Any], tuple[int, int]]]] = {
    STORES: [(program, (n, n)) for program in (columns, triangle) for n in (256, 1024, 4096)],
    WARPS: [(sums, shape) for shape in ((8, 1_000_000), (64, 100_000), (512, 10_000), (4096, 1000))],
    FUSED: [
        (shares, shape)
        for shape in ((8, 1_000_000), (64, 100_000), (64, 4096), (512, 512), (4096, 256), (65_536, 256), (65_536, 3))
    ],
}
COLUMNS = ("rule", "program", "shape", "with", "without", "ratio")


def measure(quick: bool) -> Answer:
    """Microseconds a call, end to end, in turns."""
    answer = Answer("row_rules", "Each rule for rows on and off: us a call", COLUMNS)
    for rule, programs in SHAPES.items():
        for program, shape in programs[:1] if quick else programs:
            turns = {
                name: functools.partial(_measured, rule, program, shape, on=name == "with") for name in ("with", "without")
            }
            times = parts.in_turns(turns, rounds=1 if quick else 3)
            ratio = round(times["without"].median / times["with"].median, 4)
            label = f"{shape[0]:,} x {shape[1]:,}"
            found = (rule, program.__name__, label, times["with"].as_json(), times["without"].as_json(), ratio)
            answer.rows.append(dict(zip(COLUMNS, found, strict=True)))
            answer.targets.append(Target(f"{rule}: {program.__name__}, {label}: without over with", ratio, ">=", 0.98, "x"))
    return answer


def _measured(rule: str, program: Callable[..., Any], shape: tuple[int, int], *, on: bool) -> Timing:
    kernel = qgraph.kernel(backend=BACKEND, fuse=rule == FUSED)(program)
    made = [np.random.default_rng(number).random(each) for number, each in enumerate((shape, shape, max(shape)))]
    made[2] = made[2][: shape[1] if program is columns else shape[0]]
    wanted, arrays = [each.copy() for each in made], [qgraph.asarray(each, backend=BACKEND) for each in made]
    owner, name, instead = RULES[rule]
    instead = getattr(owner, name) if on else instead
    with mock.patch.dict(os.environ, {"QGRAPH_CACHE": "0"}), mock.patch.object(owner, name, instead):
        kernel(*arrays)
        if program is not triangle:
            program(*wanted)
            for one, other in zip(arrays, wanted, strict=True):
                np.testing.assert_allclose(qgraph.to_numpy(one), other, rtol=1e-9, atol=1e-9)
        # All graphs that will be wanted are built here.
        for _ in range(6):
            kernel(*arrays)
            qgraph.synchronize()

    def action() -> None:
        kernel(*arrays)

    calls = timing.calls_for(action, qgraph.synchronize, seconds=0.01, most=500)
    return timing.total(action, qgraph.synchronize, calls=calls, repeats=3)


def draw(record: dict[str, Any], file: Path) -> None:
    """A bar a program and shape: the time without the rule over that with it, on a logarithmic axis."""
    rows = record["rows"]
    title = "Loops over rows: time without a rule, as a multiple of that with it"
    drawn, axes = plots.figure(title, record, width=9.0, height=6.0)
    places = range(len(rows))
    axes.barh(places, [row["ratio"] - 1 for row in rows], left=1, color=plots.COLOURS["qgraph"])
    axes.set_yticks(places, [f"{row['rule']}: {row['program']}, {row['shape']}" for row in rows], fontsize=8)
    axes.set_xscale("log")
    axes.set_xticks((0.5, 1, 2, 5, 10, 20, 50), ("0.5", "1", "2", "5", "10", "20", "50"))
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color="#e4e7eb", linewidth=0.6)
    axes.invert_yaxis()
    axes.axvline(1, color=plots.INK, linewidth=1)
    axes.set_xlabel("time without over time with")
    plots.save(drawn, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
