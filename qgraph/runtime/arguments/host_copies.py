"""Copies of a call's arrays on the host: what shares memory shares it in the copies."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence

import numpy

from qgraph.compat.numpy import host_pointer
from qgraph.records import dataclass
from qgraph.runtime.values.aliasing import joint_spans
from qgraph.runtime.values.array_view import ArrayView

# Elements keep their place within so many bytes, and so their alignment.
_ALIGNMENT = 256


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Memory of arrays that overlap: its bytes, and how many the smallest part has that an access may touch by itself."""

    memory: numpy.ndarray
    itemsize: int
    members: tuple[int, ...]

    @property
    def address(self) -> int:
        """Where it begins."""
        return host_pointer(self.memory)


def copied_to_host(views: Sequence[ArrayView]) -> tuple[list[ArrayView], list[Region]]:
    """Copies of arrays, and the regions of memory that they are in.

    Those of a device are copied after all work that was launched there.
    """
    copies = list(views)
    regions = []
    for device in {view.device for view in views}:
        for low, high, members in joint_spans(views, device):
            offset = low % _ALIGNMENT
            buffer = numpy.empty(high - low + 2 * _ALIGNMENT, numpy.uint8)
            first = (offset - host_pointer(buffer)) % _ALIGNMENT
            memory = buffer[first : first + high - low]
            _read(memory, low, device)
            # Each element begins at a multiple of this.
            parts = {step for index in members for step in _steps(views[index], low)}
            regions.append(Region(memory, math.gcd(*parts), tuple(members)))
            for index in members:
                view = views[index]
                array = numpy.ndarray(view.shape, view.dtype, memory, view.pointer - low, view.strides)
                if view.readonly:
                    array.flags.writeable = False
                pointer = view.pointer - low + host_pointer(memory)
                copies[index] = ArrayView(
                    pointer, view.shape, view.strides, view.dtype, view.readonly, None, array, None, view.layout, array
                )
    return copies, regions


def region_of(array: numpy.ndarray) -> Region:
    """That of an array that shares its memory with no other one."""
    return Region(array.reshape(-1).view(numpy.uint8), _part(array.dtype), ())


def _steps(view: ArrayView, low: int) -> Iterator[int]:
    """The distances in bytes that lead from ``low`` to elements, and over them."""
    yield _part(view.dtype)
    yield view.pointer - low
    yield from map(abs, view.strides)


def _part(dtype: numpy.dtype) -> int:
    """The real and the imaginary part are elements of their own."""
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize


def _read(memory: numpy.ndarray, low: int, device: int | None) -> None:
    if memory.size == 0:
        return
    if device is None:
        ctypes.memmove(host_pointer(memory), low, memory.size)
        return
    from qgraph.runtime.arguments.streams import synchronize_all
    from qgraph.runtime.driver import driver
    from qgraph.runtime.driver.memory import copy_out

    synchronize_all()
    with driver.device(device).activate():
        copy_out(low, host_pointer(memory), memory.size, 0, wait=True)
