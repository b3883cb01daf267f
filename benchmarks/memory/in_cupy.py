"""In CuPy: one elementwise kernel where there would be several, and the library's own transpose and products."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np
from cupyx import cusparse
from cupyx.scipy.sparse import csr_matrix

from benchmarks.memory import Arrays, Makers
from benchmarks.memory.problems import SCALE, Problem
from benchmarks.peers import Device, Run
from benchmarks.timing import Action

triad = cp.ElementwiseKernel("float32 b, float32 c, float32 s", "float32 y", "y = b + s * c", "triad")
stencil = cp.ElementwiseKernel(
    "float32 north, float32 south, float32 west, float32 east, float32 x",
    "float32 y",
    "y = 0.25f * (north + south + west + east) - x",
    "stencil",
)


def _taken(arrays: Arrays) -> dict[str, Any]:
    return {name: cp.asarray(array) for name, array in arrays.items()}


def _into(y: Any, action: Action) -> Run:
    return Run(action, cp.cuda.Device().synchronize, lambda: {"y": cp.asnumpy(y)})


def _triad(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    y, b, c, s = taken["y"], taken["b"], taken["c"], np.float32(SCALE)
    return _into(y, lambda: triad(b, c, s, y))


def _stencil(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    y, x = taken["y"], taken["x"]
    parts = (x[:-2, 1:-1], x[2:, 1:-1], x[1:-1, :-2], x[1:-1, 2:], x[1:-1, 1:-1], y[1:-1, 1:-1])
    return _into(y, lambda: stencil(*parts))


def _transpose(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    y, turned = taken["y"], taken["x"].T
    return _into(y, lambda: cp.copyto(y, turned))


def _csr(problem: Problem, arrays: Arrays, device: Device) -> Run:
    """What ``matrix @ x`` calls, without the new array that it makes and fills with zeros."""
    taken = _taken(arrays)
    y, x = taken["y"], taken["x"]
    matrix = csr_matrix((taken["values"], taken["columns"], taken["starts"]), shape=(y.size, x.size))
    matrix.sum_duplicates()
    return _into(y, lambda: cusparse.spmv(matrix, x, y))


def _dot(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    a, b, found = taken["a"], taken["b"], [np.nan]

    def action() -> None:
        found[0] = cp.dot(a, b)

    return Run(action, cp.cuda.Device().synchronize, lambda: {"y": np.array([float(found[0])])})


def _returned(problem: Problem, arrays: Arrays, device: Device) -> Run:
    taken = _taken(arrays)
    a, b, found = taken["a"], taken["b"], [np.nan]

    def action() -> None:
        found[0] = float(cp.dot(a, b))

    return Run(action, cp.cuda.Device().synchronize, lambda: {"y": np.array(found)})


MAKERS: Makers = {
    "triad": {"CuPy": _triad},
    "stencil": {"CuPy": _stencil},
    "transpose": {"CuPy": _transpose},
    "csr": {"CuPy": _csr},
    "dot": {"CuPy": _dot},
    "dot_returned": {"CuPy": _returned},
}
