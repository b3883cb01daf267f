"""What random programs found: each as the smallest kernel that shows it."""

from __future__ import annotations

import numpy as np

import qgraph


def element_of_an_array_that_moves(x, y, n):
    for _ in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[0] += y[i]
        x, y = y, x


def test_a_reduction_into_an_element_of_an_array_that_changes_places(check):
    check(element_of_an_array_that_moves, lambda: (np.arange(4), np.arange(4) * 10, 3))


def scalar_and_element(x, z, out):
    least = 5
    for i in range(x.shape[0]):
        least = min(least, x[i])
        z[0] += 2
    out[()] = least


def test_a_reduction_into_a_scalar_and_one_into_an_element_in_one_loop(check):
    check(scalar_and_element, lambda: (np.arange(4) - 2, np.arange(3), np.array(77)))


def count_with_continue(x, out):
    count = 0
    for i in range(x.shape[0]):
        if x[i] > 2:
            continue
        count += 1
    out[()] = count


def test_continue_in_a_loop_that_reduces_into_a_scalar(check):
    check(count_with_continue, lambda: (np.arange(9) % 5, np.array(77)))
