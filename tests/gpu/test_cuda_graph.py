"""The CUDA executors, seen from outside: loops on the device and on the host, patching, streams, threads, and resets."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.driver import call, device, driver
from tests.processes import printed_by

# How a kernel runs, and the options that make it so.
PATHS = {
    "device": {"conditional": "device"},
    "host": {"conditional": "host"},
    "stream": {"graph": False},
}
PATH_OF_LOOPS = {"device": "cuda-graph", "host": "cuda-host-loop", "stream": "cuda-stream"}


@pytest.fixture(params=list(PATHS))
def path(request):
    return request.param


def cuda_kernel(function, path="device"):
    return qgraph.kernel(backend="cuda", **PATHS[path])(function)


def random(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(-1.0, 1.0, shape).astype(dtype)


def poison(*shape, dtype=np.float32):
    return np.full(shape, np.nan if np.dtype(dtype).kind in "fc" else 77, dtype)


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def counter(value, dtype=np.int32):
    return on_device(np.array(value, dtype))


def close_to(actual, expected):
    np.testing.assert_allclose(qgraph.to_numpy(actual), expected, rtol=2e-6, atol=2e-6)


# --- straight lines -----------------------------------------------------------------------------------------------------


def three(a, b, c, scale):
    for i in range(a.shape[0]):
        a[i] = a[i] * scale
    for i in range(b.shape[0]):
        b[i] = b[i] + 10.0
    for i in range(c.shape[0]):
        c[i] = a[i] - b[i]


def three_reference(a, b, scale):
    a, b = a.astype(np.float64) * scale, b.astype(np.float64) + 10.0
    return a, b, a - b


@pytest.mark.without_bounds_check
def test_a_chain_is_one_graph(path):
    kernel = cuda_kernel(three, path)
    for n in (1, 255, 256, 257, 100_000):
        a, b = random(n, seed=1), random(n, seed=2)
        da, db, dc = on_device(a), on_device(b), on_device(poison(n))
        kernel(da, db, dc, 1.5)
        for actual, expected in zip((da, db, dc), three_reference(a, b, 1.5), strict=True):
            close_to(actual, expected)
    assert kernel.stats.compilations == kernel.stats.graph_builds == 1
    assert kernel.last_launch.tasks == kernel.last_launch.nodes == 3
    assert kernel.last_launch.path == ("cuda-stream" if path == "stream" else "cuda-graph")
    assert kernel.last_launch.reason


def test_order_follows_what_loops_read_and_write(path):
    # Multiplying and adding do not commute: any other order, or two loops at once, gives another result.
    def scramble(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3.0
        for i in range(x.shape[0]):
            x[i] = x[i] + 5.0
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5
        for i in range(x.shape[0]):
            x[i] = x[i] - 1.0

    x = random(1 << 20, dtype=np.float64)
    dx = on_device(x)
    cuda_kernel(scramble, path)(dx)
    close_to(dx, (x * 3.0 + 5.0) * 0.5 - 1.0)


def test_launches_in_flight_keep_their_own_arguments(path):
    # Nothing waits between the launches, so each is patched while earlier ones still run.
    def burn(x, a, b):
        for i in range(x.shape[0]):
            s = x[i]
            for _ in range(200):
                s = s * a + b
            x[i] = s

    kernel = cuda_kernel(burn, path)
    arrays, expected = [], []
    for turn in range(64):
        n, a, b = 20_000 + 37 * turn, 0.5 + turn / 256, turn / 8
        x = random(n, dtype=np.float64, seed=turn)
        arrays.append((on_device(x), a, b))
        for _ in range(200):
            x = x * a + b
        expected.append(x)
    kernel(on_device(random(5, dtype=np.float64)), 0.0, 0.0)
    qgraph.synchronize()
    for dx, a, b in arrays:
        kernel(dx, a, b)
    for (dx, _, _), wanted in zip(arrays, expected, strict=True):
        close_to(dx, wanted)
    assert kernel.stats.graph_builds == 1


def test_empty_arrays_launch_and_do_nothing(path):
    kernel = cuda_kernel(three, path)
    for n in (0, 4, 0, 300, 0):
        a, b = random(n, seed=n), random(n, seed=n + 1)
        da, db, dc = on_device(a), on_device(b), on_device(poison(n))
        kernel(da, db, dc, 2.0)
        for actual, expected in zip((da, db, dc), three_reference(a, b, 2.0), strict=True):
            close_to(actual, expected)


def test_an_extent_the_device_knows(path):
    def upto(x, n):
        for i in range(n[0]):
            x[i] = x[i] + 1.0

    kernel = cuda_kernel(upto, path)
    x = random(10_000)
    dx, expected = on_device(x), x.astype(np.float64)
    for n in (16, 0, 10_000, 1):
        kernel(dx, on_device(np.array([n])))
        expected[:n] += 1.0
        close_to(dx, expected)


@pytest.mark.parametrize("block_size", [1, 33, 1024])
def test_block_sizes(block_size):
    kernel = qgraph.kernel(backend="cuda", block_size=block_size)(three)
    a, b = random(5000, seed=1), random(5000, seed=2)
    da, db, dc = on_device(a), on_device(b), on_device(poison(5000))
    kernel(da, db, dc, 0.25)
    close_to(dc, three_reference(a, b, 0.25)[2])


def light(out, x, y, s):
    for i in range(x.shape[0]):
        out[i] = x[i] + s * y[i]


@pytest.mark.parametrize("extra", [-257, -1, 0, 1, 255, 1024, 1_000_003])
def test_sizes_around_that_of_several_iterations_a_thread(extra):
    # With fewer elements than this a thread has one iteration, from here on several.
    size = device(0).multiprocessors * 2048 * 4 + extra
    x, y = random(size, seed=1), random(size, seed=2)
    out = on_device(poison(size))
    cuda_kernel(light)(out, on_device(x), on_device(y), 0.5)
    close_to(out, x + 0.5 * y)
    same = on_device(x)
    cuda_kernel(light)(same, same, on_device(y), 0.5)
    close_to(same, x + 0.5 * y)


# --- arguments ----------------------------------------------------------------------------------------------------------


def store(out, value):
    for i in range(out.shape[0]):
        out[i] = value


SCALARS = [
    ("bool", [True, False]),
    ("int8", [-128, 127]),
    ("uint8", [255, 0]),
    ("int16", [-32768, 5]),
    ("uint16", [65535, 0]),
    ("int32", [-(2**31), 7]),
    ("uint32", [2**32 - 1, 0]),
    ("int64", [-(2**63), 2**63 - 1]),
    ("uint64", [2**64 - 1, 0]),
    ("float32", [1.5, float("inf"), -0.0, 0.0, 1e-45]),
    ("float64", [1.1, float("-inf"), -0.0, 0.0, 5e-324]),
    ("complex64", [1.5 - 2.5j, -0.0 + 0j, 3j]),
    ("complex128", [1.1 - 2.2j, 1e300 + 1e-300j]),
]


@pytest.mark.parametrize(("dtype", "values"), SCALARS)
def test_every_bit_of_a_scalar_arrives(dtype, values, path):
    kernel = cuda_kernel(store, path)
    for value in values:
        out = on_device(poison(3, dtype=dtype) if dtype != "bool" else np.zeros(3, bool))
        scalar = np.dtype(dtype).type(value)
        kernel(out, scalar)
        assert qgraph.to_numpy(out).tobytes() == np.full(3, scalar).tobytes()
    assert kernel.stats.graph_builds == 1


def test_python_floats_become_the_float_type_of_the_kernel():
    kernel = cuda_kernel(store)
    for value in (0.1, -0.0, 1e300, -1e300, 1e-300):
        out = on_device(poison(2))
        kernel(out, value)
        with np.errstate(over="ignore"):
            assert qgraph.to_numpy(out).tobytes() == np.full(2, np.float32(value)).tobytes()


def test_strided_and_multidimensional_arrays(path):
    def combine(x, y):
        for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
            x[i, j] = x[i, j] * 2.0 + y[j, i]

    kernel = cuda_kernel(combine, path)
    for rows, columns in ((3, 5), (64, 33), (1, 7)):
        x, y = random(2 * rows, 3 * columns, seed=1), random(columns, rows, seed=2)
        dx, dy = on_device(x), on_device(y)
        kernel(dx[::2, ::3], dy)
        expected = x.astype(np.float64)
        expected[::2, ::3] = expected[::2, ::3] * 2.0 + y.T
        close_to(dx, expected)


def test_nothing_is_rebuilt_when_arrays_sizes_scalars_and_flags_change(path):
    def relax(x, y, steps, a):
        while qgraph.graph_do_while(steps):
            for i in range(x.shape[0]):
                y[i] = x[i] * a + 1.0
            for i in range(x.shape[0]):
                x[i] = y[i]
            steps[()] -= 1

    kernel = cuda_kernel(relax, path)
    flags = [counter(0), counter(0)]
    for turn, (n, count, a) in enumerate(itertools.product((256, 1024, 3), (1, 7), (0.5, -0.25))):
        x = random(n, seed=turn)
        dx, dy = on_device(x), on_device(poison(n))
        flag = flags[turn % 2]
        flag.fill(count)
        kernel(dx, dy, flag, a)
        expected = x.astype(np.float64)
        for _ in range(count):
            expected = expected * a + 1.0
        close_to(dx, expected)
        close_to(dy, expected)
        assert qgraph.to_numpy(flag) == 0
    assert kernel.stats.compilations == kernel.stats.graph_builds == 1
    assert kernel.stats.replays == 12
    assert kernel.stats.argument_updates >= 11
    assert kernel.last_launch.path == PATH_OF_LOOPS[path]


def test_a_repeated_call_patches_nothing():
    kernel = cuda_kernel(three)
    arrays = [on_device(random(100, seed=seed)) for seed in range(3)]
    kernel(*arrays, 1.0)
    updates, replays = kernel.stats.argument_updates, kernel.stats.replays
    for _ in range(10):
        kernel(*arrays, 1.0)
    assert kernel.stats.argument_updates == updates
    assert kernel.stats.replays == replays + 10
    kernel(*arrays, 2.0)
    assert kernel.stats.argument_updates == updates + 1


def test_two_bound_calls_of_one_kernel_do_not_mix(path):
    kernel = cuda_kernel(three, path)
    bound, wanted, arrays = [], [], []
    for seed in (10, 20):
        a, b = random(500, seed=seed), random(500, seed=seed + 1)
        made = [on_device(a), on_device(b), on_device(poison(500))]
        bound.append(kernel.bind(*made, 1.0 + seed))
        arrays.append(made)
        for _ in range(3):
            a, b, c = three_reference(a, b, 1.0 + seed)
        wanted.append((a, b, c))
    for _ in range(3):
        for one in bound:
            one.launch()
    for made, expected in zip(arrays, wanted, strict=True):
        for actual, values in zip(made, expected, strict=True):
            np.testing.assert_allclose(qgraph.to_numpy(actual), values, rtol=1e-5)


# --- loops --------------------------------------------------------------------------------------------------------------


def nested_two(x, outer, inner, turns):
    while qgraph.graph_do_while(outer):
        inner[()] = turns
        while qgraph.graph_do_while(inner):
            for i in range(x.shape[0]):
                x[i] = x[i] + 1.0
            inner[()] -= 1
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5
        outer[()] -= 1


@pytest.mark.parametrize(("outer", "inner"), [(3, 4), (1, 1), (10, 1), (1, 10), (7, 100)])
def test_nested_twice(path, outer, inner):
    kernel = cuda_kernel(nested_two, path)
    x = random(1000)
    for repeat in range(3):
        # Again with the same graph: no condition may be left over from the launch before.
        dx = on_device(x)
        kernel(dx, counter(outer), counter(77), inner + repeat)
        expected = x.astype(np.float64)
        for _ in range(outer):
            expected = (expected + (inner + repeat)) * 0.5
        close_to(dx, expected)
    assert kernel.last_launch.path == PATH_OF_LOOPS[path]
    assert kernel.stats.graph_builds == 1


def test_nested_three_times(path):
    def nested(x, a, b, c, turns):
        while qgraph.graph_do_while(a):
            b[()] = 3
            while qgraph.graph_do_while(b):
                c[()] = turns
                while qgraph.graph_do_while(c):
                    for i in range(x.shape[0]):
                        x[i] = x[i] + 1.0
                    c[()] -= 1
                for i in range(x.shape[0]):
                    x[i] = x[i] * 0.5
                b[()] -= 1
            for i in range(x.shape[0]):
                x[i] = x[i] - 0.25
            a[()] -= 1

    kernel = cuda_kernel(nested, path)
    for turns in (2, 1, 5):
        x = random(333)
        dx, flags = on_device(x), [counter(2), counter(77), counter(77)]
        kernel(dx, *flags, turns)
        expected = x.astype(np.float64)
        for _ in range(2):
            for _ in range(3):
                expected = (expected + turns) * 0.5
            expected = expected - 0.25
        close_to(dx, expected)
        assert [int(qgraph.to_numpy(flag)) for flag in flags] == [0, 0, 0]


def test_loops_in_a_row_with_loops_around_them(path):
    def siblings(x, first, second):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2.0
        while qgraph.graph_do_while(first):
            for i in range(x.shape[0]):
                x[i] = x[i] + 1.0
            first[()] -= 1
        for i in range(x.shape[0]):
            x[i] = x[i] * 3.0
        while qgraph.graph_do_while(second):
            for i in range(x.shape[0]):
                x[i] = x[i] - 1.0
            second[()] -= 1
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5

    kernel = cuda_kernel(siblings, path)
    for first, second in ((5, 3), (1, 1), (2, 50)):
        x = random(700)
        dx = on_device(x)
        kernel(dx, counter(first), counter(second))
        close_to(dx, ((x.astype(np.float64) * 2.0 + first) * 3.0 - second) * 0.5)


def test_a_counted_loop_runs_in_order(path):
    def steps(x, n):
        for t in qgraph.serial(range(n)):
            for i in range(x.shape[0]):
                x[i] = x[i] * 0.5 + t

    kernel = cuda_kernel(steps, path)
    for n in (0, 1, 20, 0):
        x = random(300)
        dx, expected = on_device(x), x.astype(np.float64)
        kernel(dx, n)
        for t in range(n):
            expected = expected * 0.5 + t
        close_to(dx, expected)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "uint64"])
def test_flags_of_every_integer_type(path, dtype):
    def until(x, flag, limit):
        while qgraph.graph_do_while(flag):
            for i in range(x.shape[0]):
                x[i] = x[i] + 1.0
            flag[()] = x[0] < limit

    kernel = cuda_kernel(until, path)
    dx = on_device(np.zeros(300, np.float32))
    kernel(dx, on_device(np.zeros((), dtype)), 9.0)
    close_to(dx, np.full(300, 9.0))


def test_max_iter(path):
    def limited(x, flag, limit):
        while qgraph.graph_do_while(flag, max_iter=limit):
            for i in range(x.shape[0]):
                x[i] = x[i] + 1.0

    kernel = cuda_kernel(limited, path)
    dx, total = on_device(np.zeros(10, np.float32)), 0
    for limit in (5, 1, 12):
        kernel(dx, counter(1), limit)
        total += limit
        close_to(dx, np.full(10, float(total)))


@pytest.mark.unsanitized(reason="100,000 turns, of which the tool sees each: minutes")
def test_many_iterations_on_the_device():
    dx = on_device(np.zeros(100, np.float64))
    kernel = cuda_kernel(nested_two)
    kernel(dx, counter(1), counter(0), 100_000)
    close_to(dx, np.full(100, 50_000.0))


# --- many calls ---------------------------------------------------------------------------------------------------------


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def free_bytes():
    with device(0).activate():
        return call(driver.cuMemGetInfo)[0]


@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.unsanitized(reason="counts memory, and the tool takes some")
def test_ten_thousand_replays_with_flat_memory(changing):
    kernel = cuda_kernel(three)
    sets = [[on_device(random(100, seed=seed)) for seed in range(3)] for _ in range(2)]

    def run(times):
        for turn in range(times):
            kernel(*sets[turn % 2 if changing else 0], 1.0)
        qgraph.synchronize()
        gc.collect()

    run(1000)
    resident, free = resident_bytes(), free_bytes()
    run(10_000)
    assert resident_bytes() - resident < 2 << 20
    assert free - free_bytes() < 8 << 20
    assert kernel.stats.graph_builds == 1


@pytest.mark.parametrize("turns", [6, pytest.param(40, marks=pytest.mark.unsanitized(reason="half a minute under the tool"))])
def test_several_threads_call_one_kernel(path, turns):
    kernel = cuda_kernel(nested_two, path)

    def work(seed):
        for turn in range(turns):
            n, count = 100 + 10 * seed + turn, 1 + (turn + seed) % 5
            x = random(n, seed=1000 * seed + turn)
            dx = on_device(x)
            kernel(dx, counter(count), counter(0), 3)
            expected = x.astype(np.float64)
            for _ in range(count):
                expected = (expected + 3) * 0.5
            close_to(dx, expected)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, seed) for seed in range(4)]:
            future.result()
    assert kernel.stats.replays == 4 * turns


@pytest.mark.unsanitized(reason="counts memory, and the tool takes some")
def test_dead_arrays_are_not_kept_and_not_touched(path):
    kernel = cuda_kernel(three, path)
    dead = [on_device(random(1000, seed=seed)) for seed in range(3)]
    references = [weakref.ref(array) for array in dead]
    kernel(*dead, 2.0)
    qgraph.synchronize()
    del dead
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]
    # Whatever took their place in memory must stay as it is.
    guards = [on_device(np.full(1000, 7, np.float32)) for _ in range(6)]
    a, b = random(900, seed=8), random(900, seed=9)
    da, db, dc = on_device(a), on_device(b), on_device(poison(900))
    kernel(da, db, dc, 3.0)
    close_to(dc, three_reference(a, b, 3.0)[2])
    for guard in guards:
        close_to(guard, np.full(1000, 7.0))


def new_stream():
    from cuda.core import Device

    ours = Device(0)
    ours.set_current()
    return ours.create_stream()


def test_on_other_streams(path):
    kernel = cuda_kernel(nested_two, path)
    streams = [new_stream() for _ in range(3)]
    x = random(50_000)
    dx, expected = on_device(x), x.astype(np.float64)
    qgraph.synchronize()
    for turn in range(12):
        stream = streams[turn % 3]
        with qgraph.stream(stream):
            kernel(dx, counter(2), counter(0), 2)
        stream.sync()
        for _ in range(2):
            expected = (expected + 2) * 0.5
    close_to(dx, expected)


def test_one_kernel_on_two_streams_at_once(path):
    # Both launches use the same scratch: the second must wait for the first, whatever the stream.
    kernel = cuda_kernel(nested_two, path)
    streams = [new_stream() for _ in range(2)]
    inputs = [random(200_000, seed=seed) for seed in range(2)]
    calls = [(on_device(x), counter(5), counter(0), 3 + seed) for seed, x in enumerate(inputs)]
    qgraph.synchronize()
    for stream, arguments in zip(streams, calls, strict=True):
        with qgraph.stream(stream):
            kernel(*arguments)
    for stream in streams:
        stream.sync()
    for seed, (x, arguments) in enumerate(zip(inputs, calls, strict=True)):
        expected = x.astype(np.float64)
        for _ in range(5):
            expected = (expected + (3 + seed)) * 0.5
        close_to(arguments[0], expected)


def test_a_thread_without_a_context():
    kernel, result = cuda_kernel(three), []

    def work():
        a, b = random(100, seed=1), random(100, seed=2)
        da, db, dc = on_device(a), on_device(b), on_device(poison(100))
        kernel(da, db, dc, 1.5)
        result.append((qgraph.to_numpy(dc), three_reference(a, b, 1.5)[2]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    np.testing.assert_allclose(*result[0], rtol=2e-6, atol=2e-6)


# --- forgetting and failing ---------------------------------------------------------------------------------------------


def run_three(kernel, seed):
    a, b = random(400, seed=seed), random(400, seed=seed + 1)
    da, db, dc = on_device(a), on_device(b), on_device(poison(400))
    kernel(da, db, dc, 1.25)
    close_to(dc, three_reference(a, b, 1.25)[2])


@pytest.mark.unsanitized(reason="counts memory, and the tool takes some")
def test_clear_cache_frees_the_device(path):
    kernel = cuda_kernel(three, path)
    run_three(kernel, 1)
    kernel.clear_cache()
    run_three(kernel, 2)
    gc.collect()
    free = free_bytes()
    for seed in range(20):
        kernel.clear_cache()
        run_three(kernel, seed)
    gc.collect()
    assert free - free_bytes() < 8 << 20


def test_clear_cache_while_the_graph_runs():
    kernel = cuda_kernel(nested_two)
    dx = on_device(np.zeros(100, np.float64))
    kernel(dx, counter(1), counter(0), 6_000)
    kernel.clear_cache()
    gc.collect()
    close_to(dx, np.full(100, 3_000.0))


@pytest.mark.unsanitized(reason="destroys the context")
def test_kernels_work_again_after_reset(path):
    kernel = cuda_kernel(nested_two, path)
    for _ in range(2):
        dx = on_device(np.zeros(50, np.float32))
        kernel(dx, counter(2), counter(0), 2)
        close_to(dx, np.full(50, 1.5))
        del dx
        qgraph.reset()


def run_alone(script, tmp_path):
    """Run ``script`` in a process of its own, since it ruins the context; returns the lines it printed."""
    return printed_by(PREAMBLE + script, tmp_path).splitlines()


PREAMBLE = """
import gc
import numpy as np
import qgraph
from qgraph.runtime.driver.driver import call, device, driver

