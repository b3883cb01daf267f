"""What a kernel returns: Python numbers, in tuples, named tuples and dataclasses, from anywhere in the function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import qgraph
from qgraph.errors import KernelSyntaxError


class Point(NamedTuple):
    x: float
    y: int


@dataclass(frozen=True)
class Outcome:
    steps: int
    where: Point
    converged: bool = True


def numbers(n=5):
    return np.arange(1.0, n + 1)


def one(x):
    for i in range(x.shape[0]):
        x[i] *= 2
    return x[0]


def several(x, n):
    s = x[1]
    return n, s, s > 1, n + 0.5, 7, True


def nested(x, n):
    return (n, (x[0], x[1])), 3


def named(x, n):
    return Point(x[0], n)


def named_by_keyword(x, n):
    return Point(y=n, x=x[1])


def data(x, n):
    return Outcome(n, Point(x[0] * 2, 4), converged=x[0] > 0)


def complex_number(x, n):
    return x[0] * (2 + 1j), n


@pytest.mark.parametrize("kernel", [several, nested, named, named_by_keyword, data, complex_number])
def test_structures(check, kernel):
    check(kernel, lambda: (numbers(), 4))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8", "int8", "bool", "complex64"])
def test_every_dtype_becomes_a_python_number(rig, dtype):
    def first(x):
        return x[0], x[1]

    rig.check(first, lambda: (np.array([1, 0], dtype),))


def bare(x, n):
    for i in range(x.shape[0]):
        x[i] += 1
    if n > 0:
        return
    for i in range(x.shape[0]):
        x[i] += 10
    if n < -1:
        for i in range(x.shape[0]):
            x[i] += 100
        return
    x[0] = 0
    return


@pytest.mark.parametrize("n", [1, 0, -2])
def test_bare_returns(check, n):
    check(bare, lambda: (numbers(), n))


def in_branches(x, n):
    if n == 0:
        return 1, x[0]
    for i in range(x.shape[0]):
        x[i] += 1
    if n == 1:
        for i in range(x.shape[0]):
            x[i] *= 2
        return 2, x[0]
    elif n == 2:
        for i in range(x.shape[0]):
            x[i] *= 3
    else:
        return 3, -1.0
    x[1] = 5
    return 4, x[1]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_returns_in_branches(check, n):
    check(in_branches, lambda: (numbers(), n))


def in_a_match(x, n):
    match n:
        case 0:
            return 10
        case 1:
            for i in range(x.shape[0]):
                x[i] += 1
            return 20
        case 2:
            for i in range(x.shape[0]):
                x[i] += 2
        case _:
            return 40
    x[0] = 9
    return 30


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_returns_in_a_match(check, n):
    check(in_a_match, lambda: (numbers(), n))


def in_a_while(x, n):
    k = 0
    while True:
        for i in range(x.shape[0]):
            x[i] += 1
        k += 1
        if x[0] > n:
            return k
        for i in range(x.shape[0]):
            x[i] += 1


def in_loops(x, n, p):
    total = 0
    for t in qgraph.serial(range(n)):
        k = 0
        while k < 3:
            for i in range(x.shape[0]):
                x[i] += k
            total += 1
            if total == p:
                return t, k, total
            k += 1
            if k == 2 and t == 1:
                break
        else:
            total += 10
            if total == p:
                for i in range(x.shape[0]):
                    x[i] = -1
                return t, k, -total
        for i in range(x.shape[0]):
            x[i] += 100
    else:
        if p == 0:
            return -1, -1, total
    x[0] = 5
    return n, 0, total


@pytest.mark.parametrize("n", [0, 4])
def test_return_out_of_a_while(check, n):
    check(in_a_while, lambda: (numbers(), n))


@pytest.mark.parametrize("p", [0, 1, 3, 5, 13, 14, 15, 28, 99])
def test_returns_out_of_nested_loops(check, p):
    check(in_loops, lambda: (numbers(), 3, p))


def in_one_thread(x, p):
    for t in qgraph.serial(range(x.shape[0])):
        k = 0
        while k < 3:
            if x[t] * 10 + k == p:
                return t, k
            k += 1
    return -1, -1


@pytest.mark.parametrize("p", [10, 22, 99])
def test_return_out_of_loops_of_one_thread(check, p):
    check(in_one_thread, lambda: (numbers(), p))


def types_joined(x, n):
    if n > 0:
        return 1.5
    for i in range(x.shape[0]):
        x[i] += 1
    return x[0]


@pytest.mark.parametrize("n", [0, 1])
def test_returns_of_several_places(check, n):
    check(types_joined, lambda: (numbers(), n))


def bound_again(x, n):
    g = 2.5
    part = x
    if x[0] > n:
        return g, n
    n = n + 1
    g = 0.5
    part = x[::-1]
    for i in range(n):
        part[i] += n
    t = np.zeros(n)
    if t[0] + x[1] > 30:
        return g, n
    n = 4
    pair = (g, n)
    for i in range(n):
        x[i] *= pair[1]
    return pair[0], n


@pytest.mark.parametrize(("n", "first"), [(-1, 5), (3, 1), (3, 40)])
def test_names_mean_something_else_behind_a_return(check, n, first):
    check(bound_again, lambda: (np.arange(first, first + 6), n))


def changed_behind(x, n):
    b = 2
    if x[1] > n:
        return b
    c = x[2]
    if n < c:
        return c
    b += x[3] * n
    n = n * 2
    return b + n


@pytest.mark.parametrize("n", [0, 2, 5])
def test_numbers_change_behind_a_return_without_loops(check, n):
    check(changed_behind, lambda: (np.arange(5), n))


def a_result_of_a_reduction(x, n):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * n
    return s


def test_the_call_waits_for_the_result(check):
    check(a_result_of_a_reduction, lambda: (numbers(50), 3))


def host_only(x, n):
    return n * 2, x.shape[0]


def test_results_of_the_host_alone(check):
    check(host_only, lambda: (numbers(), 3))


def no_loops_no_arrays(a, b):
    c = a + b
    while c > 10:
        c -= 3
    return c, a


def test_a_kernel_of_numbers(rig):
    if rig.backend == "cuda":
        pytest.skip("no array says where")
    rig.check(no_loops_no_arrays, lambda: (30, 4.5))


def shapes_differ(x, n):
    if n > 0:
        return 1
    return 1, 2


def value_or_nothing(x, n):
    if n > 0:
        return 1
    x[0] = 2


def value_or_bare(x, n):
    if n > 0:
        return 1
    x[0] = 2
    return


@pytest.mark.parametrize("kernel", [shapes_differ, value_or_nothing, value_or_bare])
def test_returns_of_different_shapes_are_refused(rig, kernel):
    with pytest.raises(KernelSyntaxError):
        rig.run(rig.kernel(kernel), numbers(), 1)


def in_a_parallel_loop(x):
    for i in range(x.shape[0]):
        if x[i] > 2:
            return i
    return -1


def test_a_return_in_a_parallel_loop_is_refused(rig):
    with pytest.raises(KernelSyntaxError, match="return"):
        rig.run(rig.kernel(in_a_parallel_loop), numbers())


def test_every_call_returns_its_own(rig):
    kernel = rig.check(one, lambda: (numbers(),))
    rig.compare(kernel, lambda: (numbers(9) + 3,))
    rig.compare(kernel, lambda: (np.array([8.0]),))
    assert kernel.stats.compilations == 1


def a_method_of_a_number(x):
    s = x[0] + 2j
    return s.conjugate()


def test_a_method_of_a_number_is_returned(check):
    check(a_method_of_a_number, lambda: (np.arange(3.0) + 1,), noop=True)


def whether_it_is(x, y):
    given = x is not None
    y[:] = x + (y is None)
    if None is not y and None is not x[0]:
        for i in range(y.shape[0]):
            y[i] += 2 if None is x else 3
    return given, y is None, np.sum(y) > 3 and x is not None, None is y


def test_whether_an_array_is_something_is_one_boolean(check):
    check(whether_it_is, lambda: (np.arange(4.0), np.full(4, 77.0)))


def whether_they_are_one(x, y):
    return x is y


def whether_they_are_two(x, y):
    return x is not y


@pytest.mark.parametrize("function", [whether_they_are_one, whether_they_are_two])
def test_whether_two_arrays_are_one_object_is_not_known(rig, function):
    with pytest.raises(qgraph.KernelSyntaxError, match="values of kernels have no identity"):
        rig.kernel(function)(*map(rig.device, (np.arange(4.0), np.arange(4.0))))


@qgraph.func
def a_number_or_a_tuple(v):
    if v > 2:
        return v, 1
    return v


def of_two_types(x):
    for i in range(x.shape[0]):
        p = a_number_or_a_tuple(x[i])
        x[i] = 1 if p is None else 2


@pytest.mark.needs("compiler")
def test_a_func_returns_values_of_one_type(rig):
    with pytest.raises(qgraph.KernelTypeError, match="^a function returns values of several types: "):
        rig.run(rig.kernel(of_two_types), np.ones(3))


def quotients_with_a_name(k, n, m):
    t = divmod(n, m)
    k[0] += t[0] * 10 + t[1]
    first = second = divmod(k[1] + t[1], k[2])
    for i in qgraph.serial(range(2)):
        t = divmod(k[i], m)
        for j in range(k.shape[0]):
            k[j] += t[1] + first[0]
    return t, second[1]


@pytest.mark.parametrize("m", [5, -2, 0])
def test_a_name_for_both_numbers_of_divmod(rig, check, m):
    if m:
        check(quotients_with_a_name, lambda: (np.arange(4) + 7, 17, m))
        return
    with pytest.raises(qgraph.ArgumentError, match=r"divmod\(n, m\)"):
        rig.run(rig.kernel(quotients_with_a_name), np.arange(4) + 7, 17, m)


def quotient_and_remainder(n, m):
    return divmod(n, m)


def quotient_from_a_branch(k):
    if k[0] > 0:
        return divmod(k[0], k[1])
    return k[0], 0


@pytest.mark.parametrize(("n", "m"), [(7, -2), (-7.5, 2)])
def test_what_divmod_gives_is_returned_as_a_pair(check, n, m):
    check(quotient_and_remainder, lambda: (n, m))
    check(quotient_from_a_branch, lambda: (np.array([int(n), int(m)]),))
