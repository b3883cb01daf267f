"""``fuse=True``: which loops are joined, which are not and why, which run side by side; and that nothing else changes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.language import atomic_add, atomic_exch

POISON = 77


def ramp(n, dtype=float):
    return (np.arange(n) % 7 + 1).astype(dtype)


def poison(n, dtype=float):
    return np.full(n, POISON, dtype)


def numbers(count, n=9):
    return lambda: (ramp(n), *(poison(n) for _ in range(count - 1)))


def fused(kernel, *args):
    """Of the plan: the line offsets of the loops in each kernel that runs any, joined ones in a tuple."""
    line = kernel.reference.__self__._source.function.__code__.co_firstlineno
    plan = kernel.plan(*args)
    found = []
    for node in plan.nodes:
        if node.task is not None and node.task.role == "loop":
            parts = [tuple(loop.span.line - line for loop in task.written) for task in (node.task, *node.beside)]
            found.append(parts if node.beside else parts[0])
    return found


def is_joined(plan):
    return any(task.joined for node in plan.nodes for task in node.tasks)


def side_by_side(plan):
    return [1 + len(node.beside) for node in plan.nodes if node.beside]


# --- joined -----------------------------------------------------------------------------------------------------------


def chain(a, b, c):
    for i in range(a.shape[0]):
        t = a[i] * 2
        b[i] = t
    for j in range(a.shape[0]):
        t = int(b[j]) // 3
        c[j] = t
    for k in range(a.shape[0]):
        j = 0.5
        a[k] = a[k] + c[k] * j


def test_a_chain_of_elementwise_loops_is_one_loop(check):
    kernel = check(chain, numbers(3), fuse=True)
    assert fused(kernel, *numbers(3)()) == [(1, 4, 7)]
    assert kernel.last_launch.tasks == 3
    assert kernel.last_launch.nodes == 1
    assert len(qgraph.kernel(chain).plan(*numbers(3)()).nodes) == 3
    assert "joined, 3 loops in one" in str(kernel.explain(*numbers(3)()))


def test_loops_of_other_sizes_need_no_other_code(check, rig):
    kernel = check(chain, numbers(3), fuse=True)
    for n in (0, 1, 33, rig.size(700)):
        rig.compare(kernel, numbers(3, n), noop=n == 0)
    assert kernel.stats.compilations == 1


def axes(a, b):
    for i, j in qgraph.ndrange(a.shape[0], (1, a.shape[1])):
        b[i, j] = a[i, j - 1] + i
    for I in qgraph.ndrange(a.shape[0], (1, a.shape[1])):
        b[I] = b[I] * 2 + I[1]
    for q, i in qgraph.ndrange(a.shape[0], (1, a.shape[1])):
        b[q, i] -= q


def test_loops_over_several_axes(check):
    def args():
        return ramp(20).reshape(4, 5).copy(), poison(20).reshape(4, 5).copy()

    assert fused(check(axes, args, fuse=True), *args()) == [(1, 3, 5)]


def sums(a, b):
    s = 0.0
    best, at = -1.0, -1
    for i in range(a.shape[0]):
        s += a[i]
        b[i] = a[i]
    for i in range(a.shape[0]):
        b[i] += 1
        if b[i] > best:
            best, at = b[i], i
    for i in range(a.shape[0]):
        b[i] = b[i] * 3
    return s, best, at


def test_loops_with_reductions(check, size):
    def args():
        return ramp(size(3000)), poison(size(3000))

    assert fused(check(sums, args, fuse=True), *args()) == [(3, 6, 10)]


def elements(a, out, b):
    for i in range(a.shape[0]):
        out[0] += a[i]
    for i in range(a.shape[0]):
        b[i] = a[i] - 1


def test_a_reduction_into_an_element(check):
    def args():
        return ramp(9), np.zeros(1), poison(9)

    assert fused(check(elements, args, fuse=True), *args()) == [(1, 3)]


def swapped(u, v, steps):
    for _ in qgraph.serial(range(steps)):
        for i in range(u.shape[0]):
            v[i] = u[i] + 1
        for i in range(u.shape[0]):
            u[i] = 2 * v[i] - u[i]
        u, v = v, u


def test_arrays_that_change_places_in_a_device_loop(check):
    def args():
        return ramp(6), ramp(6) * 2, 3

    kernel = check(swapped, args, fuse=True)
    assert fused(kernel, *args()) == [(2, 4)]


def branches(a, b, which):
    if which > 0:
        for i in range(a.shape[0]):
            a[i] += 1
        for i in range(a.shape[0]):
            b[i] = a[i]
    else:
        for i in range(a.shape[0]):
            b[i] = 1
        for i in range(a.shape[0]):
            a[i] = b[i] + 1
        for i in range(a.shape[0]):
            a[i] += b[i - 1]


@pytest.mark.parametrize("which", [1, 0])
def test_loops_in_branches(check, which):
    def args():
        return ramp(6), poison(6), which

    assert fused(check(branches, args, fuse=True), *args()) == [(2, 4), (7, 9), (11,)]


def histograms(a, bins, other):
    for i in range(a.shape[0]):
        bins[a[i] % 3] += 1
    for i in range(a.shape[0]):
        bins[(a[i] + 1) % 3] -= 4
        other[i] = a[i]


def test_atomic_updates_of_which_nobody_sees_the_order(check):
    def args():
        return ramp(20, np.int64), np.zeros(3, np.int64), poison(20, np.int64)

    assert fused(check(histograms, args, fuse=True), *args()) == [(1, 3)]


def around(a, b, m, n):
    s = 1
    for i in range(a.shape[0]):
        b[i] = a[i]
    s = s + n
    for i in range(m.shape[0]):
        m[i] += 1
    for i in range(a.shape[0]):
        b[i] *= 2
    return s


def test_a_loop_moves_past_what_it_has_nothing_to_do_with(check):
    def args():
        return ramp(5), poison(5), ramp(3), 4

    assert fused(check(around, args, fuse=True), *args()) == [[(2, 7), (5,)]]


@qgraph.func
def scale(x):
    return x * 3


def functions(a, b):
    for i in range(a.shape[0]):
        b[i] = scale(a[i])
    scale_ = 2.0
    for i in range(a.shape[0]):
        b[i] = scale(b[i]) + scale_


def test_functions_and_scalars(check):
    # What comes between gives the second loop a number: it may go before both.
    kernel = check(functions, numbers(2), fuse=True)
    assert fused(kernel, *numbers(2)()) in ([(1, 4)], [(1,), (4,)])


def times(number):
    @qgraph.func
    def scaled(x):
        return x * number

    return scaled


twice, thrice = times(2), times(3)


@qgraph.func
def apply(f: qgraph.Static, a):
    for i in range(a.shape[0]):
        a[i] = f(a[i])


def applied(a):
    apply(twice, a)
    apply(thrice, a)


def test_functions_of_one_name(check):
    kernel = check(applied, lambda: (ramp(6),), fuse=True)
    assert is_joined(kernel.plan(ramp(6)))


def places(a, b):
    low, at = 99.0, -1
    high, there = -99.0, -1
    for i in range(a.shape[0]):
        if a[i] < low:
            low, at = a[i], i
        b[i] = a[i]
    for i in range(a.shape[0]):
        if b[i] >= high:
            high, there = b[i], i
    return low, at, high, there


def test_two_extremes_with_their_places(check, size):
    def args():
        return (np.arange(size(3000)) * 7 % 31).astype(float), poison(size(3000))

    assert fused(check(places, args, fuse=True), *args()) == [(3, 7)]


def counted(a, b, n):
    for i in range(n[0]):
        b[i] = a[i]
    for i in range(n[0]):
        b[i] += a[i]


def test_a_range_that_only_the_device_knows(check):
    def args():
        return ramp(8), poison(8), np.array([5])

    assert fused(check(counted, args, fuse=True), *args()) == [(1, 3)]


def skipping(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i in range(a.shape[0]):
        if a[i] > 3:
            continue
        b[i] += 1


def test_the_last_loop_may_continue(check):
    assert fused(check(skipping, numbers(2), fuse=True), *numbers(2)()) == [(1, 3)]


def guards(a, b):
    for i in range(a.shape[0]):
        if a[i] == 2:
            continue
        b[i] = a[i]
        if a[i] > 3:
            b[i] += 1
        else:
            for k in range(3):
                if k == 1:
                    continue
                b[i] += k
            if a[i] == 3:
                b[i] += 7
                continue
            b[i] += 5
            continue
        b[i] *= 2
    for i in range(a.shape[0]):
        b[i] += 1


def test_a_loop_that_continues_before_another(check):
    assert fused(check(guards, numbers(2), fuse=True), *numbers(2)()) == [(1, 18)]


def slices(a, b):
    b[1:] = a[1:]
    b[1:] += a[1:] * 2
    b[:] = 1.0


def test_array_statements(check):
    assert len(check(slices, numbers(2), fuse=True).plan(*numbers(2)()).nodes) < 3


def in_place(a, b):
    for i in range(a.shape[0]):
        a[i] += 1
    for i in range(a.shape[0]):
        b[i] = b[i] * a[i]


def test_one_array_under_two_names(check):
    def args():
        a = ramp(9)
        return a, a

    assert fused(check(in_place, args, fuse=True), *args()) == [(1, 3)]


# --- not joined -------------------------------------------------------------------------------------------------------


def next_one(a, b):
    for i in range(a.shape[0] - 1):
        a[i] = i
    for i in range(a.shape[0] - 1):
        b[i] = a[i + 1]


def overwritten(a, b):
    for i in range(a.shape[0] - 1):
        b[i] = a[i + 1]
    for i in range(a.shape[0] - 1):
        a[i] = 5


def turned(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i in range(a.shape[0]):
        b[a.shape[0] - 1 - i] += i


def somewhere(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i in range(a.shape[0]):
        a[i] = b[int(a[i]) % a.shape[0]]


def summed(a, b):
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i]
    for i in range(a.shape[0]):
        b[i] = a[i] / s
    return s


def again(a, b):
    s = 0.0
    for i in range(a.shape[0]):
        b[i] = a[i] + s
    for i in range(a.shape[0]):
        s = s + b[i]
    return s


def element(a, out):
    for i in range(a.shape[0]):
        out[0] += a[i]
    for i in range(a.shape[0]):
        a[i] = out[0]


def others(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i in range(b.shape[0]):
        b[i] += a[i]


def between(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i]
    a[2] = 55
    for i in range(a.shape[0]):
        b[i] += a[i]


def inside(a, b, flag):
    for i in range(a.shape[0]):
        b[i] = a[i]
    while qgraph.graph_do_while(flag):
        a[1] = 9
        flag[0] = 0
    for i in range(a.shape[0]):
        b[i] += a[i]


def elsewhere(a, b, c):
    for i in range(a.shape[0]):
        b[i] = a[i]
    c[2] = 55
    for i in range(a.shape[0]):
        b[i] += a[i]


def test_memory_that_another_name_has(check):
    def args(shift):
        memory = ramp(9)
        return memory[:8], poison(8), memory[shift:] if shift is not None else poison(9)

    for shift, together in ((None, True), (0, False), (1, False)):
        kernel = check(elsewhere, lambda shift=shift: args(shift), fuse=True)
        assert is_joined(kernel.plan(*args(shift))) == together


def through(a, b, c, m):
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i in range(m.shape[0]):
        m[i] = b[0] + i
    q = m[1]
    for i in range(a.shape[0]):
        c[i] = a[i] * q


def test_what_comes_between_brings_along_what_it_needs(check):
    def args():
        return ramp(6), poison(6), poison(6), ramp(3) * 5

    assert not is_joined(check(through, args, fuse=True).plan(*args()))


def first_skips(a, b):
    for i in range(a.shape[0]):
        if a[i] > 3:
            if a[i] > 4:
                continue
            b[i] = 2
        b[i] += a[i]
    for i in range(a.shape[0]):
        b[i] += 1


def own_variable(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i]
        i = 0
    for i in range(a.shape[0]):
        b[i] += i


def owned_and_atomic(a, bins):
    for i in range(a.shape[0]):
        bins[i] += 1
    for i in range(a.shape[0]):
        bins[a[i]] += 2


def old_values(a, bins):
    for i in range(a.shape[0]):
        a[i] = atomic_add(bins, 0, 1) * 0 + 1
    for i in range(a.shape[0]):
        atomic_add(bins, 0, a[i])


def exchanged(a, bins):
    for i in range(a.shape[0]):
        atomic_exch(bins, 0, 5)
    for i in range(a.shape[0]):
        atomic_add(bins, 0, a[i] * 0 + 1)


def rows(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i in range(a.shape[0]):
        for k in range(3):
            a[i] += b[(i + k) % a.shape[0]]


def whole(n=9):
    return ramp(n), poison(n)


def integers(n=6):
    return np.arange(n) % 3, np.zeros(n, np.int64)


REASONS = [
    (next_one, whole, "`a[i + 1]` reads what another iteration writes by `a[i]`"),
    (overwritten, whole, "`a[i]` writes what another iteration reads by `a[i + 1]`"),
    (turned, whole, "`b[a.shape[0] - 1 - i]` updates what another iteration writes by `b[i]`"),
    (somewhere, whole, "`b[int(a[i]) % a.shape[0]]` may read what another iteration writes by `b[i]`"),
    (summed, whole, "one combines values in `s`, which the other uses"),
    (again, whole, "one combines values in `s`, which the other uses"),
    (element, lambda: (ramp(5), np.ones(1)), "one combines values in `out`, which the other uses"),
    (others, whole, "`range(a.shape[0])` and `range(b.shape[0])` are not known to be the same"),
    (between, whole, "what line 3 does comes between them"),
    (inside, lambda: (ramp(5), poison(5), np.ones(1, int)), "what line 3 does comes between them"),
    (first_skips, whole, "its `continue` ends the iteration"),
    (own_variable, whole, "it assigns its own variable"),
    (owned_and_atomic, integers, "`bins[a[i]]` may update what another iteration updates by `bins[i]`"),
    (old_values, integers, "`atomic_add(bins, 0, a[i])` may update what another iteration updates"),
    (exchanged, integers, "may update what another iteration updates"),
    (rows, whole, "`b[(i + k) % a.shape[0]]` reads what another iteration writes by `b[i]`"),
]


@pytest.mark.parametrize(("function", "args", "reason"), REASONS, ids=lambda each: getattr(each, "__name__", ""))
def test_loops_that_are_not_joined(check, function, args, reason):
    kernel = check(function, args, fuse=True)
    plan = kernel.plan(*args())
    assert not is_joined(plan)
    line = function.__code__.co_firstlineno
    text = re.sub(r"line (\d+)", lambda found: f"line {int(found[1]) - line}", str(plan))
    assert f"not joined with the loop at line {1 + (function in (summed, again))}: " in text
    assert reason in text


def test_arrays_that_overlap_in_part(check):
    def args():
        memory = ramp(10)
        return memory[:9], memory[1:]

    kernel = check(separate, args, fuse=True)
    plan = kernel.plan(*args())
    assert not is_joined(plan)
    assert not side_by_side(plan)
    assert len(kernel.plan(ramp(9), ramp(9)).nodes) == 1


def separate(a, b):
    for i in range(a.shape[0]):
        a[i] += 1
    for i in range(a.shape[0]):
        b[i] *= 2


def same_or_not(u, v, w, flag):
    if flag > 0:
        u, v = v, u
    for i in range(w.shape[0] - 1):
        u[i] = w[i]
    for i in range(w.shape[0] - 1):
        w[i] = v[i + 1]


@pytest.mark.parametrize("flag", [0, 1])
def test_arrays_that_are_the_same_at_times(check, flag):
    def args():
        x = ramp(8)
        return x, x * 2, ramp(8) * 3, flag

    def alias():
        x = ramp(8)
        return x, x, ramp(8) * 3, flag

    check(same_or_not, args, fuse=True)
    kernel = check(same_or_not, alias, fuse=True)
    assert not is_joined(kernel.plan(*alias()))


def old_name(u, v, out, flag):
    w = u
    if flag > 0:
        u, v = v, u
    for i in range(out.shape[0] - 1):
        u[i] = 9
    for i in range(out.shape[0] - 1):
        out[i] = w[i + 1]


@pytest.mark.parametrize("flag", [0, 1])
def test_an_array_that_may_be_the_one_with_another_name(check, flag):
    def args():
        return ramp(8), ramp(8) * 2, ramp(8) * 3, flag

    kernel = check(old_name, args, fuse=True)
    assert not is_joined(kernel.plan(*args()))
    assert "`u[i + 1]` reads what another iteration writes by `u[i]`" in str(kernel.plan(*args()))


def equal_sums_of_integers(x, k, m, y):
    s = y[0]
    for i in range(k.shape[0]):
        x[k[i]] = s
    for i in range(k.shape[0]):
        x[m[i]] = s + 1 - 1


def equal_products_of_integers(x, k, m, y):
    s = y[0]
    for i in range(k.shape[0]):
        x[k[i]] = s
    for i in range(k.shape[0]):
        x[m[i]] = s * 2 // 2


def nothing_of_integers(x, k, m, y):
    s = y[0]
    for i in range(k.shape[0]):
        x[k[i]] = 0
    for i in range(k.shape[0]):
        x[m[i]] = s - s


@pytest.mark.parametrize("value", [0.3, np.inf])
@pytest.mark.parametrize("kernel", [equal_sums_of_integers, equal_products_of_integers, nothing_of_integers])
def test_numbers_that_are_equal_if_they_are_integers(check, kernel, value):
    """Which of the loops stores last in an element decides what it is."""

    def args():
        return poison(8), np.arange(8), np.arange(8)[::-1].copy(), np.array([value])

    assert not is_joined(check(kernel, args, fuse=True, tolerance=0).plan(*args()))


# --- side by side -----------------------------------------------------------------------------------------------------


def apart(a, b, c, d):
    for i in range(a.shape[0]):
        t = 2
        a[i] += t
    for i in range(b.shape[0]):
        t = 0.5
        if b[i] > 3:
            continue
        b[i] *= t
    for i, j in qgraph.ndrange(*c.shape):
        t = i > j
        c[i, j] = t
    for i in range(d.shape[0]):
        d[i] = a[i % a.shape[0]]


def args_apart(sizes=(9, 20, 3, 11)):
    n, m, p, q = sizes
    return lambda: (ramp(n, np.int64), ramp(m, np.float32), np.full((p, p + 1), POISON), np.full(q, POISON))


def test_independent_loops_share_a_kernel(check):
    kernel = check(apart, args_apart(), fuse=True)
    assert fused(kernel, *args_apart()()) == [[(1,), (4,), (9,)], (12,)]
    plan = kernel.plan(*args_apart()())
    assert len(plan.nodes) == 2
    assert plan.edges == ((0, 1),)
    assert kernel.last_launch.tasks == 4
    assert "and 2 beside it" in str(plan)
    assert plan.to_dot().count("->") == 1


def test_loops_side_by_side_of_other_sizes(check, rig):
    kernel = check(apart, args_apart(), fuse=True)
    for sizes in ((1, 0, 2, 3), (rig.size(300), 1, 0, 9), (4, rig.size(600), 5, 5)):
        rig.compare(kernel, args_apart(sizes))
    assert kernel.stats.compilations == 1


def empty(a, b):
    for i in range(a.shape[0]):
        a[i] = 1
    for i in range(b.shape[0]):
        b[i] = 1


def test_loops_side_by_side_without_iterations(rig):
    rig.compare(rig.kernel(empty, fuse=True), lambda: (np.zeros(0), np.zeros(0)), noop=True)


def turns(a, b, c, flag):
    while qgraph.graph_do_while(flag):
        for i in range(a.shape[0]):
            a[i] += 1
        for i in range(b.shape[0]):
            b[i] += 2
        s = 0
        for i in range(c.shape[0]):
            c[i] += a[i % a.shape[0]]
        for i in range(b.shape[0]):
            b[i] -= 1 + s
        flag[0] -= 1


def test_loops_side_by_side_in_a_device_loop(check):
    def args():
        return ramp(5), ramp(7), ramp(3), np.array([3])

    kernel = check(turns, args, fuse=True)
    plan = kernel.plan(*args())
    assert side_by_side(plan)
    assert len(plan.nodes) < len(qgraph.kernel(turns).plan(*args()).nodes)


def spare(a, b, c, d):
    for i in range(a.shape[0]):
        a[i] += 1
    for i in range(b.shape[0]):
        b[i] += a[0]
    for i in range(c.shape[0]):
        c[i] += b[0]
    for i in range(d.shape[0]):
        d[i] *= 2
    d[0] = 1


def test_a_loop_with_time_to_spare_makes_no_way_longer():
    args = [ramp(n) for n in (3, 4, 5, 6)]
    plan = qgraph.kernel(spare, fuse=True).plan(*args)
    assert len(plan.nodes) == 4
    assert plan.edges in (((0, 1), (1, 2), (0, 3)), ((0, 1), (0, 3), (1, 2)), ((0, 1), (1, 2), (1, 3)))


def many(x, y):
    for i in range(x.a.shape[0]):
        x.a[i] += 1
    for i in range(x.b.shape[0]):
        x.b[i] += 2
    for i in range(y.shape[0]):
        y[i] = 3
    s = 0.0
    for i in range(y.shape[0]):
        s += y[i]
    return s


def applied_apart(a, b, c, n):
    apply(twice, a)
    apply(thrice, b)
    for i in range(n[0]):
        c[i] = i


def test_functions_of_one_name_side_by_side_and_a_loop_that_only_the_device_knows(check):
    def args():
        return ramp(6), ramp(11), poison(9), np.array([4])

    kernel = check(applied_apart, args, fuse=True)
    assert sorted(map(len, fused(kernel, *args()))) == [1, 2]


def test_fills_and_sums(check):
    from dataclasses import dataclass

    @dataclass
    class Pair:
        a: np.ndarray
        b: np.ndarray

    def args():
        return Pair(ramp(4), ramp(6)), poison(5)

    kernel = check(many, args, fuse=True)
    # The fill and the sum are joined, behind `s = 0.0`.
    assert fused(kernel, *args()) == [[(1,), (3,)], (5, 8)]


def test_a_plan_of_parts_that_would_be_too_long_stays_in_two():
    lines = ["def wide(" + ", ".join(f"a{k}" for k in range(90)) + "):"]
    for k in range(90):
        lines += [f"    for i in range(a{k}.shape[0]):", f"        a{k}[i] += 1"]
    import linecache

    source = "\n".join(lines) + "\n"
    linecache.cache["<wide>"] = (len(source), None, source.splitlines(keepends=True), "<wide>")
    names: dict[str, object] = {}
    exec(compile(source, "<wide>", "exec"), names)
    plan = qgraph.kernel(names["wide"], fuse=True).plan(*(np.ones(3) for _ in range(90)))
    # Seven words an array: 64 arrays are 448.
    assert side_by_side(plan) == [64, 26]


def test_nothing_is_fused_unless_asked_for():
    plan = qgraph.kernel(chain).plan(*numbers(3)())
    assert not is_joined(plan)
    assert not side_by_side(plan)
    assert not any(task.note for node in plan.nodes for task in node.tasks)
    assert "joined" not in str(plan)


def in_steps(x, y, a):
    for i in range(x.shape[0]):
        y[i] = x[i] + a
    for i in range(x.shape[0]):
        y[i] = y[i] * y[i]
    for i in range(x.shape[0]):
        y[i] = y[i] - x[i]


def at_once(x, y, a):
    for i in range(x.shape[0]):
        t = x[i] + a
        y[i] = t * t - x[i]


@pytest.mark.needs("compiler")
def test_joined_loops_touch_memory_as_often_as_one_by_hand():
    def accesses(function, **options):
        (text,) = qgraph.kernel(function, **options).ptx(ramp(9), ramp(9), 0.5).values()
        return len(re.findall(r"\bld\.global", text)), len(re.findall(r"\bst\.global", text))

    assert accesses(in_steps, fuse=True) == accesses(at_once)


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("function", [chain, apart, sums, turns], ids=lambda each: each.__name__)
def test_fused_kernels_compile_and_link(function):
    from qgraph.lowering.ptx.link import device_runtime_path, link

    args = {
        "chain": numbers(3),
        "apart": args_apart(),
        "sums": numbers(2),
        "turns": lambda: (ramp(5), ramp(7), ramp(3), np.ones(1, int)),
    }
    kernel = qgraph.kernel(function, fuse=True)
    texts = kernel.ptx(*args[function.__name__]())
    assert len(texts) < len(qgraph.kernel(function).ptx(*args[function.__name__]()))
    assert link(list(dict.fromkeys(texts.values())), (9, 0), device_runtime=device_runtime_path() is not None)


def loops_of_swaps_alone(x, y, n):
    for _ in qgraph.serial(range(n)):
        x, y = y, x
    k = 0
    while x[0] < 2 and k < n:
        x, y = y, x
        k += 1
    for i in range(x.shape[0]):
        x[i] += i
    return k


@pytest.mark.parametrize("n", [0, 3, 12])
def test_loops_in_which_arrays_change_places_and_nothing_else(check, n):
    check(loops_of_swaps_alone, lambda: (ramp(5), ramp(5) * 2, n), fuse=True)


# --- new arrays of one iteration ----------------------------------------------------------------------------------------


def of_new_arrays(x, y):
    left = x * 2.0
    right = left + y
    right[right > 3.0] = right[right > 3.0] - left[right > 3.0]
    y[:] = right / 3


def of_narrow_numbers(x, y):
    less = x.astype(np.float32)
    less[:] = less / 3.1 + y
    whole = (x * 10).astype(np.int64)
    whole[:] = whole * 0.37
    y[:] = less
    x[:] = whole * 0.5


def that_are_summed(x, y):
    mask = np.logical_and(x > 2.0, x < 6.0)
    some = y[mask] * 2
    y[0] = np.sum(x * mask)
    y[1] = some.sum()


def of_two_arguments(x, y):
    near = x > 2.0
    y[1] = y[near].sum()


def in_a_loop(x, y):
    for _ in qgraph.serial(range(3)):
        step = (y - x) / 4
        x += step
        y -= step


@pytest.mark.parametrize("kernel", [of_new_arrays, of_narrow_numbers, that_are_summed, of_two_arguments, in_a_loop])
def test_new_arrays_of_one_iteration_are_numbers(check, kernel) -> None:
    check(kernel, numbers(2), fuse=True)


@pytest.mark.parametrize("kernel", [of_new_arrays, of_two_arguments])
def test_they_need_no_memory(kernel) -> None:
    plan, apart = (qgraph.kernel(backend="cpu", fuse=fuse)(kernel).plan(*numbers(2)()) for fuse in (True, False))
    assert len(apart.program.temporaries) > len(plan.program.temporaries) == 0
    assert "in registers: `" in str(plan)
    assert "in registers" not in str(apart)


def reacting(u, v):
    """The product needs no memory, so that loops as written, each of which needs it, cannot run in tiles."""
    for _ in qgraph.serial(range(v.shape[0])):
        product = u * v
        around = np.zeros_like(u)
        around[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1]
        u += 0.1 * around - product
        v += product


def reacting_until(u, v):
    change = np.ones(1)
    while change[0] > 0.5:
        change[0] = 0.0
        product = u * v
        around = np.zeros_like(u)
        around[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1]
        u += 0.1 * around - product
        for i, j in qgraph.ndrange(u.shape[0], u.shape[1]):
            change[0] = max(change[0], around[i, j] / (1 + v[i, j] * v[i, j]))
        v += 1.0


@pytest.mark.parametrize("kernel", [reacting, reacting_until])
@pytest.mark.parametrize("shape", [(6, 7), (1, 1)])
def test_loops_with_numbers_for_arrays_in_loops(check, kernel, shape) -> None:
    check(kernel, lambda: (np.full(shape, 0.25), np.full(shape, 0.5)), fuse=True)
    plan = qgraph.kernel(fuse=True, backend="cpu")(kernel).plan(np.ones(shape), np.ones(shape))
    assert "in registers: `u * v`" in str(plan)


def read_by_another(x, y):
    left = x * 2.0
    y[:] = left
    y[0] = left[3] + y[1]


def read_beside(x, y):
    left = x * 2.0
    y[1:] = left[:-1]


def filled_in_part(x, y):
    left = np.empty_like(x)
    left[x > 3.0] = 1.0
    left[x <= 3.0] = y[x <= 3.0]
    y[:] = left


def returned(x, y):
    left = x * 2.0
    y[:] = left + 1
    return left


def added_to(x, y):
    left = x * 2.0
    left += y
    y[:] = left


def at_a_variable_that_changes(x, y):
    left = x * 2.0
    for i in range(x.shape[0]):
        y[i] = x[i]
        i = x.shape[0] - 1 - i
        y[x.shape[0] - 1 - i] += left[i]


def added_to_in_a_loop(x, y):
    left = x.astype(np.float32)
    for i in range(x.shape[0]):
        left[i] += y[i] / 3
        y[i] = left[i]


def of_a_name_that_may_be_another(x, y):
    left, right = x * 2.0, x * 3.0
    if x[0] > 0.5:
        left, right = right, left
    y[:] = left


def in_rows(x, y):
    both = np.empty((x.shape[0], 2))
    for i in range(x.shape[0]):
        both[i] = x[i]
        both[i, 1] += 1.0
        y[i] = both[i, 0] * both[i, 1]


OTHERS = [read_by_another, read_beside, filled_in_part, returned, added_to, at_a_variable_that_changes, added_to_in_a_loop]


@pytest.mark.parametrize("kernel", [*OTHERS, of_a_name_that_may_be_another, in_rows])
def test_what_others_need_stays_in_memory(check, kernel) -> None:
    check(kernel, numbers(2), fuse=True)


@pytest.mark.parametrize("kernel", [read_by_another, read_beside, returned])
def test_such_arrays_have_memory(kernel) -> None:
    program = qgraph.kernel(backend="cpu", fuse=True)(kernel).plan(*numbers(2)()).program
    assert len(program.temporaries) + len(program.returned) == 1


def test_a_new_array_of_float64_makes_numbers_of_float64(check) -> None:
    def third(x, y):
        wide = np.arange(x.shape[0]) / 3
        y[:] = wide * wide + 0.1

    check(third, lambda: (ramp(9, np.float32), poison(9, np.float64)), fuse=True)


# --- ranges that a check makes equal ------------------------------------------------------------------------------------


def moved(x, v, a):
    v += a * 0.5
    x += v * 0.25


def test_ranges_are_equal_where_a_call_is_refused_unless_they_are(check) -> None:
    check(moved, lambda: (ramp(9), ramp(9), ramp(9)), fuse=True)
    x, v, a = ramp(9), poison(9), ramp(9)
    assert fused(qgraph.kernel(backend="cpu", fuse=True)(moved), x, v, a) == [(1, 2)]
    with pytest.raises(qgraph.ArgumentError, match="length"):
        qgraph.kernel(backend="cpu", fuse=True)(moved)(x[:5].copy(), v, a)
    assert (v == POISON).all()


def test_ranges_that_are_equal_in_one_branch_only(check) -> None:
    def branches(x, v, n):
        if n > 3:
            x += v
        for i in range(x.shape[0]):
            x[i] += 1.0
        for i in range(v.shape[0]):
            v[i] = v[i] * 2.0 + (x[i] if i < x.shape[0] else 0.0)

    for n, size in ((1, 5), (4, 9)):
        check(branches, lambda n=n, size=size: (ramp(size), ramp(9), n), fuse=True)
    assert fused(qgraph.kernel(backend="cpu", fuse=True)(branches), ramp(5), ramp(9), 1) == [(2,), (3,), (5,)]
