"""One look at several objects, some known by weak references, instead of a call or a comparison for each."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from qgraph.runtime.machine_code import ANSWERS, ARGUMENTS, NEEDED, MachineCode

# The `self` of the function is a tuple of two: the references, and the objects that come behind theirs. A reference gives None
# for an object that is gone, so none of its own is None.
_TEXT = f"""
{NEEDED}declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyWeakref_GetObject(ptr)

define ptr @same(ptr %self, ptr %arguments, i64 %given) {{
entry:
  %references = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %objects = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %weak = call i64 @PyTuple_Size(ptr %references)
  %others = call i64 @PyTuple_Size(ptr %objects)
  %count = add i64 %weak, %others
  %as.many = icmp eq i64 %given, %count
  br i1 %as.many, label %next.weak, label %no

next.weak:
  %number = phi i64 [ 0, %entry ], [ %following, %is.same ]
  %is.weak = icmp slt i64 %number, %weak
  br i1 %is.weak, label %one.weak, label %next

one.weak:
  %reference = call ptr @PyTuple_GetItem(ptr %references, i64 %number)
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
  br label %next.weak

next:
  %at = phi i64 [ 0, %next.weak ], [ %after, %one ]
  %is.one = icmp slt i64 %at, %others
  br i1 %is.one, label %one, label %yes

one:
  %after = add i64 %at, 1
  %kept.object = call ptr @PyTuple_GetItem(ptr %objects, i64 %at)
  %other.number = add i64 %weak, %at
  %other.place = getelementptr ptr, ptr %arguments, i64 %other.number
  %other = load ptr, ptr %other.place
  %is.it = icmp eq ptr %kept.object, %other
  br i1 %is.it, label %next, label %no

{ANSWERS}}}
"""

_CODE = MachineCode(_TEXT, {"same": ARGUMENTS})
# Later versions of Python have another one; LLVM ends the process where it finds a name nowhere.
_FOUND = hasattr(ctypes.pythonapi, "PyWeakref_GetObject")


def can_look() -> bool:
    """Whether ``look_at`` works here, and takes no longer than it gains."""
    return _FOUND and _CODE.usable


def look_at(references: Sequence[weakref.ref[Any]], objects: Sequence[object]) -> Callable[..., bool]:
    """A function of as many objects: whether the first are those of the references, none of which is gone, and others these."""
    made: Callable[..., bool] = _CODE.function("same", (tuple(references), tuple(objects)))
    return made
