"""``@qgraph.func``, ``@njit``, closures, methods, and names that resolve by the identity of the object."""

from __future__ import annotations

import enum
import itertools
import math as m
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import qgraph

POISON = 77
GRAVITY = 9.81
OFFSET = 3


def poisoned(*shape, dtype=np.float64):
    return np.full(shape, POISON, dtype)


# --- device functions ---------------------------------------------------------------------------------------------------


@qgraph.func
def square(v):
    return v * v


@qgraph.func
def hypotenuse(a, b, scale=1.0):
    if a == 0.0:
        return abs(b) * scale
    return scale * np.sqrt(square(a) + square(b))


@qgraph.func
def both(a, b):
    return a + b, a - b


@qgraph.func
def store(x, i, v):
    x[i] = v


@numba.njit
def cube(v):
    return v * v * v


@numba.njit
def cube_plus(v, w):
    return cube(v) + w


def calls(x, y, z):
    for i in range(x.shape[0]):
        y[i] = hypotenuse(x[i], i) + hypotenuse(x[i], b=1.0, scale=2.0)
        s, d = both(x[i], y[i])
        z[i] = s * d
    for i in range(x.shape[0]):
        store(x, i, square(both(z[i], 1.0)[0]))


def test_device_functions_nested_with_defaults_keywords_and_tuples(check):
    check(calls, lambda: (np.linspace(-1.0, 1.0, 21), poisoned(21), poisoned(21)))


def calls_njit(x, y):
    for i in range(x.shape[0]):
        y[i] = cube_plus(x[i], 1.0) + cube(x[i])


def test_njit_functions(check):
    check(calls_njit, lambda: (np.linspace(-1.0, 1.0, 21), poisoned(21)))


def calls_at_two_types(x, k, y):
    for i in range(x.shape[0]):
        y[i] = square(x[i]) + square(k[i]) + square(i)


def test_one_function_at_several_types(check):
    check(calls_at_two_types, lambda: (np.ones(8, np.float32), np.arange(8, dtype=np.int32), poisoned(8)))


# --- funcs at kernel level ----------------------------------------------------------------------------------------------


@qgraph.func
def scale_all(x, factor):
    for i in range(x.shape[0]):
        x[i] *= factor


@qgraph.func
def smooth(x, t, times=2):
    for _ in qgraph.serial(range(times)):
        for i in range(1, x.shape[0] - 1):
            t[i] = 0.5 * (x[i - 1] + x[i + 1])
        for i in range(1, x.shape[0] - 1):
            x[i] = t[i]


@qgraph.func
def both_parts(x, y, t):
    scale_all(x, 2.0)
    smooth(y, t, times=1)
    y[0] = x[0] + 1.0


def inlined(x, y, t, a):
    scale_all(x, a)
    smooth(x, t)
    for i in range(x.shape[0]):
        y[i] += x[i]
    both_parts(y, x, t)
    scale_all(factor=0.5, x=t)


def test_loops_of_funcs_become_the_kernels(rig):
    kernel = rig.check(inlined, lambda: (np.arange(20.0) ** 2, np.ones(20), np.zeros(20), 3.0))
    # scale 1, smooth 2, own 1, both_parts 1 + 2 + 1 statement, scale 1.
    assert kernel.last_launch.tasks == 9


def swapped_names(y, x):
    scale_all(y, 3.0)
    for i in range(y.shape[0]):
        x[i] = y[i] + i


def test_an_inlined_funcs_names_do_not_meet_the_kernels(check):
    check(swapped_names, lambda: (np.arange(9.0), poisoned(9)))


@qgraph.func
def drain(x, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] += 1
        counter[()] -= 1


def two_drains(x, a, b):
    drain(x, a)
    for i in range(x.shape[0]):
        x[i] *= 10
    drain(x, b)


