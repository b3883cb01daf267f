"""What a copy loads and stores in a second on this machine: what profiles compare loops with."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from qgraph.errors import CudaError
from qgraph.options import Options

# Elements of float64 that no cache holds. They are copied so many times in a row, and the best time of so many counts.
_ELEMENTS = {"cuda": 1 << 25, "cpu": 1 << 23}
_IN_A_ROW, _TIMES = {"cuda": 10, "cpu": 1}, 5


@functools.cache
def copy_bandwidth(kernel: Callable[..., Any], backend: str, device: int) -> float | None:
    """Bytes a nanosecond, which are GB/s, measured once for each device; None on the simulator, or if it has no such memory.

    ``kernel`` makes a kernel of a function and its options.
    """
    from qgraph.arrays import synchronize

    if backend not in _ELEMENTS:
        return None
    try:
        source, target = (_array(_ELEMENTS[backend], backend, device) for _ in range(2))
        copy = kernel(_copied, Options(backend=backend))
        copy(source, target)
        times = []
        for _ in range(_TIMES):
            synchronize()
            began = time.perf_counter_ns()
            for _ in range(_IN_A_ROW[backend]):
                copy(source, target)
            synchronize()
            times.append(time.perf_counter_ns() - began)
    except (CudaError, MemoryError):
        return None
    return 2 * int(source.nbytes) * _IN_A_ROW[backend] / min(times)


def _array(size: int, backend: str, device: int) -> Any:
    if backend == "cpu":
        return np.ones(size)
    from qgraph.runtime.arguments import device_array

    return device_array.empty(size, np.float64, device)


def _copied(source: np.ndarray, target: np.ndarray) -> None:
    for i in range(source.shape[0]):
        target[i] = source[i]
