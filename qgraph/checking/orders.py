"""Whether two runs of a kernel gave the same answer, but for the order in which floats were combined."""

from __future__ import annotations

from typing import Any

import numpy as np


def differs(first: Any, second: Any) -> bool:
    """Whether two arrays, or numbers, differ by more than the order of sums explains.

    Integers are compared exactly. Floats may be apart by the square root of their epsilon, times the largest finite magnitude
    in both arrays: sums in another order are apart by epsilon for each operand, and cancellation leaves that of large parts.
    """
    one, other = np.asarray(first), np.asarray(second)
    if one.dtype.kind not in "fc":
        return not np.array_equal(one, other)
    one, other = _parts(one), _parts(other)
    finite = np.isfinite(one) & np.isfinite(other)
    # What is no number is compared as it is.
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return True
    if not finite.any():
        return False
    one, other = one[finite].astype(np.float64), other[finite].astype(np.float64)
    largest = max(np.abs(one).max(), np.abs(other).max())
    return bool((np.abs(one - other) > np.sqrt(np.finfo(np.asarray(first).dtype).eps) * largest).any())


def _parts(array: np.ndarray) -> np.ndarray:
    """The floats in an array of floats or complex numbers."""
    return np.stack([array.real, array.imag]) if array.dtype.kind == "c" else array
