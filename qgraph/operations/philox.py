"""Random numbers out of counters: words of Philox 4x32-10, and what distributions make of them.

Written once, for a ``Machine``: Python's numbers (``random_numbers.py``) and LLVM's builder (``lowering/intrinsics``) do the
same steps, so that all backends and plain Python have the same bits. J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC11; Random123 has the test vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

# Multipliers of the two halves of a counter, and what the two words of the key grow by in each round.
FACTORS = (0xD2511F53, 0xCD9E8D57)
GROWTH = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
MASK = 0xFFFFFFFF


class Words(Protocol):
    """Arithmetic of words of 32 bits."""

    def product(self, word: Any, factor: int) -> tuple[Any, Any]:
        """The high and the low word of a product."""

    def xor(self, a: Any, b: Any) -> Any:
        """``a ^ b``."""

    def plus(self, word: Any, more: int) -> Any:
        """``word + more``, of which 32 bits are kept."""


class Reals(Protocol):
    """Arithmetic of floats of one width, each operation with one rounding, and their words, which have as many bits.

    Attributes:
        bits: 32 or 64.
        digits: the binary digits of a float: 24 or 53.
    """

    bits: int
    digits: int

    def whole(self, word: Any) -> Any:
        """The float of a word's highest ``digits`` bits, as an integer."""

    def unsigned(self, word: Any) -> Any:
        """The float that is nearest to a word."""

    def turned(self, word: Any) -> tuple[Any, Any]:
        """A word as quarters of a whole turn: the nearest integer, and what is left of the word, as the nearest float."""

    def split(self, value: Any, least: float) -> tuple[Any, Any]:
        """``exponent`` and ``fraction`` of a positive ``value``, whose product ``2**exponent * fraction`` it is.

        ``least <= fraction < 2 * least``.
        """

    def add(self, a: Any, b: Any) -> Any:
        """``a + b``; one of these three may be a Python float."""

    def subtract(self, a: Any, b: Any) -> Any:
        """``a - b``."""

    def multiply(self, a: Any, b: Any) -> Any:
        """``a * b``."""

    def divide(self, a: Any, b: Any) -> Any:
        """``a / b``."""

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        """``a * b + c`` with one rounding, of floats of 32 bits."""

    def root(self, value: Any) -> Any:
        """The square root."""

    def choose(self, quarter: Any, bit: int, yes: Any, no: Any) -> Any:
        """``yes`` where ``quarter`` has a bit, else ``no``."""

    def negated(self, quarter: Any, more: int, value: Any) -> Any:
        """``-value`` where ``quarter + more`` has the bit of 2, else ``value``."""


