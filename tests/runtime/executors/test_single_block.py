"""The forms of an executable, one block among them, on a driver in plain Python: see block_graphs_on_simulator.py."""

from __future__ import annotations

import pytest

from tests.processes import agrees_on_the_simulator

# Several in a process, which takes a second to start.
PARTS = [("do_while-plain", "stale", "row"), ("do_while-unrolled", "stopped")]


@pytest.mark.parametrize("parts", PARTS, ids=" ".join)
def test_forms_on_the_simulator(parts):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.block_graphs_on_simulator", *parts)
