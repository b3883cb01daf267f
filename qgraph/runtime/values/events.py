"""Events of other libraries as driver handles. Nothing here needs CUDA."""

from __future__ import annotations

from typing import Any

from qgraph.errors import ArgumentError

_LIBRARIES = ("torch", "cupy", "cuda")


def is_event_class(cls: type) -> bool:
    """Whether objects of ``cls`` are CUDA events: of PyTorch, CuPy or cuda.core, or with ``__cuda_event__``."""
    if hasattr(cls, "__cuda_event__"):
        return True
    return any(base.__name__ == "Event" and base.__module__.partition(".")[0] in _LIBRARIES for base in cls.__mro__)


def event_handle(event: Any) -> int:
    """The handle of an event.

    Args:
        event: a handle, or an object with ``__cuda_event__`` (a handle, or a method that gives one), ``cuda_event`` (PyTorch),
            ``ptr`` (CuPy) or ``handle`` (cuda.core).

    Raises:
        ArgumentError: it is none of these, or no event has been made for it yet.
    """
    for name in ("__cuda_event__", "cuda_event", "ptr", "handle"):
        handle = getattr(event, name, None)
        if handle is not None:
            return _valid(handle() if callable(handle) else handle, event)
    if isinstance(event, bool) or not hasattr(event, "__index__"):
        raise ArgumentError(
            f"{type(event).__name__} is not a CUDA event",
            hint="pass an event of PyTorch, CuPy or cuda.core, or its handle as an int",
        )
    return _valid(event, event)


def _valid(handle: Any, event: object) -> int:
    try:
        number = int(handle)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"the event handle {handle!r} of {type(event).__name__} is not a number") from error
    if number <= 0:
        raise ArgumentError(
            f"this {type(event).__name__} has no event of CUDA yet: its handle is {number}",
            hint="PyTorch makes the event when it is first recorded: call event.record() once before",
        )
    return number
