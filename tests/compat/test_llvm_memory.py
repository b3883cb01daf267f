"""What LLVM keeps of a kernel that was compiled for the CPU and dropped: nothing."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from llvmlite import binding
from llvmlite.binding import newpassmanagers
from numba.core import config
from numba.core.codegen import JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

import qgraph
from qgraph.compat import llvmlite, numba
from qgraph.lowering.numba_backend import cpu
from qgraph.lowering.numba_backend.dead_zero_fills import Library

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nobody looked at others")
C = ctypes.CDLL(None)


class Allocated(ctypes.Structure):
    """glibc's ``mallinfo2``."""

    _fields_: ClassVar = [*((f"other{each}", ctypes.c_size_t) for each in range(7)), ("uordblks", ctypes.c_size_t)]
    _fields_ += [("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]


def scaled(x, factor: qgraph.Static):
    for i in range(x.shape[0]):
        x[i] *= factor


def compiled(factor: float) -> None:
    """Compile a kernel, call it, and let go of it."""
    x = np.ones(8)
    qgraph.kernel(backend="cpu")(scaled)(x, factor)
    assert x.tolist() == [factor] * 8
    cpu.forget()
    gc.collect()


def in_use() -> int:
    """The bytes that are allocated, whatever the process has of the system."""
    C.mallinfo2.restype = Allocated
    return C.mallinfo2().uordblks


NEEDS_MALLINFO = pytest.mark.skipif(not hasattr(C, "mallinfo2"), reason="glibc 2.33")

# LLVM keeps each text of metadata in the module's context, as it does what it notes of loops and of inlined calls.
TEXT = """
define void @outer_{n}(ptr %to) {{
  store double {n}.5, ptr %to
  ret void
}}
!told = !{{!0}}
!0 = !{{!"{n:04000}"}}
"""


def library(number: int) -> Library:
    """A library with that text, as machine code."""
    made = Library(JITCPUCodegen("codegen"), "library")
    made.add_llvm_module(made._context.parse(TEXT.format(n=number)))
    with global_compiler_lock:
        made.finalize()
    return made


def growth(one: Callable[[int], object], warm: int, count: int) -> float:
    """How many bytes one of ``count`` calls leaves."""
    for number in range(warm):
        one(number)
    gc.collect()
    before = in_use()
    for number in range(warm, warm + count):
        one(number)
    gc.collect()
    return (in_use() - before) / count


@NEEDS_MALLINFO
def test_libraries_leave_nothing():
    llvmlite.free_passes()
    # They left 4.5 KB of callbacks, and 4 of metadata.
    assert growth(library, 8, 64) < 1024


@NEEDS_MALLINFO
def test_kernels_leave_what_python_keeps(monkeypatch):
    monkeypatch.setenv("QGRAPH_CACHE", "0")
    # It was 13 KB. Python's caches of the last kernels are being filled meanwhile.
    assert growth(lambda number: compiled(number + 2.5), 4, 10) < 4096


def test_an_engine_and_its_context_go_in_any_order():
    for _ in range(3):
        made = library(1)
        parts = [made, made._context, made._context._context, numba.final_module(made), numba.engine(made)]
        context = weakref.ref(parts[2])
        for each in parts:
            each.others = parts
        del made, parts, each
        # LLVM ends the process where a context goes before a module.
        gc.collect()
        assert context() is None


def test_a_context_takes_what_nobody_finished():
    made = library(1)
    made._context.parse(TEXT.format(n=2))
    rtsys.initialize(cpu_target.target_context)
    copied = made._context.copy(numba.module_for_linking(rtsys.library))
    assert "NRT_decref" in str(copied)
    del made
    gc.collect()
    assert copied.closed


def test_without_an_engine_that_tells_it_is_the_common_context(monkeypatch):
    monkeypatch.setattr(config, "LLVM_REFPRUNE_PASS", 0)
    made = library(1)
    monkeypatch.undo()
    assert made._context._context is None
    assert type(numba.engine(made)) is binding.ExecutionEngine


# --- pass builders -----------------------------------------------------------------------------------------------------


def builder_that_ran() -> Any:
    """A pass builder after a run, as Numba makes one for a library."""
    codegen = JITCPUCodegen("codegen")
    manager, builder = numba.NUMBA.part(codegen, "_module_pass_manager")()
    manager.run(binding.parse_assembly("define void @f() { ret void }"), builder)
    builder.codegen = codegen
    return builder


def test_the_callbacks_of_a_pass_builder_are_known():
    assert llvmlite._callbacks(builder_that_ran())


@pytest.mark.parametrize(
    ("name", "value"), [("_CALLBACKS", 0), ("_CALLBACKS", 64), ("_VECTORS", 9), ("_ROOM", 5), ("_PLAIN", 0)]
)
def test_callbacks_that_look_otherwise_stay(monkeypatch, name, value):
    builder = builder_that_ran()
    monkeypatch.setattr(llvmlite, name, value)
    assert llvmlite._callbacks(builder) == 0
    builder.close()


def test_pass_builders_of_another_release_stay_as_they_are(monkeypatch):
    def dispose(builder: Any) -> None:
        """As it was."""

    monkeypatch.setattr(newpassmanagers.PassBuilder, "_dispose", dispose)
    monkeypatch.setattr("llvmlite.__version__", "0.50.99")
    llvmlite.free_passes.__wrapped__()
    assert newpassmanagers.PassBuilder._dispose is dispose
