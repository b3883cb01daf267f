"""The errors a user may meet. One class a kind of mistake; each message says what was found, where, and what to do.

::

    QGraphError
    ├── KernelSyntaxError   the kernel says something the language does not have
    ├── KernelTypeError     its values have types that cannot be compiled
    ├── ArgumentError       a call passed something that does not fit
    ├── DataRaceError       a parallel loop is not parallel
    ├── BoundsError         an index left its array
    ├── UnwrittenError      something was read that nobody wrote
    ├── LinAlgError         a matrix is singular, or not positive definite; NumPy's, too
    ├── BackendError        the backend asked for cannot run here
    ├── CudaError           the driver reported a failure
    │   └── PoolError       a pool is sealed, or has no block that is large enough
    └── (AssertionError, ValueError, ...)   what a kernel raised: Python's, too
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qgraph.source import Span


class QGraphError(Exception):
    """Base of all errors of qgraph.

    Args:
        found: what is wrong, as one sentence.
        span: the place in the user's source, drawn with a caret.
        also: further places, each with a few words.
        hint: what to do instead.

    Attributes:
        findings: of an error that ``kernel.check`` raises, all that it found, in program order; this one is the first.
        unchecked: what it did not look into, each with its line.
    """

    findings: tuple[QGraphError, ...] = ()
    unchecked: tuple[str, ...] = ()

    def __init__(
        self,
        found: str,
        span: Span | None = None,
        *,
        also: tuple[tuple[str, Span], ...] = (),
        hint: str | None = None,
    ) -> None:
        self.found = found
        self.span = span
        self.also = also
        self.hint = hint
        super().__init__(rendered(found, span, also, hint))


def rendered(found: str, span: Span | None, also: tuple[tuple[str, Span], ...], hint: str | None) -> str:
    """A message with its places."""
    parts = [found]
    if span is not None:
        parts.append(_place(span))
    for words, place in also:
        parts.append(f"{words}:\n{_place(place)}")
    if hint:
        parts.append(f"help: {hint}")
    return "\n".join(parts)


def _place(span: Span) -> str:
    excerpt = span.excerpt()
    return f"  --> {span}" + (f"\n{excerpt}" if excerpt else "")


class KernelSyntaxError(QGraphError):
    """The kernel's source uses something that the language does not have.

    Attributes:
        in_order: whether loops whose iterations run in order may have it: their bodies are kernel level.
    """

    in_order = False


class KernelTypeError(QGraphError):
    """The kernel's values have types that cannot be compiled, or that would give a wrong answer."""


class ArgumentError(QGraphError):
    """A call passed arguments that do not fit the kernel."""


class DataRaceError(QGraphError):
    """A parallel loop writes what another of its iterations touches: surely, or in the run of ``kernel.check``."""


class BoundsError(QGraphError):
    """An index left its array."""


class UnwrittenError(QGraphError):
    """A kernel reads memory of its own that nobody wrote: a temporary that ``empty`` made holds anything."""


class BackendError(QGraphError):
    """The backend that was asked for is unknown, or cannot run here."""


class LinAlgError(QGraphError, np.linalg.LinAlgError):
    """A matrix is singular, or not positive definite, as a device found: ``numpy.linalg.LinAlgError`` with the line."""


class CudaError(QGraphError):
    """The CUDA driver reported a failure."""


class PoolError(CudaError):
    """A pool, on whatever backend, is sealed or has no block that is large enough; nothing was allocated and nothing ran."""


_RAISED: dict[object, type[QGraphError]] = {}


def error_raised(error: type[Exception]) -> type[QGraphError]:
    """``error``, a built-in exception that a kernel raises, with its place: an ``except`` clause for it catches it."""
    if error not in _RAISED:
        names = {"__module__": __name__, "__str__": Exception.__str__}
        _RAISED[error] = type(error.__name__, (QGraphError, error), names)
    return _RAISED[error]


class NothingRan(CudaError):  # noqa: N818 - what happened, to be answered by the kernel
    """A launch as it was prepared is not possible, and the kernel knows another way."""


class StreamCaptured(NothingRan):
    """The stream is being captured: nodes in that graph answer it. ``call`` is what was to run, and where."""

    def __init__(self, call: Any) -> None:
        super().__init__("a stream is being captured into a graph")
        self.call = call


class PerformanceWarning(UserWarning):
    """The answer is right, but something costs more than it needs to; said once."""


class AssumedParallelWarning(UserWarning):
    """A loop runs in parallel of which it is not proved that it may; said once a loop and process."""


class OrderDependentWarning(UserWarning):
    """The answer of a kernel depends on the order of a parallel loop's iterations, as ``kernel.check`` saw."""
