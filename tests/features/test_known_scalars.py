"""Kernel scalars that are made of integers which the analysis knows: loops over ranges that they bound."""

from __future__ import annotations

import numpy as np
import pytest

import qgraph


def along_antidiagonals(h, n, m):
    for d in qgraph.serial(range(2, n + m + 1)):
        lo, hi = max(1, d - m), min(n, d - 1)
        for i in range(lo, hi + 1):
            j = d - i
            h[i, j] = max(h[i - 1, j - 1], h[i - 1, j], h[i, j - 1]) + 1


@pytest.mark.parametrize("options", [{}, {"fuse": True}])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (6, 4)])
def test_bounds_may_have_names(rig, shape, options):
    n, m = shape
    rig.check(along_antidiagonals, lambda: (np.zeros((n + 1, m + 1)), n, m), **options)


def assigned_in_a_branch(x, y, n):
    for d in qgraph.serial(range(n)):
        hi = min(d, 1)
        if x[0] > 0:
            hi = d
        for i in range(hi):
            y[0] = x[i]


def counted_up(x, y, n):
    for d in qgraph.serial(range(n)):
        hi = min(d, 1)
        while x[hi] > 0:
            hi += 1
        for i in range(hi):
            y[0] = x[i]


def summed_up(x, y, n):
    for d in qgraph.serial(range(n)):
        hi = min(d, 1)
        for _ in range(x.shape[0]):
            hi += 1
        for i in range(hi):
            y[0] = x[i]


def assigned_behind(x, y, n):
    hi = 1
    for d in qgraph.serial(range(n)):
        for i in range(hi):
            y[0] = x[i]
        hi = d


def made_of_what_changes(x, y, n):
    k = 0
    for d in qgraph.serial(range(n)):
        hi = min(d, 1) + k
        k = d
        for i in range(hi):
            y[0] = x[i]


def assigned_in_one_of_two_branches(x, y, n):
    if x[0] > 0:
        hi = n + 1 - 1
    else:
        hi = 1
    for i in range(hi):
        y[0] = x[i]


def exchanged(x, y, n):
    for d in qgraph.serial(range(n)):
        lo, hi = 0, 1
        lo, hi = hi, hi + d
        for i in range(lo, hi):
            y[0] = x[i]


def of_an_array_whose_name_is_bound_again(x, y, n):
    for d in qgraph.serial(range(n)):
        w = x + 1
        hi = min(w.shape[0], d)
        w = np.zeros(1)
        for i in range(hi):
            y[0] = x[i] + w[0]


CHANGED = [
    *(assigned_in_a_branch, counted_up, summed_up, assigned_behind, made_of_what_changes),
    *(assigned_in_one_of_two_branches, exchanged, of_an_array_whose_name_is_bound_again),
]


@pytest.mark.parametrize("function", CHANGED)
def test_what_was_known_of_a_scalar_ends_where_it_may_change(rig, function):
    with pytest.raises(qgraph.DataRaceError, match=r"write the same element `y\[0\]`"):
        rig.run(rig.kernel(function), np.ones(9), np.zeros(9), 5)
