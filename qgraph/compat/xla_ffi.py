"""XLA's foreign function interface by ``ctypes``: how a call of a custom call's handler lies in memory.

Read from xla/ffi/api/c_api.h of jaxlib 0.10.2, version 0.3 of that interface. Its records only grow at their ends
as long as the major version stays, and each says how large it is.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy

from qgraph.records import dataclass

_MAJOR = 0
_METADATA = 1
_EXECUTE = 3
_SCALAR = 3
_FAILED = 13  # XLA_FFI_Error_Code_INTERNAL
_INTEGERS = enumerate(("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))), start=1)
_DTYPES = {**dict(_INTEGERS), 10: "float16", 11: "float32", 12: "float64", 15: "complex64", 18: "complex128"}
# Where the functions are in XLA_FFI_Api, counted in pointers.
_ERROR_CREATE, _STREAM_GET = 6, 10


class _Extension(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p))


class _Version(ctypes.Structure):
    _fields_ = (
        *(("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)),
        *(("major", ctypes.c_int), ("minor", ctypes.c_int)),
    )


class _Metadata(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("api_version", _Version), ("traits", ctypes.c_uint32))


class _MetadataExtension(ctypes.Structure):
    _fields_ = (("base", _Extension), ("metadata", ctypes.POINTER(_Metadata)))


class _Api(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("version", _Version))


class _Buffer(ctypes.Structure):
    _fields_ = (
        *(("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("dtype", ctypes.c_int)),
        *(("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64))),
    )


class _Scalar(ctypes.Structure):
    _fields_ = (("dtype", ctypes.c_int), ("value", ctypes.c_void_p))


class _Buffers(ctypes.Structure):
    _fields_ = (
        *(("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("size", ctypes.c_int64)),
        *(("types", ctypes.POINTER(ctypes.c_int)), ("buffers", ctypes.POINTER(ctypes.POINTER(_Buffer)))),
    )


class _Attributes(ctypes.Structure):
    _fields_ = (
        *(("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), ("size", ctypes.c_int64)),
        ("types", ctypes.POINTER(ctypes.c_int)),
        *(("names", ctypes.c_void_p), ("values", ctypes.POINTER(ctypes.c_void_p))),
    )


class _CallFrame(ctypes.Structure):
    _fields_ = (
        *(("struct_size", ctypes.c_size_t), ("extension_start", ctypes.POINTER(_Extension))),
        *(("api", ctypes.POINTER(_Api)), ("context", ctypes.c_void_p), ("stage", ctypes.c_int)),
        *(("arguments", _Buffers), ("results", _Buffers), ("attributes", _Attributes)),
    )


class _ErrorArguments(ctypes.Structure):
    _fields_ = (
        *(("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)),
        *(("message", ctypes.c_char_p), ("code", ctypes.c_int)),
    )


class _StreamArguments(ctypes.Structure):
    _fields_ = (
        *(("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)),
        *(("context", ctypes.c_void_p), ("stream", ctypes.c_void_p)),
    )


_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_CallFrame))
_Asked = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class Memory:
    """An array of XLA's, without gaps, the last axis fastest, of which ``pointer`` is the address."""

    pointer: int
    shape: tuple[int, ...]
    dtype: numpy.dtype

    def on_host(self) -> numpy.ndarray:
        """The array itself, where it lies in memory of the host."""
        count = math.prod(self.shape) * self.dtype.itemsize
        if not count:
            return numpy.empty(self.shape, self.dtype)
        held: Any = (ctypes.c_char * count).from_address(self.pointer)
        found: numpy.ndarray = numpy.frombuffer(held, self.dtype).reshape(self.shape)
        return found


@dataclass(frozen=True, slots=True)
class CustomCall:
    """One execution: its arrays, and the number that was given with ``ffi_call`` as the only attribute."""

    number: int
    arguments: tuple[Memory, ...]
    results: tuple[Memory, ...]
    frame: Any

    def stream(self) -> int:
        """The handle of the CUDA stream that the results belong to; there is one on devices alone."""
        asked = _StreamArguments(ctypes.sizeof(_StreamArguments), None, self.frame.context, None)
        if _function(self.frame, _STREAM_GET)(ctypes.addressof(asked)):
            raise RuntimeError("XLA tells no stream")
        return asked.stream or 0


def handler(run: Callable[[CustomCall], None]) -> Any:
    """A C function that XLA calls, from any thread, for ``run`` to be called; it must live as long as the process.

    What ``run`` raises becomes an error of XLA's with the same words.
    """

    def called(pointer: Any) -> int | None:
        frame = pointer.contents
        try:
            _answer(frame, run)
        except BaseException as error:  # noqa: BLE001 - there is nobody above this function to whom it could go
            message = f"{type(error).__name__}: {error}".encode()
            asked = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message, _FAILED)
            found: int = _function(frame, _ERROR_CREATE)(ctypes.addressof(asked))
            return found
        return None

    return _Handler(called)


def _answer(frame: Any, run: Callable[[CustomCall], None]) -> None:
    if frame.extension_start and frame.extension_start.contents.type == _METADATA:
        extension = ctypes.cast(frame.extension_start, ctypes.POINTER(_MetadataExtension)).contents
        version, theirs = extension.metadata.contents.api_version, frame.api.contents.version
        version.major, version.minor = _MAJOR, theirs.minor
        extension.metadata.contents.traits = 0
        return
    if frame.stage != _EXECUTE:
        return
    attributes = frame.attributes
    if attributes.size != 1 or attributes.types[0] != _SCALAR:
        raise RuntimeError("a custom call of qgraph has one number")
    scalar = ctypes.cast(attributes.values[0], ctypes.POINTER(_Scalar)).contents
    number = ctypes.cast(scalar.value, ctypes.POINTER(ctypes.c_int64)).contents.value
    run(CustomCall(number, _memories(frame.arguments), _memories(frame.results), frame))


def _memories(buffers: Any) -> tuple[Memory, ...]:
    found = []
    for index in range(buffers.size):
        buffer = buffers.buffers[index].contents
        shape = tuple(buffer.dims[axis] for axis in range(buffer.rank))
        found.append(Memory(buffer.data or 0, shape, numpy.dtype(_DTYPES[buffer.dtype])))
    return tuple(found)


def _function(frame: Any, place: int) -> Any:
    table = ctypes.cast(frame.api, ctypes.POINTER(ctypes.c_void_p))
    return _Asked(table[place])
