"""Every kind of node that has a spelling: built, found in the graph that CUDA instantiated, and its values checked."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.driver import call, device, driver

SEEN: list[object] = []


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def note(*values):
    SEEN.append(tuple(value.copy() if isinstance(value, np.ndarray) else value for value in values))


def cuda_kernel(function, **options):
    return qgraph.kernel(backend="cuda", **options)(function)


def on_device(array):
    return qgraph.asarray(array, backend="cuda")


def kinds(kernel, *args):
    """The types of the root's nodes in the CUDA graph, in any order, by the names of the driver's enumeration."""
    bound = kernel.bind(*args)
    handle = bound.graph.handle
    with device().activate():
        count = call(driver.cuGraphGetNodes, handle)[1]
        nodes = call(driver.cuGraphGetNodes, handle, count)[0]
        types = [driver.CUgraphNodeType(int(call(driver.cuGraphNodeGetType, node))) for node in nodes]
    return sorted(type_.name.removeprefix("CU_GRAPH_NODE_TYPE_") for type_ in types)


class Event:
    """An event of the driver, as other libraries hand it over."""

    def __init__(self):
        with device().activate():
            self._event = call(driver.cuEventCreate, 0)

    def __cuda_event__(self):
        return int(self._event)

    def done(self):
        with device().activate():
            return int(driver.cuEventQuery(self._event)[0]) == 0

    def record(self, stream=0):
        with device().activate():
            call(driver.cuEventRecord, self._event, stream)

    def wait(self):
        with device().activate():
            call(driver.cuEventSynchronize, self._event)


# --- kernels and memory -------------------------------------------------------------------------------------------------


@pytest.mark.without_bounds_check
def test_kernel():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] += i

    k, x = cuda_kernel(kernel), on_device(np.zeros(5))
    assert kinds(k, x) == ["KERNEL"]
    k(x)
    assert qgraph.to_numpy(x).tolist() == [0, 1, 2, 3, 4]


def fill(x):
    for i in range(x.shape[0]):
        x[i] = 0


@pytest.mark.without_bounds_check
def test_memset():
    k = cuda_kernel(fill)
    arrays = [on_device(np.ones(n, np.float32)) for n in (1000, 7, 0, 1 << 20, 1000)]
    assert kinds(k, arrays[0]) == ["MEMSET"]
    for x in arrays:
        k(x)
        assert not qgraph.to_numpy(x).any()
    assert k.stats.graph_builds == 1


def inside(m):
    for i, j in qgraph.ndrange((1, m.shape[0] - 1), (1, m.shape[1] - 1)):
        m[i, j] = -2


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "float32"])
def test_memset_of_the_inside_of_a_matrix(dtype):
    k = cuda_kernel(inside)
    for shape in ((5, 6), (5, 6), (7, 4), (2, 9), (300, 1000), (3, 3), (5, 6)):
        m = np.ones(shape, dtype)
        x = on_device(m)
        if shape == (5, 6):
            assert kinds(k, x) == ["MEMSET"]
        k(x)
        m[1:-1, 1:-1] = -2
        np.testing.assert_array_equal(qgraph.to_numpy(x), m)
    assert k.stats.graph_builds == 1


def test_another_matrix_of_the_same_shape_needs_no_other_executable():
    k = cuda_kernel(inside)
    matrices = [on_device(np.ones((6, 7), np.float32)) for _ in range(4)]
    bound = k.bind(matrices[0])
    for x in matrices:
        k(x)
    # The first call has another shape than the node was made with.
    assert bound._arguments.executable.reinstantiations <= 1
    for x in matrices:
        assert (qgraph.to_numpy(x)[1:-1, 1:-1] == -2).all()


def copy(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i]


@pytest.mark.without_bounds_check
def test_memcpy():
    k = cuda_kernel(copy)
    for n in (1000, 5, 0, 1 << 20, 1000):
        x, y = on_device(np.arange(n)), on_device(np.full(n, -1))
        if n == 5:
            assert kinds(k, x, y) == ["MEMCPY"]
        k(x, y)
        np.testing.assert_array_equal(qgraph.to_numpy(y), np.arange(n))
    assert k.stats.graph_builds == 1


def all_kinds(x, y, z, flag):
    for i in range(x.shape[0]):
        z[i] = x[i] + 1
    for i in range(x.shape[0]):
        y[i] = x[i]
    for i in range(x.shape[0]):
        x[i] = 0
    qgraph.write_value(flag, 3)
    qgraph.host_callback(note, y, writes=())


@pytest.mark.unsanitized(reason="the tools keep freed memory")
def test_memory_that_was_freed_and_taken_again():
    """The driver crashes where a copy was told of memory that was freed since, though the address is in use again."""
    k, addresses = cuda_kernel(all_kinds), []
    for turn in range(6):
        arrays = [on_device(np.full(6, float(turn))) for _ in range(3)] + [on_device(np.zeros(1, np.int64))]
        addresses.append([int(each.__cuda_array_interface__["data"][0]) for each in arrays])
        k(*arrays)
        x, y, z, flag = map(qgraph.to_numpy, arrays)
        assert (x.any(), set(y), set(z), flag[0]) == (False, {turn}, {turn + 1}, 3)
        del arrays
        qgraph.synchronize()
    assert any(each in addresses[:turn] for turn, each in enumerate(addresses)), "no memory was taken again"
    assert [set(values) for (values,) in SEEN] == [{turn} for turn in range(6)]


def corner(x, y):
    for i, j in qgraph.ndrange(*y.shape):
        y[i, j] = x[i, j]


@pytest.mark.without_bounds_check
def test_memcpy_with_a_pitch():
    k = cuda_kernel(corner)
    for large, small in (((5, 7), (3, 4)), ((5, 7), (3, 4)), ((3, 4), (3, 4)), ((9, 8), (4, 4))):
        m = np.arange(float(np.prod(large))).reshape(large)
        x, y = on_device(m), on_device(np.full(small, -1.0))
        assert kinds(k, x, y) == ["MEMCPY"]
        k(x, y)
        np.testing.assert_array_equal(qgraph.to_numpy(y), m[: small[0], : small[1]])
    assert k.stats.graph_builds == 1


def test_kernels_keep_their_arguments_where_the_executable_is_made_again():
    def kernel(m, x, a):
        for i, j in qgraph.ndrange((1, m.shape[0] - 1), (1, m.shape[1] - 1)):
            m[i, j] = 0
        n = 0
        while n < 3:
            for i in range(x.shape[0]):
                x[i] += a
            n += 1
        for i in range(x.shape[0]):
            x[i] += m[1, 1]

    k = cuda_kernel(kernel)
    x = on_device(np.zeros(4, np.float32))
    for step, shape in enumerate(((4, 4), (5, 6), (5, 6), (8, 3)), 1):
        m = on_device(np.ones(shape, np.float32))
        k(m, x, 2.0)
        assert (qgraph.to_numpy(x) == 6 * step).all()
        assert not qgraph.to_numpy(m)[1:-1, 1:-1].any()


@pytest.mark.parametrize("options", [{"graph": False}, {"conditional": "host"}])
def test_fills_without_one_graph(options):
    def kernel(x, y, n):
        for i in range(x.shape[0]):
            x[i] = 1
        while n[0] > 0:
            for i in range(x.shape[0]):
                x[i] += 1
            n[0] -= 1
        for i in range(x.shape[0]):
            y[i] = x[i]

    k = cuda_kernel(kernel, **options)
    for size in (5, 0, 9):
        x, y = on_device(np.zeros(size, np.int64)), on_device(np.zeros(size, np.int64))
        k(x, y, on_device(np.array([2])))
        assert (qgraph.to_numpy(y) == 3).all()


@pytest.mark.without_bounds_check
def test_slices():
    def kernel(x, y, m):
        x[1:-1] = 0
        y[2:] = x[:-2]
        m[1:-1, 1:-1] = 0
        m[:, 0] = 7

    k = cuda_kernel(kernel)
    for n, shape in ((6, (4, 5)), (100, (30, 3)), (6, (4, 5))):
        x, y, m = np.arange(1, n + 1), np.full(n, 9), np.ones(shape, np.int32)
        device_arrays = [on_device(array) for array in (x, y, m)]
        if n == 6:
            assert kinds(k, *device_arrays) == ["MEMCPY", "MEMSET", "MEMSET", "MEMSET"]
        k(*device_arrays)
        kernel(x, y, m)
        for got, expected in zip(device_arrays, (x, y, m), strict=True):
            np.testing.assert_array_equal(qgraph.to_numpy(got), expected)


# --- the host -----------------------------------------------------------------------------------------------------------


def test_host_callback():
    def kernel(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        qgraph.host_callback(note, s, "sum")
        for i in range(x.shape[0]):
            x[i] = -1.0

    k, x = cuda_kernel(kernel), on_device(np.arange(5.0))
    found = kinds(k, x)
    assert "HOST" in found
    assert "MEMCPY" in found
    k(x)
    qgraph.synchronize()
    assert SEEN == [(10.0, "sum")]
    k(x)
    qgraph.synchronize()
    assert SEEN == [(10.0, "sum"), (-5.0, "sum")]


def test_a_callback_runs_while_the_host_goes_on():
    started, go = threading.Event(), threading.Event()

    def hold(value):
        started.set()
        go.wait(20)
        SEEN.append(value)

    def kernel(x):
        qgraph.host_callback(hold, x[0])
        for i in range(x.shape[0]):
            x[i] = 3.0

    k, x = cuda_kernel(kernel), on_device(np.ones(2))
    k(x)
    assert started.wait(20)
    assert not SEEN
    go.set()
    assert qgraph.to_numpy(x).tolist() == [3, 3]
    assert SEEN == [1.0]


@pytest.mark.parametrize("options", [{}, {"graph": False}, {"conditional": "host"}])
def test_many_launches_in_flight_each_see_their_own_values(options):
    def kernel(x, a):
        n = 0
        while n < 2:
            for i in range(x.shape[0]):
                x[i] += a
            n += 1
        qgraph.host_callback(note, x[0], a)

    k, x = cuda_kernel(kernel, **options), on_device(np.zeros(3))
    total = 0.0
    expected = []
    for step in range(200):
        k(x, float(step))
        total += 2 * step
        expected.append((total, float(step)))
    qgraph.synchronize()
    assert expected == SEEN


def test_a_c_function_is_called_with_its_pointer():
    count = ctypes.c_int(0)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def increment(pointer):
        ctypes.c_int.from_address(pointer).value += 1

    def kernel(x):
        qgraph.host_callback(increment, count)
        for i in range(x.shape[0]):
            x[i] = 1.0

    k, x = cuda_kernel(kernel), on_device(np.zeros(2))
    assert "HOST" in kinds(k, x)
    for _ in range(3):
        k(x)
    qgraph.synchronize()
    assert count.value == 3


def fail(value):
    raise LookupError(f"no {value}")


def test_an_exception_is_told_by_the_next_wait_and_the_graph_runs_on():
    def kernel(x):
        qgraph.host_callback(fail, x[0])
        for i in range(x.shape[0]):
            x[i] = 5.0

    k, x = cuda_kernel(kernel), on_device(np.ones(2))
    k(x)
    k(x)
    with pytest.raises(LookupError, match=r"no 1\.0") as caught:
        qgraph.synchronize()
    notes = " ".join(caught.value.__notes__)
    assert "test_nodes.py" in notes
    assert "1 more" in notes
    assert qgraph.to_numpy(x).tolist() == [5, 5]


def test_the_function_lives_as_long_as_its_graph():
    def make():
        def kernel(x):
            qgraph.host_callback(lambda_free, x[0])

        def lambda_free(value):
            SEEN.append(value)

        return cuda_kernel(kernel)

    x = on_device(np.ones(2))
    for _ in range(20):
        make()(x)
    qgraph.synchronize()
    assert SEEN == [1.0] * 20


@pytest.mark.unsanitized(reason="runs in a process of its own")
def test_a_callback_in_flight_runs_before_the_process_ends():
    program = """
