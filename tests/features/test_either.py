"""Integers that are NumPy's, of 8, 16 or 32 bits, or Python's, whichever they are: one answer, or none."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qgraph

NARROW = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)


def elements(dtype):
    """Numbers on both sides of 5, and at both ends."""
    limits = np.iinfo(dtype)
    return np.array([limits.min, limits.min + 1, 0, 1, 4, 5, 6, 7, 100, limits.max - 1, limits.max], dtype)


def taken_as_it_is(x, w, y, z, f, k):
    for i in range(x.shape[0]):
        a = max(x[i], 5)
        y[i] = a
        z[i] = min(x[i], 5, 3)
        f[i] = a
        f[i] += a / 2 + a * 0.5 + math.sqrt(a)
        k[i] = int(a) * 1000000000 + (a > 6) + (5 < a) + (a == x[i])
        k[i] += int(np.int64(a)) + round(a) + math.floor(a) + math.gcd(a, 6)
        if min(a, 7) - 5:
            k[i] += 1
        for j in range(min(a, 3)):
            k[i] += w[max(min(x[i], 7), 0)] + j


def combined_with_literals(x, y):
    for i in range(x.shape[0]):
        a = max(x[i], 5)
        y[i, 0] = a + 1
        y[i, 2] = a * 3 + 1
        y[i, 3] = a // 3 + a % 3
        y[i, 4] = divmod(a, 4)[1]
        y[i, 5] = (a >> 1) + (a << 1)
        y[i, 6] = (a & 6) + (a | 8) + (a ^ 3)
        y[i, 7] = a**2
        y[i, 8] = 2 ** min(max(x[i], 0), 3)
        y[i, 9] = +a - 4
        y[i, 10] = abs(a)
        y[i, 11] = a // 1 % 100
        y[i, 12] = (a + 1) * 2 + (a + a)


def of_either_sign(x, y):
    for i in range(x.shape[0]):
        a = x[i] if x[i] > 4 else -5
        y[i, 0] = -a
        y[i, 1] = ~a
        y[i, 2] = abs(a)
        y[i, 3] = a // -1
        y[i, 4] = a % -3
        y[i, 5] = a // 2 + (a >> 1)
        y[i, 6] = a & 3
        y[i, 7] = (a ^ -1) + (a | 1)
        y[i, 8] = a * -2
        y[i, 9] = a**3
        y[i, 10] = 7 // a
        y[i, 11] = 2 - a


def combined_with_elements(x, y):
    for i in range(x.shape[0]):
        a = min(x[i], 5)
        y[i, 0] = a + x[i]
        y[i, 1] = x[i] * a
        y[i, 2] = a - x[i]
        y[i, 3] = x[i] // max(a, 1)
        y[i, 4] = (a & x[i]) * 2
        y[i, 5] = np.maximum(a, x[i]) + 1
        y[i, 6] = (x[i] if x[i] > 3 else a) + 1
        y[i, 7] = np.where(a > 3, a, x[i])


def summed(x, y):
    for i in range(x.shape[0]):
        t = 0
        m = 3
        p = 1
        for j in range(i):
            t += x[j]
            m = max(m, x[j])
            p = p * x[j]
        y[i, 0] = t
        y[i, 1] = t * 2 + m
        y[i, 2] = m - 1
        y[i, 3] = p
        y[i, 4] = t % 7


@qgraph.func
def clamped(v, low):
    return v if v > low else 0


@qgraph.func
def of_two(v):
    return (v, max(v, 2))


def through_funcs(x, y):
    for i in range(x.shape[0]):
        y[i, 0] = clamped(x[i], 5) + 1
        y[i, 1] = clamped(max(x[i], 3), 5) * 2
        y[i, 2] = of_two(x[i])[1] + 1
        y[i, 3] = (max(x[i], 3), 2)[0] + 1


def at_kernel_level(x, y):
    s = max(x[3], 5)
    y[0, 0] = s
    y[1, 0] = max(x[4], 5) + 1
    for i in range(2):
        y[i + 2, 0] = s + i
    return s


TABLES = (combined_with_literals, combined_with_elements, summed, through_funcs, at_kernel_level)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("function", TABLES)
def test_the_answer_is_cpythons(check, function, dtype):
    check(function, lambda: (elements(dtype), np.zeros((11, 13), np.int64)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", NARROW)
def test_it_is_one_number_where_only_that_counts(check, dtype):
    made = np.zeros(11, dtype), np.zeros(11, dtype), np.zeros(11), np.zeros(11, np.int64)
    check(taken_as_it_is, lambda: (elements(dtype), np.arange(8), *(array.copy() for array in made)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", NARROW[::2])
def test_signs_are_cpythons(check, dtype):
    check(of_either_sign, lambda: (elements(dtype), np.zeros((11, 13), np.int64)))


def of_other_elements(x, y, z):
    for i in range(x.shape[0]):
        z[i] = max(x[i], 5) + y[i]
        z[i] += y[i] * min(x[i], 5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("other", [*NARROW, np.uint64, np.bool_])
@pytest.mark.parametrize("dtype", NARROW)
def test_a_type_that_depends_on_which_is_refused(rig, dtype, other):
    def args():
        last = np.ones(11, other) if other is np.bool_ else elements(other)
        return abs(elements(dtype)), last % 100 if other is np.uint64 else last, np.zeros(11, np.int64)

    # What Python's integer and an element give, and NumPy's.
    if np.result_type(dtype, other) == other:
        rig.check(of_other_elements, args)
    elif rig.backend != "sim":
        with pytest.raises(qgraph.KernelTypeError, match=f"NumPy's {dtype.__name__} or a Python integer"):
            rig.kernel(of_other_elements)(*map(rig.device, args()))


def too_large(x, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 5) * 1000000000


def too_large_by_path(x, y):
    for i in range(x.shape[0]):
        y[i] = (x[i] if x[i] > 5 else 5) << 29


def too_large_by_name(x, y):
    for i in range(x.shape[0]):
        t = 2147483647
        if x[i] > 5:
            t = x[i]
        y[i] = t + 1


def too_large_in_the_end(x, y):
    for i in range(x.shape[0]):
        t = max(x[i], 5)
        for _ in range(3):
            t = t + 1
        y[i] = t


def too_large_a_power(x, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 5) ** 14


def too_large_a_sum_of_two(x, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 2000000000) + max(x[i], 1000000000)


def too_large_in_a_func(x, y):
    for i in range(x.shape[0]):
        y[i] = billions(max(x[i], 5))


@qgraph.func
def billions(v):
    return v * 1000000000


def truth_added(x, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 5) + (x[i] > 3)


def of_numpys_function(x, y):
    for i in range(x.shape[0]):
        y[i] = np.abs(max(x[i], 5))


def of_numpys_function_in_python(x, y):
    for i in range(x.shape[0]):
        y[i] = np.square(max(x[i], 5))


def divisor_that_may_be_zero(x, y):
    for i in range(x.shape[0]):
        y[i] = 7 // max(x[i], 0)


def rounded_to_digits(x, y):
    for i in range(x.shape[0]):
        y[i] = round(max(x[i], 5), -1)


REFUSED = (
    *(too_large, too_large_by_path, too_large_by_name, too_large_in_the_end, too_large_a_power, too_large_a_sum_of_two),
    *(too_large_in_a_func, truth_added, of_numpys_function, of_numpys_function_in_python),
    *(divisor_that_may_be_zero, rounded_to_digits),
)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", REFUSED)
def test_what_depends_on_which_is_refused(rig, function):
    with pytest.raises(qgraph.KernelTypeError, match=r"NumPy's int32 or a Python integer.*write int\(\.\.\.\)"):
        rig.kernel(function)(*map(rig.device, (elements(np.int32), np.zeros(11, np.int64))))


def unsigned_and_negative(x, y):
    for i in range(x.shape[0]):
        y[i] = -max(x[i], 5)


def unsigned_below_zero(x, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 5) - 6


def unsigned_inverted(x, y):
    for i in range(x.shape[0]):
        y[i] = ~max(x[i], 5)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [unsigned_and_negative, unsigned_below_zero, unsigned_inverted])
def test_what_has_no_sign_may_be_negative_as_pythons(rig, function):
    with pytest.raises(qgraph.KernelTypeError, match="NumPy's uint16 or a Python integer"):
        rig.kernel(function)(*map(rig.device, (elements(np.uint16), np.zeros(11, np.int64))))


def a_negative_choice(x, n, y):
    for i in range(x.shape[0]):
        y[i] = -(5 if x[i] > 6 else x[i])


def below_zero(x, n, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 5) - 7


def less_a_scalar_argument(x, n, y):
    for i in range(x.shape[0]):
        y[i] = min(x[i], 5) - n


def a_loop_variable_inverted(x, n, y):
    for i in range(x.shape[0]):
        y[i] = ~(i if x[i] > 6 else x[i])


def a_name_below_zero(x, n, y):
    for i in range(x.shape[0]):
        t = n
        if x[i] > 6:
            t = x[i]
        y[i] = t - 7


def a_sum_with_uint32(x, n, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i], 5) + np.uint32(4294967295)


LONG = [a_negative_choice, below_zero, less_a_scalar_argument, a_loop_variable_inverted, a_name_below_zero, a_sum_with_uint32]


@pytest.mark.parametrize("function", LONG)
def test_a_uint64_or_pythons_that_would_be_negative_is_refused(rig, function):
    with pytest.raises(qgraph.KernelTypeError, match=r"NumPy's uint64 or a Python integer.*write int\(\.\.\.\)"):
        rig.kernel(function)(rig.device(np.arange(11, dtype=np.uint64)), 3, rig.device(np.zeros(11)))


def uint64_or_pythons(x, n, y, z):
    for i in range(x.shape[0]):
        a = max(x[i], 5)
        y[i] = a + 1 + (i if x[i] > 6 else x[i]) * 3
        y[i] += (a + n) // 3 + a % n + (a << 1) + (a ^ x[i]) + min(int(a), n) ** 2 + divmod(a, n)[1]
        t = 0
        for j in range(i):
            t = t * 31 + x[j]
        p, q = x[i], n
        while q:
            p, q = q, p % q
        y[i] += t + p
        z[i] = a * 0.5 + a / 4 + np.sqrt(a) + (int(min(a, 7)) - 9)


def test_a_uint64_or_pythons_is_one_number_where_only_that_counts(check):
    check(uint64_or_pythons, lambda: (np.arange(11, dtype=np.uint64), 4, np.zeros(11, np.uint64), np.zeros(11)))


def converted(x, y):
    for i in range(x.shape[0]):
        y[i] = int(max(x[i], 5)) * 1000000000
        y[i] += np.int32(max(x[i], 5)) * 1000000000


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_the_message_says_to_write_is_cpythons(check):
    check(converted, lambda: (elements(np.int32), np.zeros(11, np.int64)))


def of_two_arrays(x, y, z):
    for i in range(x.shape[0]):
        a = x[i] if x[i] > 5 else y[i]
        z[i] = int(max(x[i], y[i])) + int(min(x[i], y[i])) * 1000
        z[i] += int(a > 6) + int(a == y[i]) + int(np.int64(a) * 3)
        if a:
            z[i] += a
        for _ in range(min(a, 3)):
            z[i] += np.int32(a) + 1
        b = y[i]
        if z[i] % 2 == 0:
            b = 1000
        z[i] = z[i] * 2 + b


@pytest.mark.parametrize("other", [np.uint8, np.int16, np.uint32])
def test_a_number_of_one_array_or_of_another_is_one_number_where_only_that_counts(check, other):
    check(of_two_arrays, lambda: (elements(np.int32) // 8, abs(elements(other) // 100), np.zeros(11, np.int64)))


def product_by_path(x, y, z):
    for i in range(x.shape[0]):
        z[i] = (x[i] if x[i] > 7 else y[i]) * y[i]


def sum_of_the_greatest(x, y, z):
    for i in range(x.shape[0]):
        z[i] = max(x[i], y[i]) + y[i]


def negative_by_name(x, y, z):
    for i in range(x.shape[0]):
        a = y[i]
        if x[i] > 5:
            a = x[i]
        z[i] = -a


def returned_at_kernel_level(x, y, z):
    z[0] = 1
    return (x[4] if z[1] > 5 else y[4]) * y[4]


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [product_by_path, sum_of_the_greatest, negative_by_name, returned_at_kernel_level])
def test_what_depends_on_which_of_two_arrays_it_is_of_is_refused(rig, function):
    with pytest.raises(qgraph.KernelTypeError, match=r"NumPy's int16 or uint8, as in max\(a, b\),.*write numpy.int16\("):
        rig.kernel(function)(*map(rig.device, (np.arange(6, dtype=np.int16), np.full(6, 200, np.uint8), np.zeros(6, int))))


def with_a_literal_beyond(x, y):
    for i in range(x.shape[0]):
        y[i] = (x[i] if x[i] > 5 else -1) * x[i]


def sums_of_a_literal_beyond(x, y):
    for i in range(x.shape[0]):
        a = 300
        for j in range(i):
            if x[j] > 5:
                a = x[j]
        y[i] = a + 1


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [with_a_literal_beyond, sums_of_a_literal_beyond])
def test_what_depends_on_a_literal_that_the_type_does_not_hold_is_refused(rig, function):
    with pytest.raises(qgraph.KernelTypeError, match=r"NumPy's uint8 or a Python integer.*write int\(\.\.\.\)"):
        rig.kernel(function)(*map(rig.device, (np.full(6, 200, np.uint8), np.zeros(6, int))))


def truths_of_a_number(x, b, y):
    for i in range(x.shape[0]):
        t = b[i] if i % 2 else 3
        y[i] = t
        y[i] += t * 5 + int(t) + (t if x[i] > 6 else x[i]) + float(t) / 2
        if t and not (b[i] if i % 3 else x[i]):
            y[i] += 1000
        f = 0
        for j in range(i):
            if x[j] > 5:
                f = b[j]
        y[i] += f


def test_a_truth_or_a_number_is_one_number_where_only_that_counts(check):
    check(truths_of_a_number, lambda: (np.arange(11), np.arange(11) % 3 == 1, np.zeros(11)))


def a_truth_added(x, b, y):
    for i in range(x.shape[0]):
        y[i] = (b[i] if i % 2 else 3) + b[i]


def a_truth_of_names(x, b, y):
    for i in range(x.shape[0]):
        t = b[0]
        for _ in range(i):
            t = t + 7
        y[i] = t + b[i]


def a_truth_less_an_element(x, b, y):
    for i in range(x.shape[0]):
        y[i] = max(b[i], x[i]) - np.uint8(5)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [a_truth_added, a_truth_of_names, a_truth_less_an_element])
def test_what_depends_on_whether_it_is_a_truth_is_refused(rig, function):
    with pytest.raises(qgraph.KernelTypeError, match=r"NumPy's bool or (a Python integer|int64)"):
        rig.kernel(function)(*map(rig.device, (np.arange(6), np.arange(6) % 2 == 1, np.zeros(6, int))))
