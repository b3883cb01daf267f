"""Native guard of a library's current stream, by the C function that the library itself asks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from qgraph.compat.cpython import NO_ARGUMENT
from qgraph.runtime.native.machine_code import MachineCode, new_words

# The `self` of the function is a word with the address. A function of Cython's gives -1 where it raises, and as an answer.
_TEXT = """
declare ptr @PyByteArray_AsString(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyLong_FromLongLong(i64)

define ptr @ask(ptr %self, ptr %nothing) {
  %words = call ptr @PyByteArray_AsString(ptr %self)
  %function = load ptr, ptr %words
  %stream = call i64 %function()
  %may.be.wrong = icmp eq i64 %stream, -1
  br i1 %may.be.wrong, label %minus.one, label %number

minus.one:
  %error = call ptr @PyErr_Occurred()
  %is.wrong = icmp ne ptr %error, null
  br i1 %is.wrong, label %failed, label %number

number:
  %result = call ptr @PyLong_FromLongLong(i64 %stream)
  ret ptr %result

failed:
  ret ptr null
}
"""

_CODE = MachineCode(_TEXT, {"ask": NO_ARGUMENT})


def asker(address: int) -> Callable[[], int]:
    """A function that gives what the C function ``intptr_t (void)`` at ``address`` does, and raises what that raises."""
    if not _CODE.usable:
        # The same, in twice the time.
        return ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(address)
    made: Callable[[], int] = _CODE.function("ask", new_words([address])[0])
    return made
