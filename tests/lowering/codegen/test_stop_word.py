"""The word that stops device loops, in the PTX: every condition reads it past the caches, and nothing else does."""

from __future__ import annotations

import re

import numpy as np
import pytest

import qgraph
from qgraph.ir.artifacts import ENDING
from tests.interrupted_kernels import CASES
from tests.loop_kernels import faulty, trading

# What `intrinsics.stopped` is; `peek` has braces around its load.
LOOK = re.compile(r"^\s*ld\.volatile\.u64 %rd\d+, \[%rd\d+\];", re.MULTILINE)


def straight(x, y):
    for i in range(x.shape[0]):
        x[i] += 1.0
    if x[0] > 1.0:
        for i in range(y.shape[0]):
            y[i] = x[i]


def looks(kernel, *args):
    return {name: len(LOOK.findall(text)) for name, text in kernel.ptx(*args, cc=(9, 0)).items()}


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("name", [name for name in CASES if name != "one thread"])
def test_each_condition_looks(name):
    kernel, _, ends = CASES[name]
    plan = kernel.plan(*ends())
    found = looks(kernel, *ends())
    conditions = {
        node.task.name: 2 if node.index in {each.counted.node for each in plan.unrolled if each.counted} else 1
        for node in plan.nodes
        if node.task is not None and node.decision is not None and node.decision.role == "condition"
    }
    assert len(conditions) == len(plan.loops)
    # Behind copies that hand results on one kernel decides.
    deciding = [plan.nodes[each.handed.nodes[each.handed.deciding]] for each in plan.unrolled if each.handed]
    conditions |= {f"{node.task.name}{ENDING}": 1 for node in deciding}
    # The kernel that is the whole program has them all.
    block = {each: len(plan.loops) for each in found if each.endswith("_block")}
    assert bool(block) == (name == "one block")
    assert {each: count for each, count in found.items() if count} == {**conditions, **block}


@pytest.mark.needs("compiler")
def test_counted_loops_with_changing_arrays_and_loops_with_faults_look():
    x = np.zeros(8)
    assert sum(looks(qgraph.kernel(trading), x, x.copy(), np.array(3), 2).values()) == 2
    given = np.zeros(24), np.arange(24.0), np.array([1, 23]), np.array([12, 11])
    assert sum(looks(qgraph.kernel(faulty), *given).values()) == 1


@pytest.mark.needs("compiler")
def test_what_has_no_loop_has_no_word():
    kernel = qgraph.kernel(straight)
    plan = kernel.plan(np.zeros(8), np.zeros(8))
    assert plan.loops == ()
    assert plan.scratch_words - plan.program.scratch_words in (0, 1)
    assert set(looks(kernel, np.zeros(8), np.zeros(8)).values()) == {0}
