"""The public surface: the names of ``__all__``, and the command line."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import qgraph
from benchmarks import readme
from benchmarks.results import RESULTS
from qgraph import __main__
from qgraph.profiling import bench
from tests.conftest import THOROUGH

ROOT = Path(__file__).resolve().parent.parent
WORDS = {
    *("kernel", "func", "ndrange", "serial", "parallel", "graph_do_while"),
    *("atomic_add", "atomic_sub", "atomic_min", "atomic_max", "atomic_and_", "atomic_or_", "atomic_xor"),
    *("atomic_exch", "atomic_cas", "progress"),
}
HOST = {"asarray", "empty", "zeros", "full", "to_numpy", "synchronize", "stream", "set_backend", "info", "reset", "watch"}
ERRORS = {
    *("QGraphError", "KernelSyntaxError", "KernelTypeError", "ArgumentError", "DataRaceError", "BoundsError"),
    *("BackendError", "CudaError", "PerformanceWarning"),
}
RESERVED = {"batch"}


def test_all_holds_every_public_name_and_nothing_unknown():
    assert WORDS | HOST | ERRORS <= set(qgraph.__all__)
    assert len(qgraph.__all__) == len(set(qgraph.__all__))
    for name in qgraph.__all__:
        assert getattr(qgraph, name) is not None
    assert not RESERVED & set(qgraph.__all__)


def test_errors_share_one_base():
    for name in ERRORS - {"PerformanceWarning"}:
        assert issubclass(getattr(qgraph, name), qgraph.QGraphError)
    assert issubclass(qgraph.PerformanceWarning, UserWarning)


def test_public_things_say_what_they_are():
    silent = [name for name in qgraph.__all__ if name != "__version__" and not (getattr(qgraph, name).__doc__ or "").strip()]
    assert not silent


def test_every_word_is_in_the_language_guide():
    text = (ROOT / "docs" / "language.md").read_text()
    missing = {name for name in WORDS if name not in text}
    assert not missing


def test_the_version_is_that_of_the_distribution():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert qgraph.__version__ == project["version"]
    assert re.search(rf"^## {re.escape(project['version'])}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_examples_and_documents_name_only_what_exists():
    """``qgraph.NAME`` in a Python block of a document, or in an example, is a public name."""
    known = set(qgraph.__all__)
    places = [*ROOT.glob("examples/*.py"), ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    seen = set()
    for place in places:
        text = place.read_text()
        blocks = re.findall(r"```python(?: title=\"\w+\.py\")?\n(.*?)```", text, re.DOTALL)
        sources = [text] if place.suffix == ".py" else blocks
        for source in sources:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "qgraph":
                    assert node.attr in known, f"{place.name} line {node.lineno}: qgraph.{node.attr}"
                    seen.add(node.attr)
    assert {"kernel", "graph_do_while"} <= seen


README = ROOT / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) <= 180
    assert len(PROGRAMS) == 5


@THOROUGH
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_the_readme_run(program, tmp_path):
    if "import torch" in program:
        pytest.importorskip("torch")
    (tmp_path / "smooth.py").write_text(program)
    # The last one leaves out its imports.
    run = "import runpy, numpy, qgraph; runpy.run_path('smooth.py', {'np': numpy, 'qgraph': qgraph})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", run]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=120)
    if "def smooth" in program:
        (shown,) = re.findall(r"```text\n(.*?)```", README.read_text(), re.DOTALL)
        assert done.stderr.endswith(shown)
    else:
        assert done.returncode == 0, done.stderr


def test_the_figures_are_those_of_the_result_files():
    assert readme.rewrite(README.read_text(), readme.six(RESULTS)) == README.read_text()
    guide = readme.GUIDE.read_text()
    assert readme.rewrite(guide, readme.measured("slow_to_fast", RESULTS, "../../benchmarks/results")) == guide
    assert readme.PERFORMANCE.read_text() == f"{readme.HEAD}\n\n{readme.figures(RESULTS)}\n"


# --- python -m qgraph -----------------------------------------------------------------------------------------------------

MODULE = """\
import qgraph


@qgraph.kernel(graph=False)
def double(x, times=1):
    for t in qgraph.serial(range(times)):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2


class Box:
    @qgraph.kernel
    def fill(self, x):
        for i in range(x.shape[0]):
            x[i] = 1


other = 3


@qgraph.kernel
def shifted(x):
    for i in range(1, x.shape[0]):
        x[i] = x[i - 1]


def sample():
    return qgraph.zeros(8), 2
