"""llvmlite's private parts, read from 0.50.0. To import this module does not load it."""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import sys
from collections.abc import Callable
from typing import Any

from qgraph.compat import Library

LLVMLITE = Library("llvmlite", "0.50.0")


def fork_lock() -> Any:
    """The lock of whoever calls LLVM; None where llvmlite was not imported.

    Raises:
        BackendError: it has another place.
    """
    found: Any = sys.modules.get("llvmlite.binding.ffi")
    for name in ("lib", "_lock", "_lock") if found is not None else ():
        found = LLVMLITE.part(found, name)
    return found


# --- what llvmlite does not free ---------------------------------------------------------------------------------------

# The releases of llvmlite and of its LLVM in which the memory of a pass builder was read. Others are left alone.
_PASSES_READ = (LLVMLITE.read, (22, 1))
# `LLVMPY_CreatePassBuilder` makes a PassInstrumentationCallbacks that nothing deletes: the builder, of so many bytes, has its address.
_BUILDER_SIZE, _CALLBACKS_PLACE = 2192, 96
# It is ten vectors of closures and an empty map. A vector begins with the address of its elements, their number and its capacity;
# while they are no more than four, they follow. The last word of a closure says that it is in the vector, and a plain copy of bytes.
_CALLBACKS_SIZE, _VECTORS, _VECTOR_SIZE, _VECTOR, _ROOM = 1472, 10, 144, struct.Struct("<QII"), 4
_CLOSURE, _PLAIN = struct.Struct("<24xQ"), 0b010
# What malloc gives more than was asked for.
_SLACK = 32


@functools.cache
def free_passes() -> None:
    """Let LLVM's pass managers and pass builders go with their objects, also those of others.

    The managers' classes have the ``_dispose`` that frees behind an empty one of another base: a megabyte for each small kernel. What
    llvmlite makes for a builder it does not free: 1.5 KB. Where either is not as in the release that was read, it stays as it is.
    """
    import llvmlite
    from llvmlite import binding
    from llvmlite.binding import newpassmanagers

    dispose = getattr(newpassmanagers.NewPassManager, "_dispose", None)
    if dispose is not None:
        for managers in (newpassmanagers.ModulePassManager, newpassmanagers.FunctionPassManager):
            managers._dispose = dispose
    here = sys.platform == "linux" and struct.calcsize("P") == 8
    if here and (llvmlite.__version__, binding.llvm_version_info[:2]) == _PASSES_READ:
        newpassmanagers.PassBuilder._dispose = _dispose_builder(newpassmanagers.PassBuilder._dispose)


def _dispose_builder(dispose: Callable[[Any], None]) -> Callable[[Any], None]:
    """``PassBuilder._dispose`` that frees the callbacks, too."""
    c = ctypes.CDLL(None)
    c.malloc_usable_size.argtypes, c.malloc_usable_size.restype = [ctypes.c_void_p], ctypes.c_size_t
    c.free.argtypes, c.free.restype = [ctypes.c_void_p], None

    def with_callbacks(builder: Any) -> None:
        callbacks = _callbacks(ctypes.cast(builder._ptr, ctypes.c_void_p).value or 0, c.malloc_usable_size)
        dispose(builder)
        if callbacks:
            c.free(callbacks)

    return with_callbacks


def _callbacks(builder: int, size: Callable[[int], int]) -> int:
    """The address of a pass builder's callbacks where they are as known, with nothing that would have to be freed before; else 0."""
    if not _BUILDER_SIZE <= size(builder) < _BUILDER_SIZE + _SLACK:
        return 0
    found = ctypes.c_uint64.from_address(builder + _CALLBACKS_PLACE).value
    try:
        # What is no memory of this process is an error here.
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(found)
            data = memory.read(_CALLBACKS_SIZE)
    except (OSError, OverflowError):
        return 0
    end = _VECTORS * _VECTOR_SIZE
    vectors = all(_owns_nothing(data[each : each + _VECTOR_SIZE], found + each) for each in range(0, end, _VECTOR_SIZE))
    known = vectors and len(data) == _CALLBACKS_SIZE and not any(data[end:])
    return found if known and _CALLBACKS_SIZE <= size(found) < _CALLBACKS_SIZE + _SLACK else 0


def _owns_nothing(vector: bytes, place: int) -> bool:
    """Whether these bytes, at ``place``, are a vector of closures that has no memory elsewhere, nor have they."""
    if len(vector) != _VECTOR_SIZE:
        return False
    elements, count, capacity = _VECTOR.unpack_from(vector)
    closures = _CLOSURE.iter_unpack(vector[_VECTOR.size :])
    plain = all(word & 0b111 == _PLAIN for (word,) in itertools.islice(closures, count))
    return bool(elements == place + _VECTOR.size and count <= capacity == _ROOM and plain)


class Context:
    """An LLVM context for modules of one execution engine, which goes with the engine, after all modules in it.

    LLVM keeps what modules of a context share, numbers and the metadata of loops and of inlined calls, for as long as the context is
    there: the one that llvmlite takes by itself, for as long as the process.
    """

    def __init__(self, engine: Any) -> None:
        from llvmlite import binding

        made, disposing = _classes()
        self._context = binding.create_context()
        self._context.__class__ = made
        self._modules: list[Any] = []
        engine.__class__ = disposing
        engine._qgraph_context = self

    def parse(self, text: str) -> Any:
        """A module from LLVM's text."""
        from llvmlite import binding

        return self._kept(binding.parse_assembly(text, self._context))

    def copy(self, module: Any) -> Any:
        """A module that is as one of another context."""
        from llvmlite import binding

        return self._kept(binding.parse_bitcode(module.as_bitcode(), self._context))

    def _kept(self, module: Any) -> Any:
        self._modules.append(module)
        return module

    def close(self) -> None:
        """Let go of it, and of the modules that nobody took over."""
        for module in self._modules:
            module.close()
        self._context.close()


@functools.cache
def _classes() -> tuple[type, type]:
    """Those of a context and of its engine: in which order Python's collector asks them to go does not matter."""
    from llvmlite import binding

    class Unfinalised(binding.ContextRef):
        def __del__(self) -> None:
            """The engine closes it."""

    class Engine(binding.ExecutionEngine):
        def _dispose(self) -> None:
            super()._dispose()
            self._qgraph_context.close()

    return Unfinalised, Engine


def host() -> tuple[str, str]:
    """The processor's name and features, as LLVM has them: public, but here since only code on the disk asks."""
    from llvmlite import binding

    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM knows none of this kind
        features = ""
    return binding.get_host_cpu_name(), features
