"""The CUDA driver: calls whose every result is checked, and one object per device that holds its primary context.

Importing this module needs neither a driver nor ``cuda-bindings``: without them there are no devices.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from qgraph import forks
from qgraph.errors import BackendError, CudaError, NothingRan
from qgraph.forks import WAYS_OUT, in_child
from qgraph.runtime.values.pending_errors import PendingErrors
from qgraph.runtime.values.running_loops import RunningLoops

try:
    from cuda.bindings import driver as _bindings
except ImportError:  # there are no wheels for this platform
    _bindings = None

driver: Any = _bindings

_T = TypeVar("_T")

_SUCCESS, _NOT_READY = 0, 600
# What cuInit says in a child process of one that has called it.
_NOT_INITIALIZED = "CUDA_ERROR_NOT_INITIALIZED"
_ATTRIBUTE_MULTIPROCESSORS = 16
_ATTRIBUTE_SHARED_OPTIN = 97
_ATTRIBUTE_MAJOR = 75
_ATTRIBUTE_MINOR = 76

_POISONED = (
    "the CUDA context of this process is lost, with all that is in it, since a kernel failed: look for an index out of bounds,"
    " then restart the process"
)
_HINTS = {
    2: "free arrays, or use smaller ones",
    214: _POISONED,
    700: _POISONED,
    702: _POISONED,
    710: _POISONED,
    714: _POISONED,
    715: _POISONED,
    716: _POISONED,
    717: _POISONED,
    718: _POISONED,
    719: _POISONED,
    900: "it waits or allocates, which no capture allows: do it before the capture, or after it",
    901: "an earlier operation broke the capture: end it, and look for the first error",
    902: "two captures would become one: wait for streams of the same capture only",
    903: "end the capture on the stream on which it began",
    904: "let the captured stream wait for all that was forked from it, before the capture ends",
    905: "a captured stream would wait for work outside the capture: wait for it before the capture begins",
    906: "the default stream waits for the captured one: capture on a non-blocking stream, or leave the default stream alone",
    907: "the event was recorded in a capture, and nobody outside can wait for it",
    908: "end the capture on the thread that began it, or begin it in relaxed mode",
}


class ContextLost(NothingRan):
    """The primary context was reset from outside: modules, graphs and memory are gone, and their owner builds them again."""


class UnfitCode(NothingRan):
    """Arrays are not what the code takes for granted; nothing ran. ``learned``: what a ``Variant`` must know for other code."""

    learned: tuple[str, bool]


class NeedsIndex64(UnfitCode):
    """An array of several dimensions has more elements than the code can tell apart."""

    learned = ("index64", True)


class NeedsOwnExtents(UnfitCode):
    """Arrays have different shapes that the code takes to be the same."""

    learned = ("equal_extents", False)


class ExecutableClosed(NothingRan):
    """Another thread closed the executable before this launch had its lock: its kernel let go of it, and builds another."""


def check(result: tuple[Any, ...], name: str = "a CUDA driver call") -> Any:
    """The values a driver call returned: nothing, one value or a tuple.

    Args:
        result: what a function of ``cuda.bindings.driver`` returned, its CUresult first.
        name: the function's name, for the message.

    Raises:
        CudaError: the result is not CUDA_SUCCESS.
    """
    if result[0] != _SUCCESS:
        raise failure(result[0], name)
    if len(result) == 2:
        return result[1]
    return result[1:] or None


def failure(code: Any, name: str) -> CudaError:
    """The error for a CUresult that is not success, with the driver's own name and words for it."""
    number = int(code)
    _, label = driver.cuGetErrorName(code)
    _, text = driver.cuGetErrorString(code)
    words = f"{_decode(label) or number}: {_decode(text) or 'the driver has no text for it'}"
    return CudaError(f"{name} failed with {words}", hint=_HINTS.get(number))


def _decode(text: bytes | None) -> str:
    return text.decode(errors="replace") if text else ""


