"""Kernels that the tests of all hosts call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import qgraph


@qgraph.kernel
def axpy(a, x, y):
    for i in range(y.shape[0]):
        y[i] = a * x[i] + y[i]


@qgraph.kernel
def running(x, y):
    for i in qgraph.serial(range(1, y.shape[0])):
        y[i] = 3 * x[i - 1] + 1


@qgraph.kernel
def interleaved(x):
    y = np.empty(2 * x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        y[2 * i] = x[i]
        y[2 * i + 1] = -x[i]
    return y


@qgraph.kernel
def added(x, y):
    return x + y


@qgraph.kernel
def copied(x):
    y = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        y[i] = x[i]
    return y


@qgraph.kernel
def signed(x, a):
    y = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        y[i] = np.copysign(x[i], a)
    return y


@qgraph.kernel
def several(pair, a, n, x):
    t = np.empty((n, x.shape[0]), x.dtype)
    u = np.zeros(3, np.int32)
    for k, i in qgraph.ndrange(n, x.shape[0]):
        t[k, i] = a * x[i] + pair[0][i] + k
    for i in range(3):
        u[i] = i
    return t, u, x


@qgraph.kernel
def scaled(x, y, times: qgraph.Static, *, offset=0.0):
    for i in range(x.shape[0]):
        y[i] = times * x[i] + offset


@qgraph.kernel
def of_rows(points, out):
    for i in range(points.shape[0]):
        out[i] = qgraph.vec(points[i]) * 2


@qgraph.kernel
def total(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


@dataclass
class State:
    x: Any
    y: Any


@qgraph.kernel
def double(state):
    for i in range(state.y.shape[0]):
        state.y[i] = 2 * state.x[i]


@qgraph.kernel
def returned_state(x):
    y = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        y[i] = x[i]
    return State(y, y)


@qgraph.kernel
def idle(x, n):
    for i in range(n):
        pass


TABLE = np.arange(10.0)


@qgraph.kernel
def looked_up(x, y):
    for i in range(x.shape[0]):
        y[i] = TABLE[i] * x[i]


LENGTH = 2


@qgraph.kernel
def of_length(x):
    y = np.zeros(LENGTH, x.dtype)
    for i in range(LENGTH):
        y[i] = x[0]
    return y


@qgraph.kernel
def misspelt(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i] + no_such_name  # noqa: F821


@qgraph.kernel
def racing(x, y):
    for i in range(x.shape[0]):
        y[0] = x[i]


@qgraph.kernel
def colliding(x):
    y = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        y[0] = x[i]
    return y


@qgraph.kernel(bounds_check=True)
def gathered(x, index):
    y = np.empty(index.shape[0], x.dtype)
    for i in range(index.shape[0]):
        y[i] = x[index[i]]
    return y


# --- with gradients ------------------------------------------------------------------------------------------------------


@qgraph.kernel
def square(x):
    y = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        y[i] = x[i] * x[i]
    return y


@square.vjp
@qgraph.kernel
def square_vjp(x, y, ct):
    g = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        g[i] = 2 * x[i] * ct[i]
    return g


@qgraph.kernel
def step(a, x, y):
    """It changes ``y``, and what that was decides its gradient."""
    for i in range(y.shape[0]):
        y[i] = a * x[i] * x[i] + y[i] * y[i]


@step.vjp
def step_vjp(a, x, y, new, ct):
    return 2 * a * x * ct, 2 * y * ct


@qgraph.kernel
def cube(x):
    y = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        y[i] = x[i] * x[i] * x[i]
    return y


@qgraph.kernel
def without_vjp(x):
    y = np.empty(x.shape[0], x.dtype)
    for i in range(x.shape[0]):
        y[i] = x[i] * x[i]
    return y
