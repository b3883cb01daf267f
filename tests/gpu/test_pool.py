"""``qgraph.pool`` on a device: what lies in it, what it refuses, and who may have what was freed."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

import qgraph
from qgraph.runtime.driver.arena import Arena
from qgraph.runtime.driver.driver import device, driver
from tests.processes import printed_by

MIB = 1 << 20


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@qgraph.kernel
def smooth(x):
    t = qgraph.empty(x.shape[0])
    for i in range(x.shape[0]):
        t[i] = x[i] + 1.0
    for i in range(x.shape[0]):
        x[x.shape[0] - 1 - i] = t[i] * 2.0


@pytest.fixture
def kernel():
    return qgraph.kernel(smooth.__wrapped__, backend="cuda")


@pytest.fixture
def arenas(monkeypatch):
    """The addresses of all temporaries that launches used."""
    seen = []
    values = Arena.values

    def noted(self, host, elsewhere):
        made = values(self, host, elsewhere)
        seen.extend(each.pointer for each in made)
        return made

    monkeypatch.setattr(Arena, "values", noted)
    return seen


def lies_in(pool, pointer):
    base = pool._memory.pointer
    return base <= pointer < base + pool.nbytes


def is_allocated(pointer):
    with device(0).activate():
        return int(driver.cuMemGetAddressRange(pointer)[0]) == 0


def eventually(condition):
    """The driver says on a thread of its own that a graph is gone."""
    for _ in range(500):
        if condition():
            return True
        time.sleep(0.01)
    return False


# --- qgraph -------------------------------------------------------------------------------------------------------------


@pytest.mark.unsanitized(reason="counts memory, and the tool frees late")
def test_arrays_and_temporaries_lie_in_it(kernel, arenas):
    pool = qgraph.pool(4 * MIB, backend="cuda")
    with pool:
        x = qgraph.full(1000, 3.0, backend="cuda")
        before = pool.used
        kernel(x)
    assert lies_in(pool, x.__cuda_array_interface__["data"][0])
    assert arenas and all(lies_in(pool, pointer) for pointer in arenas)
    assert pool.used - before >= 8000
    assert x.numpy().tolist() == [8.0] * 1000
    # It goes on with the memory that it has.
    kernel(x)
    assert x.numpy().tolist() == [18.0] * 1000
    kernel.clear_cache()
    del x
    gc.collect()
    # What was dropped is freed when the next executable is built.
    device(0).free_retired()
    assert pool.used == 0


def test_a_sealed_pool_lets_run_what_fits(kernel, arenas):
    pool = qgraph.pool(4 * MIB, backend="cuda")
    x, larger = qgraph.zeros(1000, backend="cuda"), qgraph.zeros(100_000, backend="cuda")
    with pool:
        kernel(x)
        pool.seal()
        used = pool.used
        kernel(x)
        with pytest.raises(
            qgraph.PoolError, match=r"bytes were asked of a pool of 4194304 bytes, and it is sealed: \d+ bytes are"
        ):
            kernel(larger)
        with pytest.raises(qgraph.PoolError, match="it is sealed"):
            qgraph.zeros(10, backend="cuda")
        assert pool.used == used
        assert not larger.numpy().any()
        kernel(x)
        assert x.numpy().tolist() == [14.0] * 1000
        pool.unseal()
        kernel(larger)
        assert larger.numpy().tolist() == [2.0] * 100_000
    assert all(lies_in(pool, pointer) for pointer in arenas)


def test_what_does_not_fit_runs_nothing(kernel):
    pool = qgraph.pool(MIB, backend="cuda")
    x = qgraph.zeros(MIB, backend="cuda")
    with (
        pool,
        pytest.raises(qgraph.PoolError, match=r"^8388608 bytes were asked of a pool of 1048576 bytes, and no block is large"),
    ):
        kernel(x)
    assert not x.numpy().any()
    assert pool.used == 0
    kernel(x)
    assert (x.numpy() == 2.0).all()


def test_the_memory_is_freed_with_the_last_block():
    pool = qgraph.pool(256 * MIB, backend="cuda")
    x = pool.empty(1000)
    pointer = x.__cuda_array_interface__["data"][0]
    del pool
    gc.collect()
    assert is_allocated(pointer)
    x.fill(3.0)
    assert (x.numpy() == 3.0).all()
    del x
    gc.collect()
    assert not is_allocated(pointer)


# --- CuPy ---------------------------------------------------------------------------------------------------------------


SPIN = r"""
extern "C" __global__ void spin(double* x, int n, double value, long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) { }
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = value;
}
"""


def test_arrays_of_cupy_lie_in_it(cupy):
    pool = qgraph.pool(8 * MIB, backend="cuda")
    with pool:
        x = cupy.arange(1000.0)
        y = x * 2 + 1
        assert cupy.empty(0).size == 0
    assert lies_in(pool, x.data.ptr) and lies_in(pool, y.data.ptr)
    outside = cupy.zeros(10)
    assert not lies_in(pool, outside.data.ptr)
    np.testing.assert_array_equal(y.get(), np.arange(1000.0) * 2 + 1)
    pool.seal()
    with cupy.cuda.using_allocator(pool.cupy_allocator), pytest.raises(qgraph.PoolError, match="it is sealed"):
        cupy.zeros(10)
    del x, y
    gc.collect()
    assert pool.used == 0


ALONE = """
import cupy
import qgraph

