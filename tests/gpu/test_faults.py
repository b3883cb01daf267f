"""What the device finds wrong: told by whoever waits, once, whatever path the kernel takes."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import qgraph
from tests.loop_kernels import faulty

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
    bound, others = kernel.bind(x, y, ends), on_device(3, 0)
    for _ in range(100):
        bound.launch()
    kernel(x, y, others)
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


@pytest.mark.parametrize("last", [1, 2, 3, 9, 10, 11, 15])
def test_a_loop_ends_with_the_iteration_that_notes_a_fault(path, last):
    kernel = cuda_kernel(faulty, path)
    x, y = np.zeros(40), np.arange(40.0)
    for _ in range(2):
        dx, dy = on_device(*x), on_device(*y)
        with pytest.raises(qgraph.ArgumentError, match=rf"has length {last + 1}, and `x\[:ends\[0\]\]` has length {last + 2}"):
            kernel(dx, dy, on_device(1, 39), on_device(20, last))
        expected = x.copy()
        expected[:last] = y[40 - last :] + last - 1
        assert qgraph.to_numpy(dx).tolist() == expected.tolist()
        assert kernel(dx, dy, on_device(1, 39), on_device(20, 50)) == 20


def test_a_kernel_that_is_gone_still_tells():
    x, y, ends = arguments(2, 0)
    kernel = cuda_kernel(assign)
    kernel(x, y, ends)
    kernel.clear_cache()
    del kernel
    gc.collect()
    with pytest.raises(qgraph.ArgumentError, match=DIFFERENT):
        qgraph.synchronize()
