"""Rewriting PTX: names (only the entry's is external), parameters, and instructions that ptxas can do without or gets wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from qgraph.ir.blocks import SHARED_ALIGNMENT, STATIC_SHARED, shared_place
from qgraph.operations.intrinsics import UNFUSED

_DEFINITION = re.compile(r"^[ \t]*(?P<before>(?:\.\w+[ \t]+|\([^()]*\)[ \t]*|\d+[ \t]+)+)(?P<name>[A-Za-z_$][\w$]*)", re.M)
_REGISTER = re.compile(r"%\w+")
# What `red` can do of what `atom` can.
_ATOMIC = re.compile(
    r"\batom(?P<how>(?:\.global|\.shared)?\.(?:add|min|max|and|or|xor)\.(?:u32|s32|u64|s64|b32|b64|f32|f64))"
    r"\s+(?P<old>%\w+),\s*(?P<rest>[^;]+;)"
)
_NEGATION = re.compile(r"\bneg\.s(?P<bits>16|32)\s+(?P<to>%\w+),\s*(?P<of>%\w+);")
_PRODUCT = re.compile(r"\bmul\.(?=(ftz\.)?f(32|64)\b)")
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


def without_fused_negations(ptx: str) -> str:
    """``-x`` of 16 and 32 bits becomes ``~x + 1``, which ptxas cannot fold into the instruction that uses it.

    From sm_90 on, ptxas of CUDA 12.9 to 13.3 (13.5 does not) makes one ``VIMNMX3`` of ``max(max(x, -y), z)``, also of minima,
    and forgets the sign of ``y``: that instruction has no negated operands.
    """
    return _NEGATION.sub(r"not.b\g<bits> \g<to>, \g<of>;\n\tadd.s\g<bits> \g<to>, \g<to>, 1;", ptx)


def with_unfused(ptx: str) -> str:
    """Products are rounded, and ptxas makes no ``fma`` of them, where ``UNFUSED`` is in a text: NVVM has made those it may."""
    return _PRODUCT.sub("mul.rn.", ptx) if UNFUSED in ptx else ptx


_SHARED = re.compile(
    r"^[ \t]*(?:\.\w+[ \t]+)*\.shared[ \t]+\.align[ \t]+\d+[ \t]+\.b8[ \t]+(?P<name>[\w$]+)\[(?P<size>\d+)\];\n", re.M
)


def with_shared_by_launch(ptx: str) -> str:
    """Shared arrays that are more than a kernel has for the asking become parts of the one that its launch asks for.

    NVVM shall know them as several: it then knows that no two share memory.
    """
    places: dict[str, int] = {}
    end = 0
    for match in _SHARED.finditer(ptx):
        places[match["name"]] = shared_place(end)
        end = places[match["name"]] + int(match["size"])
    if end <= STATIC_SHARED:
        return ptx
    all_of_them = f".extern .shared .align {SHARED_ALIGNMENT} .b8 _all_shared[];\n"

    def place(match: re.Match[str]) -> str:
        return f"_all_shared+{places[match['name']] + int(match['more'] or 0)}"

    ptx = _SHARED.sub(lambda match: all_of_them if places[match["name"]] == 0 else "", ptx)
    return re.sub(rf"\b(?P<name>{'|'.join(map(re.escape, places))})(?![\w$])(?:\+(?P<more>\d+))?", place, ptx)


_HEADER = re.compile(r"(?P<before>\.entry\s+[\w$]+\s*\()(?P<parameters>[^)]*)\)")
_PARAMETER = re.compile(r"[\w$]+_param_(?P<number>\d+)")


def without_unread_parameters(ptx: str) -> str:
    """The kernel without the parameters that it does not read; the others keep their numbers.

    Most parts of an array are never read, and parameters come through a cache by lines, one miss after the other.
    """
    header = _HEADER.search(ptx)
    assert header is not None
    read = {match.group() for match in _PARAMETER.finditer(ptx, header.end())}
    declared = header["parameters"].split(",") if header["parameters"].strip() else []
    kept = [each.strip() for each in declared if any(match.group() in read for match in _PARAMETER.finditer(each))]
    listed = ",\n\t".join(kept)
    return f"{ptx[: header.start()]}{header['before']}\n\t{listed}\n){ptx[header.end() :]}"


def parameters_kept(ptx: str) -> tuple[int, ...]:
    """The numbers of the parameters that the kernel of a text has, in order."""
    header = _HEADER.search(ptx)
    assert header is not None
    return tuple(int(match["number"]) for match in _PARAMETER.finditer(header["parameters"]))


def _defined(ptx: str) -> Iterator[str]:
    for match in _DEFINITION.finditer(ptx):
        before = match["before"].split()
        places = {".func", ".entry", ".global", ".const", ".shared"}
        if ".extern" not in before and places & set(before):
            yield match["name"]
