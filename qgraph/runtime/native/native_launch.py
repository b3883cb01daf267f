"""Calls of the driver straight from machine code: to go through Python's bindings takes as long as a part of the call itself.

One function checks a guard and launches a graph; another patches many kernel nodes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from qgraph.compat.cpython import NO_ARGUMENT, ONE_ARGUMENT
from qgraph.errors import CudaError
from qgraph.runtime.driver.driver import call, driver
from qgraph.runtime.native.machine_code import MachineCode, new_words

# With this setting of cuda.bindings each thread has a default stream of its own.
ONE_DEFAULT = os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") in ("", "0")

# What a launch finds in its words, one of 64 bits each: what must be as it was, what to launch, and what others look at.
STREAM, CONTEXT, THREAD, EXECUTABLE, GET_CONTEXT, LAUNCH, OPEN, BUSY, IS_CAPTURING = range(9)
# What a patch finds: then come the nodes, each with the address of its parameters.
COUNT, SET_PARAMETERS, PATCHED, NODES = range(4)

# The driver is called without CPython's interpreter lock: it has locks of its own, and whoever holds one of those may wait for
# a thread that needs the interpreter. Who launches has said under the lock that it is busy, and nobody closes it before it is
# done. The `self` of a launch is a tuple of its words and of the counter's cell; that of a patch is its words.
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
  %status.place = alloca i32
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
  %open.word = getelementptr i64, ptr %words, i64 {OPEN}
  %open = load i64, ptr %open.word
  %is.open = icmp ne i64 %open, 0
  br i1 %is.open, label %go, label %other

go:
  %busy.word = getelementptr i64, ptr %words, i64 {BUSY}
  %busy = load i64, ptr %busy.word
  %busier = add i64 %busy, 1
  store i64 %busier, ptr %busy.word
  %state = call ptr @PyEval_SaveThread()
  %get.word = getelementptr i64, ptr %words, i64 {GET_CONTEXT}
  %get = load ptr, ptr %get.word
  %get.code = call i32 %get(ptr null, ptr %id.place)
  %there.is.one = icmp eq i32 %get.code, 0
  %id.word = getelementptr i64, ptr %words, i64 {CONTEXT}
  %id.then = load i64, ptr %id.word
  %id = load i64, ptr %id.place
  %same.id = icmp eq i64 %id, %id.then
  %same.context = and i1 %there.is.one, %same.id
  br i1 %same.context, label %here, label %elsewhere

here:
  %handle = inttoptr i64 %stream to ptr
  %capturing.word = getelementptr i64, ptr %words, i64 {IS_CAPTURING}
  %capturing = load ptr, ptr %capturing.word
  %is.never.captured = icmp eq ptr %capturing, null
  br i1 %is.never.captured, label %in.context, label %ask

ask:
  %capturing.code = call i32 %capturing(ptr %handle, ptr %status.place)
  %is.told = icmp eq i32 %capturing.code, 0
  %status = load i32, ptr %status.place
  %is.none = icmp eq i32 %status, 0
  %is.free = and i1 %is.told, %is.none
  br i1 %is.free, label %in.context, label %elsewhere

elsewhere:
  call void @PyEval_RestoreThread(ptr %state)
  store i64 %busy, ptr %busy.word
  br label %other

in.context:
  %executable.word = getelementptr i64, ptr %words, i64 {EXECUTABLE}
  %executable = load ptr, ptr %executable.word
  %launch.word = getelementptr i64, ptr %words, i64 {LAUNCH}
  %launch = load ptr, ptr %launch.word
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

define ptr @patch(ptr %self, ptr %nothing) {{
entry:
  %words = call ptr @PyByteArray_AsString(ptr %self)
  %count.word = getelementptr i64, ptr %words, i64 {COUNT}
  %count = load i64, ptr %count.word
  %set.word = getelementptr i64, ptr %words, i64 {SET_PARAMETERS}
  %set = load ptr, ptr %set.word
  %executable.word = getelementptr i64, ptr %words, i64 {PATCHED}
  %executable = load ptr, ptr %executable.word
  %state = call ptr @PyEval_SaveThread()
  br label %next

next:
  %number = phi i64 [ 0, %entry ], [ %following, %one ]
  %is.one = icmp slt i64 %number, %count
  br i1 %is.one, label %one, label %done

one:
  %twice = mul i64 %number, 2
  %node.number = add i64 %twice, {NODES}
  %node.word = getelementptr i64, ptr %words, i64 %node.number
  %node = load ptr, ptr %node.word
  %parameters.number = add i64 %node.number, 1
  %parameters.word = getelementptr i64, ptr %words, i64 %parameters.number
  %parameters = load ptr, ptr %parameters.word
  %code = call i32 %set(ptr %executable, ptr %node, ptr %parameters)
  %following = add i64 %number, 1
  %went.well = icmp eq i32 %code, 0
  br i1 %went.well, label %next, label %done

done:
  %last = phi i32 [ 0, %next ], [ %code, %one ]
  call void @PyEval_RestoreThread(ptr %state)
  %wide = sext i32 %last to i64
  %result = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %result
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


_CODE = MachineCode(_SOURCE, {"launch": ONE_ARGUMENT, "patch": NO_ARGUMENT})
_ADDRESSES: dict[str, int] = {}


def want() -> None:
    """Launches come so often that it pays to load the compiler, in a process that has not compiled anything."""
    _CODE.want()


def is_worth_it() -> bool:
    """Whether this takes no longer than it gains, and works."""
    return isinstance(driver, ModuleType) and _CODE.usable and _driver_has_all()


@lru_cache(maxsize=1)
def _driver_has_all() -> bool:
    try:
        for name in ("cuCtxGetId", "cuGraphLaunch", "cuStreamIsCapturing", "cuGraphExecKernelNodeSetParams"):
            address_of(name)
    except CudaError:
        return False
    return True


def launcher(words: bytearray, counter: Counter) -> Callable[[int], int | None]:
    """A function of a stream's handle that launches on it, and counts the launch, where all is as the words say.

    It gives the driver's code, 0 for success. None, and nothing ran, where the stream, thread or context is another one, the
    stream is being captured, or the word ``OPEN`` is 0. While it is in the driver other threads may run, and the word ``BUSY``
    is not 0.

    Args:
        words: a buffer of ``STREAM`` ... ``IS_CAPTURING``; the function holds it.
        counter: counts the launches.
    """
    made: Callable[[int], int | None] = _CODE.function("launch", (words, counter.cell))
    return made


def patcher(executable: Any, nodes: Sequence[tuple[Any, Any]]) -> Callable[[], int]:
    """A function that gives kernel nodes of ``executable`` their parameters; gives the driver's code, 0 for success.

    Args:
        executable: a CUgraphExec.
        nodes: each with its ``CUDA_KERNEL_NODE_PARAMS``, which are read at each call; the caller keeps them.
    """
    pairs = [int(value) for node, parameters in nodes for value in (node, parameters.getPtr())]
    head = {COUNT: len(nodes), SET_PARAMETERS: address_of("cuGraphExecKernelNodeSetParams"), PATCHED: int(executable)}
    words, _ = new_words([*(head[number] for number in range(NODES)), *pairs])
    made: Callable[[], int] = _CODE.function("patch", words)
    return made


def address_of(name: str) -> int:
    """Where the driver's function lies that ``cuda.bindings`` calls by this name."""
    found = _ADDRESSES.get(name)
    if found is None:
        kinds = driver.CUdriverProcAddress_flags
        kind = kinds.CU_GET_PROC_ADDRESS_LEGACY_STREAM if ONE_DEFAULT else kinds.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
        pointer, _ = call(driver.cuGetProcAddress, name.encode(), 12000, kind)
        found = _ADDRESSES[name] = int(pointer)
    return found
