"""NumPy arrays on the cuda backend: copied to the device before a launch, and what was written copied back after it.

Arrays that share memory on the host share it on the device: spans that meet become one copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy

from qgraph.compat.numpy import host_pointer
from qgraph.runtime.driver.driver import DeviceContext
from qgraph.runtime.driver.memory import Buffer, copy_in, copy_out
from qgraph.runtime.driver.stream import synchronize
from qgraph.runtime.values.aliasing import joint_spans
from qgraph.runtime.values.array_view import ArrayView

# Copies start at the same offset into this many bytes as on the host, so elements keep their alignment.
_ALIGNMENT = 256


class StagingPool:
    """Device buffers between calls, of one device: a few, of sizes that are powers of two. Safe from several threads.

    Args:
        device: where the buffers are.
        limit: how many bytes of unused buffers to keep.
    """

    def __init__(self, device: DeviceContext, limit: int = 1 << 30) -> None:
        self.device = device
        self._limit = limit
        self._lock = threading.Lock()
        self._epoch = device.epoch
        self._unused: list[Buffer] = []

    def take(self, nbytes: int) -> Buffer:
        """A buffer of at least ``nbytes`` bytes, of nobody else until it is given back."""
        size = 1 << max(nbytes - 1, 511).bit_length()
        with self._lock:
            self._forget_lost()
            for index, buffer in enumerate(self._unused):
                if buffer.nbytes == size:
                    return self._unused.pop(index)
        return Buffer(self.device, size)

    def give(self, buffer: Buffer) -> None:
        """Take a buffer back that no work uses any more; the ones unused for longest go when there are too many."""
        with self._lock:
            self._forget_lost()
            self._unused.append(buffer)
            while sum(kept.nbytes for kept in self._unused) > self._limit:
                self._unused.pop(0)

    def clear(self) -> None:
        """Free all unused buffers."""
        with self._lock:
            self._unused.clear()

    def _forget_lost(self) -> None:
        # A reset of the device took its memory.
        if self._epoch != self.device.epoch:
            self._epoch = self.device.epoch
            self._unused.clear()


def stage(
    views: Sequence[ArrayView], written: Sequence[bool], pool: StagingPool, stream: int = 0
) -> tuple[tuple[ArrayView, ...], Callable[[], None]]:
    """Copy host arrays to the device, in ``stream``'s order.

    Args:
        views: the arrays of a call; those on a device already are left as they are.
        written: which ones the kernel writes.
        pool: of the device to copy to.
        stream: where the kernel will be launched.

    Returns:
        The views to launch with, and a function to call after the launch: it copies what was written back, waits, and gives
        the buffers back. Only elements of written arrays change on the host, never the bytes between them. If the launch
        failed, drop the function uncalled.
    """
    staged = list(views)
    buffers = []
    with pool.device.activate():
        for low, high, members in joint_spans(views):
            offset = low % _ALIGNMENT
            buffer = pool.take(high - low + offset)
            buffers.append(buffer)
            base = buffer.pointer + offset
            copy_in(base, low, high - low, stream, wait=False)
            for index in members:
                staged[index] = _moved(views[index], base - low, buffer)
    outputs = [
        (view, away)
        for view, away, is_written in zip(views, staged, written, strict=True)
        if is_written and view.device is None and not view.readonly
    ]

    def finish() -> None:
        if pool.device.running.some:
            # A copy to memory that is not page-locked waits inside the driver.
            pool.device.wait_for(stream)
        with pool.device.activate():
            _copy_back(outputs, stream)
        for buffer in buffers:
            pool.give(buffer)
        pool.device.kept.tell()

    return tuple(staged), finish


def _moved(view: ArrayView, distance: int, buffer: Buffer) -> ArrayView:
    pointer = view.pointer + distance
    device = buffer.device.ordinal
    return ArrayView(pointer, view.shape, view.strides, view.dtype, view.readonly, device, buffer, None, view.layout)


def _copy_back(outputs: Sequence[tuple[ArrayView, ArrayView]], stream: int) -> None:
    scattered = []
    for home, away in outputs:
        low, high = home.span()
        start = low + away.pointer - home.pointer
        if home.layout != "A":
            copy_out(start, low, high - low, stream, wait=False)
            continue
        # Between the elements is memory that this call must not write, not even with what it read there before.
        raw = numpy.empty(high - low, numpy.uint8)
        copy_out(start, host_pointer(raw), raw.nbytes, stream, wait=False)
        scattered.append((home, raw, home.pointer - low))
    synchronize(stream)
    for home, raw, offset in scattered:
        assert home.host is not None
        home.host[...] = numpy.ndarray(home.shape, home.dtype, raw, offset, home.strides)
