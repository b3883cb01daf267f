"""The number rules: weak Python numbers, no float64 in a float32 kernel, integers as NumPy has them."""

from __future__ import annotations

import cmath
import math
import re

import numpy as np
import pytest

import qgraph
from qgraph.operations import intrinsics

POISON = 77


def float32_only(x, y, k, a, n):
    for i in range(x.shape[0]):
        t = x[i] * 0.1 + 2 * x[i] + 1
        s = 0
        for j in range(3):
            s += x[i] * j
        y[i] = t + i * x[i] + max(x[i], 0) + a * x[i] + n / x.shape[0] + s
        y[i] = y[i] / 3 + i / 2 + x.shape[0] * 0.5 - (1.5 if i > 2 else 2)
        y[i] += x[i] ** 2 + x[i] ** 0.5
        k[i] = k[i] * 2 + i // 2


def float32_args(n=40):
    x = np.random.default_rng(0).random(n).astype(np.float32) + np.float32(0.5)
    return x, np.full(n, POISON, np.float32), np.arange(n, dtype=np.int32), 0.3, 7


def test_a_float32_kernel_computes_in_float32(check):
    # Not a check of the type: the double result differs from the float32 one by less than this. The PTX tests check it.
    check(float32_only, float32_args, tolerance=1e-5)


def exactly_float32(x, y, a):
    for i in range(x.shape[0]):
        y[i] = (x[i] + 0.1) - a
        y[i] = y[i] * 3
        y[i] = y[i] / 7


def test_each_operation_rounds_to_float32(check):
    # No product meets a sum here, so nothing can be contracted: bit for bit.
    def args():
        return np.random.default_rng(1).random(200).astype(np.float32), np.full(200, POISON, np.float32), 0.7

    check(exactly_float32, args, tolerance=0.0)


def literals(x):
    for i in range(x.shape[0]):
        x[i] = (x[i] + 16777216.0) - 16777216.0 + 1e-9


def test_literals_are_float32_in_a_float32_kernel(check):
    check(literals, lambda: (np.linspace(0, 3, 13).astype(np.float32),), tolerance=0.0)


def loses_bits(x, a, big):
    for i in range(x.shape[0]):
        x[i] = (x[i] + a) - a
    for i in range(x.shape[0]):
        x[i] += (big + x[i]) - big


def test_python_scalar_arguments_are_float32_in_a_float32_kernel(rig):
    kernel = rig.check(loses_bits, lambda: (np.linspace(0, 3, 13).astype(np.float32), 16777216.0, 1 << 24), tolerance=0.0)
    rig.compare(kernel, lambda: (np.linspace(0, 3, 13), 16777216.0, 1 << 24))


def strong(x, y, a):
    for i in range(x.shape[0]):
        y[i] = x[i] + a


def test_numpy_scalars_keep_their_type(check):
    # float32 + float64 scalar is float64 in NumPy 2: the sum is rounded once.
    def args(a):
        return lambda: (np.float32([1.0, 2.0, 3.0]), np.zeros(3), a)

    check(strong, args(np.float64(1e-9)), tolerance=1e-15)
    check(strong, args(np.float32(1e-9)), tolerance=1e-15)


