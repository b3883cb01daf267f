"""Tuples at kernel level: made by `divmod`, chosen by a condition, inside of others, and given a name in branches alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import qgraph


class Pair(NamedTuple):
    first: Any
    second: Any


class Quaternion(NamedTuple):
    w: Any
    x: Any
    y: Any


@dataclass(frozen=True)
class Both:
    first: Any
    second: Any


@qgraph.func
def counted(x):
    x[1] += 1
    return x[1]


@qgraph.func
def filled(x, n):
    for i in range(x.shape[0]):
        x[i] += n
    return x[0], divmod(x[2], 2)


def divided_in_a_tuple(x, n):
    x[0] = 1
    return x[1], divmod(n, 4), (np.divmod(x[3], 2), divmod(n + 5, 4)[1])


def divided_after_a_call(x, n):
    return divmod(x[1], 4), counted(x), divmod(x[1], 4), x[1], divmod(n, counted(x))


def divided_into_nested_names(x, n):
    h, (m, s) = n // 9, divmod(n % 9, 2)
    (a, b), x[0] = divmod(x[2], 2), h
    x[1], t = m, divmod(n, 4)
    return h, m, s, a, b, t


def divided_under_a_name(x, n):
    t = n, divmod(n, 3)
    if x[1] > 0:
        t = x[2], divmod(n, 5)
    x[0] = t[1][0]
    return t


def divided_in_a_func(x, n):
    first, (half, rest) = filled(x, n)
    return filled(x, 1), first, half + rest


def divided_by_iterations(x, n):
    for i in range(x.shape[0]):
        a, (b, c) = i, divmod(i + n, 4)
        t = x[i], divmod(i, 3)
        x[i] = a + b * 10 + c * 100 + t[1][1] * 1000


def chosen_in_a_tuple(x, n):
    a, (b, c) = x[1], (x[2], n) if x[1] > 0 else (n, x[3])
    t = 1, divmod(n, 4) if n > 2 else (n, n)
    return a, b, c, t, (2, ((n, 5), 3) if x[1] > 20 else ((5, 6), 7))


@pytest.mark.parametrize(
    "function",
    [
        divided_in_a_tuple,
        divided_after_a_call,
        divided_into_nested_names,
        divided_under_a_name,
        divided_in_a_func,
        divided_by_iterations,
        chosen_in_a_tuple,
    ],
)
@pytest.mark.parametrize("n", [1, 11])
def test_what_gives_a_tuple_may_stand_in_one(check, function, n):
    check(function, lambda: (np.arange(6), n))


def in_two_branches(x, n):
    if n > 3:
        t = 1, (x[1], 2.5)
    elif x[2] > 3:
        t = 3, (4.5, n + 0.5)
    else:
        t = n, (x[3], 5.5)
    x[0] = t[0]
    return t


def of_classes(x, n):
    if n > 3:
        p, b = Pair(x[1], 2.0), Both(n, x[2])
    else:
        p, b = Pair(3.0, x[4]), Both(n + 1, x[1])
    for i in range(x.shape[0]):
        x[i] += p.second + b.first
    return p.first, b.second


def by_cases(x, n):
    match n:
        case 1:
            t = 1, 2
        case 2:
            t = divmod(n + 8, 4)
        case _:
            t = filled(x, n)[1]
    a, b = t
    x[0] = a + b


def raising_otherwise(x, n):
    if n > 0:
        s, t = n, (1, 2)
        for i in range(x.shape[0]):
            x[i] += t[1]
    else:
        raise ValueError("n is too small")
    a, b = t
    x[a] = b + s


@qgraph.func
def chosen(n):
    if n > 3:
        t = 1, 2
    else:
        t = 3, n
    return t


def in_a_func(x, n):
    t = chosen(n)
    if x[1] > 5:
        u = chosen(n + 1)
    else:
        u = t
    x[0] = t[0] * u[1]


def in_turns(x, n):
    t = 0, 0
    while n > 0:
        if x[0] > 3:
            u = n, 2
        else:
            u = 3, n
        x[0] += u[0]
        t = u[1], t[0]
        n -= 2
    return t


@pytest.mark.parametrize("function", [in_two_branches, of_classes, by_cases, raising_otherwise, in_a_func, in_turns])
@pytest.mark.parametrize("n", [1, 2, 11])
def test_tuples_get_their_name_in_branches(check, function, n):
    check(function, lambda: (np.arange(1, 7.0), n))


@qgraph.func
def weighed(a, b, c=0.5):
    return a * 100 + b * 10 + c


@qgraph.func
def of_a_row(v):
    return weighed(*v)


def stars_in_loops(x, rows, n):
    for i in range(x.shape[0]):
        t = 1, i, n
        if i > 2:
            t = i, i, 3
        d = rows[i] * 2
        q = Pair(n, i)
        v = Quaternion(*rows[i])
        s = (*rows[i], *divmod(i, 2))
        x[i] = weighed(*t) + weighed(*rows[i]) + weighed(*d) + weighed(*q) + of_a_row(rows[i]) + weighed(*v) + s[4] + max(*t)


def stars_at_kernel_level(x, rows, n):
    t = n, 2
    u = (*t, 3)
    v = rows[1]
    x[0] = weighed(*u) + weighed(*rows[0]) + weighed(*v) + weighed(*rows.shape)
    q = Quaternion(*rows[2])
    h, rest = divmod(n, 7)
    return q.w, Pair(*t), (h, *divmod(rest, 2), *rows[3])


def stars_of_arguments(x, t, row):
    for i in range(x.shape[0]):
        x[i] = weighed(*t) + weighed(i, *row)


@pytest.mark.parametrize("function", [stars_in_loops, stars_at_kernel_level])
def test_stars_of_known_lengths_are_their_parts(check, function):
    check(function, lambda: (np.arange(6.0), np.arange(18.0).reshape(6, 3), 11))


@pytest.mark.parametrize("t", [(1, 2, 3), Quaternion(1.5, 2, 3), (1, 2)])
def test_stars_of_arguments_are_their_parts(check, t):
    check(stars_of_arguments, lambda: (np.arange(6.0), t, np.arange(2.0)))


def test_each_length_of_a_row_is_compiled_for(rig):
    kernel = rig.kernel(stars_of_arguments)
    for row in (np.arange(2.0), np.arange(1.0), np.arange(2.0)):
        rig.compare(kernel, lambda row=row: (np.arange(6.0), (1, 2), row.copy()))
    with pytest.raises(qgraph.KernelSyntaxError, match="too many positional arguments"):
        rig.run(kernel, np.arange(6.0), (1, 2), np.arange(3.0))


def joined_at_kernel_level(x, n):
    t = (1, n) + divmod(n, 4)
    u = t + (n,)
    y = np.zeros((2,) + x.shape)
    y[1] = x
    z = (0.5,) * 3
    x[:] = y[1] + z[2]
    return u, tuple(range(1, 6, 2)), x.shape + (1,), tuple(t), (n, 2) + ((3, 4),)


def joined_in_loops(x, n):
    for i in range(x.shape[0]):
        t = tuple(range(3)) + (i, n)
        u = (i,) * 2 + x.shape
        x[i] = t[2] * 100 + t[4] * 10 + u[1] + u[2]


@pytest.mark.parametrize("function", [joined_at_kernel_level, joined_in_loops])
@pytest.mark.parametrize("n", [2, 11])
def test_tuples_are_joined(check, function, n):
    check(function, lambda: (np.arange(6.0), n))


def median(x):
    s = np.sort(x)
    return (s[(len(s) - 1) // 2] + s[len(s) // 2]) / 2


@pytest.mark.parametrize("n", [1, 6, 7])
def test_the_median_that_the_message_writes(rig, n):
    x = np.random.default_rng(n).random(n)
    assert rig.run(rig.kernel(median), x) == np.median(x)
