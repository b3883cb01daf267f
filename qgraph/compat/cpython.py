"""CPython's private parts: ctypes' classes, C functions that ctypes calls, objects in memory. Read from 3.11 to 3.13."""

from __future__ import annotations

import ctypes
from typing import Any

from qgraph.compat import Library

CPYTHON = Library("CPython", "3.11 to 3.13")

# Where an object says of which class it is: in the last of the words that all objects have.
CLASS_WORD = object.__basicsize__ // ctypes.sizeof(ctypes.c_void_p) - 1

# --- locks -------------------------------------------------------------------------------------------------------------


def freed(lock: Any) -> bool:
    """Free a lock that a thread may hold which the fork has left behind; False where that cannot be done."""
    free = getattr(lock, "_at_fork_reinit", None)
    if free is not None:
        free()
        return True
    if lock.acquire(blocking=False):
        lock.release()
        return True
    return False


# --- ctypes ------------------------------------------------------------------------------------------------------------

# ctypes' own classes have private names; what is made of them tells which they are.
CFuncPtr: Any = ctypes.CFUNCTYPE(None).__mro__[1]
Pointer: Any = ctypes.POINTER(ctypes.c_int).__mro__[1]
_Simple: Any = ctypes.c_int.__mro__[1]
#: The bases of everything that ctypes makes, functions excepted.
C_DATA = (_Simple, Pointer, ctypes.Structure, ctypes.Union, ctypes.Array)

_PYTHON_API = 4  # FUNCFLAG_PYTHONAPI of Modules/_ctypes/ctypes.h


def wants_lock(function: Any) -> bool:
    """Whether ctypes calls a C function with the interpreter's lock held, as those of ``ctypes.PYFUNCTYPE``."""
    return bool(CPYTHON.part(type(function), "_flags_") & _PYTHON_API)


# --- the C API ---------------------------------------------------------------------------------------------------------


def _c_function(name: str, result: Any, *parameters: Any) -> Any:
    try:
        return ctypes.PYFUNCTYPE(result, *parameters)((name, ctypes.pythonapi))
    except AttributeError:
        raise CPYTHON.lacks(f"C function {name}") from None


# The name of a C function that tells, without the interpreter's lock, whether the interpreter ends.
IS_FINALIZING = "Py_IsFinalizing" if hasattr(ctypes.pythonapi, "Py_IsFinalizing") else "_Py_IsFinalizing"

CapsuleDestructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
new_capsule = _c_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, CapsuleDestructor)
is_capsule_at = _c_function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
pointer_in_capsule_at = _c_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
pointer_in = _c_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
"""``pointer_in(capsule, name)`` is the address that a capsule of that name holds; ``ValueError`` for any other object."""

# How CPython calls a function: without an argument, with one, with an array and the number of them, with a tuple and a mapping.
NO_ARGUMENT, ONE_ARGUMENT, ARGUMENTS, TUPLE_AND_MAPPING = 0x0004, 0x0008, 0x0080, 0x0003


class MethodDef(ctypes.Structure):
    """What CPython has to know of a C function; it must live as long as what ``new_function`` makes of it."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_new_function = _c_function("PyCFunction_NewEx", ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)


def new_function(definition: MethodDef, own: object, module: object) -> Any:
    """The function for Python of a definition; it holds ``own``, which is its ``self``, and ``module``."""
    return _new_function(ctypes.addressof(definition), own, module)
