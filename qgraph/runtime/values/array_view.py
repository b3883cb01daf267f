"""What the runtime knows of one array of a call, whoever made it: where its elements lie, and who owns them."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Literal

import numpy

from qgraph.compat.numpy import host_pointer
from qgraph.errors import ArgumentError
from qgraph.records import dataclass

Layout = Literal["C", "F", "A"]


@dataclass(slots=True, eq=False)
class ArrayView:
    """Elements in memory: ``shape`` in elements, ``strides`` in bytes (negative and zero ones included), ``dtype`` native.

    Args:
        pointer: address of element ``[0, ..., 0]``.
        device: ordinal of the CUDA device the memory is on, None for host memory.
        owner: what the caller passed; whoever launches work on ``pointer`` keeps it alive.
        stream: the stream after whose work the elements are ready, as the producer says (1 legacy default, 2 per-thread).
        layout: C, F or A, as Numba's ``typeof`` decides: size 0 and 0-d are C.
        host: a NumPy array of exactly these elements, for host memory.
        keep: what else must live as long as this view (a DLPack import).
    """

    # Not frozen: a frozen dataclass takes three times as long to make, and a call makes one for every array.
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: numpy.dtype
    readonly: bool
    device: int | None
    owner: object
    stream: int | None = None
    layout: Layout = "C"
    host: numpy.ndarray | None = None
    keep: object = None

    def bare(self) -> ArrayView:
        """The same place, without holding what owns it."""
        return ArrayView(
            self.pointer, self.shape, self.strides, self.dtype, self.readonly, self.device, None, self.stream, self.layout
        )

    def is_stale(self) -> bool:
        """Whether the array of the host that this view is of has another place, shape or type by now."""
        array = self.host
        # Another owner's memory is seen through an array of our own, which nobody changes.
        if array is None or array is not self.owner:
            return False
        place = (host_pointer(array), array.shape, array.strides, array.dtype)
        return place != (self.pointer, self.shape, self.strides, self.dtype) or not (self.readonly or array.flags.writeable)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, gaps between them not counted."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def span(self) -> tuple[int, int]:
        """The lowest address of an element, and one past the highest; both equal for an empty array."""
        if self.layout != "A":
            return self.pointer, self.pointer + math.prod(self.shape) * self.dtype.itemsize
        return span_of(self.pointer, self.shape, self.strides, self.dtype.itemsize)


def changed_in_place() -> ArgumentError:
    """What a launch of a bound kernel raises where a view is stale."""
    found = "an array that the kernel is bound to has another shape, dtype or memory now, or may not be written any more"
    return ArgumentError(found, hint="bind the kernel again, or call it")


def span_of(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The lowest address of an element, and one past the highest; both equal to ``pointer`` for an empty array."""
    low = high = pointer
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return pointer, pointer
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + itemsize


@lru_cache(maxsize=4096)
def extents_of(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """A shape as ``numpy.empty`` takes it: one integer is that of a vector."""
    return tuple(map(operator.index, shape)) if isinstance(shape, tuple | list) else (operator.index(shape),)


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of a C-contiguous array; an extent of 0 counts as 1."""
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@lru_cache(maxsize=4096)
def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Layout:
    """C if C-contiguous, else F if F-contiguous, else A. Strides of axes with one element do not matter, as in NumPy."""
    if 0 in shape or _is_packed(shape[::-1], strides[::-1], itemsize):
        return "C"
    return "F" if _is_packed(shape, strides, itemsize) else "A"


def _is_packed(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    # Axes from the fastest to the slowest.
    step = itemsize
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if stride != step:
            return False
        step *= extent
    return True


def view_of_host(array: numpy.ndarray, owner: object) -> ArrayView:
    """A view of a NumPy array that stands for ``owner`` (itself, or what shares its memory)."""
    flags = array.flags
    layout: Layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return ArrayView(
        host_pointer(array), array.shape, array.strides, array.dtype, not flags.writeable, None, owner, None, layout, array
    )
