"""A hook of mkdocs: files of the repository outside docs/ that pages link to are files of the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_OUTSIDE = re.compile(r"(?<=\]\()(?:\.\./)+[^)#\s]+(?=\))")


def _outside(page: str, link: str) -> str:
    """Where ``link`` of ``page`` leads, from the root of the repository; nothing if it stays in docs/."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return "" if target.startswith("docs/") else target


def on_files(files: Files, config: Any) -> Files:
    """Add what the pages link to."""
    root = Path(config.config_file_path).parent
    for page in list(files.documentation_pages()):
        for link in _OUTSIDE.findall(page.content_string):
            target = _outside(page.src_uri, link)
            if target and files.get_file_from_path(f"repository/{target}") is None:
                files.append(File.generated(config, f"repository/{target}", abs_src_path=str(root / target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to them lead into the site."""

    def inside(match: re.Match[str]) -> str:
        target = _outside(page.file.src_uri, match[0])
        return posixpath.relpath(f"repository/{target}", posixpath.dirname(page.file.src_uri) or ".") if target else match[0]

    return _OUTSIDE.sub(inside, markdown)
