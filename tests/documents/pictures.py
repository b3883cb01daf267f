"""The pictures of plans in the documents: each is that of ``plan`` as the block before it leaves it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.documents.pages import DOCS, Block
from tests.documents.running import run

_PICTURE = re.compile(r"!\[[^\]]*\]\((pictures/\w+\.svg)\)")


def pages() -> list[Path]:
    """The pages that have such pictures."""
    return [path for path in sorted(DOCS.rglob("*.md")) if _PICTURE.search(path.read_text())]


def drawn(page: Path) -> Iterator[tuple[Path, str]]:
    """The pictures of a page: where each belongs, and what it is."""
    text = page.read_text()
    found: dict[Path, str] = {}

    def after(block: Block, names: dict[str, Any]) -> None:
        between = text[block.end :].partition("```")[0]
        for picture in _PICTURE.findall(between):
            found[page.parent / picture] = names["plan"].to_svg()

    with tempfile.TemporaryDirectory() as folder:
        run(page, Path(folder), after)
    yield from found.items()
