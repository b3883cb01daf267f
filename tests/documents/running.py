"""Runs the Python blocks of a page in order, in one namespace, and says what they print or raise."""

from __future__ import annotations

import contextlib
import doctest
import io
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.documents.pages import Block, blocks

# tests/hosts/test_documents.py runs those with these, where they are installed.
_HOSTS = ("import torch\n", "import jax\n")


def ours(page: str) -> list[Block]:
    """The Python blocks that run."""
    return list(filter(_runs, blocks(page)))


def _runs(block: Block) -> bool:
    return block.language == "python" and not block.is_peers and not any(library in block.text for library in _HOSTS)


def run(page: Path, folder: Path, after: Callable[[Block, dict[str, Any]], None] | None = None) -> None:
    """Run the blocks of ``page``, each as a file in ``folder``, where Python finds its lines.

    A block of the language ``text`` that follows one is what it prints, or how the error ends that it raises; ``...`` in it is
    anything. ``after`` sees the names after each block.
    """
    shown = blocks(page.read_text())
    name = f"page_{page.stem}"
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        for block, following in zip(shown, [*shown[1:], None], strict=True):
            if not _runs(block):
                continue
            file = folder / f"{block.title.removesuffix('.py') or f'{name}_{block.line}'}.py"
            file.write_text(block.text)
            wanted = following.text if following is not None and following.language == "text" else None
            said = _said(block, file, module.__dict__, "Error: " in (wanted or ""))
            if following is not None and wanted is not None:
                assert_said(wanted, said, f"{page.name}:{following.line}")
            if after is not None:
                after(block, module.__dict__)
    finally:
        del sys.modules[name]


def _said(block: Block, file: Path, names: dict[str, Any], may_raise: bool) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(block.text, file, "exec"), names)
        except Exception as error:
            if not may_raise:
                raise
            printed.write("".join(traceback.format_exception_only(error)))
        else:
            assert not may_raise, f"line {block.line}: the block ended, and the page says that it raises"
    return printed.getvalue().replace(f"{file.parent}/", "")


def assert_said(wanted: str, said: str, where: str) -> None:
    """Compare as doctest does, ``...`` for anything."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(wanted, said, options), f"{where}: the page has\n{wanted}\nand it is\n{said}"
