"""Unrolled loops on the device: the plain graph, the unrolled one, going from one to the other, and a host that runs ahead."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.driver import call, device, driver
from qgraph.runtime.executors import host_loop, unrolled
from tests.loop_kernels import COUNTED, independent, leaving, swapping, trading

# memcheck (of CUDA 13.0) goes astray where a graph with a while node is launched while earlier launches of it run, without
# anything of ours, too: see the Makefile.
ONE_BY_ONE_OR_IN_FLIGHT = pytest.mark.parametrize(
    "in_flight",
    [
        pytest.param(False, id="one by one"),
        pytest.param(True, id="in flight", marks=pytest.mark.unsanitized(reason="memcheck loses while nodes in flight")),
    ],
)

TURNS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 18, 19, 100)
OPTIONS = {"backend": "cuda", "conditional": "device"}


@pytest.fixture(params=["unrolled", "plain", "adapted", "host"])
def form(request, monkeypatch):
    """Which graph kernels launch, or that the host drives their loops."""
    if request.param == "host":
        monkeypatch.setitem(OPTIONS, "conditional", "host")
        return request.param
    choice = {"unrolled": True, "plain": False, "adapted": None}[request.param]
    made = functools.partial(unrolled.CudaUnrollingExecutable, unrolled=choice)
    monkeypatch.setattr(unrolled, "CudaUnrollingExecutable", made)
    return request.param


def cuda_kernel(function, **options):
    return qgraph.kernel(**OPTIONS, **options)(function)


def on_device(value):
    return qgraph.asarray(np.asarray(value), backend="cuda") if isinstance(value, (np.ndarray, np.generic)) else value


def runs_unrolled(kernel):
    return "unrolled" in kernel.last_launch.reason


def agrees(kernel, *args, expected=None):
    """The kernel leaves in its arrays, and returns, what plain Python does; or ``expected``, the same in NumPy."""
    given = [on_device(each) for each in args]
    found = kernel(*given)
    with np.errstate(over="ignore"):
        wanted = (expected or kernel.reference)(*args)
    for mine, plain in zip(given, args, strict=True):
        if isinstance(plain, np.ndarray):
            np.testing.assert_array_equal(qgraph.to_numpy(mine), plain)
    assert found == wanted


def ints(n, seed=1):
    return np.random.default_rng(seed).integers(-100, 100, n)


def one(x, turns):
    while qgraph.graph_do_while(turns):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + 1
        turns[()] -= 1


def three(x, y, turns):
    while qgraph.graph_do_while(turns):
        for i in range(x.shape[0]):
            y[i] = x[i] * 3 + 1
        for i in range(x.shape[0]):
            x[i] = y[x.shape[0] - 1 - i] * 5 + 2
        for i in range(x.shape[0]):
            y[i] = x[x.shape[0] - 1 - i] * 7 + y[i]
        turns[()] -= 1


def checked_first(x, turns):
    n = 0
    while n < turns[()]:
        n += 1
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + n
    return n


def counted(x, turns):
    last = -1
    for t in qgraph.serial(range(turns[()])):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + t
        last = t
    return last


def summing(x, y, limit):
    total = 0
    n = 0
    while total < limit[()]:
        total = 0
        for i in range(x.shape[0]):
            x[i] = x[i] + 1
        for i in range(x.shape[0]):
            total += x[i]
        for i in range(y.shape[0]):
            y[i] = y[i] * 3 + total
        n += 1
    return n


def filling(x, y, z, turns):
    while qgraph.graph_do_while(turns):
        y[:] = 0
        for i in range(x.shape[0]):
            y[i] += x[i] * 3 + 1
        z[:] = y
        for i in range(x.shape[0]):
            x[i] = z[x.shape[0] - 1 - i] * 5
        turns[()] -= 1
    y[:] = 0


def nested(x, y, turns):
    for t in qgraph.serial(range(5)):
        s = 0
        while s < turns[()] - t:
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 + s
            s += 1
        for i in range(y.shape[0]):
            y[i] = y[i] * 2 + x[i]


DO_WHILE = [(one, 1), (three, 2), (independent, 2), (filling, 3), (swapping, 2)]
WITH_TEST_FIRST = [(checked_first, 1), (counted, 1), (leaving, 1), (nested, 2)]


@pytest.mark.parametrize(("function", "arrays"), DO_WHILE + WITH_TEST_FIRST, ids=lambda each: getattr(each, "__name__", ""))
def test_any_number_of_turns(function, arrays, form):
    kernel = cuda_kernel(function)
    first = (0,) if (function, arrays) in WITH_TEST_FIRST else ()
    for turns in (*first, *TURNS, 1, *first, 33, 100, 100, 2):
        agrees(kernel, *(ints(300, seed) if seed == 0 else np.full(300, 77) for seed in range(arrays)), np.array(turns))
        if form in ("unrolled", "plain"):
            assert runs_unrolled(kernel) == (form == "unrolled")
    assert kernel.stats.graph_builds == 1


# From so many elements on each thread of an H200 has several.
SEVERAL_EACH = 1_200_000
CHECKED_FOR_MINUTES = pytest.mark.unsanitized(reason="200 kernels over a million elements, of which the tool checks each")


@pytest.mark.parametrize("n", [300, 40_000, 400_000, pytest.param(SEVERAL_EACH, marks=CHECKED_FOR_MINUTES)])
@pytest.mark.parametrize("function", COUNTED, ids=lambda each: each.__name__)
def test_counted_loops(function, n, form):
    kernel = cuda_kernel(function)
    turns = (1, 2, 31, 33, 70) if n > 300 else (1, *TURNS, 31, 32, 33, 63, 64, 65, 129, 100, 100, 2)
    for number, count in enumerate(turns):
        found = [ints(n + number, count), ints(n + number, count + 50)]
        agrees(kernel, *found, np.array(count), 3, expected=counted_in_numpy[function.__name__] if n > 300 else None)
        if form in ("unrolled", "plain"):
            assert runs_unrolled(kernel) == (form == "unrolled")
    assert kernel.stats.graph_builds == 1


def marched(x, y, turns, a):
    for _ in range(int(turns)):
        x[:-1] += a * (y[1:] - y[:-1])
        y[1:] += x[1:] - 2 * x[:-1]
    x += 5


def traded(x, y, turns, a):
    p, q, numbers = x, y, np.arange(len(x))
    for _ in range(int(turns)):
        q[:] = p[::-1] * a + numbers
        p, q = q, p
    p += q * 3


def three_taken_in_turn(x, y, turns, a):
    p, q, r = x, y, np.zeros_like(x)
    r[:2] = 5, 6
    for _ in range(int(turns)):
        q[:] = p[::-1] * a + r
        p, q, r = q, r, p
    r += p + q * 7


def taken_from_the_start(x, y, turns, a):
    numbers = np.arange(len(x))
    for t in range(3):
        p, q = x, y
        for _ in range(int(turns) + t):
            q[:] = p[::-1] * a + numbers
            p, q = q, p
        q += p * t


def stepped(x, y, turns, a):
    for t in range(int(turns) * a, 0, -a):
        x *= 3
        x += t
        y[:t] = y[:t] * 2 + x[:t]
    p, q = x, y
    for t in range(2, 2 + int(turns) * 3, 3):
        q += (p + t) * t
        p, q = q, p


def last_was(x, y, turns, a):
    for _ in range(int(turns)):
        x *= 3
        x += y
    for _ in range(2 * int(turns)):
        y *= 3
        y += x
    y[0] = 4 + (int(turns) - 1) * a


counted_in_numpy = {
    "marching": marched,
    "trading": traded,
    "three_in_turn": three_taken_in_turn,
    "from_the_start": taken_from_the_start,
    "stepping": stepped,
    "last_of": last_was,
}


def spreading(u, v, steps):
    for t in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange((1, u.shape[0]), u.shape[1]):
            v[i, j] = u[i, j] * 3 + u[i - 1, j] + t
        u, v = v, u


def turning(u, v, steps):
    for _ in qgraph.serial(range(steps)):
        for i, j in qgraph.ndrange(*u.shape):
            v[j, i] = u[i, j] * 3 + 1
        u, v = v, u


def spread(u, v, steps):
    for t in range(steps):
        v[1:] = u[1:] * 3 + u[:-1] + t
        u, v = v, u


def turned(u, v, steps):
    for _ in range(steps):
        v[:] = u.T * 3 + 1
        u, v = v, u


@pytest.mark.parametrize("side", [37, 900, 1200])
@pytest.mark.parametrize(("function", "in_numpy"), [(spreading, spread), (turning, turned)])
def test_arrays_of_two_axes_change_places(function, in_numpy, side):
    """Small, with a row a thread, and with several, or in tiles."""
    kernel = cuda_kernel(function)
    for steps in (2, 35, 35, 70, 9) if side < 1000 else (2, 33, 33, 5):
        agrees(kernel, ints((side, side), steps), ints((side, side), steps + 1), steps, expected=in_numpy)
    assert kernel.stats.graph_builds == 1


def test_arrays_change_places_at_other_addresses_and_sizes():
    kernel = cuda_kernel(trading)
    for number in range(12):
        n = 1000 + 3 * (number // 2)
        agrees(kernel, ints(n, number), ints(n, number + 20), np.array(90 + number), 5, expected=traded)
    assert runs_unrolled(kernel)
    assert kernel.stats.graph_builds == 1


def summed(x, y, limit):
    """``summing`` in NumPy."""
    total = n = 0
    while total < limit[()]:
        x += 1
        total = x.sum()
        y *= 3
        y += total
        n += 1
    return n


@pytest.mark.parametrize("n", [3, 700, 300_000])
def test_a_reduction_decides(n, form):
    kernel = cuda_kernel(summing)
    x = np.arange(n) % 5
    for turns in (1, 2, 7, 8, 9, 40, 1, 40, 0):
        agrees(kernel, x.copy(), np.full(100, 77), np.array(int(x.sum()) + turns * n), expected=summed)


def three_times(x, y, turns):
    """``three`` in NumPy."""
    while turns[()]:
        y[:] = x * 3 + 1
        x[:] = y[::-1] * 5 + 2
        y[:] += x[::-1] * 7
        turns[()] -= 1


def test_sizes_and_arguments_change_between_launches(form):
    kernel = cuda_kernel(three)
    for n in (10, 300_000, 1000, SEVERAL_EACH):
        for turns in (40, 1, 40, 2):
            agrees(kernel, ints(n, turns), np.full(n, 77), np.array(turns), expected=three_times)
    assert kernel.stats.graph_builds == 1


@ONE_BY_ONE_OR_IN_FLIGHT
def test_many_launches(form, in_flight):
    kernel = cuda_kernel(one)
    launches = []
    for number in range(24):
        turns = (1, 100, 30, 2)[number // 3 % 4]
        x = ints(500 + number, number)
        launches.append((x, on_device(x), on_device(np.array(turns)), turns))
    for _, dx, dt, _ in launches:
        kernel(dx, dt)
        if not in_flight:
            qgraph.synchronize()
    for x, dx, dt, turns in launches:
        with np.errstate(over="ignore"):
            for _ in range(turns):
                x = x * 3 + 1
        np.testing.assert_array_equal(qgraph.to_numpy(dx), x)
        assert qgraph.to_numpy(dt) == 0


@ONE_BY_ONE_OR_IN_FLIGHT
def test_launches_on_several_streams(form, in_flight):
    streams = []
    with device().activate():
        streams = [int(call(driver.cuStreamCreate, 1)) for _ in range(3)]
    kernel = cuda_kernel(three)
    launches = []
    for number in range(25):
        turns = (1, 60, 60, 2, 100)[number // 5]
        x = ints(2000, number)
        launches.append((x, turns, *(on_device(each) for each in (x, np.full(2000, 77), np.array(turns)))))
    qgraph.synchronize()
    for number, (_, _, dx, dy, dt) in enumerate(launches):
        with qgraph.stream(streams[number % 3]):
            kernel(dx, dy, dt)
        if not in_flight:
            qgraph.synchronize()
    qgraph.synchronize()
    for x, turns, dx, _, _ in launches:
        y = np.full(2000, 77)
        with np.errstate(over="ignore"):
            for _ in range(turns):
                y = x * 3 + 1
                x = y[::-1] * 5 + 2
                y = x[::-1] * 7 + y
        np.testing.assert_array_equal(qgraph.to_numpy(dx), x)
    with device().activate():
        for stream in streams:
            call(driver.cuStreamDestroy, stream)


def host_kernel(function):
    return qgraph.kernel(backend="cuda", conditional="host")(function)


def test_a_host_says_when_it_runs_ahead():
    kernel = host_kernel(one)
    alone = 8
    for turns in (1, 8, 9, 8, 100, 2, 9, 16, 1, 50, 50):
        agrees(kernel, ints(1000, turns), np.array(turns))
        assert kernel.last_launch.path == "cuda-host-loop"
        assert ("ahead" in kernel.last_launch.reason) == (turns > alone)
        # What ran long is run ahead of at once the next time.
        alone = 1 if turns >= 16 else 8
    agrees(qgraph.kernel(backend="cuda", graph=False)(one), ints(1000), np.array(100))


def test_what_a_host_launched_too_much_does_nothing():
    kernel = host_kernel(independent)
    # Enough work in an iteration that the host is ahead for sure.
    x, y = ints(4_000_000), ints(4_000_000, 2)
    dx, dy = on_device(x), on_device(y)
    some = slice(None, None, 4001)
    x, y = x[some], y[some]
    for turns in (30, 3, 40, 11, 64, 2, 64, 1, 12, 25):
        left = on_device(np.array(turns))
        kernel(dx, dy, left)
        assert qgraph.to_numpy(left) == 0
        with np.errstate(over="ignore"):
            for _ in range(turns):
                x, y = x * 3 + 1, y * 5 + 2
        np.testing.assert_array_equal(qgraph.to_numpy(dx)[some], x)
        np.testing.assert_array_equal(qgraph.to_numpy(dy)[some], y)


def test_max_iter_ends_a_loop_that_the_host_runs_ahead_of():
    def limited(x, turns, most):
        while qgraph.graph_do_while(turns, max_iter=most):
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 + 1
            turns[()] -= 1

    kernel = host_kernel(limited)
    for most in (1, 2, 8, 9, 10, 11, 16, 17, 40, 3, 25, 9):
        agrees(kernel, ints(100, most), np.array(30), most)


@pytest.mark.parametrize("after", range(4))
def test_an_interrupted_host_leaves_nothing_behind(after, monkeypatch):
    kernel = host_kernel(three)
    waited = host_loop._Flag.wait
    waits = 0

    def wait(flag):
        nonlocal waits
        waits += 1
        if waits == after + 1:
            raise KeyboardInterrupt
        return waited(flag)

    monkeypatch.setattr(host_loop._Flag, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        kernel(*(on_device(each) for each in (ints(500_000), ints(500_000), np.array(200))))
    for turns in (12, 1, 30):
        agrees(kernel, ints(700, turns), np.full(700, 77), np.array(turns))
    with device().activate():
        stream = int(call(driver.cuStreamCreate, 1))
    waits = -1000
    for turns in (20, 3):
        with qgraph.stream(stream):
            agrees(kernel, ints(700, turns), np.full(700, 77), np.array(turns))
    with device().activate():
        call(driver.cuStreamDestroy, stream)


def test_what_ran_long_is_unrolled_and_what_did_not_is_not():
    kernel = cuda_kernel(one)
    x = on_device(ints(1000))
    told = []
    for turns in [1] * 4 + [100] * 6 + [1] * 6:
        kernel(x, on_device(np.array(turns)))
        qgraph.synchronize()
        told.append(runs_unrolled(kernel))
    # One launch to see it.
    assert told == [False] * 5 + [True] * 6 + [False] * 5
    assert kernel.stats.graph_builds == 1


def test_the_same_arguments_again_are_no_update():
    kernel = cuda_kernel(one)
    x, turns = on_device(ints(1000)), on_device(np.array(0))
    reset = np.array(50)
    for _ in range(6):
        turns[...] = reset
        kernel(x, turns)
        qgraph.synchronize()
    assert runs_unrolled(kernel)
    assert kernel.stats.argument_updates == 0


def test_bound_kernels_and_their_graph():
    kernel = cuda_kernel(one)
    x, dx, turns = ints(1000), on_device(ints(1000)), on_device(np.array(50))
    bound = kernel.bind(dx, turns)
    for _ in range(5):
        turns[...] = np.array(50)
        bound.launch()
        qgraph.synchronize()
    assert runs_unrolled(kernel)
    # The plain graph has the arguments, and is the one that runs from here on.
    raw = bound.graph
    turns[...] = np.array(50)
    with device().activate():
        call(driver.cuGraphLaunch, raw.executable, 0)
    qgraph.synchronize()
    turns[...] = np.array(50)
    bound.launch()
    assert not runs_unrolled(kernel)
    with np.errstate(over="ignore"):
        for _ in range(350):
            x = x * 3 + 1
    np.testing.assert_array_equal(qgraph.to_numpy(dx), x)


def test_two_loops_and_a_fill_outside():
    def twice(x, y, turns, more):
        y[:] = 0
        while qgraph.graph_do_while(turns):
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 + y[i]
            turns[()] -= 1
        while qgraph.graph_do_while(more):
            for i in range(x.shape[0]):
                y[i] = y[i] * 5 + x[i]
            more[()] -= 1

    kernel = cuda_kernel(twice)
    for n in (100, 100, 500, 500, 500, 20):
        for turns, more in ((100, 1), (1, 100), (1, 1), (7, 9), (40, 40)):
            agrees(kernel, ints(n, turns), np.full(n, 77), np.array(turns), np.array(more))
    assert kernel.stats.graph_builds == 1
