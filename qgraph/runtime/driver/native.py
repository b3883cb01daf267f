"""Machine code, from LLVM's text by llvmlite, for what every call does, where a line of Python takes as long as all of it.

``launcher`` launches a graph, ``patcher`` gives many kernel nodes their parameters, ``look_at`` tells whether tensors are where
they were. ``may_launch`` and ``may_look`` say whether they can be had. Where they cannot, callers do the same in Python: to
import llvmlite takes a tenth of a second, which a process that compiles nothing need not wait for.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from qgraph import forks
from qgraph.compat.cpython import ARGUMENTS, CLASS_WORD, NO_ARGUMENT, ONE_ARGUMENT, MethodDef, new_function, pointer_in
from qgraph.errors import CudaError
from qgraph.runtime.driver.driver import call, driver
from qgraph.runtime.driver.stream import LASTING, ONE_DEFAULT

# https://dmlc.github.io/dlpack/latest/python_spec.html: ``__dlpack_c_exchange_api__`` of an array's type is a capsule with a
# table of functions, whose major version is the lower half of its first word. The sixth says where an array's elements are, and
# holds nothing.
_CAPSULE, _MAJOR, _FROM_OBJECT = b"dlpack_exchange_api", 1, 5
# Words of a ``DLTensor``: address, device, number of axes and dtype, pointers to extents and strides, offset in bytes.
# There are strides where there are axes, since DLPack 1.2.
_DATA, _DEVICE, _KIND, _SHAPE, _STRIDES, _OFFSET = range(6)
_KNOWN_WORDS = 6

# The driver is called without CPython's interpreter lock: it has locks of its own, and whoever holds one of those may wait for
# a thread that needs the interpreter. The `self` of ``launch`` is a tuple of its words, what acquires and what releases the
# lock, and the counter; that of ``patch`` is its words. That of ``same`` is a tuple of its words (how many tensors, DLPack's
# function, and the tensors), then the ``is_neg`` of each class, then the classes.
_TEXT = f"""
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyByteArray_AsString(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare void @PyErr_Clear()
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; Whether it is open, stream, context, executable, cuCtxGetId, cuGraphLaunch, cuStreamIsCapturing or null, counter.
%Launch = type {{ i64, i64, i64, ptr, ptr, ptr, ptr, ptr }}
; How many nodes, executable, cuGraphExecKernelNodeSetParams.
%Patch = type {{ i64, ptr, ptr }}
%Node = type {{ ptr, ptr }}

define ptr @launch(ptr %self, ptr %argument) {{
  %id.place = alloca i64
  %status.place = alloca i32
  %acquire = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %locked = call ptr @PyObject_CallNoArgs(ptr %acquire)
  %is.interrupted = icmp eq ptr %locked, null
  br i1 %is.interrupted, label %interrupted, label %with.lock

with.lock:
  call void @Py_DecRef(ptr %locked)
  %buffer = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %words = call ptr @PyByteArray_AsString(ptr %buffer)
  %then = load %Launch, ptr %words
  %open = extractvalue %Launch %then, 0
  %is.open = icmp ne i64 %open, 0
  %stream = call i64 @PyLong_AsLongLong(ptr %argument)
  %stream.then = extractvalue %Launch %then, 1
  %same.stream = icmp eq i64 %stream, %stream.then
  %may.go = and i1 %is.open, %same.stream
  br i1 %may.go, label %go, label %other

go:
  %handle = inttoptr i64 %stream to ptr
  %state = call ptr @PyEval_SaveThread()
  %get = extractvalue %Launch %then, 4
  %get.code = call i32 %get(ptr null, ptr %id.place)
  %there.is.one = icmp eq i32 %get.code, 0
  %id.then = extractvalue %Launch %then, 2
  %id = load i64, ptr %id.place
  %same.id = icmp eq i64 %id, %id.then
  %same.context = and i1 %there.is.one, %same.id
  br i1 %same.context, label %here, label %elsewhere

here:
  %capturing = extractvalue %Launch %then, 6
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
  br label %other

in.context:
  %executable = extractvalue %Launch %then, 3
  %launch = extractvalue %Launch %then, 5
  %code = call i32 %launch(ptr %executable, ptr %handle)
  call void @PyEval_RestoreThread(ptr %state)
  %went.well = icmp eq i32 %code, 0
  %one = zext i1 %went.well to i64
  %counter = extractvalue %Launch %then, 7
  %before = load i64, ptr %counter
  %after = add i64 %before, %one
  store i64 %after, ptr %counter
  %wide = sext i32 %code to i64
  %result = call ptr @PyLong_FromLong(i64 %wide)
  br label %unlock

other:
  ; What is no number is another stream.
  call void @PyErr_Clear()
  %none = inttoptr i64 {id(None)} to ptr
  call void @Py_IncRef(ptr %none)
  br label %unlock

unlock:
  %answer = phi ptr [ %result, %in.context ], [ %none, %other ]
  %release = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %released = call ptr @PyObject_CallNoArgs(ptr %release)
  call void @Py_DecRef(ptr %released)
  ret ptr %answer

interrupted:
  ret ptr null
}}

define ptr @patch(ptr %self, ptr %nothing) {{
entry:
  %words = call ptr @PyByteArray_AsString(ptr %self)
  %head = load %Patch, ptr %words
  %count = extractvalue %Patch %head, 0
  %executable = extractvalue %Patch %head, 1
  %set = extractvalue %Patch %head, 2
  %nodes = getelementptr %Patch, ptr %words, i64 1
  %state = call ptr @PyEval_SaveThread()
  br label %next

next:
  %number = phi i64 [ 0, %entry ], [ %following, %one ]
  %is.one = icmp slt i64 %number, %count
  br i1 %is.one, label %one, label %done

one:
  %place = getelementptr %Node, ptr %nodes, i64 %number
  %each = load %Node, ptr %place
  %node = extractvalue %Node %each, 0
  %parameters = extractvalue %Node %each, 1
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

; Of each tensor its class, address, device, number of axes and dtype, and how many axes; extents and strides follow.
%Then = type {{ i64, i64, i64, i64, i64 }}
; A ``DLTensor``: address, device, number of axes and dtype, extents, strides, offset in bytes.
%Tensor = type {{ i64, i64, i64, ptr, ptr, i64 }}

define ptr @same(ptr %self, ptr %arguments, i64 %given) {{
entry:
  %tensor = alloca %Tensor
  %buffer = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %words = call ptr @PyByteArray_AsString(ptr %buffer)
  %count = load i64, ptr %words
  %look.word = getelementptr i64, ptr %words, i64 1
  %look = load ptr, ptr %look.word
  %first = getelementptr i64, ptr %words, i64 2
  %as.many = icmp eq i64 %given, %count
  br i1 %as.many, label %next, label %no

next:
  %number = phi i64 [ 0, %entry ], [ %following, %has.answered ]
  %place = phi ptr [ %first, %entry ], [ %end, %has.answered ]
  %is.one = icmp slt i64 %number, %count
  br i1 %is.one, label %one, label %yes

one:
  %argument.place = getelementptr ptr, ptr %arguments, i64 %number
  %argument = load ptr, ptr %argument.place
  %class.place = getelementptr i64, ptr %argument, i64 {CLASS_WORD}
  %class = load i64, ptr %class.place
  %then = load %Then, ptr %place
  %class.then = extractvalue %Then %then, 0
  %same.class = icmp eq i64 %class, %class.then
  br i1 %same.class, label %of.class, label %no

of.class:
  %code = call i32 %look(ptr %argument, ptr %tensor)
  %seen = icmp eq i32 %code, 0
  br i1 %seen, label %is.seen, label %failed

is.seen:
  %now = load %Tensor, ptr %tensor
  %data = extractvalue %Tensor %now, 0
  %offset = extractvalue %Tensor %now, 5
  %address = add i64 %data, %offset
  %address.then = extractvalue %Then %then, 1
  %same.address = icmp eq i64 %address, %address.then
  %device = extractvalue %Tensor %now, 1
  %device.then = extractvalue %Then %then, 2
  %same.device = icmp eq i64 %device, %device.then
  %kind = extractvalue %Tensor %now, 2
  %kind.then = extractvalue %Then %then, 3
  %same.kind = icmp eq i64 %kind, %kind.then
  %same.place = and i1 %same.address, %same.device
  %same.all = and i1 %same.place, %same.kind
  br i1 %same.all, label %shape, label %no

shape:
  %axes = extractvalue %Then %then, 4
  %size = mul i64 %axes, 8
  %extents.then = getelementptr %Then, ptr %place, i64 1
  %strides.then = getelementptr i64, ptr %extents.then, i64 %axes
  %end = getelementptr i64, ptr %strides.then, i64 %axes
  %extents = extractvalue %Tensor %now, 3
  %strides = extractvalue %Tensor %now, 4
  %other.extents = call i32 @memcmp(ptr %extents, ptr %extents.then, i64 %size)
  %other.strides = call i32 @memcmp(ptr %strides, ptr %strides.then, i64 %size)
  %other.shape = or i32 %other.extents, %other.strides
  %same.shape = icmp eq i32 %other.shape, 0
  br i1 %same.shape, label %ask, label %no

ask:
  %following = add i64 %number, 1
  %is.negated = call ptr @PyTuple_GetItem(ptr %self, i64 %following)
  %negated = call ptr @PyObject_CallOneArg(ptr %is.negated, ptr %argument)
  %answered = icmp ne ptr %negated, null
  br i1 %answered, label %has.answered, label %failed

has.answered:
  call void @Py_DecRef(ptr %negated)
  %plain = icmp eq ptr %negated, inttoptr (i64 {id(False)} to ptr)
  br i1 %plain, label %next, label %no

failed:
  call void @PyErr_Clear()
  br label %no

yes:
  call void @Py_IncRef(ptr inttoptr (i64 {id(True)} to ptr))
  ret ptr inttoptr (i64 {id(True)} to ptr)

no:
  call void @Py_IncRef(ptr inttoptr (i64 {id(False)} to ptr))
  ret ptr inttoptr (i64 {id(False)} to ptr)
}}
"""


class MachineCode:
    """Some functions: their text, and by name how each is called. They are ``ptr (ptr self, ...)``, as CPython has it."""

    def __init__(self, text: str, calls: Mapping[str, int]) -> None:
        self._text, self._calls = text, calls
        self._wanted = self._fails = False
        # A signal's handler may want it while this very thread compiles.
        self._lock = forks.rlock()
        # Code lives as long as its engine, and functions look at methods: nothing leaves this list, and the first is used.
        self._made: list[tuple[Any, dict[str, MethodDef]]] = []

    def want(self) -> None:
        """It is worth loading the compiler."""
        self._wanted = True

    @property
    def usable(self) -> bool:
        """Whether it can be had without a wait, and compiles here.

        To be asked first: an error of the compiler would be taken for one of the call that is to be made faster.
        """
        if self._made:
            return True
        if self._fails or not (self._wanted or "llvmlite.binding" in sys.modules):
            return False
        try:
            self._compile()
        except (ImportError, RuntimeError):
            self._fails = True
        return not self._fails

    def function(self, name: str, own: object) -> Any:
        """A function for Python whose ``self`` is ``own``: that lives as long as it does, also while it is being called."""
        if not self._made:
            self._compile()
        # As its module it holds this object.
        return new_function(self._made[0][1][name], own, self)

    def _compile(self) -> None:
        with self._lock:
            if not self._made:
                self._made.append(self._compiled())

    def _compiled(self) -> tuple[Any, dict[str, MethodDef]]:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(self._text)
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        return engine, {
            name: MethodDef(name.encode(), engine.get_function_address(name), how, None) for name, how in self._calls.items()
        }


_CODE = MachineCode(_TEXT, {"launch": ONE_ARGUMENT, "patch": NO_ARGUMENT, "same": ARGUMENTS})


def words_of(values: Sequence[int]) -> bytearray:
    """A buffer of 64-bit words with these values."""
    return bytearray((ctypes.c_int64 * len(values))(*values))


# --- the driver --------------------------------------------------------------------------------------------------------


def want() -> None:
    """Launches come so often that it pays to load the compiler, in a process that has not compiled anything."""
    _CODE.want()


def may_launch() -> bool:
    """Whether ``launcher`` and ``patcher`` take no longer than they gain, and work."""
    return isinstance(driver, ModuleType) and _CODE.usable and _driver_has_all()


@lru_cache(maxsize=1)
def _driver_has_all() -> bool:
    try:
        for name in ("cuCtxGetId", "cuGraphLaunch", "cuStreamIsCapturing", "cuGraphExecKernelNodeSetParams"):
            address_of(name)
    except CudaError:
        return False
    return True


def launcher(
    stream: int, context: int, executable: Any, lock: Any, counter: ctypes.c_int64
) -> tuple[Callable[[int], int | None], bytearray]:
    """A function of a stream's handle that launches ``executable``, a CUgraphExec; gives the driver's code, 0 for success.

    None, and nothing ran, where that is not ``stream``, it is being captured, the current context has another number, or the
    buffer, which comes second, begins with 0. It holds ``lock`` meanwhile, and counts what went well.
    """
    # Asking takes some of the time of a launch; the default stream is never captured.
    capturing = 0 if stream in LASTING else address_of("cuStreamIsCapturing")
    calls = address_of("cuCtxGetId"), address_of("cuGraphLaunch"), capturing
    words = words_of([1, stream, context, int(executable), *calls, ctypes.addressof(counter)])
    made: Callable[[int], int | None] = _CODE.function("launch", (words, lock.acquire, lock.release, counter))
    return made, words


def patcher(executable: Any, nodes: Sequence[tuple[Any, Any]]) -> Callable[[], int]:
    """A function that gives kernel nodes of ``executable`` their parameters; gives the driver's code, 0 for success.

    Args:
        executable: a CUgraphExec.
        nodes: each with its ``CUDA_KERNEL_NODE_PARAMS``, which are read at each call; the caller keeps them.
    """
    pairs = [int(value) for node, parameters in nodes for value in (node, parameters.getPtr())]
    words = words_of([len(nodes), int(executable), address_of("cuGraphExecKernelNodeSetParams"), *pairs])
    made: Callable[[], int] = _CODE.function("patch", words)
    return made


_ADDRESSES: dict[str, int] = {}


def address_of(name: str) -> int:
    """Where the driver's function lies that ``cuda.bindings`` calls by this name."""
    found = _ADDRESSES.get(name)
    if found is None:
        kinds = driver.CUdriverProcAddress_flags
        kind = kinds.CU_GET_PROC_ADDRESS_LEGACY_STREAM if ONE_DEFAULT else kinds.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
        pointer, _ = call(driver.cuGetProcAddress, name.encode(), 12000, kind)
        found = _ADDRESSES[name] = int(pointer)
    return found


# --- tensors -----------------------------------------------------------------------------------------------------------


def may_look(value: Any) -> bool:
    """Whether ``look_at`` sees the live tensor ``value``, and takes no longer than it gains.

    Nor does DLPack tell whether elements are conjugated when they are read: real ones never are.
    """
    return _CODE.usable and _function_of(type(value)) != 0 and not value.is_complex() and not value.is_neg()


def look_at(values: Sequence[Any]) -> Callable[..., bool]:
    """A function of as many objects: whether they are tensors with elements of the same types in the same places as these now.

    None of them has elements that are negated when they are read.

    It does not hold them. Each must be one that ``may_look`` said yes to, and all of one library.
    """
    look = _function_of(type(values[0]))
    words = [len(values), look]
    for value in values:
        tensor = (ctypes.c_int64 * _KNOWN_WORDS)()
        ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(look)(value, ctypes.addressof(tensor))
        axes = tensor[_KIND] & 0xFFFFFFFF
        words += [id(type(value)), tensor[_DATA] + tensor[_OFFSET], tensor[_DEVICE], tensor[_KIND], axes]
        for pointer in (tensor[_SHAPE], tensor[_STRIDES]) if axes else ():
            words += (ctypes.c_int64 * axes).from_address(pointer)
    classes: list[Any] = [*map(type, values)]
    asked = [cls.is_neg for cls in classes]
    made: Callable[..., bool] = _CODE.function("same", (words_of(words), *asked, *classes))
    return made


def _find_function(cls: type) -> int:
    """The address of the function that says where an array's elements are, 0 where there is none that is known."""
    capsule = getattr(cls, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return 0
    try:
        table = (ctypes.c_uint64 * (_FROM_OBJECT + 1)).from_address(pointer_in(capsule, _CAPSULE))
    except ValueError:  # no capsule, or another one
        return 0
    return table[_FROM_OBJECT] if table[0] & 0xFFFFFFFF == _MAJOR else 0


_function_of: Callable[[type], int] = lru_cache(maxsize=64)(_find_function)
