"""The same memory under two names: right between loops, analysed as one inside a loop, refused where it is neither."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def chain(a, b):
    for i in range(a.shape[0]):
        a[i] = a[i] * 3 + 1
    for i in range(b.shape[0]):
        b[i] = b[i] * 5 + 2
    for i in range(a.shape[0]):
        a[i] = a[i] * 7 + 3


def same():
    x = np.arange(600)
    return x, x


def overlapping():
    x = np.arange(600)
    return x[:400], x[200:]


def overlapping_backwards():
    x = np.arange(600)
    return x[::2], x[300::-1]


def disjoint():
    x = np.arange(600)
    return x[:300], x[300:]


@pytest.mark.parametrize("make", [same, overlapping, overlapping_backwards, disjoint])
def test_between_loops_overlap_is_right(rig, make):
    rig.check(chain, make)


def test_one_kernel_over_all_alias_patterns(rig):
    kernel = rig.kernel(chain)
    for make in (disjoint, same, overlapping, disjoint, same, overlapping):
        rig.compare(kernel, make)
    assert kernel.stats.graph_builds <= 3
    built = kernel.stats.graph_builds
    for make in (disjoint, same, overlapping):
        rig.compare(kernel, make)
    assert kernel.stats.graph_builds == built


def edges_of(kernel, *args):
    return set(kernel.plan(*args).edges)


def test_overlap_makes_an_edge(rig):
    kernel = rig.kernel(chain)
    assert edges_of(kernel, *disjoint()) == {(0, 2)}
    assert edges_of(kernel, *same()) == {(0, 1), (1, 2)}
    assert edges_of(kernel, *overlapping()) == {(0, 1), (1, 2)}


def halves_and_all(left, right, whole):
    for i in range(left.shape[0]):
        left[i] = left[i] * 3 + 1
    for i in range(right.shape[0]):
        right[i] = right[i] * 5 + 2
    for i in range(whole.shape[0]):
        whole[i] = whole[i] * 7 + 3
    for i in range(left.shape[0]):
        left[i] = left[i] * 9 + 4
    for i in range(right.shape[0]):
        right[i] = right[i] * 11 + 5


def test_parts_of_one_array_wait_for_the_whole_and_not_for_each_other(rig):
    def make():
        x = np.arange(40)
        return x[:20], x[20:], x

    kernel = rig.check(halves_and_all, make)
    assert edges_of(kernel, *make()) == {(0, 2), (1, 2), (2, 3), (2, 4)}


def add(a, b, c):
    for i in range(a.shape[0]):
        c[i] = a[i] + 2 * b[i]


def test_the_same_array_twice_elementwise(rig):
    def args(pattern):
        def make():
            x, y = np.arange(50.0), np.ones(50)
            return {"xxy": (x, x, y), "xyx": (x, y, x), "xyy": (x, y, y), "xxx": (x, x, x)}[pattern]

        return make

    kernel = rig.kernel(add)
    for pattern in ("xxy", "xyx", "xyy", "xxx"):
        rig.compare(kernel, args(pattern))


def test_overlapping_arrays_that_are_only_read(rig):
    def args():
        x = np.arange(60.0)
        return x[:50], x[10:], np.zeros(50)

    rig.check(add, args)


def shift(a, b):
    for i in range(1, a.shape[0]):
        a[i] = b[i - 1]


def test_the_same_array_twice_can_make_a_race(rig):
    kernel = rig.check(shift, lambda: (np.zeros(20), np.arange(20.0)))
    x = np.arange(20.0)
    held = rig.device(x)
    with pytest.raises(qgraph.DataRaceError):
        kernel(held, held)
    assert (qgraph.to_numpy(held) == np.arange(20.0)).all()


def third_from_the_end(a, b, c):
    n = a.shape[0]
    for i in range(n):
        c[i] = a[n - 1 - i] + b[i]


def third_from_what_follows(a, b, c):
    for i in range(a.shape[0] - 1):
        c[i] = a[i] + b[i + 1]


def first_from_the_end(c, a, b):
    n = a.shape[0]
    for i in range(n):
        c[i] = a[i] + b[n - 1 - i]


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("function", [third_from_the_end, third_from_what_follows, first_from_the_end])
def test_two_arrays_that_are_read_and_one_that_is_written_are_the_same(rig, function, fuse):
    """Which of those that are read it is makes no difference."""
    kernel = rig.kernel(function, fuse=fuse)
    rig.compare(kernel, lambda: [np.arange(20.0), np.arange(20.0), np.arange(20.0)])
    held = rig.device(np.arange(20.0))
    with pytest.raises(qgraph.DataRaceError):
        kernel(held, held, held)
    assert (qgraph.to_numpy(held) == np.arange(20.0)).all()


def turned_round(a, b, c, d):
    n = a.shape[0]
    for i in range(n):
        c[i] = 2 * b[i]
        d[i] = c[i]
    for i in range(n):
        d[i] += a[n - 1 - i]


@pytest.mark.parametrize("pattern", ["xyxz", "xxyz", "xxxy", "xyyz"])
def test_loops_that_meet_by_a_third_name_are_not_joined(check, pattern):
    def some():
        known = {name: np.arange(20.0) + place for place, name in enumerate("xyz")}
        return [known[name] for name in pattern]

    check(turned_round, some, fuse=True)


def copy(a, b):
    for i in range(a.shape[0]):
        a[i] = b[i]


def test_a_partly_overlapping_pair_within_one_loop_is_refused(rig):
    kernel = rig.check(copy, lambda: (np.zeros(20), np.arange(20.0)))
    held = rig.device(np.arange(21.0))
    with pytest.raises(qgraph.ArgumentError, match="overlap"):
        kernel(held[1:], held[:-1])
    with pytest.raises(qgraph.ArgumentError, match="overlap"):
        kernel(held[:-1], held[1:])
    assert (qgraph.to_numpy(held) == np.arange(21.0)).all()
    kernel(held[:10], held[10:20])
    assert (qgraph.to_numpy(held)[:10] == np.arange(10.0, 20.0)).all()


def test_interleaved_views_do_not_overlap(rig):
    def args():
        x = np.arange(40.0)
        return x[::2], x[1::2]

    rig.check(copy, args)


@pytest.mark.needs("host_arrays")
def test_a_written_array_that_overlaps_itself_is_refused(rig):
    base = np.zeros(5)
    folded = np.lib.stride_tricks.as_strided(base, (4, 2), (8, 8))
    flat = np.lib.stride_tricks.as_strided(base, (6,), (0,))

    def fill(x):
        for i in range(x.shape[0]):
            x[i] = 1.0

    def fill2(x):
        for i in range(x.shape[0]):
            x[i, 0] = 1.0

    with pytest.raises(qgraph.ArgumentError, match="overlap"):
        rig.kernel(fill)(flat)
    with pytest.raises(qgraph.ArgumentError, match="overlap"):
        rig.kernel(fill2)(folded)
    assert (base == 0).all()


def one_of_three(a, b, c):
    for i in range(a.shape[0]):
        a[i] += 1
    for i in range(b.shape[0]):
        b[i] += 10
    for i in range(c.shape[0]):
        c[i] *= 2


def test_three_names_of_which_two_overlap(rig):
    def make(which):
        def args():
            x, y = np.arange(90), np.arange(40)
            return {"ab": (x[:50], x[40:], y), "ac": (x[:50], y, x[40:]), "bc": (y, x[:50], x[40:])}[which]

        return args

    kernel = rig.kernel(one_of_three)
    for which in ("ab", "ac", "bc", "ab"):
        rig.compare(kernel, make(which))


def written_before(a, b, c):
    for i in range(a.shape[0]):
        a[i] += 1
    for i in range(a.shape[0]):
        b[i] = c[5] + 1


@pytest.mark.parametrize("fuse", [False, True])
def test_one_that_overlaps_two_names_of_one_array(rig, fuse):
    """The loop names the other one of the two."""
    x = rig.device(np.arange(60))
    with pytest.raises(qgraph.ArgumentError, match="`b` and `c` overlap in part"):
        rig.kernel(written_before, fuse=fuse)(x[:40], x[10:50], x[:40])
    assert (qgraph.to_numpy(x) == np.arange(60)).all()


def reads_back(a, b, out):
    for i in range(out.shape[0]):
        a[i] = 2 * b[i]
        out[i] = b[i] + 1


def test_an_iteration_sees_what_it_wrote_under_another_name(rig):
    def twice():
        a = np.arange(9.0)
        return a, a, np.full(9, 77.0)

    kernel = rig.check(reads_back, twice)
    rig.compare(kernel, lambda: (np.full(9, 77.0), np.arange(9.0), np.full(9, 77.0)))


def bounded_by_itself(n, x):
    for i in range(n[0]):
        x[i] = 0


def test_bounds_are_read_once_whatever_name_the_loop_writes_them_by(check):
    def args():
        both = np.full(20, 15)
        return both, both

    check(bounded_by_itself, args)
