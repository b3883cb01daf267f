"""The pages of errors: each message of tests/diagnostics with the lines that cause it and its cure, by class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from qgraph.runtime.driver import driver
from tests.diagnostics.test_messages import CASES, GOLDENS
from tests.documents.pages import DOCS

FOLDER = DOCS / "errors"
# The page of each class, and what it is about; all other classes share one.
PAGES = {
    "KernelSyntaxError": "The kernel says something that the language does not have. It is raised when a kernel is decorated, "
    "or at its first call with arguments of some types; nothing has run.",
    "KernelTypeError": "Values have types that cannot be compiled, or that would give another answer than Python's. It is "
    "raised at the first call with arguments of some types; nothing has run.",
    "ArgumentError": "A call passed something that does not fit. The kernel works with other arguments.",
    "DataRaceError": "Iterations of a parallel loop touch one element, and one of them writes it: surely, for the values of "
    "this call. Nothing has run. `kernel.check(...)` raises it, too, for what it found in a run on copies. "
    "[When is a loop parallel?](../language.md#when-is-a-loop-parallel)",
}
OTHERS = "others"
WORDS = {
    "BackendError": "The backend that was asked for is unknown, or cannot run here.",
    "BoundsError": "An index left its array: with `bounds_check=True`, or in `kernel.check(...)`.",
    "UnwrittenError": "A kernel reads memory of its own that nobody has written; `kernel.check(...)` finds it.",
    "LinAlgError": "A matrix is singular, or not positive definite, as a device found. It is NumPy's `LinAlgError`, too.",
    "QGraphError": "The class of all of them; by itself where no other one fits.",
}
RAISED = "What a kernel raises itself is of Python's class and a `QGraphError`, with the line and the iteration."
DRIVER = (
    "The driver reported a failure: the message has its function and code. Other codes have no cure that is always the same."
)
HEAD = "<!-- written by `python -m tests.documents` from tests/diagnostics -->\n"


def pages() -> dict[Path, str]:
    """Each page and its text."""
    found = {FOLDER / f"{_snake(name)}.md": page(name) for name in PAGES}
    others = dict.fromkeys([*WORDS, *(case.error.__name__ for case in CASES.values())])
    parts = [HEAD, "# Other errors\n", "[How to read a message](index.md#how-to-read-a-message)\n"]
    for name in others:
        if name not in PAGES:
            parts += [f"## {name}\n", f"{WORDS.get(name, RAISED)}\n", *(entry(*each) for each in kinds(name))]
    parts += ["## CudaError\n", f"{DRIVER}\n", "| codes | cure |\n| --- | --- |"]
    for cure in dict.fromkeys(driver._HINTS.values()):
        codes = [f"`{driver.driver.CUresult(code).name}`" for code, its in driver._HINTS.items() if its == cure]
        parts.append(f"| {', '.join(codes)} | {markdown(cure)} |")
    return {**found, FOLDER / f"{OTHERS}.md": "\n".join([*parts, ""])}


def page(name: str) -> str:
    """The page of a class: its messages by the first word that is no quotation."""
    parts = [HEAD, f"# {name}\n", f"{PAGES[name]} [How to read a message](index.md#how-to-read-a-message)\n"]
    letter = ""
    for kind, cases in kinds(name):
        now = _first_word(kind)[0].upper()
        parts += [f"## {now}\n"] if now != letter else []
        parts.append(entry(kind, cases))
        letter = now
    return "\n".join(parts)


def kinds(name: str) -> list[tuple[str, list[str]]]:
    """The messages of a class that differ in what they quote, and their cases, in the order of their words."""
    found: dict[str, tuple[str, list[str]]] = {}
    for case, made in CASES.items():
        if made.error.__name__ == name:
            said = re.sub(r" *\(for example .*", "", (GOLDENS / f"{case}.txt").read_text().partition("\n")[0])
            kind = re.sub(r"`[^`]*`", "`...`", said)
            found.setdefault(re.sub(r"\d+", "0", kind), (kind, []))[1].append(case)
    return sorted(found.values(), key=lambda each: _first_word(each[0]).lower())


def _first_word(kind: str) -> str:
    words = re.findall(r"[A-Za-z]\w*", re.sub(r"`[^`]*`", "", kind)) or ["-"]
    return " ".join(words[1:] if words[0] in ("a", "an", "the") else words)


def entry(kind: str, cases: list[str]) -> str:
    """One kind of message: its cases, each with what was found, the lines that it shows, and the way out."""
    return "\n".join([f"### {markdown(kind)}\n", *(_case(case, kind) for case in cases)])


def _case(case: str, kind: str) -> str:
    message = (GOLDENS / f"{case}.txt").read_text().rstrip("\n")
    body, _, cure = message.partition("\nhelp: ")
    found, *rest = body.split("\n")
    parts = [f"{markdown(found)}\n"] if found != kind else []
    for words, lines in _places(rest):
        parts += [f"{markdown(words)}:\n"] if words else []
        parts += [f"```text\n{lines}\n```\n"] if lines else []
    return "\n".join([*parts, *([f"**Cure:** {markdown(cure)}\n"] if cure else [])])


def _places(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The words before each excerpt of source, and its code and carets."""
    words: list[str] = []
    code: list[str] = []
    for line in [*lines, "end"]:
        shown = re.match(r" *N? \|( ?)(.*)$", line)
        if shown:
            code.append(shown[2])
        elif not line.startswith("  --> "):
            if code or line == "end":
                yield " ".join(words).rstrip(":"), inspect.cleandoc("\n" + "\n".join(code)).rstrip() if any(code) else ""
                words, code = [], []
            words.append(line)


def markdown(text: str) -> str:
    """``text`` with code between backticks as it is, and nothing else that Markdown would read."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>{}|#])", r"\\\1", part) for part in parts)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
