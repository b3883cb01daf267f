"""Kernels in copies of a counted loop look late whether they are behind its end: when they store, not before they load.

What such a kernel must know first lies in memory, and a thread that waits for it before it loads anything waits twice. Loads do
no harm behind the end of a loop if nothing that was loaded says where or whether: their places are then those of the copies
before. Here this is read from the PTX, and what is not understood stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# Grids of more blocks look early: where they have nothing to do, their loads would take long.
LARGE = 8192

_PEEKED = re.compile(r"mov\.u32 (?P<seen>%r\d+), -1; .*// language\.peek$")
_KNOWN = re.compile(r"setp\.gt\.s32\s+(?P<known>%p\d+), (?P<seen>%r\d+), -1;")
_SKIP = re.compile(r"@(?P<known>%p\d+) bra\s+(?P<label>\$\w+);")
_LOAD = re.compile(r"ld\.global\.u32\s+(?P<seen>%r\d+), \[%rd\d+\];")
_OVER = re.compile(r"setp\.le\.s32\s+(?P<over>%p\d+), (?P<seen>%r\d+), %r\d+;")
_INSTRUCTION = re.compile(r"(?:@!?(?P<guard>%p\d+)\s+)?(?P<name>[a-z]\w*(?:\.\w+)*)(?:\s+(?P<operands>.*))?;")
_LABEL = re.compile(r"\$\w+:")
_REGISTER = re.compile(r"%\w+")
# Instructions that do nothing but compute their first operand.
_PURE = frozenset(
    [
        "abs",
        "add",
        "and",
        "brev",
        "cnot",
        "copysign",
        "cos",
        "cvt",
        "cvta",
        "div",
        "ex2",
        "fma",
        "lg2",
        "mad",
        "max",
        "min",
        "mov",
        "mul",
        "mul24",
        "neg",
        "not",
        "or",
        "popc",
        "prmt",
        "rcp",
        "rem",
        "rsqrt",
        "selp",
        "set",
        "setp",
        "shf",
        "shl",
        "shr",
        "sin",
        "slct",
        "sqrt",
        "sub",
        "tanh",
        "testp",
        "xor",
    ]
)


def with_late_guard(ptx: str) -> str:
    """The same kernel, which looks when it stores; unchanged if it has no such guard, or if a load could go wrong."""
    lines = ptx.split("\n")
    found = _guard_in(lines)
    if found is None or not _loads_are_safe(lines[found.behind :], found.over):
        return ptx
    stored = re.compile(r"^(\s*)(st\.global)", re.M)
    end = next(number for number in range(found.behind, len(lines)) if lines[number] == "}")
    body = [stored.sub(rf"\1@!{found.over} \2", line) for line in lines[found.behind : end]]
    return "\n".join([*lines[: found.first], *_late(lines, found), *body, *lines[end:]])


@dataclass(frozen=True, slots=True)
class _Guard:
    """Where a guard stands.

    Attributes:
        first: the branch past the load, for who has seen already whether the loop is over.
        label: the line of that branch's target, behind the load.
        behind: the line behind the branch that leaves the kernel.
        known: the predicate of the first branch.
        over: that of the last one.
    """

    first: int
    label: int
    behind: int
    known: str
    over: str


def _guard_in(lines: Sequence[str]) -> _Guard | None:
    """The guard as ``language.is_over`` becomes it, and nothing else."""
    peeked = next((number for number, line in enumerate(lines) if _PEEKED.search(line)), None)
    if peeked is None:
        return None
    match = _PEEKED.search(lines[peeked])
    assert match is not None
    seen = match["seen"]
    known = next((each for line in lines[peeked:] if (each := _KNOWN.search(line)) and each["seen"] == seen), None)
    if known is None:
        return None
    first = _find(lines, peeked, lambda line: (each := _SKIP.search(line)) is not None and each["known"] == known["known"])
    if first is None:
        return None
    skip = _SKIP.search(lines[first])
    assert skip is not None
    label = _find(lines, first, lambda line: line.strip() == f"{skip['label']}:")
    if label is None:
        return None
    loads = [each for line in lines[first:label] if (each := _LOAD.search(line)) is not None]
    plain = all(_is_plain(line) for line in lines[first + 1 : label])
    over = _OVER.search(lines[label + 1])
    if not plain or [each["seen"] for each in loads] != [seen] or over is None or over["seen"] != seen:
        return None
    leave = _SKIP.search(lines[label + 2])
    if leave is None or leave["known"] != over["over"] or not _leaves(lines, leave["label"]):
        return None
    return _Guard(first, label, label + 3, known["known"], over["over"])


def _find(lines: Sequence[str], start: int, holds: Callable[[str], bool]) -> int | None:
    return next((number for number in range(start, len(lines)) if holds(lines[number])), None)


def _is_plain(line: str) -> bool:
    """A line on the way to the guard's load: what computes its address, and itself."""
    match = _INSTRUCTION.fullmatch(line.strip())
    return not line.strip() or (match is not None and (match["name"].split(".")[0] in _PURE or _LOAD.search(line) is not None))