def mixed(x, k, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * k[i] + k[i] / 3


def test_float64_arrays_make_a_float64_kernel(check):
    check(mixed, lambda: (np.float32([0.1, 0.2, 0.3]), np.arange(3, dtype=np.int32), np.zeros(3)), tolerance=1e-6)
    check(mixed, lambda: (np.array([0.1, 0.2, 0.3]), np.arange(3), np.zeros(3)))


def integer_kernel(k, out):
    for i in range(k.shape[0]):
        out[i] = int(k[i] * 0.1 * 1e12) + int(i / 7 * 1e15)


def test_without_float_arrays_floats_are_float64(check):
    check(integer_kernel, lambda: (np.arange(20), np.full(20, POISON)))


# --- what the generated code says ---------------------------------------------------------------------------------------


@pytest.mark.needs("compiler")
def test_no_float64_in_the_ptx_of_a_float32_kernel():
    for name, text in qgraph.kernel(float32_only).ptx(*float32_args()).items():
        assert not re.findall(r"\.f64", text), name


def stencil(u, v, w, tol):
    for i in range(1, u.shape[0] - 1):
        v[i] = 0.25 * (u[i - 1] + u[i + 1]) + tol * i / u.shape[0]
        if abs(v[i] - u[i]) > tol:
            w[0] += 1
            w[1] = max(w[1], 3)
    w[0] -= 1
    v[0] = u[1] * 0.5 + 1


@pytest.mark.needs("compiler")
def test_no_float64_in_stencils_statements_and_atomics():
    f = np.zeros(9, np.float32)
    text = qgraph.kernel(stencil).ptx(f, f.copy(), f.copy(), 1e-3)
    assert not [name for name, ptx in text.items() if ".f64" in ptx]


@pytest.mark.needs("compiler")
def test_float64_that_was_asked_for_stays():
    f = np.zeros(9, np.float32)
    (ptx,) = qgraph.kernel(strong).ptx(f, np.zeros(9), np.float64(2.0)).values()
    assert ".f64" in ptx


# --- integers -----------------------------------------------------------------------------------------------------------


def division(a, b, out):
    for i in range(a.shape[0]):
        out[0, i] = a[i] // b[i]
        out[1, i] = a[i] % b[i]
        out[2, i] = a[i] // 3 + a[i] % 3 * 100
        out[3, i] = a[i] // -3 + a[i] % -3 * 100
        out[4, i] = (i - 10) // 4 + (i - 10) % 4 * 100


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_floor_division_and_modulo_of_negatives(check, dtype):
    def args():
        a = np.arange(-10, 11).astype(dtype)
        b = np.where(np.arange(21) % 2 == 0, 4, -3).astype(dtype)
        return a, b, np.full((5, 21), POISON)

    check(division, args)


def float_division(a, b, out):
    for i in range(a.shape[0]):
        out[0, i] = a[i] // b[i]
        out[1, i] = a[i] % b[i]
        out[2, i] = a[i] / b[i]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_floor_division_and_modulo(check, dtype):
    def args():
        return np.linspace(-5, 5, 21).astype(dtype), np.tile([1.5, -0.7, 2.0], 7).astype(dtype), np.full((3, 21), POISON, dtype)

    check(float_division, args)


def wraps(small, wide, y8, y32):
    for i in range(small.shape[0]):
        y8[i] = small[i] + 1
        y32[i] = wide[i] + 1
    for i in range(small.shape[0]):
        small[i] *= 3
        wide[i] -= 5
        y8[i] = -y8[i]


def test_stores_wrap_around(check):
    def args():
        small = np.array([0, 100, 254, 255], np.uint8)
        wide = np.array([-(2**31), 0, 2**31 - 2, 2**31 - 1], np.int32)
        return small, wide, np.full(4, POISON, np.uint8), np.full(4, POISON, np.int32)

    check(wraps, args)


def wraps_inside(small, wide, a, b):
    for i in range(small.shape[0]):
        a[i] = (small[i] + 1) // 2
        b[i] = (wide[i] + 1) // 2


def test_intermediate_results_wrap_at_the_arrays_type(check):
    def args():
        return np.uint8([0, 100, 255]), np.int32([1, 0, 2**31 - 1]), np.full(3, POISON), np.full(3, POISON)

    check(wraps_inside, args)


def unsigned(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i] + i
        out[i] = out[i] * 2 - 1
        out[i] = out[i] // 3


def test_uint64_stays_an_integer(check):
    check(unsigned, lambda: (np.uint64([2**63, 5, 2**62]), np.zeros(3, np.uint64)))


def powers(base, exponent, out):
    for i in range(base.shape[0]):
        out[i] = base[i] ** exponent[i]
    return base[1] ** exponent[0]


def powers_in_place(base, exponent, out):
    for i in range(base.shape[0]):
        out[i] = i
        out[i] **= exponent[i]


def powers_by_call(base, exponent, out):
    for i in range(base.shape[0]):
        out[i] = pow(base[i], exponent[i]) - np.power(base[i], exponent[i]) + i


@qgraph.func
def squared_power(a, k):
    b = a**k
    return b * b


def powers_in_a_func(base, exponent, out):
    for i in range(base.shape[0]):
        out[i] = squared_power(base[i], exponent[i])


def powers_in_a_test(base, exponent, out):
    k = 0
    while base[0] ** exponent[0] > k:
        k += 1
        for i in range(base.shape[0]):
            out[i] = k if k ** exponent[1] > 5 else i
    return k


def powers_that_a_loop_waits_for(base, exponent, out):
    k = 0
    while base[k] ** exponent[k] < 2:
        for i in range(out.shape[0]):
            out[i] = i
    return k


POWERS = [powers, powers_in_place, powers_by_call, powers_in_a_func, powers_in_a_test, powers_that_a_loop_waits_for]


def bases_and_exponents(dtype, exponents):
    return np.array([3, 1, 2, 2]).astype(dtype), np.array(exponents), np.arange(40, 44).astype(dtype)


@pytest.mark.parametrize("function", POWERS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_powers_and_those_that_are_no_integers(rig, function, dtype):
    kernel = rig.kernel(function)
    rig.compare(kernel, lambda: bases_and_exponents(dtype, [2, 3, 0, 3]))
    with pytest.raises(qgraph.ArgumentError, match=r"is an integer to a negative power"):
        rig.run(kernel, *bases_and_exponents(dtype, [-2, -3, -1, -3]))
    # It is told once, and the kernel goes on.
    rig.compare(kernel, lambda: bases_and_exponents(dtype, [1, 2, 3, 1]))


@pytest.mark.parametrize("function", [powers, powers_by_call, powers_in_a_func], ids=lambda function: function.__name__)
def test_floats_have_negative_powers(check, function):
    check(function, lambda: bases_and_exponents("float64", [2, 3, -1, 3]))


def powers_with_names(x, n):
    s = 2**n
    t = abs(n + 1) ** (n * 2)
    for i in range(x.shape[0]):
        x[i] = s + i
    return s, t


@pytest.mark.parametrize("kind", [int, np.int64])
def test_powers_that_have_a_name(rig, kind):
    kernel = rig.kernel(powers_with_names)
    rig.compare(kernel, lambda: (np.full(4, 77.0), kind(3)))
    with pytest.raises(qgraph.ArgumentError, match=r"`2 \*\* n` is an integer to a negative power"):
        rig.run(kernel, np.zeros(4), kind(-1))
    rig.compare(kernel, lambda: (np.full(4, 77.0), kind(0)))


def roots(x, c, d):
    for i in range(x.shape[0]):
        x[i] = c**d + i


def roots_in_place(x, c, d):
    for i in range(x.shape[0]):
        t = c
        t **= 0.5
        x[i] = t


def roots_by_call(x, c, d):
    for i in range(x.shape[0]):
        x[i] = abs(pow(float(c), d))


def roots_of_the_host(x, c, d):
    r = (c + 1.0) ** d
    for i in range(x.shape[0]):
        x[i] = r
    return r


def roots_in_an_expression(x, c, d):
    x[:] = c**d * 2


ROOTS = [roots, roots_in_place, roots_by_call, roots_of_the_host, roots_in_an_expression]


@pytest.mark.parametrize("function", ROOTS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_powers_of_pythons_negative_numbers_that_are_complex(rig, function, dtype):
    kernel = rig.kernel(function)
    rig.compare(kernel, lambda: (np.zeros(3, dtype), 4.0, 0.5))
    with pytest.raises(qgraph.ArgumentError, match=r"is a negative number to a power that is no integer: a complex number"):
        rig.run(kernel, np.zeros(3, dtype), -4.0, 0.5)
    rig.compare(kernel, lambda: (np.zeros(3, dtype), 2.0, 1.5))


def roots_that_are_fine(x, c, d, k):
    for i in range(x.shape[0]):
        x[i] = (c * c) ** 0.5 + (c**2) ** -1.5 + c**3 + c**2.0 + c**-2.0 + c**k + (c**d if c > 0 else 3.0)


def test_powers_of_pythons_numbers_that_are_real(check):
    for c in (-4.0, 4.0):
        check(roots_that_are_fine, lambda c=c: (np.zeros(3), c, 0.5, 3))


def powers_that_are_fine(x, f, k):
    for j in qgraph.serial(range(3)):
        for i in range(x.shape[0]):
            x[i] = i**2 + 3 ** (j + 1)
            f[i] = f[i] ** k[i] + k[i] ** f[i]


def test_powers_that_cannot_be_negative_are_not_looked_at(check):
    def arguments():
        return np.full(3, POISON), np.array([1.5, 2.5, 0.5]), np.array([2, 3, 1])

    kernel = check(powers_that_are_fine, arguments)
    assert kernel.plan(*arguments()).program.faults == ()


def mixed_signs(u, narrow, wide, out, floats):
    for i in range(u.shape[0]):
        floats[i] = u[i] + narrow[i]
        floats[i] += u[i] * narrow[i] - narrow[i] // (u[i] + narrow[i])
        out[i] = u[i] + i - 1
    for i in range(u.shape[0]):
        if u[i] > narrow[i]:
            out[i] += 5


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_uint64_with_a_narrower_signed_element_is_float64(check, dtype):
    def args():
        return np.uint64([2**40, 5, 2**62]), np.array([-3, 7, -100], dtype), np.arange(3), np.zeros(3, np.uint64), np.zeros(3)

    check(mixed_signs, args)


def both_of_64_bits(u, k, out):
    for i in range(u.shape[0]):
        out[i] = u[i] + k[i]


@qgraph.func
def larger(a, b):
    return max(a, b)


def both_in_a_func(u, k, out):
    for i in range(u.shape[0]):
        out[i] = larger(u[i], k[i])


def both_in_a_reduction(u, k, out):
    s = k[0]
    for i in range(u.shape[0]):
        s += u[i]
    out[0] = s


def both_in_a_scalar(u, k, out):
    s = u[0]
    if k[1] < 0:
        s = k[0]
    out[0] = s


def both_in_a_choice(u, k, out):
    s = 0
    for i in range(u.shape[0]):
        s += k[i]
    out[0] = u[0] if u[0] > 3 else s


def both_after_a_literal(u, narrow, out):
    s = 0
    for i in range(u.shape[0]):
        s += narrow[i]  # an int64 from here on
    out[0] = u[0] * s


def both_in_functions_of_numpys(u, k, out):
    for i in range(u.shape[0]):
        out[i] = np.square(u[i]) - k[i]


def both_in_a_choice_of_numpys(u, k, out):
    out[:] = np.where(k > 0, u, 3) - k


def both_in_an_extreme(u, k, out):
    s = np.max(np.abs(u))
    out[0] = k[1] + s


def both_in_a_place(u, k, out):
    s = np.argmax(k)
    out[0] = u[0] + s


def both_of_a_quotient(u, k, out):
    for i in range(u.shape[0]):
        q, r = divmod(u[i], 3)
        out[i] = q * k[i] + r


def both_in_a_place_of_a_row(u, k, out):
    for i in range(u.shape[0]):
        out[i] = u[i] + np.argmin(k)


def both_in_a_power(u, k, out):
    for i in range(u.shape[0]):
        out[i] = u[i] ** k[i]


def both_in_a_power_of_arrays(u, k, out):
    out[:] = k**u


def both_in_a_power_that_is_called(u, k, out):
    for i in range(u.shape[0]):
        out[i] = pow(k[i], u[i])


def both_of_a_power(u, k, out):
    for i in range(u.shape[0]):
        out[i] = u[i] ** i + k[i]


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (both_in_a_power, "int64"),
        (both_in_a_power_of_arrays, "int64"),
        (both_in_a_power_that_is_called, "int64"),
        (both_of_a_power, "int64"),
        (both_in_functions_of_numpys, "int64"),
        (both_in_a_choice_of_numpys, "int64"),
        (both_in_an_extreme, "int64"),
        (both_in_a_place, "int64"),
        (both_in_a_place_of_a_row, "int64"),
        (both_of_a_quotient, "int64"),
        (both_of_64_bits, "int64"),
        (both_in_a_func, "int64"),
        (both_in_a_reduction, "int64"),
        (both_in_a_scalar, "int64"),
        (both_in_a_choice, "int64"),
        (both_after_a_literal, "int16"),
    ],
)
def test_uint64_with_an_int64_of_an_array_is_refused(rig, function, dtype):
    u, k, out = np.uint64([2**63, 7]), np.array([3, -2], dtype), np.zeros(2, np.uint64)
    with pytest.raises(qgraph.KernelTypeError, match="uint64.* int64.* NumPy makes float64"):
        rig.run(rig.kernel(function), u, k, out)
    assert not out.any()


def none_yet(u, k, out):
    s = -1
    for i in range(u.shape[0]):
        if k[i] == 5:
            s = 7
    if k[0] == 3:
        s = u[0]
    out[0] = s


def test_a_scalar_that_is_a_uint64_or_negative_is_refused(rig):
    with pytest.raises(qgraph.KernelTypeError, match="a uint64 on one line and a negative number on another"):
        rig.run(rig.kernel(none_yet), np.uint64([2**63, 7]), np.array([3, -2]), np.zeros(2, np.uint64))


def converted(u, k, out, n):
    total = 0
    k[0] += u[2] % 4
    u[1] -= k[2]
    bits = 0
    for i in range(u.shape[0]):
        out[i] = np.float64(u[i]) + k[i] * 0.5 + (u[k[i] % 2] % 5) * 0.25
        total += u[i] % 100 + i + n
        bits ^= u[i] + np.uint64(k[i] * k[i])
        if u[i] > k[i]:
            out[i] += np.int64(u[i] % 8) - k[i]
    return total, bits * 2, total * 0.5, u[0] * 0.5 + k[1]


def test_uint64_with_what_is_not_an_int64_of_an_array(check):
    check(converted, lambda: (np.uint64([2**40 + 3, 7, 12]), np.array([-3, 5, 2]), np.zeros(3), 4))


def by_zero(x, y, k, out):
    for i in range(x.shape[0]):
        out[0, i] = x[i] / y[i]
        out[1, i] = 1 / y[i]
        out[2, i] = k[i] / k[i]
        out[3, i] = x[i] // y[i]
        out[4, i] = x[i] % y[i]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_division_by_zero_gives_inf_and_nan(check, dtype):
    def args():
        x, y = np.array([1, -1, 0, 2], dtype), np.array([0, 0, 0, 4], dtype)
        return x, y, np.array([0, 1, 0, 2]), np.full((5, 4), POISON, dtype)

    check(by_zero, args)


def shifts(k, out):
    for i in range(k.shape[0]):
        out[i] = (k[i] << 3) ^ (k[i] >> 1) & ~k[i] | 1


def test_shifts_and_bits(check):
    check(shifts, lambda: (np.arange(-8, 8), np.full(16, POISON)))


def powers(x, k, out):
    for i in range(x.shape[0]):
        out[i] = x[i] ** 2 + x[i] ** -1 + k[i] ** 3 + 2**i


def test_powers(check):
    check(powers, lambda: (np.linspace(0.5, 2, 9), np.arange(9), np.full(9, float(POISON))))


# --- Python integers divided by zero ------------------------------------------------------------------------------------


def bound_of_an_inner_loop(x, m, k):
    for i in range(x.shape[0]):
        for _ in range(m // k):
            x[i] += 1
    x[0] += 5


def bound_of_an_inner_loop_by_modulo(x, m, k):
    for i in range(x.shape[0]):
        n = m + i
        for _ in range(2, 3 + n % k):
            x[i] += 1
    x[0] += 5


def bound_of_a_serial_loop(x, m, k):
    for t in qgraph.serial(range(divmod(m, k)[0])):
        for i in range(x.shape[0]):
            x[i] += t
    x[0] += 5


def bound_inside_a_serial_loop(x, m, k):
    for t in qgraph.serial(range(k + 1, -1, -1)):
        for i in range(t, m // (t + k)):
            x[i] += 1
    x[0] += 5


def bound_that_the_host_knows(x, m, k):
    q = m % k
    for i in range(q):
        x[i] += 1
    x[0] += 5


def bound_of_a_kernel_scalar(x, m, k):
    s = 0
    for i in range(3):
        s += i
    for i in range(m // (s * k)):
        x[i] += 1
    x[0] += 5


def end_of_a_slice(x, m, k):
    x[: m // k] = 7
    x[0] += 5


def statements(x, m, k):
    s = m
    while s > 0:
        s -= 1
        x[s] += 1
    s //= k
    x[0] += s + 5


def a_test(x, m, k):
    if m % k == 0:
        x[0] += 5


def a_returned_value(x, m, k):
    return m // k + x.shape[0] % k


@qgraph.func
def halved(x, m, k):
    q = m // k
    for i in range(x.shape[0]):
        x[i] += q
    return q


def in_a_func(x, m, k):
    x[0] = 5
    q = halved(x, m + 1, k)
    x[0] = q


def a_name_for_what_the_host_knows(x, m, k):
    n = m // k
    for i in range(x.shape[0]):
        x[i] += n


ZERO_DIVISIONS = [
    a_name_for_what_the_host_knows,
    *(bound_of_an_inner_loop, bound_of_an_inner_loop_by_modulo, bound_of_a_serial_loop, bound_inside_a_serial_loop),
    *(bound_that_the_host_knows, bound_of_a_kernel_scalar, end_of_a_slice, statements, a_test, a_returned_value),
    in_a_func,
]


def on_one_path(x, m, k):
    n = m // k if k else 7
    if k:
        part = m % k
        for i in range(x.shape[0]):
            x[i] += part
    for i in range(x.shape[0]):
        x[i] += n


def in_a_loop_that_has_no_iteration(x, m, k):
    while x[0] > 100:
        n = m // k
        for i in range(x.shape[0]):
            x[i] -= n
    for _ in qgraph.serial(range(k)):
        part = m // k
        for i in range(x.shape[0]):
            x[i] += part
    x[0] += 5


def in_a_branch_of_the_device(x, m, k):
    if x[0] > 100:
        n = m // k
        for i in range(x.shape[0]):
            x[i] -= n
    x[0] += 5


@pytest.mark.parametrize("function", [on_one_path, in_a_loop_that_has_no_iteration, in_a_branch_of_the_device])
@pytest.mark.parametrize("divisor", [2, 0])
def test_divisions_that_nobody_does(rig, function, divisor):
    rig.compare(rig.kernel(function), lambda: (np.arange(9), 4, divisor))


def test_divisions_that_the_host_tries_are_not_tested_in_loops():
    kernel = qgraph.kernel(a_name_for_what_the_host_knows, backend="cpu")
    assert not kernel.plan(np.arange(9), 4, 2).program.faults


@pytest.mark.parametrize("function", ZERO_DIVISIONS, ids=lambda function: function.__name__)
def test_python_integers_divided_by_zero_are_an_error(rig, function):
    kernel = rig.kernel(function)
    rig.compare(kernel, lambda: (np.arange(9), 4, 2))
    with pytest.raises(ZeroDivisionError):
        kernel.reference(np.arange(9), 4, 0)
    with pytest.raises(qgraph.ArgumentError, match=r"by zero"):
        rig.run(kernel, np.arange(9), 4, 0)
    rig.compare(kernel, lambda: (np.arange(9), 4, 1))


def raised_in_python(out, m, z, f, whole):
    for i in range(out.shape[0]):
        out[i] = (i << m) + (8 >> (i - 3)) * 10 + (i % z) * 100
        t = i
        t <<= m
        out[i] += t * 1000
        t = i + 1
        t //= z
        out[i] += t * 10000
        if math.isfinite(f[i]):
            out[i] += int(f[i]) + math.floor(f[i]) + round(f[i])
        elif int(f[i]) + math.ceil(f[i]) + round(f[i]) == 12345:
            out[i] = 0
        whole[i] = f[i]
        if math.ldexp(1.0, 5000) < 1.0 or cmath.log(z).real > 0.0:
            out[i] = 0


def test_what_python_raises_in_the_values_of_parallel_loops(rig):
    out, whole = np.zeros(5, np.int64), np.zeros(5, np.int32)
    rig.run(rig.kernel(raised_in_python), out, -2, 0, np.array([1.5, np.nan, -2.5, np.inf, -np.inf]), whole)
    # Shifts by a negative number shift all bits out, as NumPy's.
    assert out.tolist() == [1 + 1 + 2, 0, -2 - 3 - 2, 80, 40]
    assert whole[[0, 2]].tolist() == [1, -2]


def elements_by_zero(x, k):
    for i in range(x.shape[0]):
        for _ in range(x[i] // k[0], 1 + x[i] % k[0]):
            x[i] += 1
    m = k[0]
    x[0] += 3 + m // k[0]


def test_elements_divided_by_zero_are_zero_as_in_numpy(check):
    check(elements_by_zero, lambda: (np.arange(5), np.zeros(1, np.int64)))


def divided_by_numbers(x, m, k):
    for i in range(x.shape[0]):
        for _ in range(m // 2, m % 3 + 4):
            x[i] += 1
        x[i] = x[i] // k + i % m


def test_divisors_that_are_written_are_not_looked_at(check):
    kernel = check(divided_by_numbers, lambda: (np.arange(9), 4, 2))
    assert kernel.plan(np.arange(9), 4, 2).program.faults == ()


def inner_step(x, k):
    for i in range(x.shape[0]):
        for j in range(i, 9, k):
            x[i] += j


def inner_step_of_an_element(x, k):
    for i in range(1, x.shape[0]):
        for j in range(i, 9, x[0] * k):
            x[i] += j


@pytest.mark.parametrize("function", [inner_step, inner_step_of_an_element])
def test_an_inner_step_of_zero_is_an_error(rig, function):
    kernel = rig.kernel(function)
    rig.compare(kernel, lambda: (np.arange(3, 8), 2))
    rig.compare(kernel, lambda: (np.arange(3, 8), -1), noop=True)
    with pytest.raises(qgraph.ArgumentError, match="the step of a range is 0"):
        rig.run(kernel, np.arange(3, 8), 0)
    rig.compare(kernel, lambda: (np.arange(3, 8), 1))


def remainders_as_indices(x, y, k, n):
    for i in range(y.shape[0]):
        y[i] = x[(i - 3) % x.shape[0]] + 10 * x[(3 - 2 * i) % 5] + 100 * x[(i - 9) % -4] + 1000 * x[k[i] % x.shape[0] - 2]
        y[i] += 10000 * x[i * n % n]


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_remainders_are_indices_and_only_negative_ones_count_from_the_end(check, kind):
    def make_args():
        k = np.array([-(2 ** (8 * np.dtype(kind).itemsize - 1)), -7, -1, 0, 1, 6, 7, 100], kind)
        return np.arange(1.0, 8.0), np.full(8, float(POISON)), k, -6

    check(remainders_as_indices, make_args)


# --- bits ---------------------------------------------------------------------------------------------------------------


def ones_in(x, narrow, wide, n):
    s = qgraph.popcount(n)
    for i in range(x.shape[0]):
        narrow[i] = qgraph.popcount(x[i])
        # A Python integer, whatever the operand is: this does not wrap.
        wide[i] = qgraph.popcount(x[i]) + 200 + s
        if qgraph.popcount(i) % 2:
            wide[i] += qgraph.popcount(i & 255 == 255)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_popcount(rig, dtype):
    rng = np.random.default_rng(3)
    if dtype == "bool":
        x = rng.integers(0, 2, 64).astype(bool)
    else:
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, 64, dtype=dtype, endpoint=True)
        x[:3] = limits.min, limits.max, 0
    for n in (0, -7, 2**62 + 1):
        rig.check(ones_in, lambda n=n: (x, np.zeros(64, np.int8), np.zeros(64, np.int64), n))


@pytest.mark.parametrize(("bits", "dtype"), [("b32", "int8"), ("b32", "uint32"), ("b64", "uint64")])
@pytest.mark.needs("compiler")
def test_popcount_is_one_instruction(bits, dtype):
    ptx = qgraph.kernel(backend="cpu")(ones_in).ptx(np.ones(4, dtype), np.zeros(4, np.int8), np.zeros(4, np.int64), 1)
    assert f"popc.{bits}" in str(ptx)


# --- np.clip ------------------------------------------------------------------------------------------------------------


def clipped(x, low, y, z):
    for i in range(x.shape[0]):
        y[i] = np.clip(x[i], low[i], 5)
    z[:] = np.clip(x, low, 5) + np.clip(2 * x, 1, 4)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "float32", "float64"])
def test_clip(rig, dtype):
    x, low = np.arange(12).astype(dtype), np.array([0, 3, 9] * 4, dtype)
    if np.dtype(dtype).kind == "f":
        x[4], low[7] = np.nan, np.nan
    rig.check(clipped, lambda: (x, low, np.zeros(12, dtype), np.zeros(12, dtype)))


def of_two_booleans(p, q, narrow, out):
    for i in range(p.shape[0]):
        out[i] = (p[i] // q[i] + narrow[i]) * 2 + (p[i] << q[i]) + (p[i] % q[i] + narrow[i]) + (p[i] ** q[i] + narrow[i])
    out[:] += (p >> q) + narrow
    out[:] += (p**2 + narrow) + p**3 * 100


def test_arithmetic_of_booleans_is_an_int8_beside_narrow_integers(check):
    p, q = np.array([True, True, False]), np.array([True, False, True])
    check(of_two_booleans, lambda: (p, q, np.array([127, 126, -128], np.int8), np.zeros(3, np.int64)))


def powers_of_what_is_not_negative(x, out, c, d):
    norm = math.sqrt(c)
    e = c - 3.0
    square = e * e
    out[:] = norm**-0.2
    for i in range(x.shape[0]):
        t = float(x[i]) - 2.0
        s = math.hypot(t, c)
        r = t * t
        r += i
        out[i] += s**d + square**0.3 + r**0.3 + math.sqrt(r) ** 0.2 + (abs(t) + 1.0) ** d
        out[i] += max(t, 0.5) ** 0.3 + math.exp(t) ** d + (0.5 if t > 0 else norm) ** d + (t**2) ** 0.25


def powers_of_what_may_be_negative(x, out, c, d):
    e = math.sqrt(c)
    e = e - 1.0
    for i in range(x.shape[0]):
        t = abs(c)
        if i > 1:
            t = -t
        out[i] = t**0.3


def test_powers_of_what_is_never_negative_are_not_checked(check, rig):
    def arguments():
        return np.arange(1.0, 6.0), np.zeros(5), 2.0, 0.3

    check(powers_of_what_is_not_negative, arguments)
    words = [
        [value for task in rig.kernel(each).plan(*arguments()).program.tasks() for value in task.names.values()]
        for each in (powers_of_what_is_not_negative, powers_of_what_may_be_negative)
    ]
    assert [intrinsics.real_power in each for each in words] == [False, True]
    with pytest.raises(qgraph.ArgumentError, match="a complex number in Python"):
        rig.run(rig.kernel(powers_of_what_may_be_negative), *arguments())


WIDE = 10**12


def large_literals(out):
    out[0] = (2**70 >> 66) + (2**300 >> 298) + (1 << 300 >> 299)
    out[1] = 2**64 // 2**60 - 10**20 % 7
    for i in range(2, out.shape[0]):
        out[i] = (2**70 >> 66) + i + (10**30 // 10**29) - WIDE * WIDE // WIDE


def compared_large_literals(out):
    out[0] = (max(2**70, 2**71) >> 66) + min(2**70, 5, -(2**64)) // 2**62
    out[1] = 2**70 < 2**71 <= 2**71 != 2**70
    out[2] = 3 if max(2**70, 1) == 2**70 else 4
    if 2**70 > 2**71:
        out[3] = 1
    else:
        out[3] = 2
    for i in range(4, out.shape[0]):
        out[i] = (min(2**70, 2**69) >> 66) + max(-(2**70), -3) * i
        if not 2**70 == 2**71:
            out[i] += 1


def test_integer_literals_of_any_size_are_pythons(check):
    check(large_literals, lambda: (np.zeros(5, np.int64),))
    check(compared_large_literals, lambda: (np.zeros(6, np.int64),))


def truncated(x, out):
    for i in range(x.shape[0]):
        out[i] = math.trunc(x[i])


def test_trunc_of_a_float32_is_its_integer_where_numpy_has_no_method(rig):
    x, out = rig.device(np.array([1.5, -2.5, 1e10], np.float32)), rig.device(np.zeros(3, np.int64))
    rig.kernel(truncated)(x, out)
    assert qgraph.to_numpy(out).tolist() == [1, -2, 10**10]
