"""Runs device loops as an unrolled graph would, on the simulator: a script for test_unrolling.py, in a process of its own.

The kernels of all copies of a body run in any order that the plan's edges allow. With ``large``, as on grids that are too
large to look at a guard before they wait.
"""

from __future__ import annotations

import random
import sys

import numpy as np

import qgraph
from qgraph.ir.slots import WORD
from qgraph.lowering.codegen.task_codegen import BUILTINS
from qgraph.runtime.executors import simulator
from tests.loop_kernels import independent, leaving, swapping


class Unrolled(simulator.SimulatorExecutable):
    """The simulator, with copies and guards."""

    seed = 0
    # What each loop told, and how far it counts between entries.
    told: list = []
    left: list = []
    _guard = 0

    def _region(self, region, call, scratch):
        plan = self._plan.plan
        bodies = {body: each for each in plan.unrolled for body in plan.nodes[each.node].bodies}
        if region == 0:
            for each in plan.unrolled:
                scratch.slots[each.guards] = 1
        if region not in bodies:
            super()._region(region, call, scratch)
            if region == 0:
                Unrolled.told = [int(number) for number in scratch.turns]
                Unrolled.left = [int(scratch.slots[each.turns]) & 0xFFFFFFFF for each in plan.unrolled]
            return
        each = bodies[region]
        for index, number in self._order(each, plan.regions[region].nodes):
            self._guard = each.guards + number
            self._task(plan.nodes[index].task.name, call, scratch)
        self._guard = 0

    def _order(self, each, nodes):
        choose = random.Random(self.seed).choice
        left = {(index, number) for index in nodes for number in range(each.copies)}
        edges = [(a, b, 0) for a, b in self._plan.plan.edges if a in nodes] + [(a, b, 1) for a, b in each.carried]
        while left:
            free = [
                (index, number)
                for index, number in sorted(left)
                if not any(b == index and (a, number - step) in left for a, b, step in edges)
            ]
            chosen = choose(free)
            left.remove(chosen)
            yield chosen

    def _scratch(self, parameter, scratch):
        if parameter.kind in ("guard", "next") and self._guard:
            return self._guard + (parameter.kind == "next")
        return super()._scratch(parameter, scratch)


def do_while(x, y, flag):
    while qgraph.graph_do_while(flag):
        for i in range(x.shape[0]):
            y[i] = x[i] * 3 + 1
        for i in range(x.shape[0]):
            x[i] = y[x.shape[0] - 1 - i] * 5 + i
        flag[()] -= 1


def tested_first(x, flag):
    n = 0
    while n < flag[()] - 1:
        n += 1
        for i in range(x.shape[0]):
            x[i] = x[i] * 3 + n


def counted(x, flag):
    n = 0
    for t in qgraph.serial(range(flag[()] - 1)):
        n += t
        for i in range(x.shape[0]):
            x[i] = x[i] * 2 + t
        for i in range(x.shape[0]):
            x[i] -= n


def nested(x, y, flag):
    for t in qgraph.serial(range(3)):
        s = 0
        while s < flag[()] + t - 1:
            for i in range(x.shape[0]):
                x[i] = x[i] * 3 + s
            s += 1
        for i in range(y.shape[0]):
            y[i] = y[i] * 2 + x[i]


def deciding_sum(x, y, flag):
    total = 0
    while total < flag[()]:
        y[:] = 0
        for i in range(x.shape[0]):
            y[i] = x[i] + 1
        total = 0
        for i in range(x.shape[0]):
            total += y[i]
        for i in range(x.shape[0]):
            x[i] = y[i]


def arguments(function, turns):
    # With reductions, so many that there are two blocks.
    n = 40 if function is deciding_sum else 5
    x, y = np.arange(n), np.arange(n)[::-1].copy()
    return [x, np.array(turns)] if function.__code__.co_argcount == 2 else [x, y, np.array(turns)]


def peek_of_a_large_grid(words, index):
    return -1


def check(function, turns, seed, **options):
    kernel = qgraph.kernel(function, **options)
    mine, plain = arguments(function, turns), arguments(function, turns)
    unrolled = kernel.plan(*mine).unrolled
    assert len(unrolled) == 1, function
    Unrolled.seed = seed
    assert kernel(*mine) == kernel.reference(*plain)
    for found, wanted in zip(mine, plain, strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=f"{function.__name__} {turns}")
    assert Unrolled.left == [0], (function.__name__, turns, Unrolled.left)
    return Unrolled.told[0]


if __name__ == "__main__":
    assert WORD == 8
    simulator.SimulatorExecutable = Unrolled
    large = sys.argv[1:] == ["large"]
    if large:
        BUILTINS["_peek"] = peek_of_a_large_grid
    for turns in (1, 9) if large else (1, 9, 17):
        for function in (do_while, independent, swapping, leaving):
            assert check(function, turns, turns) == turns
        for function in (tested_first, counted):
            assert check(function, turns, turns) == turns - 1
        assert check(nested, turns, turns) == turns + 1
        assert check(independent, turns, turns, fuse=True, block_size=256) == turns
    for turns in (1, 9):
        check(deciding_sum, 780 + turns * 40, turns)
    print("as plain Python")