import time, numpy as np, qgraph

def late(value):
    time.sleep(0.3)
    print("called with", value, flush=True)
    raise LookupError("told at the end")

@qgraph.kernel(backend="cuda")
def kernel(x):
    qgraph.host_callback(late, x[0])

kernel(qgraph.asarray(np.ones(1), backend="cuda"))
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "late.py"
        path.write_text(program)
        result = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert "called with 1.0" in result.stdout
    assert "told at the end" in result.stderr


# --- events -------------------------------------------------------------------------------------------------------------


def marked(x, before, after):
    qgraph.wait(before)
    for i in range(x.shape[0]):
        x[i] += 1.0
    qgraph.record(after)


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("options", [{}, {"graph": False}])
def test_record_and_wait(options):
    k, x = cuda_kernel(marked, **options), on_device(np.zeros(4))
    before, after = Event(), Event()
    if not options:
        assert kinds(k, x, before, after) == ["EVENT_RECORD", "KERNEL", "WAIT_EVENT"]
    for number in range(1, 5):
        # Others each time: patched, not built.
        before, after = Event(), Event()
        before.record()
        k(x, before, after)
        after.wait()
        assert after.done()
        assert (qgraph.to_numpy(x) == number).all()
    assert k.stats.graph_builds == 1


def told(x, y, flag, n):
    for i in range(x.shape[0]):
        x[i] += 1.0
    qgraph.write_value(flag, n)
    for i in range(y.shape[0]):
        y[i] = x[i] * 10.0 + flag[0]


