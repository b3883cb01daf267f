"""Tracebacks of a user's mistakes: the user's frames alone, in a program, in pytest and in IPython."""

from __future__ import annotations

import ast
import importlib.util
import sys
import textwrap
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.stack import raises_to_user
from tests.processes import run_program, run_python

PACKAGE = str(Path(qgraph.__file__).parent)

# One mistake at each entry; what is in the traceback besides the line that makes it.
MISTAKES = {
    "decorator": ("qgraph.kernel(lambda x: x)", "KernelSyntaxError"),
    "options": ("qgraph.kernel(block_size=8)(lambda x: x)", "KernelSyntaxError"),
    "wrong option": ("qgraph.kernel(blocks=8)", "QGraphError"),
    "func": ("qgraph.func(len)", "KernelSyntaxError"),
    "call": ("add(np.zeros(4))", "ArgumentError"),
    "race": ("shift(np.zeros(4))", "DataRaceError"),
    "bounds": ("far(np.zeros(4), 5)", "BoundsError"),
    "raised": ("positive(np.zeros(4))", "ValueError"),
    "bind": ("shift.bind(np.zeros(4))", "DataRaceError"),
    "launch": ("far.bind(np.zeros(4), 1).launch(i=5)", "BoundsError"),
    "launch with": ("far.bind(np.zeros(4), 1).launch(j=5)", "ArgumentError"),
    "graph": ("far.bind(np.zeros(4), 1).graph", "BackendError"),
    "plan": ("add.plan(np.zeros(4))", "ArgumentError"),
    "explain": ("add.explain(np.zeros(4))", "ArgumentError"),
    "ptx": ("add.ptx(np.zeros(4))", "ArgumentError"),
    "check": ("far.check(np.zeros(4), 5)", "BoundsError"),
    "reference": ("add.reference(np.zeros(4))", "ArgumentError"),
    "method": ("State(np.zeros(4)).shift()", "DataRaceError"),
    "ndrange": ("qgraph.ndrange()", "ArgumentError"),
    "annotation": ("qgraph.Array[np.float32, -1]", "ArgumentError"),
    "annotated": ("typed(np.zeros(4))", "ArgumentError"),
    "do-while": ("qgraph.graph_do_while(np.ones(1))", "KernelSyntaxError"),
    "backend": ("qgraph.zeros(4, backend='gpu')", "BackendError"),
    "set_backend": ("qgraph.set_backend('gpu')", "BackendError"),
}

PROGRAM = """
    import sys
    from dataclasses import dataclass
    import numpy as np
    import qgraph

    @qgraph.kernel(backend="cpu")
    def add(x, y):
        x[:] = x + y

    @qgraph.kernel
    def shift(x):
        for i in range(1, x.shape[0]):
            x[i] = x[i - 1]

    @qgraph.kernel
    def typed(x: qgraph.Array[np.float32]):
        x[:] = 0

    @qgraph.kernel(backend="cpu", bounds_check=True)
    def far(x, i):
        x[i] = 1.0

    @qgraph.kernel(backend="cpu")
    def positive(x):
        for i in range(x.shape[0]):
            if x[i] <= 0:
                raise ValueError("not positive")

    @dataclass
    class State:
        x: np.ndarray

        @qgraph.kernel
        def shift(self):
            for i in range(1, self.x.shape[0]):
                self.x[i] = self.x[i - 1]

    def mistaken(text):
        eval(text)
"""


def trace_of(error: BaseException) -> list[str]:
    """The files of a traceback as it is printed, those of its causes too."""
    printed = traceback.TracebackException.from_exception(error)
    files: list[str] = []
    current: traceback.TracebackException | None = printed
    while current is not None:
        files += [frame.filename for frame in current.stack]
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return files


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The names of ``PROGRAM``, imported as a module of the user's."""
    file = tmp_path_factory.mktemp("tracebacks") / "users_program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    spec = importlib.util.spec_from_file_location("users_program", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["users_program"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["users_program"]


@pytest.mark.parametrize("entry", MISTAKES)
def test_the_traceback_has_the_users_frames_alone(program, entry):
    text, name = MISTAKES[entry]
    with pytest.raises(qgraph.QGraphError) as caught:
        program.mistaken(text)
    assert type(caught.value).__name__ == name
    assert trace_of(caught.value) == [__file__, program.__file__, "<string>"]


