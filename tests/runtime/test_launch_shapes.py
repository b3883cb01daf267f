"""Launch shapes of loops of several axes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qgraph.runtime.launch_shapes import MAX_GRID_DOWN, by_rows

SIZES = st.integers(0, 2**40) | st.integers(0, 300)


@given(st.lists(SIZES, min_size=2, max_size=4), st.integers(1, 1024), st.sampled_from([1, 4]))
def test_every_column_has_a_thread_and_every_row_a_turn(extents, threads, share):
    shape = by_rows(extents, threads, share)
    rows, columns = math.prod(extents[:-1]), extents[-1]
    assert min(shape) >= 1
    assert shape.threads * shape.threads_down <= threads
    assert shape.blocks * shape.threads >= columns
    all_rows = shape.blocks_down * shape.threads_down * share >= rows
    assert all_rows or shape.blocks_down == MAX_GRID_DOWN
    # No block is without work.
    assert (shape.blocks - 1) * shape.threads < max(columns, 1)
    assert (shape.blocks_down - 1) * shape.threads_down * share < max(rows, 1)


@pytest.mark.parametrize(
    ("extents", "shape"),
    [
        ((1024, 1024), (32, 32, 128, 8)),
        ((1000, 1000), (32, 32, 125, 8)),
        # A narrower block leaves fewer threads without a column.
        ((1000, 33), (5, 8, 32, 32)),
        ((1000, 3), (1, 4, 16, 64)),
        ((1000, 1), (1, 1, 4, 256)),
        # Few rows: wide blocks.
        ((1, 1000), (4, 256, 1, 1)),
        ((3, 1000), (16, 64, 1, 4)),
        ((2, 1), (1, 1, 1, 2)),
        ((20, 50, 64), (2, 32, 125, 8)),
        ((0, 5), (1, 8, 1, 1)),
        ((5, 0), (1, 1, 1, 8)),
    ],
)
def test_shapes(extents, shape):
    assert by_rows(extents, 256, 1) == shape


def test_rows_that_a_thread_has():
    assert by_rows((1024, 1024), 256, 4) == (32, 32, 32, 8)
    assert by_rows((30, 1024), 256, 4) == (32, 32, 1, 8)
    assert by_rows((5, 64), 256, 4) == (1, 64, 1, 2)
