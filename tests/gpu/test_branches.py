"""Branches and returned values on the device: conditional nodes in one another, and results of many threads and streams."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.driver import call, device, driver

# How a kernel runs, and the options that make it so.
PATHS = {
    "device": {"conditional": "device"},
    "host": {"conditional": "host"},
    "stream": {"graph": False},
}
PATH_OF_BRANCHES = {"device": "cuda-graph", "host": "cuda-host-loop", "stream": "cuda-stream"}


@pytest.fixture(params=list(PATHS))
def path(request):
    return request.param


def cuda_kernel(function, path="device"):
    return qgraph.kernel(backend="cuda", **PATHS[path])(function)


def ints(n=700):
    return np.arange(n, dtype=np.int64) % 13


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def plain(value):
    """``value`` with Python numbers instead of NumPy's, which the reference gives for array elements."""
    if isinstance(value, np.generic):
        return value.item()
    if dataclasses.is_dataclass(value):
        return type(value)(**{field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)})
    if isinstance(value, tuple):
        parts = [plain(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def types_in(value):
    parts = value if isinstance(value, tuple) else vars(value).values() if dataclasses.is_dataclass(value) else ()
    return type(value), [types_in(part) for part in parts]


def agrees(kernel, x, *scalars):
    """The kernel leaves in ``x`` and returns what plain Python does; gives what it returns."""
    dx, expected = on_device(x), x.copy()
    wanted = plain(kernel.reference(expected, *scalars))
    got = kernel(dx, *scalars)
    assert got == wanted
    assert types_in(got) == types_in(wanted)
    np.testing.assert_array_equal(qgraph.to_numpy(dx), expected)
    return got


# --- branches -----------------------------------------------------------------------------------------------------------


def alternating(x, n):
    it = 0
    while it < n:
        if it % 2 == 0:
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 % 1009
        else:
            for i in range(x.shape[0]):
                x[i] += it
        it += 1
    return it


def test_if_else_in_a_while(path):
    kernel = cuda_kernel(alternating, path)
    for n in (0, 1, 2, 7, 40, 7):
        assert agrees(kernel, ints(), n) == n
    assert kernel.last_launch.path == PATH_OF_BRANCHES[path]
    assert kernel.stats.graph_builds == 1


def only_some_turns(x, n, k):
    it = 0
    while it < n:
        it += 1
        if it % k == 0:
            for i in range(x.shape[0]):
                x[i] += it
        for i in range(x.shape[0]):
            x[i] = x[i] * 2 % 1013


@pytest.mark.parametrize("k", [1, 3, 100])
def test_if_without_else_in_a_while(path, k):
    agrees(cuda_kernel(only_some_turns, path), ints(), 10, k)


def three_deep(x, a, b, c):
    r = 0
    if a > 0:
        if b > 0:
            r = 1
            if c > 0:
                for i in range(x.shape[0]):
                    x[i] += 1
            else:
                for i in range(x.shape[0]):
                    x[i] *= 2
        else:
            if c > 0:
                for i in range(x.shape[0]):
                    x[i] -= 3
                r = 2
            for i in range(x.shape[0]):
                x[i] += 10
    else:
        r = -1
        if b > c:
            for i in range(x.shape[0]):
                x[i] = i
    for i in range(x.shape[0]):
        x[i] += r
    return r


def test_ifs_three_deep(path):
    kernel = cuda_kernel(three_deep, path)
    for bits in range(8):
        agrees(kernel, ints(), *(int(bool(bits & bit)) for bit in (4, 2, 1)))
    assert kernel.stats.graph_builds == 1


def three_deep_in_a_while(x, n):
    it = 0
    while it < n:
        if it % 2:
            if it % 3:
                if it % 5:
                    for i in range(x.shape[0]):
                        x[i] += 1
                else:
                    for i in range(x.shape[0]):
                        x[i] = x[i] * 7 % 1009
            else:
                for i in range(x.shape[0]):
                    x[i] -= it
        elif it % 4:
            for i in range(x.shape[0]):
                x[i] += x[i] % 5
        it += 1


def test_ifs_three_deep_in_a_while(path):
    agrees(cuda_kernel(three_deep_in_a_while, path), ints(), 31)


def switching(x, n):
    r = -1
    match n:
        case 0:
            for i in range(x.shape[0]):
                x[i] += 100
        case 3 | -7:
            r = 37
            for i in range(x.shape[0]):
                x[i] *= 2
        case 4:
            pass
        case 5:
            for i in range(x.shape[0]):
                x[i] -= 5
    return r


def test_match(path):
    kernel = cuda_kernel(switching, path)
    for n in (0, 1, 2, 3, 4, 5, 6, -1, -7, 2**31, 2**32, 2**32 + 3, -(2**63), 0):
        agrees(kernel, ints(), n)
    assert kernel.last_launch.path == PATH_OF_BRANCHES[path]
    assert kernel.stats.graph_builds == 1


def switching_in_a_while(x, n):
    k = -2
    while k < n:
        match k:
            case 0:
                for i in range(x.shape[0]):
                    x[i] += 1
            case 1:
                for i in range(x.shape[0]):
                    x[i] *= 2
            case 3:
                j = 0
                while j < k:
                    for i in range(x.shape[0]):
                        x[i] += j
                    j += 1
            case _:
                for i in range(x.shape[0]):
                    x[i] -= k
        k += 1
    return k


def test_match_in_a_while(path):
    agrees(cuda_kernel(switching_in_a_while, path), ints(), 9)


def while_in_if_in_while(x, n):
    turns = 0
    it = 0
    while it < n:
        if it % 3 == 1:
            k = 0
            while k < it:
                for i in range(x.shape[0]):
                    x[i] = (x[i] + k) % 997
                if k % 2:
                    for i in range(x.shape[0]):
                        x[i] += 1
                k += 1
                turns += 1
        else:
            k = it
            while k > 0:
                for i in range(x.shape[0]):
                    x[i] += k
                k -= 2
                turns += 100
        it += 1
    return turns


def test_a_while_in_an_if_in_a_while(path):
    kernel = cuda_kernel(while_in_if_in_while, path)
    # Again with the same graph: no condition may be left over from the launch before.
    for n in (8, 0, 1, 2, 8, 5):
        agrees(kernel, ints(), n)


def regions_without_work(x, n):
    if n > 0:
        pass
    else:
        for i in range(x.shape[0]):
            x[i] += 1
    match n:
        case 0:
            pass
        case 1:
            for i in range(x.shape[0]):
                x[i] += 5
        case 2:
            pass


def test_regions_without_work(path):
    kernel = cuda_kernel(regions_without_work, path)
    for n in (0, 1, 2, 3):
        agrees(kernel, ints(), n)


def decided_by_data(x, n):
    it = 0
    total = 0
    while it < n:
        it += 1
        total = 0
        for i in range(x.shape[0]):
            total += x[i]
        if total % 2:
            for i in range(x.shape[0]):
                x[i] += it + i % 3
        else:
            for i in range(x.shape[0]):
                x[i] = x[i] * 5 % 257
        if total > 60_000:
            break
    return it, total


def test_a_sum_decides(path):
    agrees(cuda_kernel(decided_by_data, path), ints(3001), 20)


def test_branches_without_the_device(monkeypatch):
    # A driver that runs loops but not branches: kernels with branches fall back, others do not.
    from qgraph.dispatch import executables
    from qgraph.errors import BackendError, PerformanceWarning
    from qgraph.runtime.graph.capability_probe import Probe

    monkeypatch.setattr(executables, "loop_probe", lambda ordinal: Probe(True, False, "a test says so"))
    kernel = qgraph.kernel(backend="cuda")(alternating)
    with pytest.warns(PerformanceWarning, match="a test says so"):
        agrees(kernel, ints(), 5)
    assert kernel.last_launch.path == "cuda-host-loop"
    assert kernel.last_launch.reason == "a test says so"
    with pytest.raises(BackendError, match="a test says so"):
        cuda_kernel(alternating)(on_device(ints()), 5)
    plain = cuda_kernel(counting)
    agrees(plain, ints(), 5)
    assert plain.last_launch.path == "cuda-graph"


# --- results ------------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    count: int
    mean: float


@dataclass(frozen=True)
class Outcome:
    pair: Pair
    done: bool
    z: complex


def counting(x, n):
    k = 0
    while k < n:
        for i in range(x.shape[0]):
            x[i] += 1
        k += 1
    return k


def an_int(x, n):
    for i in range(x.shape[0]):
        x[i] += n
    return x[1] - n


def a_float(x, n):
    s = 0.5
    for i in range(x.shape[0]):
        x[i] += n
    return s * n


def a_bool(x, n):
    for i in range(x.shape[0]):
        x[i] += n
    return x[0] > 2


def a_tuple(x, n):
    for i in range(x.shape[0]):
        x[i] += n
    return n, (x[0] / 2, x[1] > 0), x[2]


def a_named_tuple(x, n):
    for i in range(x.shape[0]):
        x[i] += n
    return Pair(n, x[0] / 4)


def a_dataclass(x, n):
    for i in range(x.shape[0]):
        x[i] += n
    return Outcome(Pair(n, x[0] * 0.5), z=x[1] * 1j + 0.25, done=n > 2)


RESULTS = [an_int, a_float, a_bool, a_tuple, a_named_tuple, a_dataclass]


@pytest.mark.parametrize("function", RESULTS)
def test_results_are_python_values(function, path):
    kernel = cuda_kernel(function, path)
    for n in (0, 3, -2):
        agrees(kernel, ints(50), n)


def test_a_kernel_without_a_result_returns_none(path):
    kernel = cuda_kernel(only_some_turns, path)
    x = on_device(ints())
    for _ in range(4):
        assert kernel(x, 3, 2) is None
    assert kernel.bind(x, 3, 2).launch() is None


def test_every_way_to_call_returns_the_result(path):
    kernel = cuda_kernel(counting, path)
    x = on_device(ints())
    # The second and later calls with the same arguments take the short way.
    assert [kernel(x, 4) for _ in range(5)] == [4] * 5
    assert kernel(x, n=6) == 6
    bound = kernel.bind(x, 5)
    assert [bound.launch() for _ in range(3)] == [5] * 3
    qgraph.reset()
    assert kernel(x, 4) == 4
    assert bound.launch() == 5


@pytest.mark.filterwarnings("ignore::qgraph.errors.PerformanceWarning")
def test_numpy_arrays_that_are_staged(path):
    kernel = cuda_kernel(a_tuple, path)
    bound_to = ints(40)
    bound = kernel.bind(bound_to, 2)
    for n in (1, 2):
        x, expected = ints(40), ints(40)
        assert kernel(x, n) == kernel.reference(expected, n)
        np.testing.assert_array_equal(x, expected)
    expected = ints(40)
    assert bound.launch() == kernel.reference(expected, 2)
    np.testing.assert_array_equal(bound_to, expected)


@dataclass
class Grid:
    x: object

    @qgraph.kernel(backend="cuda")
    def shifted(self, n):
        for i in range(self.x.shape[0]):
            self.x[i] += n
        return self.x[3], n


def test_a_method_returns_its_result():
    grid = Grid(on_device(ints()))
    assert grid.shifted(4) == (7, 4)
    assert grid.shifted(4) == (11, 4)


def test_threads_get_their_own_results(path):
    kernel = cuda_kernel(a_dataclass, path)
    loops = cuda_kernel(while_in_if_in_while, path)

    def work(seed):
        for turn in range(30):
            n = 1000 * seed + turn
            x = ints(100 + seed)
            got, wanted = kernel(on_device(x), n), kernel.reference(x.copy(), n)
            assert got == wanted
            assert loops(on_device(x), seed + turn % 3) == loops.reference(x, seed + turn % 3)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, seed) for seed in range(4)]:
            future.result()


