"""Whole programs: the same work in qgraph, Quadrants, Warp and CuPy, as users of each write it.

``python -m benchmarks.programs [--only poisson ...] [--without Warp ...] [--quick] [--device cpu]``

A peer that cannot be imported is listed as missing: ``pip install quadrants==1.3.3 warp-lang==1.19.0 cupy-cuda13x==14.2.0``.
One in which a program is not written has no row.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import time
from pathlib import Path
from typing import Any

from benchmarks import panels, parts, roofline, timing
from benchmarks.peers import Device, Run
from benchmarks.results import Answer, Target

PROGRAMS = ("poisson", "fdtd", "boltzmann", "boltzmann3", "heat3", "gray_scott", "shallow", "molecules", "pagerank", "newton")
FUSED = "qgraph, fuse=True"
# The name of each peer, and of its module.
PEERS = {"qgraph": "qgraph", FUSED: "qgraph", "Quadrants": "quadrants", "Warp": "warp", "CuPy": "cupy"}
COLUMNS = ("program", "size", "peer", "us", "iterations", "MB", "Mflop", "share", "ratio")
# Seconds that one peer's timed calls take together, in each of three rounds.
SECONDS = 0.08


def begin(device: Device) -> Answer:
    """An answer without rows."""
    title = "Whole programs, checked against float64 first: from the call to its end, us"
    return Answer("programs" if device == "cuda" else "programs_cpu", title, COLUMNS)


def measure(program: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one program: each peer's answer is checked, then all take turns."""
    written = {peer: library for peer, library in PEERS.items() if importlib.util.find_spec(_module(program, peer))}
    present = parts.present(answer, written, device)
    problem_module = importlib.import_module(f"benchmarks.whole.{program}.problem")
    for problem in problem_module.problems(quick):
        runs = {}
        for peer in present:
            make = functools.partial(checked, program, peer, problem, device)
            made = parts.attempt(answer, program, f"{peer}, {problem.size}", make)
            if made is not None:
                runs[peer] = made
        measures = {peer: functools.partial(_time, run, quick) for peer, (run, _) in runs.items()}
        times = parts.in_turns(measures, rounds=1 if quick else 3)
        iterations = {peer: found["iterations"] for peer, (_, found) in runs.items() if "iterations" in found}
        more: dict[str, Any] = {"iterations": iterations}
        if device == "cuda" and "qgraph" in times:
            found = roofline.columns(problem, iterations.get("qgraph"), times["qgraph"].median)
            more |= {column: {"qgraph": value} for column, value in found.items()}
        parts.add_rows(answer, program, problem.size, times, more)


def checked(program: str, peer: str, problem: Any, device: Device) -> tuple[Run, dict[str, Any]]:
    """A program made ready and run once, its answer compared with the reference, and what it counted."""
    make = importlib.import_module(_module(program, peer)).make
    run: Run = make(problem, device, fuse=True) if peer == FUSED else make(problem, device)
    run.action()
    run.wait()
    found = run.answer()
    problem.check(found)
    return run, {name: value for name, value in found.items() if isinstance(value, int)}


def _module(program: str, peer: str) -> str:
    return f"benchmarks.whole.{program}.in_{PEERS[peer]}"


def _time(run: Run, quick: bool) -> timing.Timing:
    start = time.perf_counter()
    run.action()
    run.wait()
    once = max(time.perf_counter() - start, 1e-6)
    return timing.total(run.action, run.wait, calls=1, repeats=3 if quick else int(min(max(SECONDS / once, 2), 25)))


def judge(rows: list[dict[str, Any]], key: str) -> list[Target]:
    """Ahead of each peer, and near to the limit of the machine."""
    return [*parts.targets(rows, key), *roofline.targets(rows, key)]


def draw(record: dict[str, Any], file: Path) -> None:
    """A panel a program: each peer's time over qgraph's, a group of bars a size; and all of them below the roof."""
    if any("share" in row for row in record["rows"]):
        roofline.draw(record, file.with_stem(f"{file.stem}_roofline"))
    panels.ratios(record, file, "Time of whole programs, as a multiple of qgraph's", tuple(PEERS)[1:], _titles())


def _titles() -> dict[str, str]:
    return {program: importlib.import_module(f"benchmarks.whole.{program}.problem").TITLE for program in PROGRAMS}


if __name__ == "__main__":
    measures = {program: functools.partial(measure, program) for program in PROGRAMS}
    raise SystemExit(parts.main(begin, measures, draw, judge))
