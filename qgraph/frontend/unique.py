"""``qgraph.unique``: a func like any other, written in the language of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from qgraph.frontend.func_decorator import own_func
from qgraph.language import parallel


@own_func
def unique(x: Any, values: Any, counts: Any = None) -> Any:
    """The number of different elements of ``x``. So many of ``values`` become these, in the order of ``np.unique``.

    As many of ``counts`` become how often each occurs; what lies behind them stays as it is. All nans count as one.

    Args:
        x: an array of one dimension, or a part of one.
        values: another one, with room for the elements.
        counts: one of integers, with as much room; or nothing.

    Raises:
        ValueError: there is no room: an ``ArgumentError`` of the kernel's, which the next call that waits raises.
    """
    n = x.shape[0]
    ordered = np.empty_like(x)
    ordered[:] = x
    ordered[:] = np.sort(ordered)
    first = np.empty(n, np.int64)
    found = 0
    for i in range(n):
        nans = ordered[i] != ordered[i] and ordered[i - 1] != ordered[i - 1] if i > 0 else False
        first[i] = 1 if i == 0 or (ordered[i] != ordered[i - 1] and not nans) else 0
        found += first[i]
    place = np.empty(n, np.int64)
    place[:] = np.cumsum(first)
    packed = np.empty_like(x)
    starts = np.empty(n, np.int64)
    for i in parallel(range(n)):
        if first[i] == 1:
            packed[place[i] - 1] = ordered[i]
            starts[place[i] - 1] = i
    values[:found] = packed[:found]
    if counts is not None:
        for i in range(n):
            if i < found:
                place[i] = (starts[i + 1] if i + 1 < found else n) - starts[i]
        counts[:found] = place[:found]
    return found


unique.is_word = True
