"""Watched kernels on the device: rows are read while the graph runs, whatever form its loops have."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest

import qgraph
from qgraph.runtime.executors import unrolled
from tests.features.test_watch import CASES, expected, halving, nested


def relax(u, v, most):
    it = 0
    change = 1.0
    while change > -1.0 and it < most:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1]
            change = max(change, abs(v[i] - u[i]))
        for i in range(1, u.shape[0] - 1):
            u[i] = v[i]
        it += 1
        qgraph.progress(it, change, every=64)
    return it


def without_a_result(u, v, most):
    it = 0
    while it < most[0]:
        for i in range(u.shape[0]):
            u[i] = 0.5 * u[i] + v[i]
        it += 1
        qgraph.progress(it, u[0], every=64)


def on_device(*values):
    return [qgraph.asarray(each, backend="cuda") if isinstance(each, np.ndarray) else each for each in values]


def test_rows_are_read_while_the_graph_runs():
    kernel = qgraph.kernel(backend="cuda")(without_a_result)
    most = 300_000
    args = on_device(np.ones(1000), np.ones(1000), np.array([most]))
    kernel(*args)
    with qgraph.watch(kernel, show=False) as seen:
        # The first one compiles.
        kernel(*on_device(np.ones(1000), np.ones(1000), np.array([64])))
        qgraph.synchronize()
        kernel(*args)
        began = time.perf_counter()
        counts = []
        while time.perf_counter() - began < 30 and (not counts or counts[-1] < most // 64):
            history = seen.history
            counts.append(int((history["run"] == 1).sum()))
            time.sleep(0.01)
    between = {each for each in counts if 0 < each < most // 64}
    assert len(between) > 3, counts
    last = seen.history[seen.history["run"] == 1]
    assert last["iteration"].tolist()[-1] == most // 64 * 64
    assert len(last) + seen.lost == most // 64
    assert (np.diff(last["iteration"]) > 0).all()


@pytest.mark.parametrize("choice", [True, False])
@pytest.mark.parametrize("most", [*range(1, 20), 100])
def test_unrolled_loops_tell_each_iteration_once(monkeypatch, most, choice):
    executable = functools.partial(unrolled.CudaUnrollingExecutable, unrolled=choice)
    monkeypatch.setattr(unrolled, "CudaUnrollingExecutable", executable)
    kernel = qgraph.kernel(backend="cuda", conditional="device")(halving)
    with qgraph.watch(kernel, show=False) as seen:
        for _ in range(2):
            assert kernel(*on_device(np.ones(3000)), 0.75 * 0.5 ** (most - 1)) == most
    assert seen.history["iteration"].tolist() == [*range(1, most + 1)] * 2
    assert seen.history["residual"].tolist() == [0.5**each for each in range(1, most + 1)] * 2


@pytest.mark.parametrize("options", [{"conditional": "host"}, {"graph": False}, {"fuse": True}], ids=str)
@pytest.mark.parametrize("name", ["halving a grid", "nested", "told before", "counted"])
def test_every_path(monkeypatch, name, options):
    function, make = CASES[name]
    wanted, _, told = expected(function, make, monkeypatch)
    kernel = qgraph.kernel(backend="cuda", **options)(function)
    with qgraph.watch(kernel, show=False) as seen:
        assert kernel(*on_device(*make())) == wanted
    found = [(line, iteration) for _, line, iteration, _, _ in seen.history.tolist()]
    assert found == [each[:2] for each in told]
    np.testing.assert_allclose(seen.history["residual"], [each[2] for each in told], rtol=1e-6)


def test_the_bits_are_those_without_a_watch():
    kernel = qgraph.kernel(backend="cuda")(relax)
    rng = np.random.default_rng(1)
    given = rng.random(50_000, np.float32), rng.random(50_000, np.float32)
    alone, watched = on_device(*given), on_device(*given)
    kernel(*alone, 300)
    with qgraph.watch(kernel, show=False) as seen:
        kernel(*watched, 300)
    for one, other in zip(alone, watched, strict=True):
        assert qgraph.to_numpy(one).tobytes() == qgraph.to_numpy(other).tobytes()
    assert seen.history["iteration"].tolist() == [64, 128, 192, 256]


def test_a_capture_has_no_rows():
    kernel = qgraph.kernel(backend="cuda")(nested)
    x, y = on_device(np.arange(5.0), np.arange(5.0))
    kernel(x, 2)
    with qgraph.watch(kernel, show=False) as seen:
        with qgraph.capture() as graph:
            kernel(x, 3)
        graph.launch()
        qgraph.synchronize()
        assert len(seen.history) == 0
        kernel(y, 3)
    rows = len(seen.history)
    assert rows > 0
    graph.launch()
    qgraph.synchronize()
    wanted = np.arange(5.0)
    kernel.reference(wanted, 2)
    for _ in range(2):
        kernel.reference(wanted, 3)
    np.testing.assert_array_equal(qgraph.to_numpy(x), wanted)
    assert len(seen.history) == rows


def test_calls_on_two_streams_do_not_mix():
    torch = pytest.importorskip("torch")
    kernel = qgraph.kernel(halving)
    streams = [torch.cuda.Stream() for _ in range(2)]
    with qgraph.watch(kernel, show=False) as seen:
        for turn in range(6):
            with torch.cuda.stream(streams[turn % 2]):
                kernel(torch.full((100_000,), 2.0**turn, device="cuda"), 0.3)
    for turn in range(6):
        mine = seen.history[seen.history["run"] == turn]
        assert mine["residual"].tolist() == [2.0 ** (turn - each) for each in mine["iteration"].tolist()]
        assert mine["iteration"].tolist() == list(range(1, len(mine) + 1))


def test_host_arrays_are_copied():
    kernel = qgraph.kernel(backend="cuda")(halving)
    with pytest.warns(qgraph.PerformanceWarning), qgraph.watch(kernel, show=False) as seen:
        assert kernel(np.ones(4), 0.2) == 3
    assert seen.history["iteration"].tolist() == [1, 2, 3]
