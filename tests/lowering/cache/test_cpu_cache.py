"""Machine code of CPU kernels on the disk: other processes run it, and what they could not run is compiled in each."""

from __future__ import annotations

import ctypes
import importlib.machinery
import json
import math
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from numba.core import config, types

import qgraph
from qgraph.compat import llvmlite
from qgraph.compat import numba as compat
from qgraph.ir.functions import ParallelFunction
from qgraph.lowering.cache.cpu_artifacts import CpuCache
from qgraph.lowering.cache.disk_cache import store
from qgraph.lowering.cache.key_texts import Unstable
from qgraph.lowering.compile import compile_cpu
from qgraph.lowering.numba_backend import cpu, elf, object_code
from qgraph.options import Options
from tests.conftest import THOROUGH
from tests.processes import ROOT, run_python

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="machine code is kept on Linux")
PROGRAM = ("-W", "error", "-m", "tests.lowering.cache.kept_kernels")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The cache is a new folder."""
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    monkeypatch.setenv("QGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_THREADING_LAYER", raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    return tmp_path / "cache"


def start(*more, **environment):
    """What a process says of its kernels."""
    done = run_python(*PROGRAM, *more, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


# --- other processes ---------------------------------------------------------------------------------------------------


@LINUX
@THOROUGH
def test_other_processes_run_every_kernel_without_numba(folder):
    """At other addresses and with other hashes; they compile what they must, and then their Numba is whole."""
    cold = start(PYTHONHASHSEED="1")
    assert set(map(tuple, cold["kernels"].values())) == {(False, "")}
    assert len(entries(folder)) == len(cold["kernels"]) == 12
    warm = start("clear", PYTHONHASHSEED="2")
    assert warm["place"] != cold["place"] or Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0"
    compiled = [name for name, (from_disk, _) in warm["kernels"].items() if not from_disk]
    assert compiled == ["complexes"], "which was told to"
    assert "numba" not in warm["compilers"] or "tbb" in sys.modules
    assert len(entries(folder)) == 12


@LINUX
@THOROUGH
def test_processes_that_compile_at_once(folder):
    processes = [subprocess.Popen([sys.executable, *PROGRAM, "one"], cwd=ROOT, stdout=subprocess.PIPE) for _ in range(2)]
    assert all(process.communicate(timeout=120)[0] and process.returncode == 0 for process in processes)
    assert len(entries(folder)) == 1
    assert start("one")["kernels"] == {"loops": [True, ""]}


@LINUX
def test_where_settings_say_which_threads_there_are_numba_is_asked():
    assert start("one", NUMBA_THREADING_LAYER="workqueue")["kernels"] == {"loops": [False, ""]}
    warm = start("one", NUMBA_THREADING_LAYER="workqueue")
    assert (warm["kernels"], "numba" in warm["compilers"]) == ({"loops": [True, ""]}, True)


FAILING = """
import ast, sys
import numpy as np
from qgraph.lowering.cache.cpu_artifacts import ObjectCode
from qgraph.lowering.numba_backend import object_code

call = object_code.load(ObjectCode(*ast.literal_eval(open(sys.argv[1]).read())))
assert "numba" not in sys.modules or sys.argv[2] == "tbb"
x = np.zeros(3)
for arguments in ((4, x, 0), (1, x, 0), (), (4, x), (None, x, 0), (4, x, -1), (4, x, "0"), (4, [1.0], 0), (0, x, 0)):
    try:
        print(call(*arguments))
    except (RuntimeError, ValueError, TypeError, OverflowError) as error:
        print(type(error).__name__, error)
