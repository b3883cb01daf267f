"""Write figures into documents from the result files: ``python -m benchmarks.readme [--check]``.

docs/performance.md is all of them, README.md has six, docs/guide/slow_to_fast.md the table of its program.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.limits import reasons
from benchmarks.results import RESULTS, place, text
from benchmarks.run import QUESTIONS

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "performance.md"
GUIDE = ROOT / "docs" / "guide" / "slow_to_fast.md"
BEGIN = "<!-- figures: written by `python -m benchmarks.readme` from benchmarks/results/ -->"
END = "<!-- end of figures -->"
HEAD = """# Performance

Each table says which file it comes from and which command made it; `make bench` makes them, with their plots beside them, and
`python -m benchmarks.readme` writes this page. In the table of the do-while, `fuse=True` joins the K loops to one before it
runs them as one block ("joined"); "one block" has loops that cannot be joined, with a barrier between each two."""
# What README.md shows: the words, and the question and the target that measured it.
SIX = {
    "a call of 10 loops, against a CUDA graph launched from C": ("launch", "10 loops, a call, against raw C"),
    "ten launches by numba-cuda, against that call": ("launch", "10 loops, faster than numba-cuda launches"),
    "an iteration of 3 loops, against a conditional node in C": (
        "do_while",
        "3 loops, an iteration: qgraph against raw C, one kernel for both",
    ),
    "the same as one block, `fuse=True`": (
        "do_while",
        "3 loops, an iteration: qgraph, one block against raw C, one kernel for both",
    ),
    "ten loops joined, `fuse=True`, against one kernel by hand": (
        "fusion",
        "ten elementwise loops joined, against one by hand",
    ),
    "a first result with a warm cache, after NumPy and a context": ("startup", "first result, later than NumPy and a context"),
}


def main() -> int:
    """Rewrite them; with ``--check`` only say whether they are as the files are (status 1 if not)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wanted = {README: rewrite(README.read_text(), six(RESULTS)), PERFORMANCE: f"{HEAD}\n\n{figures(RESULTS)}\n"}
    wanted[GUIDE] = rewrite(GUIDE.read_text(), measured("slow_to_fast", RESULTS, "../../benchmarks/results"))
    old = [file for file, new in wanted.items() if not file.exists() or file.read_text() != new]
    if options.check:
        print(*(f"{file.name} differs from benchmarks/results/" for file in old), sep="\n", file=sys.stderr)
        return int(bool(old))
    for file in old:
        file.write_text(wanted[file])
    return 0


def rewrite(document: str, block: str) -> str:
    """``document`` with ``block`` between the two markers."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit("a document has lost its markers for the figures")
    return f"{head}{BEGIN}\n\n{block}\n\n{END}{tail}"


def six(folder: Path) -> str:
    """The table of README.md."""
    records = {question: json.loads((folder / f"{question}.json").read_text()) for question, _ in SIX.values()}
    rows = []
    for words, (question, name) in SIX.items():
        (found,) = (target for target in records[question]["targets"] if target["name"] == name)
        rows.append([words, f"{found['measured']:.3g} {found['unit']}", f"`python -m benchmarks.{question}`"])
    machines = sorted({record["machine"]["gpu"].partition(" (")[0] for record in records.values()})
    return markdown([f"on one {' and one '.join(machines)}", "", "measured by"], rows, [":---", "---:", ":---"])


def figures(folder: Path) -> str:
    """For each result file its machine, table, targets and what was missing."""
    return "\n\n".join(measured(question, folder, "../benchmarks/results") for question in QUESTIONS)


def measured(question: str, folder: Path, path: str) -> str:
    """The same of one question, for a document from which the result files are at ``path``."""
    files = [file for file in (folder / f"{question}.json", folder / f"{question}_cpu.json") if file.exists()]
    if not files:
        return f"*Not measured yet: `{question}` (`make bench` on a machine with a GPU).*"
    return "\n\n".join(section(json.loads(file.read_text()), f"{path}/{file.stem}") for file in files)


def section(record: dict[str, Any], path: str) -> str:
    """One question in Markdown."""
    machine = record["machine"]
    where = place(record)
    if where == machine["gpu"]:
        where += f", driver {machine['driver']}"
    file = path.replace("../", "")
    made = f"commit {record['commit']}, {record['date'][:10]}: `{record['command']}`."
    source = f"{where}. From [{file}.json]({path}.json), {made}"
    named, found = across(record) if {"peer", "size"} <= {*record["columns"]} else (record["columns"], record["rows"])
    columns = [column for column in named if any(row.get(column) is not None for row in found)]
    rows = [[text(row.get(column)) for column in columns] for row in found]
    parts = [f"**{record['title']}**", markdown(columns, rows)]
    if record["targets"]:
        parts.append(targets(record["question"], record["targets"]))
    if record["missing"]:
        whys = dict.fromkeys(record["missing"].values())
        names = {why: ", ".join(name for name, its in record["missing"].items() if its == why) for why in whys}
        parts.append("Missing: " + "; ".join(f"{names[why]} ({why})" for why in whys) + ".")
    if (RESULTS / f"{record['question']}_roofline.png").exists():
        parts.append(f"![{record['title']}: operations a second below the roof]({path}_roofline.png)")
    return "\n\n".join([*parts, source])


def across(record: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """The rows of one size side by side: a column a peer, with its time."""
    key = record["columns"][0]
    peers = list(dict.fromkeys(row["peer"] for row in record["rows"]))
    more = ("iterations", "MB", "Mflop", "share", "words", "first call, s", "new process, s")
    lines: dict[tuple[Any, Any], dict[str, Any]] = {}
    for row in record["rows"]:
        line = lines.setdefault((row[key], row["size"]), {key: row[key], "size": row["size"]})
        line[row["peer"]] = row["us"]
        if row["peer"] == "qgraph":
            line |= {column: row[column] for column in more if row.get(column) is not None}
    return [key, "size", *more, *peers], list(lines.values())


def targets(question: str, found: list[dict[str, Any]]) -> str:
    """Which targets hold, and each that does not with its number; and why, where that is known."""
    missed = [target for target in found if not target["met"]]
    words = f"Targets: {len(found) - len(missed)} of {len(found)} met."
    for target in missed:
        measured = f"{target['measured']:.2f} {target['unit']}"
        words += f"\n- missed: {target['name']}: {measured}, wanted {target['sense']} {target['limit']:g}"
    return words + "".join(f"\n- why: {why}" for why in reasons(question, [target["name"] for target in missed]))


def markdown(columns: list[str], rows: list[list[str]], aligned: list[str] | None = None) -> str:
    """A table, numbers to the right."""
    lines = [columns, aligned or ["---:"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
