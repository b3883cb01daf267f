"""Kernels for tests of the disk cache: as text, so that a test can write them to a file, move them and change them."""

SOURCE = """\
import math

import numba
import numpy as np

import qgraph

SCALE = 3
TABLE = (1.5, 2.5)
BELOW = 1.0


@numba.njit
def inner(v):
    return v * BELOW


@numba.njit
def outer(v, w=2.0):
    return inner(v) + np.sqrt(w) + TABLE[0]


@qgraph.func
def half(v, by=0.5):
    return v * by


def made(factor, kind):
    @qgraph.kernel
    def kernel(x, y, n):
        for i in range(x.shape[0]):
            x[i] = x[i] * SCALE + factor
        for i in range(x.shape[0]):
            y[i] = outer(x[i]) + half(x[i])
        s = 0.0
        for i in range(x.shape[0]):
            s += kind(y[i])
        c = 0
        while c < n:
            c += 1
            for i in range(x.shape[0]):
                x[i] = a = b = math.sin(s) * y[i]
                y[i] = a + b
        return s

    return kernel


kernel = made(2, np.float32)
"""

# Numba is the user's own here, so that what is not imported is not imported.
PLAIN = """\
import math

import qgraph


@qgraph.func
def half(v):
    return v * 0.5


@qgraph.kernel
def kernel(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        y[i] = a = b = math.sqrt(abs(x[i])) + half(x[i])
        x[i] = a + b
        s += y[i]
    n = 0
    while n < 3:
        n += 1
        for i in range(x.shape[0]):
            x[i] += s
    return s, n
"""