"""


@LINUX
def test_errors_in_another_process_are_pythons_own(function, tmp_path):
    task = function("def task(chunk):\n    raise ValueError('in a chunk')")
    made = compiled(function("def k(n, x):\n    f(n)", f=ParallelFunction(task)), (types.int64, types.float64[::1]))
    code = object_code.code_of(made.library, made.entry, made.environments)
    (tmp_path / "code").write_text(repr((code.data, code.entry, code.environments, code.layer)))
    done = run_python("-c", FAILING, tmp_path / "code", code.layer)
    assert done.returncode == 0, done.stderr
    told = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert told[:2] == [["RuntimeError", "an iteration of a parallel loop failed"], ["ValueError", "in a chunk"]]
    kinds = ["TypeError", "TypeError", "TypeError", "OverflowError", "TypeError", "TypeError", "True"]
    assert [kind for kind, *_ in told[2:]] == kinds
    assert told[7][1].startswith("can't unbox array from PyObject into native value")


# --- what is kept ------------------------------------------------------------------------------------------------------


def compiled(code, kinds):
    return cpu.compile_control(code, kinds, watched=0, float_type="float64", fastmath=False)


def plan_of(factor=2.0):
    @qgraph.kernel
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * factor

    return kernel.plan(np.zeros(8))


@LINUX
def test_what_came_off_the_disk_is_what_was_compiled():
    first = compile_cpu(plan_of(), Options())
    again = compile_cpu(plan_of(), Options())
    assert (first.from_disk, first.unkept, again.from_disk, again.unkept) == (False, "", True, "")
    assert (again.source, again.parameters, again.dtypes, again.loops) == (
        first.source,
        first.parameters,
        first.dtypes,
        first.loops,
    )
    assert not compile_cpu(plan_of(), Options(), read=False).from_disk
    assert not compile_cpu(plan_of(3.0), Options()).from_disk
    assert not compile_cpu(plan_of(), Options(fastmath=True)).from_disk
    assert store().usage().entries == 3


def test_where_the_cache_is_off_nothing_is_kept(monkeypatch, folder):
    monkeypatch.setenv("QGRAPH_CACHE", "0")
    found = compile_cpu(plan_of(), Options())
    assert (found.from_disk, found.unkept, folder.exists()) == (False, "", False)


@LINUX
def test_code_with_addresses_is_not_kept(function, monkeypatch):
    held = object()
    for number, has_address in ((id(held), True), (1 << 44, False), (70_000, False)):
        made = compiled(function(f"def k(o):\n    o[0] = o[1] + {number}"), (types.int64[::1],))
        if has_address:
            with pytest.raises(Unstable, match="an address of this process"):
                object_code.code_of(made.library, made.entry, made.environments)
        else:
            object_code.code_of(made.library, made.entry, made.environments)
    made = compiled(function("def k(o):\n    o[0] = erf(o[1])", erf=math.erf), (types.float64[::1],))
    object_code.code_of(made.library, made.entry, made.environments)
    monkeypatch.setattr(object_code, "_ANYWHERE", re.compile("_?Py.*"))
    with pytest.raises(Unstable, match=r"calls erf\(\)"):
        object_code.code_of(made.library, made.entry, made.environments)
    monkeypatch.setattr(compat, "object_code", lambda library: b"MZ")
    with pytest.raises(Unstable, match="another format: no ELF file"):
        object_code.code_of(made.library, made.entry, made.environments)


def test_what_cannot_be_kept_says_why(monkeypatch, caplog):
    def refuse(*_):
        raise Unstable("for some reason")

    monkeypatch.setattr(object_code, "code_of", refuse)
    caplog.set_level("INFO", "qgraph")
    found = compile_cpu(plan_of(), Options())
    assert found.unkept == "for some reason"
    assert "kernel() is compiled anew in every process: for some reason" in caplog.text
    assert store().usage().entries == 0


@LINUX
def test_other_processors_and_settings_have_other_keys(monkeypatch):
    def key():
        return CpuCache(plan_of(), Options())._key()

    found = [key(), key()]
    assert found.pop() == found[0] != ""
    name, features = llvmlite.host()
    for host in (("another", features), (name, f"{features},-avx2")):
        with monkeypatch.context() as changed:
            changed.setattr(llvmlite, "host", lambda host=host: host)
            found.append(key())
    for setting in ("NUMBA_OPT", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        with monkeypatch.context() as changed:
            changed.setenv(setting, "1")
            found.append(key())
    with monkeypatch.context() as changed:
        changed.setattr(importlib.machinery, "EXTENSION_SUFFIXES", [".cpython-3x-debug.so"])
        found.append(key())
    assert len(set(found)) == 7
    # What was set in this process alone, no other one would know.
    monkeypatch.delenv("NUMBA_OPT", raising=False)
    monkeypatch.setattr(config, "OPT", 1)
    assert key() == ""
    assert compile_cpu(plan_of(), Options()).unkept == "compiled with another numba.config.OPT than the environment's"


def test_a_c_function_is_called_otherwise_than_one_of_python():
    def noted():
        """A function of Python's, by the same name."""

    def key(called):
        @qgraph.kernel
        def kernel(x):
            qgraph.host_callback(called)
            x[0] = 1.0

        return CpuCache(kernel.plan(np.zeros(8)), Options())._key()

    in_c = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda pointer: None)
    assert "" != key(noted) != key(in_c) != ""


@LINUX
def test_entries_that_make_no_sense_are_compiled_over(monkeypatch):
    compile_cpu(plan_of(), Options())
    disk = store()
    (file,) = Path(disk.folder).iterdir()
    whole, key = file.read_bytes(), file.name.removesuffix(".qgc")
    file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    assert not compile_cpu(plan_of(), Options()).from_disk
    assert file.read_bytes() == whole
    entry = disk.read(key)
    wrong = {**entry.header, "code": {**entry.header["code"], "layer": 3, "more": 1}}
    no_code = zlib.compress(b"\x7fELF\x02\x01 and so on")
    senseless = (({}, []), ({"files": []}, [b"x"]), (entry.header, [b"x"]), (wrong, entry.blobs), (entry.header, [no_code]))
    for header, blobs in senseless:
        disk.write(key, header, blobs)
        assert not compile_cpu(plan_of(), Options()).from_disk
        assert compile_cpu(plan_of(), Options()).from_disk
    # A symbol that this process lacks would end it.
    monkeypatch.setattr(compat._RUNTIME, "helpers", {})
    monkeypatch.setattr(object_code, "_define", lambda names: False)
    assert not compile_cpu(plan_of(), Options()).from_disk


def test_object_files_that_are_cut():
    for data in (b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(100), b"\x7fELF\x02\x01" + bytes(100), b"\x7fELF\x02\x01"):
        with pytest.raises(ValueError, match=r"ELF|unpack"):
            elf.symbols_of(data)
