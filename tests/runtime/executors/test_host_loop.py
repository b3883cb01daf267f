"""Loops that the host drives and runs ahead of, on a driver in plain Python: see host_loops_on_simulator.py."""

from __future__ import annotations

import pytest

from tests.processes import agrees_on_the_simulator

PARTS = ["any_number_of_turns", "launches", "unchanged", "interrupted", "faults", "one_by_one"]


# Several in a process, which takes a second to start.
@pytest.mark.parametrize("parts", [PARTS[::2], PARTS[1::2]], ids="-".join)
def test_host_loops_on_the_simulator(parts):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.host_loops_on_simulator", *parts)