def slow(x, n, mark):
    k = 0
    while k < n:
        for i in range(x.shape[0]):
            x[i] += 1
        k += 1
    return k, mark, x[0]


def test_results_on_a_callers_stream(path):
    # Non-blocking streams: nothing but the order of each stream makes the copy wait for the kernels.
    kernel = cuda_kernel(slow, path)
    x = on_device(np.zeros(200_000, np.int64))
    qgraph.synchronize()
    with device(0).activate():
        handles = [int(call(driver.cuStreamCreate, 1)) for _ in range(2)]
    total = 0
    for turn in range(20):
        with qgraph.stream(handles[turn % 2]):
            n = 3 + turn % 5
            total += n
            assert kernel(x, n, turn) == (n, turn, total)
    with device(0).activate():
        for handle in handles:
            call(driver.cuStreamDestroy, handle)


def test_threads_on_streams_of_their_own(path):
    kernel = cuda_kernel(slow, path)

    def work(seed):
        handle = int(call(driver.cuStreamCreate, 1))
        x = on_device(np.full(50_000, 10 * seed, np.int64))
        qgraph.synchronize()
        with qgraph.stream(handle):
            for turn in range(1, 20):
                mark = 100 * seed + turn
                assert kernel(x, 2, mark) == (2, mark, 10 * seed + 2 * turn)
        call(driver.cuStreamDestroy, handle)

    kernel(on_device(np.zeros(3, np.int64)), 1, 0)
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(in_context, work, seed) for seed in range(4)]:
            future.result()


