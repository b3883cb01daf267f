"""Pictures of plans and pages of errors are what ``python -m tests.documents`` writes now."""

from __future__ import annotations

import pytest

from tests.documents import errors, generated, pictures
from tests.documents.pages import DOCS

pytestmark = pytest.mark.needs("compiler")


def test_files_are_what_the_command_writes():
    pytest.importorskip("cuda.bindings")
    written = dict(generated.files())
    old = [path.name for path, text in written.items() if not path.exists() or path.read_text() != text]
    assert not old, "python -m tests.documents writes them anew"
    known = {*(DOCS / "errors").glob("*.md"), *DOCS.rglob("pictures/*.svg")} - {DOCS / "errors" / "index.md"}
    assert known == set(written)


def test_there_are_pictures_and_a_message_has_its_cure():
    assert [page.name for page in pictures.pages()] == ["lines_to_nodes.md"]
    (kind,) = [kind for kind, cases in errors.kinds("KernelSyntaxError") if "a_covariance" in cases]
    text = errors.entry(kind, ["a_covariance"])
    assert text.startswith(
        "### `...` is a new array\n\n`np.cov(u)` is a new array\n\n```text\nreturn np.cov(u)\n       ^^^^^^^^^\n```\n"
    )
    assert "**Cure:** d = x - np.mean(x, axis=1, keepdims=True), then d @ d.T" in text


def test_markdown_reads_nothing_into_a_message():
    assert errors.markdown("x[0] *= `a[i] * b_c` <tag>") == r"x\[0\] \*= `a[i] * b_c` \<tag\>"
