"""``DeviceArray``: qgraph's own array on a CUDA device, for the host side of a program."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from qgraph.compat.numpy import host_pointer
from qgraph.errors import ArgumentError
from qgraph.records import dataclass
from qgraph.runtime.arguments.array_adapters import usable_dtype
from qgraph.runtime.driver import driver
from qgraph.runtime.driver.device_pool import buffer as allocate
from qgraph.runtime.driver.memory import Buffer, PinnedWords, copy_device, copy_in, copy_out, fill, write_bytes
from qgraph.runtime.driver.side_stream import SideStream
from qgraph.runtime.driver.stream import CURRENT, library_streams, order_after, refuse_capture, synchronize_device
from qgraph.runtime.values.array_view import ArrayView, contiguous_strides, extents_of, layout_of, span_of
from qgraph.runtime.values.dlpack import DLPACK_CUDA, export
from qgraph.runtime.values.host_scalar import bytes_of, element_of
from qgraph.stack import raises_to_user

Index = int | slice | EllipsisType | None | tuple[int | slice | EllipsisType | None, ...]

# What the widest scalar takes; a narrow one is written as 4 bytes.
_SCALAR_BYTES = 16


class DeviceArray:
    """An array in the memory of a CUDA device, with any strides. Views share the memory and keep it alive.

    Kernels take it as an argument; PyTorch, CuPy, JAX and Numba take it through ``__cuda_array_interface__`` or DLPack.
    Whatever reads or writes elements from the host (``numpy()``, indexing, assignment, ``fill``) first waits for all work on
    the device, since that may still write them.

    Args:
        buffer: the memory, which this array owns together with its other views.
        pointer: the address of the first element.
        shape: the extents.
        strides: in bytes.
        dtype: of the elements.
    """

    __slots__ = (
        *("__qgraph_identity__", "__weakref__", "_buffer", "_epoch", "_layout", "_place", "_pointer"),
        *("dtype", "shape", "strides"),
    )

    def __init__(self, buffer: Buffer, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> None:
        self._buffer = buffer
        self._epoch = buffer.device.epoch
        self._pointer = pointer
        self._layout = layout_of(shape, strides, dtype.itemsize)
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        # No other array ever has this object, which others may hold instead of the array.
        self.__qgraph_identity__ = object()
        # What a call needs to know. The memory is its owner: the array itself would hold itself.
        self._place = ArrayView(pointer, shape, strides, dtype, False, buffer.device.ordinal, buffer, None, self._layout)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, gaps between them not counted."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> int:
        """The ordinal of the device."""
        return self._buffer.device.ordinal

    @property
    def alive(self) -> bool:
        """Whether the memory still exists: resetting the device takes it away."""
        return self._epoch == self._buffer.device.epoch

    # --- other libraries ---

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # Kernels may have run on any stream, so none can be named: the work is finished instead.
        self._wait()
        return {
            "version": 3,
            "shape": self.shape,
            "strides": None if self._layout == "C" else self.strides,
            "typestr": self.dtype.str,
            "data": (self._pointer if self.size else 0, False),
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule. All work on the device is finished first, so the consumer's ``stream`` does not matter.

        Raises:
            BufferError: ``dl_device`` is another device.
        """
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"this array is on CUDA device {self.device}; copy it to the host with .numpy()")
        if copy:
            return self.copy().__dlpack__(max_version=max_version)
        self._wait()
        return export(self.__qgraph_view__(), versioned=max_version is not None and max_version >= (1, 0))

    def __qgraph_view__(self) -> ArrayView:
        self._check_alive()
        return ArrayView(self._pointer, self.shape, self.strides, self.dtype, False, self.device, self, None, self._layout)

    def __qgraph_place__(self) -> ArrayView:
        # The view for calls; they share it, so nobody changes it.
        if self._epoch != self._buffer.device.epoch:
            self._check_alive()
        return self._place

    # --- to and from the host ---

    @raises_to_user
    def numpy(self) -> np.ndarray:
        """A fresh NumPy array in C order with the elements as they are after all work on the device."""
        result = np.empty(self.shape, self.dtype)
        if self.size == 0:
            return result
        device = self._wait()
        if self._layout == "C":
            with device.activate():
                copy_out(self._pointer, host_pointer(result), result.nbytes)
            return result
        _, elements = self._span_on_host()
        np.copyto(result, elements)
        return result

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on a CUDA device becomes a NumPy array by copying it")
        result = self.numpy()
        return result if dtype is None else result.astype(dtype, copy=False)

    @raises_to_user
    def fill(self, value: object) -> None:
        """Set every element to ``value``."""
        element = np.asarray(value).astype(self.dtype)
        if self.size == 0:
            return
        if self._layout == "A":
            self._write(np.broadcast_to(element, self.shape))
            return
        device = self._wait()
        with device.activate():
            fill(self._pointer, element.tobytes(), self.size)
        # The next kernel may run on a stream that does not wait for the default stream.
        device.synchronize()

    @raises_to_user
    def copy(self) -> DeviceArray:
        """A new array in C order with the same elements."""
        result = empty(self.shape, self.dtype, self.device)
        if self.size == 0:
            return result
        if self._layout != "C":
            result._write(self.numpy())
            return result
        device = self._wait()
        with device.activate():
            copy_device(result._pointer, self._pointer, self.nbytes)
        device.synchronize()
        return result

    @raises_to_user
    def __getitem__(self, index: Index) -> Any:
        view = self._view(index)
        # As in NumPy: integers for all axes give an element, an ellipsis among them a 0-d array.
        if view.shape or any(part is ... for part in _basic_index(index)):
            return view
        return view.numpy()[()]

    @raises_to_user
    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        target = self._view(index)
        target._write(value.numpy() if isinstance(value, DeviceArray) else np.asarray(value))

    def _view(self, index: Index) -> DeviceArray:
        # NumPy works out shape, strides and offset, on an array without memory of its own. The ellipsis makes it give a view
        # where it would read an element.
        self._check_alive()
        parts = _basic_index(index)
        template = np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides)
        part = template[parts if any(item is ... for item in parts) else (*parts, ...)]
        offset = host_pointer(part) - host_pointer(template)
        return DeviceArray(self._buffer, self._pointer + offset, part.shape, part.strides, self.dtype)

    def _write(self, value: np.ndarray) -> None:
        if value.dtype != self.dtype or value.shape != self.shape:
            converted = np.empty(self.shape, self.dtype)
            converted[...] = value
            value = converted
        if self.size == 0:
            return
        device = self._wait()
        if self._layout == "C":
            value = np.ascontiguousarray(value)
            with device.activate():
                copy_in(self._pointer, host_pointer(value), value.nbytes)
            return
        # The bytes between the elements belong to others: they are read, and written as they were.
        raw, elements = self._span_on_host()
        elements[...] = value
        with device.activate():
            copy_in(self._span()[0], host_pointer(raw), raw.nbytes)

    def _span(self) -> tuple[int, int]:
        return span_of(self._pointer, self.shape, self.strides, self.dtype.itemsize)

    def _span_on_host(self) -> tuple[np.ndarray, np.ndarray]:
        # A copy of all bytes from the first element to the last, and this array's elements in it.
        low, high = self._span()
        raw = np.empty(high - low, np.uint8)
        with self._buffer.device.activate():
            copy_out(low, host_pointer(raw), raw.nbytes)
        return raw, np.ndarray(self.shape, self.dtype, raw, self._pointer - low, self.strides)

    def _wait(self) -> driver.DeviceContext:
        self._check_alive()
        device = self._buffer.device
        synchronize_device(device)
        return device

    def _check_alive(self) -> None:
        if not self.alive:
            driver.refuse_in_child()
            raise ArgumentError("this device array's memory is gone: the device was reset", hint="make the array again")

    # --- as any sequence ---

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __repr__(self) -> str:
        if not self.alive:
            return f"<DeviceArray of shape {self.shape}, {self.dtype}, gone with a reset of its device>"
        return f"DeviceArray({self.numpy()!r}, device={self.device})"


