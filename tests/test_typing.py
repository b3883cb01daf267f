"""Kernels keep their signatures for type checkers, and annotated arrays are checked at the call."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import qgraph
from qgraph.language import ArrayAnnotation
from tests import typed_program
from tests.processes import ROOT, run_python

FILES = ROOT / "tests" / "typed_program.py", ROOT / "tests" / "mistyped_program.py"
MISTAKES = {number for number, line in enumerate(FILES[1].read_text().splitlines(), 1) if "# mistake" in line}


def mistakes_reported(report: str) -> set[int]:
    """The lines of the second file with an error; there is none in the first one."""
    assert not re.findall(r"typed_program\.py:(?=\d).*error", report.replace("mistyped_program", "")), report
    return {int(line) for line in re.findall(r"mistyped_program\.py:(\d+)(?::\d+)?.*? error:", report)}


def test_mypy_reports_the_mistakes_alone():
    pytest.importorskip("mypy")
    # What `make lint` found out about the package is used again.
    places = (f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}")
    settings = ("--strict", "--follow-imports=silent", "--explicit-package-bases", *places)
    done = run_python("-m", "mypy", *settings, *FILES, MYPYPATH=str(ROOT))
    assert mistakes_reported(done.stdout) == MISTAKES, done.stdout + done.stderr


def test_pyright_reports_the_mistakes_alone():
    module = next((name for name in ("basedpyright", "pyright") if importlib.util.find_spec(name)), None)
    program = shutil.which("pyright")
    if module is None and program is None:
        pytest.skip("neither pyright nor basedpyright is installed")
    command = [sys.executable, "-m", module] if module else [program]
    command += ["--level", "error", "--pythonpath", sys.executable, *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=200)
    assert mistakes_reported(done.stdout.replace(" - error", " error")) == MISTAKES, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed():
    assert (Path(qgraph.__file__).parent / "py.typed").exists()


def test_the_typed_program_runs():
    typed_program.main()


def fill(x: qgraph.Array[np.float32, 2], n: int, mask: qgraph.Array[np.integer] | None = None) -> None:
    for i, j in qgraph.ndrange(*x.shape):
        x[i, j] = n


X, MASK = np.zeros((2, 3), np.float32), np.ones(3, np.int16)


@pytest.mark.parametrize("entry", ["__call__", "bind", "plan", "check"])
def test_annotated_arrays_are_checked(entry):
    call = getattr(qgraph.kernel(backend="cpu")(fill), entry)
    for wrong, found in (
        ((np.zeros((2, 3)), 1), "`x` is annotated as qgraph.Array[np.float32, 2], and was passed float64[:, :]"),
        ((X[0], 1), "`x` is annotated as qgraph.Array[np.float32, 2], and was passed float32[:]"),
        (((X, X), 1), "was passed tuple"),
        ((None, 1), "was passed NoneType"),
        ((2.0, 1), "was passed Python float64"),
        ((X, 1, X), "`mask` is annotated as qgraph.Array[np.integer] | None, and was passed float32[:, :]"),
    ):
        with pytest.raises(qgraph.ArgumentError, match=re.escape(found)) as caught:
            call(*wrong)
        assert caught.value.span.line == fill.__code__.co_firstlineno
    call(X, 1)
    call(X, 1, MASK)
    # Calls of other types, behind calls that were right.
    with pytest.raises(qgraph.ArgumentError, match="annotated"):
        call(X, 1, X)


def test_a_call_that_was_seen_is_not_checked_again(monkeypatch):
    from qgraph import introspection

    kernel = qgraph.kernel(backend="cpu")(fill)
    kernel(X, 1)
    checked: list[str] = []
    monkeypatch.setattr(introspection, "check_annotation", lambda name, *_: checked.append(name))
    for n in range(4):
        kernel(X, n)
        kernel(X.copy(), n)
    assert checked == []
    kernel(X, np.int32(1))
    assert checked == ["x", "mask"]


def test_what_annotations_mean():
    def annotated(x: qgraph.Array, y: Nowhere, z: qgraph.Array[nowhere.float32, 2], w: Any) -> None:  # noqa: F821
        x[0] = 1

    assert dict(qgraph.kernel(annotated)._source.arrays) == {"x": ArrayAnnotation()}
    assert qgraph.Array[np.float32, 2] == qgraph.Array["float32", Literal[2]] == ArrayAnnotation(np.float32, 2)
    assert qgraph.Array[np.floating[Any]] == qgraph.Array[np.floating, Any] == ArrayAnnotation(np.floating)
    assert qgraph.Array[Any, 0] == ArrayAnnotation(None, 0)
    assert (None | qgraph.Array[np.int8]) == ArrayAnnotation(np.int8, None, True)
    assert qgraph.Array[np.int8] | int is Any
    assert qgraph.Array[np.float32].takes_dtype("float32")
    assert not qgraph.Array[np.float32].takes_dtype("float64")
    for wrong in ((np.float32, -1), (np.float32, True), (np.float32, 2.0), ("nothing", 1), 3, (np.float32, 2, 3)):
        with pytest.raises(qgraph.ArgumentError, match="is no"):
            qgraph.Array[wrong]