def test_a_do_while_inside_a_func(rig):
    x = np.zeros(5, np.int64)
    rig.run(rig.kernel(two_drains), x, np.array(4), np.array(3))
    assert (x == 43).all()
    # The reference enters both loops afresh as well.
    rig.check(two_drains, lambda: (np.zeros(5), np.array(4), np.array(3)))


# --- closures -----------------------------------------------------------------------------------------------------------


def make(factor, table):
    @qgraph.func
    def shifted(v):
        return v + factor

    def body(x):
        for i in range(x.shape[0]):
            x[i] = shifted(x[i]) * factor + table[1] + GRAVITY

    return body


def test_closures_of_kernels_and_funcs(rig):
    for factor in (2.0, -3.0):
        rig.check(make(factor, (1.0, factor, 5)), lambda: (np.arange(7.0),))


def uses_a_global(x):
    for i in range(OFFSET, x.shape[0]):
        x[i] = i - OFFSET


def test_a_changed_global_is_seen(rig):
    kernel = rig.check(uses_a_global, lambda: (poisoned(9),))
    globals()["OFFSET"] = 5
    try:
        rig.compare(kernel, lambda: (poisoned(9),))
    finally:
        globals()["OFFSET"] = 3
    rig.compare(kernel, lambda: (poisoned(9),))


# --- names by identity --------------------------------------------------------------------------------------------------


rng = range
box = qgraph.ndrange
root = np.sqrt


def uses_aliases(x, y):
    for i in rng(1, x.shape[0]):
        x[i] = root(i) + m.sin(x[i]) + m.pi
    for i, j in box(*y.shape):
        y[i, j] = i / 3 + np.pi


def test_aliases_of_range_ndrange_numpy_and_math(check):
    check(uses_aliases, lambda: (np.arange(9.0), np.zeros((3, 4), np.float64)))


def shadowed_parameter(x, range, np):
    for i in qgraph.ndrange(x.shape[0]):
        x[i] = range[i] + np


def test_parameters_may_shadow_range_and_np(check):
    check(shadowed_parameter, lambda: (poisoned(6), np.arange(6.0), 4.0))


@qgraph.func
def underscores(v):
    x, x_, x__ = v * 2, v + 1, v - 1
    return x * 100 + x_ * 10 + x__


def underscored(x, x_, y):
    for i in range(y.shape[0]):
        y[i] = underscores(x[i]) + x_


def test_local_names_that_differ_in_underscores_are_not_one(check):
    check(underscored, lambda: (np.arange(6.0), 0.5, poisoned(6)))


def make_shadow():
    @qgraph.func
    def max(a, b):
        return a - b

    def body(x, y):
        for i in range(x.shape[0]):
            y[i] = max(x[i], 2.0)

    return body


def test_a_shadowed_builtin_is_the_users_function(check):
    check(make_shadow(), lambda: (np.arange(6.0), poisoned(6)))


# --- arguments and methods ----------------------------------------------------------------------------------------------


def defaults(x, a=2.0, *, b=3, c=True):
    for i in range(x.shape[0]):
        x[i] = (a * i + b) if c else -1.0


def test_default_and_keyword_arguments(rig):
    kernel = rig.kernel(defaults)
    x = np.zeros(5)
    rig.run(kernel, x)
    assert x.tolist() == [3.0, 5.0, 7.0, 9.0, 11.0]
    rig.run(kernel, x, 1.0, b=4)
    assert x.tolist() == [4.0, 5.0, 6.0, 7.0, 8.0]
    rig.run(kernel, a=0.0, x=x, b=1)
    assert (x == 1.0).all()
    rig.run(kernel, x, c=False)
    assert (x == -1.0).all()
    assert kernel.stats.compilations == 1


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@qgraph.func
def with_numpys_defaults(v, a=np.float64(2.5), *, k=np.int32(3), level=Level.HIGH):
    if level is Level.HIGH:
        v = v * a
    return v + k + level


@qgraph.func
def sum_by_default(x, factor=np.int64(3)):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * factor
    return s