def call(function: Callable[..., tuple[Any, ...]], *arguments: Any) -> Any:
    """Call a driver function and return its values; ``CudaError`` if it fails or this driver does not have it."""
    name: str = function.__name__
    try:
        result = function(*arguments)
    except RuntimeError as error:  # how cuda.bindings reports a symbol that the driver lacks, and a driver that is not there
        if type(error).__name__ == "DynamicLibNotFoundError":
            raise CudaError("no NVIDIA driver was found on this machine", hint="install the NVIDIA driver") from error
        raise CudaError(f"{name} is not in this CUDA driver: {error}", hint="install a newer NVIDIA driver") from error
    return check(result, name)


class DeviceContext:
    """The primary context of one device, retained for the life of the process.

    Every allocation, module and graph lives in the context as it was at some ``epoch``. The number changes when somebody
    resets the primary context (``cudaDeviceReset``, another library, ``reset()``): then all of them are gone, and
    destroying them would hurt whoever owns those handles now.

    Args:
        ordinal: the device's number among those CUDA shows to this process.

    Attributes:
        context_id: the driver's number of the context in this epoch; no context has that of another.
    """

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        # What host functions on a thread of the driver raised.
        self.kept = PendingErrors()
        self._waits_at_exit = False
        # Whether this is a child process, and the context its parent's.
        self._left_behind = False
        # Guards epoch and notes. Finalizers may run on this thread while it holds the lock.
        self.lock = threading.RLock()
        self._device = call(driver.cuDeviceGet, ordinal)
        self.name = _decode(call(driver.cuDeviceGetName, 256, self._device).split(b"\0")[0])
        self.capability: tuple[int, int] = (self._attribute(_ATTRIBUTE_MAJOR), self._attribute(_ATTRIBUTE_MINOR))
        self.multiprocessors: int = self._attribute(_ATTRIBUTE_MULTIPROCESSORS)
        # Bytes of shared memory that a block may ask for.
        self.shared: int = self._attribute(_ATTRIBUTE_SHARED_OPTIN)
        self.epoch = 0
        # What was found out about this device once (`cuda_probe`), for as long as the epoch lasts.
        self.notes: dict[str, Any] = {}
        self._once: dict[Callable[[DeviceContext], Any], Any] = {}
        self._retired: list[Callable[[], None]] = []
        self._retain()

    def _attribute(self, number: int) -> int:
        return int(call(driver.cuDeviceGetAttribute, driver.CUdevice_attribute(number), self._device))

    def leave_behind(self) -> None:
        """In a child process: nothing that was made exists here, and nothing can be made. The driver is not asked."""
        self._left_behind = True
        self.epoch += 1
        self._retired.clear()

    def _retain(self) -> None:
        self._context = call(driver.cuDevicePrimaryCtxRetain, self._device)
        self._pointer = int(self._context)
        # A reset context comes back under the same handle: only the id tells them apart.
        # The epoch first: who finds the new id current finds that what it has is of an older one.
        self.epoch += 1
        # What ran before is gone.
        self.running = RunningLoops(self._block, self.kept.keep)
        self.context_id = call(driver.cuCtxGetId, self._context)
        self.notes = {}
        self._once = {}

    def once(self, make: Callable[[DeviceContext], _T]) -> _T:
        """What ``make`` gives for this device, made once in an epoch; ``reset`` alone does not take it away."""
        with self.lock:
            if make not in self._once:
                self._once[make] = make(self)
            found: _T = self._once[make]
            return found

    def alive(self, epoch: int) -> bool:
        """Whether what was made at ``epoch`` still exists. Never brings a reset context back."""
        if epoch != self.epoch or self._left_behind:
            return False
        # The id is only asked of a context that is active: what it answers for an inactive one is not written down.
        result = driver.cuDevicePrimaryCtxGetState(self._device)
        if result[0] != _SUCCESS or not result[2]:
            return False
        return bool(driver.cuCtxGetId(self._context) == (_SUCCESS, self.context_id))

    def refresh(self) -> int:
        """The epoch now. Brings the context back if it was reset."""
        if self._left_behind:
            refuse_in_child()
        epoch = self.epoch
        if self.alive(epoch):
            return epoch
        with self.lock:
            if not self.alive(self.epoch):
                # A reset does not drop the references that were held; one more changes nothing.
                self._retain()
            return self.epoch

    def push(self, stays: bool = False) -> bool:
        """Make the context current on this thread, whatever was current. True if ``pop`` must follow.

        With ``stays`` that of device 0 stays current where none was, so that the next call finds it: so does CUDA's runtime
        with every thread that uses it and names no other device.
        """
        if self._left_behind:
            refuse_in_child()
        # The id of what is current: it fails where nothing is, and where that was reset and nobody brought it back.
        if driver.cuCtxGetId(None)[1] == self.context_id:
            return False
        self.refresh()
        result = driver.cuCtxGetCurrent()
        current = int(result[1]) if result[0] == _SUCCESS else None
        if current == self._pointer:
            return False
        if stays and current == 0 and self.ordinal == 0:
            call(driver.cuCtxSetCurrent, self._context)
            return False
        call(driver.cuCtxPushCurrent, self._context)
        return True

    def pop(self) -> None:
        """Undo a ``push`` that returned True."""
        call(driver.cuCtxPopCurrent)

    @contextmanager
    def activate(self) -> Iterator[DeviceContext]:
        """``with device.activate():`` the context is current on this thread, and afterwards the one before it is again."""
        pushed = self.push()
        try:
            yield self
        finally:
            if pushed:
                self.pop()

    def retire(self, release: Callable[[], None]) -> None:
        """Let ``release`` be called by the next ``free_retired``.

        For finalizers whose work waits for the device: they run at any time, and waiting breaks every capture on the device.
        """
        self._retired.append(release)

    def free_retired(self) -> None:
        """Free what was retired so far; it may wait for the device."""
        while self._retired:
            self._retired.pop()()

    def trim(self) -> None:
        """Give memory back that CUDA keeps for the allocation nodes of graphs which are gone."""
        call(driver.cuDeviceGraphMemTrim, self._device)

    def synchronize(self) -> None:
        """Wait for all work on the device; raises what a host callback raised, ``CudaError`` if some of the work failed."""
        self.wait()
        self.kept.tell()

    def wait_at_exit(self) -> None:
        """Before the interpreter ends, wait for the work that may still call its functions, and tell what they raised."""
        with self.lock:
            if not self._waits_at_exit:
                self._waits_at_exit = True
                atexit.register(self._last_wait)

    def _last_wait(self) -> None:
        if not self.alive(self.epoch):
            return
        # Work that failed is for those to be told who wait for it; in most processes nobody waits at the end.
        with suppress(CudaError):
            self.wait()
        self.kept.tell()

    def wait(self) -> None:
        """Wait for all work on the device, and tell nothing. While loops may run, signals are handled, and may end them."""
        self.running.wait_for_all(lambda: self._is_done(0))

    def wait_for(self, stream: int) -> None:
        """The same for the work in ``stream``, which exists."""

        def block() -> None:
            with self.activate():
                call(driver.cuStreamSynchronize, stream)

        self.running.wait(lambda: self._is_done(stream), block)

    def _is_done(self, stream: int) -> bool:
        with self.activate():
            return int(driver.cuStreamQuery(stream)[0]) != _NOT_READY

    def _block(self) -> None:
        with self.activate():
            call(driver.cuCtxSynchronize)

    def reset(self, destroy: bool = False) -> None:
        """Wait for all work and forget what was found out about the device.

        The context itself is destroyed, with everything that any library of this process has in it, only if ``destroy``, or
        if an earlier failure left it unusable. Then the epoch changes.
        """
        self.free_retired()
        if not destroy:
            try:
                self.wait()
            except CudaError:  # a poisoned context refuses all further calls: nothing in it can be used again
                destroy = True
        with self.lock:
            self.notes = {}
            if destroy:
                call(driver.cuDevicePrimaryCtxReset, self._device)
                self._retain()

    def __repr__(self) -> str:
        major, minor = self.capability
        return f"<DeviceContext {self.ordinal}: {self.name}, compute capability {major}.{minor}>"


