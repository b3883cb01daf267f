"""Interval arithmetic on integers: the interval of the result of an operation, from those of its operands.

An interval is its ends, both in it; None where an operation raises or grows beyond reason.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

Interval = tuple[int, int]


def corners(function: Callable[..., int]) -> Callable[..., Interval | None]:
    """Of a function that grows or falls with each operand."""

    def values(*spans: Interval) -> Interval:
        found = [function(*numbers) for numbers in itertools.product(*spans)]
        return min(found), max(found)

    return values


def _has_zero(a: Interval) -> bool:
    return a[0] <= 0 <= a[1]


def quotient(a: Interval, b: Interval) -> Interval | None:
    """``//``."""
    return None if _has_zero(b) else corners(operator.floordiv)(a, b)


def remainder(a: Interval, b: Interval) -> Interval | None:
    """``%``."""
    if _has_zero(b):
        return None
    if a[0] == a[1] and b[0] == b[1]:
        return corners(operator.mod)(a, b)
    return (0, b[1] - 1) if b[0] > 0 else (b[0] + 1, 0)


def power(a: Interval, b: Interval) -> Interval | None:
    """``**``."""
    most = max(map(abs, a))
    if b[0] < 0 or (most > 1 and b[1] > 32):
        return None
    if a[0] >= 0 or (a[0] == a[1] and b[0] == b[1]):
        return corners(operator.pow)(a, b)
    return -(most ** b[1]), most ** b[1]


def left_shift(a: Interval, b: Interval) -> Interval | None:
    """``<<``."""
    return corners(operator.lshift)(a, b) if 0 <= b[0] <= b[1] <= 32 else None


def right_shift(a: Interval, b: Interval) -> Interval | None:
    """``>>``."""
    return corners(operator.rshift)(a, b) if b[0] >= 0 else None


def bits(function: Callable[[int, int], int]) -> Callable[..., Interval | None]:
    """``& | ^``: of the bits that either has."""

    def values(a: Interval, b: Interval) -> Interval | None:
        if a[0] == a[1] and b[0] == b[1]:
            return corners(function)(a, b)
        most = 1 << max((end if end >= 0 else ~end).bit_length() for end in (*a, *b))
        return (-most if min(a[0], b[0]) < 0 else 0), most - 1

    return values


def absolute(a: Interval) -> Interval:
    """``abs``."""
    return 0 if _has_zero(a) else min(map(abs, a)), max(map(abs, a))
