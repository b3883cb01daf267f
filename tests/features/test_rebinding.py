"""Arrays that change places in device loops and branches: `u, v = v, u`, where every solver writes it."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def heat(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.5 * u[i] + 0.25 * (u[i - 1] + u[i + 1])
        u, v = v, u
    for i in range(u.shape[0]):
        v[i] = u[i] + 100


def three_in_turn(a, b, c, n, out):
    it = 0
    while it < n:
        for i in range(a.shape[0]):
            a[i] = b[i] * 2 + c[i]
        first = a
        a = b
        b = c
        c = first
        if it % 2 == 1:
            for i in range(a.shape[0]):
                a[i] += 1
            b, c = c, b
        it += 1
    a[0] = -7
    out[()] = b[1]


def in_a_branch(u, v, s):
    if s > 0:
        for i in range(u.shape[0]):
            u[i] += 1
        u, v = v, u
    else:
        for i in range(u.shape[0]):
            u[i] += 2
    for i in range(u.shape[0]):
        u[i] = v[i] * 3


def in_nested_loops(u, v, c, n):
    while qgraph.graph_do_while(c):
        u, v = v, u
        for _ in qgraph.serial(range(n)):
            for i in range(u.shape[0]):
                u[i] = v[i] + 1
            u, v = v, u
        c[()] -= 1
    u[0] = 50


def until_it_settles(u, v, tol):
    change = tol + 1
    while True:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.5 * (u[i - 1] + u[i + 1])
            change = max(change, abs(v[i] - u[i]))
        if change < tol:
            break
        u, v = v, u
    u[0] = 3


def bounds_from_what_moves(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i in range(u[0] + 1):
            v[i] = u[i] + 1
        u, v = v, u


def numbers(*shape):
    return np.random.default_rng(len(shape)).random(shape)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_double_buffering(check, n):
    check(heat, lambda: (numbers(12), numbers(12) + 1, n))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_three_arrays_by_a_name_of_its_own(check, n):
    check(three_in_turn, lambda: (numbers(7), numbers(7) + 1, numbers(7) + 2, n, np.array(-1.0)))


@pytest.mark.parametrize("s", [-1.0, 1.0])
def test_a_branch(check, s):
    check(in_a_branch, lambda: (numbers(7), numbers(7) + 1, s))


@pytest.mark.parametrize(("times", "n"), [(1, 1), (3, 2), (2, 3), (1, 0)])
def test_nested(check, times, n):
    check(in_nested_loops, lambda: (numbers(6), numbers(6) + 1, np.array(times), n))


def test_a_break_before_they_move(check):
    check(until_it_settles, lambda: (numbers(9), numbers(9), 1e-2))


def test_bounds_read_from_the_array_that_moved(check):
    check(bounds_from_what_moves, lambda: (np.array([1, 2, 3, 4, 5, 6]), np.array([2, 0, 0, 0, 0, 0]), 3))


def test_strides_move_with_the_array(check):
    check(heat, lambda: (numbers(24)[::2], numbers(48)[::4], 3))


def test_different_shapes_are_refused(rig):
    u, v = rig.device(numbers(4)), rig.device(numbers(5))
    with pytest.raises(qgraph.ArgumentError, match="different shapes"):
        rig.kernel(heat)(u, v, 2)


def test_different_types_are_refused(rig):
    u, v = rig.device(numbers(4)), rig.device(numbers(4).astype(np.float32))
    with pytest.raises(qgraph.KernelTypeError, match="and becomes float32"):
        rig.kernel(heat)(u, v, 2)


def one_for_both(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i in range(u.shape[0]):
            v[i] = u[i]
        u = v


def test_two_names_of_one_array_are_refused(rig):
    with pytest.raises(qgraph.KernelSyntaxError, match="after this, `u` is one array or another"):
        rig.kernel(one_for_both)(rig.device(numbers(4)), rig.device(numbers(4)), 2)


def test_the_same_array_twice_is_one_array(rig):
    u = rig.device(numbers(6))
    with pytest.raises(qgraph.DataRaceError, match="not independent"):
        rig.kernel(heat)(u, u, 2)


def two_groups_and_a_third_array(a, b, c, d, e, n):
    for _ in qgraph.serial(range(n)):
        a, c = c, a
        d, e = e, d
        for i in range(a.shape[0]):
            a[i] += d[i]
    if n > 1:
        a, b = b, a
        for i in range(a.shape[0]):
            a[i] = 2 * b[i] + c[i]
    while n > 0:
        a, b, c = c, a, b
        n -= 1
    a[0] = 30
    b[0] = 31
    c[0] = 32
    d[0] = 1


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_groups_of_arrays_that_move(check, n):
    def arguments():
        return (*(numbers(5) + k for k in range(3)), np.arange(5, dtype=np.float32), np.ones(5, np.float32), n)

    check(two_groups_and_a_third_array, arguments)


def two_pairs(u, a, v, b, n):
    for _ in qgraph.serial(range(n)):
        for i in range(1, u.shape[0]):
            a[i] = u[i - 1] + u[i]
        for i in range(1, v.shape[0]):
            b[i] = v[i - 1] + v[i]
        u, a = a, u
        held = v
        v = b
        b = held
    u[0] = 7
    v[0] = 8


def pairs_that_meet(u, a, v, b, n):
    for k in qgraph.serial(range(n)):
        if k % 2 == 0:
            u, a = a, u
            v, b = b, v
        else:
            u, v = v, u
        for i in range(u.shape[0]):
            u[i] += i
    u[0] = 7
    v[0] = 8


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("fuse", [False, True])
def test_pairs_that_change_places_need_not_be_of_one_shape(check, n, fuse):
    check(two_pairs, lambda: (numbers(5), numbers(5) + 1, numbers(9), numbers(9) + 1, n), fuse=fuse)
    check(pairs_that_meet, lambda: (*(numbers(5) + k for k in range(4)), n), fuse=fuse)


def pairs_of_one_array(x, a, b, n):
    psi = x
    for _ in qgraph.serial(range(n)):
        x, a = a, x
        psi, b = b, psi
        psi[0] += x[0]


def test_pairs_of_which_two_names_are_one_array_are_refused(rig):
    with pytest.raises(qgraph.KernelSyntaxError, match="are names of the same array"):
        rig.run(rig.kernel(pairs_of_one_array), numbers(5), numbers(5), numbers(5), 3)


def test_pairs_that_meet_are_of_one_shape(rig):
    with pytest.raises(qgraph.errors.ArgumentError, match="`a` and `b` change places, and they have different shapes"):
        rig.run(rig.kernel(pairs_that_meet), numbers(5), numbers(5), numbers(6), numbers(6), 3)


def result_handed_over(wave, scratch, n):
    psi, new = wave, scratch
    t = 0
    while t < n:
        for i in range(psi.shape[0]):
            new[i] = 2.0 * psi[i] + i
        psi, new = new, psi
        t += 1
    for i in range(wave.shape[0]):
        wave[i] = psi[i]
    for i in range(wave.shape[0]):
        scratch[i] = 0


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_result_that_is_handed_over_after_the_loop(check, n):
    check(result_handed_over, lambda: (numbers(6), numbers(6) + 1, n))


def shifted_onto_one_that_may_be_the_same(wave, scratch, n):
    psi, new = wave, scratch
    for _ in qgraph.serial(range(n)):
        for i in range(psi.shape[0]):
            new[i] = psi[i]
        psi, new = new, psi
    for i in range(wave.shape[0] - 1):
        wave[i] = psi[i + 1]


def test_a_loop_that_is_dependent_if_they_are_the_same_is_told(rig):
    with pytest.warns(qgraph.AssumedParallelWarning, match="arrays that change places may be the same here"):
        rig.kernel(shifted_onto_one_that_may_be_the_same)(rig.device(numbers(4)), rig.device(numbers(4)), 2)


def in_the_test_of_a_branch(x, y):
    if x.min() >= 2:
        x, y = y, x
    if x[0] == 0:
        for i in range(x.shape[0]):
            x[i] += 1
    match y.min():
        case 0:
            x, y = y, x
        case 3:
            x[1] = 50
    return x[2]


def lowest(x):
    x[1] += 1
    return np.min(x)


low = qgraph.func(lowest)


def in_the_test_of_a_loop(x, y):
    k = 0
    while low(x) < 12 and k < 9:
        for i in range(x.shape[0]):
            x[i] += y[i] % 3
        x, y = y, x
        k += 1
    return k, x[0]


@pytest.mark.parametrize("kernel", [in_the_test_of_a_branch, in_the_test_of_a_loop])
@pytest.mark.parametrize(("first", "second"), [(0, 3), (3, 0), (3, 9)])
def test_tests_look_at_the_arrays_behind_names_that_change(check, kernel, first, second):
    check(kernel, lambda: (np.arange(first, first + 5), np.arange(second, second + 5)))


def one_array_in_two_groups(x, y, z, out, n):
    psi, new = x, y
    for _ in qgraph.serial(range(n)):
        psi, new = new, psi
    for _ in qgraph.serial(range(n)):
        x, z = z, x
        for i in range(6):
            z[i] = 2 * i
            out[i] += 1
        for i in range(6):
            out[i] += psi[5 - i]


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_arrays_of_two_groups_that_change_places_may_be_the_same(check, n, fuse):
    check(one_array_in_two_groups, lambda: (*(numbers(6) * k for k in range(1, 5)), n), fuse=fuse)


def added_to_one_that_may_be_the_same(x, y, z, n):
    psi, new = x, y
    for _ in qgraph.serial(range(n)):
        psi, new = new, psi
    for _ in qgraph.serial(range(n)):
        x, z = z, x
        for i in range(x.shape[0]):
            z[i] += psi[x.shape[0] - 1 - i]


def moved_while_another_name_has_it(x, y, z, n):
    for t in qgraph.serial(range(n)):
        u, v = x, y
        for _ in qgraph.serial(range(t)):
            u, v = v, u
        if n > 2:
            x, z = z, x
        for i in range(x.shape[0]):
            z[i] += u[x.shape[0] - 1 - i]


@pytest.mark.parametrize("kernel", [added_to_one_that_may_be_the_same, moved_while_another_name_has_it])
def test_loops_over_arrays_that_may_be_the_same_are_told(rig, kernel):
    with pytest.warns(qgraph.AssumedParallelWarning, match="arrays that change places may be the same here"):
        rig.kernel(kernel)(*(rig.device(numbers(4)) for _ in range(3)), 2)


def read_by_a_third_name(x, y, z, n):
    for _ in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            y[i] = z[x.shape[0] - 1 - i] + 1
        x, y = y, x


def test_an_array_that_is_the_same_as_one_that_changes_places(rig):
    x, y = rig.device(numbers(4)), rig.device(numbers(4))
    with pytest.warns(qgraph.AssumedParallelWarning, match="arrays that change places may be the same here"):
        rig.kernel(read_by_a_third_name)(x, y, y, 2)
    rig.compare(rig.kernel(read_by_a_third_name), lambda: (numbers(4), numbers(4), numbers(4), 2))


def doubled_and_read_by_a_third_name(x, y, z, out, n):
    for _ in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            y[i] = 2 * y[i]
            out[i] += y[i]
        for i in range(x.shape[0]):
            out[i] += z[x.shape[0] - 1 - i]
        x, y = y, x


@pytest.mark.parametrize("pattern", ["xyyz", "xyxz", "xyzx", "xyzw"])
def test_loops_that_meet_by_an_array_that_changes_places_are_not_joined(check, pattern):
    def some():
        known = {name: numbers(6) + place for place, name in enumerate("xyzw")}
        return *(known[name] for name in pattern), 3

    check(doubled_and_read_by_a_third_name, some, fuse=True)


def test_different_layouts_are_refused(rig):
    u, v = rig.device(numbers(4)), rig.device(numbers(8))[::2]
    with pytest.raises(qgraph.KernelTypeError, match="and becomes .* that lies otherwise in memory"):
        rig.kernel(heat)(u, v, 2)


@qgraph.func
def stepped(p, q, m):
    t = 0
    while t < m:
        t += 1
        for i in range(p.shape[0]):
            q[i] += p[i]
        p, q = q, p
    return q, p


def groups_that_overlap(x, y, z, n):
    x, y = stepped(x, y, n)
    w = 0
    while w < n:
        w += 1
        x, z = z, x
    z, x, y = x, y, z
    x, y = stepped(x, y, n)
    z[1] = -1
    return x.sum(), y[0]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_groups_of_arrays_that_change_places_overlap(check, n):
    """The arrays that one name may be are not beside each other among all that the names of a later group may be."""
    check(groups_that_overlap, lambda: (np.arange(6.0) + 30, np.arange(6.0) + 1, np.arange(6.0), n))


def second_name_after_a_branch(x, n):
    a = x + 1
    if n == 1:
        a = x - 5
    c = a
    for _ in qgraph.serial(range(n)):
        a = a + c
    c[0] = 100
    return a


def second_name_of_a_part(x, n):
    a = x + 1
    for _ in qgraph.serial(range(n)):
        a = a * 2
    c = a[1:]
    if n > 1:
        a = a + 1
    c[0] = 100
    return a


@qgraph.func
def grown(p, n):
    for _ in qgraph.serial(range(n)):
        p = p + 1
    return p


def a_func_binds_its_parameter_again(x, n):
    a = x + 1
    if n == 1:
        a = x - 5
    b = grown(a, n)
    return a + 0, b


def second_name_in_the_loop(x, n):
    a = x + 1
    if n == 1:
        a = x - 5
    for t in qgraph.serial(range(n)):
        b = a
        if t == 1:
            a = b + 1
        a[0] += b[1]
    return a


def second_name_of_one_that_changed_places(x, n):
    a = x + 1
    b = x + 2
    for _ in qgraph.serial(range(n)):
        a, b = b, a
    c = b
    for _ in qgraph.serial(range(n)):
        if n > 1:
            b = b * 3
    c[0] += 100
    return a + 0, b + 0


@pytest.mark.parametrize(
    "kernel",
    [
        second_name_after_a_branch,
        second_name_of_a_part,
        a_func_binds_its_parameter_again,
        second_name_in_the_loop,
        second_name_of_one_that_changed_places,
    ],
)
def test_a_new_array_for_a_name_that_has_a_second_one_is_refused(rig, kernel):
    """The second name was given after another loop or branch; in Python it keeps the old array."""
    with pytest.raises(qgraph.KernelSyntaxError, match="after this, `[abp]` is one array or another"):
        rig.kernel(kernel)(rig.device(numbers(4)), 2)


def new_arrays_after_a_swap(x, n):
    a = x + 1
    b = x + 2
    for _ in qgraph.serial(range(n)):
        a, b = b, a
    c = a
    for _ in qgraph.serial(range(n)):
        b = b + c
    c[0] = 100
    if n > 1:
        b = b * 2
    return a + 0, b + 0


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_name_that_changed_places_gets_a_new_array_where_another_has_a_second_name(check, n):
    check(new_arrays_after_a_swap, lambda: (numbers(4), n), noop=True)
