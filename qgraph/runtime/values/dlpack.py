"""An ArrayView as a DLPack capsule: https://dmlc.github.io/dlpack/latest/c_api.html, both layouts of its managed tensor."""

from __future__ import annotations

import ctypes
from typing import Any

from qgraph.compat import cpython
from qgraph.runtime.values.array_view import ArrayView

DLPACK_CUDA = 2

_VERSION = (1, 0)
_READ_ONLY = 1
# DLDataTypeCode by NumPy's kind letter.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


class _Exports:
    """What consumers still hold: the structures they read, and the arrays whose memory they use, by address."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[object, ...]] = {}
        # Made once: a callback must outlive every structure that names it.
        self.deleter = _Deleter(self._release)

    def hold(self, address: int, *things: object) -> None:
        self._held[address] = things

    def _release(self, address: int) -> None:
        self._held.pop(address, None)

    def __len__(self) -> int:
        return len(self._held)


exports = _Exports()


def _drop_unused(capsule: int) -> None:
    # A consumer renames the capsule it takes, and calls the deleter itself.
    for name in _NAMES.values():
        if cpython.is_capsule_at(capsule, name):
            exports.deleter(cpython.pointer_in_capsule_at(capsule, name))


# The capsule keeps the address of its name.
_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
_drop_unused_callback = cpython.CapsuleDestructor(_drop_unused)


def export(view: ArrayView, versioned: bool) -> Any:
    """A capsule that shares ``view``'s memory and keeps its owner alive until the consumer is done.

    Args:
        view: an array in device memory.
        versioned: DLPack 1.0's layout, which consumers ask for with ``max_version``.

    Raises:
        BufferError: the strides are no multiples of the element size, or the array is read-only and cannot say so.
    """
    itemsize = view.dtype.itemsize
    if view.readonly and not versioned:
        raise BufferError("a read-only array cannot be exported through DLPack before version 1.0")
    if any(stride % itemsize for stride in view.strides):
        raise BufferError("DLPack counts strides in elements, and this array's are no multiples of its element size")
    extents = ctypes.c_int64 * max(view.ndim, 1)
    shape = extents(*view.shape)
    strides = extents(*(stride // itemsize for stride in view.strides))
    managed: _Managed | _ManagedVersioned
    if versioned:
        managed = _ManagedVersioned(major=_VERSION[0], minor=_VERSION[1], flags=_READ_ONLY if view.readonly else 0)
    else:
        managed = _Managed()
    managed.deleter = exports.deleter
    managed.tensor = _Tensor(
        data=view.pointer,
        device_type=DLPACK_CUDA,
        device_id=view.device,
        ndim=view.ndim,
        code=_CODES[view.dtype.kind],
        bits=itemsize * 8,
        lanes=1,
        shape=shape,
        strides=strides,
        byte_offset=0,
    )
    address = ctypes.addressof(managed)
    exports.hold(address, managed, shape, strides, view.owner)
    return cpython.new_capsule(address, _NAMES[versioned], _drop_unused_callback)
