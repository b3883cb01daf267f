"""`t = x + y`: array expressions that get a name, are returned, or are passed to a func."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import qgraph
from tests.conftest import thorough


@qgraph.func
def scaled(x: Any, y: Any) -> Any:
    return x * y + 1


@qgraph.func
def sevens(x: Any) -> Any:
    for i in range(x.shape[0]):
        x[i] = 7
    return x[0]


def expressions(x: Any, y: Any) -> Any:
    t = x + y
    u = np.where(x > 2, x, 0) * 2
    x[0] = 50
    return t, u, x > y, -x, t[:, None] * y[None, 1:], np.maximum(x, 3), ~(x > 2)


def copies(x: Any, y: Any) -> Any:
    kept, alias = x.copy(), x
    ones, more = np.ones(3), np.ones_like(y)
    x[1] = 9
    return kept, alias[1], np.copy(y[1:]), ones, more, scaled(x + y, y)


def reduced_in_it(x: Any, y: Any) -> Any:
    t = x / np.sum(x)
    return t


@pytest.mark.parametrize("function", [expressions, copies, reduced_in_it])
@pytest.mark.parametrize(
    "dtypes", [("float32", "float32"), ("int16", "float64"), *thorough(("float64", "float64"), ("int32", "int64"))]
)
def test_shapes_and_types(check: Any, function: Any, dtypes: tuple[str, str]) -> None:
    first, second = dtypes
    check(function, lambda: (np.arange(5).astype(first) + 1, np.arange(5).astype(second) * 2))


def of_integers(x: Any, y: Any) -> Any:
    """float64 in NumPy, which 24 bits do not hold, also where another array is float32."""
    t = x * 0.5
    return t, x / 3, np.sqrt(x), y + 1


def beside_counts(x: Any, m: Any) -> Any:
    k = np.count_nonzero(m)
    j = np.count_nonzero(x[m[:3]])
    return x + k, x + j, x * np.count_nonzero(m[:9]), x + len(x[m[:3]])


def lengths(x: Any, y: Any) -> Any:
    n = len(x)
    return np.arange(len(x)), x * len(y), x[::2] * len(x[::2]), np.arange(n) / n, np.full(len(x), len(y)), np.full(2, x.max())


def test_counts_and_lengths_have_numpys_types(check: Any) -> None:
    """Those of a mask are NumPy's integers since 2.4, beside which an int8 is an int64; a length is Python's."""
    for dtype in ("int8", "float32"):
        check(beside_counts, lambda dtype=dtype: (np.array([1, 2, 3], dtype), np.ones(100, bool)))
        check(lengths, lambda dtype=dtype: (np.array([1, 2, 3], dtype), np.ones(4)))


def test_integers_beside_float32(rig: Any) -> None:
    kernel = rig.kernel(of_integers)
    given = np.array([16777217, 16777219, 7], np.int32), np.array([1.1, 2, 3], np.float32)
    for found, wanted in zip(rig.run(kernel, *given), of_integers(*given), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-15 if wanted.dtype == np.float64 else 1e-6)


def test_no_elements(check: Any) -> None:
    def kernel(x: Any, y: Any) -> Any:
        return x + y, x.copy()

    check(kernel, lambda: (np.zeros((0, 3)), np.zeros((0, 3))))


def bound_again(x: Any, y: Any) -> Any:
    first = x
    x = x + 1
    x = x[::-1] * y
    x += 1
    x, y = y + 1, x + y
    return first, x, y


def in_loops(x: Any, y: Any, steps: int) -> None:
    z = np.zeros_like(x)
    for _ in qgraph.serial(range(steps)):
        t = x[::-1] + z
        z[:] = t * 0.5
        if z[0] > 1:
            u = z + y
            x[:] = u[::-1]
    n = 0
    while n < 3:
        w = x * 2
        y[:] = w[::-1] + y
        n += 1


def test_names_that_get_another_array(check: Any) -> None:
    check(bound_again, lambda: (np.arange(5.0), np.arange(5.0) * 3))


def test_the_body_of_a_loop_makes_it_anew(check: Any) -> None:
    check(in_loops, lambda: (np.arange(5.0), np.arange(5.0) * 3, 4))


def before_a_call(x: Any, y: Any) -> Any:
    t, s = x + 1, sevens(x)
    y[:] = (x + 1) * sevens(x)
    y[1:] = (y[:-1] - x[1:]) * sevens(y)
    return t, s, x * 2, sevens(x)


def test_what_comes_before_a_call_that_changes_its_operands(check: Any) -> None:
    check(before_a_call, lambda: (np.arange(3.0), np.arange(3.0)))


def every_iteration_a_new_one(x: Any, steps: int) -> Any:
    for _ in qgraph.serial(range(steps)):
        x = x[::-1] + 1
    return x


def in_a_branch(x: Any) -> Any:
    if x[0] > 0:
        x = x + 1
    return x


def older_one(x: Any, steps: int) -> Any:
    y = x + 0
    before = y
    for _ in qgraph.serial(range(steps)):
        before = y
        y = before + 1
    return y, before


@pytest.mark.parametrize(("function", "args"), [(every_iteration_a_new_one, (3,)), (in_a_branch, ()), (older_one, (3,))])
def test_what_only_the_device_can_follow_is_refused(function: Any, args: tuple[Any, ...]) -> None:
    with pytest.raises(qgraph.KernelSyntaxError, match="is one array or another|are names of the same array"):
        qgraph.kernel(function).plan(np.ones(3), *args)


def another_one_each_time(x: Any, y: Any, steps: int, n: int) -> Any:
    kept = x * 2
    for _ in qgraph.serial(range(steps)):
        y += kept
        kept = kept[::-1] + y
        if y[1] > 6:
            kept = -kept
    if y[0] > 3:
        t = x + 1
    else:
        t = y[::-1] * 2
    if n > 2:
        u = np.ones(n)
    else:
        u = t * 3
    return kept, t, u


@pytest.mark.parametrize(("steps", "n"), [(0, 2), (1, 3), (4, 2)])
def test_a_new_array_in_the_place_of_another(check: Any, steps: int, n: int) -> None:
    check(another_one_each_time, lambda: (np.arange(4.0), np.arange(4.0) * 3, steps, n))


def parts_of_what_has_no_name(x: Any, k: Any) -> Any:
    root, turned = np.sqrt(x)[k], (x[:, None] * k).T
    if np.ndim(x) == 1:
        root += 1
    return root, turned, np.linspace(0.0, 1.0, 5)[k] + (x + 1)[::-1][k]


def test_parts_of_expressions(check: Any) -> None:
    check(parts_of_what_has_no_name, lambda: (np.arange(4.0), np.array([3, 0, -1])))


def of_parts_of_shapes(x: Any) -> Any:
    t = np.zeros(x.shape[1:], dtype=np.int64)
    t[:] = 3
    return t, np.full(x.shape[:-1], 2.0), np.reshape(x + 1, x.shape[::-1]), np.ones_like(t)


def test_shapes_that_are_parts_of_shapes(check: Any) -> None:
    check(of_parts_of_shapes, lambda: (np.arange(24.0).reshape(2, 3, 4),))


def kept_on_some_path(x: Any, y: Any, way: int) -> Any:
    t, u = x + 1, x * 2
    if y[0] > 3:
        t = y * 5
    match y[1]:
        case 1:
            u = y * 7
        case 2:
            t = t + u
    if y[2] > 0:
        y[:] = u
    elif way:
        u = t * 3
    return t, u


@pytest.mark.parametrize("y", [(4, 1, 0), (0, 2, 0), (4, 3, 1), (0, 1, 1)])
def test_a_path_that_keeps_the_array_of_before(check: Any, y: tuple[int, ...]) -> None:
    check(kept_on_some_path, lambda: (np.arange(3), np.array(y), 1))


def small_one_bound_again(x: Any, n: int) -> Any:
    t = np.zeros(2, np.bool_)
    for k in qgraph.serial(range(n)):
        t = ~t | (x[:2] > k)
    return t


def test_one_of_a_constant_shape_is_bound_again(check: Any) -> None:
    check(small_one_bound_again, lambda: (np.arange(-1.0, 3), 3))


def with_functions_of_math(x: Any, y: Any) -> Any:
    root = math.sqrt(x.shape[0])
    total = 0.0
    for i in range(y.shape[0]):
        total += y[i]
    near = x * math.floor(2.5) + math.hypot(root, x.shape[0])
    return x / math.sqrt(x.shape[0]), y * root, near, np.arange(3) * math.gcd(4, 6), y - math.exp(total)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pythons_functions_give_pythons_numbers(check: Any, dtype: str) -> None:
    check(with_functions_of_math, lambda: (np.arange(4, dtype=dtype), np.linspace(-1, 0, 3, dtype=dtype)))


def of_numbers_that_wrap(x: Any, y: Any) -> Any:
    y[:] = np.where(x > 1, -1, x)
    return np.where(x > 1, x, 300), y


def test_where_wraps_integers(check: Any) -> None:
    check(of_numbers_that_wrap, lambda: (np.arange(4, dtype=np.uint8), np.zeros(4, np.int64)))


def of_the_last_turn(x: Any, n: int) -> Any:
    t, u, done = np.zeros(x.shape[0]), np.ones(x.shape[0]), 0
    for k in qgraph.serial(range(n)):
        t = x * k
        u = t + 1
        x += 1
    p = t * u
    while True:
        t = x * done
        done += 1
        if t[1] > 4:
            break
        x += t
    return p, t, u, done


def in_other_shapes(x: Any, n: int) -> Any:
    for _ in qgraph.serial(range(n)):
        t = x[1:] - x[:-1]
        x[1:] += t
        for _ in qgraph.serial(range(2)):
            t = x * 2
            x += t
    return x


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("function", [of_the_last_turn, in_other_shapes])
def test_the_array_of_the_last_turn(check: Any, function: Any, n: int) -> None:
    check(function, lambda: (np.arange(4.0), n))


def kept_in_some_turns(x: Any, when: Any) -> Any:
    t, total = x + 1, 0
    for k in qgraph.serial(range(when.shape[0])):
        total += np.sum(t)
        if when[k] > 0:
            t = x * when[k]
    return total


def test_a_turn_that_keeps_the_array_of_the_turn_before(check: Any) -> None:
    check(kept_in_some_turns, lambda: (np.arange(3), np.array((0, 2, 0, 5, 0))))


def bound_on_one_path_and_then_anew(x: Any, y: Any) -> Any:
    total = 0
    t, row, whole = x + 1, x[1:], x
    if y[0] > 3:
        t, row, whole = y[:2] * 3, y[2:], y
        total += np.sum(t) + np.sum(row) + whole[0]
    t, row, whole = x * 3, x[:2], y
    return total + np.sum(t) + np.sum(row) + whole[0]


@pytest.mark.parametrize("first", [3, 4])
def test_what_nobody_reads_before_it_is_bound_anew_may_be_anything(check: Any, first: int) -> None:
    check(bound_on_one_path_and_then_anew, lambda: (np.arange(3), np.array((first, 5, 6))))


def rows_of_what_is_bound_again(x: Any, y: Any) -> Any:
    t = x + 0
    for v in qgraph.serial(t):
        t = t * 2 + v
        y += t
    return t


def test_a_loop_goes_over_the_array_of_its_start() -> None:
    with pytest.raises(qgraph.KernelSyntaxError, match="`t` is one array or another"):
        qgraph.kernel(rows_of_what_is_bound_again).plan(np.ones(3), np.ones(3))


@qgraph.func
def stepped(x: Any, y: Any) -> Any:
    for _ in qgraph.serial(range(2)):
        x = x + 1
        y += x
    return y


def seen_by_others(x: Any, way: int) -> Any:
    t = x + 1
    part = t[1:] if way == 0 else t
    for _ in qgraph.serial(range(2)):
        t = t + 1
    return part if way else x


def of_a_caller(x: Any, way: int) -> Any:
    t = x + 1
    return stepped(t, x), t


@pytest.mark.parametrize("function", [seen_by_others, of_a_caller])
def test_an_array_that_others_know_keeps_its_elements(function: Any) -> None:
    with pytest.raises(
        qgraph.KernelSyntaxError, match=r"are not the same arrays in another order|chooses|one array or another"
    ):
        qgraph.kernel(function).plan(np.ones(3), 1)


def inner_part(x: Any) -> Any:
    return x[1:, 1:, 1:].copy()


@pytest.mark.parametrize("shape", [(3, 1, 3), (1, 3, 3), (3, 3, 1), (1, 1, 1)])
def test_without_elements_along_some_axis(check: Any, shape: Any) -> None:
    check(inner_part, lambda: (np.zeros(shape),))


# --- kernel scalars that several statements assign ---------------------------------------------------------------------


@qgraph.func
def squares(x: Any) -> Any:
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * x[i]
    return s


def conjugate_gradients(a: Any, b: Any, x: Any, tolerance: float) -> Any:
    r = b - a @ x
    p = r.copy()
    rs = np.dot(r, r)
    while rs > tolerance:
        ap = a @ p
        alpha = rs / np.dot(p, ap)
        x += alpha * p
        r -= alpha * ap
        after = np.dot(r, r)
        p = r + (after / rs) * p
        rs = after
    return p


def by_a_func(r: Any) -> Any:
    p = r * 1
    rs = squares(r)
    while rs > 1e-3:
        p = r + rs**0.5 * p
        r *= 0.5
        rs = squares(r)
    return p


def several_kinds(x: Any, step: float) -> Any:
    n, m = x.shape
    scale, other, most = 1.0, 2, 0.0
    for k in qgraph.serial(range(4)):
        t = x * scale + other / m
        scale, other = other, scale
        for i, j in qgraph.ndrange(n, m):
            most = max(most, abs(t[i, j]))
        t = t / most
        match k:
            case 0:
                scale = x[0, 1]
            case 1:
                scale = np.max(t) if most > 1 else 0.5
            case _:
                step *= min(0.9, scale)
        x[:] = t + step
    return x * step, x - most


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernel_scalars_that_several_statements_assign(check: Any, dtype: Any) -> None:
    a = (np.eye(4) * 4 + np.arange(16).reshape(4, 4) % 3).astype(dtype)
    check(conjugate_gradients, lambda: (a + a.T, np.arange(1, 5).astype(dtype), np.zeros(4, dtype), 1e-4))
    check(by_a_func, lambda: (np.arange(1, 5).astype(dtype),))
    check(several_kinds, lambda: (np.arange(1, 7).reshape(2, 3).astype(dtype), 0.5))


def summed_up_integers(x: Any) -> Any:
    total, number = 0.0, 0
    for i in range(x.shape[0]):
        total += x[i]
    for _ in qgraph.serial(range(2)):
        number = number + x[1]
    return x + total, x * number


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "float32"])
def test_sums_whose_type_makes_no_difference(check: Any, dtype: Any) -> None:
    check(summed_up_integers, lambda: (np.arange(1, 4).astype(dtype),))


def in_another_turn(x: Any, z: Any) -> Any:
    s = 0.0
    for _ in qgraph.serial(range(3)):
        y = x * s
        x[:] = y + 1
        t = z * 2
        s = np.sum(t)
    return x


def unrolled_over_arrays(x: Any, z: Any) -> Any:
    s = 0.0
    for _ in qgraph.serial(range(2)):
        for a in qgraph.static((x, z)):
            y = x * s
            x[:] = y + 1
            t = a * 2
            s = np.sum(t)
    return x


def of_a_numpy_function(x: Any, z: Any) -> Any:
    s = 1.0
    for _ in qgraph.serial(range(2)):
        y = x * s
        x[:] = y + 1
        # A float64 of Python's 2.0.
        s = np.sqrt(2.0)
    return x


def of_an_argument(x: Any, z: Any, n: Any = np.float64(2)) -> Any:
    n = 1 if z[0] > 0 else n
    n += 1
    return x * n


def complex_at_times(x: Any, z: Any) -> Any:
    s = 1.0
    for _ in qgraph.serial(range(2)):
        y = x * s
        z[0] += y[0]
        s = s * 1j
    return x


@pytest.mark.parametrize(
    "function", [in_another_turn, unrolled_over_arrays, of_a_numpy_function, of_an_argument, complex_at_times]
)
def test_a_type_that_changes_with_the_number_is_refused(function: Any) -> None:
    # NumPy's array is of float32 at one time and of another type at another one.
    with pytest.raises(qgraph.KernelSyntaxError, match="is not known before the launch"):
        qgraph.kernel(function).plan(np.ones(3, np.float32), np.ones(3))


def copied_to_an_array_of_its_own(x, y, n):
    best = x.copy()
    for k in qgraph.serial(range(n)):
        if np.sum(y) > np.sum(best):
            best[:] = y
        y[:] *= 2 - k
    chosen = x.copy()
    if y[0] > 0.5:
        chosen[:] = y
    return best, chosen


@pytest.mark.parametrize("n", [0, 1, 3])
def test_elements_are_copied_where_an_array_is_chosen(check, n):
    """What messages say to write in the place of `best = y`."""
    check(copied_to_an_array_of_its_own, lambda: (np.arange(4.0), np.arange(4.0) / 2 + 0.6, n))


@qgraph.func
def by_half(x, s):
    s = s * 0.5
    return x * s


@qgraph.func
def by_half_above_one(x, s):
    if s > 1:
        s *= 0.5
    return x * s


def with_parameters_assigned_again(x, s):
    t = np.max(x)
    y = by_half(x, s) + by_half(x, np.sum(x)) * by_half(x, t)
    return y, by_half_above_one(x, s), by_half_above_one(x, x[1]), by_half_above_one(x + y, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("number", [3.0, 3, np.float32(3)])
def test_arrays_of_a_parameter_that_is_assigned_again(check, dtype, number):
    check(with_parameters_assigned_again, lambda: (np.arange(1, 4, dtype=dtype), number))


@qgraph.func
def by_number(x, s):
    return x * s


def with_scalars_assigned_again(x, steps):
    a = np.max(x)
    a = a * 2
    y, z = by_half(x, a) + by_number(x, a), x.copy()
    for _ in qgraph.serial(range(steps)):
        z[:] = by_half_above_one(y, a)
        a = np.sum(z)
        a = a / 100
    return y, z, by_half(x, a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_parameters_whose_arguments_are_assigned_again(check, dtype):
    check(with_scalars_assigned_again, lambda: (np.arange(1, 4, dtype=dtype), 3))


def with_one_type_and_another(x, n):
    a = n
    if n > 1:
        a = np.float64(0.5)
    return by_number(x, a)


def test_an_array_of_one_type_or_another_is_refused_in_a_func_too(rig):
    with pytest.raises(qgraph.KernelSyntaxError, match="type of the elements of `x . s` is not known"):
        rig.run(rig.kernel(with_one_type_and_another), np.arange(3, dtype=np.float32), 3)
