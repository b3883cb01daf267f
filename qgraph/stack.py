"""The interpreter's stack: room on it for compilers, which call deeply, and how far away the user's own frame is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Slots of eight bytes: more than a compilation was ever seen to use.
_SLOTS = 1 << 16


def roomy(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """``function``, with one block of memory for the frames of everything that it calls.

    CPython keeps frames in blocks of 16 KiB, and maps and unmaps one at each call that crosses the end of a block and comes
    back. Deep inside Numba hundreds of thousands of calls do so, a tenth of the time of a compilation. A frame that does not
    fit gets a block of its own size, and those that follow have what the power of two leaves over.
    """

    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=_SLOTS)
    return wraps(function)(call)


_PACKAGE = str(Path(__file__).parent)


def stack_level() -> int:
    """The ``stacklevel`` of a warning that the caller gives, to stand at the line that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
