"""What the device finds wrong: told by whoever waits, once, whatever path the kernel takes."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import qgraph

# How a kernel runs, and the options that make it so.
PATHS = {
    "device": {"conditional": "device"},
    "host": {"conditional": "host"},
    "stream": {"graph": False},
}


@pytest.fixture(params=list(PATHS))
def path(request):
    return request.param


def cuda_kernel(function, path="device"):
    return qgraph.kernel(backend="cuda", **PATHS[path])(function)


def on_device(*values):
    return qgraph.asarray(np.array(values), backend="cuda")


def assign(x, y, ends):
    x[: ends[0]] = y[ends[1] :]


def arguments(low, high):
    return on_device(1.0, 2.0, 3.0), on_device(7.0, 8.0, 9.0, 10.0), on_device(low, high)


DIFFERENT = r"`y\[ends\[1\]:\]` has length 4, and `x\[:ends\[0\]\]` has length 2"


@pytest.mark.parametrize("wait", [lambda x: qgraph.synchronize(), lambda x: x.numpy(), qgraph.to_numpy, lambda x: x[0]])
def test_every_wait_tells_and_tells_once(wait):
    kernel = cuda_kernel(assign)
    x, y, ends = arguments(2, 0)
    kernel(x, y, ends)
    with pytest.raises(qgraph.ArgumentError, match=DIFFERENT):
        wait(x)
    assert qgraph.to_numpy(x).tolist() == [1, 2, 3]
    kernel(x, y, on_device(2, 2))
    assert qgraph.to_numpy(x).tolist() == [9, 10, 3]


@pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")
def test_host_arrays_wait_in_the_call():
    x, y = np.ones(3), np.ones(4)
    with pytest.raises(qgraph.ArgumentError, match=DIFFERENT):
        cuda_kernel(assign)(x, y, np.array([2, 0]))


def test_the_first_of_many_launches_is_told():
    kernel = cuda_kernel(assign)
    x, y, ends = arguments(2, 0)
    bound = kernel.bind(x, y, ends)
    for _ in range(100):
        bound.launch()
    kernel(x, y, on_device(3, 0))
    with pytest.raises(qgraph.ArgumentError, match=DIFFERENT):
        qgraph.synchronize()
    qgraph.synchronize()


def in_loops(x, y, ends, turns):
    k = 0
    while k < turns[0]:
        for t in qgraph.serial(range(3)):
            if t == 1:
                x[: ends[0]] = y[ends[1] - k :] + t
        k += 1
    return k


def test_inside_device_loops_and_branches(path):
    kernel = cuda_kernel(in_loops, path)
    x, y, ends = arguments(1, 3)
    # Of one element in the first turn, two in the second.
    with pytest.raises(qgraph.ArgumentError, match=r"has length 2, and `x\[:ends\[0\]\]` has length 1"):
        kernel(x, y, ends, on_device(1 << 60))
    assert qgraph.to_numpy(x).tolist() == [11, 2, 3]
    assert kernel(x, y, ends, on_device(1)) == 1
    assert qgraph.to_numpy(x).tolist() == [11, 2, 3]


def test_a_kernel_that_is_gone_still_tells():
    x, y, ends = arguments(2, 0)
    kernel = cuda_kernel(assign)
    kernel(x, y, ends)
    kernel.clear_cache()
    del kernel
    gc.collect()
    with pytest.raises(qgraph.ArgumentError, match=DIFFERENT):
        qgraph.synchronize()