@pytest.mark.without_bounds_check
@pytest.mark.parametrize("options", [{}, {"graph": False}])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_write_value(options, dtype):
    number_of = np.dtype(dtype).type
    k, x, y = cuda_kernel(told, **options), on_device(np.zeros(4)), on_device(np.zeros(4))
    for number in range(1, 5):
        # Other flags and numbers each time: patched, not built.
        flag, wanted = on_device(np.zeros(1, dtype)), number_of(np.iinfo(dtype).max - number)
        if not options and number == 1:
            assert kinds(k, x, y, flag, wanted) == ["BATCH_MEM_OP", "KERNEL", "KERNEL"]
        k(x, y, flag, wanted)
        assert qgraph.to_numpy(flag)[0] == wanted
        assert (qgraph.to_numpy(x) == number).all()
        np.testing.assert_array_equal(qgraph.to_numpy(y), number * 10.0 + np.full(4, float(wanted)))
    k(x, y, flag, wanted)
    assert k.stats.graph_builds == 1


def test_write_value_of_a_negative_constant_beside_neighbours():
    def kernel(flags, flag):
        for i in range(flags.shape[0]):
            flags[i] = 5
        qgraph.write_value(flag, -2)

    for dtype in ("int32", "int64"):
        flags, flag = on_device(np.zeros(4, dtype)), on_device(np.zeros(1, dtype))
        cuda_kernel(kernel)(flags, flag)
        assert qgraph.to_numpy(flag)[0] == -2
        assert (qgraph.to_numpy(flags) == 5).all()


