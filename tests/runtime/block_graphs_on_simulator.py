"""One block beside the plan's graphs, on the driver of graphs_on_simulator.py: a script for test_block_graphs.py."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys

import numpy as np

import qgraph
from qgraph.ir.artifacts import CudaPlan
from qgraph.lowering.compile import compile_simulator
from qgraph.operations import intrinsics
from qgraph.runtime.executors import graph, single_block
from qgraph.runtime.executors import unrolled as cuda_unrolled
from qgraph.runtime.values.array_view import view_of_host
from qgraph.runtime.values.host_values import HostValues
from qgraph.runtime.values.prepared_call import Call
from tests.runtime import graphs_on_simulator as simulated
from tests.runtime.graphs_on_simulator import Driver, arguments, do_while, driver, nested

LIMIT = 12
waits = []


def install():
    simulated.install()
    single_block.driver = driver
    single_block.outside_captures = contextlib.nullcontext
    # Blocks of three threads: each of them costs, at every barrier.
    Driver.cuFuncGetAttribute = lambda self, *_: (0, 3)
    Driver.cuCtxSynchronize = lambda self: (waits.append(True), (0, 0))[1]


class Kernel(simulated.Kernel):
    """A kernel that is one block while no loop has more than ``LIMIT`` iterations."""

    def __init__(self, function, *args, unrolled):
        self.kernel = qgraph.kernel(fuse=True)(function)
        plan = self.kernel.plan(*args)
        loops = tuple((line, names, LIMIT) for line, names, _ in plan.one_block.loops)
        plan = self.plan = dataclasses.replace(plan, one_block=dataclasses.replace(plan.one_block, loops=loops))
        compiled = compile_simulator(plan)
        driver.plan, driver.kernels = compiled, compiled.kernels
        self.host_values = HostValues(plan.program).of
        made = CudaPlan(plan, compiled.codes, {}, b"", (9, 0), True, compiled.dtypes, compiled.block)
        kind = cuda_unrolled.CudaUnrollingExecutable if unrolled else graph.CudaGraphExecutable
        self.executable = kind(made, simulated.Device(), block_size=8)

    def request(self, *args):
        values = tuple(view_of_host(each, each) if isinstance(each, np.ndarray) else each for each in args)
        return Call(values, self.host_values(values), 0)


def forms(function, unrolled):
    """Sizes, arguments and streams at random: each launch has its own, and the right form."""
    chosen = random.Random(11)
    kernel = Kernel(function, *arguments(function, 3), unrolled=unrolled)
    executable = kernel.executable
    last, expected = None, 0
    waits.clear()
    kinds = set()
    for turn in range(14):
        n, stream = chosen.choice([0, 1, LIMIT, LIMIT + 1, 20]), chosen.choice([0, 1])
        # At the end the plan's graphs have what none of their launches brought.
        launched = kernel.agrees(*arguments(function, chosen.choice([1, 2, 20]), n=n, a=turn), stream=stream)
        kinds.add(id(launched))
        alone = n <= LIMIT
        assert (executable.nodes == 1, "one block" in executable.reason) == (alone, alone)
        expected += last is not None and last[0] != alone and last[1] != stream
        last = alone, stream
    assert len(waits) == expected > 0
    assert len(kinds) == (3 if unrolled else 2)
    _graph_of_the_plan(kernel, function)


def _graph_of_the_plan(kernel, function):
    """Who asks for the graph gets that of the plan, and from then on it is the only one."""
    kernel.agrees(*arguments(function, 2, n=5))
    assert kernel.executable.nodes == 1
    raw = kernel.executable.graph(kernel.request(*arguments(function, 2, n=5)))
    assert kernel.agrees(*arguments(function, 3, n=6, a=1)) is raw.executable
    assert kernel.executable.nodes > 1
    assert "one block" not in kernel.executable.reason
    kernel.executable.close()


def apart(x, z, a):
    for t in qgraph.serial(range(2)):
        for i in range(x.shape[0]):
            x[i] += t
        z[0] = z[0] * 3 + a


def stale():
    """A number that changed for one form reaches the other, whose launch changes nothing but an array."""
    z, expected = np.array([1]), 1
    arrays = {n: np.zeros(n, np.int64) for n in (LIMIT, LIMIT + 1)}
    kernel = Kernel(apart, arrays[LIMIT], z, 1, unrolled=False)
    for n, a in [(1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 3), (0, 3), (1, 4), (0, 4)]:
        kernel(arrays[LIMIT + n], z, a)
        assert kernel.executable.nodes == 1 or n
        expected = (expected * 3 + a) * 3 + a
        assert z[0] == expected
    assert all((array == array[0]).all() and array[0] > 0 for array in arrays.values())


def in_a_row(x, z, a):
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + a
    z[0] = z[0] * 5 + a


def row():
    """A graph whose kernels stand in a row is complete, and the block has its arguments, whichever runs first."""
    for sizes in ((5, 20, 5, 200, 5, 20), (20, 5, 200, 5), (200, 5, 20)):
        kernel = Kernel(in_a_row, np.zeros(5), np.zeros(1), 1, unrolled=False)
        assert kernel.plan.row == (0, 1)
        for a, n in enumerate(sizes, 2):
            kernel.agrees(np.arange(float(n)), np.array([4.0]), a)
            assert (kernel.executable.nodes == 1) == (n <= LIMIT)
        kernel.executable.close()


def stopped():
    """The host writes the word while the one kernel runs: its loops end, and those of the next launch do not."""
    looks = []

    def looking(words, index):
        looks.append(index)
        if len(looks) == 20:
            words[index] = 1
        return intrinsics.stopped(words, index)

    plainly = simulated.cuda_simulator._simulated_value

    def replaced(value, *rest):
        return looking if value is intrinsics.stopped else plainly(value, *rest)

    simulated.cuda_simulator._simulated_value = replaced
    for function in (do_while, nested):
        looks.clear()
        kernel = Kernel(function, *arguments(function, 3), unrolled=True)
        with np.errstate(over="ignore"):
            kernel(*arguments(function, 1 << 40))
        assert kernel.executable.nodes == 1
        assert set(looks) == {kernel.plan.stop}
        assert 20 <= len(looks) < 30
        kernel.executable._resources.loops.write(0)
        kernel.agrees(*arguments(function, 12))


if __name__ == "__main__":
    install()
    for part in sys.argv[1:]:
        name, _, form = part.partition("-")
        if form:
            forms({"do_while": do_while, "nested": nested}[name], form == "unrolled")
        else:
            {"stale": stale, "row": row, "stopped": stopped}[name]()
    print("as plain Python")
