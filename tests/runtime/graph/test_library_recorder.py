"""Who computes a library call on CUDA, and what is told where nobody can."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import qgraph
from qgraph.nodes.library_call import LibraryCall
from qgraph.runtime.arguments.array_adapters import adopt
from qgraph.runtime.driver import driver as cuda_driver
from qgraph.runtime.graph import library_recorder


def ours(x):
    x += 1


def theirs(x):
    x += 1


theirs.__module__ = "cupy.somewhere"


@pytest.fixture
def chosen(monkeypatch):
    """The name of the library that is asked, of those that are installed and imported, for arrays of some."""

    def choose(function, installed=(), imported=(), owners=()):
        for name in ("torch", "cupy"):
            monkeypatch.delitem(sys.modules, name, raising=False)
            if name in imported:
                monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setattr(library_recorder, "find_spec", lambda name: name if name in installed else None)
        monkeypatch.setattr(library_recorder.importlib, "import_module", lambda name: name)
        plan = qgraph.kernel(function).plan(np.eye(3), np.zeros(3), np.zeros(3))
        (call,) = (node.what for node in plan.nodes if isinstance(node.what, LibraryCall))
        views = [SimpleNamespace(owner=type("Array", (), {"__module__": f"{each}.arrays"})()) for each in owners]
        return library_recorder._library(call, views)

    return choose


def solved(a, x, y):
    x[:] = np.linalg.solve(a, y)


def ordered(a, x, y):
    x[:] = np.sort(y)


def sought(a, x, y):
    x[:] = np.searchsorted(y, x)


def called(a, x, y):
    qgraph.call(ours, x)


def called_of_theirs(a, x, y):
    qgraph.call(theirs, x)


BOTH = ("torch", "cupy")


@pytest.mark.parametrize(
    ("function", "given", "wanted"),
    [
        (ordered, {"installed": BOTH}, "torch"),
        (ordered, {"installed": ("cupy",)}, "cupy"),
        (ordered, {"installed": BOTH, "imported": ("cupy",)}, "cupy"),
        (ordered, {"installed": BOTH, "imported": BOTH}, "torch"),
        (ordered, {"installed": BOTH, "imported": BOTH, "owners": ("qgraph", "cupy", "torch")}, "cupy"),
        (solved, {"installed": BOTH, "imported": ("cupy",), "owners": ("cupy",)}, "torch"),
        (sought, {"installed": BOTH, "owners": ("cupy",)}, "torch"),
        (called, {"installed": BOTH, "owners": ("numpy",)}, "torch"),
        (called_of_theirs, {"installed": BOTH, "imported": BOTH, "owners": ("torch",)}, "cupy"),
    ],
)
def test_who_is_asked(chosen, function, given, wanted):
    assert chosen(function, **given) == wanted


@pytest.mark.parametrize(
    ("function", "installed", "names"),
    [(ordered, (), "PyTorch or CuPy"), (solved, ("cupy",), "PyTorch"), (called, (), "PyTorch or CuPy")],
)
def test_nobody_is_installed(chosen, function, installed, names):
    with pytest.raises(qgraph.BackendError) as caught:
        chosen(function, installed)
    text = str(caught.value)
    assert f"is computed by a library, and {names} is not installed" in text
    assert "help: pip install 'qgraph-jit[libs]'" in text
    assert f"test_library_recorder.py:{function.__code__.co_firstlineno + 1}" in text


def test_the_plan_says_who():
    arrays = np.eye(3), np.zeros(3), np.zeros(3)
    assert "    on CUDA by PyTorch\n" in f"{qgraph.kernel(solved).plan(*arrays)}\n"
    assert "    on CUDA by PyTorch or CuPy: the one whose" in str(qgraph.kernel(ordered).plan(*arrays))


class Tensors(ModuleType):
    """PyTorch, as far as exporting goes: of what it was given it makes NumPy's arrays."""

    def __init__(self, memory):
        super().__init__("torch")
        self._memory = memory

    def as_tensor(self, exported, device):
        found = exported.__cuda_array_interface__
        offset = found["data"][0] - self._memory.ctypes.data
        return np.ndarray(found["shape"], found["typestr"], self._memory.data, offset, found["strides"])


@pytest.mark.parametrize(
    "part", [np.s_[::-1, 1:], np.s_[1::2, ::-2], np.s_[::-2, ::-1], np.s_[2:, :], np.s_[:0:-1, :], np.s_[:0:-1, 3:3]]
)
def test_negative_strides_are_turned_for_pytorch(part):
    memory = np.arange(30.0).reshape(5, 6)
    array = memory[part]
    view = adopt(array, "x")
    found = library_recorder._array(Tensors(memory), view)
    axes = library_recorder._backwards(Tensors(memory), view)
    assert all(stride >= 0 for stride in found.strides)
    np.testing.assert_array_equal(np.flip(found, axes), array)


class OutOfMemoryError(RuntimeError):
    """As PyTorch and CuPy call it."""


class AcceleratorError(RuntimeError):
    """As PyTorch calls what the driver says."""


@pytest.mark.parametrize(
    ("code", "error", "kind", "told", "hint"),
    [
        (700, AcceleratorError("CUDA error: an illegal address"), qgraph.CudaError, "cuStreamQuery failed with ILL", "restart"),
        (0, OutOfMemoryError("CUDA out of memory.\nTried"), qgraph.CudaError, "cupy failed in `f`: CUDA out of mem", "free"),
        (600, AcceleratorError("CUDA error: unknown"), qgraph.CudaError, "cupy failed in `f`: CUDA error: unknown", None),
        (0, AcceleratorError("not permitted while capturing"), qgraph.ArgumentError, "cupy cannot compute `f`", "wait"),
        (0, TypeError(), qgraph.ArgumentError, "cupy cannot compute `f`: TypeError", "types"),
    ],
)
def test_what_is_told_of_a_librarys_error(monkeypatch, code, error, kind, told, hint):
    """That the context is lost; that the driver refused; else that the function and the arrays do not fit."""
    played = SimpleNamespace(
        cuStreamQuery=lambda stream: (code,), cuGetErrorName=lambda _: (0, b"ILL"), cuGetErrorString=lambda _: (0, b"words")
    )
    monkeypatch.setattr(library_recorder, "driver", played)
    monkeypatch.setattr(cuda_driver, "driver", played)
    found = library_recorder._told(error, SimpleNamespace(label="f", span=None), ModuleType("cupy"), 7)
    assert type(found) is kind
    assert found.found.startswith(told)
    assert found.hint is None if hint is None else hint in found.hint
