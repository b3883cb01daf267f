"""In CuPy: kernels captured from a stream; launched one by one where the arrays change; its loop is the host's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.rungs import BLOCK, SETS, Loop, N, zeros

SOURCE = r"""
extern "C" __global__ void add(float* x, int n, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] + a;
}
extern "C" __global__ void count_down(int* counter) { *counter -= 1; }
"""
module = cp.RawModule(code=SOURCE)


def _launcher() -> Callable[[Any], None]:
    add, grid, block, n, a = module.get_function("add"), (N // BLOCK,), (BLOCK,), np.int32(N), np.float32(1)
    return lambda x: add(grid, block, (x, n, a))


def _array() -> Any:
    return cp.asarray(zeros())


def _captured(stream: Any, work: Callable[[], None]) -> Any:
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        work()
        return stream.end_capture()


def chain(loops: int, device: Device) -> Run:
    """Loops in a row."""
    x, add, stream = _array(), _launcher(), cp.cuda.Stream(non_blocking=True)

    def work() -> None:
        for _ in range(loops):
            add(x)

    graph = _captured(stream, work)
    return Run(lambda: graph.launch(stream), stream.synchronize, lambda: {"x": cp.asnumpy(x)})


def loop(loops: int, device: Device) -> Loop:
    """The body is a graph, the host reads the counter in each iteration."""
    x, add, stream = _array(), _launcher(), cp.cuda.Stream(non_blocking=True)
    count_down, counter = module.get_function("count_down"), cp.zeros(1, cp.int32)

    def work() -> None:
        for _ in range(loops):
            add(x)
        count_down((1,), (1,), (counter,))

    graph = _captured(stream, work)

    def prepare(count: int) -> None:
        counter.fill(count)
        cp.cuda.Device().synchronize()

    def run(_: int) -> None:
        with stream:
            graph.launch(stream)
            while counter.item():
                graph.launch(stream)

    return Loop(prepare, run, lambda: cp.asnumpy(x))


def changed(loops: int, device: Device) -> Run:
    """Another array each call: its graphs cannot follow."""
    arrays, add = [_array() for _ in range(SETS)], _launcher()
    following = itertools.cycle(arrays).__next__

    def action() -> None:
        x = following()
        for _ in range(loops):
            add(x)

    return Run(action, cp.cuda.Device().synchronize, lambda: {"x": np.stack([cp.asnumpy(x) for x in arrays])})


def branches(count: int, device: Device) -> Run:
    """A stream each, forked and joined in a capture."""
    arrays, add = [_array() for _ in range(count)], _launcher()
    main, *streams = (cp.cuda.Stream(non_blocking=True) for _ in range(count + 1))

    def work() -> None:
        fork = main.record()
        for x, stream in zip(arrays, streams, strict=True):
            stream.wait_event(fork)
            with stream:
                add(x)
            main.wait_event(stream.record())

    graph = _captured(main, work)
    return Run(lambda: graph.launch(main), main.synchronize, lambda: {"x": np.stack([cp.asnumpy(x) for x in arrays])})
