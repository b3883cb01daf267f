"""Whether what qgraph makes is what it was: ``python -m tests.manifest [--update] [--only PATTERN] [--dump FOLDER]``.

``manifest.txt`` has a line for each specialisation that tests/features and the examples make, with hashes of its plan, of the
source that is generated for the CPU and for CUDA, and, of some, of LLVM's text and PTX (``lowered.py`` says of which). It needs
no GPU. The command makes them anew and prints the entries that are new, gone or changed; it exits with 1 if there are any.

A refactoring leaves them all as they are, or its commit says which changed and why, and has the file from ``--update``. To see
what changed, run with ``--dump`` and ``--only`` on both checkouts, and compare the folders with ``diff -r``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.manifest.entries import Entry, differences, read, written

ROOT = Path(__file__).parent.parent.parent
MANIFEST = Path(__file__).parent / "manifest.txt"
TESTS = ("tests/features", "tests/examples")
# What decides LLVM's text, PTX, and how Python writes source.
MADE_WITH = ("numba", "llvmlite", "numba-cuda", "nvidia-cuda-nvcc", "nvidia-nvvm", "numpy")


def main(arguments: list[str]) -> int:
    """The exit status: 0 where nothing differs, 1 where something does, 2 where the tests could not be run."""
    parser = argparse.ArgumentParser(prog="python -m tests.manifest", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="write the file anew")
    parser.add_argument("--only", metavar="PATTERN", default="", help="run only test files whose name has this in it")
    parser.add_argument("--dump", metavar="FOLDER", type=Path, help="write the texts that are hashed, a file for each")
    parser.add_argument("--jobs", default="2", help="processes (2)")
    options = parser.parse_args(arguments)
    files = [file for file in test_files() if options.only in file]
    if not files:
        parser.error(f"no test file has {options.only!r} in its name")
    found = collect(files, options.jobs)
    if found is None:
        return 2
    if options.dump is not None:
        dump(found, options.dump)
    new = {_entry(record): record["titles"] for record in found}
    ran = files if options.only else None
    if options.update:
        entries = [*new, *(() if ran is None else set(read(MANIFEST.read_text())[0]).difference(comparable(new, ran)))]
        MANIFEST.write_text(written(entries, versions()))
        print(f"{len(set(entries))} entries")
        return 0
    return report(new, ran)


def report(new: dict[Entry, list[str]], files: list[str] | None) -> int:
    """Print how ``new`` differs from the file, of which ``files`` were run, or all. The exit status."""
    made_with = read(MANIFEST.read_text())[1]
    lines = list(differences(comparable(new, files), new, new))
    print(*lines, sep="\n", end="\n" if lines else "")
    print(f"{len(new)} entries, {len(lines)} differ")
    if lines and made_with != versions():
        print(f"the file was made with {made_with}; this is {versions()}")
    if lines:
        print("to see how: --only PATTERN --dump FOLDER here and on a checkout from before, then diff -r the two folders")
    return 1 if lines else 0


def comparable(new: dict[Entry, list[str]], files: list[str] | None) -> list[Entry]:
    """The entries of the file that the tests in ``files``, or all, should have made."""
    old = read(MANIFEST.read_text())[0]
    made = {entry.key for entry in new}
    return [entry for entry in old if files is None or entry.file in files or entry.key in made]


def test_files() -> list[str]:
    """The test files that are run, as paths from the root."""
    return sorted(path.relative_to(ROOT).as_posix() for folder in TESTS for path in (ROOT / folder).glob("test_*.py"))


def collect(files: list[str], jobs: str) -> list[dict[str, Any]] | None:
    """What the tests in ``files`` specialise, as records of ``lowered.Lowered``; None where pytest could not run them."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": "", "NUMBA_OPT": "0"}
    # Numba allocates variables in the order of a set.
    environment["PYTHONHASHSEED"] = "0"
    environment.pop("QGRAPH_BACKEND", None)
    with tempfile.TemporaryDirectory() as folder:
        options = ["-q", "-p", "tests.manifest.recording", "--manifest", folder, "-p", "no:cacheprovider", "--tb=no", "-r", "E"]
        # Plain Python may take longer than a test is given; and a process that is ended for that writes nothing.
        options += ["--timeout", "0"]
        spread = ["-n", jobs] if jobs != "0" else []
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *spread, *files],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        # Tests may fail: they ask what a launch did, and nothing is launched. A process that crashed has written nothing.
        if done.returncode > 1 or " error" in done.stdout.splitlines()[-1] or "node down" in done.stdout:
            print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
            return None
        print(done.stdout.splitlines()[-1], "(what fails asks for a launch)")
        lines = [line for path in sorted(Path(folder).glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def dump(found: list[dict[str, Any]], folder: Path) -> None:
    """Write the texts of every entry to files that another checkout names alike."""
    counts: dict[tuple[str, str, str], int] = {}
    for entry, record in sorted({_entry(record): record for record in found}.items()):
        counts[entry.key] = number = counts.get(entry.key, 0) + 1
        place = folder / entry.file / f"{entry.kernel}-{entry.types}{f'-{number}' if number > 1 else ''}"
        place.mkdir(parents=True, exist_ok=True)
        for name, text in {"types": record["types"], **record["texts"]}.items():
            (place / name).write_text(text.rstrip() + "\n")


def versions() -> str:
    """The versions of what the texts depend on besides qgraph."""
    found = [f"python {platform.python_version()}"]
    for name in MADE_WITH:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _entry(record: dict[str, Any]) -> Entry:
    fields = record["entry"]
    return Entry(fields["file"], fields["kernel"], fields["types"], tuple(fields["hashes"]), fields["loops"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
