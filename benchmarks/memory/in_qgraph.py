"""In qgraph: the loops as they are in the textbook, some as one loop over pairs and as a nest of loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import qgraph
from benchmarks.memory import Arrays, Maker, Makers
from benchmarks.memory.problems import SCALE, Problem
from benchmarks.peers import Device, Run


def triad(y, b, c, s):
    """Of the STREAM benchmark."""
    for i in range(y.shape[0]):
        y[i] = b[i] + s * c[i]


def stencil(y, x):
    """Over pairs."""
    n, m = x.shape
    for i, j in qgraph.ndrange((1, n - 1), (1, m - 1)):
        y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]


def stencil_nest(y, x):
    """A loop in a loop."""
    n, m = x.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j]


def transpose(y, x):
    """Over pairs."""
    n, m = x.shape
    for i, j in qgraph.ndrange(n, m):
        y[j, i] = x[i, j]


def transpose_nest(y, x):
    """A loop in a loop."""
    n, m = x.shape
    for i in range(n):
        for j in range(m):
            y[j, i] = x[i, j]


def csr(y, values, columns, starts, x):
    """A sum a row."""
    for i in range(y.shape[0]):
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s


def dot(y, a, b):
    """The sum stays on the device."""
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    y[0] = s


def dot_returned(a, b):
    """The sum is returned, so each call waits for it."""
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    return s


def _of(function: Callable[..., Any], names: str, *numbers: float) -> Maker:
    """The function with those arrays and numbers, into ``y``."""

    def make(problem: Problem, arrays: Arrays, device: Device) -> Run:
        bound = qgraph.kernel(backend=device)(function).bind(*(arrays[name] for name in names.split()), *numbers)
        return Run(bound.launch, qgraph.synchronize, lambda: {"y": qgraph.to_numpy(arrays["y"])})

    return make


def _returned(problem: Problem, arrays: Arrays, device: Device) -> Run:
    bound = qgraph.kernel(backend=device)(dot_returned).bind(arrays["a"], arrays["b"])
    found = [np.nan]

    def action() -> None:
        found[0] = bound.launch()

    return Run(action, qgraph.synchronize, lambda: {"y": np.array(found)})


MAKERS: Makers = {
    "triad": {"qgraph": _of(triad, "y b c", SCALE)},
    "stencil": {"qgraph": _of(stencil, "y x"), "qgraph, nest": _of(stencil_nest, "y x")},
    "transpose": {"qgraph": _of(transpose, "y x"), "qgraph, nest": _of(transpose_nest, "y x")},
    "csr": {"qgraph": _of(csr, "y values columns starts x")},
    "dot": {"qgraph": _of(dot, "y a b")},
    "dot_returned": {"qgraph": _returned},
}