with qgraph.pool(1 << 20, backend="cuda"):
    print(int(cupy.arange(1000).sum()))
"""


def test_cupy_allocates_from_it_before_anything_else_used_the_device(cupy, tmp_path):
    assert printed_by(ALONE, tmp_path).split() == ["499500"]


def test_another_stream_has_it_after_the_work_on_it(cupy):
    n = 1024
    pool = qgraph.pool(8 * n, backend="cuda")
    spin = cupy.RawKernel(SPIN, "spin")
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    for _ in range(3):
        with cupy.cuda.using_allocator(pool.cupy_allocator):
            with first:
                x = cupy.empty(n)
                spin((1,), (256,), (x, np.int32(n), 1.0, np.int64(200_000_000)))
                where = x.data.ptr
                del x
            with second:
                y = cupy.empty(n)
                assert y.data.ptr == where
                spin((1,), (256,), (y, np.int32(n), 2.0, np.int64(0)))
        first.synchronize(), second.synchronize()
        assert (y.get() == 2.0).all()
        del y


def test_what_was_taken_in_a_capture_of_cupy_belongs_to_its_graph(cupy):
    pool = qgraph.pool(MIB, backend="cuda")
    stream = cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.using_allocator(pool.cupy_allocator), stream:
        x, y = cupy.ones(1000), cupy.zeros(1000)
        (x * 2 + 1).sum()
        stream.synchronize()
        pool.settle()
        stream.begin_capture()
        z = x * 2
        temporary = z.data.ptr
        cupy.add(z, y, out=y)
        del z
        graph = stream.end_capture()
        pool.settle()
        others = []
        while pool.free:
            try:
                others.append(pool.malloc(512))
            except qgraph.PoolError as error:
                assert "captured graph works on" in str(error)
                break
        assert not any(temporary <= each < temporary + 8000 for each in others)
        for _ in range(3):
            graph.launch(stream)
        stream.synchronize()
        assert (y.get() == 6.0).all()
    del graph
    gc.collect()
    qgraph.synchronize()

    def can_be_had():
        try:
            others.append(pool.malloc(8000))
        except qgraph.PoolError:
            return False
        return others[-1] == temporary

    assert eventually(can_be_had)


# --- PyTorch ------------------------------------------------------------------------------------------------------------


def test_tensors_lie_in_it(torch):
    pool = qgraph.pool(64 * MIB, backend="cuda")
    mem_pool = pool.torch_mem_pool()
    with torch.cuda.use_mem_pool(mem_pool):
        x = torch.ones(1000, device="cuda")
        large = torch.zeros(4 * MIB, device="cuda")
    assert lies_in(pool, x.data_ptr()) and lies_in(pool, large.data_ptr())
    assert not lies_in(pool, torch.empty(10, device="cuda").data_ptr())
    assert pool.used >= 18 * MIB
    assert float(x.sum()) == 1000.0
    smooth(x)
    assert float(x.sum()) == 4000.0


def test_pytorch_is_refused_with_numbers(torch):
    pool = qgraph.pool(8 * MIB, backend="cuda")
    mem_pool = pool.torch_mem_pool()
    with pytest.raises(
        qgraph.PoolError, match=r"bytes were asked of a pool of 8388608 bytes, and no block is large enough"
    ) as told:
        with pool, torch.cuda.use_mem_pool(mem_pool):
            torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    assert isinstance(told.value.__cause__, torch.cuda.OutOfMemoryError)
    # Without the pool around it PyTorch's own.
    with torch.cuda.use_mem_pool(mem_pool), pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    assert pool.used == 0


def test_a_capture_of_pytorch_works_in_it(torch):
    pool = qgraph.pool(64 * MIB, backend="cuda")
    mem_pool = pool.torch_mem_pool()
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=mem_pool.id):
        z = x * 2
        y.add_(z)
    assert lies_in(pool, z.data_ptr())
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 6.0))
    # The graph works there, though nobody holds the pool.
    del pool, mem_pool, z
    gc.collect()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 8.0))


def test_a_sealed_pool_refuses_in_a_capture_which_goes_on(torch, kernel):
    pool = qgraph.pool(64 * MIB, backend="cuda")
    mem_pool = pool.torch_mem_pool()
    x, y = torch.ones(1000, device="cuda"), torch.zeros(4, device="cuda")
    kernel(x)
    expected = x.clone()
    torch.cuda.synchronize()
    pool.seal()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=mem_pool.id):
        y.add_(1)
        with pytest.raises(qgraph.PoolError, match="it is sealed"), pool:
            torch.empty(1000, device="cuda")
        # The kernel's temporaries in this graph would be new.
        with pytest.raises(qgraph.PoolError, match="it is sealed"), pool:
            kernel(x)
        y.add_(1)
    assert pool.used == 0
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 2.0))
    assert torch.equal(x, expected)


def test_temporaries_of_a_captured_kernel_lie_in_it(torch, kernel, arenas):
    pool = qgraph.pool(4 * MIB, backend="cuda")
    x = torch.ones(1000, device="cuda", dtype=torch.float64)
    kernel(x)
    x.fill_(1.0)
    arenas.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pool:
        kernel(x)
    assert arenas and all(lies_in(pool, pointer) for pointer in arenas)
    used = pool.used
    assert used >= 8000
    del pool
    gc.collect()
    graph.replay()
    torch.cuda.synchronize()
    assert (x == 4.0).all()
