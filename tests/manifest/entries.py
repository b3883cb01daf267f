"""The entries of the manifest: of each specialisation a name and hashes; how they are kept in a file, and compared."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# The texts of a specialisation, in this order. Not all have the last two.
COLUMNS = ("plan", "cpu", "cuda", "llvm", "ptx")
MEANS = {
    "plan": "the plan",
    "cpu": "cpu: the generated source",
    "cuda": "cuda: the generated source",
    "llvm": "cpu: LLVM's text",
    "ptx": "cuda: PTX",
}


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One specialisation: ``file`` and ``kernel`` say where its function is, ``types`` is a hash of its types and options.

    ``hashes`` are of ``COLUMNS``, empty where there is none. ``loops`` are hashes of each kernel's source for cuda, in order.
    Functions that are made in a test may have one name and types: then there are several entries of one ``key``.
    """

    file: str
    kernel: str
    types: str
    hashes: tuple[str, ...]
    loops: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it."""
        return self.file, self.kernel, self.types


def written(entries: Iterable[Entry], versions: str) -> str:
    """The manifest as a text."""
    lines = [f"# {versions}", f"# kernel types {' '.join(COLUMNS)} loops"]
    file = ""
    for entry in sorted(set(entries)):
        if entry.file != file:
            file = entry.file
            lines.append(file)
        lines.append(" ".join(["", entry.kernel, entry.types, *(each or "-" for each in entry.hashes), entry.loops or "-"]))
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[list[Entry], str]:
    """The entries in a text, and the versions of what made them."""
    versions, *lines = text.splitlines()
    entries = []
    file = ""
    for line in lines:
        if line.startswith(" "):
            kernel, types, *hashes, loops = line.split()
            entries.append(Entry(file, kernel, types, tuple(each.strip("-") for each in hashes), loops.strip("-")))
        elif not line.startswith("#"):
            file = line
    return entries, versions.removeprefix("# ")


def differences(old: Iterable[Entry], new: Iterable[Entry], titles: dict[Entry, list[str]]) -> Iterator[str]:
    """A line for each entry that is changed, new or gone; ``titles`` are the names of the kernels that the new ones have."""
    before, after = set(old), set(new)
    gone, added = _by_key(before - after), _by_key(after - before)
    moved = {(entry.hashes, entry.loops): entry for entry in sorted(before - after) if entry.key not in added}
    for key in sorted(gone.keys() | added.keys()):
        left, right = gone.get(key, []), added.get(key, [])
        for entry, other in zip(left, right, strict=False):
            yield f"changed  {_name(other)}: {', '.join(_changes(entry, other, titles.get(other, [])))}"
        for entry in left[len(right) :]:
            yield f"gone     {_name(entry)}"
        for entry in right[len(left) :]:
            place = moved.get((entry.hashes, entry.loops))
            yield f"new      {_name(entry)}{f', as was {_name(place)}' if place is not None else ''}"


def _by_key(entries: Iterable[Entry]) -> dict[tuple[str, str, str], list[Entry]]:
    found: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
    for entry in sorted(entries):
        found[entry.key].append(entry)
    return found


def _name(entry: Entry) -> str:
    return f"{entry.file}::{entry.kernel} [{entry.types}]"


def _changes(old: Entry, new: Entry, titles: list[str]) -> Iterator[str]:
    for column, was, now in zip(COLUMNS, old.hashes, new.hashes, strict=True):
        if was != now:
            loops = _loops(old.loops, new.loops, titles) if column == "cuda" else ""
            yield f"{MEANS[column]}{loops}"


def _loops(old: str, new: str, titles: list[str]) -> str:
    """Which kernels differ; nothing where there are others altogether."""
    was, now = (re.findall("....", each) for each in (old, new))
    if len(was) != len(now):
        return f" ({len(was)} kernels before, {len(now)} now)"
    names = [title for title, one, other in zip(titles, was, now, strict=False) if one != other]
    return f" ({', '.join(names)})" if names else ""
