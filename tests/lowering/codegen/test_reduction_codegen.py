"""Kernels with reductions: blocks of any number of warps, and grids of any size, have one answer; what becomes PTX."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import qgraph
from qgraph.lowering.codegen.cuda_codegen import Kernels
from qgraph.lowering.numba_backend.cuda import cuda_module
from qgraph.lowering.numba_backend.cuda_simulator import _simulated
from qgraph.lowering.numba_backend.simt_interpreter import Barriers, Threads
from qgraph.source import copied
from tests.conftest import thorough


def of_rows(x, y):
    total = 0
    least = 10**9
    row = column = -1
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * 3
            total += y[i, j]
            if x[i, j] < least:
                least = x[i, j]
                row = i
                column = j
    return total, least, row, column


def of_a_line(x, y):
    total = 0
    most = -1
    for i in range(x.shape[0]):
        y[i] += x[i]
        total += y[i]
        most = max(most, y[i] - i)
    return total, most


def launch(function, blocks, threads, *args):
    """What its scalars are behind launches of blocks and threads of that shape; each finds the scratch as it was."""
    plan = qgraph.kernel(function).plan(*args)
    (loop,) = (node for node in plan.nodes if node.task is not None and node.task.axes)
    dtypes = dict.fromkeys((slot.name for slot in plan.program.slots), "int64")
    cuda, grids = cuda_module(), Threads()
    _, code, kernel = next(Kernels(plan, cuda, dtypes).of(loop))
    tree = Barriers(cuda, kernel.names).visit(copied(kernel.tree))
    run = _simulated(replace(kernel, tree=tree, names={**kernel.names, **Barriers.NAMES}), {}, grids)
    slots = np.zeros(plan.program.scratch_words, np.int64)
    extents = dict(zip((value.name for value in plan.program.host_values), args[0].shape, strict=True))
    given = {**dict(zip("xy", args, strict=True)), **extents}
    parameters = [slots if each.kind == "slots" else given.get(each.name, 0) for each in code.parameters]
    for _ in range(2):
        grids.run(run, blocks, threads, parameters)
        assert slots[loop.task.ticket.index] == 0
    slot_of = {slot.name.split("_")[1]: slot.index for slot in plan.program.slots}
    return lambda *wanted: tuple(slots[slot_of[name]] for name in wanted)


@pytest.mark.parametrize("threads", [(32, 1), (32, 2), (8, 8), (4, 24), (32, 8)])
@pytest.mark.parametrize("blocks", [(1, 1), (3, 2)])
def test_rows_have_one_answer_on_any_grid(blocks, threads):
    x = np.arange(41 * 37).reshape(41, 37) * 7919 % 1009 + 1
    found = launch(of_rows, blocks, threads, x, np.zeros_like(x))("total", "least", "row", "column")
    assert found == of_rows(x, np.zeros_like(x))


@pytest.mark.parametrize("threads", [32, 96])
@pytest.mark.parametrize("blocks", [1, 5, *thorough(300)])
def test_a_line_has_one_answer_on_any_grid(blocks, threads):
    x = np.arange(50 * blocks) * 7919 % 101
    found, y = launch(of_a_line, blocks, threads, x, np.zeros_like(x)), np.zeros_like(x)
    of_a_line(x, y)
    # It was launched twice.
    assert found("total", "most") == of_a_line(x, y)


def by_places(x, y, ends):
    for i, j in qgraph.ndrange(x.shape[0], x.shape[1]):
        y[i, j] = x[i, j] * 3
        ends[0] += y[i, j]


@pytest.mark.parametrize("function", [of_rows, by_places])
def test_what_becomes_of_them(function):
    x = np.zeros((8, 8), np.float32)
    args = (x, x.copy()) if function is of_rows else (x, x.copy(), x[0].copy())
    kernel = qgraph.kernel(function)
    (text,) = (ptx for ptx in kernel.ptx(*args).values() if "shfl.sync.bfly" in ptx)
    assert not re.search(r"\b(div|rem)\.", text)
    # Once for the warps of a block and once for the ticket; and for the results of all blocks, where that is code of its own.
    assert text.count("bar.sync") in (2, 3)
    assert text.count("membar.gl") == 2
    assert ".maxntid" not in text
    (narrow,) = (ptx for ptx in qgraph.kernel(function, block_size=4).ptx(*args).values() if "shfl.sync.bfly" in ptx)
    # Whole warps.
    assert re.search(r"\.maxntid 32\b", narrow)
