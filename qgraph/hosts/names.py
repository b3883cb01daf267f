"""Kernels by names, for graphs that hold no Python objects."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

# Kernels by the names that graphs have for them.
_KERNELS: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def named(kernel: Any) -> str:
    """A name for ``kernel``, which nothing else has in this process."""
    name = f"{kernel.__name__}_{next(_NUMBERS)}"
    _KERNELS[name] = kernel
    return name


def kernel_named(name: str) -> Any:
    """The kernel of that name, which lives as long as who called it."""
    return _KERNELS[name]
