"""Streams of other libraries as driver handles, waiting, and order between streams.

A handle is an int: 0 is the default stream (1 means the same), 2 the calling thread's own default stream. All functions want
the device's context current (``with device.activate():``), since a default stream belongs to the current context.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from qgraph.compat.framework_streams import torch_stream, warp_device
from qgraph.errors import ArgumentError, CudaError, QGraphError
from qgraph.runtime.driver.driver import DeviceContext, call, current_device, driver

DEFAULT_STREAM = 0
LEGACY = 1
PER_THREAD = 2
# Handles that mean the same stream as long as its context exists.
LASTING = frozenset({DEFAULT_STREAM, LEGACY})
# The handle of the stream that ``qgraph.stream`` chose.
CURRENT: ContextVar[int] = ContextVar("qgraph_stream", default=DEFAULT_STREAM)
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
# With this setting of cuda.bindings each thread has a default stream of its own.
ONE_DEFAULT = os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") in ("", "0")


def handle_of(stream: object) -> int:
    """The handle of a stream.

    Args:
        stream: anything with ``__cuda_stream__`` (a method, or the pair it returns), an int, or an object with
            ``cuda_stream`` (PyTorch), ``ptr`` (CuPy) or ``handle``; None is the default stream.

    Raises:
        ArgumentError: it is none of these.
    """
    if stream is None:
        return DEFAULT_STREAM
    if isinstance(stream, int) and not isinstance(stream, bool):
        return _valid(stream, stream)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair = protocol() if callable(protocol) else protocol
        try:
            version, handle = pair
        except (TypeError, ValueError) as error:
            found = f"__cuda_stream__ of {type(stream).__name__} gave {pair!r}, not (version, handle)"
            raise ArgumentError(found) from error
        if version != 0:
            raise ArgumentError(
                f"__cuda_stream__ of {type(stream).__name__} has version {version!r}, and only version 0 is known",
                hint="pass the stream's handle as an int",
            )
        return _valid(handle, stream)
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return _valid(value, stream)
    raise ArgumentError(
        f"{type(stream).__name__} is not a CUDA stream",
        hint="pass an object with __cuda_stream__, or the stream's handle as an int",
    )


def _valid(handle: Any, stream: object) -> int:
    # ctypes pointers keep their address in `value`, None for a null pointer.
    address = getattr(handle, "value", handle)
    try:
        number = 0 if address is None else int(address)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"the stream handle {handle!r} of {type(stream).__name__} is not a number") from error
    if number < 0:
        raise ArgumentError(f"{number} is not a stream handle")
    return DEFAULT_STREAM if number == LEGACY else number


def synchronize(stream: int) -> None:
    """Wait for the work in ``stream``; ``CudaError`` if some of it failed."""
    call(driver.cuStreamSynchronize, stream)


def library_streams(device: int | None = None) -> list[int]:
    """The streams on which PyTorch, CuPy and Warp work now, PyTorch and Warp on ``device``, else on the current one."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    found = []
    if torch is not None and torch.cuda.is_initialized():
        found.append(torch_stream(torch, torch.cuda.current_device() if device is None else device)())
    if cupy is not None:
        found.append(int(cupy.cuda.get_current_stream().ptr))
    if "warp" in sys.modules:
        warp = warp_device(current_device() if device is None else device)
        if warp is not None:
            found.append(int(warp.stream.cuda_stream or 0))
    return found


def current_streams() -> list[int]:
    """The streams on which qgraph, PyTorch, CuPy and Warp work now, qgraph's first; the default one is 0."""
    return list(dict.fromkeys(DEFAULT_STREAM if each in LASTING else each for each in (CURRENT.get(), *library_streams())))


def captures() -> bool:
    """Whether one of the ``current_streams`` is being captured into a graph."""
    return any(each not in LASTING and is_capturing(each) for each in current_streams())


def synchronize_device(device: DeviceContext) -> None:
    """Wait for all work on ``device``, and raise what failed.

    Raises:
        CudaError: a current stream is being captured: waiting would break that.
    """
    with device.activate():
        for each in current_streams():
            refuse_capture(each, "waiting would break that", "wait before the capture or after it")
    device.synchronize()


def is_capturing(stream: int) -> bool:
    """Whether work for ``stream`` is being captured into a graph instead of run."""
    return int(call(driver.cuStreamIsCapturing, stream)) != 0


def refuse_capture(stream: int, found: str, hint: str) -> None:
    """Refuse what cannot be part of a captured graph. The default stream is never captured, so nobody asks about it.

    Raises:
        CudaError: ``stream`` is being captured.
    """
    if stream not in LASTING and is_capturing(stream):
        raise CudaError(f"the stream {stream:#x} is being captured into a graph, and {found}: nothing ran", hint=hint)


@contextmanager
def private_stream() -> Iterator[int]:
    """A stream that is ordered with no other: it may be used while others are captured. At the end its work is done."""
    made = call(driver.cuStreamCreate, _NON_BLOCKING)
    try:
        yield int(made)
        call(driver.cuStreamSynchronize, made)
    finally:
        call(driver.cuStreamDestroy, made)


def order_after(stream: int, other: int) -> None:
    """What ``stream`` gets from now on starts after what ``other`` has now. The host does not wait.

    Raises:
        CudaError: one of them is being captured: who waits for such a stream is captured, too.
    """
    if _same(stream, other):
        return
    for each in (stream, other):
        refuse_capture(each, "no other stream can wait for it", "pass arrays of one library, on the stream that is captured")
    event = call(driver.cuEventCreate, _NO_TIMING)
    try:
        call(driver.cuEventRecord, event, other)
        call(driver.cuStreamWaitEvent, stream, event, 0)
    finally:
        # Legal at once: the driver keeps the event until it has happened.
        call(driver.cuEventDestroy, event)


def _same(stream: int, other: int) -> bool:
    return stream == other or (stream <= LEGACY and other <= LEGACY)


class Event:
    """A point in a stream's work, without a time. Made for one device, and destroyed with this object."""

    __slots__ = ("__weakref__", "_event", "_finalizer")

    def __init__(self, device: DeviceContext) -> None:
        with device.activate():
            self._event = call(driver.cuEventCreate, _NO_TIMING)
            self._finalizer = weakref.finalize(self, _destroy, device, device.epoch, self._event)
        self._finalizer.atexit = False

    @property
    def handle(self) -> int:
        """The driver's handle (CUevent)."""
        return int(self._event)

    def record(self, stream: int) -> None:
        """Mark the work that ``stream`` has now."""
        call(driver.cuEventRecord, self._event, stream)

    def wait(self, stream: int) -> None:
        """Let what ``stream`` gets from now on start after the mark."""
        call(driver.cuStreamWaitEvent, stream, self._event, 0)

    def synchronize(self) -> None:
        """Let the host wait for the mark."""
        call(driver.cuEventSynchronize, self._event)


def _destroy(device: DeviceContext, epoch: int, event: Any) -> None:
    if not device.alive(epoch):
        return
    try:
        with device.activate():
            call(driver.cuEventDestroy, event)
    except QGraphError:  # a poisoned context; a finalizer has nobody to tell
        return
