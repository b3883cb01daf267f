"""Compilers make objects so fast that searching for garbage meanwhile takes a tenth of the time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# What Numba leaves behind for one kernel is 1 to 3 MB.
_KERNELS = 32


@contextmanager
def garbage_kept() -> Iterator[None]:
    """No search for garbage inside, but by ``search``."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def search(compiled: int) -> None:
    """To be called with the number of kernels compiled so far: now and then it looks for what they have left behind."""
    if compiled % _KERNELS == 0:
        gc.collect(0)
