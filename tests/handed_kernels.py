"""Loops whose reductions the next kernel finishes, for the tests on GPUs and for those on the simulator."""

from __future__ import annotations

import numpy as np

import qgraph


def greatest(x, y, tolerance, most):
    """One kernel, in which arrays change places; of planes."""
    sweeps = 0
    change = tolerance + 1
    while change > tolerance and sweeps < most:
        change = 0
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                y[i, j] = (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) // 4 + 1
                change = max(change, abs(y[i, j] - x[i, j]))
        x, y = y, x
        sweeps += 1
    return sweeps, change


def several_at_once(x, y, tolerance, most):
    """Values of several types at once, of a line; the number of iterations is known to the loop alone."""
    k = 0
    total = 0
    least = 10**6
    some = False
    while k < most and total != tolerance:
        some = False
        least = 10**6
        for i in range(x.shape[0]):
            x[i] = (x[i] * 3 + y[i] + k) % 1009
            total += x[i]
            least = min(least, x[i])
            some = some or x[i] == 7
        k += 1
        total = total % 10007
    return k, total, least, some


def two_in_a_row(x, y, tolerance, most):
    """Two kernels that reduce, the second of which decides, and reads what the first one made."""
    k = 0
    seen = 0
    norm = tolerance + 1
    while norm != tolerance and k < most:
        total = 0
        for i in range(x.shape[0]):
            x[i] = (x[i] * 5 + k) % 997
            total += x[i]
        shift = total % 11
        norm = 0
        for i in range(y.shape[0]):
            y[i] = (y[i] + x[i] * shift + seen) % 991
            norm += y[i]
        seen = norm % 13
        k += 1
    return k, norm, seen


def like_cg(x, y, tolerance, most):
    """Three kernels, of which two reduce, and the last one uses both results."""
    k = 0
    norm = tolerance + 1
    while norm != tolerance and k < most:
        dot = 0
        for i in range(x.shape[0]):
            y[i] = (y[i] + 2 * x[i] + k) % 1013
            dot += y[i] * x[i]
        alpha = (norm + dot) % 19
        left = 0
        for i in range(x.shape[0]):
            x[i] = (x[i] + alpha * y[i]) % 1019
            left += x[i]
        beta = (left + norm) % 23
        norm = left
        for i in range(x.shape[0]):
            y[i] = (y[i] * 3 + beta * x[i]) % 1021
        k += 1
    return k, norm


def behind_another(x, y, tolerance, most):
    """The first kernel reduces nothing, and reads a scalar of the iteration before."""
    k = 0
    total = 0
    while total != tolerance and k < most:
        for i in range(x.shape[0]):
            y[i] = (x[x.shape[0] - 1 - i] * 3 + total) % 1009
        total = 0
        for i in range(x.shape[0]):
            x[i] = y[x.shape[0] - 1 - i] + k
            total += x[i]
        k += 1
    return k, total


def entered_again(x, y, tolerance, most):
    """In another loop: each time it begins anew, and once it does not begin."""
    done = 0
    sums = 0
    for t in qgraph.serial(range(4)):
        k = t
        total = 0
        while k < most and total != tolerance:
            total = 0
            for i in range(x.shape[0]):
                x[i] = (x[i] * 3 + k + t) % 1009
                total += x[i]
            k += 1
        done += k
        sums += total
    for i in range(y.shape[0]):
        y[i] = x[i] + done
    return done, sums


def where_greatest(x, y, tolerance, most):
    """The place of the greatest element, which the scalars behind it use."""
    k = 0
    where = 0
    best = -1
    while k < most and best != tolerance:
        best = -1
        where = -1
        for i in range(x.shape[0]):
            x[i] = (x[i] * 7 + y[i] + k) % 1009
            if x[i] > best:
                best = x[i]
                where = i
        k += 1
    return k, best, where


def counted(x, y, tolerance, most):
    """So many iterations; the variable of the loop is one of the scalars."""
    total = 0
    for t in qgraph.serial(range(1, most + 1)):
        total = total % 7
        for i in range(x.shape[0]):
            x[i] = (x[i] * 3 + y[i]) % 1009
            total += x[i] * t
    return total


