"""A machine with two GPUs: a kernel runs where its arrays live, whichever device is current, and leaves that one current."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import qgraph
from qgraph.errors import ArgumentError
from qgraph.runtime.driver.driver import current_device, device_count


@pytest.fixture(scope="module", autouse=True)
def two_gpus() -> None:
    if device_count() < 2:
        pytest.skip("one GPU alone")


@pytest.fixture
def on() -> Iterator[Any]:
    """``on(n)`` makes device n current, as CuPy, PyTorch and cuda.core do."""
    from cuda.core import Device

    before = current_device()
    yield lambda ordinal: Device(ordinal).set_current()
    Device(before).set_current()


@qgraph.kernel
def several(x, y):
    for i in range(x.shape[0]):
        y[i] = 2 * x[i]
    for i in range(x.shape[0]):
        x[i] = y[i] + 1


@qgraph.kernel
def collatz(x, total):
    scratch = qgraph.zeros(x.shape[0], np.int64)
    steps, most = 0, 2
    while most > 1:
        most = 0
        for i in range(x.shape[0]):
            if x[i] > 1:
                scratch[i] += 1
            x[i] = 1 if x[i] == 1 else x[i] // 2 if x[i] % 2 == 0 else 3 * x[i] + 1
            most = max(most, x[i])
        steps += 1
    for i in range(x.shape[0]):
        total[i] = scratch[i]
    return steps


@qgraph.kernel
def countdown(x, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] += 1
        counter[()] -= 1


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("home", [0, 1])
def test_arrays_of_one_device_while_another_is_current(on, home, current):
    rng = np.random.default_rng()
    values = rng.normal(size=1000)
    on(home)
    x, y = qgraph.asarray(values, backend="cuda"), qgraph.full(1000, 77.0, backend="cuda")
    assert x.device == y.device == home
    on(current)
    several(x, y)
    assert current_device() == current
    np.testing.assert_array_equal(y.numpy(), 2 * values)
    np.testing.assert_array_equal(x.numpy(), 2 * values + 1)
    assert current_device() == current


def test_each_device_has_its_own_code_graphs_and_scratch(on):
    starts = np.random.default_rng().integers(1, 100, (2, 500))
    arrays = []
    for home in (0, 1):
        on(home)
        arrays.append((qgraph.asarray(starts[home], backend="cuda"), qgraph.full(500, 77, np.int64, backend="cuda")))
    on(0)
    for _ in range(3):
        for home in (0, 1):
            x, total = arrays[home]
            expected, expected_total = starts[home].copy(), np.full(500, 77)
            steps = collatz.reference(expected, expected_total)
            x[:] = starts[home]
            assert collatz(x, total) == steps
            np.testing.assert_array_equal(x.numpy(), expected)
            np.testing.assert_array_equal(total.numpy(), expected_total)
    assert collatz.last_launch.path == "cuda-graph"


def test_both_at_once(on):
    pairs = []
    for home in (0, 1):
        on(home)
        pairs.append((qgraph.zeros(10_000, np.int64, backend="cuda"), qgraph.full((), 500, np.int64, backend="cuda")))
    on(1)
    for pair in pairs:
        countdown(*pair)
    for x, counter in pairs:
        assert (x.numpy() == 500).all()
        assert counter.numpy() == 0


def test_arrays_of_two_devices_are_refused(on):
    on(0)
    x = qgraph.asarray(np.arange(10.0), backend="cuda")
    on(1)
    y = qgraph.full(10, 77.0, backend="cuda")
    with pytest.raises(ArgumentError, match="different devices"):
        several(x, y)
    assert (y.numpy() == 77).all()
    np.testing.assert_array_equal(x.numpy(), np.arange(10.0))


@pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")
def test_host_arrays_go_to_the_current_device(on):
    kernel = qgraph.kernel(backend="cuda")(several.__wrapped__)
    for ordinal in (1, 0, 1):
        on(ordinal)
        x, y = np.arange(100.0), np.full(100, 77.0)
        kernel(x, y)
        np.testing.assert_array_equal(x, 2 * np.arange(100.0) + 1)
        assert current_device() == ordinal


def test_frameworks_on_the_second_device(on):
    torch = pytest.importorskip("torch")
    cupy = pytest.importorskip("cupy")
    on(0)
    x = torch.arange(1000.0, device="cuda:1")
    y = torch.full_like(x, 77.0)
    several(x, y)
    assert torch.equal(y.cpu(), 2 * torch.arange(1000.0))
    with torch.cuda.device(1), torch.cuda.stream(torch.cuda.Stream()):
        # Without order on the stream of the second device, the product would be read before it is written.
        for _ in range(10):
            m = torch.rand(2000, 2000, device="cuda:1")
            x = (m @ m @ m)[0].clone()
            before, y = x.clone(), torch.zeros_like(x)
            several(x, y)
            assert torch.allclose(y, 2 * before)
    with cupy.cuda.Device(1):
        z = cupy.arange(1000.0)
        w = cupy.zeros(1000)
    several(z, w)
    with cupy.cuda.Device(1):
        cupy.testing.assert_array_equal(w, 2 * cupy.arange(1000.0))
    with pytest.raises(ArgumentError, match="different devices"):
        several(torch.zeros(1000, device="cuda:0", dtype=torch.float64), w)
    assert torch.cuda.current_device() == 0
