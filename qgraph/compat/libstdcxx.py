"""The C++ runtime library's demangler, of the Itanium C++ ABI."""

from __future__ import annotations

import ctypes
import functools
from typing import Any


def demangled(name: bytes) -> str:
    """The name of a C++ function as its author wrote it; ``name`` where it is none, or the library is missing."""
    demangle = _demangler()
    buffer = demangle(name, None, None, None) if demangle is not None else None
    if not buffer:
        return name.decode(errors="replace")
    try:
        return ctypes.string_at(buffer).decode(errors="replace")
    finally:
        free = ctypes.CDLL(None).free
        free.argtypes = (ctypes.c_void_p,)
        free(buffer)


@functools.cache
def _demangler() -> Any:
    try:
        demangle: Any = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return demangle
