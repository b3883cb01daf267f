"""The levels of the disk cache: what another process finds, and what is compiled again."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import qgraph
from qgraph.lowering import numba_cuda, saved
from qgraph.lowering.compile import compile_cuda, compile_ptx
from qgraph.lowering.disk_cache import store
from qgraph.options import Options
from tests.lowering.cached_kernels import PLAIN

ROOT = Path(qgraph.__file__).parent.parent

# What a process does up to where it needs a driver.
START = """
import hashlib, importlib, json, pathlib, sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
from kernels import kernel
from qgraph.lowering.compile import compile_cuda
from qgraph.options import Options
x = np.zeros(8, np.float32)
found = compile_cuda(kernel.plan(x, x.copy()), (9, 0), Options())
import qgraph.runtime
for file in pathlib.Path(qgraph.runtime.__file__).parent.glob("*.py"):
    importlib.import_module(f"qgraph.runtime.{file.stem}".removesuffix(".__init__"))
print(json.dumps({
    "from_disk": found.from_disk,
    "unkept": found.unkept,
    "cubin": hashlib.sha256(found.cubin).hexdigest(),
    "ptx": hashlib.sha256("".join(found.ptx.values()).encode()).hexdigest(),
    "entries": [code.entry for code in found.codes.values()],
    "codes": [[code.source, repr(code.parameters), repr(sorted(code.constant)), code.several] for code in found.codes.values()],
    "dtypes": found.dtypes,
    "compilers": sorted(name for name in sys.modules if name in ("numba", "llvmlite", "numba.cuda", "numba_cuda")),
}))
"""


@pytest.fixture
def start(tmp_path):
    """``start(text, where, seed)``: what a process finds that compiles the kernel of ``text``."""

    def run(text, where, seed):
        (tmp_path / where).mkdir(exist_ok=True)
        (tmp_path / where / "kernels.py").write_text(text)
        env = {**os.environ, "PYTHONHASHSEED": seed, "QGRAPH_CACHE": "1", "QGRAPH_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "-W", "error", "-c", START, str(tmp_path / where), str(ROOT)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_another_process_imports_no_compiler(start):
    cold = start(PLAIN, "here", "1")
    assert (cold["from_disk"], cold["unkept"]) == (False, "")
    assert "numba" in cold["compilers"]

    warm = start(PLAIN, "there", "2")
    assert warm["compilers"] == []
    assert warm == {**cold, "from_disk": True, "compilers": []}

    # Moved in its file: linked again, under names that tell its lines.
    moved = start("# one\n# two\n" + PLAIN, "here", "3")
    assert (moved["from_disk"], moved["unkept"], moved["compilers"]) == (False, "", [])
    assert "kernel_L14" in cold["entries"]
    assert "kernel_L16" in moved["entries"]
    assert moved["dtypes"] == cold["dtypes"]


# --- in one process ----------------------------------------------------------------------------------------------------


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The entries of the tasks that are compiled from now on; the cache is a new folder."""
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    monkeypatch.setenv("QGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    found, compile_one = [], numba_cuda.compile_ptx
    monkeypatch.setattr(
        numba_cuda, "compile_ptx", lambda *args, **named: (found.append(named["entry"]), compile_one(*args, **named))[1]
    )
    return found


def many(changed=2.0):
    @qgraph.kernel
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * 1.5
        for i in range(x.shape[0]):
            x[i] = x[i] * changed
        for i in range(x.shape[0]):
            x[i] = x[i] * 2.5

    return kernel.plan(np.zeros(8, np.float32))


def test_an_edited_loop_is_compiled_alone(compiled):
    plan = many()
    first = compile_cuda(plan, (9, 0), Options())
    assert len(compiled) == 3
    compiled.clear()
    edited = compile_cuda(many(3.0), (9, 0), Options())
    assert compiled == [list(edited.codes)[1]]
    assert not edited.from_disk
    assert edited.cubin != first.cubin
    assert [edited.ptx[name] == first.ptx[name] for name in first.ptx] == [True, False, True]
    again = compile_cuda(plan, (9, 0), Options())
    assert len(compiled) == 1
    assert again.from_disk
    assert again == first


def test_what_comes_off_the_disk_is_what_would_be_compiled(compiled):
    """A task under another name too."""
    compile_cuda(many(), (9, 0), Options())

    @qgraph.kernel
    def other(y):
        for j in range(y.shape[0]):
            y[j] = y[j] * 2.5

    plan = other.plan(np.zeros(8, np.float32))
    compiled.clear()
    found = compile_cuda(plan, (9, 0), Options())
    assert compiled == []
    fresh = compile_ptx(plan, (9, 0), Options())
    assert (found.codes, found.ptx) == fresh


def test_without_reading_everything_is_compiled_and_replaced(compiled):
    first = compile_cuda(many(), (9, 0), Options())
    entries = store().usage()
    compiled.clear()
    again = compile_cuda(many(), (9, 0), Options(), read=False)
    assert len(compiled) == 3
    assert not again.from_disk
    assert (again.cubin, store().usage()) == (first.cubin, entries)


def test_what_was_made_by_files_that_are_gone_is_missing(compiled, monkeypatch):
    compile_cuda(many(), (9, 0), Options())
    monkeypatch.setattr(saved, "unchanged", lambda files: not any("nvJitLink" in path for path, _, _ in files))
    compiled.clear()
    again = compile_cuda(many(), (9, 0), Options())
    assert not again.from_disk, "the plan remembers its linker"
    assert compiled == [], "a task has none"
    monkeypatch.setattr(saved, "unchanged", lambda files: not files)
    assert not compile_cuda(many(), (9, 0), Options()).from_disk
    assert len(compiled) == 3


def test_entries_that_make_no_sense_are_compiled_over(compiled):
    compile_cuda(many(), (9, 0), Options())
    disk = store()
    keys = [name.removesuffix(".qgc") for name in os.listdir(disk.folder)]
    for header, blobs in (
        ({}, []),
        ({"files": 3}, [b"x"]),
        ({"files": [], "codes": {}, "texts": [], "dtypes": [[9, 9]]}, [b"x", b"y"]),
    ):
        for key in keys:
            disk.write(key, header, blobs)
        compiled.clear()
        again = compile_cuda(many(), (9, 0), Options())
        assert (again.from_disk, len(compiled)) == (False, 3)
        assert compile_cuda(many(), (9, 0), Options()).from_disk


def test_what_cannot_be_kept_says_why(compiled, caplog):
    def written(v):
        return v + 1

    @numba.njit
    @functools.wraps(written)
    def wrapper(v):
        return v + 2

    @qgraph.kernel
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = wrapper(x[i])
        for i in range(x.shape[0]):
            x[i] = x[i] * 1.5

    plan = kernel.plan(np.zeros(8, np.float32))
    with caplog.at_level("INFO", "qgraph"):
        found = compile_cuda(plan, (9, 0), Options())
    assert found.unkept == "`wrapper` is the decorated function written()"
    assert f"kernel() is compiled anew in every process: {found.unkept}" in caplog.text
    compiled.clear()
    assert not compile_cuda(plan, (9, 0), Options()).from_disk
    assert compiled == [next(iter(found.codes))], "the other loop is kept all the same"


def test_turned_off_nothing_is_read_or_written(compiled, monkeypatch):
    compile_cuda(many(), (9, 0), Options())
    before = store().usage()
    monkeypatch.setenv("QGRAPH_CACHE", "0")
    compiled.clear()
    found = compile_cuda(many(), (9, 0), Options())
    assert (found.from_disk, found.unkept, len(compiled)) == (False, "", 3)
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    assert store().usage() == before


def test_a_folder_that_cannot_be_written_is_one_warning(compiled, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QGRAPH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(qgraph.PerformanceWarning) as caught:
        found = compile_cuda(many(), (9, 0), Options())
    assert len(caught) == 1
    assert found.cubin


def test_one_ptx_text_is_linked_once(compiled, monkeypatch):
    text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry only() { ret; }\n"
    cubin = saved.linked(text, (9, 0))
    monkeypatch.setattr(saved.link, "link", None)
    assert saved.linked(text, (9, 0)) == cubin
    with pytest.raises(TypeError):
        saved.linked(text, (8, 0))


def test_clear_cache_does_not_read_the_disk_again():
    @qgraph.kernel(backend="cpu")
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * 1.5

    x = np.zeros(3)
    kernel(x)
    assert [variant.reads_disk for variant in kernel._variants.values()] == [True]
    kernel.clear_cache()
    kernel(x)
    assert [variant.reads_disk for variant in kernel._variants.values()] == [False]


def test_the_command_line_tells_and_clears(compiled):
    def run(*arguments, **environment):
        env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        command = [sys.executable, "-W", "error", "-m", "qgraph", "cache", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout

    store().write(f"task-{1:064x}", {}, [b"something"])
    told = run()
    assert os.environ["QGRAPH_CACHE_DIR"] in told
    assert "entries  1" in told
    assert "removed 1 entries" in run("clear")
    assert store().usage().entries == 0
    assert "off" in run(QGRAPH_CACHE="0")
