"""Is this tree as fast as an older one? The same questions asked of both by turns, and the ratio of each of qgraph's figures.

``python -m benchmarks.before_after OLD_TREE [--rounds 7] [--only rules ...]``; OLD_TREE is a checkout of the older commit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.results import RESULTS, Answer, Target, has_gpu, write

HERE = Path(__file__).resolve().parent.parent
EXAMPLES = ("conjugate_gradient", "fdtd")
PEERS = ("--without", "Quadrants", "Warp", "CuPy")
# The command of each question; those with --quick write a result file, the other prints its rows.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "starts.cold": EXAMPLES,
    "rules": ("--quick",),
    "launch": ("--quick",),
    "do_while": ("--quick",),
    "programs": ("--quick", *PEERS),
}
COLUMNS = ("question", "figure", "before", "after", "ratio")
MOST = 1.03


def ask(question: str, tree: Path) -> dict[str, float]:
    """The figures of one run in ``tree``, by name; microseconds, or milliseconds of starts.

    Raises:
        CalledProcessError: the run failed; what it printed is on the terminal.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", f"benchmarks.{question}", *QUESTIONS[question]]
        if "--quick" in command:
            command += ["--out", out]
        done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(done.stdout)
            done.check_returncode()
        if "--quick" not in command:
            steps = ("plan", "compile and link")
            return {f"{row['kernel']}, {step}": row[step] for row in json.loads(done.stdout) for step in steps}
        record = json.loads((Path(out) / f"{question}.json").read_text())
    return dict(_figures(record["rows"]))


def _figures(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    for row in rows:
        timed = {column: value["median"] for column, value in row.items() if isinstance(value, dict)}
        name = ", ".join(str(row[column]) for column in ("rule", "program", "size", "loops") if column in row)
        if "peer" in row:
            yield f"{name}, {row['peer']}", timed["us"]
            continue
        for column, value in timed.items():
            if column == "with" or column.startswith("qgraph"):
                yield f"{name}: {column}", value


def compare(question: str, old: Path, rounds: int, answer: Answer) -> None:
    """Ask a question ``rounds`` times in each tree, by turns, the older one first in every other round."""
    found: dict[Path, list[dict[str, float]]] = {old: [], HERE: []}
    for turn in range(rounds):
        for tree in (old, HERE) if turn % 2 == 0 else (HERE, old):
            found[tree].append(ask(question, tree))
    ratios = []
    for name in found[HERE][0]:
        if name in found[old][0]:
            before, after = (statistics.median(run[name] for run in found[tree]) for tree in (old, HERE))
            ratios.append(after / before)
            row = {"question": question, "figure": name, "before": round(before, 3), "after": round(after, 3)}
            answer.rows.append({**row, "ratio": round(ratios[-1], 4)})
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    answer.targets.append(Target(f"{question}: geometric mean of {len(ratios)} ratios", mean, "<=", MOST))


def draw(record: dict[str, Any], file: Path) -> None:
    """The ratio of every figure, sorted, a colour a question."""
    drawn, axes = plots.figure("Time after over time before", record)
    for question in dict.fromkeys(row["question"] for row in record["rows"]):
        ratios = sorted(row["ratio"] for row in record["rows"] if row["question"] == question)
        places = [(k + 0.5) / len(ratios) for k in range(len(ratios))]
        axes.plot(places, ratios, marker="o", markersize=4, linewidth=1, label=question)
    axes.axhline(1.0, color=plots.INK, linewidth=0.8)
    axes.axhline(MOST, color=plots.INK, linewidth=0.8, linestyle="--")
    axes.set_xlabel("figures of a question, from the best to the worst")
    axes.legend(frameon=False)
    drawn.savefig(file)


def main() -> int:
    """The command line; returns 3 where there is no GPU."""
    parser = argparse.ArgumentParser()
    parser.add_argument("old", type=Path, help="a checkout of the older commit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS), metavar="QUESTION")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result files go")
    options = parser.parse_args()
    if not has_gpu():
        print("not measured: no GPU here")
        return 3
    answer = Answer("before_after", f"Before and after, medians of {options.rounds} runs by turns", COLUMNS)
    for question in options.only:
        compare(question, options.old.resolve(), options.rounds, answer)
        # Whoever stops this keeps what was asked already.
        write(answer, draw, options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
