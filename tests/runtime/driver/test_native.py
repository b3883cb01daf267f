"""Functions for Python from LLVM's text."""

from __future__ import annotations

import gc
import signal
import threading
import types

import pytest

from qgraph.compat.cpython import NO_ARGUMENT, ONE_ARGUMENT
from qgraph.runtime.driver import native
from qgraph.runtime.driver.native import MachineCode, words_of

TEXT = """
declare ptr @PyByteArray_AsString(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare void @Py_IncRef(ptr)

define ptr @first(ptr %self, ptr %nothing) {
  %words = call ptr @PyByteArray_AsString(ptr %self)
  %number = load i64, ptr %words
  %result = call ptr @PyLong_FromLongLong(i64 %number)
  ret ptr %result
}

define ptr @given(ptr %self, ptr %argument) {
  call void @Py_IncRef(ptr %argument)
  ret ptr %argument
}
"""


def made():
    return MachineCode(TEXT, {"first": NO_ARGUMENT, "given": ONE_ARGUMENT})


def test_functions():
    words = words_of([-5, 7])
    code = made()
    first, given = code.function("first", words), code.function("given", None)
    assert first() == -5
    words[:8] = words_of([2**62])
    assert first() == 2**62
    assert given(words) is words
    with pytest.raises(TypeError):
        first(1)
    with pytest.raises(TypeError):
        given()


def test_a_function_holds_what_it_needs():
    first = made().function("first", words_of([3]))
    gc.collect()
    assert first() == 3


def test_what_is_usable(monkeypatch):
    # As in a process that compiled nothing.
    monkeypatch.setattr(native, "sys", types.SimpleNamespace(modules={}))
    code = made()
    assert not code.usable
    code.want()
    assert code.usable


def test_what_does_not_compile_is_not_usable(monkeypatch):
    import llvmlite.binding

    broken, asked = MachineCode("define ptr @first(", {"first": NO_ARGUMENT}), []
    broken.want()
    monkeypatch.setattr(llvmlite.binding, "initialize_native_target", lambda: asked.append(1))
    assert not broken.usable
    assert not broken.usable
    assert len(asked) == 1
    with pytest.raises(RuntimeError):
        broken.function("first", None)


def test_threads_that_compile_at_once():
    for _ in range(2):
        code, found, together = made(), [], threading.Barrier(4)

        def work(code=code, found=found, together=together):
            together.wait(30)
            first = code.function("first", words_of([len(found)]))
            gc.collect()
            found.append((first, first()))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(found) == 4
        assert all(first() == number for first, number in found)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals here")
def test_a_signal_handler_that_compiles_meanwhile():
    found = []
    for delay in (0.002, 0.01):
        code = made()

        def handler(_number, _frame, code=code):
            found.append(code.function("first", words_of([11])))

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            mine = code.function("first", words_of([12]))
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, before)
        gc.collect()
        assert mine() == 12
    assert all(first() == 11 for first in found)
