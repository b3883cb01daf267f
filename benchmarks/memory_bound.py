"""Do loops that only wait for memory run as fast as kernels by hand? Triad, stencil, transpose, sparse product, dot product.

``python -m benchmarks.memory_bound [--only triad ...] [--without CuPy ...] [--quick] [--device cpu]``

GB/s counts the bytes that the algorithm must move: each input read once, each result written once.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.memory import Arrays, Maker
from benchmarks.memory.problems import FULL, QUICK, Problem
from benchmarks.peers import Device, Run
from benchmarks.results import Answer, Target
from benchmarks.timing import Timing

OPERATIONS = tuple(FULL)
COLUMNS = ("operation", "size", "MB", "peer", "us", "GB/s", "ratio")
# The name of each library, and of its module.
PEERS = {"qgraph": "qgraph", "numba-cuda": "numba", "CuPy": "cupy"}
COPY = "device copy"
# Operations whose bytes the device copies, too, and whether each copy is waited for.
COPIED = {"dot": False, "dot_returned": True}
BESIDE_PEERS, BESIDE_COPY = 0.95, 0.9


def begin(device: Device) -> Answer:
    """An answer without rows."""
    title = "Memory-bound loops on float32: us a call, and MB that the algorithm must move"
    return Answer("memory_bound" if device == "cuda" else "memory_bound_cpu", title, COLUMNS)


def measure(operation: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one operation: each peer's answer is checked, then all take turns."""
    libraries = parts.present(answer, PEERS, device)
    for make in (QUICK if quick else FULL)[operation]:
        problem = make()
        arrays = on_device(problem, device)
        measures: dict[str, Callable[[], Timing]] = {}
        for peer, make_run in makers(answer, operation, libraries).items():
            attempted = functools.partial(checked, make_run, problem, arrays, device)
            run = parts.attempt(answer, operation, f"{peer}, {problem.size}", attempted)
            if run is not None:
                measures[peer] = functools.partial(_time, run)
        if operation in COPIED and device == "cuda":
            measures[COPY] = functools.partial(_time, copied(problem, arrays, waiting=COPIED[operation]))
        if all(peer.startswith("qgraph") or peer == COPY for peer in measures):
            answer.missing[f"{operation}: target, {problem.size}"] = "no peer was measured"
        times = parts.in_turns(measures, rounds=1 if quick else 5)
        rates = {peer: round(problem.nbytes / timed.median / 1e3, 1) for peer, timed in times.items()}
        megabytes = dict.fromkeys(times, round(problem.nbytes / 1e6, 1))
        parts.add_rows(answer, operation, problem.size, times, {"GB/s": rates, "MB": megabytes})


def makers(answer: Answer, operation: str, libraries: list[str]) -> dict[str, Maker]:
    """Every way in which those libraries write the operation; one whose module cannot be imported is missing."""
    found: dict[str, Maker] = {}
    for library in libraries:
        module = f"benchmarks.memory.in_{PEERS[library]}"
        made = parts.attempt(answer, operation, library, functools.partial(importlib.import_module, module))
        if made is not None:
            found |= made.MAKERS[operation]
    return found


def on_device(problem: Problem, device: Device) -> Arrays:
    """The problem's inputs, and ``y`` for float32 answers, as qgraph's arrays: the peers share their memory."""
    arrays = {name: qgraph.asarray(array, backend=device) for name, array in problem.inputs.items()}
    return {**arrays, "y": qgraph.empty(problem.shape, np.float32, backend=device)}


def checked(make_run: Maker, problem: Problem, arrays: Arrays, device: Device) -> Run:
    """The work made ready and run once, its answer compared with float64's; nothing of an earlier answer is left."""
    run = make_run(problem, arrays, device)
    arrays["y"].fill(np.nan)
    run.action()
    run.wait()
    problem.check(run.answer()["y"])
    return run


def copied(problem: Problem, arrays: Arrays, *, waiting: bool) -> Run:
    """A device-to-device copy of ``a``: as many bytes read and written as a dot product reads."""
    from benchmarks.bandwidth import device_copy

    source = arrays["a"]
    target = qgraph.zeros(source.shape, source.dtype, backend="cuda")
    copy = device_copy(target, source, problem.inputs["a"].nbytes)

    def copy_and_wait() -> None:
        copy()
        qgraph.synchronize()

    copy_and_wait()
    np.testing.assert_array_equal(qgraph.to_numpy(target)[::4097], problem.inputs["a"][::4097])
    return Run(copy_and_wait if waiting else copy, qgraph.synchronize, lambda: {"a": qgraph.to_numpy(target)})


def _time(run: Run) -> Timing:
    return timing.total(run.action, run.wait, calls=20, repeats=3)


def targets(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """Each of qgraph's ways beside the better peer; dot products beside a device copy of as many bytes, too."""
    found = []
    for (operation, size), peers in grouped(rows, key).items():
        ours = {peer: row for peer, row in peers.items() if peer.startswith("qgraph")}
        others = {peer: row["us"]["median"] for peer, row in peers.items() if peer not in ours and peer != COPY}
        for peer, row in ours.items():
            own, name = row["us"]["median"], f"{operation}, {size}: time of"
            if others and COPY not in peers:
                better = min(others, key=others.__getitem__)
                found.append(Target(f"{name} {better} over {peer}'s", others[better] / own, ">=", BESIDE_PEERS, "x"))
            if COPY in peers:
                how = ", both waited for" if COPIED[operation] else ""
                measured = peers[COPY]["us"]["median"] / own
                found.append(Target(f"{name} a {COPY} of as many bytes over {peer}'s{how}", measured, ">=", BESIDE_COPY, "x"))
    return found


def grouped(rows: list[dict[str, Any]], key: str) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """By operation and size, then by peer."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row[key], row["size"]), {})[row["peer"]] = row
    return found


def draw(record: dict[str, Any], file: Path) -> None:
    """A group of bars for each operation and size: GB/s of each peer."""
    groups = grouped(record["rows"], "operation")
    height = 1.6 + 0.22 * len(record["rows"]) + 0.18 * len(groups)
    figure, axes = plots.figure("Memory-bound loops on float32: GB/s", record, width=9.5, height=height)
    place, ticks = 0.0, {}
    for (operation, size), peers in groups.items():
        ticks[f"{operation}\n{size}"] = place + (len(peers) - 1) / 2
        for peer, row in peers.items():
            axes.barh(place, row["GB/s"], 0.9, color=plots.COLOURS.get(peer, plots.INK), label=peer)
            axes.text(row["GB/s"], place, f" {row['GB/s']:,.0f}", va="center", fontsize=7.5, color=plots.INK)
            place += 1.0
        place += 0.8
    axes.set_yticks(list(ticks.values()), list(ticks), fontsize=8.5)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel("GB/s of the bytes that the algorithm must move")
    handles, labels = axes.get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    figure.legend(known.values(), known.keys(), frameon=False, fontsize=9, ncols=3, loc="outside lower left")
    plots.save(figure, file)


if __name__ == "__main__":
    measures = {operation: functools.partial(measure, operation) for operation in OPERATIONS}
    raise SystemExit(parts.main(begin, measures, draw, targets))
