"""Every Python block of the documents runs, in the order of its page, on the CPU, and prints what the page shows."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from benchmarks import slow_to_fast
from tests.conftest import THOROUGH
from tests.documents.pages import DOCS, blocks
from tests.documents.running import assert_said, ours, run

pytestmark = pytest.mark.needs("compiler")

# The programs of README.md are apart from each other: tests/test_public.py runs them.
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if ours(path.read_text())]
# What only `make test-all` has the time for.
LONG: set[str] = set()


def named(path: Path) -> object:
    name = str(path.relative_to(DOCS))
    return pytest.param(path, id=name, marks=[THOROUGH] if name in LONG else [])


@pytest.mark.parametrize("path", [named(path) for path in PAGES])
def test_blocks_run(path, tmp_path, monkeypatch):
    if "cuda.bindings" in path.read_text():
        # There are no wheels for macOS.
        pytest.importorskip("cuda.bindings")
    monkeypatch.chdir(tmp_path)
    run(path, tmp_path)


def test_the_pages_are_those_with_programs():
    names = {str(path.relative_to(DOCS)) for path in PAGES}
    assert LONG <= names
    assert {"language.md", "guide/first_kernel.md", "guide/slow_to_fast.md", "coming_from/warp.md"} <= names


def test_blocks_of_peers_are_not_ours():
    text = (DOCS / "coming_from" / "warp.md").read_text()
    assert any(block.is_peers for block in blocks(text))
    assert not any(block.is_peers for block in ours(text))
    assert not any("import warp" in block.text for block in ours(text))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n", False),
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", True),
        ("```python\nx = 1\n```\n\nwords\n\n```python\nassert x == 2\n```\n", True),
        ("```python\nx = 1\n```\n\n```text\nZeroDivisionError: division by zero\n```\n", True),
        ("```python\n1 / 0\n```\n\n```text\nZeroDivisionError: division by zero\n```\n", False),
        ("- a list\n\n    ```python\n    1 / 0\n    ```\n", True),
        ('```python title="Warp"\n1 / 0\n```\n', False),
    ],
)
def test_the_runner_notices(text, wrong, tmp_path):
    path = tmp_path / "sample.md"
    path.write_text(text)
    if wrong:
        with pytest.raises((AssertionError, ZeroDivisionError)):
            run(path, tmp_path)
    else:
        run(path, tmp_path)


def test_dots_are_anything():
    assert_said("took ... us\n", "took 12.5 us\n", "here")
    with pytest.raises(AssertionError):
        assert_said("took ... us\n", "took 12.5 ms\n", "here")


@pytest.mark.parametrize("step", [slow_to_fast.as_in_numpy, slow_to_fast.in_one_loop, slow_to_fast.looks_seldom])
def test_what_is_measured_is_what_the_page_shows(step):
    assert f"@qgraph.kernel\n{inspect.getsource(step)}" in (DOCS / "guide" / "slow_to_fast.md").read_text()
