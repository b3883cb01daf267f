"""llvmlite's private parts, read from 0.50.0. To import this module does not load it."""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import sys
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


def loop_id(module: Any, option: str) -> Any:
    """Metadata for the branch back of one loop, with an option such as ``llvm.loop.unroll.disable``: a node whose first operand
    is itself, which llvmlite has no call for."""
    from llvmlite import ir

    what = module.add_metadata([ir.MetaDataString(module, option)])
    made = module.add_metadata([what, ir.MetaDataString(module, f"loop {len(module.metadata)}")])
    made.operands = (made, what)
    return made


# --- what llvmlite does not free ---------------------------------------------------------------------------------------

# The releases of llvmlite and of its LLVM in which the memory of a pass builder was read. Others are left alone.
_PASSES_READ = (LLVMLITE.read, (22, 1))
# `LLVMPY_CreatePassBuilder` makes a PassInstrumentationCallbacks that nothing deletes: here in the builder is its address.
_CALLBACKS = 96
# It is ten vectors of closures and an empty map. A vector begins with the address of its elements, their number and its
# capacity; they follow while they are no more than four. The last word of a closure says that it is nowhere else, and is
# copied and let go of as plain bytes.
_SIZE, _VECTORS, _VECTOR_SIZE, _VECTOR, _ROOM = 1472, 10, 144, struct.Struct("<QII"), 4
_CLOSURE, _PLAIN = struct.Struct("<24xQ"), 0b010


@functools.cache
def free_passes() -> None:
    """Let LLVM's pass managers and pass builders go with their objects, also those of others.

    The managers' classes have the ``_dispose`` that frees behind an empty one of another base: a megabyte for a small kernel.
    Callbacks that llvmlite makes for a builder it never frees: 1.5 KB. Where either is not as it was read, it stays as it is.
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
        newpassmanagers.PassBuilder._dispose = _dispose_builder


def _dispose_builder(builder: Any) -> None:
    """``PassBuilder._dispose`` that frees the callbacks, too."""
    from llvmlite.binding import ffi

    callbacks = _callbacks(builder)
    ffi.lib.LLVMPY_DisposePassBuilder(builder)
    if callbacks:
        # That is `free`, of the allocator that LLVM itself uses.
        ffi.lib.LLVMPY_DisposeString(ctypes.c_char_p(callbacks))


def _callbacks(builder: Any) -> int:
    """The address of a pass builder's callbacks where they are as known, and own nothing; else 0."""
    address = ctypes.cast(builder._ptr, ctypes.c_void_p).value or 0
    found = ctypes.c_uint64.from_address(address + _CALLBACKS).value
    try:
        # What is no memory of this process is an error here.
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(found)
            data = memory.read(_SIZE)
    except (OSError, OverflowError):
        return 0
    end = _VECTORS * _VECTOR_SIZE
    known = len(data) == _SIZE and not any(data[end:])
    vectors = range(0, end, _VECTOR_SIZE)
    return found if known and all(_owns_nothing(data[each : each + _VECTOR_SIZE], found + each) for each in vectors) else 0


def _owns_nothing(vector: bytes, place: int) -> bool:
    """Whether these bytes, at ``place``, are a vector of closures that has no memory elsewhere, nor have they."""
    elements, count, capacity = _VECTOR.unpack_from(vector)
    closures = itertools.islice(_CLOSURE.iter_unpack(vector[_VECTOR.size :]), count)
    plain = all(word & 0b111 == _PLAIN for (word,) in closures)
    return bool(elements == place + _VECTOR.size and count <= capacity == _ROOM and plain)


class Context:
    """An LLVM context for modules of one execution engine, which goes with the engine, after all modules in it.

    LLVM keeps what modules of a context share, numbers and the metadata of loops and of inlined calls, for as long as the
    context is there: that of llvmlite, for as long as the process. Without an engine, or where one goes otherwise, it is that.
    """

    def __init__(self, engine: Any | None) -> None:
        from llvmlite import binding

        self._context: Any = None
        self._modules: list[Any] = []
        if engine is not None and hasattr(binding.ExecutionEngine, "_dispose"):
            made, disposing = _classes()
            self._context = binding.create_context()
            self._context.__class__ = made
            engine._qgraph_context = self
            engine.__class__ = disposing

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
