"""Long code: as many terms, branches, statements and loops as CPython takes, with CPython's answer."""

from __future__ import annotations

import sys

import pytest

import qgraph
from benchmarks.long_kernels import KINDS, arrays, long_function
from tests.conftest import SIMULATED

# Deeper than Python's limit of calls within calls lets functions go that call themselves for each level.
DEEP = ("terms", "kernel_terms", "array_terms", "elifs", "kernel_elifs", "choices", "signs")
# Levels of these, which take three calls or more each; and how long the others are: longer than one function of the CPU may be,
# and parts in parts.
LEVELS = 350
LENGTHS = {
    **dict.fromkeys(DEEP, LEVELS),
    "branches": 40,
    "conjunctions": 200,
    "device_loops": 20,
    "equal_loops": 1100,
    "loops": 70,
    "scalars": 15,
    "serial_statements": 150,
    "statements": 60,
}
# The simulator runs these in plain Python, each thread in turn.
SHORT = {"branches": 10, "device_loops": 5, "equal_loops": 40, "loops": 40, "scalars": 5}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_long_code_is_what_python_says(check, kind):
    length = SHORT.get(kind, LENGTHS[kind]) if SIMULATED else LENGTHS[kind]
    check(long_function(kind, length), arrays)


@pytest.mark.parametrize("kind", DEEP)
def test_deep_code_leaves_the_limit_of_calls_as_it_was(backend, kind):
    before = sys.getrecursionlimit()
    kernel = qgraph.kernel(long_function(kind, LEVELS))
    kernel.reference(*arrays())
    assert sys.getrecursionlimit() == before
    plan = kernel.plan(*arrays())
    assert sys.getrecursionlimit() == before
    for told in (str, type(plan).to_dot, type(plan).to_svg):
        told(plan)
        assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("kind", ["branches", "loops", "device_loops"])
def test_long_plans_are_told(backend, kind):
    """Branches in branches are told to the innermost one."""
    length = LEVELS if kind == "branches" else 100
    kernel = qgraph.kernel(long_function(kind, length))
    plan = kernel.plan(*arrays())
    last = f"n{len(plan.nodes) - 1} "
    assert last in str(plan)
    assert last in plan.to_dot()
    assert last in plan.to_svg()