def _basic_index(index: object) -> tuple[int | slice | EllipsisType | None, ...]:
    return tuple(_basic(part) for part in (index if isinstance(index, tuple) else (index,)))


def _basic(part: Any) -> int | slice | EllipsisType | None:
    if part is None or part is ... or isinstance(part, slice):
        kept: slice | EllipsisType | None = part
        return kept
    try:
        if not isinstance(part, bool):
            return operator.index(part)
    except TypeError:  # said below
        pass
    raise IndexError(f"{part!r} cannot index a device array: use integers, slices, ... and None, or index x.numpy()")


def empty(shape: int | tuple[int, ...], dtype: DTypeLike = float, device: int = 0) -> DeviceArray:
    """A C-order array on CUDA device ``device``, its elements not set; in the current pool if there is one.

    Raises:
        ArgumentError: a kernel cannot use this dtype.
        CudaError: the device has not enough memory.
    """
    extents = extents_of(shape)
    if any(extent < 0 for extent in extents):
        raise ArgumentError(f"the shape {extents} has a negative extent")
    own = usable_dtype(np.dtype(dtype), "dtype")
    nbytes = int(np.prod(extents, dtype=object)) * own.itemsize
    buffer = allocate(driver.device(device), nbytes)
    return DeviceArray(buffer, buffer.pointer, extents, contiguous_strides(extents, own.itemsize), own)


