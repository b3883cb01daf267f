"""Write the figures of README.md from the result files: ``python -m benchmarks.readme [--check]``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.limits import reasons
from benchmarks.results import RESULTS, text
from benchmarks.run import QUESTIONS

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN = "<!-- figures: written by `python -m benchmarks.readme` from benchmarks/results/ -->"
END = "<!-- end of figures -->"


def main() -> int:
    """Rewrite the block; with ``--check`` only say whether it is as the files are (status 1 if not)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    before = README.read_text()
    after = rewrite(before, figures(RESULTS))
    if options.check:
        print("README.md is up to date" if before == after else "README.md differs from benchmarks/results/", file=sys.stderr)
        return int(before != after)
    README.write_text(after)
    return 0


def rewrite(readme: str, block: str) -> str:
    """``readme`` with ``block`` between the two markers."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit("README.md has lost its markers for the figures")
    return f"{head}{BEGIN}\n\n{block}\n\n{END}{tail}"


def figures(folder: Path) -> str:
    """The block: for each result file its machine, table, targets and what was missing."""
    parts = []
    for question in QUESTIONS:
        file = folder / f"{question}.json"
        if file.exists():
            parts.append(section(json.loads(file.read_text()), f"benchmarks/results/{question}"))
        else:
            parts.append(f"*Not measured yet: `{question}` (`make bench` on a machine with a GPU).*")
    return "\n\n".join(parts)


def section(record: dict[str, Any], place: str) -> str:
    """One question in Markdown."""
    machine = record["machine"]
    on_cpu = record["question"] == "cpu" or not machine["gpu"]
    where = f"{machine['cpu']}, {machine['cores']} cores" if on_cpu else f"{machine['gpu']}, driver {machine['driver']}"
    source = (
        f"{where}. From [{place}.json]({place}.json), commit {record['commit']}, {record['date'][:10]}: `{record['command']}`."
    )
    named, found = across(record) if "peer" in record["columns"] else (record["columns"], record["rows"])
    columns = [column for column in named if any(row.get(column) is not None for row in found)]
    rows = [[text(row.get(column)) for column in columns] for row in found]
    parts = [f"**{record['title']}**", markdown(columns, rows)]
    if record["targets"]:
        parts.append(targets(record["question"], record["targets"]))
    if record["missing"]:
        parts.append("Missing: " + "; ".join(f"{name} ({why})" for name, why in record["missing"].items()) + ".")
    return "\n\n".join([*parts, source])


def across(record: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """The rows of one size side by side: a column a peer, with its time."""
    key = record["columns"][0]
    peers = list(dict.fromkeys(row["peer"] for row in record["rows"]))
    more = ("iterations", "MB")
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


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    """A table, numbers to the right."""
    lines = [columns, ["---:"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
