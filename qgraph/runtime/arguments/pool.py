"""``Pool``: a block of memory that arrays and temporaries are made in, and that CuPy and PyTorch can allocate from."""

from __future__ import annotations

import importlib
import math
import operator
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from qgraph.compat.numpy import host_pointer
from qgraph.compat.torch_memory import segment_allocator
from qgraph.errors import ArgumentError, BackendError, CudaError, PoolError
from qgraph.pickling import not_pickled
from qgraph.runtime.values.array_view import extents_of
from qgraph.runtime.values.pool_blocks import ALIGNMENT, Order
from qgraph.runtime.values.pool_memory import CURRENT_POOL, HostPoolMemory, PoolMemory

# What the `with` statements of this thread undo at their ends.
_ENTERED: ContextVar[tuple[ExitStack, ...]] = ContextVar("qgraph_pools_entered", default=())
# What PyTorch was told by a null pointer alone.
_REFUSED: ContextVar[CudaError | None] = ContextVar("qgraph_pool_refused", default=None)


class Pool:
    """A block of memory of one size, made by ``qgraph.pool``. Threads may share it.

    ``with pool:`` lets qgraph, on this thread, take arrays and kernels' temporaries from it, and CuPy all that it allocates, if
    it is imported. PyTorch has it by ``torch_mem_pool()`` alone. What goes back is free at once for the stream that it was
    taken for; for others the host waits for the device, once nothing else is left. What was taken while a stream is captured
    is nobody else's before that graph is gone. The memory is freed when the pool and all that lies in it are gone.
    """

    __reduce__ = not_pickled("a pool cannot be pickled or copied: its memory belongs to this process", "make another one there")

    def __init__(self, memory: PoolMemory) -> None:
        self._memory = memory
        self._held: dict[int, Order | None] = {}
        self._torch_pools: list[Any] = []
        weakref.finalize(self, _let_go, self._torch_pools).atexit = False

    @property
    def nbytes(self) -> int:
        """The size of the pool in bytes, a multiple of 512."""
        return self._memory.nbytes

    @property
    def used(self) -> int:
        """Bytes that are taken, each block rounded up to 512."""
        return self._memory.used

    @property
    def free(self) -> int:
        """Bytes that are not taken, though work in flight or a captured graph may still have some."""
        return self.nbytes - self.used

    @property
    def sealed(self) -> bool:
        """Whether every allocation is refused."""
        return self._memory.sealed

    def seal(self) -> None:
        """Let every allocation from now on raise ``PoolError``, in captures too. What lies in the pool stays usable."""
        self._memory.sealed = True

    def unseal(self) -> None:
        """Allow allocations again."""
        self._memory.sealed = False

    def settle(self) -> None:
        """Wait for the device, so that all that was freed may be had by any stream, in a capture that follows too.

        What captured graphs work on stays theirs. On the host nothing waits.

        Raises:
            CudaError: a current stream is being captured, or work failed.
        """
        self._memory.settle()

    def malloc(self, nbytes: int, stream: object = None) -> int:
        """The address of ``nbytes`` bytes, a multiple of 512, valid until ``free_block`` and as long as the pool lives.

        Args:
            nbytes: 0 or more.
            stream: the only one that uses them; None: any.

        Raises:
            PoolError: the pool is sealed or has no such block.
            ArgumentError: ``stream`` is no stream.
        """
        handle = None
        if stream is not None:
            from qgraph.runtime.driver.stream import handle_of

            handle = handle_of(stream)
        pointer, order = self._memory.take(operator.index(nbytes), handle)
        self._held[pointer] = order
        return pointer

    def free_block(self, pointer: int) -> None:
        """Free what ``malloc`` gave, without waiting.

        Raises:
            ArgumentError: it gave no such address, or it is free again already.
        """
        try:
            order = self._held.pop(pointer)
        except KeyError:
            raise ArgumentError(f"no block of this pool begins at {pointer:#x}", hint="pass what malloc() gave, once") from None
        self._memory.give(pointer, order)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = float) -> Any:
        """An array of ``shape`` and ``dtype`` in the pool with any contents: a NumPy array, or a device array on cuda.

        Raises:
            PoolError: the pool is sealed or has no such block.
            ArgumentError: the dtype holds objects, or a kernel cannot use it, or an extent is negative.
        """
        if isinstance(self._memory, HostPoolMemory):
            return host_array(self._memory, shape, dtype)
        from qgraph.runtime.arguments import device_array

        token = CURRENT_POOL.set(self._memory)
        try:
            return device_array.empty(shape, dtype, self._device().ordinal)
        finally:
            CURRENT_POOL.reset(token)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(CURRENT_POOL.reset, CURRENT_POOL.set(self._memory))
            cupy = sys.modules.get("cupy")
            if cupy is not None and not isinstance(self._memory, HostPoolMemory):
                stack.enter_context(cupy.cuda.using_allocator(self.cupy_allocator))
            _REFUSED.set(None)
            _ENTERED.set((*_ENTERED.get(), stack.pop_all()))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        *before, stack = _ENTERED.get()
        _ENTERED.set(tuple(before))
        stack.close()
        refused, torch = _REFUSED.get(), sys.modules.get("torch")
        _REFUSED.set(None)
        if refused is not None and torch is not None and isinstance(error, torch.cuda.OutOfMemoryError):
            raise refused from error

    # --- other libraries ---

    @property
    def cupy_allocator(self) -> Callable[[int], Any]:
        """For ``cupy.cuda.set_allocator`` and ``using_allocator``: blocks are bound to CuPy's current stream.

        Raises:
            BackendError: the pool is not on a device, or CuPy is not installed.
        """
        cupy, device = self._library("cupy"), self._device()
        ordinal = device.ordinal
        memory: Any = self._memory

        def allocate(nbytes: int) -> Any:
            current = int(cupy.cuda.runtime.getDevice())
            if current != ordinal:
                raise PoolError(
                    f"the pool lies on device {ordinal}, and CuPy works on device {current}", hint="make a pool for each device"
                )
            # CUDA's runtime makes a context current when it allocates, and CuPy loads its kernels into the current one.
            if device.push(stays=True):
                device.pop()
            buffer = memory.buffer(nbytes, int(cupy.cuda.get_current_stream().ptr))
            return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(buffer.pointer, nbytes, buffer, ordinal), 0)

        return allocate

    def torch_mem_pool(self) -> Any:
        """A new ``torch.cuda.MemPool`` whose memory is this pool's, for ``torch.cuda.use_mem_pool`` and ``torch.cuda.graph``.

        Take one for work outside captures and another for a capture: PyTorch lends what it keeps in one to either.
        PyTorch asks for segments of 2 MiB and more, keeps them when tensors die, and returns them at
        ``torch.cuda.empty_cache()`` when the MemPool is gone, which lives at least as long as this pool. It hears of a refusal
        as of lack of memory: at the end of ``with pool:`` its ``OutOfMemoryError`` is a ``PoolError`` with the numbers.

        Raises:
            BackendError: the pool is not on a device, or PyTorch is not installed.
            CudaError: this version of PyTorch takes no allocator.
        """
        torch, ordinal = self._library("torch"), self._device().ordinal
        memory_of = weakref.ref(self._memory)
        # The memory lives as long as its segments; the functions live for ever.
        segments: dict[int, tuple[PoolMemory, Order]] = {}

        def take(nbytes: int, device: int, stream: int) -> int | None:
            try:
                memory = memory_of()
                if memory is None or device != ordinal:
                    raise PoolError(
                        f"PyTorch asked for {nbytes} bytes on device {device} of a pool "
                        + ("that is gone" if memory is None else f"on device {ordinal}"),
                        hint="make a pool for each device, and hold it",
                    )
                pointer, order = memory.take(nbytes, stream)
                _REFUSED.set(None)
            except CudaError as error:  # no exception gets through PyTorch
                _REFUSED.set(error)
                return None
            # Tensors may have been used on any stream.
            segments[pointer] = memory, Order(None, order.capture if order else 0)
            return pointer

        def give(pointer: int) -> None:
            memory, order = segments.pop(pointer)
            memory.give(pointer, order)

        made = torch.cuda.MemPool(segment_allocator(torch, take, give))
        # PyTorch ends the process where one is destroyed that it still uses.
        self._torch_pools.append(made)
        return made

    def _device(self) -> Any:
        if isinstance(self._memory, HostPoolMemory):
            raise BackendError(
                "this pool lies on the host, and PyTorch's and CuPy's allocators want memory of a device",
                hint="make it by qgraph.pool(nbytes, backend='cuda')",
            )
        memory: Any = self._memory
        return memory.device

    def _library(self, name: str) -> Any:
        self._device()
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise BackendError(f"{name} cannot be imported: {error}", hint=f"install {name}") from error

    def __repr__(self) -> str:
        where = "the host" if isinstance(self._memory, HostPoolMemory) else f"device {self._device().ordinal}"
        return f"<{'sealed ' if self.sealed else ''}pool of {self.nbytes} bytes on {where}, {self.used} used>"


