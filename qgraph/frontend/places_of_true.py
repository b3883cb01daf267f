"""Where an array of booleans is true, in order: what a selection by a mask becomes, in the language of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from qgraph.frontend.func_decorator import own_func
from qgraph.language import parallel, serial


@own_func
def places_of_true(mask: Any, places: Any) -> Any:
    """The number of True in ``mask``, a vector. So many of ``places`` become their indices, in order; it has no less elements.

    Two levels of parts of 128 elements are counted in parallel; one thread adds up what is left.
    """
    n, most = mask.shape[0], places.shape[0]
    counts = np.empty((most + 127) // 128, np.int64)
    sums = np.empty((most + 16383) // 16384, np.int64)
    for part in range(counts.shape[0]):
        found = 0
        for i in range(128 * part, min(128 * part + 128, n)):
            if mask[i]:
                found += 1
        counts[part] = found
    for block in range(sums.shape[0]):
        before = 0
        for part in range(128 * block, min(128 * block + 128, counts.shape[0])):
            count = counts[part]
            counts[part] = before
            before += count
        sums[block] = before
    total = 0
    for block in serial(range(sums.shape[0])):
        size = sums[block]
        sums[block] = total
        total += size
    for part in parallel(range(counts.shape[0])):
        place = counts[part] + sums[part // 128]
        for i in range(128 * part, min(128 * part + 128, n)):
            if mask[i]:
                places[place] = i
                place += 1
    return total


places_of_true.is_word = True
