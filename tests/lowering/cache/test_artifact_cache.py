"""The levels of the disk cache: what another process finds, and what is compiled again."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import qgraph
from qgraph.__main__ import main
from qgraph.lowering.cache import artifact_cache
from qgraph.lowering.cache.disk_cache import store
from qgraph.lowering.compile import compile_cuda, compile_ptx
from qgraph.lowering.numba_backend import cuda
from qgraph.options import Options

ROOT = Path(qgraph.__file__).parent.parent

KERNEL = """\
import qgraph


@qgraph.kernel
def kernel(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        y[i] = a = b = abs(x[i])
        s += a + b
    return s
"""

# What a process does up to where it needs a driver.
START = """
import importlib, json, pkgutil, sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
from kernels import kernel
from qgraph.lowering.compile import compile_cuda
from qgraph.lowering.cache.artifact_cache import fields_of
from qgraph.options import Options
x = np.zeros(8, np.float32)
found = compile_cuda(kernel.plan(x, x.copy()), (9, 0), Options())
import qgraph.runtime
for module in pkgutil.walk_packages(qgraph.runtime.__path__, "qgraph.runtime."):
    importlib.import_module(module.name)
print(json.dumps({
    "codes": [fields_of(code, ["task"]) for code in found.codes.values()],
    "told": [repr(found.ptx), found.cubin.hex(), found.device_runtime, found.dtypes],
    "from_disk": found.from_disk,
    "entries": [code.entry for code in found.codes.values()],
    "compilers": sorted(name for name in sys.modules if name in ("numba", "llvmlite", "numba.cuda", "numba_cuda")),
}))
"""


def test_another_process_imports_no_compiler(compiled, tmp_path):
    """Whatever its hash seed is; where the kernel has moved in its file, it is linked under new names."""

    def start(text):
        (tmp_path / "kernels.py").write_text(text)
        seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        command = [sys.executable, "-W", "error", "-c", START, str(tmp_path), str(ROOT)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    (tmp_path / "kernels.py").write_text(KERNEL)
    spec = importlib.util.spec_from_file_location("kernels", tmp_path / "kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = np.zeros(8, np.float32)
    here = compile_cuda(module.kernel.plan(x, x.copy()), (9, 0), Options())
    assert compiled
    assert (here.from_disk, here.unkept) == (False, "")

    warm = start(KERNEL)
    assert warm["compilers"] == []
    assert warm["from_disk"]
    assert warm["entries"] == [code.entry for code in here.codes.values()]
    assert warm["codes"] == [artifact_cache.fields_of(code, ["task"]) for code in here.codes.values()]
    assert warm["told"] == [repr(here.ptx), here.cubin.hex(), here.device_runtime, here.dtypes]

    moved = start("# one\n# two\n" + KERNEL)
    assert (moved["from_disk"], moved["compilers"]) == (False, [])
    assert [entry.replace("L9", "L7") for entry in moved["entries"]] == warm["entries"] != moved["entries"]


# --- in one process ----------------------------------------------------------------------------------------------------


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The entries of the tasks that are compiled from now on; the cache is a new folder."""
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    monkeypatch.setenv("QGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    found, compile_one = [], cuda.compile_ptx
    monkeypatch.setattr(
        cuda, "compile_ptx", lambda *args, **named: (found.append(named["entry"]), compile_one(*args, **named))[1]
    )
    return found


def many(changed=2.0):
    @qgraph.kernel
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2.5
        for i in range(x.shape[0]):
            x[i] = x[i] * changed

    return kernel.plan(np.zeros(8, np.float32))


def test_an_edited_loop_is_compiled_alone(compiled):
    plan = many()
    first = compile_cuda(plan, (9, 0), Options())
    assert len(compiled) == 2
    compiled.clear()
    edited = compile_cuda(many(3.0), (9, 0), Options())
    assert compiled == [list(edited.codes)[1]]
    assert not edited.from_disk
    assert edited.cubin != first.cubin
    assert [edited.ptx[name] == first.ptx[name] for name in first.ptx] == [True, False]
    again = compile_cuda(plan, (9, 0), Options())
    assert len(compiled) == 1
    assert again.from_disk
    assert again == first


def beside(x, y):
    for i in range(x.shape[0]):
        x[i] += 1.0
    for i in range(y.shape[0]):
        y[i] += 2.0


def test_loops_in_one_kernel_and_in_two_are_kept_apart(compiled):
    arrays = np.zeros(8, np.float32), np.zeros(4, np.float32)
    plans = {fuse: qgraph.kernel(beside, fuse=fuse).plan(*arrays) for fuse in (False, True)}
    assert [len(plans[fuse].nodes) for fuse in (False, True)] == [2, 1]
    fresh = {fuse: compile_cuda(plan, (9, 0), Options(fuse=fuse)) for fuse, plan in plans.items()}
    assert len(compiled) == 3
    again = {fuse: compile_cuda(plan, (9, 0), Options(fuse=fuse)) for fuse, plan in plans.items()}
    assert len(compiled) == 3
    assert again == fresh
    (together,) = again[True].codes.values()
    assert len(together.counts) == 2


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


def test_every_field_of_a_plan_comes_back(compiled):
    """Loops side by side, a device loop, a reduction with statements behind it, a fill."""

    @qgraph.kernel(fuse=True)
    def kernel(x, y, z, n: int):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2
        for i in range(y.shape[0]):
            y[i] = y[i] + 3
        for i in range(z.shape[0]):
            z[i] = 0
        c = 0
        while c < n:
            c += 1
            for i in range(x.shape[0]):
                c = max(c, int(x[i]))
        return c

    plan = kernel.plan(np.zeros(8, np.float32), np.zeros(9, np.float32), np.zeros(8, np.float32), 3)
    assert any(node.beside for node in plan.nodes)
    first = compile_cuda(plan, (9, 0), kernel.options)
    again = compile_cuda(plan, (9, 0), kernel.options)
    assert again.from_disk
    assert again == first
    assert repr(again.codes) == repr(first.codes)


def test_what_no_entry_can_hold_is_not_kept(compiled, monkeypatch):
    monkeypatch.setattr(artifact_cache, "_RECORDS", {})
    found = compile_cuda(many(), (9, 0), Options())
    assert found.unkept == "a plan with a Parameter"
    assert not compile_cuda(many(), (9, 0), Options()).from_disk


def test_without_reading_everything_is_compiled_and_replaced(compiled):
    first = compile_cuda(many(), (9, 0), Options())
    entries = store().usage()
    compiled.clear()
    again = compile_cuda(many(), (9, 0), Options(), read=False)
    assert len(compiled) == 2
    assert not again.from_disk
    assert (again.cubin, store().usage()) == (first.cubin, entries)


def test_what_was_made_by_files_that_are_gone_is_missing(compiled, monkeypatch):
    compile_cuda(many(), (9, 0), Options())
    monkeypatch.setattr(artifact_cache, "unchanged", lambda files: not any("nvJitLink" in path for path, _, _ in files))
    compiled.clear()
    again = compile_cuda(many(), (9, 0), Options())
    assert not again.from_disk, "the plan remembers its linker"
    assert compiled == [], "a task has none"
    monkeypatch.setattr(artifact_cache, "unchanged", lambda files: not files)
    assert not compile_cuda(many(), (9, 0), Options()).from_disk
    assert len(compiled) == 2


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
        assert (again.from_disk, len(compiled)) == (False, 2)
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
    assert (found.from_disk, found.unkept, len(compiled)) == (False, "", 2)
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
    cubin = artifact_cache.linked(text, (9, 0))
    monkeypatch.setattr(artifact_cache.link, "link", None)
    assert artifact_cache.linked(text, (9, 0)) == cubin
    with pytest.raises(TypeError):
        artifact_cache.linked(text, (8, 0))


def test_clear_cache_does_not_read_the_disk_again():
    @qgraph.kernel(backend="cpu")
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * 1.5

    x = np.zeros(3)
    assert kernel._read((x,))[1].variant.reads_disk
    kernel.clear_cache()
    assert not kernel._read((x,))[1].variant.reads_disk


def test_the_command_line_tells_and_clears(compiled, monkeypatch, capsys):
    def told(*arguments):
        assert main(["cache", *arguments]) == 0
        return capsys.readouterr().out

    store().write(f"task-{1:064x}", {}, [b"something"])
    assert os.environ["QGRAPH_CACHE_DIR"] in told()
    assert "entries  1" in told()
    assert "removed 1 entries" in told("clear")
    assert "entries  0" in told()
    monkeypatch.setenv("QGRAPH_CACHE", "0")
    assert "off" in told()