class _Devices:
    """The devices that were asked for so far. One object a process, under its own lock."""

    def __init__(self) -> None:
        self._lock = forks.rlock()
        self._contexts: dict[int, DeviceContext] = {}
        self._count: int | None = None
        self.trouble = ""
        self.ways_out = "backend='cpu' runs the same kernels compiled for the CPU"
        # Whether this process was forked from one that uses CUDA.
        self.forked = False

    def count(self) -> int:
        with self._lock:
            if self._count is None:
                self._count = self._initialise()
            return self._count

    def _initialise(self) -> int:
        if driver is None:
            self.trouble = "cuda-bindings is not installed"
            return 0
        try:
            call(driver.cuInit, 0)
            return int(call(driver.cuDeviceGetCount))
        except CudaError as error:
            self.trouble = error.found
            if _NOT_INITIALIZED in error.found:
                # It was, in the parent, perhaps by another library.
                self._refuse_forked()
            return 0

    def leave_behind(self) -> None:
        """In a child process: what the parent has is not the child's, and it cannot have its own."""
        if not self._count:
            return
        self._refuse_forked()
        for context in self._contexts.values():
            context.leave_behind()
        self._contexts = {}

    def _refuse_forked(self) -> None:
        self.forked, self._count = True, 0
        self.trouble = "this process was forked from one that uses CUDA, and cannot use it itself"
        self.ways_out = WAYS_OUT.format(what="anything uses CUDA")

    def get(self, ordinal: int) -> DeviceContext:
        count = self.count()
        if not 0 <= ordinal < count:
            raise no_device(f"there is no CUDA device {ordinal}", f"this process sees {count}")
        with self._lock:
            context = self._contexts.get(ordinal)
            if context is None:
                context = self._contexts[ordinal] = DeviceContext(ordinal)
            return context

    def known(self) -> tuple[DeviceContext, ...]:
        with self._lock:
            return tuple(self._contexts.values())


