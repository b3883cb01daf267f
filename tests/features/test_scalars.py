"""Kernel scalars: assigned at kernel level, of an inferred type, used in later loops, bounds and conditions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qgraph
from qgraph.errors import DataRaceError, KernelSyntaxError, KernelTypeError
from tests.conftest import thorough


def numbers(n=8, dtype=np.float64):
    return np.arange(1, n + 1).astype(dtype)


def refused(rig, function, error, words, *args):
    with pytest.raises(error) as caught:
        rig.run(rig.kernel(function), *args)
    for word in words.split("|"):
        assert word in str(caught.value)


# --- values and their order --------------------------------------------------------------------------------------------


def read_before_the_loop(x, y):
    n = y[0]
    for i in range(x.shape[0]):
        x[i] += n
        y[i] += 5
    for i in range(x.shape[0]):
        x[i] += n * 100
    return n, y[0]


def test_a_value_read_before_a_loop_is_that_value_afterwards(check):
    check(read_before_the_loop, lambda: (np.zeros(8, np.int64), np.arange(3, 11)))


def aliases_of_names(x, y):
    a = x[0]
    b = a
    a = a + 10
    for i in range(y.shape[0]):
        y[i] = a * 1000 + b
    c = b
    b += 1
    return a, b, c


def test_another_name_for_a_scalar_keeps_the_value_of_then(check):
    check(aliases_of_names, lambda: (numbers(dtype=np.int64), np.zeros(5, np.int64)))


def fibonacci(x, steps):
    a, b = 0, 1
    k = 0
    while k < steps:
        a, b = b, a + b
        k += 1
    for i in range(x.shape[0]):
        x[i] = a + i
    return a, b


def fibonacci_of_loops(x, steps):
    a, b = x[0], x[1]
    k = 0
    while k < steps:
        for i in range(x.shape[0]):
            x[i] += a
        a, b = b, a + b
        k += 1
    return a, b, k


def rotation(x, steps):
    a, b, c = x[0], x[1], x[2]
    for t in qgraph.serial(range(steps)):
        a, b, c = c, a, b
        for i in range(x.shape[0]):
            x[i] = x[i] * 2 + a + t
    x[0], a = a, x[0]
    return a, b, c


@pytest.mark.parametrize("kernel", [fibonacci, fibonacci_of_loops, rotation])
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_tuple_assignments_compute_every_value_first(check, kernel, steps):
    check(kernel, lambda: (numbers(dtype=np.int64), steps))


def swaps_with_elements(x):
    s = 3
    s, x[0] = x[0], s
    x[1], x[2] = x[2], x[1]
    x[3], s = s + x[3], x[3]
    (p, q), r = (s, x[4]), x[5]
    p, q = q, p
    return s, p, q, r


def test_swaps_between_scalars_and_elements(check):
    check(swaps_with_elements, lambda: (numbers(dtype=np.int64),))


def chained(x):
    a = b = x[0] + 1
    c = d = 2.5
    a += 1
    c *= 2
    for i in range(x.shape[0]):
        x[i] = a * 100 + b * 10 + c + d
    return a, b, c, d


def test_chained_assignment_gives_each_name_a_value_of_its_own(check):
    check(chained, lambda: (numbers(),))


def every_augmented_assignment(x, n):
    a = x[0]
    a += 7
    a -= n
    a *= 3
    a //= 2
    a %= 5
    b = x[1]
    b <<= 4
    b >>= 1
    b |= 3
    b ^= 9
    b &= 0xFF
    c = x[2] / 2
    c /= 4
    c **= 2
    a: int = a + 1
    return a, b, c


@pytest.mark.parametrize("n", [0, 9, -4])
def test_augmented_assignments(check, n):
    check(every_augmented_assignment, lambda: (numbers(dtype=np.int64), n))


# --- types -------------------------------------------------------------------------------------------------------------


def int_then_float(x, again):
    a = 1
    b = a
    a = 2.5
    s = 0
    t = True
    if again > 0:
        s = 0.5
        t = 3
    for i in range(x.shape[0]):
        x[i] = a + b + s + t
    return a, b


@pytest.mark.parametrize("again", [0, 1])
def test_the_type_is_joined_over_all_assignments(check, again):
    check(int_then_float, lambda: (numbers(), again))


def joined_in_a_loop(x, n):
    s = 0
    while s < n:
        for i in range(x.shape[0]):
            x[i] += s
        s = s + 0.5
    return s


def test_a_float_from_a_later_iteration(check):
    check(joined_in_a_loop, lambda: (numbers(), 3))


def bool_then_int(x, n):
    flag = n > 2
    count = flag
    for i in range(x.shape[0]):
        x[i] = flag
    count = count + 1
    return count


@pytest.mark.parametrize("n", [1, 3])
def test_a_bool_counts_as_an_integer(check, n):
    check(bool_then_int, lambda: (np.full(4, 77), n))


def elements(x):
    a = x[0]
    b = x[1] * 2
    c = a + b
    d = -a
    for i in range(2, x.shape[0]):
        x[i] = c
    return a, b, c, d


@pytest.mark.parametrize(
    "dtype", ["int64", "uint8", "float32", "complex128", *thorough("int32", "int16", "uint32", "float64", "complex64")]
)
def test_elements_keep_their_type(check, dtype):
    check(elements, lambda: (numbers(dtype=dtype),))


def wraps(x):
    a = x[0]
    a += x[0]
    b = x[1] * x[1]
    return a, b


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8"])
def test_elements_wrap_around_as_in_numpy(check, dtype):
    check(wraps, lambda: (np.array([100, 2**30 % 127, 3], dtype),))


def beside_narrow_ones(x, mask, wide):
    s = np.sum(mask)
    x[:] = (x + s) // 3
    for i in range(x.shape[0]):
        x[i] = (max(x[i], s) - (2 * s + x[i])) // 5 + (-s >> 2) // (x[i] | s) + (np.int8(s) < x[i])
    t = np.int8(s)
    x[0] += t
    return (s + x[1]) * 1000, t, divmod(s, wide[0])[1] + wide[1], np.maximum(s, x[2])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_integers_of_64_bits_do_not_wrap_beside_narrow_elements(check, dtype):
    check(beside_narrow_ones, lambda: (np.arange(5, dtype=dtype), np.ones(200, bool), np.array([300, 7])))


def into_narrow_ones(x, y):
    x[:] = y + 1
    x[:2] = np.array((y[0], y[1]))
    s = np.sum(y)
    s *= 1000003
    s *= 1000000007
    x[2:4] = y[3:] * s


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_whole_arrays_of_narrow_integers_wrap_what_they_are_assigned(check, dtype):
    check(into_narrow_ones, lambda: (np.zeros(5, dtype), np.array([200, -300, 2**35 + 5, 7, 9])))


def truths(x, flags):
    a = flags[0]
    b = not flags[1]
    c = a and b
    d = x[0] > 0 or a
    e = x[0] < 1 < x[1]
    for i in range(x.shape[0]):
        x[i] = 1 if c else 2
    return a, b, c, d, e


def test_booleans_stay_booleans(check):
    check(truths, lambda: (numbers(), np.array([True, False])))


def narrow(x, tol, n):
    delta = tol + 1.0
    scale = 0.1
    scale = scale * n
    m = x[0] * 0.1
    k = 0
    while delta > tol:
        m = m + 0.3 * scale
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5 + m + scale
        delta = delta / 2
        k += 1
    half = n / 2
    root = math.sqrt(m) + math.exp(-k)
    return delta, m, k, half, root


def test_a_float32_kernel_with_scalars(check):
    check(narrow, lambda: (numbers(dtype=np.float32), 0.01, 3))


@pytest.mark.needs("compiler")
def test_a_float32_kernel_with_scalars_has_no_float64():
    kernel = qgraph.kernel(backend="cuda")(narrow)
    for name, ptx in kernel.ptx(numbers(dtype=np.float32), 0.01, 3).items():
        assert ".f64" not in ptx, name


def number_then_text(x):
    a = x[0]
    a = "one"
    for i in range(x.shape[0]):
        x[i] = 1 if a == 1 else 0


@pytest.mark.needs("compiler")
def test_no_common_type_is_refused(rig):
    refused(rig, number_then_text, KernelTypeError, 'a = "one"|a kernel scalar holds a number', numbers())


# --- the host ----------------------------------------------------------------------------------------------------------


def host_numbers(x, n, scale):
    half = n // 2
    m = max(half, 3) + x.shape[0]
    width = scale * 2
    for i in range(min(m, x.shape[0])):
        x[i] = half + width
    return half, m, width


def test_scalars_of_shapes_and_arguments_cost_no_node(check):
    args = lambda: (numbers(), 9, 0.5)  # noqa: E731
    kernel = check(host_numbers, args)

    def loop_only(x, n, scale):
        half = n // 2
        m = max(half, 3) + x.shape[0]
        for i in range(min(m, x.shape[0])):
            x[i] = half + scale * 2

    assert (
        len(qgraph.kernel(backend=kernel.backend if hasattr(kernel, "backend") else None)(loop_only).plan(*args()).tasks) == 1
    )


def parameters_assigned(x, n, tol, k):
    n = n + 1
    for i in range(min(n, x.shape[0])):
        x[i] = tol
    while n > k:
        n -= 2
        for i in range(x.shape[0]):
            x[i] += n
    if n < 0:
        tol = tol * 2
    k *= 2
    return n, tol, k


@pytest.mark.parametrize("n", [0, 5, 6])
def test_parameters_can_be_assigned(check, n):
    check(parameters_assigned, lambda: (numbers(), n, 0.25, 0))


def numpy_scalar_arguments(x, a, b):
    c = a + b
    a = a * a
    for i in range(x.shape[0]):
        x[i] += c
    return a, c


def test_numpy_scalars_keep_their_type(check):
    check(numpy_scalar_arguments, lambda: (numbers(), np.float32(0.1), np.int8(3)))


# --- as bounds, steps, indices -----------------------------------------------------------------------------------------


def as_bounds(x, y, table):
    lo = table[0]
    hi = table[1]
    step = table[2]
    for i in range(lo, hi, step):
        x[i] += 1
    for i in range(hi, lo, -step):
        x[i] += 10
    at = table[3]
    x[at] = 500
    x[at + 1] += at
    y[at, lo] = x[at] + y[lo, at]
    lo += 1
    for i, j in qgraph.ndrange((lo, hi), step):
        y[i, j] += 1
    for i in range(lo, 0):
        x[i] = -1
    return lo, hi


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_scalars_as_bounds_steps_and_indices(check, dtype):
    check(as_bounds, lambda: (np.zeros(20, np.int64), np.zeros((20, 6), np.int64), np.array([2, 15, 4, 5], dtype)))


def range_named_before(x, y, table):
    n = table[0]
    grid = qgraph.ndrange(n)
    n = n + 3
    for i in grid:
        x[i] += 1
    for i in range(n):
        y[i] += 1
    n = 1
    for i in grid:
        x[i] += 10
    return n


def test_a_named_ndrange_keeps_the_scalar_of_its_line(check):
    check(range_named_before, lambda: (np.zeros(9, np.int64), np.zeros(9, np.int64), np.array([4])))


def range_named_before_a_parameter_changes(x, n):
    grid = qgraph.ndrange(n, (1, n))
    n = n - 2
    for i, j in grid:
        x[i, j] += n
    while n < 4:
        for i, j in grid:
            x[i, j] += 10
        n += 1


def test_a_named_ndrange_keeps_the_argument_of_its_line(check):
    check(range_named_before_a_parameter_changes, lambda: (np.zeros((5, 5), np.int64), 5))


def empty(x, y):
    s = 1.5
    for i in range(x.shape[0]):
        s = max(s, x[i])
    n = x.shape[0]
    t = 0
    while t < n:
        for i in range(n):
            x[i] = t
        t += 1
    if x.shape[0] > 0:
        s = x[0]
    for i in range(y.shape[0]):
        y[i] = s
    return s, t


@pytest.mark.parametrize("n", [0, 3])
def test_empty_arrays(check, n):
    check(empty, lambda: (np.arange(n, dtype=float), np.full(2, 77.0)))


def builtin_functions(x, k):
    a = min(x[0], 2.5)
    b = max(x[0], x[1], -1.0)
    c = abs(x[2])
    d = int(x[3])
    e = float(k[0])
    f = round(x[3])
    g = abs(k[1])
    h = min(k[0], k[1])
    m = bool(x[0])
    r = divmod_like(k[1], 3)
    return a, b, c, d, e, f, g, h, m, r


@qgraph.func
def divmod_like(a, b):
    return a // b * 100 + a % b


def test_builtins_of_scalars(check):
    check(builtin_functions, lambda: (np.array([1.5, -2.0, -0.25, -7.75]), np.array([4, -7])))


def python_division(x, k):
    a = k[0]
    b = k[1]
    n = -7
    p = 7
    for i in range(x.shape[0]):
        x[i] = n // 2 * 10 + n % 3
    return a // b, a % b, -a // b, a / b, n // 2, n % 3, p // -2, p % -3


@pytest.mark.parametrize(("a", "b"), [(-7, 2), (7, -3), (-8, -3), (6, 3)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float64"])
def test_floor_division_and_remainder(check, a, b, dtype):
    check(python_division, lambda: (np.zeros(3, np.int64), np.array([a, b], dtype)))


def printed(x, s):
    a = x[0]
    print("a is", a, s)
    for i in range(x.shape[0]):
        x[i] += a
    if a > 0:
        print("positive")
    return a


def test_print_at_kernel_level(check):
    check(printed, lambda: (numbers(), 3))


# --- names without a value ---------------------------------------------------------------------------------------------


def one_branch_only(x):
    if x[0] > 0:
        a = 1
    for i in range(x.shape[0]):
        x[i] = a


def one_branch_with_loops(x):
    if x[0] > 0:
        a = 1
        for i in range(x.shape[0]):
            x[i] += 1
    else:
        b = 2
        for i in range(x.shape[0]):
            x[i] += b
    x[0] = a


def one_case_only(x):
    match int(x[0]):
        case 0:
            a = 1
        case 1 | 2:
            a = 2
    x[0] = a


def in_a_while(x):
    while x[0] > 0:
        a = x[0]
        for i in range(x.shape[0]):
            x[i] -= 1
    x[0] = a


def in_a_serial_loop(x):
    for t in qgraph.serial(range(x.shape[0])):
        a = t
    x[0] = a


def before_itself(x):
    for i in range(x.shape[0]):
        x[i] = a  # noqa: F821
    a = 3.0  # noqa: F841


def augmented_first(x):
    a += x[0]  # noqa: F821
    x[0] = a


@pytest.mark.parametrize(
    "kernel",
    [one_branch_only, one_branch_with_loops, one_case_only, in_a_while, in_a_serial_loop, before_itself, augmented_first],
)
def test_a_scalar_that_may_have_no_value_is_refused_by_name(rig, kernel):
    refused(rig, kernel, KernelSyntaxError, "`a`", numbers())


def returned_from_one_branch(x):
    if x[0] > 100:
        a = 1
    return a


def test_so_is_a_result(rig):
    refused(rig, returned_from_one_branch, KernelSyntaxError, "`a`", numbers())


def after_a_parallel_loop(x):
    for i in range(x.shape[0]):
        x[i] = i
    x[0] = i


def private_after_a_parallel_loop(x):
    for i in range(x.shape[0]):
        t = x[i] * 2
        x[i] = t
    x[0] = t


def scalar_that_counts_a_parallel_loop(x):
    i = 0
    for i in range(x.shape[0]):
        x[i] = 1
    return i


def read_by_the_next_iteration(x):
    i = 7
    k = 0
    while k < 3:
        x[0] += i
        for i in range(x.shape[0]):
            x[i] += 1
        k += 1


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (after_a_parallel_loop, "`i`"),
        (private_after_a_parallel_loop, "`t`"),
        (scalar_that_counts_a_parallel_loop, "`i`"),
        (read_by_the_next_iteration, "`i`"),
    ],
)
def test_a_loop_s_own_names_end_with_it(rig, kernel, name):
    refused(rig, kernel, KernelSyntaxError, name, numbers())


def last_of_serial(x, n):
    t = -1
    for t in qgraph.serial(range(n)):
        x[t] += t
    return t


@pytest.mark.parametrize("n", [0, 4])
def test_the_variable_of_a_serial_loop_assigned_before_it(check, n):
    check(last_of_serial, lambda: (numbers(), n))


def assigned_again_after_the_loop(x):
    i = 7
    k = 0
    while k < 3:
        for i in range(x.shape[0]):
            x[i] += 1
        i = k + 3
        x[0] += i
        k += 1
    return i, k


def test_a_loop_s_variable_may_be_assigned_again(check):
    check(assigned_again_after_the_loop, lambda: (numbers(),))


def product_in_one_thread(x):
    total = 0
    for i, j in qgraph.serial(qgraph.ndrange(2, (1, 3))):
        total += i * 10 + j
        for k in range(x.shape[0]):
            x[k] += i - j
    for i, j in qgraph.serial(qgraph.ndrange(2, 2)):
        total += i + j
    return total


def test_the_variables_of_a_serial_product_used_twice(check):
    check(product_in_one_thread, lambda: (numbers(),))


def last_of_serial_with_loops(x, n):
    t = -1
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += t
    x[0] = t


@pytest.mark.parametrize("n", [0, 1, 3])
def test_the_variable_of_a_device_loop_assigned_before_it(check, n):
    check(last_of_serial_with_loops, lambda: (numbers(), n))


def assigned_in_a_parallel_loop(x):
    s = 0.0
    for i in range(x.shape[0]):
        s = x[i]
        x[i] = s + 1
    x[0] = s


def test_a_scalar_assigned_in_a_parallel_loop_is_refused_by_name(rig):
    refused(rig, assigned_in_a_parallel_loop, qgraph.QGraphError, "`s`", numbers())


# --- closures and globals ----------------------------------------------------------------------------------------------

LIMIT = 3


def made(factor, offset):
    def kernel(x):
        s = factor * x[0] + offset
        k = LIMIT
        while k > 0:
            for i in range(x.shape[0]):
                x[i] += s
            k -= 1
        return s

    return kernel


def test_closures(rig):
    for factor in (2, 3.5):
        rig.check(made(factor, 1), lambda: (numbers(),))


def test_a_changed_global_is_never_stale(rig, monkeypatch):
    kernel = rig.check(made(1, 0), lambda: (numbers(),))
    monkeypatch.setattr(f"{__name__}.LIMIT", 5)
    rig.compare(kernel, lambda: (numbers(),))


def conditional_expressions(x, n):
    a = 1 if x[0] > 0 else 2
    b = x[1] if n else 0
    c = a if a > b else (b if b > 3 else -1.5)
    d = n // n if n != 0 else 7
    for i in range(x.shape[0]):
        x[i] = a + b + c + d
    return a, d


@pytest.mark.parametrize("n", [0, 3])
def test_conditional_expressions(check, n):
    check(conditional_expressions, lambda: (numbers(), n))


def shapes(x, y):
    n, m = x.shape
    k = y.shape[0] * 2
    (p,) = y.shape
    n = n - 1
    for i, j in qgraph.ndrange(n, m):
        x[i, j] = k + p
    return n, m, k, p, x.ndim, x.size, len(y)


def test_shapes(check):
    check(shapes, lambda: (np.zeros((3, 4)), np.zeros(5)))


def collatz(n):
    steps = 0
    while n != 1:
        if n % 2:
            n = 3 * n + 1
        else:
            n //= 2
        steps += 1
    return steps


def test_a_parameter_that_one_statement_uses_and_changes(check):
    check(collatz, lambda: (27,))


def names_of_iterations(a, y, n):
    s = 0.0
    for i in range(y.shape[0]):
        s += y[i]
    total = s
    for i in range(y.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j]
        y[i] = s
    s = 1.0
    for t in qgraph.serial(range(n)):
        if y[0] > t:
            for t in range(3):
                total = y[t] * 2
                y[t] = total + a[t, 0]
            s += y[1]
    total = s
    return total, s


@pytest.mark.parametrize("n", [0, 3])
def test_a_scalar_that_nothing_reads_any_more_is_a_name_of_the_iteration(check, n):
    check(names_of_iterations, lambda: (numbers(12).reshape(3, 4), np.arange(3.0), n))


def read_behind(x, n):
    t = x[0]
    for i in range(x.shape[0]):
        t = x[i]
        x[i] = t + 1
    return t


def read_in_the_next_turn(x, n):
    t = x[0]
    for _ in qgraph.serial(range(n)):
        x[0] += t
        for i in range(x.shape[0]):
            t = x[i]
            x[i] = t + 1


def not_on_every_path(x, n):
    t = x[0]
    for i in range(x.shape[0]):
        if x[i] > 3:
            t = x[i]
        x[i] = t + 1


def read_in_the_else(x, n):
    t = x[0]
    for i in range(x.shape[0]):
        t = x[i]
        x[i] = t + 1
    else:
        x[0] = t


@pytest.mark.parametrize("kernel", [read_behind, read_in_the_next_turn, not_on_every_path, read_in_the_else])
def test_a_scalar_that_is_read_again_is_none(rig, kernel):
    refused(rig, kernel, DataRaceError, "`t` in a way that depends on their order", numbers(), 2)
