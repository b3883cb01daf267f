"""Conditional expressions of tuples, and `match` on what is known at compile time."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np
import pytest

import qgraph
from qgraph.errors import KernelSyntaxError


class Pair(NamedTuple):
    low: float
    high: int


class Mode(enum.Enum):
    FAST = "fast"
    EXACT = "exact"


def ints(n=6):
    return np.arange(n) + 1


def unpacked(x, n):
    a, b = (x[0], 2) if n > 2 else (3, x[1])
    p, (q, r) = (1, (2, 3)) if a > b else (4, (x[2], 6)) if n else (7, (8, 9))
    for i in range(x.shape[0]):
        u, v = (x[i], i) if x[i] % 2 else (i, p)
        x[i] = u * 10 + v + q + r
    a, b = (b, a) if n > 3 else (a, b)
    return a, b


@pytest.mark.parametrize("n", [0, 3, 5])
def test_unpacked(check, n):
    check(unpacked, lambda: (ints(), n))


def named(x, n):
    t = (x[0] * 0.5, 2.5) if n > 2 else (x[1] * 1.5, 1.0)
    for i in range(x.shape[0]):
        x[i] += int(t[0] * t[1])
    t = (t[1], t[0]) if x[0] > 5 else (t[0], t[1])
    return t


@pytest.mark.parametrize("n", [0, 5])
def test_under_a_name(check, n):
    check(named, lambda: (ints(), n))


def returned(x, n):
    for i in range(x.shape[0]):
        x[i] += i
    if n > 3:
        return (x[0], x[1]) if x[2] > 4 else (x[1], n)
    while True:
        x[0] += 1
        if x[0] > 9:
            return (n, x[0]) if n else (x[0], n)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_returned(check, n):
    check(returned, lambda: (ints(), n))


def returned_named(x, n):
    for i in range(x.shape[0]):
        x[i] += n
    return Pair(x[0] * 0.5, 2) if x[0] > 3 else Pair(0.0, n)


@pytest.mark.parametrize("n", [0, 5])
def test_named_tuples(check, n):
    check(returned_named, lambda: (ints(), n))


@qgraph.func
def ends(x, swap):
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    return (s, x[0]) if swap else (x[0], s)


def of_a_func(x, n):
    a, b = ends(x, n > 2)
    c, d = ends(x, True) if b > 20 else (a, b)
    return (a, b, c) if qgraph.static(x.ndim == 2) else (c, d)


@pytest.mark.parametrize("n", [0, 5])
def test_values_of_funcs(check, n):
    check(of_a_func, lambda: (ints(), n))


def by_text(x, mode: qgraph.Static):
    match qgraph.static("double"):
        case "half":
            return 0
        case "double" | "twice":
            for i in range(x.shape[0]):
                x[i] *= 2
    match mode:
        case "fast" | Mode.FAST:
            for i in range(x.shape[0]):
                x[i] += 1
        case Mode.EXACT if qgraph.static(x.ndim == 1):
            x[0] = 100
        case None:
            return 1, 2
        case 3:
            for i in range(x.shape[0]):
                match mode:
                    case 2:
                        x[i] = "never"
                    case _:
                        x[i] = -i
        case _:
            x[1] = 7
    return x[0], x[1]


@pytest.mark.parametrize("mode", ["fast", Mode.FAST, Mode.EXACT, 3, "other", 2.5])
def test_match_on_what_is_known(check, mode):
    check(by_text, lambda: (ints(), mode))


def none_is_known(x, mode: qgraph.Static):
    for step in qgraph.static(("up", None, "down")):
        match step:
            case "up":
                x[0] += 5
            case None if mode:
                x[1] += 7
            case None:
                x[1] += 9
            case _:
                x[2] -= 1


def test_match_in_an_unrolled_loop(rig):
    with pytest.raises(KernelSyntaxError, match="a `case` with an `if`"):
        rig.run(rig.kernel(none_is_known), ints(), True)


def unrolled(x):
    for step in qgraph.static(("up", None, "down")):
        match step:
            case "up":
                for i in range(x.shape[0]):
                    x[i] += 5
            case None:
                x[1] += 9
            case _:
                x[2] -= 1
    for i in range(x.shape[0]):
        for step in qgraph.static(("up", "down")):
            match step:
                case "up":
                    x[i] *= 3
                case "down":
                    x[i] -= i


def test_match_on_the_variable_of_an_unrolled_loop(check):
    check(unrolled, lambda: (ints(),))


def two_lengths(x, n):
    t = (1, 2) if n > 2 else (3, 4, 5)
    x[0] = t[0]


def captures(x):
    match qgraph.static("a"):
        case name:
            x[0] = len(name)


def starred(x):
    a, *rest = x.shape
    x[0] = a


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (two_lengths, (5,), "is not a tuple of one length"),
        (captures, (), "`case name` is not a constant"),
        (starred, (), r"`\*rest`, which makes a list"),
    ],
)
def test_refused_by_name(rig, function, args, message):
    with pytest.raises(KernelSyntaxError, match=message):
        rig.run(rig.kernel(function), ints(), *args)


def searched_for_an_array_or_a_number(c, n):
    return np.searchsorted(c, np.arange(n) if n > 2 else n - 1)


def interpolated_at_an_array_or_a_number(c, n):
    return np.interp((np.arange(n) + 0.5) / n if n > 2 else n - 1, c, c)


@pytest.mark.parametrize("function", [searched_for_an_array_or_a_number, interpolated_at_an_array_or_a_number])
def test_what_is_a_new_array_or_a_number_is_refused_where_it_is_written(rig, function):
    with pytest.raises(
        qgraph.KernelSyntaxError, match=r"`.*np\.arange\(n\).* else n - 1` is one array or another, or a number"
    ):
        rig.run(rig.kernel(function), np.arange(3.0), 3)
