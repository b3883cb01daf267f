"""Is ``bins[b[i]] += 1`` as fast as a kernel by hand, whose blocks count in shared memory? 256 bins, 2**26 bytes.

The more bytes are the same, the more threads meet in one bin.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qgraph
from benchmarks import parts, plots, timing
from benchmarks.peers import Device, Run
from benchmarks.results import Answer
from benchmarks.timing import Timing

SIZE = 2**26
BINS = 256
COLUMNS = ("bytes", "size", "peer", "us", "GB/s", "ratio")
# The name of each peer, and of its library.
PEERS = {"qgraph": "qgraph", "numba-cuda": "numba", "CuPy": "cupy"}
PARTS = ("even", "skewed", "one value")


def counting(b, bins):
    """The loop."""
    for i in range(b.shape[0]):
        bins[b[i]] += 1


def in_qgraph(values: np.ndarray[Any, Any], device: Device) -> Run:
    """A plain loop."""
    kernel = qgraph.kernel(backend=device)(counting)
    b, bins = (qgraph.asarray(array, backend=device) for array in (values, np.zeros(BINS, np.int32)))
    return Run(lambda: kernel(b, bins), qgraph.synchronize, lambda: {"bins": qgraph.to_numpy(bins)})


def in_numba(values: np.ndarray[Any, Any], device: Device) -> Run:
    """By hand: each block counts in shared memory, and adds what it has at the end."""
    from numba import int32

    from qgraph.compat.numba_cuda import cuda

    @cuda.jit
    def kernel(b, bins):
        counted = cuda.shared.array(BINS, int32)
        for k in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
            counted[k] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), b.shape[0], cuda.gridsize(1)):
            cuda.atomic.add(counted, b[i], 1)
        cuda.syncthreads()
        for k in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
            cuda.atomic.add(bins, k, counted[k])

    # As many threads as the device holds: 2,048 a multiprocessor.
    block = 256
    grid = cuda.get_current_device().MULTIPROCESSOR_COUNT * (2048 // block)
    b, bins = cuda.to_device(values), cuda.to_device(np.zeros(BINS, np.int32))
    launch = kernel[grid, block]
    return Run(lambda: launch(b, bins), cuda.synchronize, lambda: {"bins": bins.copy_to_host()})


def in_cupy(values: np.ndarray[Any, Any], device: Device) -> Run:
    """The library's own; it makes a new array each time, and adds it to the old one."""
    import cupy

    b, bins = cupy.asarray(values), cupy.zeros(BINS, np.int32)

    def action() -> None:
        bins[...] += cupy.bincount(b, minlength=BINS).astype(np.int32)

    return Run(action, cupy.cuda.Device().synchronize, lambda: {"bins": bins.get()})


MAKERS: dict[str, Callable[[np.ndarray[Any, Any], Device], Run]] = {
    "qgraph": in_qgraph,
    "numba-cuda": in_numba,
    "CuPy": in_cupy,
}


def values_of(part: str, n: int) -> np.ndarray[Any, Any]:
    """Bytes: of all values evenly, nearly all of them 0, 1 and 2, or all the same."""
    rng = np.random.default_rng(0)
    if part == "even":
        return rng.integers(0, BINS, n, np.uint8)
    if part == "skewed":
        return rng.binomial(8, 0.1, n).astype(np.uint8)
    return np.full(n, 7, np.uint8)


def begin(device: Device) -> Answer:
    """An answer without rows."""
    title = f"A histogram of bytes in {BINS} bins of int32: us a call"
    return Answer("histogram" if device == "cuda" else "histogram_cpu", title, COLUMNS)


def measure(part: str, answer: Answer, quick: bool, device: Device) -> None:
    """The rows of one kind of bytes: each peer's answer is checked, then all take turns."""
    n = SIZE // 64 if quick else SIZE
    values = values_of(part, n)
    measures: dict[str, Callable[[], Timing]] = {}
    for peer in parts.present(answer, PEERS, device):
        made = parts.attempt(answer, part, peer, functools.partial(checked, peer, values, device))
        if made is not None:
            measures[peer] = made
    times = parts.in_turns(measures, rounds=1 if quick else 5)
    rates = {peer: round(n / timed.median / 1e3, 1) for peer, timed in times.items()}
    parts.add_rows(answer, part, n, times, {"GB/s": rates})


def checked(peer: str, values: np.ndarray[Any, Any], device: Device) -> Callable[[], Timing]:
    """A measurement of one peer, once it has counted right."""
    importlib.import_module(PEERS[peer])
    run = MAKERS[peer](values, device)
    run.action()
    run.wait()
    np.testing.assert_array_equal(run.answer()["bins"], np.bincount(values, minlength=BINS))
    return lambda: timing.total(run.action, run.wait, calls=10, repeats=5)


def draw(record: dict[str, Any], file: Path) -> None:
    """A group of bars for each kind of bytes."""
    kinds = [part for part in PARTS if any(row["bytes"] == part for row in record["rows"])]
    rows = [{"bytes": part, **{row["peer"]: row["us"] for row in record["rows"] if row["bytes"] == part}} for part in kinds]
    figure, axes = plots.figure(record["title"], record)
    plots.bars(axes, {**record, "rows": rows}, "bytes", tuple(PEERS))
    axes.set_ylabel("us")
    plots.save(figure, file)


if __name__ == "__main__":
    measures = {part: functools.partial(measure, part) for part in PARTS}
    raise SystemExit(parts.main(begin, measures, draw))
