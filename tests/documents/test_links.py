"""Links of the documents lead somewhere: files that exist, headings that are there; and the site has all pages."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import qgraph
from tests.documents.pages import DOCS, ROOT, anchors, documents, links


def broken(path: Path, text: str) -> list[str]:
    """The links of ``text``, a document at ``path``, that lead nowhere."""
    found = []
    for link in links(text):
        if re.match(r"(https?|mailto):", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        inside = target == ROOT or ROOT in target.parents
        if not inside or not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert not broken(path, path.read_text())


@pytest.mark.parametrize(
    ("link", "bad"),
    [
        ("language.md#numbers", False),
        ("language.md#nothing-of-that-name", True),
        ("languages.md", True),
        ("#performance", False),
        ("../benchmarks/results/launch.json", False),
        ("../../elsewhere.md", True),
        ("https://example.org/x#y", False),
    ],
)
def test_the_check_notices(link, bad):
    assert bool(broken(DOCS / "performance.md", f"see [it]({link})")) == bad


def test_links_are_found_in_tables_pictures_and_html_and_not_in_code():
    text = '| [a](b.md) | ![c](d.png) |\n\n<img src="e.svg">\n\n`[f](g.md)`\n\n```python\nx[i](j)\n```\n[`h[0]`](k.md)'
    assert list(links(text)) == ["b.md", "d.png", "e.svg", "k.md"]


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    named = re.findall(r"[\w/.-]+\.md$", text.partition("\nnav:")[2], re.MULTILINE)
    assert len(named) == len(set(named))
    assert set(named) == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


def test_the_gallery_has_all_examples():
    text = (DOCS / "guide" / "gallery.md").read_text()
    examples = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"__init__"}
    assert set(re.findall(r"^\| `examples\.(\w+)`", text, re.MULTILINE)) == examples


def test_the_api_has_every_public_name():
    text = (DOCS / "guide" / "api.md").read_text()
    named = {name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)", text, re.MULTILINE)}
    assert not {*qgraph.__all__} - {"__version__", "random"} - named
    assert {*qgraph.random.__all__} <= named
    for path in re.findall(r"^::: ([\w.]+)", text, re.MULTILINE):
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path
