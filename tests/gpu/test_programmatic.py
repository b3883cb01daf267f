"""Programmatic edges on the device: kernels start early, and nobody sees what is not yet written."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.driver import call, device, driver

PROGRAMMATIC = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)


@pytest.fixture(autouse=True)
def _needs_hopper():
    if device().capability < (9, 0):
        pytest.skip("compute capability below 9.0")


class EdgeData(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = (
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    )


def edge_types(handle):
    """The types of the edges of the root of a CUDA graph, as the driver tells them."""
    # Not through cuda.bindings 13.3, which gives the same data for every edge.
    get = ctypes.CDLL("libcuda.so.1").cuGraphGetEdges_v2
    graph, count = ctypes.c_void_p(int(handle)), ctypes.c_size_t()
    with device().activate():
        assert get(graph, None, None, None, ctypes.byref(count)) == 0
        befores, afters = ((ctypes.c_void_p * count.value)() for _ in range(2))
        data = (EdgeData * count.value)()
        assert get(graph, befores, afters, data, ctypes.byref(count)) == 0
    return sorted(each.type for each in data)


def scramble(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i] * 3 + 1
    for i in range(x.shape[0]):
        x[i] = y[x.shape[0] - 1 - i] * 5 + 2
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i] * 7 + 3
    for i in range(x.shape[0]):
        x[i] = y[i] * 9 + x[i]


def expected(x, turns):
    for _ in range(turns):
        y = x * 3 + 1
        x = y[::-1] * 5 + 2
        y = x[::-1] * 7 + 3
        x = y * 9 + x
    return x


@pytest.mark.parametrize("n", [1, 255, 1024, 33_000, 200_000, 1_000_003, 5_000_000])
@pytest.mark.parametrize("conditional", ["device", "host"])
def test_a_chain_that_does_not_commute(n, conditional):
    @qgraph.kernel(backend="cuda", conditional=conditional)
    def kernel(x, y, turns):
        while qgraph.graph_do_while(turns):
            scramble_func(x, y)
            turns[()] -= 1

    rng = np.random.default_rng(n)
    x = rng.integers(-100, 100, n)
    for turns in (1, 2, 50):
        dx, dy = qgraph.asarray(x, backend="cuda"), qgraph.asarray(np.full(n, 77), backend="cuda")
        kernel(dx, dy, qgraph.asarray(np.array(turns), backend="cuda"))
        np.testing.assert_array_equal(qgraph.to_numpy(dx), expected(x, turns))


scramble_func = qgraph.func(scramble)


@pytest.mark.without_bounds_check
def test_sizes_that_move_between_one_block_and_all_of_the_device():
    kernel = qgraph.kernel(backend="cuda")(scramble)
    rng = np.random.default_rng(1)
    for n in (10, 4_000_000, 1000, 70_000, 3_000_000, 5, 300_000):
        x = rng.integers(-100, 100, n)
        dx, dy = qgraph.asarray(x, backend="cuda"), qgraph.asarray(np.full(n, 77), backend="cuda")
        kernel(dx, dy)
        np.testing.assert_array_equal(qgraph.to_numpy(dx), expected(x, 1))
        early = [each.early for each in kernel.bind(dx, dy)._arguments.executable._kernels.values()]
        if n <= 1000:
            assert early == [True, True, True, False]  # nobody waits for the last
        elif n >= 3_000_000:
            assert not any(early)
    assert kernel.stats.graph_builds == 1


@pytest.mark.without_bounds_check
def test_the_edges_of_the_graph_are_programmatic_between_kernels():
    def kernel(x, y):
        scramble_func(x, y)
        x[:] = 0

    arrays = [qgraph.asarray(np.ones(100, np.int64), backend="cuda") for _ in range(2)]
    assert edge_types(qgraph.kernel(backend="cuda")(scramble).bind(*arrays).graph.handle) == [PROGRAMMATIC] * 3
    assert edge_types(qgraph.kernel(backend="cuda")(kernel).bind(*arrays).graph.handle) == [0] + [PROGRAMMATIC] * 3


def test_several_that_wait_for_several():
    @qgraph.kernel(backend="cuda")
    def kernel(a, b, c, d):
        for i in range(a.shape[0]):
            a[i] = a[i] * 3 + 1
        for i in range(b.shape[0]):
            b[i] = b[i] * 5 + 2
        for i in range(c.shape[0]):
            c[i] = a[i] - b[c.shape[0] - 1 - i]
        for i in range(d.shape[0]):
            d[i] = a[d.shape[0] - 1 - i] + b[i]
        for i in range(a.shape[0]):
            a[i] = c[i] * d[a.shape[0] - 1 - i]

    for n in (7, 1000, 100_000, 2_000_000):
        rng = np.random.default_rng(n)
        a, b = rng.integers(-50, 50, n), rng.integers(-50, 50, n)
        arrays = [qgraph.asarray(each, backend="cuda") for each in (a, b, np.full(n, 77), np.full(n, 77))]
        kernel(*arrays)
        first, second = a * 3 + 1, b * 5 + 2
        np.testing.assert_array_equal(qgraph.to_numpy(arrays[0]), (first - second[::-1]) * (first[::-1] + second)[::-1])


def unequal(a, b, c, d, rounds):
    for i in range(a.shape[0]):
        s = a[i]
        for _ in range(rounds):
            s = s * 3 + 1
        a[i] = s
    for i in range(b.shape[0]):
        b[i] = b[i] * 5 + 2
    for i in range(c.shape[0]):
        c[i] = c[i] * 7 + 3
    for i in range(d.shape[0]):
        d[i] = d[i] * 9 + b[b.shape[0] - 1 - i % b.shape[0]] if b.shape[0] > 0 else 4


def after_unequal(a, b, c, d, rounds):
    for _ in range(rounds):
        a = a * 3 + 1
    b = b * 5 + 2
    c = c * 7 + 3
    d = d * 9 + b[::-1][np.arange(len(d)) % len(b)] if len(b) else np.full_like(d, 4)
    return a, b, c, d


@pytest.mark.without_bounds_check
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1), (300, 1000, 7, 1000), (64, 100_000, 3, 5), (2_000_000, 10, 2_000_000, 9), (5, 0, 0, 8)]
)
@pytest.mark.parametrize("rounds", [0, 20_000])
def test_a_row_ends_when_all_of_it_has_ended(sizes, rounds):
    rounds = rounds if max(sizes) <= 100_000 else rounds // 1000
    kernel = qgraph.kernel(backend="cuda")(unequal)
    rng = np.random.default_rng(7)
    plain = [rng.integers(-100, 100, n) for n in sizes]
    arrays = [qgraph.asarray(each, backend="cuda") for each in plain]
    # The first is long, and nothing in the graph waits for it, but the next launch does.
    for _ in range(6):
        kernel(*arrays, rounds)
        with np.errstate(over="ignore"):
            plain = after_unequal(*plain, rounds)
    # Read behind the launch on its stream, the long one's first.
    for mine, each in zip(arrays, plain, strict=True):
        np.testing.assert_array_equal(qgraph.to_numpy(mine), each)
    assert kernel.plan(*arrays, rounds).row == (0, 1, 2)


def many_of(count):
    """A kernel of so many independent loops, and one that reads what the first and the last of them wrote."""
    names = [f"x{k}" for k in range(count)]
    lines = [f"def many({', '.join(names)}, y):"]
    for k, name in enumerate(names):
        lines += [f"    for i in range({name}.shape[0]):", f"        {name}[i] = {name}[i] * 3 + {k}"]
    lines += ["    for i in range(y.shape[0]):", f"        y[i] = y[i] * 5 + x0[i] - {names[-1]}[y.shape[0] - 1 - i]"]
    return "\n".join(lines) + "\n"


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("count", [2, 9, 33])
def test_long_rows(count, tmp_path):
    file = tmp_path / "many.py"
    file.write_text(many_of(count))
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)  # noqa: S102 - written above
    kernel = qgraph.kernel(backend="cuda")(names["many"])
    rng = np.random.default_rng(count)
    for n in (1000, 1, 80_000, 33_000, 500_000, 10):
        plain = [rng.integers(-100, 100, n) for _ in range(count)]
        y = rng.integers(-100, 100, n)
        arrays = [qgraph.asarray(each, backend="cuda") for each in (*plain, y)]
        for _ in range(20):
            kernel(*arrays)
            with np.errstate(over="ignore"):
                plain = [each * 3 + k for k, each in enumerate(plain)]
                y = y * 5 + plain[0] - plain[-1][::-1]
        for mine, each in zip(arrays, (*plain, y), strict=True):
            np.testing.assert_array_equal(qgraph.to_numpy(mine), each)
        edges = edge_types(kernel.bind(*arrays)._arguments.executable._instance.graph)
        # Once there was a large one, there is no row any more.
        assert edges == [PROGRAMMATIC] * (2 if n in (500_000, 10) else count - 1 + 2)
    assert kernel.stats.graph_builds == 1


@pytest.mark.without_bounds_check
def test_whoever_launches_the_graph_gets_that_of_the_plan():
    kernel = qgraph.kernel(backend="cuda")(unequal)
    plain = [np.arange(n) for n in (300, 1000, 7, 1000)]
    arrays = [qgraph.asarray(each, backend="cuda") for each in plain]
    for launches in range(3):
        bound = kernel.bind(*arrays, 5)
        if launches:
            bound.launch()
        raw = bound.graph
        assert edge_types(raw.handle) == [PROGRAMMATIC]
        with device().activate():
            call(driver.cuGraphLaunch, raw.executable, 0)
        for _ in range(2 if launches else 1):
            plain = after_unequal(*plain, 5)
        for mine, each in zip(arrays, plain, strict=True):
            np.testing.assert_array_equal(qgraph.to_numpy(mine), each)


@pytest.mark.parametrize("conditional", ["device", "host"])
def test_a_row_before_and_beside_a_loop(conditional):
    @qgraph.kernel(backend="cuda", conditional=conditional)
    def kernel(a, b, c, turns):
        for i in range(a.shape[0]):
            a[i] = a[i] * 3 + 1
        for i in range(b.shape[0]):
            b[i] = b[i] * 5 + 2
        while qgraph.graph_do_while(turns):
            for i in range(a.shape[0]):
                a[i] = a[i] * 7 + b[i]
            turns[()] -= 1
        for i in range(c.shape[0]):
            c[i] = c[i] * 9 + 3

    for n, turns in ((1000, 3), (10, 100), (1000, 100), (200_000, 50)):
        rng = np.random.default_rng(n + turns)
        a, b, c = (rng.integers(-100, 100, n) for _ in range(3))
        arrays = [qgraph.asarray(each, backend="cuda") for each in (a, b, c)]
        for _ in range(3):
            kernel(*arrays, qgraph.asarray(np.array(turns), backend="cuda"))
            with np.errstate(over="ignore"):
                a, b, c = a * 3 + 1, b * 5 + 2, c * 9 + 3
                for _ in range(turns):
                    a = a * 7 + b
        for mine, each in zip(arrays, (a, b, c), strict=True):
            np.testing.assert_array_equal(qgraph.to_numpy(mine), each)
