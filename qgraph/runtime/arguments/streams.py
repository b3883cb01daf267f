"""On which stream a call runs, what it waits for, and the host arrays that a call on the device copies."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from types import TracebackType
from typing import Any

from qgraph.errors import PerformanceWarning
from qgraph.records import dataclass
from qgraph.runtime.arguments.array_adapters import stream_finder, stream_finder_of
from qgraph.runtime.arguments.device_array import DeviceArray, DeviceScalar
from qgraph.runtime.arguments.staging import StagingPool, stage
from qgraph.runtime.driver import driver
from qgraph.runtime.driver.memory import Buffer
from qgraph.runtime.driver.stream import CURRENT, handle_of, order_after, refuse_capture, synchronize_device
from qgraph.runtime.values.array_view import ArrayView


@contextmanager
def stream(obj: object) -> Iterator[None]:
    """While this lasts, kernels are launched on ``obj``: anything with ``__cuda_stream__``, or a handle.

    Calls with arrays of PyTorch, CuPy or Warp run on that library's own current stream all the same.

    Raises:
        ArgumentError: ``obj`` is no stream.
    """
    token = CURRENT.set(handle_of(obj))
    try:
        yield
    finally:
        CURRENT.reset(token)


class Streams:
    """The stream of one call: that of the first array of PyTorch, CuPy or Warp, else of ``qgraph.stream``, else the default.

    As a context manager around the launch it orders it with the streams of the other arrays, before and after.
    """

    def __init__(self, device: int, views: Sequence[ArrayView]) -> None:
        self._device = device
        #: Tells the handle to launch on, whenever it is called. It holds no array.
        self.current: Callable[[], int] = CURRENT.get
        self._others: list[Callable[[], int]] = []
        if all(type(view.owner) in _OWN for view in views):
            return
        seen: set[str] = set()
        for view in views:
            library = type(view.owner).__module__.partition(".")[0]
            find = None if library in seen else stream_finder(view.owner)
            if find is not None:
                seen.add(library)
                if len(seen) == 1:
                    self.current = find
                else:
                    self._others.append(find)
            elif view.stream is not None:
                self._others.append(_constant(0 if view.stream == 1 else view.stream))

    @property
    def several(self) -> bool:
        """Whether there can be others than that of the call: which they are is another matter at each call."""
        return bool(self._others)

    @property
    def joined(self) -> bool:
        """Whether there are others now, with which the launch must be ordered."""
        return any(other() != self.current() for other in self._others)

    def __enter__(self) -> None:
        self._order(before=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._order(before=False)

    def _order(self, *, before: bool) -> None:
        here = self.current()
        others = {handle() for handle in self._others} - {here}
        if not others:
            return
        with driver.device(self._device).activate():
            for other in others:
                if before:
                    order_after(here, other)
                else:
                    order_after(other, here)


def one_stream(leaves: Sequence[object]) -> Callable[[Sequence[Any]], int] | None:
    """How to find the stream of calls whose leaves are of the same types as these, and on the same devices.

    None where it depends on more than one array or on more than its type: other streams may have to be waited for, or arrays
    copied to the device; then ``Streams`` and ``stage_host_arrays`` must look.
    """
    views = {index: view for index, view in enumerate(leaves) if isinstance(view, ArrayView)}
    if any(view.device is None or view.stream is not None for view in views.values()):
        return None
    foreign = {index: type(view.owner) for index, view in views.items() if type(view.owner) not in _OWN}
    if not foreign:
        return lambda leaves: CURRENT.get()
    first, cls = next(iter(foreign.items()))
    finder_of = stream_finder_of(cls)
    if finder_of is None or any(other is not cls for other in foreign.values()):
        return None

    def of_library(leaves: Sequence[Any]) -> int:
        find = finder_of(leaves[first].owner)
        return CURRENT.get() if find is None else find()

    return of_library


# The owners of qgraph's own arrays.
_OWN = frozenset({DeviceArray, DeviceScalar, Buffer})


def _constant(handle: int) -> Callable[[], int]:
    return lambda: handle


@dataclass(slots=True)
class _Pools:
    """Staging memory, by device."""

    by_device: dict[int, StagingPool] = field(default_factory=dict)


_POOLS = _Pools()


def stage_host_arrays(
    variant: Any, leaves: tuple[Any, ...], streams: Streams
) -> tuple[tuple[Any, ...], Callable[[], None]] | None:
    """Copies of the host arrays among ``leaves`` on the device, and what copies them back; None if there are none."""
    views = [leaves[index] for index in variant.arrays]
    if all(view.device is not None for view in views):
        return None
    device = driver.device(variant.device)
    with device.activate():
        refuse_capture(
            streams.current(), "arrays of the host cannot be copied meanwhile", "pass arrays on the device: qgraph.asarray(x)"
        )
    pool = _POOLS.by_device.get(variant.device)
    if pool is None:
        pool = _POOLS.by_device.setdefault(variant.device, StagingPool(device))
    staged, finish = stage(views, variant.written, pool, streams.current())
    moved = list(leaves)
    for index, view in zip(variant.arrays, staged, strict=True):
        moved[index] = view
    return tuple(moved), finish


@dataclass(slots=True)
class _WarnedOnce:
    """What was warned of already, once a process."""

    staging: bool = False


_SAID = _WarnedOnce()


def warn_staging() -> None:
    """Warn, once a process, that calls copy NumPy arrays to the device and back."""
    if not _SAID.staging:
        _SAID.staging = True
        warnings.warn(
            "NumPy arrays were passed to the cuda backend: they are copied to the device and back at every call; "
            "keep them there with qgraph.asarray(x, backend='cuda')",
            PerformanceWarning,
            stacklevel=5,
        )


def before_building(device: int, stream: int) -> None:
    """Refuse to build an executable for a launch on a stream that is captured: memory cannot be had meanwhile.

    Raises:
        CudaError: it is.
    """
    with driver.device(device).activate():
        refuse_capture(
            stream,
            "the kernel is not compiled for these arguments yet",
            "call it once before the capture, with arguments of the same types, as libraries warm up before they capture",
        )


def synchronize_all() -> None:
    """Wait for all work on all devices in use.

    Raises:
        CudaError: something failed on a device since the last wait, or a current stream is being captured.
    """
    for device in driver.devices_in_use():
        synchronize_device(device)


def reset_devices() -> None:
    """Free the staging memory, and forget what is known of the devices."""
    for pool in _POOLS.by_device.values():
        pool.clear()
    _POOLS.by_device.clear()
    for device in driver.devices_in_use():
        device.reset()