def in_context(work, seed):

    with device(0).activate():
        work(seed)


def test_only_results_make_a_call_wait():
    # The launch of a kernel without a result returns while the device still works.
    import time

    def counted_up(x, n):
        k = 0
        while k < n:
            for i in range(x.shape[0]):
                x[i] += 1
            k += 1

    kernel = cuda_kernel(counted_up)
    x = on_device(np.zeros(1000, np.int64))
    kernel(x, 1)
    qgraph.synchronize()
    start = time.perf_counter()
    kernel(x, 50_000)
    launched = time.perf_counter() - start
    qgraph.synchronize()
    done = time.perf_counter() - start
    assert launched < done / 5


def sums_before_a_test(x, turns, rounds):
    s = total = 0
    for _ in qgraph.serial(range(rounds)):
        s = 0
        t = 0
        for i in range(x.shape[0]):
            s += x[i]
        while t < turns[0]:
            for i in range(x.shape[0]):
                x[i] = (x[i] * 5 + t) % 257
            t += 1
        total += s * t + t
    return total


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_the_kernel_of_a_sum_arms_a_loop(path, turns):
    """A loop's condition may stand in front of the sum whose kernel sets it: no turn too many, and again in each round."""

    def arguments(array):
        return array(ints(3001)), array(np.array([turns])), 4

    kernel = cuda_kernel(sums_before_a_test, path)
    x, *rest = arguments(on_device)
    wanted_x, *wanted_rest = arguments(lambda array: array)
    assert kernel(x, *rest) == kernel.reference(wanted_x, *wanted_rest)
    np.testing.assert_array_equal(qgraph.to_numpy(x), wanted_x)
