"""Native identity guard: are these the objects of the cached call? Some are known by weak references."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from qgraph.compat.cpython import ARGUMENTS
from qgraph.runtime.native.machine_code import ANSWERS, NEEDED, MachineCode, new_words

# The function's words: how many objects, or _GONE once one of them is gone; then the address of each. Its `self` is a tuple of
# them, of the weak references that write _GONE, and of the objects that it holds.
_HEAD = 1
# No call has so many arguments.
_GONE = -1

_TEXT = f"""
{NEEDED}declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyByteArray_AsString(ptr)

define ptr @same(ptr %self, ptr %arguments, i64 %given) {{
entry:
  %buffer = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %words = call ptr @PyByteArray_AsString(ptr %buffer)
  %count = load i64, ptr %words
  %first = getelementptr i64, ptr %words, i64 {_HEAD}
  %as.many = icmp eq i64 %given, %count
  br i1 %as.many, label %next, label %no

next:
  %number = phi i64 [ 0, %entry ], [ %following, %one ]
  %is.one = icmp slt i64 %number, %count
  br i1 %is.one, label %one, label %yes

one:
  %following = add i64 %number, 1
  %then.place = getelementptr ptr, ptr %first, i64 %number
  %then = load ptr, ptr %then.place
  %argument.place = getelementptr ptr, ptr %arguments, i64 %number
  %argument = load ptr, ptr %argument.place
  %same = icmp eq ptr %then, %argument
  br i1 %same, label %next, label %no

{ANSWERS}}}
"""

_CODE = MachineCode(_TEXT, {"same": ARGUMENTS})


def can_look() -> bool:
    """Whether ``look_at`` takes no longer than it gains."""
    return _CODE.usable


def look_at(weakly: Sequence[object], objects: Sequence[object]) -> Callable[..., bool]:
    """A function of as many objects: whether they are the very ones of ``weakly``, none of which is gone, and of ``objects``.

    It does not hold those of ``weakly``.

    Raises:
        TypeError: one of ``weakly`` cannot be held so.
    """
    buffer, words = new_words([len(weakly) + len(objects), *map(id, weakly), *map(id, objects)])

    def forget(_reference: object) -> None:
        words[0] = _GONE

    # An object's memory is free for another one only after its weak references were told.
    references = tuple(weakref.ref(value, forget) for value in weakly)
    made: Callable[..., bool] = _CODE.function("same", (buffer, references, tuple(objects)))
    return made
