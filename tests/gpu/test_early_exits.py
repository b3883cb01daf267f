"""Assertions and indices out of bounds on the device: the first is told by whoever waits, and the context stays usable."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph
from tests.features import bounds_kernels, raising_kernels

PATHS = {
    "device": {"conditional": "device"},
    "host": {"conditional": "host"},
    "stream": {"graph": False},
    "fuse": {"fuse": True},
}


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def arange(n):
    return on_device(np.arange(float(n)))


@pytest.fixture(params=list(PATHS))
def options(request):
    return {"backend": "cuda", **PATHS[request.param]}


def test_the_first_of_a_million_iterations(options):
    n = 1_000_000
    kernel = qgraph.kernel(**options)(raising_kernels.checked)
    x, y = arange(n), on_device(np.zeros(n))
    for limit in (n - 5.5, 17.5, 600_000.5):
        for _ in range(20):
            kernel(x, y, limit)
            with pytest.raises(AssertionError, match=f"where i = {int(limit + 1)}\n"):
                qgraph.synchronize()
    kernel(x, y, n + 1.0)
    np.testing.assert_array_equal(y.numpy(), np.arange(n) + 1.0)


def test_of_two_launches_the_first_is_told():
    kernel = qgraph.kernel(backend="cuda")(raising_kernels.checked)
    x, y = arange(1000), on_device(np.zeros(1000))
    kernel(x, y, 700.5)
    kernel(x, y, 10.5)
    with pytest.raises(AssertionError, match="where i = 701\n"):
        qgraph.synchronize()
    kernel(x, y, 10.5)
    with pytest.raises(AssertionError, match="where i = 11\n"):
        y.numpy()


@pytest.mark.filterwarnings("ignore::qgraph.AssumedParallelWarning")
def test_memory_around_an_array_is_not_touched(options):
    memory = on_device(np.full(1 << 16, 77))
    counts = memory[1000:1064]
    values = on_device(np.arange(-500, 500))
    kernel = qgraph.kernel(bounds_check=True, **options)(bounds_kernels.histogram)
    kernel(counts, values)
    with pytest.raises(qgraph.BoundsError, match="-500 on axis 0 of 64 elements, where i = 0\n"):
        qgraph.synchronize()
    held = memory.numpy()
    assert (held[:1000] == 77).all()
    assert (held[1064:] == 77).all()


@pytest.mark.parametrize("name", ["searching", "convergence", "one_thread"])
def test_loops_end(options, name):
    kernel = qgraph.kernel(bounds_check=True, **options)(getattr(bounds_kernels, name))
    arguments = {
        "searching": (on_device(np.ones(1000)), on_device(np.zeros(1000))),
        "convergence": (on_device(np.arange(64.0) - 1000), 0),
        "one_thread": (on_device(np.arange(6.0) + 1), 6),
    }[name]
    with pytest.raises(qgraph.BoundsError):
        kernel(*arguments)
        qgraph.synchronize()
    x = arange(5)
    qgraph.kernel(backend="cuda")(bounds_kernels.shifted)(arange(8), x, 2)
    np.testing.assert_array_equal(x.numpy(), np.arange(5.0) + 2)


def test_reductions_are_whole_after_an_error(options):
    kernel = qgraph.kernel(**options)(raising_kernels.reduced)
    good, bad = np.cos(np.arange(5000.0)), np.cos(np.arange(5000.0))
    bad[4321] = np.nan
    wanted = kernel.reference(good)
    for _ in range(3):
        np.testing.assert_allclose(kernel(on_device(good)), wanted)
        with pytest.raises(AssertionError, match="where i = 4321\n"):
            kernel(on_device(bad))
