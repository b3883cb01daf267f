"""Slices whose lengths only the device knows: compared there, and what does not fit is told by whoever waits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import qgraph


def told(rig, kernel, *args, match):
    """The error of a call, or of the wait after it."""
    with pytest.raises(qgraph.ArgumentError, match=match) as found:
        kernel(*args)
        qgraph.synchronize()
    return found.value


def ramp(n):
    return np.arange(n, dtype=np.float64) + 1


def moved(x, y, ends):
    a, b, c, d = ends[0], ends[1], ends[2], ends[3]
    x[a:b] = y[c:d] * 2 + y[0]


def test_any_bounds_as_numpy_has_them(rig):
    kernel = rig.kernel(moved)
    x, y = rig.device(ramp(4)), rig.device(ramp(6))
    failed = 0
    for ends in itertools.product([0, 2, -1], [3, 4], [0, 1, 4], [0, 2, 4, 9]):
        before = qgraph.to_numpy(x).copy()
        expected = before.copy()
        try:
            moved(expected, qgraph.to_numpy(y), np.array(ends))
        except ValueError:
            failed += 1
            told(rig, kernel, x, y, rig.device(np.array(ends)), match=r"`y\[c:d\]` has length \d, and `x\[a:b\]` has length \d")
        else:
            kernel(x, y, rig.device(np.array(ends)))
        np.testing.assert_array_equal(qgraph.to_numpy(x), expected, err_msg=str(ends))
    assert failed == 57


def of_one_array(x, y, ends):
    a = ends[0]
    b = ends[1]
    x[a : a + 3] = x[b : b + 3]
    x[a : a + 2] += x[b : b + 1]
    x[b:] = x[: 6 - b][::-1]
    y[a:b] = x[a:b]


def test_parts_of_one_array_and_of_others(rig):
    kernel = rig.kernel(of_one_array)
    for ends in ((0, 2), (2, 0), (1, 2), (3, 3)):
        rig.compare(kernel, lambda ends=ends: (ramp(6), ramp(9), np.array(ends)))


def of_two_axes(u, y, ends):
    a = ends[0]
    b = ends[1]
    u[:, a:b] = y[a:b] + u[:, b - 1 : b]
    u[a:b, :] = y[b:] - u[:1]


def test_two_axes(rig):
    kernel = rig.kernel(of_two_axes)
    for ends in ((0, 4), (3, 4), (1, 4)):
        rig.compare(kernel, lambda ends=ends: (ramp(16).reshape(4, 4), ramp(8), np.array(ends)))
    arguments = map(rig.device, (ramp(16).reshape(4, 4), ramp(7), np.array((0, 4))))
    told(rig, kernel, *arguments, match=r"`y\[b:\]` has length 3 along axis 1, and `u\[a:b, :\]` has length 4")


def reduced(x, y, z, ends, out):
    a = ends[0]
    b = ends[1]
    out[0] = np.sum(x[a:b] * y[b:] + z[:b])
    out[1] = np.max(x[:a] - z[: b - a]) + np.mean(x[a:b] + z[:b])


def test_reductions_of_lengths_that_fit(rig):
    kernel = rig.kernel(reduced)
    for ends, size, last in (((1, 2), 5, 1), ((2, 4), 5, 1), ((2, 4), 6, 1), ((4, 5), 6, 5)):
        rig.compare(kernel, lambda e=ends, n=size, m=last: (ramp(6), ramp(n), ramp(m), np.array(e), np.full(2, 77.0)))


def summed(x, y, z, ends, out):
    out[0] = np.sum(x[: ends[0]] * y[: ends[1]] + z[: ends[2]])
    out[1] = 5


def test_reductions_of_lengths_that_do_not(rig):
    kernel = rig.kernel(summed)
    for ends, match in (
        ((2, 4, 1), r"`y\[:ends\[1\]\]` has length 4, and .* has length 2"),
        ((1, 4, 3), r"`z\[:ends\[2\]\]` has length 3, and .* has length 4"),
    ):
        out = rig.device(np.zeros(2))
        told(rig, kernel, *map(rig.device, (ramp(5), ramp(5), ramp(5), np.array(ends))), out, match=match)
        # The rest of the kernel has run.
        assert qgraph.to_numpy(out)[1] == 5


def of_vectors(x, y, ends, out):
    out[0] = np.dot(x[: ends[0]], y[: ends[1]])
    out[1] = x[: ends[0]] @ y[: ends[0]]
    out[2] = np.max(y[: ends[1]])


def test_products_repeat_nothing_and_nothing_has_no_extreme(rig):
    kernel = rig.kernel(of_vectors)
    rig.compare(kernel, lambda: (ramp(5), ramp(7), np.array([4, 4]), np.full(3, 77.0)))
    for ends, match in (
        ((4, 1), r"`y\[:ends\[1\]\]` has length 1, and `x\[:ends\[0\]\]` has length 4"),
        ((0, 0), r"`np.max\(y\[:ends\[1\]\]\)` is of an array without elements"),
    ):
        told(rig, kernel, *map(rig.device, (ramp(5), ramp(7), np.array(ends), np.zeros(3))), match=match)


def in_steps(x, y, ends, count):
    k = 0
    while x[0] < 10 and k < count[0]:
        x[: ends[0]] = y[ends[1] :] + k
        k += 1
    return k


def test_a_loop_ends_that_waits_for_what_did_not_happen(rig):
    kernel = rig.kernel(in_steps)
    rig.compare(kernel, lambda: (ramp(3), ramp(6), np.array([2, 4]), np.array([100])))
    arguments = [rig.device(each) for each in (ramp(3), ramp(6), np.array([2, 3]), np.array([1 << 60]))]
    told(rig, kernel, *arguments, match="has length 3, and .* has length 2")
    np.testing.assert_array_equal(qgraph.to_numpy(arguments[0]), ramp(3))
    # It is told once, and the next call starts anew.
    rig.compare(kernel, lambda: (ramp(3), ramp(6), np.array([2, 4]), np.array([100])))


def until_done(x, ends, again):
    while qgraph.graph_do_while(again):
        x[: ends[0]] = x[ends[1] :]
        again[0] = 1


def test_a_do_while_ends_too(rig):
    arguments = [rig.device(each) for each in (ramp(3), np.array([2, 0]), np.ones(1, np.int64))]
    told(rig, rig.kernel(until_done), *arguments, match="has length 3, and .* has length 2")


@qgraph.func
def shift(u, v, n):
    u[:n] = v[1 : n + 1]


def in_a_func(x, y, n, flag):
    if flag[0] > 0:
        shift(x, y, n[0])
    for t in qgraph.serial(range(2)):
        shift(y[t:], x, n[0] - t)


def test_in_funcs_branches_and_loops(rig):
    kernel = rig.kernel(in_a_func)
    for n in (1, 2, 5):
        rig.compare(kernel, lambda n=n: (ramp(8), ramp(9) * 3, np.array([n]), np.ones(1)))


def test_the_message_shows_the_line(rig):
    error = told(rig, rig.kernel(moved), *map(rig.device, (ramp(4), ramp(4), np.array([0, 3, 0, 2]))), match="has length 2")
    assert error.span is not None
    assert error.span.first_line() == "x[a:b] = y[c:d] * 2 + y[0]"
    assert "y[c:d] * 2 + y[0]\n" in str(error)
    assert "^^^^^^" in str(error)


def test_kernels_that_compare_nothing_note_nothing(rig):
    def plain(x, ends):
        x[ends[0] : ends[1]] = x[ends[0] : ends[1]] * 2

    plan = rig.kernel(plain).plan(rig.device(ramp(4)), rig.device(np.array([0, 2])))
    assert plan.program.faults == ()
    assert all("failed" not in slot.name for slot in plan.program.slots)


# --- what does not run is not checked ----------------------------------------------------------------------------------


def guarded(x, y, flag, n, out):
    out[0] = np.max(x[1:]) if x.shape[0] > 1 else -1.0
    if x.shape[0] > 1 and np.min(x[1:]) > 1:
        out[1] = 5
    out[2] = np.max(x[1:]) if flag[0] > 0 else -2.0
    if x.shape[0] == y.shape[0]:
        x[:] = y
    elif n > 0:
        for i in range(4 // n):
            out[i] += 1
        t = qgraph.zeros(n - 2)
        t[:] = 1
        out[3] = np.sum(t)
    else:
        y[:] = 7


def test_a_branch_that_is_not_taken_is_not_checked(rig):
    kernel = rig.kernel(guarded)
    for size, other, flag, n in ((1, 2, 0, 0), (1, 2, 0, 3), (2, 3, 1, 2), (3, 3, 1, 0), (3, 3, 0, 1), (4, 3, 1, 0)):
        rig.compare(kernel, lambda s=size, o=other, f=flag, n=n: (ramp(s), ramp(o) * 5, np.array([f]), n, np.full(4, 77.0)))
    taken = [rig.device(each) for each in (ramp(1), ramp(1), np.array([1]))]
    told(rig, kernel, *taken, 0, rig.device(np.zeros(4)), match=r"`np.max\(x\[1:\]\)` is of an array without elements")
    refused = [rig.device(each) for each in (ramp(2), ramp(3), np.array([1]))]
    told(rig, kernel, *refused, 1, rig.device(np.zeros(4)), match=r"the size `n - 2` of a temporary is -1")


def in_a_branch_of_the_device(x, alpha, out):
    s = alpha[0] * 2
    if s > 1:
        out[0] = np.max(x * s)


def test_elements_of_an_unknown_type_are_counted_by_the_host(check):
    check(in_a_branch_of_the_device, lambda: (ramp(3), np.ones(1), np.full(1, 77.0)))
