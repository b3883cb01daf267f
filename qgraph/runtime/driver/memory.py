"""Device memory: allocations that free themselves, copies and fills.

Copies and fills want the device's context current (``with device.activate():``).
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

from qgraph.errors import QGraphError
from qgraph.runtime.driver.driver import DeviceContext, call, check, driver, outside_captures


class Buffer:
    """``nbytes`` bytes of device memory at ``pointer``, freed with this object. An empty one has pointer 0.

    Plain ``cuMemAlloc`` and ``cuMemFree``, not the stream-ordered pool: ``cuMemFree`` waits for the work of every stream,
    non-blocking ones included (PyTorch's are), so that a buffer may be dropped while work on it is in flight. The pool
    would need to know each stream that used it.

    With ``release`` the memory at ``pointer`` is a pool's, and goes back by that call.
    """

    __slots__ = ("__weakref__", "_finalizer", "device", "nbytes", "pointer")

    def __init__(self, device: DeviceContext, nbytes: int, pointer: int = 0, release: Callable[[], None] | None = None) -> None:
        self.device = device
        self.nbytes = nbytes
        self.pointer = pointer
        self._finalizer: weakref.finalize[..., Buffer] | None = None
        if nbytes == 0:
            return
        if release is not None:
            self._finalizer = weakref.finalize(self, release)
        else:
            with device.activate(), outside_captures():
                self.pointer = int(call(driver.cuMemAlloc, nbytes))
                self._finalizer = weakref.finalize(self, _free, device, device.epoch, self.pointer)
        self._finalizer.atexit = False  # the driver takes the memory back when the process ends

    def free(self) -> None:
        """Free the memory now, after all work on the device. Nothing happens the second time."""
        if self._finalizer is not None:
            self._finalizer()
        self.pointer = 0

    def __repr__(self) -> str:
        return f"<Buffer of {self.nbytes} bytes at {self.pointer:#x} on device {self.device.ordinal}>"


def _free(device: DeviceContext, epoch: int, pointer: int) -> None:
    # After a reset the address may be somebody else's allocation.
    if not device.alive(epoch):
        return
    try:
        with device.activate(), outside_captures():
            call(driver.cuMemFree, pointer)
    except QGraphError:  # a poisoned context; the failure is reported to whoever waits for the work, not to the collector
        return


class PinnedWords:
    """``count`` int64 of page-locked host memory, into which the device's copies really are asynchronous.

    Attributes:
        pointer: the address of the first.
        words: all of them, as the last copy that was waited for left them.
    """

    __slots__ = ("__weakref__", "_finalizer", "pointer", "words")

    def __init__(self, device: DeviceContext, count: int = 1) -> None:
        with device.activate(), outside_captures():
            self.pointer = int(call(driver.cuMemHostAlloc, 8 * count, 0))
            self._finalizer = weakref.finalize(self, _free_host, device, device.epoch, self.pointer)
        self._finalizer.atexit = False
        self.words = (ctypes.c_int64 * count).from_address(self.pointer)

    def free(self) -> None:
        """Free the words now. Nothing happens the second time."""
        self._finalizer()


def _free_host(device: DeviceContext, epoch: int, pointer: int) -> None:
    if not device.alive(epoch):
        return
    try:
        with device.activate(), outside_captures():
            call(driver.cuMemFreeHost, pointer)
    except QGraphError:  # as in _free
        return


def page_locked(device: DeviceContext, nbytes: int) -> Any:
    """Page-locked host memory as an array of ctypes. Whatever holds it, such as NumPy's arrays of its bytes, keeps it alive.

    It is freed later: it may die in a host callback, which may not call CUDA.
    """
    memory = PinnedWords(device, -(-nbytes // 8))
    block = (ctypes.c_byte * nbytes).from_address(memory.pointer)
    weakref.finalize(block, device.retire, memory.free).atexit = False
    return block


def copy_in(target: Buffer | int, host_pointer: int, nbytes: int, stream: int = 0, *, wait: bool = True) -> None:
    """Copy ``nbytes`` bytes of host memory to the device, in ``stream``'s order.

    With ``wait`` the host memory may change or die on return; without, not before the stream was waited for.
    """
    if nbytes:
        call(driver.cuMemcpyHtoDAsync, _address(target), host_pointer, nbytes, stream)
        if wait:
            call(driver.cuStreamSynchronize, stream)


def copy_out(source: Buffer | int, host_pointer: int, nbytes: int, stream: int = 0, *, wait: bool = True) -> None:
    """Copy ``nbytes`` bytes of the device to host memory, after the work in ``stream``; the host waits unless told not to."""
    if nbytes:
        call(driver.cuMemcpyDtoHAsync, host_pointer, _address(source), nbytes, stream)
        if wait:
            call(driver.cuStreamSynchronize, stream)


def write_bytes(target: int, value: bytes, stream: int = 0) -> None:
    """Write 1, 2, 4, 8 or 16 bytes in ``stream``'s order. The driver takes them with the call, and reads no memory of the host.

    ``target`` is aligned to 8 bytes, and at least 4 bytes from there on are the caller's.
    """
    if len(value) <= 8:
        write = driver.cuStreamWriteValue64 if len(value) == 8 else driver.cuStreamWriteValue32
        # No ``call``, which takes a third of the time.
        check(write(stream, target, int.from_bytes(value, "little"), 0), write.__name__)
        return
    for offset in range(0, len(value), 8):
        call(driver.cuStreamWriteValue64, stream, target + offset, int.from_bytes(value[offset : offset + 8], "little"), 0)


def copy_device(target: Buffer | int, source: Buffer | int, nbytes: int, stream: int = 0) -> None:
    """Copy ``nbytes`` bytes within device memory, in ``stream``'s order."""
    if nbytes:
        call(driver.cuMemcpyDtoDAsync, _address(target), _address(source), nbytes, stream)


def fill(target: Buffer | int, pattern: bytes, count: int, stream: int = 0) -> None:
    """Write ``pattern`` (one element's bytes) ``count`` times from ``target`` on, in ``stream``'s order."""
    address = _address(target)
    if count == 0 or not pattern:
        return
    width, repeats = _shortest_period(pattern)
    value = int.from_bytes(pattern[:width], "little")
    if width == 1:
        call(driver.cuMemsetD8Async, address, value, count * repeats, stream)
    elif width == 2 and address % 2 == 0:
        call(driver.cuMemsetD16Async, address, value, count * repeats, stream)
    elif width == 4 and address % 4 == 0:
        call(driver.cuMemsetD32Async, address, value, count * repeats, stream)
    else:
        _fill_by_doubling(address, pattern, count, stream)


def _shortest_period(pattern: bytes) -> tuple[int, int]:
    # (width, how often pattern repeats its first `width` bytes), for the widths that a memset can write.
    for width in (1, 2, 4):
        repeats, rest = divmod(len(pattern), width)
        if rest == 0 and pattern == pattern[:width] * repeats:
            return width, repeats
    return len(pattern), 1


def _fill_by_doubling(address: int, pattern: bytes, count: int, stream: int) -> None:
    # No memset writes elements this wide: write one, then copy what is there behind itself.
    seed = ctypes.create_string_buffer(pattern, len(pattern))
    copy_in(address, ctypes.addressof(seed), len(pattern), stream)
    total = count * len(pattern)
    done = len(pattern)
    while done < total:
        step = min(done, total - done)
        copy_device(address + done, address, step, stream)
        done += step


def _address(place: Buffer | int) -> int:
    return place.pointer if isinstance(place, Buffer) else place
