"""The threads of the simulator: barriers, votes and the shared memory of a block."""

from __future__ import annotations

import ast
import textwrap

import numpy as np
import pytest

from qgraph.lowering.numba_backend.simt_interpreter import Barriers, Threads

CUDA = object()


def run(source, grid, block, *arguments, **names):
    """Run the one def in ``source``, which finds the threads as ``_cuda``."""
    threads = Threads()
    tree = Barriers(CUDA, {"_cuda": CUDA, **names}).visit(ast.parse(textwrap.dedent(source)))
    namespace = {"_cuda": threads, **names}
    exec(compile(tree, "<kernel>", "exec"), namespace)
    threads.run(namespace[tree.body[0].name], grid, block, arguments)


def test_each_thread_runs_once():
    source = """
    def k(x):
        x[_cuda.grid(1)] += 1 + _cuda.blockIdx.x * 100 + _cuda.threadIdx.x * 10 + _cuda.gridsize(1) * 1000
    """
    x = np.zeros(6, np.int64)
    run(source, 2, 3, x)
    assert x.tolist() == [6001, 6011, 6021, 6101, 6111, 6121]


def test_blocks_and_threads_have_two_axes():
    source = """
    def k(x):
        column, row = _cuda.grid(2)
        _, step = _cuda.gridsize(2)
        x[row, column] += 100 * row + 10 * column + step
    """
    x = np.zeros((4, 6), np.int64)
    run(source, (2, 2), (3, 2), x)
    assert x.tolist() == [[100 * row + 10 * column + 4 for column in range(6)] for row in range(4)]


def test_blocks_have_a_third_axis():
    x = np.zeros(6, np.int64)
    run("def k(x): x[_cuda.blockIdx.z * 3 + _cuda.blockIdx.x] += _cuda.gridDim.z", (3, 1, 2), 1, x)
    assert x.tolist() == [2] * 6


def test_a_barrier_lets_all_threads_of_a_block_arrive():
    source = """
    def k(x, order):
        one = _cuda.shared.array(4, "int64")
        other = _cuda.shared.array(4, "int64")
        lane = _cuda.threadIdx.x
        one[lane], other[lane] = x[_cuda.grid(1)], -lane
        order.append(lane)
        _cuda.syncthreads()
        order.append(lane)
        x[_cuda.grid(1)] = one[3 - lane] + 1000 * other[3 - lane]
    """
    x, order = np.arange(8), []
    run(source, 2, 4, x, order)
    assert x.tolist() == [-2997, -1998, -999, 0, -2993, -1994, -995, 4]
    assert order == 2 * [0, 1, 2, 3, 0, 1, 2, 3]


def test_shared_memory_is_that_of_one_block():
    kept = []
    run("def k(kept): kept.append(_cuda.shared.array(2, 'int64'))", 2, 2, kept)
    assert kept[0] is kept[1]
    assert kept[2] is kept[3]
    assert kept[0] is not kept[2]


def test_threads_vote_and_those_that_left_do_not():
    source = """
    def k(said):
        lane = _cuda.threadIdx.x
        if lane == 2:
            return
        turns = 0
        while _cuda.syncthreads_or(lane == 1 and turns < 3):
            turns += 1
        said[lane] = turns
    """
    said = [0, 0, 0]
    run(source, 1, 3, said)
    assert said == [3, 3, 0]


def test_a_barrier_that_not_all_reach_is_found():
    source = """
    def k():
        if _cuda.threadIdx.x == 1:
            _cuda.syncthreads()
        else:
            _cuda.syncthreads()
    """
    with pytest.raises(AssertionError, match="different barriers"):
        run(source, 1, 2)


def test_the_callers_way_with_errors_is_not_the_kernels():
    x = np.array([1.0, 0.0])
    with np.errstate(all="raise"):
        run("def k(x): x[0] = x[0] / x[1]", 1, 1, x)
    assert x[0] == np.inf
