"""One look at several objects that are known by weak references, instead of a call for each."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from qgraph.runtime.machine_code import ARGUMENTS, MachineCode

# The `self` of the function is the tuple of the references. None stands for an object that is gone, so it is none of them.
_TEXT = f"""
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyWeakref_GetObject(ptr)
declare void @Py_IncRef(ptr)

define ptr @same(ptr %self, ptr %arguments, i64 %given) {{
entry:
  %count = call i64 @PyTuple_Size(ptr %self)
  %as.many = icmp eq i64 %given, %count
  br i1 %as.many, label %next, label %no

next:
  %number = phi i64 [ 0, %entry ], [ %following, %is.same ]
  %is.one = icmp slt i64 %number, %count
  br i1 %is.one, label %one, label %yes

one:
  %reference = call ptr @PyTuple_GetItem(ptr %self, i64 %number)
  %object = call ptr @PyWeakref_GetObject(ptr %reference)
  %argument.place = getelementptr ptr, ptr %arguments, i64 %number
  %argument = load ptr, ptr %argument.place
  %same = icmp eq ptr %object, %argument
  %gone = icmp eq ptr %object, inttoptr (i64 {id(None)} to ptr)
  %kept = xor i1 %gone, true
  %both = and i1 %same, %kept
  br i1 %both, label %is.same, label %no

is.same:
  %following = add i64 %number, 1
  br label %next

yes:
  %true = inttoptr i64 {id(True)} to ptr
  call void @Py_IncRef(ptr %true)
  ret ptr %true

no:
  %false = inttoptr i64 {id(False)} to ptr
  call void @Py_IncRef(ptr %false)
  ret ptr %false
}}
"""

_CODE = MachineCode(_TEXT, {"same": ARGUMENTS})
# Later versions of Python have another one; LLVM ends the process where it finds a name nowhere.
_FOUND = hasattr(ctypes.pythonapi, "PyWeakref_GetObject")


def can_look() -> bool:
    """Whether ``look_at`` works here, and takes no longer than it gains."""
    return _FOUND and _CODE.usable


def look_at(references: Sequence[weakref.ref[Any]]) -> Callable[..., bool]:
    """A function of as many objects: whether they are those of the references, none of which is gone."""
    made: Callable[..., bool] = _CODE.function("same", tuple(references))
    return made
