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


# --- loops that count, of arrays, a number of turns in an array, and a factor ---------------------------------------------


def marching(x, y, turns, a):
    for _ in qgraph.serial(range(turns[()])):
        for i in range(x.shape[0] - 1):
            x[i] += a * (y[i + 1] - y[i])
        for i in range(1, y.shape[0]):
            y[i] += x[i] - 2 * x[i - 1]
    for i in range(x.shape[0]):
        x[i] += 5


def trading(x, y, turns, a):
    for _ in qgraph.serial(range(0, 3 * turns[()], 3)):
        for i in range(x.shape[0]):
            y[i] = x[x.shape[0] - 1 - i] * a + i
        x, y = y, x
    for i in range(x.shape[0]):
        x[i] += y[i] * 3


def three_in_turn(x, y, turns, a):
    z = qgraph.zeros(x.shape[0], x.dtype)
    for t in range(2):
        z[t] = 5 + t
    for _ in qgraph.serial(range(turns[()])):
        for i in range(x.shape[0]):
            y[i] = x[x.shape[0] - 1 - i] * a + z[i]
        x, y, z = y, z, x
    for i in range(x.shape[0]):
        z[i] += x[i] + y[i] * 7


def from_the_start(x, y, turns, a):
    for t in qgraph.serial(range(3)):
        p, q = x, y
        for _ in qgraph.serial(range(turns[()] + t)):
            for i in range(x.shape[0]):
                q[i] = p[x.shape[0] - 1 - i] * a + i
            p, q = q, p
        for i in range(x.shape[0]):
            q[i] += p[i] * t


def stepping(x, y, turns, a):
    for t in qgraph.serial(range(turns[()] * a, 0, -a)):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + t
        for i in range(min(t, x.shape[0])):
            y[i] = y[i] * 2 + x[i]
    for t in qgraph.serial(range(2, 2 + turns[()] * 3, 3)):
        for i in range(x.shape[0]):
            y[i] += (x[i] + t) * t
        x, y = y, x


def last_of(x, y, turns, a):
    t = 50
    for t in qgraph.serial(range(4, turns[()] * a + 4, a)):
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + y[i]
    for j, k in qgraph.serial(qgraph.ndrange(2, turns[()])):
        for i in range(x.shape[0]):
            y[i] = y[i] * 3 + x[i]
    y[0] = t


COUNTED = (marching, trading, three_in_turn, from_the_start, stepping, last_of)
