"""What a question's answer looks like: rows, targets, what was missing, and the machine it was measured on."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import qgraph

RESULTS = Path(__file__).resolve().parent / "results"
DISTRIBUTIONS = ("numpy", "numba", "numba-cuda", "llvmlite", "cuda-core", "cuda-bindings", "nvidia-nvjitlink", "torch")
PEERS = ("quadrants", "warp-lang", "cupy-cuda13x", "cupy-cuda12x", "jax", "nvmath-python")


@dataclass(frozen=True, slots=True)
class Target:
    """A number that is to hold: ``measured`` against ``limit``, in the direction of ``sense``."""

    name: str
    measured: float
    sense: Literal["<=", ">="]
    limit: float
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether it holds."""
        return self.measured <= self.limit if self.sense == "<=" else self.measured >= self.limit

    def as_json(self) -> dict[str, Any]:
        """The fields and the verdict."""
        return {**asdict(self), "measured": round(self.measured, 4), "met": self.met}


@dataclass(slots=True)
class Answer:
    """The answer to one question, as it is measured."""

    question: str
    title: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    # Peers that could not be measured here, and why; a target without its peer is listed here too.
    missing: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What the result file holds."""
        return {
            "question": self.question,
            "title": self.title,
            "machine": machine(),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            "command": " ".join(["python -m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]]),
            "columns": self.columns,
            "rows": self.rows,
            "targets": [target.as_json() for target in self.targets],
            "missing": self.missing,
        }


def machine() -> dict[str, Any]:
    """Processor, GPU, driver and versions."""
    info = {key: str(value) for key, value in info_here().items()}
    # Where it lies is the affair of the machine.
    info["toolkit"] = Path(info.get("toolkit", "")).name
    versions = {}
    for name in DISTRIBUTIONS + PEERS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name in DISTRIBUTIONS:
                versions[name] = "not installed"
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "qgraph": qgraph.__version__,
        "gpu": info.get("device", ""),
        "driver": info.get("driver", ""),
        "info": info,
        "versions": versions,
    }


def place(record: Mapping[str, Any]) -> str:
    """The GPU that a record is of, or the CPU and its cores."""
    machine = record["machine"]
    on_gpu = machine["gpu"] not in ("", "none") and not record["question"].startswith("cpu")
    return str(machine["gpu"]) if on_gpu else f"{machine['cpu']}, {machine['cores']} cores"


def info_here() -> Mapping[str, Any]:
    """``qgraph.info()`` as a mapping."""
    return dict(qgraph.info())


def has_gpu() -> bool:
    """Whether qgraph can run on a GPU here."""
    return "cuda" in info_here().get("backends", ())


def cpu_name() -> str:
    """The processor's own name, where the system tells it."""
    file = Path("/proc/cpuinfo")
    if file.exists():
        for line in file.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit that was measured, with ``+changes`` if files differ from it."""
    named = os.environ.get("QGRAPH_COMMIT")
    if named:
        return named
    home = Path(__file__).resolve().parent.parent
    try:
        # Results and pictures of earlier questions do not change what is measured.
        revision = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=home, capture_output=True, text=True, check=True)
        paths = ["--", "qgraph", "benchmarks/*.py", "benchmarks/*.cu"]
        changes = subprocess.run(["git", "status", "--porcelain", *paths], cwd=home, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return revision.stdout.strip() + ("+changes" if changes.stdout.strip() else "")


# --- printing -----------------------------------------------------------------------------------------------------------


def table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    """The rows under their columns, numbers to the right."""
    cells = [[text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[k]) for line in cells)) if cells else len(column) for k, column in enumerate(columns)]
    lines = ["  ".join(column.rjust(width) for column, width in zip(columns, widths, strict=True))]
    lines += ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(lines)


def text(value: Any) -> str:
    """A cell: a median, a number with three figures that matter, or what there is."""
    if isinstance(value, Mapping):
        value = value["median"]
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def report(answer: Answer) -> str:
    """The table of an answer, its targets, and what was missing."""
    lines = [f"== {answer.title}", table(answer.columns, answer.rows)]
    if answer.targets:
        rows = [
            {
                "target": target.name,
                "measured": f"{target.measured:.2f} {target.unit}".strip(),
                "wanted": f"{target.sense} {target.limit:g} {target.unit}".strip(),
                "": "met" if target.met else "MISSED",
            }
            for target in answer.targets
        ]
        lines += ["", table(("target", "measured", "wanted", ""), rows)]
    lines += ["", *(f"missing: {name}: {why}" for name, why in answer.missing.items())] if answer.missing else []
    return "\n".join(lines)


# --- running a question -------------------------------------------------------------------------------------------------


def main(measure: Callable[[bool], Answer], draw: Callable[[dict[str, Any], Path], None], *, needs_gpu: bool) -> int:
    """The command line of a question's file: measure, write ``<question>.json`` and ``.png``, print the table.

    Returns 0 when measured, 3 when a GPU is needed and there is none.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result files go")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats: to see that it works")
    options = parser.parse_args()
    if needs_gpu and not has_gpu():
        print(f"not measured: no GPU here ({info_here().get('reason') or 'no CUDA device'})")
        return 3
    write(measure(options.quick), draw, options.out)
    return 0


def write(answer: Answer, draw: Callable[[dict[str, Any], Path], None], out: Path) -> None:
    """The files of an answer into the folder ``out``, and its table on the terminal."""
    record = answer.as_json()
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{answer.question}.json").write_text(json.dumps(record, indent=1) + "\n")
    draw(record, out / f"{answer.question}.png")
    print(report(answer))
