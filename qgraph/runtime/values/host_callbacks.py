"""The functions of host calls as C functions of one pointer, and what becomes of what they raise."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from qgraph import forks
from qgraph.ir.program import WORD, ConstantType, HostCall, Result, Slot
from qgraph.language import call_c_function, is_c_function, pointer_to
from qgraph.runtime.values.results import ResultReader

# What CUDA calls: nothing comes back.
_HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# What a compiled CPU function calls: not 0 if it raised.
_CheckedFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Source(Protocol):
    """Where an exception may be found, once."""

    def error(self) -> BaseException | None:
        """The exception, which is then forgotten; None if there is none."""


class Kept:
    """The first exception of work on a device, until somebody waits and is told. Safe from several threads.

    Host functions bring theirs; ``watch`` adds a source that is looked at where somebody waits.
    """

    __slots__ = ("_error", "_later", "_lock", "_sources")

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._error: BaseException | None = None
        self._later = 0
        self._sources: tuple[Source, ...] = ()

    def watch(self, source: Source) -> None:
        """Look at ``source`` whenever somebody waited."""
        with self._lock:
            self._sources += (source,)

    def unwatch(self, source: Source) -> None:
        """Look at it no more."""
        with self._lock:
            self._sources = tuple(other for other in self._sources if other is not source)

    def keep(self, error: BaseException, note: str = "") -> None:
        """Note an exception. The first is told, of the others only how many there were."""
        with self._lock:
            if self._error is not None:
                self._later += 1
                return
            if note:
                error.add_note(note)
            self._error = error

    def tell(self) -> None:
        """Raise the exception that was noted, if there is one, and forget it."""
        # Looked at without the lock: this is asked after every wait, and the answer is nearly always no.
        for source in self._sources:
            found = source.error()
            if found is not None:
                self.keep(found)
        if self._error is None:
            return
        with self._lock:
            error, later = self._error, self._later
            self._error, self._later = None, 0
        if error is not None:
            if later:
                error.add_note(f"{later} more exceptions were raised before this one was told")
            raise error


class Numbers:
    """What the Python function of a host call gets, read from the scratch words ``first`` to ``first + words``."""

    __slots__ = ("_arguments", "_reader", "call", "first", "words")

    def __init__(self, call: HostCall, dtypes: Mapping[str, str]) -> None:
        self.call = call
        self._arguments = call.arguments
        self._reader = ResultReader(Result(items=tuple(Result(slot) for slot in call.slots)), dtypes)
        self.first, self.words = self._reader.first, self._reader.words

    def read(self, memory: Any, word: int = 0) -> list[Any]:
        """The arguments, from ``memory``, which starts with word number ``word`` of scratch."""
        numbers = iter(self._reader.read(memory, word))
        return [next(numbers) if isinstance(item, Slot) else item.value for item in self._arguments]


class HostFunction:
    """The function of a host call for CUDA: ``address`` is called with ``data``.

    Args:
        call: a Python or C function, and its arguments.
        numbers: reads them for a Python function.
        memory: the words that it reads, on the host.
        kept: takes what the function raises.
    """

    __slots__ = ("_function", "address", "data")

    def __init__(self, call: HostCall, numbers: Numbers, memory: Any, kept: Kept) -> None:
        # Whoever calls the address holds this object, and so the C function or what calls the Python one.
        self._function: Any = call.function
        self.data = 0
        if is_c_function(call.function):
            self.data = c_data(call)
        else:

            def run(_data: int | None) -> None:
                try:
                    call.function(*numbers.read(memory, numbers.first))
                except BaseException as error:  # noqa: BLE001 - it cannot pass through the driver: whoever waits gets it
                    kept.keep(error, f"raised by the host callback {call.label} at {call.span}")

            self._function = _HostFunction(run)
        self.address = pointer_to(self._function)


class CheckedFunction:
    """The function of a host call for a compiled CPU function, which is told where scratch begins."""

    __slots__ = ("_error", "_function", "address", "data")

    def __init__(self, call: HostCall, dtypes: Mapping[str, str]) -> None:
        self._error = threading.local()
        self._function: Any = call.function
        self.data = 0
        if is_c_function(call.function):
            self.data = c_data(call)
        else:
            self._function = _CheckedFunction(self._checked(call, Numbers(call, dtypes)))
        self.address = pointer_to(self._function)

    def _checked(self, call: HostCall, numbers: Numbers) -> Callable[[int | None], int]:
        def run(scratch: int | None) -> int:
            try:
                address = (scratch or 0) + numbers.first * WORD
                call.function(*numbers.read((ctypes.c_int64 * numbers.words).from_address(address), numbers.first))
            except BaseException as error:  # noqa: BLE001 - it cannot pass through compiled code: `tell` raises it
                self._error.value = error
                return 1
            return 0

        return run

    def tell(self) -> None:
        """Raise what the function raised on this thread, if it did, and forget it."""
        error: BaseException | None = getattr(self._error, "value", None)
        if error is not None:
            self._error.value = None
            raise error


def call_plainly(call: HostCall, numbers: Numbers, scratch: Any) -> None:
    """Call the function here and now; ``scratch`` is all of it."""
    if is_c_function(call.function):
        call_c_function(call.function, c_data(call))
    else:
        call.function(*numbers.read(scratch))


def c_data(call: HostCall) -> int:
    """The pointer that a C function gets."""
    if not call.arguments:
        return 0
    (argument,) = call.arguments
    assert isinstance(argument, ConstantType)
    return pointer_to(argument.value)
