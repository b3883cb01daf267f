"""The documents as pages: their fenced blocks, headings and links."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Whose programs a block may hold: its title begins with one of these, and it is shown, not run.
PEERS = ("Numba", "Taichi", "Quadrants", "Warp", "CuPy", "CUDA")

_FENCE = re.compile(r"^( *)(`{3,})(\w*)(?: +title=\"([^\"]*)\")?[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.*?)(?: +\{ *#([\w-]+) *\})? *$", re.MULTILINE)
_NAMED = re.compile(r"\{ *#([\w-]+) *\}|<\w+ id=\"([\w-]+)\"")
_LINK = re.compile(r"(!?)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)|<(?:img|a)\b[^>]*\b(?:src|href)=\"([^\"]+)\"")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, title, text, and the line where the text begins."""

    language: str
    title: str
    text: str
    line: int
    end: int  # where it ends in the page

    @property
    def is_peers(self) -> bool:
        """Whether it is a program of another system."""
        return self.title.startswith(PEERS)


def documents() -> list[Path]:
    """All documents of the repository."""
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page, in order, without their indentation."""
    found = []
    for match in _FENCE.finditer(page):
        indent, _, language, title, text = match.groups()
        lines = [line.removeprefix(indent) for line in text.splitlines(keepends=True)]
        found.append(Block(language, title or "", "".join(lines), page[: match.start(5)].count("\n") + 1, match.end()))
    return found


def prose(page: str) -> str:
    """The page without fenced blocks and code between backticks."""
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", _FENCE.sub("", page), flags=re.DOTALL)


def links(page: str) -> Iterator[str]:
    """Where links and pictures lead."""
    for match in _LINK.finditer(prose(page)):
        yield match[2] or match[3]


@functools.cache
def anchors(path: Path) -> set[str]:
    """What ``#name`` may be: headings in lower case with dashes, as GitHub and the site make them, and names that are given."""
    found: set[str] = set()
    text = _FENCE.sub("", path.read_text())
    for words, name in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("`", "")
        slug = name or re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number, first = 0, slug
        while slug in found:
            number += 1
            slug = f"{first}_{number}"
        found.add(slug)
    return found | {one or other for one, other in _NAMED.findall(text)}
