"""What does a start cost? The import, the first result with a warm cache, and compiling a loop without one."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.raw_c import Missing
from benchmarks.results import Answer, Target, has_gpu, main
from benchmarks.starts import STARTED

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = (
    *("conjugate_gradient", "bicgstab", "jacobi", "gauss_seidel", "pagerank", "breadth_first", "floyd_warshall", "kmeans"),
    *("dormand_prince", "fdtd", "plasma", "sinkhorn"),
)
PEERS = {"Warp": "in_warp", "Quadrants": "in_quadrants"}
REPEATS = 5
# Milliseconds.
IMPORT = 150
WARM = 250
WARM_CPU = 300
COLD = 60


def measure(quick: bool) -> Answer:
    """Milliseconds: medians of processes that are started one after another."""
    answer = Answer("startup", "Starting, ms: with a warm cache, and without one", ("what", "step", "ms"))
    with tempfile.TemporaryDirectory(prefix="qgraph-bench-") as folder:
        repeats = 3 if quick else REPEATS
        if has_gpu():
            _warm(answer, folder, repeats)
        else:
            answer.missing["warm start"] = "it needs a GPU"
        _on_cpu(answer, folder, repeats)
        _cold(answer, EXAMPLES[:3] if quick else EXAMPLES, folder)
    imported = next(row["ms"] for row in answer.rows if row["step"] == "import qgraph")
    answer.targets.append(Target("import qgraph, after NumPy", imported, "<=", IMPORT, "ms"))
    return answer


def _warm(answer: Answer, folder: str, repeats: int) -> None:
    _start("alone", folder=folder)
    alone = [_start("alone", folder=folder)["marks"] for _ in range(repeats)]
    _steps(answer, "NumPy and a context", alone)
    base = statistics.median(each["CUDA context"] for each in alone)
    ours = _peer(answer, "qgraph", "in_qgraph", folder, repeats, "cuda")
    assert ours is not None
    answer.targets.append(Target("first result, later than NumPy and a context", ours - base, "<=", WARM, "ms"))
    for peer, module in PEERS.items():
        theirs = _peer(answer, peer, module, folder, repeats)
        if theirs is not None:
            answer.targets.append(Target(f"first result: qgraph against {peer}", ours / theirs, "<=", 1.0, "x"))


def _on_cpu(answer: Answer, folder: str, repeats: int) -> None:
    _steps(answer, "cold, qgraph on the CPU", [_start("in_qgraph", "cpu", folder=folder)["marks"]])
    warm = [_start("in_qgraph", "cpu", folder=folder) for _ in range(repeats)]
    if any("numba" in each["compilers"] for each in warm):
        raise AssertionError("a warm start on the CPU imported numba")
    marks = [each["marks"] for each in warm]
    _steps(answer, "qgraph, CPU", marks)
    later = statistics.median(each["first result"] - each["import numpy"] for each in marks)
    answer.targets.append(Target("first result on the CPU, later than NumPy", later, "<=", WARM_CPU, "ms"))


def _peer(answer: Answer, peer: str, module: str, folder: str, repeats: int, *args: str) -> float | None:
    """Milliseconds to the first result with what the first process left in its cache; None, and why, where it cannot run."""
    try:
        _start(module, *args, folder=folder)
        found = [_start(module, *args, folder=folder) for _ in range(repeats)]
    except Missing as error:
        if peer == "qgraph":
            raise
        answer.missing[peer] = str(error)
        return None
    if peer == "qgraph" and any(each["compilers"] for each in found):
        raise AssertionError(f"a warm start imported {found[0]['compilers']}")
    _steps(answer, peer, [each["marks"] for each in found])
    return statistics.median(each["marks"]["first result"] for each in found)


def _steps(answer: Answer, what: str, marks: list[dict[str, float]]) -> None:
    """A row for each step of a start: what it took since the one before it; and the sum."""
    before = dict.fromkeys(range(len(marks)), 0.0)
    for step in marks[0]:
        taken = [each[step] - before[number] for number, each in enumerate(marks)]
        before = {number: each[step] for number, each in enumerate(marks)}
        answer.rows.append({"what": what, "step": step, "ms": round(statistics.median(taken), 2)})
    answer.rows.append({"what": what, "step": "in all", "ms": round(statistics.median(before.values()), 2)})


def _start(module: str, *args: str, folder: str) -> Any:
    """What a process says that runs ``benchmarks.starts.<module>``; libraries have their bytecode, as installed ones do."""
    env = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "QGRAPH_CACHE": "1",
        "QGRAPH_CACHE_DIR": os.path.join(folder, "qgraph"),
        "WARP_CACHE_PATH": os.path.join(folder, "warp"),
        "QGRAPH_BENCHMARK_CACHE": os.path.join(folder, "quadrants"),
        STARTED: repr(time.time()),
    }
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.starts.{module}", *args]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def _cold(answer: Answer, examples: tuple[str, ...], folder: str) -> None:
    rows = _start("cold", *examples, folder=folder)
    # Each task counts as much as the kernel that it is in takes for one.
    each = {
        step: [row[step] / row["tasks"] for row in rows for _ in range(row["tasks"])] for step in ("plan", "compile and link")
    }
    whole = [sum(parts) for parts in zip(*each.values(), strict=True)]
    what = f"cold, a loop of {len(whole)} in {len(rows)} kernels"
    answer.rows += [{"what": what, "step": step, "ms": round(statistics.median(found), 2)} for step, found in each.items()]
    answer.rows.append({"what": what, "step": "in all", "ms": round(statistics.median(whole), 2)})
    name = "compiling a loop of the examples, median, after Numba's import"
    answer.targets.append(Target(name, statistics.median(whole), "<=", COLD, "ms"))


def _kind(row: dict[str, Any]) -> str:
    step: str = row["step"]
    return "import the library" if step.startswith("import ") and step != "import numpy" else step


def draw(record: dict[str, Any], file: Path) -> None:
    """A bar for each start, in steps."""
    figure, axes = plots.figure("From the start of a process to its first result", record, height=3.6)
    rows = [row for row in record["rows"] if not row["what"].startswith("cold") and row["step"] != "in all"]
    starts = dict.fromkeys(row["what"] for row in rows)
    # The import of the library itself is one step, whatever its name.
    steps = dict.fromkeys(_kind(row) for row in rows)
    names = ("raw C", "Warp", "qgraph", "qgraph, fuse=True", "numba-cuda", "CuPy")
    colours = dict(zip(steps, itertools.cycle(plots.COLOURS[name] for name in names), strict=False))
    for place, what in enumerate(starts):
        left = 0.0
        for row in rows:
            if row["what"] == what:
                axes.barh(place, row["ms"], left=left, color=colours[_kind(row)], height=0.6)
                left += row["ms"]
        axes.text(left, place, f" {left:,.0f}", va="center", fontsize=9, color=plots.INK)
    for step in steps:
        axes.barh(0, 0, color=colours[step], label=step)
    axes.legend(loc="upper right", fontsize=8, frameon=False)
    axes.set_yticks(range(len(starts)), list(starts))
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel("milliseconds")
    plots.save(figure, file)


if __name__ == "__main__":
    raise SystemExit(main(measure, draw, needs_gpu=False))
