"""The words of ``qgraph.random``: pure functions of a seed and counters, as plain Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from qgraph.operations import philox
from qgraph.operations.philox import MASK

LONG = (1 << 64) - 1
# Words of a block, and how many numbers they make at most: of 32 bits, and of 64.
MOST = {32: 4, 64: 2}


def uniform(seed: Any, i: Any = 0, j: Any = 0, k: Any = 0, l: Any = 0, *, dtype: Any = None, size: Any = None) -> Any:  # noqa: E741
    """A number in [0, 1), always the same for the same seed and counters.

    Args:
        seed: an integer of 64 bits.
        i: an integer of 64 bits. Different counters give numbers that are independent of each other; this word and the other
            ones make their numbers of the same bits, so give them different counters, too.
        j: another one. Counters that are left out are 0.
        k: one of 32 bits, where ``j`` has 32 bits.
        l: one of 32 bits, where ``i`` has 32 bits.
        dtype: ``numpy.float64`` for a NumPy number of 53 random bits, ``numpy.float32`` for one of 24; None for a Python number
            of 24, which a kernel computes with in its own float type.
        size: a constant: a tuple of as many numbers, which cost little more than one: up to 4, and of float64 up to 2.

    Raises:
        TypeError, ValueError: the arguments are no such; in a kernel a ``KernelTypeError``.
    """
    return _floats(philox.uniform, (seed, i, j, k, l), dtype, size)


def normal(seed: Any, i: Any = 0, j: Any = 0, k: Any = 0, l: Any = 0, *, dtype: Any = None, size: Any = None) -> Any:  # noqa: E741
    """A number of the standard normal distribution (Box-Muller); arguments as of ``uniform``.

    The largest are 6.7, of float64 9.5. On all backends the same bits, but that of float32 one in some ten millions may differ
    from plain Python's in the last place.
    """
    return _floats(philox.normal, (seed, i, j, k, l), dtype, size)


def exponential(seed: Any, i: Any = 0, j: Any = 0, k: Any = 0, l: Any = 0, *, dtype: Any = None, size: Any = None) -> Any:  # noqa: E741
    """A number of the exponential distribution with mean 1; arguments as of ``uniform``, bits as of ``normal``."""
    return _floats(philox.exponential, (seed, i, j, k, l), dtype, size)


def integers(seed: Any, i: Any = 0, j: Any = 0, k: Any = 0, l: Any = 0, *, low: Any = 0, high: Any, size: Any = None) -> Any:  # noqa: E741
    """A Python integer from ``low`` up to, but not including, ``high``; ``low`` where there is none. Otherwise as ``uniform``.

    The high 64 bits of a random number of 64 bits, times ``high - low``: the chances of two numbers differ by less than 2**-64.
    """
    lowest, extent = _integer(low, "low"), max(_integer(high, "high") - _integer(low, "low"), 0) & LONG
    found = [lowest + (word * extent >> 64) for word in _long_words(_block((seed, i, j, k, l)))]
    return _given([(each + (1 << 63) & LONG) - (1 << 63) for each in found], None, 64, size)


WORDS = (uniform, normal, exponential, integers)


def _floats(distribution: Callable[..., list[Any]], numbers: tuple[Any, ...], dtype: Any, size: Any) -> Any:
    if dtype not in (None, np.float32, np.float64):
        raise TypeError(f"dtype must be numpy.float32, numpy.float64 or None, not {dtype!r}")
    reals = _WIDE if dtype is np.float64 else _NARROW
    words = _block(numbers)
    most = MOST[reals.bits] if size is None else check_size(size, reals.bits)
    found = distribution(reals, words if reals is _NARROW else _long_words(words), 1 if size is None else most)
    return _given(found, dtype, reals.bits, size)


def _given(found: list[Any], dtype: Any, bits: int, size: Any) -> Any:
    numbers = found if dtype is None else [dtype(each) for each in found]
    return numbers[0] if size is None else tuple(numbers[: check_size(size, bits)])


def check_size(size: Any, bits: int) -> int:
    """``size``, if a block has so many numbers of ``bits`` bits.

    Raises:
        ValueError: it has not.
    """
    if operator.index(size) not in range(1, MOST[bits] + 1):
        raise ValueError(f"size is {size}, but a block has 1 to {MOST[bits]} numbers of {bits} bits")
    return operator.index(size)


def _integer(value: Any, name: str) -> int:
    try:
        return int(value) if isinstance(value, np.bool_) else operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None


def _block(numbers: tuple[Any, ...]) -> tuple[int, int, int, int]:
    """The four words of the block for a seed and four counters."""
    seed, *counters = map(_integer, numbers, ("seed", "i", "j", "k", "l"))
    i, j, k, l = counters  # noqa: E741
    counter = (i & MASK, ((i >> 32) + l) & MASK, j & MASK, ((j >> 32) + k) & MASK)
    return philox.block(_WORDS, (seed & MASK, (seed >> 32) & MASK), counter)


def _long_words(words: tuple[int, ...]) -> tuple[int, int]:
    return words[0] << 32 | words[1], words[2] << 32 | words[3]


# --- Python as the machine that does it: a word is an int, a float of any width a float ------------------------------------


class _Words:
    def product(self, word: int, factor: int) -> tuple[int, int]:
        found = word * factor
        return found >> 32, found & MASK

    def xor(self, a: int, b: int) -> int:
        return a ^ b

    def plus(self, word: int, more: int) -> int:
        return word + more & MASK


class _Reals:
    """Floats of 64 bits."""

    bits, digits = 64, 53

    def near(self, value: float) -> float:
        return value

    def whole(self, word: int) -> float:
        return float(word >> self.bits - self.digits)

    def unsigned(self, word: int) -> float:
        return self.near(word)

    def turned(self, word: int) -> tuple[int, float]:
        part = self.bits - 2
        quarter = word + (1 << part - 1) >> part
        return quarter, self.near(word - (quarter << part)) * 2.0 ** (1 - self.bits)

    def split(self, value: float, least: float) -> tuple[float, float]:
        fraction, exponent = math.frexp(value)
        return (float(exponent), fraction) if fraction >= least else (exponent - 1.0, 2.0 * fraction)

    def add(self, a: float, b: float) -> float:
        return self.near(a + b)

    def subtract(self, a: float, b: float) -> float:
        return self.near(a - b)

    def multiply(self, a: float, b: float) -> float:
        return self.near(a * b)

    def divide(self, a: float, b: float) -> float:
        return self.near(a / b)

    def fused(self, a: float, b: float, c: float) -> float:
        # Exact for floats of 32 bits, but for a sum that is rounded twice.
        return self.near(a * b + c)

    def root(self, value: float) -> float:
        return self.near(math.sqrt(value))

    def choose(self, quarter: int, bit: int, yes: float, no: float) -> float:
        return yes if quarter & bit else no

    def negated(self, quarter: int, more: int, value: float) -> float:
        return -value if quarter + more & 2 else value


class _NarrowReals(_Reals):
    """Floats of 32 bits."""

    bits, digits = 32, 24

    def near(self, value: float) -> float:
        return float(np.float32(value))


_WORDS, _NARROW, _WIDE = _Words(), _NarrowReals(), _Reals()
