"""Tuples, named tuples and dataclasses as arguments, nested, with up to 512 leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import qgraph

POISON = 77


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Grid:
    x: Any
    spacing: float
    shape: tuple[int, int] = (3, 4)


@dataclass(frozen=True)
class State:
    grid: Grid
    pair: Pair
    parts: tuple[Any, ...]
    count: int = 3
    extra: Any = field(default=None)


def walk(state, pair, scale):
    for i in range(state.grid.x.shape[0]):
        state.grid.x[i] = state.grid.spacing * i + state.count
    for i in range(pair[0].shape[0]):
        pair[0][i] = state.grid.x[i] + pair.second[i] * scale[1]
    for i in range(state.grid.shape[0] * state.grid.shape[1]):
        state.parts[1][0][i] = state.parts[0][i] + scale[0]
    state.pair.first[()] += state.count


def make_state():
    grid = Grid(np.full(12, 77.0), 0.25)
    parts = (np.arange(12.0), (np.full(12, 77.0), 5))
    state = State(grid, Pair(np.array(1), np.array(2)), parts, count=4)
    return state, Pair(np.full(12, 77.0), np.arange(12.0)), (2, 0.5)


def test_nested_tuples_named_tuples_and_dataclasses(check):
    check(walk, make_state)


def test_values_inside_may_change_without_compiling(rig):
    kernel = rig.kernel(walk)

    def other(spacing, count):
        def args():
            state, pair, scale = make_state()
            grid = Grid(state.grid.x, spacing, (2, 3))
            return State(grid, state.pair, state.parts, count), pair, scale

        return args

    for spacing, count in ((0.5, 1), (2.0, 7)):
        rig.compare(kernel, other(spacing, count))
    assert kernel.stats.compilations == 1
    assert kernel.stats.graph_builds == 1


INNER = make_dataclass("INNER", [(f"f{i}", Any) for i in range(13)])
OUTER = make_dataclass("OUTER", [(f"g{i}", Any) for i in range(5)])


def sixty_five(s):
    for i in range(s.g0.f0.shape[0]):
        s.g0.f0[i] += s.g4.f12[i]
    for i in range(s.g2.f7.shape[0]):
        s.g2.f7[i] = s.g1.f3[i] * s.g3.f11[i]
    for i in range(s.g4.f12.shape[0]):
        s.g4.f12[i] = -1.0


def test_a_nested_dataclass_of_65_fields(rig):
    def args():
        fields = iter(range(65))
        return (OUTER(*(INNER(*(np.full(7, float(next(fields))) for _ in range(13))) for _ in range(5))),)

    kernel = rig.check(sixty_five, args)
    first, second, _ = kernel.plan(*args()).tasks
    # A task takes the leaves it reads, not all 65.
    assert len(first.effects.reads | first.effects.writes) == 2
    assert len(second.effects.reads | second.effects.writes) == 3


def first_and_last(leaves, out):
    for i in range(out.shape[0]):
        out[i] = leaves[0][i] + leaves[510][i] * 2 + leaves[255][i]


def test_512_leaves(rig):
    def args():
        return tuple(np.full(5, 1000 + k) for k in range(511)), np.full(5, POISON)

    kernel = rig.check(first_and_last, args)
    rig.compare(kernel, args)
    assert kernel.stats.compilations == 1


def scalars(x, a, b, c, d, e):
    for i in range(x.shape[0]):
        x[i] = a + b * i + (c if d else e)


def test_python_and_numpy_scalars(rig):
    kernel = rig.check(scalars, lambda: (np.zeros(5), 1, 2.5, np.float32(3.0), True, np.int16(4)))
    rig.compare(kernel, lambda: (np.zeros(5), 7, -2.5, np.float32(8.0), False, np.int16(9)))
    assert kernel.stats.compilations == 1


def test_complex_scalars(check):
    def add(z, a, b):
        for i in range(z.shape[0]):
            z[i] = z[i] * a + b

    check(add, lambda: (np.arange(5) * (1 + 1j), 2 + 1j, np.complex64(1j)))


def test_large_integers_keep_64_bits(check):
    def add(k, big, unsigned):
        for i in range(k.shape[0]):
            k[i] = big + i
        k[0] = (unsigned >> np.uint64(1)) + np.uint64(1) > np.uint64(5)

    check(add, lambda: (np.zeros(4, np.int64), 2**62 + 1, np.uint64(2**64 - 1)))


def optional(x, bias):
    for i in range(x.shape[0]):
        x[i] = 2.0 * i if bias is None else bias[i]


def test_none_as_an_argument(rig):
    kernel = rig.kernel(optional)
    rig.compare(kernel, lambda: (np.zeros(4), None))


@dataclass
class Two:
    left: Any
    right: Any


def made_and_returned(x, n):
    q = Pair(1, 2.5)
    r = Two(x[0], right=(x[1], n))
    (u, v) = r.right
    a, b = q
    return 3, q, r, u + v, a, b


def made_again_in_loops(x, n):
    q = Pair(n, 2.5)
    for _ in qgraph.serial(range(n)):
        q = Pair(q.first + 1, q.second * 0.5)
    r = Two(x[0], 2.5)
    k = 0
    while k < n:
        r = Two(r.right, r.left + k)
        k += 1
    for i in range(x.shape[0]):
        x[i] += q.second * r.left
    return q, r


def made_in_branches(x, n):
    q = Pair(0, 0.0)
    if x[1] > 0:
        q = Pair(5, x[2])
    else:
        q = Pair(7, x[3])
    for i in range(x.shape[0]):
        x[i] += q.second * q.first
    return q


def made_of_arrays(x, n):
    q = Two(x, 2.0)
    for i in range(q.left.shape[0]):
        q.left[i] *= q.right
    return q.right


@pytest.mark.parametrize("function", [made_and_returned, made_again_in_loops, made_in_branches, made_of_arrays])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_structures_made_at_kernel_level(check, function, sign):
    check(function, lambda: ((np.arange(4.0) + 1) * sign, 5), noop=function is made_and_returned)


@qgraph.func
def advanced(pair, by):
    return Pair(pair.first, pair.second + by)


@qgraph.func
def turned(pair):
    return Pair(pair[1], pair[0])


@qgraph.func
def halves(two, n):
    return Two(two.left * 2, (two.right, n))


def through_funcs(x, n):
    q = Pair(x, n)
    q = advanced(q, 3)
    r = advanced(advanced(q, by=1), 10)
    t = turned(Pair(n, r.second))
    h = halves(Two(n, t.first), 4)
    for i in range(q.first.shape[0]):
        r.first[i] += q.second * 1000 + r.second * 10 + t.first
    return q.second, t, h.left, h.right[0] + h.right[1]


def through_funcs_in_loops(x, n):
    q = Pair(0.5, n)
    for _ in qgraph.serial(range(n)):
        q = advanced(q, 2)
        if q.second > 8:
            q = Pair(q.first * 2, q.second - 3)
    for i in range(x.shape[0]):
        x[i] += q.second * q.first
    return q


def nested_through_funcs(x, n):
    q = Pair((n, x[1]), 5.0)
    r = turned(q)
    q = turned(turned(Pair(r.second, n)))
    for i in range(x.shape[0]):
        x[i] += r.second[0] * 100 + r.second[1] * 10 + q.first[1] + q.second
    return r, q.first


@qgraph.func
def grown(pair):
    return Pair((pair.first[0] + 1, pair.first[1] * 2), pair.second)


def nested_in_loops(x, n):
    q = Pair((n, n + 1), 5.0)
    for t in qgraph.serial(range(4)):
        if t > 1:
            q = turned(turned(q))
        else:
            q = grown(advanced(q, 1))
    for i in range(x.shape[0]):
        x[i] += q.first[0] * 100 + q.first[1] + q.second
    return q.first, q


def several_at_once(x, n):
    p, m = Pair(x, n), n + 1
    q, (r, s), t = (n, n + 2), ((n + 3, n + 4), Pair(n + 5, 6)), 7
    p, q = q, p
    for i in range(x.shape[0]):
        q.first[i] += p[0] * 1000 + r[1] * 100 + s.second * 10 + t + m
    return p[1], r, s, q.second


def kept_apart(x, n):
    p = (n, n + 1)
    q, m = p, 3
    for t in qgraph.serial(range(4)):
        p = (p[0] + t, p[1] + 1)
        r, m = Pair(p[0], q[1]), m + t
    for i in range(x.shape[0]):
        x[i] += q[0] * 100 + p[1] * 10 + m + r.first
    return p, q, r


def swapped_in_loops(x, n):
    p, q = (n, n + 1), (n + 7, n + 9)
    for _ in qgraph.serial(range(n)):
        p, q = q, p
    for i in range(x.shape[0]):
        x[i] += p[0] * 100 + q[1]
    return p


@pytest.mark.parametrize(
    "function",
    [
        through_funcs,
        through_funcs_in_loops,
        nested_through_funcs,
        nested_in_loops,
        several_at_once,
        kept_apart,
        swapped_in_loops,
    ],
    ids=lambda each: each.__name__,
)
@pytest.mark.parametrize("n", [2, 5])
def test_structures_through_funcs_and_several_at_once(check, function, n):
    check(function, lambda: (np.arange(4.0), n))


# --- indices that are known ----------------------------------------------------------------------------------------------

LAST = 2
WEIGHTS = (1, 0.25, np.float32(3))


@qgraph.func
def mean_of(numbers):
    s = 0.0
    for k in qgraph.static(range(len(numbers))):
        s += numbers[k]
    return s / len(numbers)


def numbers_by_index(x, t, mode: qgraph.Static = 1):
    for i in range(x.shape[0]):
        for k in qgraph.static(range(3)):
            x[i] += t[k] * WEIGHTS[k] + k
        x[i] += t[LAST] * len(t) + mean_of(t) - t[mode]
    n = len(t)
    return n, t[LAST], WEIGHTS[mode], mean_of(t), len(t) + 1 if len(t) > 2 else 0, np.full(len(t), len(t))


def arrays_by_index(x, pair):
    for k in qgraph.static(range(2)):
        pair[k][:] += k + 1
        for i in range(pair[k].shape[0]):
            pair[k][i] *= x[i]
        x[k] = np.sum(pair[k])
    return len(pair)


def test_elements_of_tuples_by_indices_that_are_known(check):
    check(numbers_by_index, lambda: (np.arange(4.0), (1, 2, 3.5)))
    check(arrays_by_index, lambda: (np.arange(4.0), Pair(np.ones(2), np.arange(4.0))))


def beyond(x):
    x[0] = WEIGHTS[3]


def test_elements_that_a_global_tuple_lacks_are_refused_by_name(rig):
    with pytest.raises(qgraph.KernelSyntaxError, match="^`WEIGHTS` has 3 elements, there is no element 3"):
        rig.run(rig.kernel(beyond), np.ones(3))


# --- defaults of fields --------------------------------------------------------------------------------------------------


class Scaled(NamedTuple):
    value: Any
    scale: Any = -2.5


@dataclass
class Placed:
    x: Any
    n: int = 3


def defaults_at_kernel_level(x, n):
    p, q = Placed(x), Scaled(n)
    for _ in qgraph.serial(range(n)):
        q = Scaled(q.value + q.scale)
    return p, p.n, q, Scaled(scale=2, value=x[0])


@qgraph.func
def scaled(value):
    return Scaled(value)


def defaults_in_loops(x, n):
    for i in range(x.shape[0]):
        p, q = scaled(x[i]), Scaled(scale=i, value=n)
        x[i] = p.value * p.scale + q.value * q.scale + Scaled(n)[1]


@pytest.mark.parametrize("function", [defaults_at_kernel_level, defaults_in_loops])
def test_fields_that_have_defaults_may_be_left_out(check, function):
    check(function, lambda: (np.arange(4.0), 3), noop=function is defaults_at_kernel_level)


def test_a_default_that_changes_is_seen(rig, monkeypatch):
    kernel = rig.kernel(defaults_in_loops)
    rig.compare(kernel, lambda: (np.arange(4.0), 3))
    monkeypatch.setattr(Scaled.__new__, "__defaults__", (4.0,))
    rig.compare(kernel, lambda: (np.arange(4.0), 3))


def too_many_in_a_loop(x):
    for i in range(x.shape[0]):
        x[i] = Scaled(x[i], 1, 2).value


def dataclass_in_a_loop(x):
    for i in range(x.shape[0]):
        x[i] = Placed(x[i]).n


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (too_many_in_a_loop, r"^`Scaled\(x\[i\], 1, 2\)` does not give each field of Scaled once"),
        (dataclass_in_a_loop, r"^`Placed\(x\[i\]\)` makes a dataclass in a loop"),
    ],
)
def test_what_loops_cannot_make_is_refused_by_name(rig, function, message):
    with pytest.raises(qgraph.KernelSyntaxError, match=message):
        rig.run(rig.kernel(function), np.ones(3))