def test_a_setting_shows_all_frames(program, monkeypatch):
    monkeypatch.setenv("QGRAPH_TRACEBACK", "full")
    for entry in ("call", "plan", "launch with"):
        with pytest.raises(qgraph.QGraphError) as caught:
            program.mistaken(MISTAKES[entry][0])
        assert any(file.startswith(PACKAGE) for file in trace_of(caught.value))
    monkeypatch.setenv("QGRAPH_TRACEBACK", "all")
    with pytest.raises(qgraph.QGraphError, match="QGRAPH_TRACEBACK='all' is neither 'user' nor 'full'"):
        qgraph.kernel(program.add.__wrapped__)


def test_a_program_prints_its_own_lines(tmp_path):
    done = run_program(PROGRAM + "\n    mistaken('shift(np.zeros(4))')", tmp_path)
    assert "script.py" in done.stderr
    assert "qgraph.errors.DataRaceError" in done.stderr
    assert not [line for line in done.stderr.splitlines() if "File " in line and f"{PACKAGE}/" in line]
    assert "During handling" not in done.stderr
    done = run_program(PROGRAM + "\n    mistaken('shift(np.zeros(4))')", tmp_path, QGRAPH_TRACEBACK="full")
    assert f"{PACKAGE}/kernel.py" in done.stderr


def test_pytest_shows_the_users_lines(tmp_path):
    file = tmp_path / "test_users.py"
    file.write_text(
        '"""PYTEST_DONT_REWRITE"""\nimport numpy as np\nimport qgraph\n\n@qgraph.kernel\ndef shift(x):\n'
        "    for i in range(1, x.shape[0]):\n        x[i] = x[i - 1]\n\ndef test_shift():\n    shift(np.zeros(4))\n"
    )
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, file)
    assert "test_users.py:11: DataRaceError" in done.stdout
    assert "kernel.py" not in done.stdout
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, file, QGRAPH_TRACEBACK="full")
    assert "kernel.py" in done.stdout


def test_ipython_shows_the_users_lines(tmp_path, capsys):
    interactiveshell = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    shell = interactiveshell.InteractiveShell()
    shell.run_cell(
        "import numpy as np, qgraph\n@qgraph.kernel\ndef shift(x):\n    for i in range(1, x.shape[0]):\n        x[i] = x[i - 1]"
    )
    shell.run_cell("shift(np.zeros(4))")
    out = capsys.readouterr().out
    assert "DataRaceError" in out
    assert PACKAGE not in out


def test_kernels_compile_after_others_have_annotated_what_trees_share(program, monkeypatch):
    """IPython's tracebacks give every node of a syntax tree its parent, the one ``ast.Load`` of the process too."""
    tree = ast.parse("f(x + 1)")
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            monkeypatch.setattr(child, "parent", node, raising=False)
    x = np.zeros(3)
    for entry in ("reference", "plan", "check", "__call__"):
        getattr(qgraph.kernel(program.add.__wrapped__), entry)(x, np.ones(3))
    assert (x == 2).all()


def test_frames_of_the_user_below_ours_stay(program):
    """A kernel as plain Python: an error of the user's lines is one whatever its class."""
    with pytest.raises(IndexError) as caught:
        program.mistaken("far.reference(np.zeros(4), 7)")
    assert trace_of(caught.value) == [__file__, program.__file__, "<string>", program.__file__]


def of_package(code: str, name: str) -> Any:
    """A function whose code stands in a file of qgraph."""
    names = {"ArgumentError": qgraph.ArgumentError}
    exec(compile(textwrap.dedent(code), f"{PACKAGE}/made.py", "exec"), names)
    return names[name]


def test_a_defect_keeps_all_frames(program, monkeypatch):
    monkeypatch.setattr(type(program.add), "_run", of_package("def broken(*args): raise KeyError('a defect')", "broken"))
    with pytest.raises(KeyError) as caught:
        program.mistaken("add(np.zeros(4), np.zeros(4))")
    assert trace_of(caught.value)[-2:] == [f"{PACKAGE}/kernel.py", f"{PACKAGE}/made.py"]


def test_what_the_user_was_handling_is_told_and_what_we_were_is_not(program):
    handling = """
        def handling(*_):
            try:
                {}[0]
            except KeyError:
                raise ArgumentError("in its place")
        """
    replaced = raises_to_user(of_package(handling, "handling"))
    with pytest.raises(qgraph.ArgumentError) as caught:
        replaced()
    assert caught.value.__context__ is None

    def call() -> None:
        try:
            raise SystemError("the user's")
        except SystemError:
            replaced()

    with pytest.raises(qgraph.ArgumentError) as caught:
        call()
    assert isinstance(caught.value.__context__, SystemError)
    assert trace_of(caught.value) == [__file__] * 3