_DEVICES = _Devices()
in_child(_DEVICES.leave_behind)


def refuse_in_child() -> None:
    """``BackendError`` in a process that was forked from one that uses CUDA."""
    if _DEVICES.forked:
        raise no_device("the cuda backend cannot run here")


def no_device(found: str, reason: str = "") -> BackendError:
    """The error for what needs a device that is not there; ``reason`` is why, if the driver has no trouble."""
    return BackendError(f"{found}: {_DEVICES.trouble or reason}", hint=_DEVICES.ways_out)


def device_count() -> int:
    """How many CUDA devices this process sees; 0 without a driver or without ``cuda-bindings``."""
    return _DEVICES.count()


def driver_trouble() -> str:
    """Why ``device_count()`` is 0, as a phrase; empty if it is not."""
    return "" if _DEVICES.count() else _DEVICES.trouble or "the CUDA driver shows no device"


def driver_version() -> tuple[int, int]:
    """The CUDA version of the driver, as (major, minor); (0, 0) without one."""
    if driver is None:
        return (0, 0)
    try:
        number = int(call(driver.cuDriverGetVersion))
    except CudaError:
        return (0, 0)
    return (number // 1000, number % 1000 // 10)


def device(ordinal: int = 0) -> DeviceContext:
    """The context of device ``ordinal``, made on the first call; ``BackendError`` if there is no such device."""
    return _DEVICES.get(ordinal)


def devices_in_use() -> tuple[DeviceContext, ...]:
    """The contexts that ``device`` has made so far."""
    return _DEVICES.known()


def current_device() -> int:
    """The ordinal of the device whose context is current on this thread, 0 if none is."""
    if device_count() == 0:
        return 0
    result = driver.cuCtxGetDevice()
    return int(result[1]) if result[0] == _SUCCESS else 0


@contextmanager
def outside_captures() -> Iterator[None]:
    """Allocate and free although some stream is being captured: neither touches the captured stream.

    Without this, a finalizer that runs during somebody's capture would break the capture.
    """
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = call(driver.cuThreadExchangeStreamCaptureMode, relaxed)
    try:
        yield
    finally:
        call(driver.cuThreadExchangeStreamCaptureMode, before)