def _leaves(lines: Sequence[str], label: str) -> bool:
    """Whether the kernel ends at a label."""
    place = _find(lines, 0, lambda line: line.strip() == f"{label}:")
    return place is not None and next((line.strip() for line in lines[place + 1 :] if line.strip()), "") == "ret;"


def _late(lines: Sequence[str], guard: _Guard) -> list[str]:
    """The guard, which leaves the kernel early only where it is known early, or on a large grid."""
    over, leave = lines[guard.label + 1], lines[guard.label + 2]
    return [
        "\t.reg .pred %guard_large;",
        "\t.reg .b32 %guard_blocks, %guard_more;",
        f"\t@{guard.known} bra $L_guard_seen;",
        *lines[guard.first + 1 : guard.label],
        over,
        "\tmov.u32 %guard_blocks, %nctaid.x;",
        "\tmov.u32 %guard_more, %nctaid.y;",
        "\tmul.lo.u32 %guard_blocks, %guard_blocks, %guard_more;",
        f"\tsetp.gt.u32 %guard_large, %guard_blocks, {LARGE};",
        "\t@!%guard_large bra $L_guard_late;",
        "\tbra.uni $L_guard_known;",
        "$L_guard_seen:",
        over,
        "$L_guard_known:",
        leave,
        "$L_guard_late:",
    ]


def _loads_are_safe(lines: Sequence[str], over: str) -> bool:
    """Whether nothing that was loaded says where to load, or which way to take, and stores are all that is done."""
    instructions = list(_instructions(lines))
    if any(each is None for each in instructions):
        return False
    loaded: set[str] = set()
    while True:
        before = len(loaded)
        for each in instructions:
            assert each is not None
            if over in (*each.written, *each.read):
                return False
            kind, tainted = each.name.split(".")[0], not loaded.isdisjoint(each.read)
            if kind == "bra" and tainted:
                return False
            if kind == "ld" and ".param" not in each.name:
                if tainted:
                    return False
                loaded.update(each.written)
            elif tainted:
                loaded.update(each.written)
        if len(loaded) == before:
            return True


@dataclass(frozen=True, slots=True)
class _Instruction:
    name: str
    written: tuple[str, ...]
    read: tuple[str, ...]


def _instructions(lines: Sequence[str]) -> Iterator[_Instruction | None]:
    """The instructions of a kernel up to its end; None for one that may do more than compute, load, store and branch."""
    for line in lines:
        text = line.strip()
        if text == "}":
            return
        if not text or text.startswith("//") or _LABEL.fullmatch(text):
            continue
        match = _INSTRUCTION.fullmatch(text)
        yield None if match is None else _read(match)


def _read(match: re.Match[str]) -> _Instruction | None:
    name, operands, guard = match["name"], match["operands"] or "", match["guard"]
    kind, _, how = name.partition(".")
    guards = () if guard is None else (guard,)
    if kind in ("bra", "ret"):
        return _Instruction(name, (), guards)
    if kind == "st":
        # It gets a guard of its own.
        safe = how.startswith("global") and guard is None and not re.search("volatile|relaxed|release", how)
        return _Instruction(name, (), ()) if safe else None
    if kind == "ld":
        if not how.startswith(("global", "param")) or re.search("volatile|relaxed|acquire", how):
            return None
    elif kind not in _PURE:
        return None
    target = operands[: operands.index("}") + 1] if operands.startswith("{") else operands.partition(",")[0]
    written = tuple(_REGISTER.findall(target))
    # What a guarded instruction leaves as it was may be loaded, too.
    kept = written if guard is not None else ()
    return _Instruction(name, written, (*guards, *kept, *_REGISTER.findall(operands[len(target) :])))
