"""Kernels with loops on the device, for the tests on GPUs and for those on the simulator."""

from __future__ import annotations

import qgraph


def independent(x, y, turns):
    while qgraph.graph_do_while(turns):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + 1
        for i in range(y.shape[0]):
            y[i] = y[i] * 5 + 2
        turns[()] -= 1


def swapping(x, y, turns):
    while qgraph.graph_do_while(turns):
        for i in range(x.shape[0]):
            y[i] = x[i] * 3 + 1
        x, y = y, x
        turns[()] -= 1


def leaving(x, turns):
    """So many turns, but 60 at most."""
    n = 0
    while n < 60:
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + n
        n += 1
        if n >= turns[()]:
            break
    return n


def faulty(x, y, ends, turns):
    """The lengths differ from iteration ``turns[1]`` on."""
    k = 0
    while k < turns[0]:
        x[: ends[0]] = y[ends[1] - k :] + k
        k += 1
        ends[0] += 1
        if k == turns[1]:
            ends[0] += 1
    return k