def broken_off(x, y, tolerance, most):
    """It ends at a `break`, too, and by what is in an array that nothing changes."""
    k = 0
    total = 0
    while True:
        total = 0
        for i in range(x.shape[0]):
            x[i] = (x[i] * 3 + k) % 1009
            total += x[i]
        k += 1
        if k >= most or total == y[0]:
            break
    return k, total


def decided_before(x, y, tolerance, most):
    """A reduction behind the one that decides."""
    k = 0
    total = 0
    other = 0
    while k < most and total != tolerance:
        total = 0
        for i in range(x.shape[0]):
            x[i] += 1
            total += x[i]
        other = 0
        for i in range(y.shape[0]):
            y[i] += total
            other += y[i]
        k += 1
    return k, total, other


def counted_before(x, y, tolerance, most):
    """The first kernel of three knows how many iterations there are; the last one reduces, too."""
    k = 0
    other = 0
    total = 0
    while k < most:
        total = 0
        for i in range(x.shape[0]):
            x[i] = (x[i] + other) % 997
            total += x[i]
        for i in range(y.shape[0]):
            y[i] = (y[i] * 3 + total + x[i]) % 991
        other = 0
        for i in range(y.shape[0]):
            x[i] = (x[i] + y[i] * 5) % 983
            other += x[i] % 7
        k += 1
    return k, total, other


# Of planes is the first alone.
ALL = (
    greatest,
    several_at_once,
    two_in_a_row,
    like_cg,
    behind_another,
    entered_again,
    where_greatest,
    counted,
    broken_off,
    decided_before,
    counted_before,
)


# --- floats: what is as in plain Python, or the same on every path ---------------------------------------------------------


def extremes(x, y, tolerance, most):
    """A maximum and a minimum of numbers that may be nan, or a zero of either sign."""
    k = 0
    top = 0.0
    low = 0.0
    while k < most and not top > tolerance:
        top = x[0]
        low = x[0]
        for i in range(x.shape[0]):
            y[i] = x[i] * 1.0
            top = max(top, y[i])
            low = min(low, y[i])
        k += 1
    return k, top, low


def sums(x, y, tolerance, most):
    """Sums whose bits depend on the order."""
    k = 0
    square = 0.0
    total = tolerance + 1.0
    while total > tolerance and k < most:
        total = 0.0
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.9 + y[i]
            total += x[i]
        mean = total / 3.0
        square = 0.0
        for i in range(x.shape[0]):
            y[i] = y[i] - 0.001 * mean
            square += y[i] * y[i]
        total = square + 0.5
        k += 1
    return k, total, square


def of_complex(x, y, tolerance, most):
    """Numbers that take two words."""
    k = 0
    total = 0j
    while k < most and total.real < 1e9:
        total = 0j
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5 + 1j
            total += x[i]
        k += 1
    return k, total


FLOATS = (extremes, sums, of_complex)


# --- what a last block finishes, still ------------------------------------------------------------------------------------


def condition_in_an_array(x, y, tolerance, most):
    """The condition reads what the kernel writes."""
    total = 0
    while total < most and y[0] < most:
        total = 0
        for i in range(x.shape[0]):
            x[i] += 1
            y[i] += 1
            total += x[i]
    return total


def into_an_element(x, y, tolerance, most):
    """The result is an element of an array."""
    k = 0
    while k < most:
        for i in range(1, x.shape[0]):
            x[i] += 1
            y[0] += x[i]
        k += 1
    return k


def beside_each_other(x, y, tolerance, most):
    """Two loops without an order."""
    k = 0
    total = 0
    while k < most:
        total = 0
        for i in range(x.shape[0]):
            x[i] += 1
            total += x[i]
        for i in range(y.shape[0]):
            y[i] += 2
        k += 1
    return k, total


REFUSED = (condition_in_an_array, into_an_element, beside_each_other)


def given(function, most, n=70, tolerance=-1):
    """Arguments: of planes for ``greatest``."""
    if function is greatest:
        x = np.arange(n * 9).reshape(n, 9) * 7919 % 1000
        return x, x.copy(), tolerance, most
    x = np.arange(n) * 7919 % 1000
    return x, x[::-1].copy(), tolerance, most
