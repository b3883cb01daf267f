"""What compilers need of the interpreter: room on its stack, since they call deeply, the deeper the longer the user's code is.

And how far away the user's own frame is, and the frames that a traceback shows.
"""

from __future__ import annotations

import contextvars
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from qgraph import forks
from qgraph.errors import AssumedParallelWarning, KernelSyntaxError, OrderDependentWarning, PerformanceWarning, QGraphError
from qgraph.records import dataclass

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Slots of eight bytes: more than a compilation of short code was ever seen to use.
_SLOTS = 1 << 16
# Calls within calls where code is long, a term of a sum or an `elif` being up to ten of them, and bytes of stack for those that
# pass through C. Memory of a stack is taken when it is touched.
DEEPEST = 150_000
_STACK = 512 << 20


def compiling(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """``function``, without garbage collection meanwhile, with a large stack of frames, and once more where that is too small.

    A compilation makes millions of objects that live until it ends, and the collector looks at all of them again and again, a
    tenth of the time and more. What it would find stays until the collection after.

    CPython keeps frames in blocks of 16 KiB, and maps and unmaps one at each call that crosses the end of a block and comes
    back. Deep inside Numba hundreds of thousands of calls do so, a tenth of the time of a compilation. A frame that does not
    fit gets a block of its own size, and those that follow have what the power of two leaves over.

    Trees of syntax are walked by functions that call themselves, here and in Numba. A sum of 1,000 terms is a tree of 1,000
    levels, which Python's limit of calls within calls (1,000) does not let pass. ``function`` then runs again in a thread of
    its own, with a stack that holds ``DEEPEST`` of them: so what it does must be all the same when it is done twice.

    Raises:
        KernelSyntaxError: not even that is enough.
    """

    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=_SLOTS)

    @wraps(function)
    def roomy_call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with _COLLECTOR.changed():
            return _with_room(call, *args, **kwargs)

    return roomy_call


def _with_room(call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    try:
        return call(*args, **kwargs)
    except Exception as error:
        if _DEEP.inside or not _is_too_deep(error):
            raise
    try:
        return _on_deep_stack(partial(call, *args, **kwargs))
    except Exception as error:
        if not _is_too_deep(error):
            raise
        raise KernelSyntaxError(
            f"the code is too deep to be compiled: it takes more than {DEEPEST} calls within calls",
            hint="break the longest expression, or the longest chain of `elif`, into several statements",
        ) from error


def _is_too_deep(error: BaseException) -> bool:
    """Whether ``error`` is, or came of, a call too many; Numba wraps what it meets."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, RecursionError):
            return True
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return False


class _Inside(threading.local):
    """Whether the current thread is one with a deep stack."""

    inside = False


_DEEP = _Inside()


@dataclass(slots=True)
class _Setting:
    """A setting of the interpreter, of which a process has one: another one while some thread needs that.

    ``change`` sets it and gives what it was, ``restore`` sets it to that.
    """

    change: Callable[[], int]
    restore: Callable[[int], None]
    lock: threading.Lock = field(default_factory=forks.lock)
    threads: int = 0
    usual: int = 0

    def __post_init__(self) -> None:
        forks.in_child(self._in_child)

    def _in_child(self) -> None:
        """Threads that needed it in the parent do not end here."""
        if self.threads:
            self.restore(self.usual)
        self.threads = 0

    @contextmanager
    def changed(self) -> Iterator[None]:
        with self.lock:
            if self.threads == 0:
                self.usual = self.change()
            self.threads += 1
        try:
            yield
        finally:
            with self.lock:
                self.threads = max(self.threads - 1, 0)
                if self.threads == 0:
                    self.restore(self.usual)


def _raise_limit() -> int:
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(DEEPEST, usual))
    return usual


def _stop_collecting() -> int:
    usual = gc.isenabled()
    gc.disable()
    return usual


# Python's limit of calls within calls, for threads with a deep stack; and the garbage collector, for those that compile.
_LIMIT = _Setting(_raise_limit, sys.setrecursionlimit)
_COLLECTOR = _Setting(_stop_collecting, lambda usual: gc.enable() if usual else None)


def _on_deep_stack(function: Callable[[], Result]) -> Result:
    """What ``function`` gives, or raises, in a thread with a deep stack, which has the context variables of this one."""
    outcome: list[Any] = []
    errors: list[BaseException] = []
    context = contextvars.copy_context()

    def body() -> None:
        _DEEP.inside = True
        try:
            with _LIMIT.changed():
                outcome.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            errors.append(error)

    with _LIMIT.lock:
        before = threading.stack_size(_STACK)
        try:
            thread = threading.Thread(target=body, name="qgraph-deep", daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if errors:
        raise errors[0]
    result: Result = outcome[0]
    return result


# Where code of this package stands, generated code included.
_PACKAGE = str(Path(__file__).parent), "<qgraph "


def stack_level() -> int:
    """The ``stacklevel`` of a warning that the caller gives, to stand at the line that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


# --- tracebacks ---------------------------------------------------------------------------------------------------------

# What qgraph says of a user's program. Errors of other kinds that begin in qgraph are defects of it.
_SAID = (QGraphError, PerformanceWarning, AssumedParallelWarning, OrderDependentWarning)
# What qgraph calls: below one of its frames, theirs are as little the user's.
_LIBRARIES = {*sys.stdlib_module_names, "cuda", "cupy", "islpy", "llvmlite", "numba", "numpy", "scipy", "torch"}


def raises_to_user(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """``function``, which users call: the tracebacks of its errors have their frames alone."""

    @wraps(function)
    def entry(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return entry


def hide_frames(error: Exception) -> None:
    """Take the frames of this package out of the traceback of ``error``, and of the errors that it came of.

    For the ``except`` clause of a function that users call, before a bare ``raise``, which does not put that frame back. The
    traceback stays as it is with ``QGRAPH_TRACEBACK=full``, and where the error is a defect of this package.
    """
    if os.environ.get("QGRAPH_TRACEBACK") == "full":
        return
    _, begins_inside = _users_frames(error.__traceback__)
    if begins_inside and not isinstance(error, _SAID):
        return
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = _users_frames(current.__traceback__)[0]
        if not current.__suppress_context__:
            current.__context__ = _outside(current.__context__)
        current = current.__cause__ if current.__suppress_context__ else None


def _outside(error: BaseException | None) -> BaseException | None:
    """Of the errors that were being handled, the first that was not caught in this package."""
    while error is not None and error.__traceback__ is not None and _is_own(error.__traceback__):
        error = error.__context__
    return error


def _users_frames(trace: TracebackType | None) -> tuple[TracebackType | None, bool]:
    """The part of a traceback that is the user's, and whether what was raised was raised elsewhere."""
    shown: list[TracebackType] = []
    hidden = False
    while trace is not None:
        hidden = _is_own(trace) or (hidden and _is_library(trace))
        if not hidden:
            shown.append(trace)
        trace = trace.tb_next
    result: TracebackType | None = None
    for entry in reversed(shown):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result, hidden


def _is_own(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def _is_library(entry: TracebackType) -> bool:
    return str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES
