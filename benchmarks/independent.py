"""Loops that share nothing, by size: does the graph start them in the better of the two ways, in a row or at once?"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import chains, plots, raw_c, timing
from benchmarks.launch import expect
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing

LOOPS, ELEMENTS = (2, 8, 16), (1024, 16_384, 131_072, 1_048_576, 4_194_304)
# The graphs of CUDA C, and what the program calls them.
IN_C = {"raw C, at once": "fork", "raw C, in a row": "row"}
# A call runs on the legacy default stream, as PyTorch's and CuPy's; raw C has a stream of its own.
OWN_STREAM = "qgraph, a stream of its own"
PEERS = ("qgraph", OWN_STREAM, *IN_C)
# What the caller spends in a call, nothing awaited: more than one root makes a launch longer, and may be all that it takes.
CPU = {"qgraph": "qgraph, CPU", **{peer: f"{peer}, CPU" for peer in IN_C}}


def measure(quick: bool) -> Answer:
    """Microseconds a call, end to end; of raw C, a launch of its graph."""
    answer = Answer("independent", "Loops over an array each, us a call", ("loops", "elements", *PEERS, *CPU.values()))
    sizes = [(loops, n) for loops in LOOPS for n in (ELEMENTS[:2] if quick else ELEMENTS)]
    samples = []
    # They take turns: a machine may change its pace.
    for _ in range(1 if quick else 3):
        try:
            found = raw_c.answers(raw_c.SOURCE, ["fork", *(f"{loops}x{n}" for loops, n in sizes)])
        except raw_c.Missing as error:
            answer.missing["raw C"] = str(error)
            found = []
        times = {(row["kernels"], row["elements"]): _in_c(row) for row in found}
        samples.append({size: _qgraph(*size) | times.get(size, {}) for size in sizes})
    for loops, n in sizes:
        measured = [sample[loops, n] for sample in samples]
        row = {peer: timing.middle([sample[peer] for sample in measured]) for peer in measured[0]}
        answer.rows.append({"loops": loops, "elements": n, **{peer: timed.as_json() for peer, timed in row.items()}})
        better = [row[peer].median for peer in IN_C if peer in row]
        if better:
            name = f"{loops} loops of {n:,}: the better graph of raw C over qgraph's"
            answer.targets.append(Target(name, min(better) / row["qgraph"].median, ">=", 0.98, "x"))
    return answer


def _in_c(row: dict[str, Any]) -> dict[str, Timing]:
    """The times of a launch, of what the program in CUDA C says of one size."""
    totals = {peer: Timing.of([row[name]["total"]]) for peer, name in IN_C.items()}
    return totals | {CPU[peer]: Timing.of([row[name]["cpu"]]) for peer, name in IN_C.items()}


def _qgraph(loops: int, n: int) -> dict[str, Timing]:
    """The time of a call on either stream, once its answer is right."""
    from cuda.core import Device

    device = Device()
    device.set_current()
    found = {}
    for peer, stream in {"qgraph": contextlib.nullcontext(), OWN_STREAM: qgraph.stream(device.create_stream())}.items():
        kernel = qgraph.kernel(backend="cuda")(chains.independent(loops))
        arrays = [qgraph.zeros(n, np.float32, backend="cuda") for _ in range(loops)]
        qgraph.synchronize()
        with stream:
            kernel(*arrays, 1.0)
            qgraph.synchronize()
            for array in arrays:
                expect(qgraph.to_numpy(array), 1.0, f"{loops} independent loops")

            def action(kernel: Any = kernel, arrays: Sequence[Any] = tuple(arrays)) -> None:
                kernel(*arrays, 1.0)

            found[peer] = timing.total(action, qgraph.synchronize, calls=500, repeats=5)
            if peer in CPU:
                found[CPU[peer]] = timing.cpu(action, qgraph.synchronize)
    return found


def draw(record: dict[str, Any], file: Path) -> None:
    """The better graph of raw C over qgraph's, by size: a line a number of loops."""
    figure, axes = plots.figure("Independent loops: the better graph of raw C, over qgraph's call", record)
    for loops, colour in zip(LOOPS, ("#9aa5b1", plots.COLOURS["qgraph, fuse=True"], plots.COLOURS["qgraph"]), strict=True):
        rows = [row for row in record["rows"] if row["loops"] == loops and all(row.get(peer) for peer in ("qgraph", *IN_C))]
        ratios = [min(row[peer]["median"] for peer in IN_C) / row["qgraph"]["median"] for row in rows]
        axes.plot([row["elements"] for row in rows], ratios, color=colour, marker="o", label=f"{loops} loops")
    axes.axhline(1, color=plots.INK, linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("float32 elements of each loop")
    axes.set_ylabel("times as fast")
    axes.legend(frameon=False, fontsize=9)
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
