"""A kernel as one block on the device: when it is one, that no argument is stale, and that the two forms keep order."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.driver import call, device, driver


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def fused(function, **options):
    return qgraph.kernel(backend="cuda", fuse=True, **options)(function)


def is_alone(kernel):
    launch = kernel.last_launch
    assert launch.path == "cuda-graph"
    assert (launch.nodes == 1) == ("one block" in launch.reason)
    return launch.nodes == 1


def relax(x, y, n):
    total = 0
    k = 0
    while k < n:
        for i in range(x.shape[0]):
            y[i] = x[x.shape[0] - 1 - i] * 3 + k
        for i in range(x.shape[0]):
            x[i] = y[i] ^ (y[i] >> 7)
        for i in range(x.shape[0]):
            total += x[i]
        k += 1
    return total


def steps(x, y, n):
    k = 0
    while k < n:
        for i in range(x.shape[0]):
            y[i] = x[x.shape[0] - 1 - i] * 3 + k
        for i in range(x.shape[0]):
            x[i] = y[i] ^ (y[i] >> 7)
        k += 1


def turned(x, *calls):
    """What calls of ``steps`` with these numbers leave in ``x``, in NumPy: int64 wraps in both."""
    with np.errstate(over="ignore"):
        for k in (k for n in calls for k in range(n)):
            y = x[::-1] * 3 + k
            x = y ^ (y >> 7)
    return x


def start(n, seed=0):
    return np.arange(n, dtype=np.int64) * 5 + seed


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000, 1023, 1024, 1025, 4096])
def test_ten_thousand_turns_of_one_block(n):
    kernel = fused(steps)
    x = on_device(start(n))
    kernel(x, on_device(start(n)), 10_000)
    assert is_alone(kernel)
    np.testing.assert_array_equal(qgraph.to_numpy(x), turned(start(n), 10_000))


def test_the_block_follows_the_sizes():
    """Fewer threads where there are fewer iterations, and the launch after that has more again."""
    kernel = fused(relax)
    for n in (10, 4000, 33, 1025, 0, 1024, 64):
        x, y = on_device(start(n)), on_device(start(n))
        expected = start(n), start(n)
        assert kernel(x, y, 4) == kernel.reference(*expected, 4)
        assert is_alone(kernel)
        np.testing.assert_array_equal(qgraph.to_numpy(x), expected[0])


def test_reductions_of_ten_thousand_turns():
    def sums(x, out):
        k = 0
        while k < 10_000:
            s = 0
            low = 1 << 40
            where = -1
            for i in range(x.shape[0]):
                s += x[i]
                if x[i] < low:
                    low = x[i]
                    where = i
            x[where] = s % 1009 + k
            k += 1
        out[0] = k

    n = 3000
    x, out = on_device(start(n) % 997), on_device(np.zeros(1, np.int64))
    kernel = fused(sums)
    kernel(x, out)
    assert is_alone(kernel)
    expected = start(n) % 997
    for k in range(10_000):
        expected[np.argmin(expected)] = expected.sum() % 1009 + k
    np.testing.assert_array_equal(qgraph.to_numpy(x), expected)
    assert qgraph.to_numpy(out)[0] == 10_000


def test_sizes_that_cross_the_limit_again_and_again():
    kernel = fused(relax)
    for n in (5, 4096, 4097, 100_000, 4096, 0, 4097, 1):
        x, y = on_device(start(n)), on_device(start(n))
        expected = start(n), start(n)
        assert kernel(x, y, 5) == kernel.reference(*expected, 5)
        np.testing.assert_array_equal(qgraph.to_numpy(x), expected[0])
        assert is_alone(kernel) == (n <= 4096)
    assert kernel.stats.graph_builds == kernel.stats.compilations == 1


def test_arguments_that_changed_while_the_other_form_ran():
    """Pointers, sizes and numbers reach the graph that is launched next, whichever was launched when they changed."""
    kernel = fused(steps)
    arrays = {n: [on_device(start(n, seed)) for seed in range(2)] for n in (700, 9000)}
    expected = {n: [start(n, seed) for seed in range(2)] for n in (700, 9000)}
    spare = {n: on_device(start(n)) for n in (700, 9000)}
    order = [(700, 0), (9000, 0), (9000, 1), (700, 1), (700, 0), (9000, 1), (700, 0), (9000, 0), (700, 1)]
    for turn, (n, which) in enumerate(order * 3):
        kernel(arrays[n][which], spare[n], 1 + turn % 4)
        expected[n][which] = turned(expected[n][which], 1 + turn % 4)
    for n, found in arrays.items():
        for array, wanted in zip(found, expected[n], strict=True):
            np.testing.assert_array_equal(qgraph.to_numpy(array), wanted)


def test_what_only_the_other_form_was_told():
    """A number that changed while one form ran reaches the other, whose launch changes nothing but an array."""

    def apart(x, z, a):
        for t in qgraph.serial(range(2)):
            for i in range(x.shape[0]):
                x[i] += t
            z[0] = z[0] * 3 + a

    kernel = fused(apart)
    arrays = {n: on_device(np.zeros(n, np.int64)) for n in (100, 5000)}
    z, expected = on_device(np.array([1])), 1
    for turn, (n, a) in enumerate(
        [(5000, 1), (100, 2), (5000, 2), (100, 3), (5000, 3), (5000, 3), (100, 3), (5000, 4), (100, 4)]
    ):
        kernel(arrays[n], z, a)
        assert is_alone(kernel) == (n == 100), turn
        expected = (expected * 3 + a) * 3 + a
        assert qgraph.to_numpy(z)[0] == expected, turn
    assert (qgraph.to_numpy(arrays[100]) == 4).all()
    assert (qgraph.to_numpy(arrays[5000]) == 5).all()


def test_many_launches_in_flight():
    """Each with arguments of its own, none of them waited for."""
    kernel = fused(steps)
    sets = [(on_device(start(n, seed)), on_device(start(n))) for seed, n in enumerate([64, 8000, 128, 5000, 64, 4096] * 4)]
    for repeat in range(20):
        for x, y in sets:
            kernel(x, y, 3 + repeat % 2)
    for seed, (n, (x, _)) in enumerate(zip([64, 8000, 128, 5000, 64, 4096] * 4, sets, strict=True)):
        np.testing.assert_array_equal(qgraph.to_numpy(x), turned(start(n, seed), *[3, 4] * 10))


def test_both_forms_on_two_streams_share_scratch_in_turn():
    """The counter of the loop lies in scratch: a launch that did not wait for the other form would see it change."""
    kernel = fused(steps)
    with device().activate():
        streams = [int(call(driver.cuStreamCreate, 1)) for _ in range(2)]
    small, large = on_device(start(900)), on_device(start(20_000))
    spare = on_device(start(900)), on_device(start(20_000))
    qgraph.synchronize()
    for _ in range(10):
        with qgraph.stream(streams[0]):
            kernel(small, spare[0], 300)
        with qgraph.stream(streams[1]):
            kernel(large, spare[1], 300)
    with device().activate():
        for stream in streams:
            call(driver.cuStreamSynchronize, stream)
    np.testing.assert_array_equal(qgraph.to_numpy(small), turned(start(900), *[300] * 10))
    np.testing.assert_array_equal(qgraph.to_numpy(large), turned(start(20_000), *[300] * 10))


def test_a_bound_kernel_replays_its_form():
    kernel = fused(steps)
    bound = [kernel.bind(on_device(start(n)), on_device(start(n)), 2) for n in (50, 6000)]
    for which in (0, 0, 1, 0, 1, 1):
        bound[which].launch()
        assert is_alone(kernel) == (which == 0)
    expected = turned(start(50), 2)
    x = on_device(start(50))
    kernel.bind(x, on_device(start(50)), 2).launch()
    np.testing.assert_array_equal(qgraph.to_numpy(x), expected)


def test_who_asks_for_the_graph_gets_that_of_the_plan():
    """It has all nodes, and the arguments of its binding; from then on there is no other form."""
    kernel = fused(steps)
    x, y = on_device(start(50)), on_device(start(50))
    kernel(x, y, 1)
    assert is_alone(kernel)
    graph = kernel.bind(x, y, 2).graph
    with device().activate():
        assert call(driver.cuGraphGetNodes, graph.handle)[1] > 1
        call(driver.cuGraphLaunch, graph.executable, 0)
    np.testing.assert_array_equal(qgraph.to_numpy(x), turned(start(50), 1, 2))
    kernel(x, y, 1)
    assert not is_alone(kernel)
    np.testing.assert_array_equal(qgraph.to_numpy(x), turned(start(50), 1, 2, 1))


@pytest.mark.parametrize("options", [{"graph": False}, {"conditional": "host"}, {"block_size": 64}], ids=str)
def test_options_that_say_how_it_is_launched_are_heard(options):
    kernel = fused(steps, **options)
    x = on_device(start(50))
    kernel(x, on_device(start(50)), 3)
    assert "one block" not in kernel.last_launch.reason
    np.testing.assert_array_equal(qgraph.to_numpy(x), turned(start(50), 3))


def test_control_flow_inside_control_flow():
    def tangled(x, hist, n):
        k = 0
        seen = 0
        while k < n:
            match k % 4:
                case 0:
                    for i in range(x.shape[0]):
                        hist[x[i] % 5] += 1
                case 1:
                    for t in qgraph.serial(range(k % 3)):
                        if t == 1:
                            continue
                        for i in range(x.shape[0]):
                            x[i] = (x[i] * 7 + hist[t]) % 1000
                case _:
                    if hist[0] > hist[1]:
                        for i in range(x.shape[0]):
                            x[i] += hist[4] % 3
                    else:
                        hist[0] += 1
            some = False
            for i in range(x.shape[0]):
                some = some or x[i] > 990
            if some:
                seen += 1
            k += 1
        return seen

    kernel = fused(tangled)
    for n in (40, 1500, 4096):
        x, hist = on_device(start(n) % 997), on_device(np.zeros(5, np.int64))
        expected = start(n) % 997, np.zeros(5, np.int64)
        assert kernel(x, hist, 50) == kernel.reference(*expected, 50)
        assert is_alone(kernel)
        np.testing.assert_array_equal(qgraph.to_numpy(x), expected[0])
        np.testing.assert_array_equal(qgraph.to_numpy(hist), expected[1])


def test_floats_are_the_same_every_time():
    def dots(x, y, n):
        s = 0.0
        k = 0
        while k < n:
            d = 0.0
            for i in range(x.shape[0]):
                d += x[i] * y[i]
            s += d * 1e-3
            for i in range(x.shape[0]):
                y[i] = y[i] * 0.999 + d * 1e-6
            k += 1
        return s

    kernel = fused(dots)
    values = np.random.default_rng(3).random((2, 3000), np.float32)
    results = [kernel(on_device(values[0]), on_device(values[1].copy()), 50) for _ in range(5)]
    assert is_alone(kernel)
    assert len(set(results)) == 1
    np.testing.assert_allclose(results[0], kernel.reference(values[0], values[1].copy(), 50), rtol=1e-3)
