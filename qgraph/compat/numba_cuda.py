"""numba-cuda's private parts, read from 0.30.4. To import this module imports numba.cuda, or its simulator."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from qgraph.compat import Library
from qgraph.compat.numpy import as_before_2_5

with as_before_2_5():
    from numba import cuda

__all__ = ["cuda"]

NUMBA_CUDA = Library("numba-cuda", "0.30.4")

# --- libraries of code -------------------------------------------------------------------------------------------------


class _OrderedSet(dict[Any, None]):
    """A set that remembers the order of insertion."""

    def add(self, item: Any) -> None:
        """Insert ``item`` at the end, if it is new."""
        self.setdefault(item)


@functools.cache
def _codegen_class() -> Any:
    from numba.cuda.codegen import CUDACodeLibrary, JITCUDACodegen

    class Library(CUDACodeLibrary):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # Numba has a set here, whose order differs between processes; the PTX text follows it.
            NUMBA_CUDA.replace(self, "_linking_libraries", _OrderedSet())

    class Codegen(JITCUDACodegen):
        _library_class = Library

    NUMBA_CUDA.part(JITCUDACodegen, "_library_class")
    return Codegen


def set_codegen(target: Any, name: str) -> None:
    """Give a target context a code generator whose libraries are linked in the order in which they came."""
    NUMBA_CUDA.replace(target, "_internal_codegen", _codegen_class()(name))


def set_entry(library: Any, name: str, options: Mapping[str, Any]) -> None:
    """Say which function of a code library is the kernel, and how NVVM is to compile it."""
    NUMBA_CUDA.replace(library, "_entry_name", name)
    NUMBA_CUDA.replace(library, "_nvvm_options", options)


# --- the simulator -----------------------------------------------------------------------------------------------------


def simulated_memory(array: Any) -> Any:
    """The NumPy array that has the elements of one of the simulator's."""
    return NUMBA_CUDA.part(array, "_ary")
