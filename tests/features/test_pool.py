"""``qgraph.pool`` on every backend: accounting, arrays in it, seal, and refusals with their numbers."""

from __future__ import annotations

import copy
import gc
import threading

import numpy as np
import pytest

import qgraph


def smooth(x):
    t = qgraph.zeros(x.shape[0])
    for i in range(x.shape[0]):
        t[i] = x[i] + 1.0
    for i in range(x.shape[0]):
        x[i] = t[i] * 2.0


def address(array):
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return interface["data"][0]


def test_accounting_of_malloc(rig):
    pool = qgraph.pool(4 * 512 + 3, backend=rig.backend)
    assert (pool.nbytes, pool.used, pool.free, pool.sealed) == (2048, 0, 2048, False)
    first, second = pool.malloc(1), pool.malloc(513)
    assert first % 512 == second % 512 == 0 and second == first + 512
    assert (pool.used, pool.free) == (1536, 512)
    pool.free_block(second)
    assert pool.used == 512
    with pytest.raises(qgraph.ArgumentError, match=rf"no block of this pool begins at {second:#x}\nhelp: pass what malloc"):
        pool.free_block(second)
    assert pool.malloc(1536) == second
    pool.free_block(first)
    assert "pool of 2048 bytes on" in repr(pool) and "1536 used" in repr(pool)


def test_arrays_lie_in_it_and_kernels_take_them(rig):
    pool = qgraph.pool(1 << 20, backend=rig.backend)
    held = pool.malloc(1)
    x = pool.empty((3, 100), np.float32)
    assert address(x) == held + 512
    assert (x.shape, x.dtype, pool.used) == ((3, 100), np.float32, 512 + 1536)
    row = x[1]
    row[:] = 1.0
    rig.kernel(smooth)(row)
    assert qgraph.to_numpy(row).tolist() == [4.0] * 100
    del x
    gc.collect()
    assert pool.used == 2048
    del row
    gc.collect()
    assert pool.used == 512
    assert pool.empty((0, 4)).shape == (0, 4) and pool.used == 512


def test_arrays_that_are_made_within_it(rig):
    pool = qgraph.pool(1 << 16, backend=rig.backend)
    with pool:
        x = qgraph.zeros(100, backend=rig.backend)
        y = qgraph.full((2, 3), 7, backend=rig.backend)
        assert pool.used == 1024 + 512
    assert qgraph.to_numpy(x).tolist() == [0.0] * 100
    assert qgraph.to_numpy(y).tolist() == [[7] * 3] * 2 and y.dtype == np.asarray(7).dtype
    outside = qgraph.empty(100, backend=rig.backend)
    assert pool.used == 1536
    del x, y, outside
    gc.collect()
    assert pool.used == 0


def test_a_kernel_gives_the_same_within_it(rig):
    kernel = rig.kernel(smooth)
    with qgraph.pool(1 << 20, backend=rig.backend):
        for n in (10, 1000):
            rig.compare(kernel, lambda n=n: (np.arange(float(n)),))


def test_the_reference_takes_nothing_of_it(rig):
    pool = qgraph.pool(512, backend=rig.backend)
    x = np.zeros(1000)
    with pool:
        rig.kernel(smooth).reference(x)
    assert x.tolist() == [2.0] * 1000


def test_a_sealed_pool_refuses(rig):
    pool = qgraph.pool(2048, backend=rig.backend)
    kept = pool.malloc(1)
    pool.seal()
    assert pool.sealed
    message = (
        r"100 bytes were asked of a pool of 2048 bytes, and it is sealed: 1536 bytes are free, 1536 of them in the largest "
        r"block that may be had\nhelp: unseal\(\) it, or allocate before seal\(\)"
    )
    with pytest.raises(qgraph.PoolError, match=message):
        pool.malloc(100)
    with pool, pytest.raises(qgraph.PoolError, match="it is sealed"):
        qgraph.empty(10, backend=rig.backend)
    pool.free_block(kept)
    pool.unseal()
    assert pool.malloc(2048) == kept


def test_an_exhausted_pool_tells_what_there_is(rig):
    pool = qgraph.pool(4 * 512, backend=rig.backend)
    blocks = [pool.malloc(512) for _ in range(4)]
    pool.free_block(blocks[0])
    pool.free_block(blocks[2])
    message = (
        r"513 bytes were asked of a pool of 2048 bytes, and no block is large enough: 1024 bytes are free, 512 of them in the "
        r"largest block that may be had\nhelp: make a larger pool, or free what lies in this one"
    )
    with pytest.raises(qgraph.PoolError, match=message):
        pool.malloc(513)
    pool.free_block(blocks[1])
    assert pool.malloc(1536) == blocks[0]


def test_threads_share_it(rig):
    pool = qgraph.pool(1 << 20, backend=rig.backend)
    seen: list[set[int]] = []

    def work():
        mine = set()
        for _ in range(100):
            block = pool.malloc(600)
            mine.add(block)
            if len(mine) > 5:
                pool.free_block(mine.pop())
        seen.append(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = set().union(*seen)
    assert len(left) == 20 and pool.used == 20 * 1024
    assert all(abs(a - b) >= 1024 for a in left for b in left if a != b)


def test_what_a_pool_refuses(rig):
    with pytest.raises(qgraph.ArgumentError, match="a pool of 511 bytes holds no block"):
        qgraph.pool(511, backend=rig.backend)
    pool = qgraph.pool(512, backend=rig.backend)
    with pytest.raises(qgraph.PoolError, match="-1 bytes were asked"):
        pool.malloc(-1)
    with pytest.raises(qgraph.ArgumentError):
        pool.empty(-1)
    with pytest.raises(qgraph.ArgumentError):
        pool.empty(1, object)
    with pytest.raises(qgraph.ArgumentError, match="a pool cannot be pickled or copied"):
        copy.copy(pool)
    assert pool.used == 0
    if rig.backend != "cuda":
        for name in ("cupy_allocator", "torch_mem_pool"):
            with pytest.raises(qgraph.BackendError, match="this pool lies on the host"):
                value = getattr(pool, name)
                value()
