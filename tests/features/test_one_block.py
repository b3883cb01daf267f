"""``fuse=True`` with small loops: the whole kernel runs as one block of threads, control flow included, and gives the same."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.ir.plan import BLOCK_THREADS, OneBlock


def ramp(n, dtype=np.float64):
    return (np.arange(n) % 7 + 1).astype(dtype)


def ran_alone(rig, kernel):
    """Whether the last launch was one block; on the CPU there is none, and the answer is not needed."""
    launch = kernel.last_launch
    assert (launch.nodes == 1) == ("one block" in launch.reason)
    return rig.backend == "cpu" or launch.nodes == 1


@pytest.fixture
def alone(rig):
    """``alone(function, make_args)``: one block runs it, and does what plain Python does; once more, too."""

    def check(function, make_args):
        kernel = rig.kernel(function, fuse=True)
        rig.compare(kernel, make_args)
        assert kernel.plan(*make_args()).has_block
        assert ran_alone(rig, kernel)
        rig.compare(kernel, make_args)
        return kernel

    return check


# --- control flow -----------------------------------------------------------------------------------------------------


def do_while(x, y, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            y[i] = x[x.shape[0] - 1 - i] + 1
        for i in range(x.shape[0]):
            x[i] = y[i] * 2 - i
        counter[()] -= 1


@pytest.mark.parametrize("turns", [1, 4])
def test_a_do_while_with_ping_pong(alone, turns):
    alone(do_while, lambda: (ramp(10, np.int64), ramp(10, np.int64) * 0, np.array(turns)))


def nested(x, n, m):
    total = 0
    outer = 0
    while outer < n:
        inner = 0
        while inner < outer + m:
            for i in range(x.shape[0]):
                x[i] = x[i] + outer - inner
            inner += 1
            total += inner
        for i in range(x.shape[0]):
            x[i] = x[i] ^ 5
        outer += 1
    return total, outer


@pytest.mark.parametrize(("n", "m"), [(3, 0), (2, 2), (0, 4)])
def test_whiles_in_whiles_are_entered_again_or_never(alone, n, m):
    alone(nested, lambda: (ramp(9, np.int64), n, m))


def countdown(counter):
    while qgraph.graph_do_while(counter):
        counter[()] -= 1


def test_a_loop_around_statements_alone(alone):
    alone(countdown, lambda: (np.array(9),))


def branches(x, y, n):
    k = 0
    while k < n:
        if k % 3 == 0:
            for i in range(x.shape[0]):
                x[i] += y[i]
        elif k % 3 == 1:
            y[0] = y[0] + k
        else:
            for i in range(y.shape[0]):
                y[i] -= x[i] * k
        if k == 2:
            k += 2
        k += 1
    return k


def test_if_elif_else(alone):
    alone(branches, lambda: (ramp(9, np.int64), ramp(9, np.int64), 7))


def cases(x, n):
    k = 0
    while k < n:
        match k:
            case 0 | 3:
                for i in range(x.shape[0]):
                    x[i] = x[i] * 3
            case 1:
                x[1] = -x[1]
            case 5:
                for i in range(x.shape[0]):
                    x[i] -= i
            case _:
                for i in range(x.shape[0]):
                    x[i] += k
        k += 1


def test_match(alone):
    alone(cases, lambda: (ramp(8, np.int64), 7))


def exits(x, n):
    done = 0
    for t in qgraph.serial(range(n)):
        if t % 3 == 1:
            continue
        if t > 7:
            break
        for i in range(x.shape[0]):
            x[i] += t
        done += 1
    return done


@pytest.mark.parametrize("n", [0, 2, 20])
def test_break_and_continue_in_serial_loops(alone, n):
    alone(exits, lambda: (ramp(9, np.int64), n))


# --- reductions and what collides -------------------------------------------------------------------------------------


def reductions(x, out):
    for t in qgraph.serial(range(3)):
        total = 0
        low = 1000
        where = -1
        for i in range(x.shape[0]):
            total += x[i]
            if x[i] < low:
                low = x[i]
                where = i
        some = False
        every = True
        bits = 0
        for i in range(x.shape[0]):
            some = some or x[i] > 6
            every = every and x[i] > 0
            bits |= x[i]
        out[t, 0] = total
        out[t, 1] = low
        out[t, 2] = where
        out[t, 3] = some
        out[t, 4] = every
        out[t, 5] = bits
        for i in range(x.shape[0]):
            x[i] = (x[i] * 5 + i + t) % 11


@pytest.mark.parametrize("n", [0, 1, 9, 31])
def test_reductions_of_any_number_of_values(alone, n):
    alone(reductions, lambda: (ramp(n, np.int64), np.full((3, 6), 77)))


def float_reductions(x, y):
    s = 0.0
    m = -1.0
    while s < 100:
        dot = 0.0
        for i in range(x.shape[0]):
            dot += x[i] * y[i]
            m = max(m, x[i] - y[i])
        s += dot
    return s, m


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_floats(alone, dtype):
    alone(float_reductions, lambda: (ramp(20, dtype), (ramp(20, dtype) * 0.5)))


def many_sums(x):
    a = b = c = d = e = f = g = h = 0.0
    rounds = 0
    while rounds < 2:
        for i in range(x.shape[0]):
            a += x[i]
            b += x[i] * 2
            c += x[i] * 3
            d += x[i] * 4
            e += x[i] * 5
            f += x[i] * 6
            g += x[i] * 7
            h += x[i] * 8
        rounds += 1
    return a, b, c, d, e, f, g, h


def test_more_sums_than_a_full_block_has_shared_memory_for(alone):
    alone(many_sums, lambda: (ramp(21, np.float64),))


def into_elements(x, sums):
    for t in qgraph.serial(range(4)):
        for i in range(x.shape[0]):
            sums[t] += x[i] * t
        for i in range(x.shape[0]):
            x[i] += sums[t]


def test_a_reduction_into_an_element(alone):
    alone(into_elements, lambda: (ramp(12, np.int64), np.full(4, 77)))


def into_a_first_element(x, y, n):
    for _ in qgraph.serial(range(2)):
        for i in range(n):
            x[0] += y[i]
        for i in range(y.shape[0]):
            y[i] += 1


@pytest.mark.parametrize("n", [0, 3])
def test_what_is_not_reduced_is_not_touched(alone, n):
    """Without iterations there need not even be an element."""
    alone(into_a_first_element, lambda: (np.zeros(n, np.int64), ramp(5, np.int64), n))


def histogram(x, bins):
    for t in qgraph.serial(range(3)):
        for i in range(x.shape[0]):
            bins[x[i]] += 1
        for i in range(x.shape[0]):
            x[i] = (x[i] + bins[t]) % bins.shape[0]


def test_colliding_updates(alone):
    alone(histogram, lambda: (np.arange(30) % 3, np.zeros(4, np.int64)))


# --- memory -----------------------------------------------------------------------------------------------------------


def swaps(u, v, n):
    for _ in qgraph.serial(range(n)):
        for i in range(1, u.shape[0] - 1):
            v[i] = u[i - 1] + u[i + 1]
        u, v = v, u
    for i in range(u.shape[0]):
        u[i] += 100


@pytest.mark.parametrize("n", [0, 1, 4])
def test_names_that_change_places(alone, n):
    alone(swaps, lambda: (ramp(9, np.int64), ramp(9, np.int64), n))


def slices(x, y):
    n = 0
    while n < 3:
        y[1:-1, :] = x[:-2, :] + x[2:, :]
        x[:] = y
        y[0, :] = n
        n += 1
    return np.sum(x)


def test_slices(alone):
    alone(slices, lambda: (ramp(12).reshape(4, 3), np.zeros((4, 3))))


def temporaries(x):
    t = qgraph.zeros(x.shape[0])
    steps = 0
    while steps < 3:
        u = qgraph.empty(x.shape[0])
        for i in range(x.shape[0]):
            u[i] = x[i] + t[i]
        for i in range(x.shape[0]):
            t[i] = u[x.shape[0] - 1 - i]
        steps += 1
    for i in range(x.shape[0]):
        x[i] = t[i]


def test_temporaries(alone):
    alone(temporaries, lambda: (ramp(9),))


def axes(x, y):
    for t in qgraph.serial(range(2)):
        for i, j in qgraph.ndrange((1, x.shape[0]), x.shape[1]):
            if j == 1:
                continue
            y[i, j] = x[i - 1, j] + t * j
        for index in qgraph.ndrange(*x.shape):
            x[index] = y[index] * 2


def test_several_axes(alone):
    alone(axes, lambda: (ramp(12, np.int64).reshape(4, 3), ramp(12, np.int64).reshape(4, 3)))


def in_turn(x, y, n):
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += t
        for i in range(y.shape[0]):
            y[i] *= 2


def test_overlapping_arguments(alone):
    def make():
        whole = ramp(12, np.int64)
        return whole[:8], whole[4:], 3

    alone(in_turn, make)


# --- the choice -------------------------------------------------------------------------------------------------------


def grow(x, n):
    total = 0
    k = 0
    while k < n:
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + k
        for i in range(x.shape[0]):
            total += x[i] % 5
        k += 1
    return total


def test_sizes_that_grow_past_the_limit_and_shrink_again(rig):
    kernel = rig.kernel(grow, fuse=True)
    small, large = (20, 150) if rig.backend == "sim" else (500, 5000)
    for n in (small, large, small + 1, large + 1, 0, large, 1, small):
        rig.compare(kernel, lambda n=n: (ramp(n, np.int64), 3))
        assert rig.backend == "cpu" or ran_alone(rig, kernel) == (n <= small + 1)
    assert kernel.stats.graph_builds == 1
    assert kernel.stats.compilations == 1


def test_other_arguments_of_either_form_are_never_stale(rig):
    kernel = rig.kernel(grow, fuse=True)
    small, large = (6, 130) if rig.backend == "sim" else (600, 6000)
    arrays = {n: [rig.device(ramp(n, np.int64) + k) for k in range(2)] for n in (small, large)}
    expected = {n: [ramp(n, np.int64) + k for k in range(2)] for n in (small, large)}
    for turn, (n, k) in enumerate([(small, 0), (large, 0), (large, 1), (small, 1), (small, 0), (large, 1), (large, 0)]):
        assert kernel(arrays[n][k], turn % 3) == kernel.reference(expected[n][k], turn % 3)
    for n in (small, large):
        for k in range(2):
            np.testing.assert_array_equal(qgraph.to_numpy(arrays[n][k]), expected[n][k])


def test_the_limits():
    limits = OneBlock(((3, ("_h0", "_h1"), 4096), (5, ("_h0",), 256)))
    assert limits.fits({"_h0": 256, "_h1": 16})
    assert not limits.fits({"_h0": 256, "_h1": 17})
    assert not limits.fits({"_h0": 257, "_h1": 1})
    assert limits.fits({"_h0": 0, "_h1": 1 << 40})
    assert limits.fits({"_h0": 8, "_h1": 16}, BLOCK_THREADS // 32)
    assert not limits.fits({"_h0": 9, "_h1": 1}, BLOCK_THREADS // 32)
    assert (limits.widest({"_h0": 3, "_h1": 5}), limits.widest({"_h0": 3, "_h1": 0}), OneBlock().widest({})) == (15, 3, 0)
    assert OneBlock().fits({})
    assert not OneBlock(why_not="it is").fits({})


def said(function, *args, **options):
    """What the plan says of one block."""
    plan = qgraph.kernel(fuse=True, **options)(function).plan(*args)
    return str(plan.one_block)


def heavy(x, y):
    for t in qgraph.serial(range(3)):
        for i in range(x.shape[0]):
            for k in range(y.shape[0]):
                x[i] += y[k]
        for i in range(y.shape[0]):
            for k in range(3):
                y[i] += x[k] * t


def in_line(x, y):
    for i in range(x.shape[0]):
        y[x.shape[0] - 1 - i] = x[i]
    for i in range(x.shape[0]):
        x[i] = y[i]


def test_the_plan_says_up_to_which_extents():
    x, y = ramp(5), ramp(5)
    line = heavy.__code__.co_firstlineno
    assert said(in_line, x, y) == "one block of 1024 threads, while no loop has more than 1024 iterations"
    assert said(countdown, np.array(3)) == "one block of 1024 threads"
    expected = (
        f"one block of 1024 threads, while no loop has more than 4096 iterations, that of line {line + 2} no more than 256"
    )
    assert said(heavy, x, y) == expected
    kernel = qgraph.kernel(fuse=True)(heavy)
    assert expected in str(kernel.plan(x, y))
    assert expected in str(kernel.explain(x, y))


def with_host_call(x):
    x[:] = 1
    qgraph.host_callback(print)
    x[:] = 2


def extent_on_device(x, n):
    for t in qgraph.serial(range(3)):
        for i in range(n[0]):
            x[i] += t


def one_loop(x):
    for i in range(x.shape[0]):
        x[i] += 1


def test_the_plan_says_why_not():
    x, n = ramp(5), np.array([3])
    line = with_host_call.__code__.co_firstlineno
    assert said(with_host_call, x) == f"not one block: it calls the host at line {line + 2}"
    line = extent_on_device.__code__.co_firstlineno
    assert said(extent_on_device, x, n) == (
        f"not one block: only the device knows how many iterations the loop of line {line + 2} has"
    )
    assert said(one_loop, x) == "not one block: it is one node already"


@pytest.mark.parametrize(
    "options",
    [{"fuse": False}, {"graph": False}, {"conditional": "host"}, {"block_size": 128}],
    ids=lambda each: next(iter(each)),
)
def test_where_nothing_is_said_of_one_block(options):
    plan = qgraph.kernel(**{"fuse": True, **options})(in_line).plan(ramp(5), ramp(5))
    assert plan.one_block is None
    assert "one block" not in str(plan)
