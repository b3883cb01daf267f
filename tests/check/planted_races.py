"""Kernels with races: `which` chooses the loop. `# fault N` marks the place of fault N, `# also N` the other access."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import qgraph

TABLE = np.zeros(8)


@dataclass(frozen=True)
class Grid:
    """A structure of arrays."""

    u: np.ndarray
    v: np.ndarray


@qgraph.func
def put(row, k, value):
    """A store in a function that loops call."""
    row[k] = value  # fault 9, fault 10


@qgraph.func
def put_deeper(row, k, value):
    """The same, one call further."""
    put(row, k, value)


@qgraph.func
def total(row):
    """Reads all of what it gets."""
    s = 0.0
    for k in range(row.shape[0]):
        s += row[k]  # also 11
    return s


@qgraph.kernel
def of_vectors(which, x, y, idx, n):
    """Races of elements of vectors."""
    if which == 1:
        for i in range(idx.shape[0]):
            x[idx[i]] = y[i]  # fault 1
    if which == 2:
        for i in range(idx.shape[0]):
            x[i] = x[idx[i]] + 1.0  # fault 2, also 2
    if which == 3:
        for i in range(idx.shape[0]):
            if y[i] > 2.0:
                x[0] = y[i]  # fault 3
    if which == 4:
        for i in range(idx.shape[0]):
            x[idx[i]] += 1.0  # fault 4
            y[i] = x[i]  # also 4
    if which == 5:
        for i in range(idx.shape[0]):
            qgraph.atomic_add(n, idx[i], 1)  # also 5
            if idx[i] == 1:
                n[1] = 7  # fault 5
    if which == 6:
        for i in range(idx.shape[0]):
            x[idx[i]] += 1.0  # also 6
            x[idx[i]] = min(x[idx[i]], y[i])  # fault 6
    if which == 7:
        for i in qgraph.parallel(range(1, x.shape[0])):
            x[i] = x[i - 1]  # fault 7, also 7
    if which == 8:
        for i in range(idx.shape[0]):
            x[idx[i]], y[i] = y[i], 1.0  # fault 8
    if which == 9:
        for i in range(idx.shape[0]):
            put(x, idx[i], y[i])
    if which == 10:
        for i in range(idx.shape[0]):
            put_deeper(x[1:], idx[i], y[i])
    if which == 11:
        for i in range(idx.shape[0]):
            x[i] = 2.0 * total(x[idx[i] : idx[i] + 1])  # fault 11
    if which == 12:
        for i in range(idx.shape[0]):
            if i == 0:
                qgraph.atomic_add(n, 1, 1)
            if i == 1:
                qgraph.atomic_exch(n, 1, 5)  # fault 12
            if i == 2:
                n[idx[i + 1]] += 1  # also 12


@qgraph.kernel
def of_views(which, x, y, idx, s):
    """Races through views, in inner loops, and around them."""
    w = x[1:-1]
    back = x[::-1]
    if which == 1:
        for i in range(idx.shape[0]):
            w[idx[i]] = y[i]  # fault 1
    if which == 2:
        for i in range(idx.shape[0]):
            w[i] = x[idx[i]]  # fault 2, also 2
    if which == 3:
        for i in range(idx.shape[0]):
            back[i] = x[idx[i]] + 1.0  # fault 3, also 3
    if which == 4:
        for i in range(idx.shape[0]):
            for k in range(2):
                x[idx[i] + k] = y[i]  # fault 4
    if which == 5:
        for i in range(idx.shape[0]):
            k = 0
            while k < 3:
                if k == 2:
                    x[idx[i]] = y[i]  # fault 5
                k += 1
    if which == 6:
        for t in qgraph.serial(range(3)):
            for i in range(idx.shape[0]):
                x[(idx[i] + t) % x.shape[0]] = y[i]  # fault 6
    if which == 7:
        for i in range(idx.shape[0]):
            x[-1 - idx[i]] = y[i]  # fault 7
    if which == 8:
        for i in range(0, 2 * idx.shape[0], 2):
            x[idx[i // 2]] = y[i // 2]  # fault 8
    if which == 9:
        for i in range(idx.shape[0] - 1, -1, -1):
            x[idx[i]] = y[i]  # fault 9
    if which == 10:
        t = qgraph.zeros(x.shape[0])
        for i in range(idx.shape[0]):
            t[idx[i]] = y[i]  # fault 10
        for i in range(x.shape[0]):
            x[i] = t[i]
    if which == 13:
        for i in range(idx.shape[0]):
            if idx[i] == 1:
                s[()] = y[i]  # fault 13
    if which == 12:
        for i in range(idx.shape[0]):
            if idx[i] >= 0 and x[idx[i]] >= 0.0:  # also 12
                x[i] = y[i] + 1.0  # fault 12


@qgraph.kernel
def of_matrices(which, a, b, idx, z):
    """Races of elements and rows of matrices."""
    if which == 1:
        for i, j in qgraph.ndrange(idx.shape[0], 3):
            a[idx[i], j] = b[i, j]  # fault 1
    if which == 2:
        for I in qgraph.ndrange(idx.shape[0], 3):
            a[I] = b[idx[I[0]], I[1]] + a[idx[I[0]], I[1]]  # fault 2, also 2
    if which == 3:
        for i in range(idx.shape[0]):
            row = a[idx[i]]
            row[0] = b[i, 0]  # fault 3
    if which == 4:
        for i in range(idx.shape[0]):
            a[idx[i], 1:] = b[i, 1:]  # fault 4
    if which == 5:
        for i in range(idx.shape[0]):
            a[i, 0] = np.sum(a[idx[i]])  # fault 5, also 5
    if which == 6:
        for i in range(idx.shape[0]):
            z[idx[i]] = 1.0 + i * 1j  # fault 6
    if which == 7:
        for i in range(idx.shape[0]):
            a.T[1, idx[i]] = b[i, 1]  # fault 7
    if which == 8:
        for i in range(idx.shape[0]):
            a[idx[i]] *= b[i]  # fault 8
    if which == 9:
        for i in range(idx.shape[0]):
            b[i, 0] = 1.0
            for j in range(3):
                a[i, j] = a[idx[i], 2 - j] + 1.0  # fault 9, also 9


@qgraph.kernel
def of_structures(which, grid, pair, idx, small, flags):
    """Races in structures, tuples, global arrays, and arrays of small types."""
    first, second = pair
    if which == 1:
        for i in range(idx.shape[0]):
            grid.u[idx[i]] = grid.v[i]  # fault 1
    if which == 2:
        for i in range(idx.shape[0]):
            first[i] = second[idx[i]] + 1.0  # fault 2, also 2
    if which == 3:
        for i in range(idx.shape[0]):
            TABLE[idx[i]] = 1.0 + i  # fault 3
    if which == 4:
        for i in range(idx.shape[0]):
            small[idx[i]] = i  # fault 4
    if which == 5:
        for i in range(idx.shape[0]):
            flags[idx[i]] = i > 1  # fault 5
    if which == 6:
        for i in range(idx.shape[0]):
            k = idx[i]
            grid.u[i], grid.v[k] = grid.v[i], 2.0 * i  # fault 6, also 6
    if which == 7:
        for i in range(idx.shape[0]):
            old = qgraph.atomic_exch(idx, 0, i)  # fault 7
            grid.u[i] = idx[0] + old  # also 7
    if which == 8:
        u, v = grid.u, grid.v
        for t in qgraph.serial(range(3)):
            for i in range(1, idx.shape[0]):
                u[idx[i]] = v[i] + t + i  # fault 8
            u, v = v, u


INDICES = np.array([3, 1, 0, 1, 2])


def vectors():
    """Arguments of ``of_vectors`` behind ``which``."""
    return np.arange(8.0), np.arange(8.0) + 1, INDICES.copy(), np.zeros(8, np.int64)


def views():
    """Those of ``of_views``."""
    return np.arange(8.0), np.arange(8.0) + 1, INDICES.copy(), np.zeros(())


def matrices():
    """Those of ``of_matrices``."""
    a = np.arange(15.0).reshape(5, 3)
    return a, a + 1, INDICES.copy(), np.zeros(8, np.complex128)


def structures():
    """Those of ``of_structures``: the two of the pair are one array."""
    shared = np.zeros(8)
    grid = Grid(np.zeros(8), np.arange(8.0))
    return grid, (shared, shared), INDICES.copy(), np.zeros(8, np.int8), np.zeros(8, np.bool_)
