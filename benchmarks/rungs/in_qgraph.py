"""In qgraph."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import qgraph
from benchmarks import chains
from benchmarks.peers import Device, Run
from benchmarks.rungs import SETS, Loop, zeros


def _array(device: Device) -> Any:
    return qgraph.asarray(zeros(), backend=device)


def _made(kernel: Callable[..., Any], *, fuse: bool) -> Any:
    return qgraph.kernel(fuse=fuse)(kernel)


def chain(loops: int, device: Device, *, fuse: bool = False) -> Run:
    """Loops in a row."""
    kernel, x = _made(chains.chain(loops), fuse=fuse), _array(device)
    return Run(lambda: kernel(x, 1.0), qgraph.synchronize, lambda: {"x": qgraph.to_numpy(x)})


def loop(loops: int, device: Device, *, fuse: bool = False) -> Loop:
    """A do-while on the device."""
    kernel, x = _made(chains.counted(loops), fuse=fuse), _array(device)
    counter = qgraph.asarray(np.array(1, np.int32), backend=device)

    def prepare(count: int) -> None:
        counter.fill(count)
        qgraph.synchronize()

    def run(_: int) -> None:
        kernel(x, 1.0, counter)
        qgraph.synchronize()

    return Loop(prepare, run, lambda: qgraph.to_numpy(x))


def changed(loops: int, device: Device, *, fuse: bool = False) -> Run:
    """Another array each call."""
    kernel, arrays = _made(chains.chain(loops), fuse=fuse), [_array(device) for _ in range(SETS)]
    following = itertools.cycle(arrays).__next__
    return Run(
        lambda: kernel(following(), 1.0),
        qgraph.synchronize,
        lambda: {"x": np.stack([qgraph.to_numpy(array) for array in arrays])},
    )


def branches(count: int, device: Device, *, fuse: bool = False) -> Run:
    """Independent loops."""
    kernel, arrays = _made(chains.independent(count), fuse=fuse), [_array(device) for _ in range(count)]
    return Run(
        lambda: kernel(*arrays, 1.0),
        qgraph.synchronize,
        lambda: {"x": np.stack([qgraph.to_numpy(array) for array in arrays])},
    )
