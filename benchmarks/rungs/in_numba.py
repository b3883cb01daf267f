"""In numba-cuda: launches one by one, which is all that it has; its loop is the host's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.peers import Device, Run
from benchmarks.rungs import BLOCK, SETS, Loop, N, zeros
from qgraph.compat.numba_cuda import cuda


@cuda.jit
def add(x, a):
    """The loop."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] = x[i] + a


@cuda.jit
def count_down(counter):
    """The counter."""
    counter[0] -= 1


A = np.float32(1)


def _array() -> Any:
    return cuda.to_device(zeros())


def chain(loops: int, device: Device) -> Run:
    """Loops in a row."""
    x, launch = _array(), add[N // BLOCK, BLOCK]

    def action() -> None:
        for _ in range(loops):
            launch(x, A)

    return Run(action, cuda.synchronize, lambda: {"x": x.copy_to_host()})


def loop(loops: int, device: Device) -> Loop:
    """The host reads the counter in each iteration."""
    x, launch = _array(), add[N // BLOCK, BLOCK]
    counter, left = cuda.to_device(np.zeros(1, np.int32)), cuda.pinned_array(1, np.int32)

    def prepare(count: int) -> None:
        counter.copy_to_device(np.array([count], np.int32))
        cuda.synchronize()

    def run(_: int) -> None:
        while True:
            for _ in range(loops):
                launch(x, A)
            count_down[1, 1](counter)
            counter.copy_to_host(left)
            if left[0] == 0:
                return

    return Loop(prepare, run, x.copy_to_host)


def changed(loops: int, device: Device) -> Run:
    """Another array each call."""
    arrays, launch = [_array() for _ in range(SETS)], add[N // BLOCK, BLOCK]
    following = itertools.cycle(arrays).__next__

    def action() -> None:
        x = following()
        for _ in range(loops):
            launch(x, A)

    return Run(action, cuda.synchronize, lambda: {"x": np.stack([x.copy_to_host() for x in arrays])})


def branches(count: int, device: Device) -> Run:
    """One after the other: a stream each costs more events than such loops last."""
    arrays, launch = [_array() for _ in range(count)], add[N // BLOCK, BLOCK]

    def action() -> None:
        for x in arrays:
            launch(x, A)

    return Run(action, cuda.synchronize, lambda: {"x": np.stack([x.copy_to_host() for x in arrays])})
