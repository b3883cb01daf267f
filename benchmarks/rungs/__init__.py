"""The ladders' rungs in each library: one file a library, with ``chain``, ``loop``, ``changed`` and ``branches``.

- ``chain(loops)``: that many loops ``x[i] += 1`` over one array, one after the other.
- ``loop(loops)``: the chain repeated as often as a counter says: on the device where the library has such loops.
- ``changed(loops)``: the chain, with another of ``SETS`` arrays each call.
- ``branches(count)``: as many loops as arrays, none depending on another.

Arrays are 1,024 float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import chains

N, BLOCK = chains.N, chains.BLOCK
# Arrays that take turns: more than any library remembers.
SETS = 32


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop made ready: ``prepare(n)`` sets it up for n iterations, ``run(n)`` runs it; ``values`` gives the array."""

    prepare: Callable[[int], Any]
    run: Callable[[int], Any]
    values: Callable[[], np.ndarray[Any, Any]]


def zeros() -> np.ndarray[Any, Any]:
    """What every array begins with."""
    return np.zeros(N, np.float32)
