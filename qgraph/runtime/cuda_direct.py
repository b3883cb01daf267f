"""``cuGraphLaunch`` straight from machine code: to go through Python's bindings takes a fifth of the time of the launch itself.

A function for Python, built once a process with llvmlite, that looks whether everything is as it was, and launches.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qgraph.runtime.cuda_driver import call, driver

# With this setting of cuda.bindings each thread has a default stream of its own.
ONE_DEFAULT = os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") in ("", "0")

# What the function finds in its words, one of 64 bits each: what must be as it was, what to launch, and what others look at.
STREAM, CONTEXT, THREAD, EXECUTABLE, GET_CONTEXT, LAUNCH, OPEN, BUSY = range(8)
_WORDS = 8
_METH_O = 0x0008

# CPython's interpreter lock is held but for the launch itself, so nobody changes a word between the looks and the launch. Calls
# of the driver that do not wait are made under the lock. The function's `self` is a tuple of the words and the counter's cell.
_SOURCE = f"""
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyByteArray_AsString(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyErr_Occurred()
declare i64 @PyThread_get_thread_ident()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)

define ptr @launch(ptr %self, ptr %argument) {{
entry:
  %id.place = alloca i64
  %buffer = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %words = call ptr @PyByteArray_AsString(ptr %buffer)
  %stream = call i64 @PyLong_AsLongLong(ptr %argument)
  %may.be.wrong = icmp eq i64 %stream, -1
  br i1 %may.be.wrong, label %minus.one, label %number

minus.one:
  %error = call ptr @PyErr_Occurred()
  %is.wrong = icmp ne ptr %error, null
  br i1 %is.wrong, label %failed, label %number

number:
  %stream.word = getelementptr i64, ptr %words, i64 {STREAM}
  %stream.then = load i64, ptr %stream.word
  %same.stream = icmp eq i64 %stream, %stream.then
  br i1 %same.stream, label %on.stream, label %other

on.stream:
  %thread.word = getelementptr i64, ptr %words, i64 {THREAD}
  %thread.then = load i64, ptr %thread.word
  %thread = call i64 @PyThread_get_thread_ident()
  %same.thread = icmp eq i64 %thread, %thread.then
  br i1 %same.thread, label %on.thread, label %other

on.thread:
  %get.word = getelementptr i64, ptr %words, i64 {GET_CONTEXT}
  %get = load ptr, ptr %get.word
  %get.code = call i32 %get(ptr null, ptr %id.place)
  %there.is.one = icmp eq i32 %get.code, 0
  br i1 %there.is.one, label %with.context, label %other

with.context:
  %id.word = getelementptr i64, ptr %words, i64 {CONTEXT}
  %id.then = load i64, ptr %id.word
  %id = load i64, ptr %id.place
  %same.context = icmp eq i64 %id, %id.then
  br i1 %same.context, label %in.context, label %other

in.context:
  %open.word = getelementptr i64, ptr %words, i64 {OPEN}
  %open = load i64, ptr %open.word
  %is.open = icmp ne i64 %open, 0
  br i1 %is.open, label %go, label %other

go:
  %executable.word = getelementptr i64, ptr %words, i64 {EXECUTABLE}
  %executable = load ptr, ptr %executable.word
  %launch.word = getelementptr i64, ptr %words, i64 {LAUNCH}
  %launch = load ptr, ptr %launch.word
  %handle = inttoptr i64 %stream to ptr
  %busy.word = getelementptr i64, ptr %words, i64 {BUSY}
  %busy = load i64, ptr %busy.word
  %busier = add i64 %busy, 1
  store i64 %busier, ptr %busy.word
  %state = call ptr @PyEval_SaveThread()
  %code = call i32 %launch(ptr %executable, ptr %handle)
  call void @PyEval_RestoreThread(ptr %state)
  store i64 %busy, ptr %busy.word
  %went.well = icmp eq i32 %code, 0
  br i1 %went.well, label %count, label %done

count:
  %cell = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %number.place = call ptr @PyByteArray_AsString(ptr %cell)
  %before = load i64, ptr %number.place
  %after = add i64 %before, 1
  store i64 %after, ptr %number.place
  br label %done

done:
  %wide = sext i32 %code to i64
  %result = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %result

other:
  %none = inttoptr i64 {id(None)} to ptr
  call void @Py_IncRef(ptr %none)
  ret ptr %none

failed:
  ret ptr null
}}
"""


class Counter:
    """A number that machine code can count up: ``cell`` is its memory."""

    __slots__ = ("_number", "cell")

    def __init__(self) -> None:
        self.cell = bytearray(8)
        self._number = ctypes.c_int64.from_buffer(self.cell)

    @property
    def value(self) -> int:
        """The number."""
        return self._number.value

    def add(self) -> None:
        """Count one."""
        self._number.value += 1


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


@dataclass(slots=True)
class _Code:
    """The machine code of this process, and the driver's functions that it calls."""

    # Whether launches come so often that the compiler is worth loading.
    wanted: bool = False
    method: _MethodDef | None = None
    engine: Any = None
    addresses: dict[str, int] = field(default_factory=dict)


_CODE = _Code()


def want() -> None:
    """Launches come so often that it pays to load the compiler, in a process that has not compiled anything."""
    _CODE.wanted = True


def is_worth_it() -> bool:
    """Whether to make a direct launch takes no longer than it gains: a process that compiled nothing has to load llvmlite."""
    return _CODE.method is not None or _CODE.wanted or "llvmlite.binding" in sys.modules


def direct(words: bytearray, counter: Counter) -> Callable[[int], int | None]:
    """A function of a stream's handle that launches on it, and counts the launch, where all is as the words say.

    It gives the driver's code, 0 for success. None, and nothing ran, where the stream, thread or context is another one, or the
    word ``OPEN`` is 0. While it is in the driver other threads may run, and the word ``BUSY`` is not 0.

    Args:
        words: a buffer of ``STREAM`` ... ``BUSY``; the function holds it.
        counter: counts the launches.
    """
    method = _CODE.method or _compile()
    # The function's own `self`: what it uses lives as long as it does, also while it is being called.
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: Callable[[int], int | None] = make(ctypes.addressof(method), (words, counter.cell), None)
    return made


def new_words(values: Sequence[tuple[int, int]]) -> tuple[bytearray, Any]:
    """A buffer with these words set, each a number and its value, and an array that is the same memory."""
    buffer = bytearray(8 * _WORDS)
    words = (ctypes.c_int64 * _WORDS).from_buffer(buffer)
    for number, value in values:
        words[number] = value
    return buffer, words


def address_of(name: str) -> int:
    """Where the driver's function lies that ``cuda.bindings`` calls by this name."""
    found = _CODE.addresses.get(name)
    if found is None:
        kinds = driver.CUdriverProcAddress_flags
        kind = kinds.CU_GET_PROC_ADDRESS_LEGACY_STREAM if ONE_DEFAULT else kinds.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
        pointer, _ = call(driver.cuGetProcAddress, name.encode(), 12000, kind)
        found = _CODE.addresses[name] = int(pointer)
    return found


def _compile() -> _MethodDef:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_SOURCE)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    method = _MethodDef(b"launch", engine.get_function_address("launch"), _METH_O, None)
    # The code lives as long as the engine.
    _CODE.engine, _CODE.method = engine, method
    return method
