"""What does a call cost the caller? The same arguments, two sets in turn, fresh ones; and whether a call ever waits."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import chains, plots, timing
from benchmarks.launch import expect
from benchmarks.results import Answer, Target, main
from qgraph.dispatch.dispatch_cache import MAX_RECENT

LOOPS = (1, 3, 10, 50)
# A kernel recognises the arguments of its last calls: two sets in turn always, of this many none when its turn comes.
FRESH = 32
assert FRESH > 2 * MAX_RECENT
# Replay: 6 us. Changed arrays: 6 us, and 1 us a node.
REPLAY_LIMIT = 6.0
NODE_LIMIT = 1.0
# Iterations of the loop that keeps the stream busy while calls are timed: about 100 ms on a GPU of 2024.
BUSY = 20_000


def measure(quick: bool) -> Answer:
    """CPU microseconds of a call for each number of loops."""
    columns = ("loops", "nodes", "unchanged", "bound", "two sets in turn", "fresh sets", "fresh sets, a node", "waits")
    answer = Answer("call_cost", f"CPU cost of a call: K loops of {chains.N:,} float32, us", columns)
    busy = _Busy()
    for loops in LOOPS[:2] if quick else LOOPS:
        kernel = qgraph.kernel(backend="cuda")(chains.chain(loops))
        arrays = [qgraph.asarray(np.zeros(chains.N, np.float32), backend="cuda") for _ in range(FRESH)]
        change, alternate = _rotating(kernel, arrays), _rotating(kernel, arrays[:2])
        for _ in arrays:
            change()
        qgraph.synchronize()
        for array in arrays:
            expect(qgraph.to_numpy(array), loops, "call_cost")
        builds = kernel.stats.graph_builds
        bound = kernel.bind(arrays[0], 1.0)
        unchanged = timing.cpu(lambda: kernel(arrays[0], 1.0), qgraph.synchronize)  # noqa: B023 - called in this turn
        launched = timing.cpu(bound.launch, qgraph.synchronize)
        alternating = timing.cpu(alternate, qgraph.synchronize)
        fresh = timing.cpu(change, qgraph.synchronize)
        if kernel.stats.graph_builds != builds:
            raise AssertionError(f"a change of arrays built {kernel.stats.graph_builds - builds} graphs")
        nodes = kernel.last_launch.nodes
        answer.rows.append(
            {
                "loops": loops,
                "nodes": nodes,
                "unchanged": unchanged.as_json(),
                "bound": launched.as_json(),
                "two sets in turn": alternating.as_json(),
                "fresh sets": fresh.as_json(),
                "fresh sets, a node": round((fresh.median - unchanged.median) / nodes, 4),
                "waits": "yes" if busy.waits(change) else "no",
            }
        )
    for row in answer.rows:
        answer.targets += _targets(row)
    return answer


def _targets(row: dict[str, Any]) -> list[Target]:
    nodes = row["nodes"]
    limit = REPLAY_LIMIT + NODE_LIMIT * nodes
    return [
        Target(f"{row['loops']} loops, unchanged arguments", row["unchanged"]["median"], "<=", REPLAY_LIMIT, "us"),
        Target(f"{row['loops']} loops, two sets in turn ({nodes} nodes)", row["two sets in turn"]["median"], "<=", limit, "us"),
        Target(f"{row['loops']} loops, fresh sets ({nodes} nodes)", row["fresh sets"]["median"], "<=", limit, "us"),
        Target(f"{row['loops']} loops, calls with changed arrays that waited", float(row["waits"] == "yes"), "<=", 0),
    ]


def _rotating(kernel: Callable[..., Any], arrays: Sequence[Any]) -> Callable[[], None]:
    following = itertools.cycle(arrays).__next__

    def change() -> None:
        kernel(following(), 1.0)

    return change


class _Busy:
    """A long device loop, to see whether a call behind it returns before it ends."""

    def __init__(self) -> None:
        self._kernel = qgraph.kernel(backend="cuda")(chains.counted(1))
        self._x = qgraph.asarray(np.zeros(chains.N, np.float32), backend="cuda")
        self._counter = qgraph.asarray(np.array(1, np.int32), backend="cuda")
        self._start()
        qgraph.synchronize()

    def _start(self) -> None:
        self._counter.fill(BUSY)
        qgraph.synchronize()
        self._kernel(self._x, 1.0, self._counter)

    def waits(self, action: Callable[[], None]) -> bool:
        """Whether ten calls of ``action`` take more than half as long as the loop that they are queued behind."""
        start = time.perf_counter()
        self._start()
        queued = time.perf_counter()
        for _ in range(10):
            action()
        calls = time.perf_counter() - queued
        qgraph.synchronize()
        busy = time.perf_counter() - start
        return calls > busy / 2


def draw(record: dict[str, Any], file: Path) -> None:
    """CPU time over the number of loops, with the targets."""
    figure, axes = plots.figure("CPU time of one call", record)
    axes.set_xscale("log")
    loops = [row["loops"] for row in record["rows"]]
    styles = (
        ("unchanged", "same arguments", plots.COLOURS["qgraph"], "-"),
        ("bound", "bind(...).launch()", plots.INK, "-"),
        ("two sets in turn", "two sets of arrays in turn", plots.COLOURS["numba-cuda"], "--"),
        ("fresh sets", "fresh arrays", plots.COLOURS["numba-cuda"], "-"),
    )
    for column, label, colour, line in styles:
        values = [row[column]["median"] for row in record["rows"]]
        axes.plot(loops, values, color=colour, linestyle=line, marker="o", markersize=4.5, linewidth=1.8, label=label)
    limits = [REPLAY_LIMIT + NODE_LIMIT * row["nodes"] for row in record["rows"]]
    axes.plot(loops, limits, color=plots.COLOURS["numba-cuda"], linestyle=":", linewidth=1.2, label="limit, changed")
    axes.axhline(REPLAY_LIMIT, color=plots.COLOURS["qgraph"], linestyle=":", linewidth=1.2, label="limit, same")
    axes.set_xticks(loops, [str(count) for count in loops])
    axes.xaxis.minorticks_off()
    axes.set_ylim(0, max(limits) * 1.15)
    axes.set_xlabel("loops in the kernel")
    axes.set_ylabel("microseconds")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
