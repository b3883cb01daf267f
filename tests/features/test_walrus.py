"""Assignment expressions: the same as an assignment before the statement, wherever that is right."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qgraph
from qgraph.errors import KernelSyntaxError


@qgraph.func
def norm(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * x[i]
    return math.sqrt(s)


@qgraph.func
def grow(x):
    s = 0.0
    for i in range(x.shape[0]):
        x[i] += 1.0
        s += x[i]
    return s


def until(x, tol):
    steps = 0
    while (r := norm(x)) > tol:
        for i in range(x.shape[0]):
            x[i] = 0.5 * x[i]
        steps += 1
        if steps == 3:
            continue
        if r > 40.0:
            for i in range(x.shape[0]):
                x[i] -= 0.25
            continue
        if steps > 6:
            break
        x[0] += 0.001 * steps
    else:
        steps += 100
    return steps, r


@pytest.mark.parametrize("tol", [1e3, 1.0, 1e-9])
def test_the_condition_of_a_while(check, tol):
    check(until, lambda: (np.arange(9.0) * 5, tol))


def in_one_thread(x):
    count = 0
    while (k := x[count]) < 5 and count < 4:
        count += 1
        if k == 2:
            continue
        x[5] += k
    return count, k


def test_the_condition_of_a_while_of_one_thread(check):
    check(in_one_thread, lambda: (np.arange(7),))


def in_bodies(x, y, limit):
    best = 0
    for i in range(x.shape[0]):
        if (v := x[i] * 3) > limit:
            y[i] = v
        elif (w := v + 1) % 2:
            y[i] = w - v
        n = 0
        while (r := v - n * n) > 0:
            n += 1
            if n == 4:
                continue
            y[i] += r
        y[i] += (t := n + r) * t
        best = max(best, (u := y[i]) + u)
    return best


def test_in_the_body_of_a_parallel_loop(check):
    check(in_bodies, lambda: (np.arange(20) % 7, np.full(20, 77), 9))


def of_statements(x, n):
    if (a := x[0] + n) > 3:
        for i in range(x.shape[0]):
            x[i] += a
    elif (b := grow(x)) > 10.0 and b < 1e9:
        x[1] = b + 1
    else:
        x[2] = a
    x[(k := 1)] = (c := a + 2) * c
    x[k + 1] += (d := abs(x[3])) * d
    total = (e := x[2]) + (f := x[3] + e) * f
    g = h = (m := (p := n + 1) * 2) + p
    for i in range((size := x.shape[0]) - 1):
        x[i] = x[i] + size + m
    match q := n % 3:
        case 1:
            x[0] = q
        case _:
            x[1] = q + 1
    return total, g + h, (last := x[4]), last


@pytest.mark.parametrize("n", [0, 1, 7])
def test_in_statements(check, n):
    check(of_statements, lambda: (np.arange(6.0), n))
    check(of_statements, lambda: (np.arange(6.0) * 3 - 3, n))


@qgraph.func
def clipped(v, low):
    if (d := v - low) < 0:
        return low
    return d + (e := v * 2) - e


def in_a_device_function(x):
    for i in range(x.shape[0]):
        x[i] = clipped(x[i], 3)


def test_in_a_device_function(check):
    check(in_a_device_function, lambda: (np.arange(9),))


def behind_and(x):
    if x[0] > 1 and (a := x[1]) > 2:
        x[0] = a


def behind_or_in_a_body(x):
    for i in range(x.shape[0]):
        while x[i] < 3 or (a := x[i]) < 5:
            x[i] += 1
            a = 3
        x[i] += a


def in_a_choice(x):
    a = 1
    x[0] = (a := 2) if x[1] > 3 else 5
    x[1] = a


def in_a_chain(x):
    x[2] = 0 < x[0] < (a := x[1])
    x[1] = a


def read_before(x):
    a = 1
    x[0] = a + (a := 2)


def changed_before(x):
    x[0] = x[1] + (a := grow(x))
    x[1] = a


def called_before(x):
    x[0] = grow(x) + (a := x[1])
    x[1] = a


def in_a_guard(x):
    match int(x[0]):
        case 1 if (a := x[1]) > 0:
            x[0] = a


@pytest.mark.parametrize(
    "function",
    [behind_and, behind_or_in_a_body, in_a_choice, in_a_chain, read_before, changed_before, called_before, in_a_guard],
)
def test_where_an_assignment_before_would_be_wrong(rig, function):
    with pytest.raises(KernelSyntaxError, match=r"`\(a := .*\)` (is evaluated in some cases only|comes after something)"):
        rig.kernel(function)


def test_pure_functions_may_come_before(check):
    def kernel(x):
        x[0] = abs(x[1]) + math.sin(x[2]) + np.sqrt(x[3]) + (a := max(x[1], 2.0)) * a

    check(kernel, lambda: (np.arange(5.0),))
