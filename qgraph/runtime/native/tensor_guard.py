"""Native guard of several tensors, by the C functions of DLPack 1.3 instead of a Python call for each attribute.

DLPack does not tell whether elements are negated when they are read, so each tensor is asked that as well (``is_neg``).

https://dmlc.github.io/dlpack/latest/python_spec.html: ``__dlpack_c_exchange_api__`` of an array's type is a capsule with a
table of functions. One of them says where the elements of an array are, and holds nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from qgraph.compat.cpython import ARGUMENTS, CLASS_WORD, pointer_in
from qgraph.runtime.native.machine_code import ANSWERS, NEEDED, MachineCode, new_words

_CAPSULE = b"dlpack_exchange_api"
# The major version of the table is the lower half of its first word; the function is the sixth one.
_MAJOR, _FROM_OBJECT = 1, 5
# Words of a ``DLTensor``: address, device, number of axes and dtype, pointers to extents and strides, offset in bytes.
# There are strides where there are axes, since DLPack 1.2.
_DATA, _DEVICE, _KIND, _SHAPE, _STRIDES, _OFFSET = range(6)
_KNOWN_WORDS = 6
# What the function finds in its words: how many arrays, the function; then of each its class, address, device, axes and dtype,
# how many axes, extents and strides. Its `self` is a tuple of them, then the ``is_neg`` of each class, then the classes.
_HEAD = 2

_TEXT = f"""
{NEEDED}declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyByteArray_AsString(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare void @PyErr_Clear()
declare void @Py_DecRef(ptr)

define ptr @same(ptr %self, ptr %arguments, i64 %given) {{
entry:
  %tensor = alloca [{_KNOWN_WORDS} x i64]
  %buffer = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %words = call ptr @PyByteArray_AsString(ptr %buffer)
  %count = load i64, ptr %words
  %as.many = icmp eq i64 %given, %count
  br i1 %as.many, label %begin, label %no

begin:
  %look.word = getelementptr i64, ptr %words, i64 1
  %look = load ptr, ptr %look.word
  %first = getelementptr i64, ptr %words, i64 {_HEAD}
  br label %next

next:
  %number = phi i64 [ 0, %begin ], [ %following, %has.answered ]
  %place = phi ptr [ %first, %begin ], [ %end, %has.answered ]
  %is.one = icmp slt i64 %number, %count
  br i1 %is.one, label %one, label %yes

one:
  %argument.place = getelementptr ptr, ptr %arguments, i64 %number
  %argument = load ptr, ptr %argument.place
  %class.place = getelementptr i64, ptr %argument, i64 {CLASS_WORD}
  %class = load i64, ptr %class.place
  %class.then = load i64, ptr %place
  %same.class = icmp eq i64 %class, %class.then
  br i1 %same.class, label %of.class, label %no

of.class:
  %code = call i32 %look(ptr %argument, ptr %tensor)
  %seen = icmp eq i32 %code, 0
  br i1 %seen, label %is.seen, label %failed

is.seen:
  %data = load i64, ptr %tensor
  %offset.place = getelementptr i64, ptr %tensor, i64 {_OFFSET}
  %offset = load i64, ptr %offset.place
  %address = add i64 %data, %offset
  %address.word = getelementptr i64, ptr %place, i64 1
  %address.then = load i64, ptr %address.word
  %same.address = icmp eq i64 %address, %address.then
  %device.place = getelementptr i64, ptr %tensor, i64 {_DEVICE}
  %device = load i64, ptr %device.place
  %device.word = getelementptr i64, ptr %place, i64 2
  %device.then = load i64, ptr %device.word
  %same.device = icmp eq i64 %device, %device.then
  %kind.place = getelementptr i64, ptr %tensor, i64 {_KIND}
  %kind = load i64, ptr %kind.place
  %kind.word = getelementptr i64, ptr %place, i64 3
  %kind.then = load i64, ptr %kind.word
  %same.kind = icmp eq i64 %kind, %kind.then
  %same.place = and i1 %same.address, %same.device
  %same.all = and i1 %same.place, %same.kind
  br i1 %same.all, label %shape, label %no

shape:
  %axes.word = getelementptr i64, ptr %place, i64 4
  %axes = load i64, ptr %axes.word
  %extents.then = getelementptr i64, ptr %place, i64 5
  %strides.then = getelementptr i64, ptr %extents.then, i64 %axes
  %end = getelementptr i64, ptr %strides.then, i64 %axes
  %shape.place = getelementptr i64, ptr %tensor, i64 {_SHAPE}
  %extents = load ptr, ptr %shape.place
  %strides.place = getelementptr i64, ptr %tensor, i64 {_STRIDES}
  %strides = load ptr, ptr %strides.place
  br label %axis

axis:
  %at = phi i64 [ 0, %shape ], [ %after, %same.axis ]
  %is.axis = icmp slt i64 %at, %axes
  br i1 %is.axis, label %one.axis, label %strides.done

one.axis:
  %extent.place = getelementptr i64, ptr %extents, i64 %at
  %extent = load i64, ptr %extent.place
  %extent.word = getelementptr i64, ptr %extents.then, i64 %at
  %extent.then = load i64, ptr %extent.word
  %same.extent = icmp eq i64 %extent, %extent.then
  %stride.place = getelementptr i64, ptr %strides, i64 %at
  %stride = load i64, ptr %stride.place
  %stride.word = getelementptr i64, ptr %strides.then, i64 %at
  %stride.then = load i64, ptr %stride.word
  %same.stride = icmp eq i64 %stride, %stride.then
  %same.both = and i1 %same.extent, %same.stride
  br i1 %same.both, label %same.axis, label %no

same.axis:
  %after = add i64 %at, 1
  br label %axis

strides.done:
  %following = add i64 %number, 1
  %ask = call ptr @PyTuple_GetItem(ptr %self, i64 %following)
  %negated = call ptr @PyObject_CallOneArg(ptr %ask, ptr %argument)
  %answered = icmp ne ptr %negated, null
  br i1 %answered, label %has.answered, label %failed

has.answered:
  call void @Py_DecRef(ptr %negated)
  %plain = icmp eq ptr %negated, inttoptr (i64 {id(False)} to ptr)
  br i1 %plain, label %next, label %no

failed:
  call void @PyErr_Clear()
  br label %no

{ANSWERS}}}
"""

_CODE = MachineCode(_TEXT, {"same": ARGUMENTS})


def can_look(value: Any) -> bool:
    """Whether ``look_at`` sees the live tensor ``value``, and takes no longer than it gains.

    Nor does DLPack tell whether elements are conjugated when they are read: real ones never are.
    """
    return _CODE.usable and _function_of(type(value)) != 0 and not value.is_complex() and not value.is_neg()


def look_at(values: Sequence[Any]) -> Callable[..., bool]:
    """A function of as many objects: whether they are tensors with elements of the same types in the same places as these now.

    None of them has elements that are negated when they are read.

    It does not hold them. Each must be one that ``can_look`` said yes to, and all of one library.
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
    made: Callable[..., bool] = _CODE.function("same", (new_words(words)[0], *asked, *classes))
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
