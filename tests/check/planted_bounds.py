"""Kernels with indices out of bounds and reads of what nobody wrote: `which` chooses, `# fault N` marks the place."""

from __future__ import annotations

import numpy as np

import qgraph
from tests.check.planted_races import TABLE, Grid


@qgraph.func
def at(row, k):
    """A read in a function."""
    return row[k]  # fault 7, fault 8


@qgraph.kernel
def of_vectors(which, x, y, idx, n):
    """Indices of vectors."""
    w = x[1:-1]
    back = x[::-1]
    odd = x[1::2]
    if which == 1:
        for i in range(idx.shape[0]):
            y[i] = x[idx[i]]  # fault 1
    if which == 2:
        for i in range(idx.shape[0]):
            x[idx[i]] = y[i]  # fault 2
    if which == 3:
        for i in range(idx.shape[0]):
            x[idx[i]] += y[i]  # fault 3
    if which == 4:
        for i in range(idx.shape[0]):
            n[i] = qgraph.atomic_add(n, idx[i], 1) if idx[i] > 4 else 0  # fault 4
    if which == 5:
        for i in range(idx.shape[0]):
            y[i] = x[-2 * idx[i]]  # fault 5
    if which == 6:
        for i in range(x.shape[0]):
            y[i] = x[i] + x[i + 1]  # fault 6
    if which == 7:
        for i in range(idx.shape[0]):
            y[i] = at(x, idx[i])
    if which == 8:
        for i in range(idx.shape[0]):
            y[i] = at(x[2:5], i)
    if which == 9:
        for i in range(idx.shape[0]):
            y[i] = w[min(idx[i], 6)]  # fault 9
    if which == 10:
        for i in range(3):
            y[i] = w[6]  # fault 10
    if which == 11:
        for i in range(idx.shape[0]):
            y[i] = back[2 * idx[i]]  # fault 11
    if which == 12:
        for i in range(idx.shape[0]):
            odd[i] = 1.0  # fault 12
    if which == 13:
        y[0] = x[idx[4]]  # fault 13
    if which == 14:
        k = 0
        while x[k] >= 0.0:  # fault 14
            k += 1
    if which == 15:
        for i in range(idx[5]):  # fault 15
            x[i] = 0.0
    if which == 16:
        for i in range(idx.shape[0]):
            k = 0
            while y[k] >= 0.0:  # fault 16
                k += 1
            x[i] = k
    if which == 17:
        for i in range(idx.shape[0]):
            x[idx[4]] += y[i]  # fault 17
    if which == 18:
        for i in range(idx.shape[0]):
            y[i] = x[i] if i < 3 else x[idx[i]] if idx[i] > 6 else 0.0  # fault 18
    if which == 19:
        for i in range(idx.shape[0]):
            t = np.zeros(7)
            t[idx[i]] = x[i]  # fault 19
            y[i] = t[0]


@qgraph.kernel
def of_matrices(which, a, idx, grid, pair, empty):
    """Indices of matrices, structures, and arrays without elements."""
    if which == 1:
        for i, j in qgraph.ndrange(a.shape[0], 4):
            a[i, j] = 0.0  # fault 1
    if which == 2:
        for i in range(idx.shape[0]):
            row = a[idx[i]]  # fault 2
            row[0] = 1.0
    if which == 3:
        for i in range(4):
            pair[0][2 * i : 2 * i + 2] = a[idx[i], 1:]  # fault 3
    if which == 4:
        for I in qgraph.ndrange(a.shape[0], a.shape[1]):
            grid.u[I[0]] += a[I[1], I[0]]  # fault 4
    if which == 5:
        for i in range(idx.shape[0]):
            grid.u[i] = grid.v[idx[i]]  # fault 5
    if which == 6:
        for i in range(3):
            pair[0][i] = pair[1][i + 6]  # fault 6
    if which == 7:
        for i in range(3):
            a[i, 0] = empty[i]  # fault 7
    if which == 8:
        for i in range(idx.shape[0]):
            TABLE[2 * idx[i]] = 0.0  # fault 8
    if which == 9:
        for i in range(a.shape[0]):
            a.T[i, 0] = 1.0  # fault 9
    if which == 10:
        for i in range(idx.shape[0]):
            s = 0.0
            for k in range(idx[i]):
                s += a[i, k]  # fault 10
            a[i, 0] = s
    if which == 11:
        column = a[:, 1]
        for i in range(idx.shape[0]):
            column[i + 1] = 2.0  # fault 11


@qgraph.kernel
def of_temporaries(which, x, y, idx):
    """Reads of what nobody wrote."""
    n = x.shape[0]
    if which == 1:
        t = qgraph.empty(n)
        for i in range(n - 1):
            t[i] = x[i]
        for i in range(n):
            y[i] = t[i]  # fault 1
    if which == 2:
        t2 = qgraph.empty_like(x)
        for i in range(idx.shape[0]):
            t2[idx[i]] = 1.0
        s = 0.0
        for i in range(n):
            s += t2[i]  # fault 2
        y[0] = s
    if which == 3:
        t3 = qgraph.empty(n)
        for i in range(idx.shape[0]):
            t3[idx[i]] += 1.0  # fault 3
        for i in range(n):
            y[i] = 1.0
    if which == 4:
        t4 = np.empty(n)
        t4[0] = 1.0
        y[0] = t4[0] + t4[1]  # fault 4
    if which == 5:
        t5 = qgraph.empty(n)
        t5[1:] = x[1:]
        y[:] = 2.0 * t5  # fault 5
    if which == 6:
        t6 = qgraph.empty((n, 2))
        for i in range(n):
            t6[i, 0] = 1.0
        for i in range(n):
            y[i] = np.sum(t6[i])  # fault 6


def vectors():
    """Arguments of ``of_vectors`` behind ``which``."""
    return np.arange(8.0), np.arange(8.0), np.array([3, 1, 0, 6, 9]), np.zeros(8, np.int64)


def matrices():
    """Those of ``of_matrices``."""
    a = np.arange(15.0).reshape(5, 3)
    grid = Grid(np.zeros(8), np.arange(8.0))
    return a, np.array([3, 1, 0, 6, 9]), grid, (np.zeros(8), np.zeros(8)), np.zeros(0)


def temporaries():
    """Those of ``of_temporaries``."""
    return np.arange(8.0), np.zeros(8), np.array([3, 1, 0])
