"""Warnings of loops that are assumed to be parallel: once a loop and process, before anything runs."""

from __future__ import annotations

import warnings

from qgraph.errors import AssumedParallelWarning, rendered
from qgraph.ir.program import Task
from qgraph.source import Span
from qgraph.stack import stack_level

_TOLD: set[Span] = set()


def is_told(loop: Task) -> bool:
    """Whether the loop was warned of already."""
    return loop.span in _TOLD


def tell(loop: Task) -> None:
    """Warn of a loop at the user's line that called. A filter may make an error of it: then the next call is told, too."""
    verdict = loop.verdict
    assert verdict is not None
    found = f"nothing proves that this loop may run in parallel: {verdict.reason}"
    message = rendered(found, loop.span, verdict.places, verdict.hint)
    warnings.warn(message, AssumedParallelWarning, stacklevel=stack_level())
    _TOLD.add(loop.span)