def numbers_of_numpy_by_default(x):
    for i in range(x.shape[0]):
        x[i] = with_numpys_defaults(x[i]) + with_numpys_defaults(x[i], k=np.int32(i), level=Level.LOW)
    a = with_numpys_defaults(x[0], np.float64(1.5))
    return a, sum_by_default(x)


def test_a_default_is_a_number_of_numpys_or_an_enumeration_member(check):
    check(numbers_of_numpy_by_default, lambda: (np.arange(4.0),))


def particles_on(backend):
    @dataclass
    class Particles:
        x: Any
        v: Any

        @qgraph.kernel(backend=backend)
        def step(self, dt, bounce=False):
            for i in range(self.x.shape[0]):
                self.x[i] += self.v[i] * dt
                if bounce and self.x[i] > 1.0:
                    self.v[i] = -self.v[i]

    return Particles


def test_a_method_of_a_dataclass_is_a_kernel(rig):
    x, v = np.array([0.0, 0.9]), np.array([1.0, 2.0])
    particles = particles_on(rig.backend)(rig.device(x), rig.device(v))
    particles.step(0.5)
    particles.step(0.25, bounce=True)
    assert qgraph.to_numpy(particles.x).tolist() == [0.75, 2.4]
    assert qgraph.to_numpy(particles.v).tolist() == [1.0, -2.0]


def test_a_kernel_keeps_the_functions_name_and_docstring(rig):
    kernel = rig.kernel(defaults)
    assert kernel.__name__ == "defaults"
    assert kernel.__wrapped__ is defaults


# --- funcs that give arrays, and tuples of them -------------------------------------------------------------------------


@qgraph.func
def itself(v):
    return v


@qgraph.func
def all_but_one(v):
    return v[1:]


@qgraph.func
def all_but_one_after_a_loop(v):
    for i in range(v.shape[0]):
        v[i] += 1.0
    return v[1:]


@qgraph.func
def turned_round(v):
    w = v[::-1]
    return w


@qgraph.func
def of_a_func(v):
    return all_but_one(itself(v))


@qgraph.func
def made(v):
    n = v.shape[0]
    t = qgraph.zeros(n)
    for i in range(n):
        t[i] = 2 * v[i]
    return t


@qgraph.func
def part_of_what_is_made(v):
    t = np.empty_like(v)
    t[:] = v
    return t[1:]


@qgraph.func
def with_a_size_of_the_device(v):
    k = int(v[1])
    return v[k:]


ARRAYS = [itself, all_but_one, all_but_one_after_a_loop, turned_round, of_a_func, made, part_of_what_is_made]


def assigned(f: qgraph.Static, x, y):
    n = f(x).shape[0]
    y[:n] = f(x)


def in_an_expression(f: qgraph.Static, x, y):
    y[1:4] = 2 * f(x)[:3] + y[:3]
    y[4:6] = f(f(x))[:2]


def added(f: qgraph.Static, x, y):
    y[1:4] += f(x)[:3]


def summed(f: qgraph.Static, x, y):
    y[0] = np.sum(f(x)) + f(x).sum() + f(x)[1] + np.dot(f(x), f(x)) + f(x) @ f(x)


def named(f: qgraph.Static, x, y):
    w = f(x)
    for i in range(3):
        w[i] = 4.0 + y[i]
    y[5] = w[1]


def named_in_a_serial_loop(f: qgraph.Static, x, y):
    for _ in qgraph.serial(range(2)):
        w = f(x)
        for i in range(3):
            y[i] += w[i]


def in_a_branch(f: qgraph.Static, x, y):
    if x[0] >= 0:
        y[1:4] = f(x)[:3]
    for i in range(3):
        x[i] = y[i]


USES = [assigned, in_an_expression, added, summed, named, named_in_a_serial_loop, in_a_branch]


def pairs() -> Iterator[Any]:
    """Uses with functions that give arrays, each of either several times."""
    for (row, kernel), (column, f) in itertools.product(enumerate(USES), enumerate([*ARRAYS, with_a_size_of_the_device])):
        if (row + column) % 3 == 0:
            yield pytest.param(kernel, f, id=f"{kernel.__name__}-{f.function.__name__}")


