"""Would a few blocks with barriers between them be faster than a graph? K loops and a counter, in qgraph and in CUDA C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import chains, plots, raw_c, timing
from benchmarks.launch import expect
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing

SOURCE = Path(__file__).resolve().with_suffix(".cu")
LOOPS, ELEMENTS = (1, 3, 10), (1024, 4096, 16_384, 65_536, 262_144)
OWN = {"qgraph": False, "qgraph, fuse=True": True}
# The kinds of CUDA C, and the column with the best number of blocks of each.
IN_C = {"one block": "", "cluster": "blocks of the cluster", "grid": "blocks of the grid"}
FEW_BLOCKS = ("cluster", "grid")
# Iterations of the short and of the long run.
TURNS = (101, 2101)


def measure(quick: bool) -> Answer:
    """Microseconds an iteration, as the difference of a long and a short run."""
    columns = ("loops", "elements", *OWN, *(name for kind in IN_C.items() for name in kind if name))
    answer = Answer("barriers", "K loops in a do-while: a graph, or one kernel with barriers, us an iteration", columns)
    sizes = [(loops, n) for loops in LOOPS for n in (ELEMENTS[:2] if quick else ELEMENTS)]
    try:
        found = {
            (row["loops"], row["elements"]): row
            for row in raw_c.answers(SOURCE, [str(word) for size in sizes for word in size])
        }
    except raw_c.Missing as error:
        answer.missing["CUDA C"] = str(error)
        found = {}
    for loops, n in sizes:
        row: dict[str, Any] = {"loops": loops, "elements": n}
        for peer, fuse in OWN.items():
            row[peer] = _qgraph(loops, n, fuse=fuse)().as_json()
        in_c = found.get((loops, n), {})
        for kind, blocks in IN_C.items():
            if kind in in_c:
                row[kind] = Timing.of([in_c[kind]]).as_json()
                row |= {blocks: in_c[blocks]} if blocks else {}
        answer.rows.append(row)
        answer.targets += _targets(row)
    return answer


def _qgraph(loops: int, n: int, *, fuse: bool) -> Callable[[], Timing]:
    """The time of an iteration, once the answer is right."""
    kernel = qgraph.kernel(backend="cuda", fuse=fuse)(chains.mirrored(loops))
    x, y = (qgraph.zeros(n, np.float32, backend="cuda") for _ in range(2))
    counter = qgraph.asarray(np.array(1, np.int32), backend="cuda")

    def prepare(turns: int) -> None:
        counter.fill(turns)
        qgraph.synchronize()

    def run(_turns: int) -> None:
        kernel(x, y, 1.0, counter)
        qgraph.synchronize()

    # A loop is unrolled when it was seen to run long.
    for _ in range(4):
        prepare(TURNS[0])
        run(TURNS[0])
    expect(qgraph.to_numpy(x), 4 * TURNS[0] * loops, f"{loops} loops")
    few, many = TURNS
    return lambda: timing.per_iteration(run, prepare, few=few, many=many, repeats=5)


def _targets(row: dict[str, Any]) -> list[Target]:
    """A graph, or one block, is as fast as any number of blocks with barriers."""
    times = [row[kind]["median"] for kind in FEW_BLOCKS if kind in row]
    if not times:
        return []
    own = row["qgraph, fuse=True"]["median"]
    name = f"{row['loops']} loops, {row['elements']:,} elements: time of the best few blocks over qgraph's, fuse=True"
    return [Target(name, min(times) / own, ">=", 1.0, "x")]


def draw(record: dict[str, Any], file: Path) -> None:
    """Time over elements, lines of one style for each number of loops."""
    figure, axes = plots.figure("A do-while as a graph, and as one kernel with barriers", record, width=9.0, height=5.0)
    colours = {
        "qgraph": plots.COLOURS["qgraph"],
        "qgraph, fuse=True": plots.COLOURS["qgraph, fuse=True"],
        "one block": "#9aa5b1",
        "cluster": plots.COLOURS["numba-cuda"],
        "grid": plots.COLOURS["Quadrants"],
    }
    for loops, style in zip(LOOPS, (":", "--", "-"), strict=True):
        rows = [row for row in record["rows"] if row["loops"] == loops]
        for peer, colour in colours.items():
            points = [(row["elements"], row[peer]["median"]) for row in rows if row.get(peer)]
            if points:
                label = peer if loops == LOOPS[-1] else None
                axes.plot(
                    *zip(*points, strict=True), style, color=colour, marker="o", markersize=3.5, linewidth=1.5, label=label
                )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ELEMENTS, [f"{n:,}" for n in ELEMENTS])
    axes.xaxis.minorticks_off()
    axes.set_xlabel(f"elements; dotted, dashed, solid: {', '.join(map(str, LOOPS))} loops")
    axes.set_ylabel("microseconds an iteration")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
