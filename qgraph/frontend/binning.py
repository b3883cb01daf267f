"""What `np.bincount`, `np.digitize`, `np.histogram` and `np.interp` do with their elements, in the language of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from qgraph.frontend.func_decorator import own_func
from qgraph.language import Static, static


@own_func
def edges_below(edges: Any, value: Any, right: Any) -> Any:
    """The number of ``edges``, which increase, up to ``value``; ``right``: without those that are equal. Below nan are all."""
    low, high = 0, edges.shape[0]
    while low < high:
        middle = (low + high) // 2
        below = not edges[middle] >= value if right else not value < edges[middle]
        if below:
            low = middle + 1
        else:
            high = middle
    return low


@own_func
def interpolated(x: Any, places: Any, values: Any, left: Any, right: Any) -> Any:
    """What the line through ``values`` at ``places``, which increase, has at ``x``; ``left`` and ``right`` of all places."""
    last = places.shape[0] - 1
    at = edges_below(places, x, False) - 1
    if np.isnan(x):
        return x
    if at < 0:
        return left
    if x > places[last]:
        return right
    if at == last or places[at] == x:
        return np.float64(values[at])
    low, high = np.float64(places[at]), np.float64(places[at + 1])
    first, second = np.float64(values[at]), np.float64(values[at + 1])
    slope = (second - first) / (high - low)
    found = slope * (x - low) + first
    if np.isnan(found):
        # Where the first of the values is no number, or infinite.
        found = slope * (x - high) + second
        if np.isnan(found) and first == second:
            found = first
    return found


@own_func
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    """``np.interp`` of one number."""
    if xp.shape[0] != fp.shape[0]:
        raise ValueError("fp and xp are not of the same length")
    if xp.shape[0] == 0:
        raise ValueError("array of sample points is empty")
    first = np.float64(fp[0] if left is None else left)
    last = np.float64(fp[fp.shape[0] - 1] if right is None else right)
    return interpolated(np.float64(x), xp, fp, first, last)


@own_func
def comes_before(one: Any, other: Any) -> bool:
    """NumPy's order, in which nans come last."""
    return bool(one < other or (one == one and other != other))  # noqa: PLR0124


@own_func
def searchsorted(a: Any, v: Any, side: Static = "left") -> int:
    """``np.searchsorted`` of one number."""
    if static(side not in ("left", "right")):
        raise ValueError("side must be 'left' or 'right'")
    low, high = 0, a.shape[0]
    while low < high:
        middle = (low + high) // 2
        below = comes_before(a[middle], v) if static(side == "left") else not comes_before(v, a[middle])
        if below:
            low = middle + 1
        else:
            high = middle
    return low


@own_func
def counted(x: Any, counts: Any, weights: Any = None) -> Any:
    """Add 1, or ``weights``, to ``counts`` at ``x``; how many of them are no places there."""
    wrong = 0
    for i in range(x.shape[0]):
        wrong += x[i] < 0 or x[i] >= counts.shape[0]
    # A loop of its own: beside no other sum it has copies of the counts.
    for i in range(x.shape[0]):
        if x[i] >= 0 and x[i] < counts.shape[0]:
            if weights is None:
                counts[x[i]] += 1
            else:
                counts[x[i]] += weights[i]
    return wrong


@own_func
def bin_of(edges: Any, value: Any, even: Static) -> Any:
    """The bin of ``value``, which is in one of those between ``edges``; ``even``: they are about as wide as each other."""
    last = edges.shape[0] - 1
    if static(not even):
        return min(edges_below(edges, value, False), last) - 1
    # A guess, which rounding may miss: the edges decide.
    place = max(min(int((value - edges[0]) * (last / (edges[last] - edges[0]))), last - 1), 0)
    while place > 0 and value < edges[place]:
        place -= 1
    while place < last - 1 and value >= edges[place + 1]:
        place += 1
    return place


@own_func
def binned(x: Any, edges: Any, counts: Any, even: Static, weights: Any = None) -> Any:
    """The same in the bins between ``edges``, the last of which has its upper edge; elements elsewhere count nowhere."""
    last = counts.shape[0]
    for i in range(x.shape[0]):
        if x[i] >= edges[0] and x[i] <= edges[last]:
            place = bin_of(edges, x[i], even)
            if weights is None:
                counts[place] += 1
            else:
                counts[place] += weights[i]
    return 0


@own_func
def even_edges(edges: Any, low: Any, high: Any, x: Any = None) -> Any:
    """``edges``, at equal distances; whether ``low`` and ``high``, the extremes of ``x`` if given, are numbers in order."""
    n = edges.shape[0] - 1
    half = 0.5 if low == high else 0.0
    first, last = np.float64(low) - half, np.float64(high) + half
    if x is not None and x.shape[0] == 0:
        first, last = np.float64(0), np.float64(1)
    step = (last - first) / n
    # NumPy rounds the product: it goes through memory, so that no compiler makes one operation of both.
    for i in range(n + 1):
        edges[i] = i * step
    for i in range(n + 1):
        edges[i] = last if i == n else edges[i] + first
    return np.isfinite(last - first) and last >= first
