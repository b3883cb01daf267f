"""Kernels, funcs and methods at the places where pickles find them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import qgraph


@qgraph.kernel
def add(x, m):
    for i in range(x.shape[0]):
        x[i] += m


def _plain(x, m):
    for i in range(x.shape[0]):
        x[i] -= m


subtract = qgraph.kernel(_plain)


@qgraph.func
def twice(v):
    return v + v


@dataclass
class State:
    x: Any

    @qgraph.kernel
    def step(self, m):
        for i in range(self.x.shape[0]):
            self.x[i] += m

    @qgraph.func
    def half(self):
        return self.x[0] * 0.5

    class Inner:
        add = add


def local():
    @qgraph.kernel
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] += 1

    @qgraph.func
    def function(v):
        return v

    return kernel, function