def words_read_meanwhile(count: int, device: int) -> tuple[DeviceArray, Callable[[], np.ndarray]]:
    """``count`` int64, all 0, and what copies them while kernels write them, always to the same array of the host.

    The copies do not keep the array alive.
    """
    context = driver.device(device)
    # Waits until they are 0: nothing else orders the copies.
    words = to_device(np.zeros(count, np.int64), device)
    pinned = PinnedWords(context, count)
    copy = context.once(SideStream).reader(words._pointer, pinned)
    copied = np.ctypeslib.as_array(pinned.words)

    def read() -> np.ndarray:
        copy()
        return copied

    return words, read


def to_device(array: ArrayLike, device: int = 0) -> DeviceArray:
    """A copy of ``array``, or what ``np.asarray`` makes of it, on CUDA device ``device``."""
    source = np.asarray(array)
    source = source.astype(source.dtype.newbyteorder("="), copy=False)
    result = empty(source.shape, source.dtype, device)
    result._write(source)
    return result


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """Stands for a ``Buffer`` where the memory is another library's: ``owner`` keeps it alive."""

    device: driver.DeviceContext
    owner: object


class DeviceScalar(DeviceArray):
    """One value at an address that never changes: an array without axes, which is updated in the order of a stream."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The value, after all work on the device."""
        return self.numpy()[()]

    def update(self, value: object) -> None:
        """Let what is launched from now on see ``value``, and what was launched before the one before; nobody waits.

        That is on the current stream: of ``qgraph.stream``, else the default one, in order with those of PyTorch and CuPy.

        Raises:
            ArgumentError: the type does not hold ``value``.
            CudaError: one of these streams is being captured: a replay would not see later updates.
        """
        element = bytes_of(self.dtype, value)
        device = self._buffer.device
        stream = CURRENT.get()
        others = library_streams(device.ordinal)
        if others:
            others = [other for other in others if other != stream]
        # What ``activate`` does; that takes longer than the update.
        pushed = device.push()
        try:
            # Behind ``push``, which finds out whether the context was reset.
            if self._epoch != device.epoch:
                self._check_alive()
            if stream or others:
                for each in (stream, *others):
                    refuse_capture(
                        each,
                        "an update would be part of the graph, with this value for ever",
                        "update before the capture, or between replays",
                    )
            for other in others:
                order_after(stream, other)
            write_bytes(self._pointer, element, stream)
            for other in others:
                order_after(other, stream)
        finally:
            if pushed:
                device.pop()


def scalar(dtype: np.dtype, value: object, device: int) -> DeviceScalar:
    """A new one on device ``device``."""
    element = element_of(dtype, value)
    buffer = Buffer(driver.device(device), _SCALAR_BYTES)
    scalar_ = DeviceScalar(buffer, buffer.pointer, (), (), element.dtype)
    scalar_._write(element)
    return scalar_


def copy_to_host(view: ArrayView) -> np.ndarray:
    """The elements of another library's device array, as a NumPy array in C order, after all work on the device."""
    assert view.device is not None
    memory: Any = _Borrowed(driver.device(view.device), view.owner)
    return DeviceArray(memory, view.pointer, view.shape, view.strides, view.dtype).numpy()