# MemPools that PyTorch still used when their pool was gone.
_STILL_USED: list[Any] = []


def _let_go(torch_pools: list[Any]) -> None:
    _STILL_USED.extend(torch_pools)
    # One use is that of the object.
    _STILL_USED[:] = [each for each in _STILL_USED if each.use_count() != 1]


def device_pool(nbytes: int) -> Pool:
    """A pool on the current CUDA device; ``CudaError`` where there is not so much memory."""
    from qgraph.runtime.driver.device_pool import DevicePoolMemory
    from qgraph.runtime.driver.driver import current_device, device

    return Pool(DevicePoolMemory(device(current_device()), nbytes))


def host_pool(nbytes: int) -> Pool:
    """A pool in NumPy's memory."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    memory = HostPoolMemory(nbytes, -(-host_pointer(raw) // ALIGNMENT) * ALIGNMENT)
    memory.owner = raw
    return Pool(memory)


class _HostBlock:
    """A block of a pool on the host, for NumPy, which holds it as long as an array lies in it."""

    def __init__(self, memory: PoolMemory, nbytes: int) -> None:
        pointer, order = memory.take(nbytes)
        weakref.finalize(self, memory.give, pointer, order).atexit = False
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (pointer, False)}


def host_array(memory: PoolMemory, shape: int | tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """A NumPy array in the pool, its elements not set; raises as ``Pool.empty`` does."""
    kind = np.dtype(dtype)
    extents = extents_of(shape)
    if kind.hasobject or any(extent < 0 for extent in extents):
        raise ArgumentError(
            f"a pool has no array of shape {extents} and dtype {kind}", hint="use numbers, and no negative extents"
        )
    nbytes = math.prod(extents) * kind.itemsize
    if nbytes == 0:
        return np.empty(extents, kind)
    return np.asarray(_HostBlock(memory, nbytes)).view(kind).reshape(extents)
