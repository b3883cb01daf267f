"""Tiles of loops of two axes: which loops have them, and that every iteration has one place."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import qgraph
from qgraph.lowering.tile_source import tile, turns

SHAPES = [(1, 1), (32, 8), (33, 9), (31, 7), (64, 64), (100, 3), (3, 100), (32, 100), (65, 17), (1, 300), (300, 1), (40, 8)]


def whole(a, b):
    assert a >= 0
    assert b > 0
    return a // b


def rest(a, b):
    assert a >= 0
    assert b > 0
    return a % b


def places(rows, columns):
    """Where each iteration is."""
    statements, found = tile("t", ("rows", "columns"), "")
    code = compile(ast.fix_missing_locations(ast.Module(statements, [])), "tile", "exec")
    names = {"_quotient": whole, "_remainder": rest, "_min": min, "_at_least": lambda value, _: value}
    for t in range(rows * columns):
        names |= {"t": t, "rows": rows, "columns": columns}
        exec(code, names)
        yield tuple(eval(each, names) for each in found)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_iteration_has_one_place(shape):
    assert sorted(places(*shape)) == sorted(np.ndindex(*shape))


def test_a_warp_has_eight_rows_of_four():
    found = list(places(64, 64))
    for first in range(0, len(found), 32):
        warp = found[first : first + 32]
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
