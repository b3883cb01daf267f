"""Kernels with assertions: pytest rewrites those of test modules, and these are as they stand."""

from __future__ import annotations

import numpy as np

import qgraph


def checked(x, y, limit):
    for i in range(x.shape[0]):
        assert x[i] < limit, "too large"
        y[i] = x[i] + 1


def of_several_axes(x, limit):
    for i, j in qgraph.ndrange(x.shape[0], (1, x.shape[1])):
        assert x[i, j] != limit
        x[i, j] += 1


def backwards(x):
    for i in range(x.shape[0] - 1, -1, -2):
        assert x[i] >= 0
        x[i] += 1


def statements(x, n):
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    assert s < n
    x[0] = s
    return s


def reduced(x):
    best, where, total = -1.0, -1, 1.0
    for i in range(x.shape[0]):
        if x[i] == 0:
            continue
        assert np.isfinite(x[i])
        total *= x[i]
        if x[i] > best:
            best, where = x[i], i
    return best, where, total


def of_arrays(x, y):
    assert np.all(x >= 0), "negative"
    y[:] = np.sqrt(x)


def of_lengths(x, y):
    assert len(x) == len(y)
    for i in range(x.shape[0]):
        y[i] = x[i]


@qgraph.func
def root(v, k):
    if v < 0:
        raise ValueError("no root of a negative number", 2)
    assert k > 0
    s = v
    for _ in range(k):
        s = 0.5 * (s + v / s)
    return s


@qgraph.func
def smallest(x):
    low = x[0]
    for i in range(x.shape[0]):
        low = min(low, x[i])
    if low < -100:
        raise ArithmeticError
    return low


def called(x, k):
    low = smallest(x)
    for i in range(x.shape[0]):
        for _ in range(1):
            x[i] = root(x[i], k)
    return low


def iterated(x, limit):
    steps = 0
    while x[0] < 100:
        steps += 1
        for i in range(x.shape[0]):
            x[i] += 1
        if steps > limit:
            raise RuntimeError("no convergence")
        for t in qgraph.serial(range(3)):
            for i in range(1, x.shape[0]):
                x[i] += t
    return steps


def endless(x, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            assert x[i] < 50
            x[i] += 1


def guarding(x, n, y):
    assert n[0] <= x.shape[0]
    for i in range(n[0]):
        x[i] = 7.0
    while n[0] > 0:
        for i in range(n[0]):
            y[i] += x[n[0] - 1]
        n[0] -= 1


def branches(x, kind):
    if kind == 0:
        for i in range(x.shape[0]):
            x[i] += 1
    elif kind == 1:
        raise KeyError("one")
    else:
        for i in range(x.shape[0]):
            assert kind == 2
            x[i] += 2


def assigned_or_raised(x, kind):
    if kind == 0:
        factor = 2.0
    else:
        raise NotImplementedError("kind")
    for i in range(x.shape[0]):
        if x[i] > 0:
            t = factor
        else:
            raise ValueError
        x[i] *= t


def stepped(x, n):
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            assert x[i] < 3
            x[i] += 1


def of_rows(starts, values, y):
    for i in range(y.shape[0]):
        s = 0.0
        for p in range(starts[i], starts[i + 1]):
            assert values[p] >= 0
            s += values[p]
        y[i] = s


def returns_behind(x, n):
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    raise NotImplementedError("sum")
    return s, n > 0


def computes_behind(x, n):
    y = x + 1
    if not False:
        raise ValueError("no")
    s = n * 2.5
    k = 0
    while k < s:
        y[:] += s
        k += 1
    return y, k, s


def never_ends_well(x, n):
    k = 0
    while k < n:
        x[:] += 1
        k += 1
    if k > 2:
        raise ValueError("long")
    else:
        raise ArithmeticError("short")
    return k


def of_no_kind(x, kind):
    if kind == 0:
        factor = 2.0
    elif kind == 1:
        return 3.0
    else:
        assert False, "no such kind"
    for i in range(x.shape[0]):
        if x[i] > 0:
            t = factor
        else:
            assert False
        x[i] *= t
    if kind < 5:
        return factor
    assert False


@qgraph.func
def chosen(kind):
    if kind == 0:
        return 2.0
    elif kind == 1:
        return 3.0
    assert False, "no such kind"


def choosing(x, kind):
    if kind == 0:
        weight = 0.5
    elif kind == 1:
        weight = 0.25
    else:
        assert False, "no weight"
    for i in range(x.shape[0]):
        x[i] += weight * chosen(kind)
    return chosen(kind)