def loop(x, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] = x[i] + 1.0
        counter[()] -= 1

def run(kernel, n, count):
    x, c = qgraph.asarray(np.zeros(n), backend="cuda"), qgraph.asarray(np.array(count), backend="cuda")
    kernel(x, c)
    result = qgraph.to_numpy(x)
    print(result.shape == (n,) and (result == count).all())
    return x, c
"""


@pytest.mark.parametrize("path", list(PATHS))
@pytest.mark.unsanitized(reason="destroys the context")
def test_after_the_primary_context_was_reset(path, tmp_path):
    printed = run_alone(
        f"""
kernel = qgraph.kernel(backend="cuda", **{PATHS[path]!r})(loop)
for turn in range(3):
    kept = run(kernel, 1000 + turn, 3 + turn)
    qgraph.synchronize()
    call(driver.cuDevicePrimaryCtxReset, 0)
    del kept
    gc.collect()
run(kernel, 10, 5)
other = qgraph.kernel(backend="cuda", **{PATHS[path]!r})(loop)
run(other, 10, 6)
print(kernel.last_launch.path)
""",
        tmp_path,
    )
    assert printed == ["True"] * 5 + [PATH_OF_LOOPS[path]]


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("path", list(PATHS))
@pytest.mark.unsanitized(reason="runs in a process of its own")
def test_an_illegal_address_is_reported_by_whoever_waits(path, tmp_path):
    printed = run_alone(
        f"""
def wild(x, at):
    for i in range(x.shape[0]):
        x[at + i] = 1.0

kernel = qgraph.kernel(backend="cuda", **{PATHS[path]!r})(wild)
x = qgraph.asarray(np.zeros(100), backend="cuda")
kernel(x, 0)
qgraph.synchronize()
try:
    kernel(x, 1 << 40)
    qgraph.synchronize()
except qgraph.CudaError as error:
    print("CudaError", "CUDA_ERROR_ILLEGAL_ADDRESS" in str(error))
kernel.clear_cache()
del x
gc.collect()
print("end")
""",
        tmp_path,
    )
    assert printed == ["CudaError True", "end"]


@pytest.mark.unsanitized(reason="runs in a process of its own")
def test_leaving_the_process_while_work_is_in_flight(tmp_path):
    printed = run_alone(
        """
kernel = qgraph.kernel(backend="cuda")(loop)
x, c = qgraph.asarray(np.zeros(1000), backend="cuda"), qgraph.asarray(np.array(20000), backend="cuda")
kernel(x, c)
print("leaving")
""",
        tmp_path,
    )
    assert printed == ["leaving"]
