"""numba-cuda's private parts, read from 0.30.4. To import this module imports numba.cuda, or its simulator."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
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


@functools.cache
def flags_class() -> Any:
    """Numba's flags, compared by what was set: it looks for what is compiled already by them, and goes through all options."""
    from numba.cuda.flags import CUDAFlags

    class Flags(CUDAFlags):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Flags) and bool(self._values == other._values)

        def __hash__(self) -> int:
            return len(self._values)

    NUMBA_CUDA.part(CUDAFlags(), "_values")
    return Flags


# --- lowering ----------------------------------------------------------------------------------------------------------


class LocalValues:
    """Mixin of a ``CUDALower``: a variable of ``values_of_a_block`` is a value, and has no memory."""

    builder: Any
    getvar: Any
    _NAMES = ("_singly_assigned_vars", "_blk_local_varmap")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        numbas = NUMBA_CUDA.part(super(), "_find_singly_assigned_variable")
        if not set(LocalValues._NAMES) <= set(numbas.__code__.co_names):
            raise NUMBA_CUDA.lacks(f"attributes {' and '.join(LocalValues._NAMES)} where it looks for such variables")

    def values_of_a_block(self) -> Collection[str]:
        """The names of variables that are assigned once, and used only in the same block."""
        raise NotImplementedError

    def _find_singly_assigned_variable(self) -> None:
        """Numba's hook."""
        self._singly_assigned_vars = set(self.values_of_a_block())
        self._blk_local_varmap: dict[str, Any] = {}

    def loadvar(self, name: str) -> Any:
        """Numba's hook: the value of a variable."""
        found = self._blk_local_varmap.get(name)
        return self.builder.load(self.getvar(name)) if found is None else found

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Numba's hook: assign to a variable."""
        del argidx
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))


# --- the simulator -----------------------------------------------------------------------------------------------------


def simulated_memory(array: Any) -> Any:
    """The NumPy array that has the elements of one of the simulator's."""
    return NUMBA_CUDA.part(array, "_ary")
