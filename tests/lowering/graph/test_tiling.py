"""Tiles of loops of two axes: which loops have them, and that every iteration has one place."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import qgraph
from qgraph.lowering.codegen.cuda_codegen import Kernels
from qgraph.lowering.graph.tiling import turns
from qgraph.runtime.graph.launch_shapes import in_tiles

SHAPES = [(1, 1), (32, 8), (33, 9), (31, 7), (64, 64), (100, 3), (3, 100), (32, 100), (65, 17), (1, 300), (300, 1), (40, 8)]


def places(rows, columns, threads=256):
    """Where the iterations of each thread are, block by block: the generated kernel in plain Python."""
    plan = qgraph.kernel(turned).plan(np.zeros((rows, columns)), np.zeros((columns, rows)))
    ((_, code, _),) = Kernels(plan, None, {}).of(plan.nodes[0])
    assert code.plane == "tiles"
    shape = in_tiles((rows, columns), threads)
    assert shape.threads <= max(threads, 8)
    named = dict(zip(code.counts[0], (rows, columns), strict=True))
    for z, y, x, t in np.ndindex(shape.times, shape.blocks_down, shape.blocks, shape.threads):
        cuda = SimpleNamespace(
            threadIdx=SimpleNamespace(x=t),
            blockIdx=SimpleNamespace(x=x, y=y, z=z),
            blockDim=SimpleNamespace(x=shape.threads),
            gridDim=SimpleNamespace(y=shape.blocks_down),
        )
        names = {"_cuda": cuda, "_assume_u32": int, "_range": range, "_assume_ge": max}
        exec(code.source, names)
        found = Recorder()
        given = {"x": found, "y": {}, "_early": 0, **named}
        names[code.entry](*(given[parameter.name] for parameter in code.parameters))
        yield found.places


class Recorder:
    """An array that notes where it is read."""

    def __init__(self):
        self.places = []

    def __getitem__(self, place):
        self.places.append(place)
        return 0.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [256, 100, 5])
def test_every_iteration_has_one_place(shape, threads):
    assert sorted(place for mine in places(*shape, threads) for place in mine) == sorted(np.ndindex(*shape))


def test_a_warp_has_eight_rows_of_four():
    found = list(places(64, 64))
    for first in range(0, len(found), 32):
        for warp in zip(*found[first : first + 32], strict=True):
            (rows, columns) = ({each[axis] for each in warp} for axis in (0, 1))
            assert (len(rows), len(columns)) == (8, 4)
            assert (min(rows) % 8, min(columns) % 4) == (0, 0)


def turned(x, y):
    for i, j in qgraph.ndrange(*x.shape):
        y[j, i] = x[i, j]


def from_columns(x, y):
    for i, j in qgraph.ndrange(*y.shape):
        y[i, j] = x[j, i + 1] + x[j, i]


def straight(x, y):
    for i, j in qgraph.ndrange(*x.shape):
        y[i, j] = x[i, j - 1] + x[i - 1, j]


def one_line(x, y):
    for i, j in qgraph.ndrange(*x.shape):
        y[i, j] = x[i, 0] + x[0, j]


@pytest.mark.parametrize(
    ("function", "order", "expected"),
    [
        *((turned, "C", True), (turned, "F", False), (from_columns, "C", True), (from_columns, "F", False)),
        *((straight, "C", False), (straight, "F", True), (one_line, "C", False)),
    ],
)
def test_loops_that_run_along_both_axes_have_tiles(function, order, expected):
    x = np.zeros((4, 5), order=order)
    plan = qgraph.kernel(function).plan(x, np.zeros((5, 4)))
    (task,) = plan.tasks
    assert turns(plan.program, task) == expected