"""


@pytest.fixture
def beside_shapes(tmp_path, monkeypatch):
    """The folder of a module ``shapes``, which is current, and where modules are found."""
    (tmp_path / "shapes.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shapes", raising=False)
    return tmp_path


@pytest.fixture
def run(beside_shapes, capsys):
    """``run(*arguments)`` is (exit status, stdout, stderr) of ``python -m qgraph`` beside ``shapes``, in this process."""

    def command(*arguments):
        capsys.readouterr()
        try:
            status = __main__.main(list(arguments))
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return status or 0, out, err

    return command


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("inspect", "shapes:double"), 0),
        (("inspect", "shapes:double", "--args", "1 / 0"), 1),
        (("inspect", "nowhere:double"), 2),
    ],
)
def test_a_process_of_its_own_does_the_same(run, beside_shapes, arguments, status):
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "qgraph", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=beside_shapes,
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    assert done.returncode == status
    _, out, err = run(*arguments)
    assert (done.stdout, done.stderr) == (out, err)


def test_a_reader_who_has_read_enough():
    reading, writing = os.pipe()
    os.close(reading)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "qgraph", "info"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert "BrokenPipeError" not in done.stderr


def test_info_is_an_aligned_table(run):
    status, out, err = run("info")
    assert status == 0, err
    assert "driver" in out
    columns = {re.match(r"(\S+ +)\S", line).end() for line in out.splitlines() if re.match(r"\S+ +\S", line)}
    assert len(columns) == 1


def test_inspect_without_arguments(run):
    status, out, err = run("inspect", "shapes:double")
    assert status == 0, err
    assert "(x, times=1)" in out
    assert "shapes.py:4" in out
    assert "graph=False" in out
    assert re.search(r"line +6  for t in qgraph.serial\(range\(times\)\):", out)
    assert re.search(r"line +7    for i in range\(x.shape\[0\]\):", out)


def test_inspect_of_a_method(run):
    status, out, err = run("inspect", "shapes:Box.fill")
    assert status == 0, err
    assert re.search(r"line +14  for i in range", out)


def test_inspect_with_arguments_prints_the_plan(run, tmp_path):
    status, out, err = run("inspect", "shapes:double", "--args", "np.zeros(8), times=3")
    assert status == 0, err
    assert "double: " in out
    assert "float64" in out
    status, out, err = run("inspect", "shapes:double", "--args", "np.zeros(8), times=3", "--dot")
    assert status == 0, err
    assert out.startswith("digraph")
    status, out, err = run("inspect", "shapes:double", "--args", "np.zeros(8), times=3", "--svg", "-")
    assert status == 0, err
    assert out.startswith("<svg")
    picture = tmp_path / "double.svg"
    assert run("inspect", "shapes:double", "--args", "np.zeros(8), times=3", "--svg", str(picture)) == (0, "", "")
    assert picture.read_text() == out


def test_every_command_takes_names_of_the_module(run):
    for command in ("inspect", "check", "profile"):
        status, out, err = run(command, "shapes:double", "--args", "*sample()")
        assert (status, err) == (0, "")
        assert "double" in out


def test_inspect_shows_reasons_and_code(run):
    status, out, err = run("inspect", "shapes:double", "--args", "np.zeros(8)", "--explain")
    assert status == 0, err
    assert "floats are float64" in out
    status, out, err = run("inspect", "shapes:double", "--args", "np.zeros(8)", "--ptx")
    assert status == 0, err
    assert ".target sm_90" in out


def in_json(run, *arguments, status=0):
    found, out, err = run(*arguments, "--json")
    assert (found, err) == (status, "")
    return json.loads(out)


def test_every_command_speaks_json(run, tmp_path):
    names = set(re.findall(r"^    (\w+)  ", run("--help")[1], re.MULTILINE))
    assert names == {"info", "inspect", "check", "profile", "bench", "cache"}
    assert in_json(run, "info")["version"] == qgraph.__version__
    found = in_json(run, "inspect", "shapes:double")
    assert [each["line"] for each in found["loops"]] == [6, 7]
    assert found["options"]["graph"] is False
    explained = in_json(run, "inspect", "shapes:double", "--args", "np.zeros(8), 3")["explain"]
    assert any(node["line"] == 7 for node in explained["nodes"])
    assert in_json(run, "inspect", "shapes:double", "--args", "np.zeros(8)", "--dot")["dot"].startswith("digraph")
    picture = str(tmp_path / "double.svg")
    assert in_json(run, "inspect", "shapes:double", "--args", "np.zeros(8)", "--svg", picture) == {"svg": picture}
    assert in_json(run, "check", "shapes:double", "--args", "np.zeros(8)")["errors"] == []
    assert in_json(run, "profile", "shapes:double", "--args", "np.zeros(8), 3")["rows"][0]["count"] == 3
    assert in_json(run, "cache").keys() >= {"folder"}
    (error,) = in_json(run, "inspect", "shapes:double", "--args", "1 / 0", status=1)["errors"]
    assert error["error"] == "ArgumentError"
    assert "ZeroDivisionError" in error["found"]
    (error,) = in_json(run, "check", "shapes:shifted", "--args", "np.zeros(8)", status=1)["errors"]
    assert error["error"] == "DataRaceError"
    assert (error["place"]["line"], Path(error["place"]["file"]).name) == (24, "shapes.py")
    # Usage errors are no answers.
    assert run("inspect", "shapes:other", "--json")[:2] == (2, "")


def test_a_module_that_cannot_be_imported_is_told(run, beside_shapes):
    (beside_shapes / "half_written.py").write_text("def f(:\n")
    (beside_shapes / "divides.py").write_text("1 / 0\n")
    (error,) = in_json(run, "inspect", "half_written:f", status=1)["errors"]
    assert error["found"].startswith("half_written cannot be imported: SyntaxError")
    assert run("check", "divides:f", "--args", "1")[2].startswith(
        "ArgumentError: divides cannot be imported: ZeroDivisionError: division by zero\nhelp: its traceback: python -c"
    )


def test_what_ends_the_program_is_told_as_a_failure(run, beside_shapes):
    (beside_shapes / "leaves.py").write_text("raise SystemExit\n")
    assert run("check", "leaves:f", "--args", "1")[2].startswith("ArgumentError: leaves cannot be imported: SystemExit")
    status, said, errors = run("check", "shapes:shifted", "--args", "exit()")
    assert (status, said) == (1, "")
    assert errors.startswith("ArgumentError: --args 'exit()' failed: SystemExit")


def test_kernels_of_classes_are_named_as_they_are_written(run, beside_shapes):
    methods = """
