"""What does an iteration of a device loop cost? 1, 3 and 10 loops and a counter: on the device, by the host, raw C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import chains, plots, raw_c, timing
from benchmarks.launch import expect
from benchmarks.raw_c import Missing
from benchmarks.results import Answer, Target, main
from benchmarks.timing import Timing

LOOPS = (1, 3, 10)
# The options of each kernel.
OPTIONS: dict[str, dict[str, Any]] = {
    "qgraph": {"conditional": "auto"},
    "qgraph, joined": {"conditional": "auto", "fuse": True},
    "qgraph, one block": {"conditional": "auto", "fuse": True},
    "qgraph, host loop": {"conditional": "host"},
}
PEERS = (*list(OPTIONS)[:3], "raw C", "raw C, one kernel for both", "qgraph, host loop", "raw C, host loop")
# What an iteration may cost, of raw C's with counter and condition in one kernel.
UNROLLED = {1: 0.40, 3: 0.55, 10: 0.75}
ONE_BLOCK = {3: 0.2}
# Iterations of the short and of the long run.
DEVICE = (100, 10_100)
HOST = (20, 520)


def measure(quick: bool) -> Answer:
    """Microseconds an iteration, as the difference of a long and a short run.

    With ``fuse=True`` the loops, all over the same elements, are joined to one before they are one block. "One block" has loops
    that go through the elements back to front in turn, so that none can be joined: a barrier stands between them.
    """
    answer = Answer(
        "do_while", f"A do-while: K loops of {chains.N:,} float32 and a counter, us an iteration", ("loops", *PEERS)
    )
    answer.rows = [{"loops": count} for count in LOOPS]
    samples: dict[tuple[int, str], list[Timing]] = {}
    runs = {(count, peer): _qgraph(count, peer, answer) for count in LOOPS for peer in OPTIONS}
    for _ in range(1 if quick else 3):
        for (count, peer), run in runs.items():
            if run is not None:
                samples.setdefault((count, peer), []).append(run())
        _raw(samples, answer)
    for row in answer.rows:
        for (count, peer), timings in samples.items():
            if count == row["loops"]:
                row[peer] = timing.middle(timings).as_json()
    _targets(answer)
    return answer


def _targets(answer: Answer) -> None:
    for row in answer.rows:
        loops = row["loops"]
        raw = "raw C, one kernel for both"
        wanted = [("qgraph", raw, UNROLLED[loops]), ("qgraph, host loop", "raw C, host loop", 0.5)]
        if loops in ONE_BLOCK:
            wanted.append(("qgraph, one block", raw, ONE_BLOCK[loops]))
        for ours, theirs, most in wanted:
            name = f"{loops} loops, an iteration: {ours} against {theirs}"
            if ours in row and theirs in row:
                answer.targets.append(Target(name, row[ours]["median"] / row[theirs]["median"], "<=", most, "x"))
            else:
                answer.missing[f"target: {name}"] = answer.missing.get("raw C") or answer.missing.get(ours, "not measured")


def _qgraph(loops: int, peer: str, answer: Answer) -> Callable[[], Timing] | None:
    """A measurement of qgraph's do-while, once its answer is right; None, and said so, where loops cannot run there."""
    options = OPTIONS[peer]
    device = options["conditional"] != "host"
    apart = peer == "qgraph, one block"
    kernel = qgraph.kernel(backend="cuda", **options)((chains.mirrored if apart else chains.counted)(loops))
    x = qgraph.asarray(np.zeros(chains.N, np.float32), backend="cuda")
    counter = qgraph.asarray(np.array(7, np.int32), backend="cuda")
    arguments = (x, qgraph.zeros(chains.N, np.float32, backend="cuda"), 1.0, counter) if apart else (x, 1.0, counter)
    kernel(*arguments)
    qgraph.synchronize()
    expect(qgraph.to_numpy(x), 7 * loops, peer)
    path = kernel.last_launch.path
    if path != ("cuda-graph" if device else "cuda-host-loop"):
        answer.missing[peer] = f"the loop took the path {path}: {kernel.last_launch.reason}"
        return None
    if options.get("fuse") and kernel.last_launch.nodes != 1:
        raise AssertionError(f"{kernel.last_launch.nodes} nodes for what one block can do")

    def prepare(iterations: int) -> None:
        counter.fill(iterations)
        qgraph.synchronize()

    def run(_: int) -> None:
        kernel(*arguments)
        qgraph.synchronize()

    few, many = DEVICE if device else HOST
    return lambda: timing.per_iteration(run, prepare, few=few, many=many, repeats=5)


def _raw(samples: dict[tuple[int, str], list[Timing]], answer: Answer) -> None:
    try:
        for count, found in raw_c.measure("while", LOOPS).items():
            samples.setdefault((count, "raw C"), []).append(Timing.of([found["separate"]]))
            samples.setdefault((count, "raw C, one kernel for both"), []).append(Timing.of([found["combined"]]))
        for count, found in raw_c.measure("host", LOOPS).items():
            samples.setdefault((count, "raw C, host loop"), []).append(Timing.of([found["host"]]))
    except Missing as error:
        answer.missing["raw C"] = str(error)


def draw(record: dict[str, Any], file: Path) -> None:
    """Bars: time of an iteration."""
    figure, axes = plots.figure("Time of one iteration of a do-while", record)
    plots.bars(axes, record, "loops", PEERS)
    axes.set_xlabel(f"loops in the body, {chains.N:,} float32 each, and a counter")
    axes.set_ylabel("microseconds")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=True))
