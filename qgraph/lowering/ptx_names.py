"""The names in a PTX text: only its entry is known outside, and the rest belong to the text alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

_DEFINITION = re.compile(r"^[ \t]*(?P<before>(?:\.\w+[ \t]+|\([^()]*\)[ \t]*|\d+[ \t]+)+)(?P<name>[A-Za-z_$][\w$]*)", re.M)
_REGISTER = re.compile(r"%\w+")
# What `red` can do of what `atom` can.
_ATOMIC = re.compile(
    r"\batom(?P<how>(?:\.global|\.shared)?\.(?:add|min|max|and|or|xor)\.(?:u32|s32|u64|s64|b32|b64|f32|f64))"
    r"\s+(?P<old>%\w+),\s*(?P<rest>[^;]+;)"
)
_WORD = re.compile(r"[A-Za-z_$][\w$]*")


def canonical(ptx: str, kernel: str, entry: str) -> str:
    """Rename what a PTX text defines: the kernel to ``entry``, the rest to names that only this text has.

    Numba numbers its functions by a counter of the process; without this, two processes would not agree on a text, and two
    texts with the same device function would not link.
    """
    names = {kernel: entry}
    for name in _defined(ptx):
        names.setdefault(name, f"{entry}__{len(names)}")

    def rename(match: re.Match[str]) -> str:
        word = match.group()
        if word in names:
            return names[word]
        stem, separator, rest = word.rpartition("_param_")
        return f"{names[stem]}{separator}{rest}" if stem in names else word

    body = "\n".join(line for line in ptx.splitlines() if not line.startswith("//"))
    return _WORD.sub(rename, body).replace(".weak .func", ".func").replace(".visible .func", ".func") + "\n"


def without_results(ptx: str) -> str:
    """``atom`` whose old value nobody reads becomes ``red``: the device then answers nothing, and the thread awaits nothing."""

    def shorter(match: re.Match[str]) -> str:
        # Virtual registers are assigned once, so a second place is a use.
        unread = read[match["old"]] == 1
        return f"red{match['how']} {match['rest']}" if unread else match.group()

    read = Counter(_REGISTER.findall(ptx))
    return _ATOMIC.sub(shorter, ptx)


def _defined(ptx: str) -> Iterator[str]:
    for match in _DEFINITION.finditer(ptx):
        before = match["before"].split()
        places = {".func", ".entry", ".global", ".const", ".shared"}
        if ".extern" not in before and places & set(before):
            yield match["name"]
