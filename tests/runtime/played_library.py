"""CuPy as far as the kernels of tests/fault_kernels.py need it, on the driver of tests/played_driver.py.

What it computes it launches on its current stream. A pool keeps what it once took, as CuPy's do.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
import weakref
from importlib.machinery import ModuleSpec

import numpy as np

from tests.runtime import graphs_on_simulator as simulated

_BLOCK = 1024


class CUDADriverError(RuntimeError):
    """The driver refused."""


class Kernel:
    """A kernel of two parameters: where doubles lie, and how many."""

    def __init__(self, function):
        self._function = function
        self.number = next(simulated.numbers)
        parameter = types.SimpleNamespace(is_array=False, kind="whole")
        code = types.SimpleNamespace(parameters=(parameter, parameter))
        simulated.functions[self.number] = [self, code, (8, 8)]

    def __getitem__(self, _shape):
        return lambda pointer, n: self._function(np.ctypeslib.as_array((ctypes.c_double * n).from_address(pointer)))


class Block:
    """Memory that goes back to its pool."""

    def __init__(self, pointer):
        self.pointer = pointer


class Stream:
    """A stream of somebody else's."""

    current = types.SimpleNamespace(ptr=0)

    @staticmethod
    @contextlib.contextmanager
    def from_external(stream):
        before, Stream.current = Stream.current, types.SimpleNamespace(ptr=stream.__cuda_stream__()[1])
        try:
            yield
        finally:
            Stream.current = before


def install(driver):
    """Let ``import cupy`` find it."""

    def call(name, *arguments):
        code, *values = getattr(driver, name)(*arguments)
        if int(code) != 0:
            raise CUDADriverError(f"{name}: {simulated.real.CUresult(int(code)).name}")
        return values[0] if values else None

    class MemoryPool:
        def __init__(self):
            self._free = []

        def malloc(self, nbytes):
            assert nbytes <= _BLOCK
            # Not a call that gives memory which its caller frees: the pool is never gone.
            pointer = self._free.pop() if self._free else call("cuMemAllocManaged", _BLOCK, 1)
            block = Block(pointer)
            weakref.finalize(block, self._free.append, pointer).atexit = False
            return block

    allocators = [MemoryPool().malloc]

    @contextlib.contextmanager
    def using_allocator(allocate):
        allocators.append(allocate)
        try:
            yield
        finally:
            allocators.pop()

    class ndarray:  # noqa: N801 - CuPy's name
        def __init__(self, pointer, size, block=None):
            self._pointer, self._size, self._block = pointer, size, block
            self.dtype, self.shape = np.dtype(np.float64), (size,)

        def copy(self):
            block = allocators[-1](8 * self._size)
            made = ndarray(block.pointer, self._size, block)
            made[...] = self
            return made

        def __setitem__(self, _all, other):
            call("cuMemcpyDtoDAsync", self._pointer, other._pointer, 8 * self._size, Stream.current.ptr)

        def launch(self, kernel):
            values = (ctypes.c_int64 * 2)(self._pointer, self._size)
            start = ctypes.addressof(values)
            places = (ctypes.c_void_p * 2)(start, start + 8)
            parameters = ctypes.addressof(places)
            call("cuLaunchKernel", kernel.number, 1, 1, 1, 1, 1, 1, 0, Stream.current.ptr, parameters, 0)
            return self

        def __iadd__(self, one):
            assert one == 1
            return self.launch(increment)

    def asarray(exported):
        found = exported.__cuda_array_interface__
        assert (found["typestr"], found["strides"]) == ("<f8", (8,))
        return ndarray(found["data"][0], *found["shape"])

    def add_one(values):
        values += 1

    ascending, increment = Kernel(np.ndarray.sort), Kernel(add_one)
    cupy = types.ModuleType("cupy")
    cupy.__spec__ = ModuleSpec("cupy", None)
    cupy.cuda = types.SimpleNamespace(
        MemoryPool=MemoryPool, Stream=Stream, using_allocator=using_allocator, get_current_stream=lambda: Stream.current
    )
    cupy.ndarray, cupy.asarray, cupy.sort = ndarray, asarray, lambda x: x.copy().launch(ascending)
    sys.modules["cupy"] = cupy