@pytest.mark.parametrize(("kernel", "f"), [*pairs()])
def test_funcs_that_give_arrays(kernel, f, check):
    check(kernel, lambda: (f, np.arange(8.0), np.linspace(3, 4, 8)))


def test_a_name_for_what_a_func_gives_is_the_array_that_a_loop_writes():
    tasks = qgraph.kernel(backend="cpu")(named).plan(itself, np.arange(8.0), poisoned(8)).tasks
    assert [(task.effects.reads, task.effects.writes) for task in tasks] == [({"y"}, {"x"}), ({"x"}, {"y"})]


@qgraph.func
def energies(v):
    return np.sum(v * v), np.max(v)


@qgraph.func
def two_parts(v):
    return v[1:], v[0]


class Energies(NamedTuple):
    kinetic: Any
    potential: Any


@qgraph.func
def named_energies(v):
    return Energies(np.sum(v), (np.max(v), v[1:]))


def tuples_into_elements(x, y, z):
    y[0], z[0] = energies(x)
    y[1], (z[1], z[2]) = x[3], energies(x)
    y[3], y[2] = y[2], energies(y)[0]
    y[4], (z[3], z[4]) = named_energies(x)[0], (named_energies(x).potential[0], 2)


def test_tuples_of_funcs_are_assigned_to_elements(check):
    check(tuples_into_elements, lambda: (np.arange(1.0, 6.0), np.arange(5.0), np.arange(5.0)))


def arrays_in_tuples(x, y):
    w, first = two_parts(x)
    y[:4] = w
    y[4] = first
    w[1] = 7.0
    t = (x, y)
    t[1][0] = 3.0
    y[1] = named_energies(x).potential[1][2]
    y[2:4] = Energies(x[1:], 2.0).kinetic[:2] * Energies(x[0], all_but_one(x)).potential[1]


def test_arrays_in_tuples_of_funcs(check):
    check(arrays_in_tuples, lambda: (np.arange(5.0), poisoned(5)))


@qgraph.func
def with_a_scratch_array(x, y):
    n = x.shape[0]
    m = len(x) if n > 3 else 3
    t = qgraph.zeros(n)
    s = np.empty((m, 2), dtype=x.dtype)
    for i in range(n):
        t[i] = x[i]
        s[i, 1] = 3 * x[i]
    for i in range(n):
        y[i] = t[n - 1 - i] + s[i, 1]


def sizes_in_funcs(x, y):
    with_a_scratch_array(x, y)
    with_a_scratch_array(x[1:], y[: x.shape[0] - 1])
    for _ in qgraph.serial(range(2)):
        with_a_scratch_array(y, x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_the_size_of_a_temporary_has_a_name_in_a_func(dtype, check):
    check(sizes_in_funcs, lambda: (np.arange(5).astype(dtype), poisoned(5, dtype=dtype)))


@qgraph.func
def and_one_more(number):
    other = number
    other += 1
    return other, number


@qgraph.func
def halved(x, limit):
    while limit > 1:
        limit = limit / 2
    for i in range(x.shape[0]):
        limit += x[i]
    return x * limit


def reductions_as_arguments(x, n):
    a = and_one_more(np.sum(x)), and_one_more(x.mean()), and_one_more(np.argmax(x)), and_one_more(np.any(n > 2))
    b = and_one_more(np.linalg.norm(x)), and_one_more(np.max(n)), and_one_more(np.sum(x, axis=0)), and_one_more(x @ x)
    return a, b, halved(x, np.sum(x)), halved(x, np.dot(x, x) + np.max(x))


def test_reductions_as_arguments_are_numbers(check):
    # They were arrays of one element, and other names for them changed with them.
    check(reductions_as_arguments, lambda: (np.array([0.5, 3.0, 1.5]), np.arange(3)))
