"""Memory of qgraph's for PyTorch's pools, by its private constructor of allocators. Read from PyTorch's main branch of 2026.

The public one, ``torch.cuda.memory.CUDAPluggableAllocator``, takes names of functions in a shared library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from qgraph.compat import Library
from qgraph.errors import CudaError

TORCH = Library("torch", "2.10", CudaError)
_TAKE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
_GIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
# PyTorch may free a segment long after its pool is gone: what it calls is never freed.
_CALLED: list[Any] = []


def segment_allocator(torch: Any, take: Callable[[int, int, int], int | None], give: Callable[[int], None]) -> Any:
    """An allocator for ``torch.cuda.MemPool``.

    Args:
        torch: the module.
        take: gives the address of (bytes, for a device, for a stream), or None; it must not raise.
        give: takes back what is at an address; it must not raise.

    Raises:
        CudaError: this PyTorch has no such constructor.
    """
    if not hasattr(torch.cuda, "MemPool"):
        raise TORCH.lacks("`torch.cuda.MemPool`")
    make = TORCH.part(TORCH.part(torch, "_C"), "_cuda_customAllocator")
    called = (
        _TAKE(lambda size, device, stream: take(size, device, stream or 0)),
        _GIVE(lambda pointer, _size, _device, _stream: give(pointer) if pointer else None),
    )
    _CALLED.extend(called)
    return make(*(ctypes.cast(each, ctypes.c_void_p).value for each in called))
