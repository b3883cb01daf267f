"""What a command writes into the documents: the pages of errors, and the pictures of plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.documents import errors, pictures


def files() -> Iterator[tuple[Path, str]]:
    """Each file, and its text."""
    yield from errors.pages().items()
    for page in pictures.pages():
        yield from pictures.drawn(page)