import qgraph

class Solver:
    @staticmethod
    @qgraph.kernel
    def step(x):
        x[:] = 1

    @qgraph.kernel
    def turn(x):
        x[:] = 2
"""
    (beside_shapes / "solvers.py").write_text(methods)
    assert run("inspect", "solvers:Solver.steps")[2].endswith("its kernels: Solver.step, Solver.turn\n")
    for name in ("Solver.step", "Solver.turn"):
        assert run("inspect", f"solvers:{name}", "--args", "np.zeros(3)")[0] == 0


def test_bench_measures_what_is_there(run):
    found = in_json(run, "bench", "--backend", "cpu")
    assert (found["backend"], found["path"]) == ("cpu", "cpu")
    assert len(found["rungs"]) == 4
    for rung in found["rungs"]:
        assert len(rung["us"]) == 2
        assert all(0.01 < us < 1e6 for us in rung["us"].values())
    assert list(found["rungs"][-1]["us"]) == ["loop in the kernel", "loop in Python"]


def test_bars_are_as_long_as_times(monkeypatch):
    whole = bench.Bench("cpu", "2 threads", "cpu", (bench.Rung("three loops", (("one", 5.0), ("other", 20.0))),))
    lengths = [line.count("█") for line in str(whole).splitlines() if "█" in line]
    assert lengths == [10, 40]
    with pytest.raises(AssertionError, match="means nothing"):
        bench._measured((("wrong", lambda: None, np.zeros(3)),), 1.0)


@pytest.mark.parametrize("command", [(), ("info",), ("inspect",), ("check",), ("profile",), ("bench",), ("cache",)], ids=str)
def test_help_has_an_example_and_the_exit_statuses(run, command):
    status, out, err = run(*command, "--help")
    assert (status, err) == (0, "")
    assert "exit status: 0; 1 where qgraph refuses or finds something; 2 where the command line is wrong" in " ".join(
        out.split()
    )
    if command:
        (example,) = re.findall(r"^example: python -m qgraph (.*)$", out, re.MULTILINE)
        # It is one that this command takes.
        __main__._parser().parse_args(shlex.split(example))
        assert example.split()[0] == command[0]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("inspect", "shapes"), 2, "MODULE:KERNEL"),
        (("inspect", "shapes.double"), 2, "MODULE:KERNEL: shapes:double?"),
        (("inspect", "shapes.py:double"), 2, "of a file write its module, shapes:double"),
        (("inspect", "shapes:double", "--explain"), 2, "--args"),
        (("bench", "--backend", "abacus"), 2, "abacus"),
        (("check", "shapes:shifted", "--args", "np.zeros(8)"), 1, "DataRaceError"),
        (("inspect", "nowhere:double"), 2, "nowhere"),
        (("inspect", "shapes:triple"), 2, "double"),
        (("inspect", "shapes:other"), 2, "@qgraph.kernel"),
        (("inspect", "shapes:double", "--args", "np.zeros(8"), 2, "not Python"),
        (("inspect", "shapes:double", "--args", "1 / 0"), 1, "ZeroDivisionError"),
        (("inspect", "shapes:double", "--args", ""), 1, "ArgumentError"),
        (("inspect", "shapes:double", "--dot"), 2, "--args"),
        (("inspect", "shapes:double", "--svg", "x.svg"), 2, "--args"),
        (("inspect", "shapes:double", "--args", "np.zeros(8)", "--svg", "no/x.svg"), 2, "no/x.svg cannot be written"),
        (("dance",), 2, "dance"),
        ((), 2, "COMMAND"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(run, arguments, status, words):
    got, out, err = run(*arguments)
    assert got == status
    assert words in err
    assert "Traceback" not in err
    assert out == ""


def test_the_module_can_be_imported_without_running():
    importlib.import_module("qgraph.__main__")


def test_what_other_libraries_name_in_another_way_is_told():
    with pytest.raises(ImportError, match=r"no `prange`: write `range\(n\)`"):
        from qgraph import prange  # noqa: F401
    with pytest.raises(ImportError, match=r"write `@qgraph.kernel`"):
        qgraph.njit  # noqa: B018
    assert not hasattr(qgraph, "kernal")
