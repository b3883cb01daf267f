"""Loads of which LLVM makes one at either of two addresses: `x[i] if c else y[j]`, where only `x` is constant memory."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def in_order(x, y, k):
    for i in qgraph.serial(range(y.shape[0] - 1)):
        y[k[i]] += 3
        y[i] = (x[i] if k[i + 1] > 3 else y[k[i + 1]]) * 2


def in_branches(x, y, k):
    for i in qgraph.serial(range(y.shape[0] - 1)):
        y[k[i]] += 3
        if k[i + 1] > 3:
            t = x[i]
        else:
            t = y[k[i + 1]]
        y[i] = t * 2


def outside_loops(x, y, k):
    y[k[0]] += 3
    y[1] = (x[0] if k[0] > 3 else y[2]) * 2
    y[0] = (y[1] if k[0] > 3 else x[2]) * 2


def in_parallel(x, y, k):
    for i in qgraph.parallel(range(2)):
        y[4 * i] += 3
        y[4 * i + 1] = (x[i] if k[i] > 3 else y[4 * i + k[i] % 4]) * 2


def of_a_scalar(x, y, k):
    y[0] += k[-1] % 4
    y[0] = k[0] - (x[1] if k[1] > 3 else y[k[2]])


PROGRAMS = [in_order, in_branches, outside_loops, in_parallel, of_a_scalar]


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.int8])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_was_stored_is_loaded(check, program, dtype):
    k = np.random.default_rng(1).integers(0, 7, 8)
    k[:3] = 2, 3, 0
    check(program, lambda: (np.arange(8).astype(dtype), np.arange(1, 9).astype(dtype), k.copy()))


def of_shared_memory(x, y, z, k):
    y[0] += k[-1] % 4
    y[0] = k[0] - (x[1] if k[1] > 3 else z[0])
    for i in range(x.shape[0]):
        y[i] += 3
        t = x[i] if k[i] > 3 else z[i]
        y[i] = t * 2


@pytest.mark.parametrize("shared", [False, True])
def test_shared_memory(check, shared):
    k = np.array([2, 3, 7, 1, 5, 0, 4, 6])

    def arguments():
        y = np.arange(1, 9)
        return np.arange(8) * 10, y, y if shared else y.copy(), k.copy()

    check(of_shared_memory, arguments)
