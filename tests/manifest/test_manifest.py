"""The manifest notices what changes, says which entry it is, and does not notice what only moved."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from qgraph.lowering.codegen import reduction_codegen
from tests.manifest import __main__ as command
from tests.manifest.entries import Entry, differences, read, written
from tests.manifest.lowered import lowered
from tests.manifest.recording import run_as_plain_python

pytestmark = pytest.mark.needs("compiler")

KERNELS = """
import numpy as np
import qgraph

@qgraph.kernel(backend="cpu")
def total(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    t = np.sum(x)
    for i in range(x.shape[0]):
        x[i] += s + t

@qgraph.kernel(backend="cpu")
def scale(x):
    for i in range(x.shape[0]):
        x[i] *= 2

def test_both():
    x = np.ones(3)
    total(x)
    scale(x)
    assert list(x) == [14] * 3
"""


def kernels_in(file, text):
    """The module in ``file``, which gets this text."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("some_kernels", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries_of(module):
    """What the kernels of a module come to: by entry, the names of its loops."""
    found = []
    with pytest.MonkeyPatch.context() as patches:
        run_as_plain_python(patches, found.append)
        module.total.clear_cache()
        module.scale.clear_cache()
        module.total(np.ones(3))
        module.scale(np.ones(3))
    return {each.entry: each.titles for each in (lowered(specialisation, set()) for specialisation in found)}


def test_a_change_of_the_code_is_one_entry(tmp_path, monkeypatch, capsys):
    module = kernels_in(tmp_path / "kernels.py", KERNELS)
    monkeypatch.setattr(command, "MANIFEST", tmp_path / "manifest.txt")
    command.MANIFEST.write_text(written(entries_of(module), command.versions()))
    assert command.report(entries_of(module), None) == 0
    assert capsys.readouterr().out == "2 entries, 0 differ\n"

    monkeypatch.setattr(reduction_codegen, "_WARPS", 4)
    assert command.report(entries_of(module), None) == 1
    line, count, how = capsys.readouterr().out.splitlines()
    assert line.startswith("changed  kernels.py::total [")
    assert "cuda: the generated source (total_L8, total_L10)" in line
    assert "the plan" not in line
    assert "cpu" not in line
    assert count == "2 entries, 1 differ"
    assert "--dump" in how


def test_lines_and_places_say_nothing(tmp_path):
    here = entries_of(kernels_in(tmp_path / "kernels.py", KERNELS))
    there = entries_of(kernels_in(tmp_path / "further" / "moved.py", "\n" * 97 + KERNELS))
    assert {(each.hashes, each.loops) for each in here} == {(each.hashes, each.loops) for each in there}
    told = sorted(line.split()[0] + line.partition("]")[2] for line in differences(here, there, there))
    moved = sorted(f"new, as was kernels.py::{each.kernel} [{each.types}]" for each in here)
    assert told == ["gone", "gone", *moved]


def test_what_is_written_is_read():
    entries = [
        Entry("a.py", "f", "0" * 8, ("1" * 16, "", "2" * 16, "", ""), ""),
        Entry("b.py", "g.<locals>.h", "1", ("3",) * 5, "4"),
    ]
    assert read(written(entries, "python 3")) == (entries, "python 3")


def test_processes_agree(tmp_path):
    kernels_in(tmp_path / "test_kernels.py", KERNELS)
    alone, spread = (command.collect([str(tmp_path / "test_kernels.py")], jobs) for jobs in ("0", "2"))
    assert sorted(each["entry"]["kernel"] for each in alone) == ["scale", "total"]
    assert sorted(map(str, alone)) == sorted(map(str, spread))


def test_a_process_that_ends_is_noticed(tmp_path, capfd):
    (tmp_path / "test_kernels.py").write_text(f"{KERNELS}\ndef test_that_ends_it():\n    __import__('os')._exit(1)\n")
    assert command.collect([str(tmp_path / "test_kernels.py")], "2") is None
    assert "node down" in capfd.readouterr().err
