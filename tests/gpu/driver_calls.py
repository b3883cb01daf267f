"""Which functions of CUDA a stretch of code calls, by CUPTI, the interface that profilers are made of.

``python -m tests.gpu.driver_calls`` solves a system by conjugate gradients and prints what was called meanwhile, as JSON. It is
a process of its own, since CUPTI has one subscriber and slows down all that comes after.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from contextlib import contextmanager

DRIVER_API, RUNTIME_API = 1, 2
ENTER = 0


class CallbackData(ctypes.Structure):
    """The first fields of CUpti_CallbackData."""

    _fields_ = (("site", ctypes.c_int), ("name", ctypes.c_char_p))


Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(CallbackData))


def load_cupti() -> ctypes.CDLL:
    """The library; ``DynamicLibNotFoundError`` of cuda.pathfinder where there is none."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return ctypes.CDLL(load_nvidia_dynamic_lib("cupti").abs_path)


@contextmanager
def recorded(cupti: ctypes.CDLL) -> Iterator[list[str]]:
    """``with recorded(cupti) as names:`` the functions of the driver and the runtime that are called, in order."""
    names: list[str] = []

    def note(_data, _domain, _id, data):
        if data.contents.site == ENTER:
            names.append(data.contents.name.decode())

    callback = Callback(note)
    subscriber = ctypes.c_void_p()
    _check(cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None), "cuptiSubscribe")
    try:
        for domain in (DRIVER_API, RUNTIME_API):
            _check(cupti.cuptiEnableDomain(1, subscriber, domain), "cuptiEnableDomain")
        yield names
    finally:
        _check(cupti.cuptiUnsubscribe(subscriber), "cuptiUnsubscribe")


def _check(result: int, name: str) -> None:
    if result != 0:
        raise RuntimeError(f"{name} failed with CUPTI result {result}")


def of_interest(name: str) -> bool:
    """Whether a function starts work, moves memory or waits."""
    starts = ("cuLaunch", "cudaLaunch", "cuGraphLaunch", "cudaGraphLaunch", "cuMemcpy", "cudaMemcpy", "cuMemset", "cudaMemset")
    return name.startswith(starts) or "Synchronize" in name


def solve(cupti: ctypes.CDLL, **options: object) -> dict[str, object]:
    """What one warm solve calls."""
    import numpy as np

    import qgraph
    from examples.conjugate_gradient import Csr, conjugate_gradient, laplacian

    kernel = qgraph.kernel(backend="cuda", **options)(conjugate_gradient.__wrapped__)
    side = 40
    matrix = Csr(*(qgraph.asarray(part, backend="cuda") for part in laplacian(side)))
    b = qgraph.asarray(np.ones(side * side), backend="cuda")
    x = qgraph.zeros(side * side, backend="cuda")
    names: list[str] = []
    iterations, residual = 0, 0.0
    for _ in range(3):
        x.fill(0.0)
        qgraph.synchronize()
        with recorded(cupti) as seen:
            iterations, residual = kernel(matrix, x, b, 1e-10, 10_000)
        names = seen
    return {
        "iterations": iterations,
        "residual": residual,
        "path": kernel.last_launch.path,
        "names": names,
        "calls": [name for name in names if of_interest(name)],
    }


def main() -> None:
    """Solve on the device, and once more with the host in charge of the loop."""
    cupti = load_cupti()
    print(json.dumps({"device": solve(cupti, conditional="device"), "host": solve(cupti, conditional="host")}))


if __name__ == "__main__":
    main()