def block(words: Words, key: Sequence[Any], counter: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """The four words of a counter of four words, for a key of two."""
    a, b, c, d = counter
    first, second = key
    for done in range(ROUNDS):
        if done:
            first, second = words.plus(first, GROWTH[0]), words.plus(second, GROWTH[1])
        high_a, low_a = words.product(a, FACTORS[0])
        high_c, low_c = words.product(c, FACTORS[1])
        a, b, c, d = words.xor(words.xor(high_c, b), first), low_c, words.xor(words.xor(high_a, d), second), low_a
    return a, b, c, d


# --- distributions ------------------------------------------------------------------------------------------------------


def uniform(reals: Reals, words: Sequence[Any], number: int) -> list[Any]:
    """Numbers in [0, 1), all multiples of the distance from 1 to the float below it."""
    return [reals.multiply(reals.whole(word), 2.0**-reals.digits) for word in words[:number]]


def exponential(reals: Reals, words: Sequence[Any], number: int) -> list[Any]:
    """Numbers with density exp(-x)."""
    return [reals.subtract(-0.0, _log(reals, _positive(reals, word))) for word in words[:number]]


def normal(reals: Reals, words: Sequence[Any], number: int) -> list[Any]:
    """Numbers with density exp(-x**2 / 2) / sqrt(2 pi), two of two words.

    G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates", Ann. Math. Statist. 29 (1958).
    """
    found: list[Any] = []
    for first in range(0, number, 2):
        size = reals.root(reals.multiply(_log(reals, _positive(reals, words[first])), -2.0))
        found += (reals.multiply(size, part) for part in _cosine_and_sine(reals, words[first + 1]))
    return found[:number]


def _positive(reals: Reals, word: Any) -> Any:
    """A number in (0, 1]."""
    return reals.add(reals.multiply(reals.unsigned(word), 2.0**-reals.bits), 2.0 ** -(reals.bits + 1))


# --- functions of floats ------------------------------------------------------------------------------------------------


def _log(reals: Reals, value: Any) -> Any:
    return _log_32(reals, value) if reals.bits == 32 else _log_64(reals, value)


def _cosine_and_sine(reals: Reals, word: Any) -> tuple[Any, Any]:
    """Of the angle that is the word's part of a whole turn, whose quarter is brought to within an eighth of a turn of 0."""
    quarter, rest = reals.turned(word)
    cosine, sine = (_near_zero_32 if reals.bits == 32 else _near_zero_64)(reals, rest)
    swapped = reals.choose(quarter, 1, sine, cosine), reals.choose(quarter, 1, cosine, sine)
    return reals.negated(quarter, 1, swapped[0]), reals.negated(quarter, 0, swapped[1])


def _polynomial_32(reals: Reals, x: Any, first: float, *others: float) -> Any:
    found: Any = first
    for each in others:
        found = reals.fused(x, found, each)
    return found


def _narrow(*values: float) -> tuple[float, ...]:
    return tuple(float(np.float32(value)) for value in values)


# Polynomials have the highest power first; their coefficients are minimax, by Remez' exchange with 50 digits. Errors in units
# in the last place: log(1 + f), |f| <= 1/3, from the third power on, even and odd ones apart, 0.9; the cosine and the sine of
# pi x, |x| <= 1/4, 1.
(_LOG_2, _THIRDS, _CUBIC, _PI_32) = _narrow(0.693147182, 0.666666687, 0.33333216, 3.14159274)
_LOG_EVEN = _narrow(-0.128915502, -0.121842956, -0.166804846, -0.249997977)
_LOG_ODD = _narrow(0.139843639, 0.140058844, 0.20010405)
_COSINE_32 = _narrow(0.231364221, -1.33505057, 4.05870762, -4.93480217, 1.0)
_SINE_32 = _narrow(-0.599525685, 2.55077605, -5.1677327)


def _log_32(reals: Reals, value: Any) -> Any:
    exponent, fraction = reals.split(value, _THIRDS)
    f = reals.subtract(fraction, 1.0)
    s = reals.multiply(f, f)
    tail = reals.fused(_polynomial_32(reals, s, *_LOG_ODD), f, _polynomial_32(reals, s, *_LOG_EVEN))
    tail = reals.fused(reals.fused(tail, f, _CUBIC), f, -0.5)
    return reals.fused(exponent, _LOG_2, reals.fused(tail, s, f))


def _near_zero_32(reals: Reals, x: Any) -> tuple[Any, Any]:
    s = reals.multiply(x, x)
    sine = reals.multiply(reals.multiply(x, s), _polynomial_32(reals, s, *_SINE_32))
    return _polynomial_32(reals, s, *_COSINE_32), reals.fused(x, _PI_32, sine)


# As fdlibm does it (Sun Microsystems, 1993): log(1 + f) by a series of s = f / (2 + f), and the cosine and the sine of x,
# |x| <= pi / 4.
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROOT_OF_HALF = 0.7071067811865476
_LOG_64 = (
    (0.153140501429521584, 0.222221985728162897, 0.399999999994146543),
    (0.14795953611979623, 0.181835643432969798, 0.285714287423918346, 0.666666666666673442),
)
_COSINE_64 = (
    *(-1.13596697911461747e-11, 2.08757236827120141e-9, -2.75573143552266814e-7),
    *(2.48015872894917623e-5, -1.38888888888741385e-3, 4.16666666666665996e-2),
)
_SINE_64 = (
    *(1.58968267385561084e-10, -2.50507586303928891e-8, 2.75573136950596002e-6),
    *(-1.98412698298163807e-4, 8.33333333332242363e-3, -1.66666666666666321e-1),
)
_PI_64 = 3.141592653589793


def _polynomial_64(reals: Reals, x: Any, first: float, *others: float) -> Any:
    found: Any = first
    for each in others:
        found = reals.add(reals.multiply(x, found), each)
    return found


def _log_64(reals: Reals, value: Any) -> Any:
    exponent, fraction = reals.split(value, _ROOT_OF_HALF)
    f = reals.subtract(fraction, 1.0)
    s = reals.divide(f, reals.add(f, 2.0))
    z = reals.multiply(s, s)
    w = reals.multiply(z, z)
    even, odd = (_polynomial_64(reals, w, *each) for each in _LOG_64)
    series = reals.add(reals.multiply(w, even), reals.multiply(z, odd))
    half = reals.multiply(reals.multiply(f, 0.5), f)
    low = reals.add(reals.multiply(s, reals.add(half, series)), reals.multiply(exponent, _LOG_2_LOW))
    rest = reals.subtract(reals.subtract(half, low), f)
    return reals.subtract(reals.multiply(exponent, _LOG_2_HIGH), rest)


def _near_zero_64(reals: Reals, turned: Any) -> tuple[Any, Any]:
    x = reals.multiply(turned, _PI_64)
    z = reals.multiply(x, x)
    half = reals.multiply(z, 0.5)
    first = reals.subtract(1.0, half)
    lost = reals.subtract(reals.subtract(1.0, first), half)
    series = reals.multiply(reals.multiply(z, z), _polynomial_64(reals, z, *_COSINE_64))
    cosine = reals.add(first, reals.add(lost, series))
    return cosine, reals.add(x, reals.multiply(reals.multiply(z, x), _polynomial_64(reals, z, *_SINE_64)))
