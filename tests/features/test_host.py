"""The host side: arrays made by qgraph, the choice of a backend, synchronisation, reset."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import qgraph
from tests.processes import run_program

POISON = 77


def double(x):
    for i in range(x.shape[0]):
        x[i] *= 2


def test_asarray_to_numpy_and_back(rig):
    for array in (np.arange(6.0), np.arange(6, dtype=np.int8).reshape(2, 3), np.array(4.0), np.zeros((0, 3), bool)):
        held = qgraph.asarray(array, backend=rig.backend)
        back = qgraph.to_numpy(held)
        assert isinstance(back, np.ndarray)
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def test_asarray_of_lists_and_scalars(rig):
    assert qgraph.to_numpy(qgraph.asarray([1.0, 2.0], backend=rig.backend)).tolist() == [1.0, 2.0]
    assert qgraph.to_numpy(qgraph.asarray(3, backend=rig.backend)) == 3


def test_asarray_of_an_array_of_the_backend_is_that_array(rig):
    held = qgraph.asarray(np.arange(3.0), backend=rig.backend)
    assert qgraph.asarray(held, backend=rig.backend) is held


def test_empty_zeros_and_full(rig):
    zeros = qgraph.zeros((2, 3), dtype=np.int32, backend=rig.backend)
    assert qgraph.to_numpy(zeros).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert qgraph.to_numpy(zeros).dtype == np.int32
    sevens = qgraph.full(4, 7.5, dtype=np.float32, backend=rig.backend)
    assert qgraph.to_numpy(sevens).tolist() == [7.5] * 4
    empty = qgraph.empty((3, 0), dtype=np.float64, backend=rig.backend)
    assert qgraph.to_numpy(empty).shape == (3, 0)
    rig.kernel(double)(sevens)
    assert qgraph.to_numpy(sevens).tolist() == [15.0] * 4


def test_host_indexing_and_slices(rig):
    held = qgraph.asarray(np.arange(12.0).reshape(3, 4), backend=rig.backend)
    assert held.shape == (3, 4)
    assert held.ndim == 2
    assert held.dtype == np.float64
    assert held[1, 2] == 6.0
    assert qgraph.to_numpy(held[1]).tolist() == [4.0, 5.0, 6.0, 7.0]
    assert qgraph.to_numpy(held[:, 1::2]).tolist() == [[1.0, 3.0], [5.0, 7.0], [9.0, 11.0]]
    held[2, 3] = -1.0
    held[0] = 5.0
    rig.kernel(double)(held[:, 0])
    assert qgraph.to_numpy(held).tolist() == [[10.0, 5.0, 5.0, 5.0], [8.0, 5.0, 6.0, 7.0], [16.0, 9.0, 10.0, -1.0]]


def test_reset_and_the_kernel_works_again(rig):
    kernel = rig.kernel(double)
    rig.compare(kernel, lambda: (np.arange(8.0),))
    qgraph.reset()
    rig.compare(kernel, lambda: (np.arange(8.0),))
    qgraph.reset()
    qgraph.reset()
    rig.compare(kernel, lambda: (np.arange(5.0),))


def test_synchronize_without_work():
    qgraph.synchronize()


@pytest.mark.needs("compiler")
def test_set_backend_chooses_where_no_option_does():
    kernel = qgraph.kernel(double)
    qgraph.set_backend("cpu")
    try:
        kernel(np.arange(3.0))
        assert kernel.last_launch.path == "cpu"
        with pytest.raises(qgraph.BackendError, match="unknown backend"):
            qgraph.set_backend("gpu")
    finally:
        qgraph.set_backend(None)


@pytest.mark.needs("compiler")
def test_host_arrays_run_on_the_cpu_where_nothing_is_said():
    if os.environ.get("QGRAPH_BACKEND"):
        pytest.skip("QGRAPH_BACKEND says something")
    kernel = qgraph.kernel(double)
    x = np.arange(3.0)
    kernel(x)
    assert x.tolist() == [0.0, 2.0, 4.0]
    assert kernel.last_launch.path == "cpu"


@pytest.mark.needs("compiler")
def test_the_simulator_asked_for_too_late():
    import numba  # noqa: F401

    with pytest.raises(qgraph.BackendError, match="QGRAPH_BACKEND=sim"):
        qgraph.kernel(double, backend="sim")(np.zeros(3))


SCRIPT = """
import numpy as np, qgraph
@qgraph.kernel
def fill(x):
    for i in range(x.shape[0]):
        x[i] = i
x = np.zeros(3)
fill(x)
print(x.tolist(), fill.last_launch.path)
"""


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("name", ["cpu", "sim"])
def test_the_environment_chooses(tmp_path, name):
    done = run_program(SCRIPT, tmp_path, QGRAPH_BACKEND=name)
    assert done.stdout.strip() == f"[0.0, 1.0, 2.0] {name}", done.stderr


def test_an_unknown_environment_backend_is_named(tmp_path):
    done = run_program(SCRIPT, tmp_path, QGRAPH_BACKEND="opencl")
    assert done.returncode != 0
    assert "BackendError: unknown backend 'opencl'" in done.stderr


THREADS = """
import threading
import numpy as np, qgraph
@qgraph.kernel(backend="cpu")
def add(x):
    for i in range(x.shape[0]):
        x[i] += 1.0
arrays = [np.zeros(100_000) for _ in range(4)]
def run(x):
    for _ in range(200):
        add(x)
threads = [threading.Thread(target=run, args=(x,)) for x in arrays]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(all((x == 200.0).all() for x in arrays))
"""


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_threads_call_one_kernel_on_every_layer(tmp_path, layer):
    done = run_program(THREADS, tmp_path, NUMBA_THREADING_LAYER=layer, NUMBA_NUM_THREADS="2")
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.needs("host_arrays")
def test_subclasses_and_array_interfaces_on_the_host(rig):
    class Holder:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    array = np.arange(4.0)
    rig.kernel(double)(Holder(array))
    assert array.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_numpy_arrays_on_cuda_warn_once(rig, monkeypatch):
    if rig.backend != "cuda":
        pytest.skip("only cuda copies NumPy arrays in and out")
    monkeypatch.setattr(sys.modules["qgraph.runtime.arguments.streams"]._SAID, "staging", False)
    kernel = rig.kernel(double)
    x = np.arange(4.0)
    with pytest.warns(qgraph.PerformanceWarning):
        kernel(x)
    kernel(x)
    assert x.tolist() == [0.0, 4.0, 8.0, 12.0]