def test_a_recorded_event_is_not_done_before_the_work_is():
    go = threading.Event()

    def hold():
        go.wait(20)

    def kernel(x, event):
        qgraph.host_callback(hold)
        qgraph.record(event)

    event, x = Event(), on_device(np.zeros(1))
    cuda_kernel(kernel)(x, event)
    time.sleep(0.05)
    assert not event.done()
    go.set()
    event.wait()
    assert event.done()


def test_an_event_may_be_a_number():
    k, x = cuda_kernel(marked), on_device(np.zeros(4))
    event = Event()
    k(x, int(event._event), int(event._event))
    assert (qgraph.to_numpy(x) == 1).all()


def test_no_event_is_refused_on_cuda():
    with pytest.raises(qgraph.ArgumentError, match="not a CUDA event"):
        cuda_kernel(marked)(on_device(np.zeros(4)), None, None)


@pytest.mark.unsanitized(reason="another library's kernels")
def test_an_event_of_pytorch():
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, device="cuda")
    before, after = torch.cuda.Event(), torch.cuda.Event()
    before.record()
    after.record()
    k = cuda_kernel(marked)
    k(x, before, after)
    after.synchronize()
    assert x.tolist() == [1, 1, 1, 1]


def test_an_event_of_cuda_core():
    core = pytest.importorskip("cuda.core")
    core.Device(0).set_current()
    event = core.Device(0).create_event() if hasattr(core.Device(0), "create_event") else None
    if event is None:
        pytest.skip("this cuda.core makes no events by themselves")
    k, x = cuda_kernel(marked), on_device(np.zeros(4))
    k(x, event, event)
    event.sync()
    assert (qgraph.to_numpy(x) == 1).all()


# --- control ------------------------------------------------------------------------------------------------------------


def test_conditional_nodes():
    def kernel(x, n):
        k = 0
        while k < 3:
            for i in range(x.shape[0]):
                x[i] += 1.0
            k += 1
        if n > 0:
            for i in range(x.shape[0]):
                x[i] += 10.0
        else:
            for i in range(x.shape[0]):
                x[i] += 20.0
        match n:
            case 0:
                for i in range(x.shape[0]):
                    x[i] += 100.0
            case 1:
                for i in range(x.shape[0]):
                    x[i] += 200.0
            case _:
                for i in range(x.shape[0]):
                    x[i] += 300.0

    k = cuda_kernel(kernel, conditional="device")
    for n, expected in ((0, 123), (1, 213), (7, 313)):
        x = on_device(np.zeros(3))
        assert kinds(k, x, n).count("CONDITIONAL") == 3
        k(x, n)
        assert (qgraph.to_numpy(x) == expected).all()
