"""In numba-cuda, by hand: neighbouring threads at neighbouring elements, and a tile in shared memory for the transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32

from benchmarks.memory import Arrays, Maker, Makers
from benchmarks.memory.problems import SCALE, Problem
from benchmarks.peers import Device, Run
from qgraph.compat.numba_cuda import cuda

BLOCK = 256
# A block of 32 x 8 threads, which takes a tile of 32 x 32 in the transpose.
TILE, HEIGHT = 32, 8
# One more column: else all of a tile's column would be in one bank.
PADDED = TILE + 1


@cuda.jit
def triad(y, b, c, s):
    """A thread an element."""
    i = cuda.grid(1)
    if i < y.size:
        y[i] = b[i] + s * c[i]


@cuda.jit
def stencil(y, x):
    """A thread an element; those at the edge do nothing, so that warps begin at multiples of 32."""
    j, i = cuda.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        y[i, j] = float32(0.25) * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]


@cuda.jit
def transpose(y, x):
    """A block reads rows of a tile, and writes its columns as rows."""
    tile = cuda.shared.array((TILE, PADDED), float32)
    across, down = cuda.threadIdx.x, cuda.threadIdx.y
    j, i = cuda.blockIdx.x * TILE + across, cuda.blockIdx.y * TILE + down
    for k in range(0, TILE, HEIGHT):
        if i + k < x.shape[0] and j < x.shape[1]:
            tile[down + k, across] = x[i + k, j]
    cuda.syncthreads()
    i, j = cuda.blockIdx.y * TILE + across, cuda.blockIdx.x * TILE + down
    for k in range(0, TILE, HEIGHT):
        if i < x.shape[0] and j + k < x.shape[1]:
            y[j + k, i] = tile[across, down + k]


@cuda.jit
def csr_thread(y, values, columns, starts, x):
    """A thread a row."""
    i = cuda.grid(1)
    if i < y.size:
        s = float32(0)
        for k in range(starts[i], starts[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s


def csr_lanes(lanes: int) -> Any:
    """So many neighbouring threads a row, a power of two up to a warp; they add up what they have with shuffles."""

    @cuda.jit
    def kernel(y, values, columns, starts, x):
        thread = cuda.grid(1)
        i, lane = thread // lanes, thread % lanes
        s = float32(0)
        # No thread leaves early: all of a warp take part in its shuffles.
        if i < y.size:
            for k in range(starts[i] + lane, starts[i + 1], lanes):
                s += values[k] * x[columns[k]]
        offset = lanes // 2
        while offset > 0:
            s += cuda.shfl_xor_sync(0xFFFFFFFF, s, offset)
            offset //= 2
        if lane == 0 and i < y.size:
            y[i] = s

    return kernel


@cuda.jit
def dot_blocks(a, b, partial):
    """A sum a block; each thread has four pairs of elements on the way at a time."""
    shared = cuda.shared.array(BLOCK, float32)
    n, i, step, thread = a.size, cuda.grid(1), cuda.gridsize(1), cuda.threadIdx.x
    s0 = s1 = s2 = s3 = float32(0)
    while i + 3 * step < n:
        s0 += a[i] * b[i]
        s1 += a[i + step] * b[i + step]
        s2 += a[i + 2 * step] * b[i + 2 * step]
        s3 += a[i + 3 * step] * b[i + 3 * step]
        i += 4 * step
    while i < n:
        s0 += a[i] * b[i]
        i += step
    shared[thread] = (s0 + s1) + (s2 + s3)
    cuda.syncthreads()
    half = BLOCK // 2
    while half > 0:
        if thread < half:
            shared[thread] += shared[thread + half]
        cuda.syncthreads()
        half //= 2
    if thread == 0:
        partial[cuda.blockIdx.x] = shared[0]


@cuda.jit
def dot_total(partial, y):
    """One block adds up the sums of the others."""
    shared = cuda.shared.array(BLOCK, float32)
    thread = cuda.threadIdx.x
    s = float32(0)
    for i in range(thread, partial.size, BLOCK):
        s += partial[i]
    shared[thread] = s
    cuda.syncthreads()
    half = BLOCK // 2
    while half > 0:
        if thread < half:
            shared[thread] += shared[thread + half]
        cuda.syncthreads()
        half //= 2
    if thread == 0:
        y[0] = shared[0]


def _over(n: int) -> tuple[int, int]:
    """A thread each."""
    return -(-n // BLOCK), BLOCK


def _tiles(x: Any, height: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Blocks of 32 x 8 threads over an array, each with a tile of 32 x ``height``."""
    return (-(-x.shape[1] // TILE), -(-x.shape[0] // height)), (TILE, HEIGHT)


def _run(launch: Any, taken: dict[str, Any], names: str, *numbers: np.float32) -> Run:
    arguments = (*(taken[name] for name in names.split()), *numbers)
    return Run(lambda: launch(*arguments), cuda.synchronize, lambda: {"y": taken["y"].copy_to_host()})


def _taken(arrays: Arrays) -> dict[str, Any]:
    return {name: cuda.as_cuda_array(array) for name, array in arrays.items()}


def _triad(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    return _run(triad[_over(taken["y"].size)], taken, "y b c", np.float32(SCALE))


def _stencil(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    return _run(stencil[_tiles(taken["x"], HEIGHT)], taken, "y x")


def _transpose(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    return _run(transpose[_tiles(taken["x"], TILE)], taken, "y x")


def _csr(lanes: int) -> Maker:
    """Zero lanes: a thread a row where rows are short, and a warp where they are long."""

    def make(problem: Problem, arrays: Arrays, device: Device) -> Run:
        taken = _taken(arrays)
        rows = taken["y"].size
        chosen = lanes or (32 if taken["values"].size / rows >= 16 else 1)
        kernel = csr_thread if chosen == 1 else csr_lanes(chosen)
        return _run(kernel[_over(rows * chosen)], taken, "y values columns starts x")

    return make


def _dot(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    # As many threads as the device holds: 2,048 a multiprocessor.
    blocks = cuda.get_current_device().MULTIPROCESSOR_COUNT * (2048 // BLOCK)
    partial = cuda.device_array(blocks, np.float32)
    first, second = dot_blocks[blocks, BLOCK], dot_total[1, BLOCK]

    def action() -> None:
        first(taken["a"], taken["b"], partial)
        second(partial, taken["y"])

    return Run(action, cuda.synchronize, lambda: {"y": taken["y"].copy_to_host()})


def _returned(problem: Problem, arrays: Arrays, device: Device) -> Run:
    run, y = _dot(problem, arrays, device), cuda.as_cuda_array(arrays["y"])
    found = cuda.pinned_array(1, np.float32)
    found[0] = np.nan

    def action() -> None:
        run.action()
        y.copy_to_host(found)

    return Run(action, cuda.synchronize, lambda: {"y": found.copy()})


MAKERS: Makers = {
    "triad": {"numba-cuda": _triad},
    "stencil": {"numba-cuda": _stencil},
    "transpose": {"numba-cuda": _transpose},
    "csr": {"numba-cuda": _csr(0), "numba-cuda, 8 threads a row": _csr(8)},
    "dot": {"numba-cuda": _dot},
    "dot_returned": {"numba-cuda": _returned},
}
