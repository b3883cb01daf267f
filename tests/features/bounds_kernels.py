"""Kernels with indices that may be out of bounds; the lines of these are marked."""

from __future__ import annotations

import numpy as np

import qgraph


def shifted(x, y, k):
    for i in range(y.shape[0]):
        y[i] = x[i + k]  # here


def histogram(counts, values):
    for i in range(values.shape[0]):
        counts[values[i]] += 1  # here


def of_two_axes(a, b, k):
    for i, j in qgraph.ndrange(*b.shape):
        b[i, j] = 2 * a[i, j - k]  # here


def tuples(a, b):
    for I in qgraph.ndrange(*b.shape):
        b[I] = a[I] + 1  # here


@qgraph.func
def last_of(row, k):
    return row[k] + row[-1]  # here


def func(a, y, k):
    for i in range(y.shape[0]):
        y[i] = last_of(a[i], k)


def view(u, k):
    w = u[1:-1]
    for i in range(k):
        w[i] = 1.0  # here


def row(a, y, k):
    for i in range(y.shape[0]):
        y[i] = np.sum(a[i + k, 1:])  # here


def searching(x, y):
    for i in range(y.shape[0]):
        j = i
        while x[j] != 0:  # here
            j += 1
        y[i] = j


def guarded(x, y):
    for i in range(y.shape[0]):
        y[i] = 0.0
        if i + 3 < x.shape[0] and x[i + 3] > 0:
            y[i] = x[i + 3] if i > 0 else -x[-1]


def into_an_element(x, y, k):
    for i in range(y.shape[0]):
        x[k] += y[i]  # here


def one_thread(x, k):
    s = x[0]
    t = 0
    while s > 0:
        s -= x[k]  # here
        t += 1
    x[t] = s
    return t


def bound(n, x, k):
    for i in range(n[k]):  # here
        x[i] += 1.0


def convergence(x, k):
    steps = 0
    while x[steps + k] < 100:  # here
        for i in range(x.shape[0]):
            x[i] += 1.0
        steps += 1
    return steps


def in_a_loop(x, y, n):
    for t in qgraph.serial(range(n)):
        for i in range(y.shape[0]):
            y[i] += x[i + t]  # here


def atomics(x, old, k):
    for i in qgraph.parallel(range(old.shape[0])):
        old[i] = qgraph.atomic_add(x, i + k, 1)  # here


def exchanged(x, old, k):
    for i in qgraph.parallel(range(old.shape[0])):
        old[i] = qgraph.atomic_cas(x, i + k, i, 7)  # here


def no_axes(x, y):
    for i in range(y.shape[0]):
        y[i] = x[()] + i


def narrow(x, idx, y):
    for i in range(y.shape[0]):
        y[i] = x[idx[i]]  # here


def several(x, y):
    for i in range(y.shape[0]):
        y[i] = x[i]
    for i in range(y.shape[0]):
        y[i] = x[i + 1]  # here
    for i in range(y.shape[0]):
        x[i + 5] = y[i]


def library(x, y, k):
    y[:] = np.sort(x)
    for i in range(x.shape[0]):
        x[i] = y[i + k]  # here


@qgraph.func
def third_of(t, k):
    return t[k]  # here


def of_an_iteration(x, y, k):
    for i in range(y.shape[0]):
        t = np.zeros((2, 3))
        t[1, k] = x[i]  # here
        y[i] = t[1, k] + 1


def row_of_an_iteration(x, y, k):
    for i in range(y.shape[0]):
        t = np.array((x[i], 2.0, 3.0))
        t[:] = t + 1
        y[i] = third_of(t, k)
