"""Programs that a reader of plain Python expects to work, and that a graph compiler easily gets wrong without a word."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import qgraph
from qgraph.errors import KernelSyntaxError
from tests.conftest import thorough


def do_while_with_a_keyword(x, c):
    while qgraph.graph_do_while(flag=c):
        for i in range(x.shape[0]):
            x[i] += 1
        c[()] -= 1


def test_the_flag_of_a_do_while_by_keyword(check):
    check(do_while_with_a_keyword, lambda: (np.zeros(5), np.array(3)))


def do_while_with_an_unknown_keyword(x, c):
    while qgraph.graph_do_while(condition=c):
        c[()] -= 1


def do_while_on_an_element(x, c):
    while qgraph.graph_do_while(c[0]):
        for i in range(x.shape[0]):
            x[i] += 1
        c[0] -= 1


@pytest.mark.parametrize("kernel", [do_while_with_an_unknown_keyword, do_while_on_an_element])
def test_a_do_while_on_anything_else_is_refused(rig, kernel):
    with pytest.raises(KernelSyntaxError, match="graph_do_while|flag"):
        rig.run(rig.kernel(kernel), np.zeros(5), np.array([3]))


def do_while_in_an_if(x, c, n):
    if n[0] > 0:
        while qgraph.graph_do_while(c):
            for i in range(x.shape[0]):
                x[i] += 1
            c[()] -= 1


@pytest.mark.parametrize("n", [0, 1])
def test_a_do_while_in_an_if(rig, n):
    rig.check(do_while_in_an_if, lambda: (np.zeros(5), np.array(3), np.array([n])), noop=n == 0)


def value_read_before_a_loop(x, y, k):
    n = y[0]
    while qgraph.graph_do_while(k):
        for i in range(x.shape[0]):
            x[i] += n
        y[0] += 1
        k[()] -= 1


def test_a_value_read_before_a_loop_stays(rig):
    x = np.zeros(4)
    args = x, np.array([1]), np.array(3)
    rig.run(rig.kernel(value_read_before_a_loop), *args)
    assert (x == 3).all()
    rig.check(value_read_before_a_loop, lambda: (np.zeros(4), np.array([1]), np.array(3)))


def local_sum(x, k, out):
    s = 0
    while qgraph.graph_do_while(k):
        for i in range(x.shape[0]):
            s += 1
        k[()] -= 1
    out[0] = s


def test_a_local_sum_over_all_iterations(rig):
    out = np.zeros(1, np.int64)
    rig.run(rig.kernel(local_sum), np.zeros(4), np.array(3), out)
    assert out[0] == 12


def countdown_of_one(x, k):
    while qgraph.graph_do_while(k):
        for i in range(x.shape[0]):
            x[i] += 1
        k[0] -= 1


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8", "int32", "bool"])
def test_flags_of_any_integer_type(rig, dtype):
    start = 1 if dtype == "bool" else 3

    def by_type(x, k):
        while qgraph.graph_do_while(k):
            for i in range(x.shape[0]):
                x[i] += 1
            k[0] = k[0] - 1 if x[0] < 3 else 0

    kernel = countdown_of_one if dtype != "bool" else by_type
    rig.check(kernel, lambda: (np.zeros(3), np.array([start], dtype)))


def test_a_float_flag_is_refused(rig):
    with pytest.raises(qgraph.QGraphError, match="float32"):
        rig.run(rig.kernel(countdown_of_one), np.zeros(3), np.array([2], np.float32))


def test_a_flag_of_several_elements_is_refused(rig):
    with pytest.raises(qgraph.QGraphError, match="one element"):
        rig.run(rig.kernel(countdown_of_one), np.zeros(3), np.array([2, 3]))


def floors(out):
    a = -7
    out[0] = a // 2
    out[1] = a % 3
    for i in range(2, 4):
        out[i] = a // 2 if i == 2 else a % 3


def floors_of_arguments(out, a):
    out[0] = a // 2
    b = out[0] * 2 - 1
    out[1] = b % 3
    for i in range(2, 4):
        out[i] = (a - i) // 2 if i == 2 else b % 3


def test_floor_division_and_remainder_of_negative_numbers(check):
    check(floors, lambda: (np.full(4, 77),))
    check(floors_of_arguments, lambda: (np.full(4, 77), -7))


def type_changes(out):
    a = 1
    a = 2.5
    out[0] = a
    b = 1
    for i in range(1, 3):
        out[i] = a + b
    b = 0.25
    out[3] = b


def test_an_integer_name_becomes_a_float(rig):
    out = np.zeros(4)
    rig.run(rig.kernel(type_changes), out)
    assert out.tolist() == [2.5, 3.5, 3.5, 0.25]


@qgraph.func
def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)


def recursive(out):
    for i in range(out.shape[0]):
        out[i] = factorial(i)


def recursive_at_kernel_level(out):
    out[0] = factorial(3)


@pytest.mark.parametrize("kernel", [recursive, recursive_at_kernel_level])
def test_recursion_is_an_error(rig, kernel):
    with pytest.raises(KernelSyntaxError, match="calls itself"):
        rig.run(rig.kernel(kernel), np.zeros(3))


def stale_bound(x, n, k):
    while qgraph.graph_do_while(k):
        for i in range(n[0]):
            x[i] += 1
        n[0] -= 2
        k[()] -= 1


def bound_changed_by_a_loop(x, n):
    for t in qgraph.serial(range(3)):
        for i in range(n[0]):
            x[i] += 1
        for i in range(1):
            n[i] = n[i] // 2


def test_a_bound_that_the_loop_changes(check):
    check(stale_bound, lambda: (np.zeros(8), np.array([8]), np.array(3)))
    check(bound_changed_by_a_loop, lambda: (np.zeros(8), np.array([8])))


def loop_in_an_if(x, n):
    if n[0] > 0:
        for i in range(x.shape[0]):
            x[i] = i


def test_a_loop_in_an_if_is_parallel(rig):
    kernel = rig.check(loop_in_an_if, lambda: (np.full(9, 77), np.array([1])))
    loops = [task for task in kernel.plan(np.full(9, 77), np.array([1])).tasks if task.role == "loop"]
    assert len(loops) == 1
    assert loops[0].verdict.kind == "independent"


# An element of uint64 has no sign; a Python integer has one, and so has what `int` makes of an element.


def the_most_with_and_without_a_sign(x, n):
    for i in range(x.shape[0]):
        x[i] = max(n - 9, x[i] % 2048, ~n) + 1


def the_most_of_elements_last(x, n):
    for i in range(x.shape[0]):
        x[i] = max(~n, n - 5, x[i] % 7)


def the_least_without_a_negative(x, n):
    for i in range(x.shape[0]):
        x[i] = min(n + 4, x[i], n + 3)


def the_least_of_python_integers(x, n):
    for i in range(x.shape[0]):
        x[i] = min(~n, int(x[i] % 2048)) % 2048


def the_least_of_four(x, n):
    s = int(x[0] % 2048)
    for i in range(x.shape[0]):
        x[i] = min(s, ~n - 5, int(x[i] % 7), ~n) % 2048


UNSIGNED = np.array([6, 2, 3, 2**63 + 1, 2**64 - 1], np.uint64)


@pytest.mark.parametrize("n", [0, 4])
@pytest.mark.parametrize(
    "kernel",
    [
        *(the_most_with_and_without_a_sign, the_most_of_elements_last, the_least_without_a_negative),
        *(the_least_of_python_integers, the_least_of_four),
    ],
)
def test_the_least_and_the_most_of_integers_with_and_without_a_sign(check, kernel, n):
    check(kernel, lambda: (UNSIGNED.copy(), n))


def below_zero(x, y, n):
    s = int(x[1]) - int(x[0])
    for i in range(x.shape[0]):
        k = n - int(x[i])
        y[i, 0] = k < 0
        y[i, 1] = k // 3
        y[i, 2] = k % 5
        y[i, 3] = k >> 1
        y[i, 4] = abs(k)
        y[i, 5] = s + i
        y[i, 6] = min(k, s) // 2
        y[i, 7] = math.floor(x[i]) - 10
        y[i, 8] = float(k) / 2
    return s


def far_below_zero(x, y, n):
    total = 0
    for i in range(x.shape[0]):
        total += int(x[i]) - n
    k = 0
    while total < 0:
        total += int(x[1])
        k += 1
    y[0] = k
    return total


@pytest.mark.parametrize("dtype", ["uint64", "uint32", "uint8", "int64"])
def test_python_integers_made_of_elements_have_a_sign(check, dtype):
    check(below_zero, lambda: (np.array([6, 2, 3, 200], dtype), np.full((4, 9), 77.0), 4))
    check(far_below_zero, lambda: (np.array([6, 2, 3], dtype), np.full(1, 77), 40))


def parts_decide(x, a):
    v = a[:1]
    for i in range(x.shape[0]):
        if v:
            x[i] += 1
        if v == 0:
            x[i] += 10
        if i >= 0 and a[1:2]:
            x[i] += 100
        x[i] += 1000 if a[:1] > 0 else 2000


def a_part_counts(x, a):
    n = 0
    for i in range(x.shape[0]):
        while a[i, :1] > 0:
            a[i, 0] -= 1
            x[i] += 1
    return n


@pytest.mark.parametrize(
    ("function", "shape", "condition"), [(parts_decide, (2,), "v"), (a_part_counts, (3, 1), "a[i, :1] > 0")]
)
def test_parts_of_one_element_as_conditions(rig, function, shape, condition):
    """Refused, as whole arrays of one element are: their numbers of elements may change from call to call."""
    with pytest.raises(qgraph.KernelTypeError, match=re.escape(f"the condition `{condition}` is an array")):
        rig.run(rig.kernel(function), np.zeros(3), np.ones(shape, np.int64))


@qgraph.func
def inner(flag):
    return 1 if flag else 2


def named_alike(flag):
    return inner(flag)


named_alike.__name__ = "inner"
outer = qgraph.func(named_alike)


def through_funcs_of_one_name(x, flag):
    for i in range(x.shape[0]):
        x[i] = outer(flag)


def test_arrays_as_conditions_are_found_in_funcs_of_one_name(rig):
    with pytest.raises(qgraph.KernelTypeError, match="the condition `flag` is an array"):
        rig.run(rig.kernel(through_funcs_of_one_name), np.zeros(3), np.array([0]))


def elements_as_conditions(x, y, flags):
    for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
        place = i, j
        if x[place] and not x[i][j] < 0:
            y[i, j] += 1
        value = x[i, :][j]
        if value:
            y[i, j] += 2
        if flags[1:][0] or flags[...][0]:
            y[i, j] += 4
        if x.T[j, i] > 1:
            y[i, j] += 8


def test_elements_by_way_of_parts_are_conditions(check):
    check(elements_as_conditions, lambda: (np.arange(-5, 7).reshape(3, 4), np.zeros((3, 4), np.int64), np.array([0, 1, 0])))


@qgraph.func
def of_its_element(flag):
    flag = flag[0]
    return 1 if flag else 2


def an_element_under_the_arrays_name(x, flag):
    for i in range(x.shape[0]):
        x[i] = of_its_element(flag) + i


@pytest.mark.parametrize("value", [0, 3])
def test_a_parameter_that_becomes_an_element_may_decide(check, value):
    check(an_element_under_the_arrays_name, lambda: (np.zeros(4), np.array([value])))


def a_rounded_size(x, n):
    m = int(n * 0.29)
    t = qgraph.zeros(m)
    t[m - 1] = 1
    t[0] = 1
    total = 0.0
    for i in range(m):
        total += t[i]
    return total, m, len(t)


def rounded_steps(x, length, step):
    steps = int(length / step)
    a = b = 0
    for _ in qgraph.serial(range(steps)):
        a += 1
    for _ in range(steps):
        b += 1
    return steps, a, b


def a_rounded_place(x, n):
    m = int(n * 0.29)
    x[m] = 5
    y = x[m:]
    y[0] += 1
    return x[m]


@qgraph.func
def times_and_place(x, m):
    count = 0
    for _ in range(m):
        count += 1
    x[m] += count
    return m


def rounded_and_passed(x, n):
    return times_and_place(x, int(n * 0.29)), times_and_place(x, int(n * 0.57))


def rounded_and_counted_down(x, n):
    m = int(n * 0.29)
    turns = 0
    while m > 0:
        m -= 7
        turns += 1
    x[turns] = 1
    return turns, m


def a_rounded_range(x, n):
    half = int(n * 0.29)
    for i in range(half, 2 * half):
        x[i - half] = i + half


ROUNDED = [
    (a_rounded_size, (100,)),
    (rounded_steps, (0.3, 0.1)),
    (a_rounded_place, (100,)),
    (rounded_and_passed, (100,)),
    (rounded_and_counted_down, (100,)),
    (a_rounded_range, (100,)),
]


@pytest.mark.parametrize(("function", "numbers"), ROUNDED)
def test_an_integer_made_of_floats_is_one_number(check, function, numbers):
    """In a float32 kernel the device would round it in another way than the host, which has the sizes and places."""
    check(function, lambda: (np.zeros(100, np.float32), *numbers), noop=function in (a_rounded_size, rounded_steps))


def of_a_branch_that_is_not_taken(x, n):
    count = 0
    if x[0] > 0:
        m = int(1 / n)
        for _ in range(m):
            count += 1
    x[1] = 3
    return count


def test_what_does_not_run_is_not_rounded(check):
    check(of_a_branch_that_is_not_taken, lambda: (np.zeros(3, np.float32), 0))


def the_most_without_a_sign(x, v):
    for i in range(v.shape[0]):
        x[i % 2] = max(x[i % 2], v[i])


def the_most_by_the_author(x, v):
    for i in range(v.shape[0]):
        qgraph.atomic_max(x, 0, v[i])


@pytest.mark.parametrize("function", [the_most_without_a_sign, the_most_by_the_author])
@pytest.mark.parametrize("dtype", [np.uint64, *thorough(np.uint32)])
@pytest.mark.parametrize("values", [np.int32, np.float32, *thorough(np.int64)])
def test_negative_numbers_are_not_the_most(check, function, dtype, values):
    check(function, lambda: (np.array([1, 2], dtype), np.array([-5, -6, 3], values)))


def products_of_narrow_arrays(x, y, out):
    out[0] = x @ y
    out[1] = np.dot(x, y)
    out[2] = np.vdot(x[1:], y[:-1])
    total = x.dot(y)
    out[3] = total > 100


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, *thorough(np.int8, np.int32)])
@pytest.mark.parametrize("other", [np.int16, *thorough(np.uint8)])
def test_products_of_narrow_arrays_wrap(check, dtype, other):
    def args():
        rng = np.random.default_rng(3)
        return rng.integers(0, 100, 17).astype(dtype), rng.integers(0, 100, 17).astype(other), np.zeros(4, np.int64)

    check(products_of_narrow_arrays, args)


def a_narrow_size(x, a, b):
    m = a + b
    count = 0
    for _ in range(m):
        count += 1
    x[0] = m
    return count, m + 1


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_sum_of_narrow_numbers_is_one_number(check):
    check(a_narrow_size, lambda: (np.zeros(3), np.uint8(200), np.uint8(100)))
    check(a_narrow_size, lambda: (np.zeros(3), np.uint8(200), 100))


def narrow_sizes_in_loops(x, n):
    for _ in qgraph.serial(range(3)):
        m = n - 1
        t = qgraph.zeros(m)
        for i in range(m):
            t[i] = x[i] + 1
        for i in range(m):
            x[i] = t[i]
    return m


def test_narrow_sizes_in_loops(check):
    check(narrow_sizes_in_loops, lambda: (np.arange(10.0), np.int32(8)))


def flags_by_identity(x, flag, mode: qgraph.Static):
    for i in range(x.shape[0]):
        if flag is True:
            x[i] += 1
        if flag is not False and mode is max:
            x[i] += 2


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("mode", [max, min, None])
def test_a_flag_is_the_true_of_python(rig, flag, mode):
    rig.check(flags_by_identity, lambda: (np.zeros(3), flag, mode), noop=not flag)


def elements_by_identity(x, flags):
    for i in range(x.shape[0]):
        if flags[i] is True:  # NumPy's True is another object
            x[i] += 1


def a_number_by_identity(x, flags):
    found = flags[0] or flags[1]
    x[0] = 1 if found is not False else 2


def arrays_by_identity(x, flags):
    for i in range(x.shape[0]):
        x[i] = 1 if x is flags else 2


@pytest.mark.parametrize("kernel", [elements_by_identity, a_number_by_identity, arrays_by_identity])
def test_which_object_a_value_is_is_refused(rig, kernel):
    with pytest.raises(KernelSyntaxError, match="values of kernels have no identity"):
        rig.run(rig.kernel(kernel), np.zeros(3), np.array([True, False, True]))


@qgraph.func
def twice(v):
    return v * 2


FIRST, SECOND = 1, 1


def constants_by_identity(x, mode: qgraph.Static):
    s = 3 if FIRST is SECOND else 4
    for i in range(x.shape[0]):
        x[i] = i * 10 if FIRST is not SECOND else i
        if mode is FIRST:
            x[i] += 2
    return s


@pytest.mark.parametrize(
    ("first", "second"),
    [(np.nan, np.nan), (1, True), (1, 1.0), (0.0, -0.0), (2.5, 7), (twice, twice), (twice, max), ("a", None)],
)
def test_constants_are_one_object_or_two(rig, monkeypatch, first, second):
    monkeypatch.setitem(globals(), "FIRST", first)
    monkeypatch.setitem(globals(), "SECOND", second)
    rig.check(constants_by_identity, lambda: (np.zeros(3), second))


def test_two_objects_of_one_value_are_refused(rig, monkeypatch):
    monkeypatch.setitem(globals(), "FIRST", 10**6)
    monkeypatch.setitem(globals(), "SECOND", int("1000000"))
    with pytest.raises(KernelSyntaxError, match="`FIRST is SECOND` asks which object a value is, and these are two objects"):
        rig.run(rig.kernel(constants_by_identity), np.zeros(3), 1)


def test_numpys_true_as_an_argument_is_refused(rig):
    with pytest.raises(KernelSyntaxError, match="`flag` alone is the condition"):
        rig.run(rig.kernel(flags_by_identity), np.zeros(3), np.bool_(True), max)
