"""Calls at kernel level: funcs with loops, values and early returns; methods; kernels in kernels; recursion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import qgraph
from qgraph.errors import KernelSyntaxError


def numbers(n=6):
    return np.arange(1.0, n + 1)


@qgraph.func
def dot(a, b):
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    return s


@qgraph.func
def scale(a, factor):
    for i in range(a.shape[0]):
        a[i] *= factor


@qgraph.func
def norm(a):
    return dot(a, a) ** 0.5


@qgraph.func
def square(v):
    return v * v


def twice(x, y):
    a = dot(x, y)
    scale(x, 2.0)
    b = dot(x, y)
    scale(y, a)
    c = dot(y, x) + dot(x, x) * 2 - norm(y)
    return a, b, c


def test_a_func_called_twice(check):
    check(twice, lambda: (numbers(), numbers()[::-1].copy()))


def in_conditions(x, tol):
    k = 0
    while norm(x) > tol:
        scale(x, 0.5)
        k += 1
    if dot(x, x) > 0.1:
        scale(x, 10.0)
    elif norm(x) > 0:
        scale(x, 100.0)
    while k > 0 and square(k) < 1000:
        scale(x, 1.5)
        k -= 2
    return k


@pytest.mark.parametrize("tol", [0.01, 1.0, 1e9])
def test_func_values_in_conditions(check, tol):
    check(in_conditions, lambda: (numbers(), tol))


@qgraph.func
def search(a, limit):
    k = 0
    while k < a.shape[0]:
        if a[k] > limit:
            return k
        k += 1
    return -1


@qgraph.func
def search_with_loops(a, limit):
    if limit < 0:
        return -2
    for k in qgraph.serial(range(a.shape[0])):
        for i in range(a.shape[0]):
            a[i] += 1
        if a[k] > limit:
            return k
    return -1


def early_returns(x, limit):
    a = search(x, limit)
    b = search_with_loops(x, limit)
    c = search_with_loops(x, limit + 3)
    if search_with_loops(x, limit) >= 0:
        x[0] = a
    return a, b, c


@pytest.mark.parametrize("limit", [-1, 3, 8, 99])
def test_funcs_with_early_returns(check, limit):
    check(early_returns, lambda: (numbers(), limit))


@qgraph.func
def local_names(a, s):
    t = s + 1
    s = t * 2
    for i in range(a.shape[0]):
        a[i] += s
    return s


def names_are_apart(x, n):
    s = x[0]
    t = local_names(x, s)
    u = local_names(x, n)
    n = local_names(x, u + n)
    return s, t, u, n


def test_names_of_a_func_are_its_own(check):
    check(names_are_apart, lambda: (numbers(), 3))


@qgraph.func
def changed_later(a, s):
    scale(a, 3.0)
    return s + a[0]


def arguments_are_values(x):
    r = changed_later(x, x[0])
    s = 5
    q = changed_later(x, s)
    return r, q, s


def test_arguments_are_evaluated_at_the_call(check):
    check(arguments_are_values, lambda: (numbers(),))


@qgraph.func
def keywords(a, factor=2.0, *, offset=1):
    for i in range(a.shape[0]):
        a[i] = a[i] * factor + offset
    return a[0] + offset


def with_keywords(x, k):
    a = keywords(x)
    b = keywords(offset=k, a=x)
    c = keywords(x, 0.5, offset=-1)
    return a, b, c


def test_keyword_arguments_and_defaults(check):
    check(with_keywords, lambda: (numbers(), 4))


@qgraph.func
def extremes(a):
    lo = a[0]
    hi = a[0]
    for i in range(a.shape[0]):
        lo = min(lo, a[i])
        hi = max(hi, a[i])
    return lo, hi


@qgraph.func
def pair(a, k):
    return a[k], k + 1


def tuples(x):
    lo, hi = extremes(x)
    v, k = pair(x, 2)
    (a, b), c = pair(x, k), hi
    both = extremes(x)
    other = pair(x, 1)
    return lo, hi, v, k, a, b, c, both[1], both[0], other[0], other


def test_tuples_from_funcs(check):
    check(tuples, lambda: (numbers(),))


def returns_a_tuple(x):
    return extremes(x)


def returns_a_tuple_of_a_device_func(x):
    return pair(x, 1)


def returns_a_shape(x):
    return x.shape


def returns_a_named_tuple(x):
    ends = extremes(x)
    for i in range(x.shape[0]):
        x[i] += ends[0]
    return ends


def returns_from_branches(x):
    if x[0] > 3:
        return extremes(x), 1
    return (x[0], x[1]), 2


def returns_parts(x):
    return 1, extremes(x), pair(x, 1)


@pytest.mark.parametrize(
    "kernel",
    [
        returns_a_tuple,
        returns_a_tuple_of_a_device_func,
        returns_a_shape,
        returns_a_named_tuple,
        returns_from_branches,
        returns_parts,
    ],
)
def test_returned_tuples_that_come_from_elsewhere(check, kernel):
    check(kernel, lambda: (numbers(),))


def tuples_in_names(x, n):
    t = (x[0], n)
    u = t
    k = 0
    while k < 3:
        t = (t[1], t[0] + t[1])
        for i in range(x.shape[0]):
            x[i] += t[0]
        k += 1
    a, b = t
    return a, b, t[1], u[0], u[1] * 1.0


def test_a_tuple_under_a_name(check):
    check(tuples_in_names, lambda: (numbers(), 3))


@dataclass(frozen=True)
class Field:
    u: np.ndarray
    v: np.ndarray
    gain: float

    @qgraph.func
    def total(self):
        s = 0.0
        for i in range(self.u.shape[0]):
            s += self.u[i] * self.gain
        return s

    @qgraph.func
    def at(self, k):
        if k < 0:
            return self.v[0]
        return self.u[k] + self.gain

    @qgraph.func
    def step(self, h):
        t = self.total()
        for i in range(self.u.shape[0]):
            self.u[i] += h * self.at(i) * t


def methods(field, n):
    k = 0
    while field.total() < 500 and k < n:
        field.step(0.01)
        k += 1
    first = field.at(-1)
    for i in range(field.v.shape[0]):
        field.v[i] = field.at(i) - first
    return field.total(), field.at(1), k


@pytest.mark.parametrize("n", [0, 2, 100])
def test_methods_of_dataclasses(check, n):
    check(methods, lambda: (Field(numbers(4), numbers(4), 1.5), n))


@qgraph.kernel
def inner_kernel(a, factor):
    s = 0.0
    for i in range(a.shape[0]):
        a[i] *= factor
        s += a[i]
    if s > 1000:
        return s, True
    return s, False


def outer(x, y):
    s, big = inner_kernel(x, 2)
    t = 0.0
    k = 0
    while k < 3 and not big:
        t, big = inner_kernel(y, s)
        k += 1
    inner_kernel(x, 0.5)
    return s, t, big, k


def test_kernels_called_from_kernels(check):
    check(outer, lambda: (numbers(), numbers()))


@qgraph.func
def forever(a, n):
    if n > 0:
        return forever(a, n - 1)
    return a[0]


@qgraph.func
def forever_with_loops(a, n):
    for i in range(a.shape[0]):
        a[i] += 1
    if n > 0:
        forever_with_loops(a, n - 1)


@qgraph.func
def ping(a, n):
    return pong(a, n)


@qgraph.func
def pong(a, n):
    return ping(a, n - 1) if n > 0 else a[0]


def recursive(x, n):
    return forever(x, n)


def recursive_with_loops(x, n):
    forever_with_loops(x, n)


def mutually_recursive(x, n):
    return ping(x, n)


def recursive_in_a_loop(x, n):
    for i in range(x.shape[0]):
        x[i] = forever(x, n)


@pytest.mark.parametrize("kernel", [recursive, recursive_with_loops, mutually_recursive, recursive_in_a_loop])
def test_recursion_is_refused(rig, kernel):
    with pytest.raises(KernelSyntaxError, match="calls itself"):
        rig.run(rig.kernel(kernel), numbers(), 2)


@qgraph.func
def choose(a, n):
    if n > 0:
        for i in range(a.shape[0]):
            a[i] += 1
        r = 1
    else:
        r = 0
    return r


@qgraph.func
def three_levels(a, n):
    total = 0
    for t in qgraph.serial(range(n)):
        total += choose(a, t - 1) * 10 + search_with_loops(a, t + 5)
    else:
        total += choose(a, 1)
    return total + choose(a, n)


def nested_calls(x, n):
    a = three_levels(x, n)
    b = three_levels(x, choose(x, n) + choose(x, -n))
    return a + b, three_levels(x, 1)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_funcs_that_call_funcs(check, n):
    check(nested_calls, lambda: (numbers(), n))


@qgraph.func
def nothing(a):
    a[0] += 1


@qgraph.func
def nothing_with_loops(a):
    for i in range(a.shape[0]):
        a[i] += 1


def value_of_nothing(x):
    s = nothing_with_loops(x)
    x[0] = s


def test_the_value_of_a_func_that_returns_nothing(rig):
    with pytest.raises(qgraph.QGraphError, match="returns nothing"):
        rig.run(rig.kernel(value_of_nothing), numbers())


def calls_without_a_value(x):
    nothing(x)
    nothing_with_loops(x)
    dot(x, x)
    square(x[0])


def test_calls_as_statements(check):
    check(calls_without_a_value, lambda: (numbers(),))


def behind_and(x, n):
    k = 0
    if n > 0 and bump(x) > 3:
        x[0] = 7
    y = dot(x, x) if n > 1 else bump(x) if n < 0 else 0.5
    while k < 5 and norm(x) > 2 and (n != 1 or bump(x) < 9):
        scale(x, 0.5)
        k += 1
    a = n > 2 or bump(x) > 1 or bump(x) > 2
    b = 0 < bump(x) < bump(x) < n
    c = n and bump(x)
    d = -1 < x[0] < bump(x)
    if not (n > 0 and bump(x) > 0):
        k += 100
    return k, y, a, b, c + 0.0, d


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 30])
def test_a_func_with_loops_behind_and_or_if_and_in_chains(check, n):
    check(behind_and, lambda: (numbers(), n))


@qgraph.func
def bump(a):
    for i in range(a.shape[0]):
        a[i] += 1
    return a[0]


@qgraph.func
def swap_inside(a, b):
    a, b = b, a
    for i in range(a.shape[0]):
        a[i] += b[i] * 2
    return a[0]


def arrays_in_funcs(x, y):
    r = swap_inside(x, y)
    s = swap_inside(y, x)
    return r, s


def test_a_func_may_rename_its_arrays(check):
    check(arrays_in_funcs, lambda: (numbers(), numbers() * 3))


@qgraph.func
def apply(f, a):
    s = 0.0
    for i in range(a.shape[0]):
        a[i] = f(a[i])
        s += a[i]
    return s


def functions_as_arguments(x):
    a = apply(square, x)
    b = apply(norm_of_one, x)
    return a, b


@qgraph.func
def norm_of_one(v):
    if v < 0:
        return -v
    return v + 1


def test_funcs_as_arguments_of_funcs(check):
    check(functions_as_arguments, lambda: (numbers(),))


def reads_before_calls(x, k):
    a = x[0] + bump(x)
    b = bump(x) + x[0]
    c, d, e = x[0], bump(x), x[0]
    x[1] += bump(x)
    x[k[0]] = bump(k)
    f = x[0] < bump(x)
    g = max(x[0] * 2, bump(x), x[0])
    h = dot(x, x) + square(x[0]) * bump(x)
    s = 3
    s += bump(x) + s
    x[1], x[2] = x[2], bump(x)
    return a, b, c, d, e, f, g, h, s


def test_what_is_read_before_a_call_is_read_before_it(check):
    check(reads_before_calls, lambda: (numbers(), np.array([1, 2])))


def tuples_that_change(x):
    ends = extremes(x)
    k = 0
    while ends[1] > 0.5:
        scale(x, 0.5)
        ends = extremes(x)
        k += 1
    t = (k, (1, 2.5))
    while t[0] < 10:
        t = (t[0] + t[1][0], (t[0], t[1][1] * 2))
    if k > 2:
        t = (1, (2, 3.0))
    return ends, k, t


def test_a_tuple_that_a_loop_assigns(check):
    check(tuples_that_change, lambda: (numbers(),))


def function_that_changes(x):
    f = square
    k = 0
    while k < 3:
        for i in range(x.shape[0]):
            x[i] = f(x[i])
        f = norm_of_one
        k += 1


def range_that_changes(x):
    grid = qgraph.ndrange(2)
    k = 0
    while k < 3:
        for i in grid:
            x[i] += 1
        grid = qgraph.ndrange(4)
        k += 1


def function_that_an_unrolled_loop_changes(x):
    f = square
    k = 0
    while k < 3:
        x[0] += f(x[0])
        for f in qgraph.static((square, norm_of_one)):
            x[1] += f(x[1])
        k += 1


@pytest.mark.parametrize("kernel", [function_that_changes, range_that_changes, function_that_an_unrolled_loop_changes])
def test_other_things_cannot_change_in_loops(rig, kernel):
    with pytest.raises(KernelSyntaxError, match="bound again"):
        rig.run(rig.kernel(kernel), numbers())


@qgraph.func
def own_parameter(a, n):
    n = n + 1
    for i in range(a.shape[0]):
        a[i] += n
    n = n // 2
    return n


def parameter_assigned_once_in_a_loop(x, n, m):
    k = 0
    while k < 3:
        for i in range(x.shape[0]):
            x[i] += n
        n = 5
        k += 1 + own_parameter(x, m) - own_parameter(x, m)
    return n, own_parameter(x, 8)


def test_parameters_assigned_in_loops(check):
    check(parameter_assigned_once_in_a_loop, lambda: (numbers(), 3, 4))


@qgraph.func
def count(a):
    n = 0
    for i in range(a.shape[0]):
        if a[i] > 2:
            n += 1
    return n


@qgraph.func
def kind(n):
    match n:
        case 0:
            return 10
        case 1 | 2:
            return 20
        case _:
            return -n


def as_bounds_and_subjects(x):
    for i in range(count(x)):
        x[i] += 1
    x[count(x) - 1] = 30
    for t in qgraph.serial(range(count(x))):
        x[t] += t
    for t in qgraph.serial(range(1, count(x))):
        for i in range(x.shape[0]):
            x[i] += t
    match kind(count(x)):
        case -6:
            r = 1
            for i in range(x.shape[0]):
                x[i] += 0.5
        case _:
            r = 2
    match count(x):
        case 6:
            r += 10
    for i in range(x.shape[0]):
        x[i] += kind(i)
    return r, kind(0), kind(r)


def test_func_values_as_bounds_indices_and_subjects(check):
    check(as_bounds_and_subjects, lambda: (numbers(),))


@qgraph.func
def halved(x, n, flag=False):
    turns = 0
    while n > 3:
        n //= 2
        turns += 1
        if n == 2:
            flag = True
        for i in range(x.shape[0]):
            x[i] += n
    return turns * 100 + n + 1000 * flag


def numbers_that_are_known(x, n):
    s = halved(x, 9) + halved(x, n + 3) * 10 + halved(x, n, True)
    for t in qgraph.serial(range(3)):
        s += halved(x, 2 + 3) + halved(x, n=n + t)
    return s


@pytest.mark.parametrize("n", [0, 4, 20])
def test_parameters_that_loops_change_may_be_given_known_numbers(check, n):
    check(numbers_that_are_known, lambda: (np.arange(5), n))


@qgraph.func
def touched(x):
    x[0] += 1
    return x.max()


def left_by_break(x, y, n):
    turns = 0
    while touched(y) > 0:
        turns += 1
        for i in range(x.shape[0]):
            x[i] += 1
        if turns >= n:
            break
    while touched(x) < 9:
        turns += 10
        if x[1] > n:
            return turns
    else:
        turns += 100
    return turns


@pytest.mark.parametrize("n", [1, 3, 5])
def test_a_break_leaves_out_the_test_and_what_it_changes(check, n):
    check(left_by_break, lambda: (np.arange(4), np.arange(4) + 10, n))
