"""Loops that the host drives and runs ahead of, on a driver in plain Python: see host_loops_on_simulator.py."""

from __future__ import annotations

import pytest

from tests.processes import agrees_on_the_simulator

PARTS = ["any_number_of_turns", "launches", "unchanged", "interrupted", "faults", "one_by_one"]


@pytest.mark.parametrize("part", PARTS)
def test_host_loops_on_the_simulator(part):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.host_loops_on_simulator", part)
