"""The forms of an executable, one block among them, on a driver in plain Python: see block_graphs_on_simulator.py."""

from __future__ import annotations

import pytest

from tests.processes import agrees_on_the_simulator


@pytest.mark.parametrize(
    "arguments", [("do_while", "plain"), ("do_while", "unrolled"), ("stale",), ("row",), ("stopped",)], ids="-".join
)
def test_forms_on_the_simulator(arguments):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.block_graphs_on_simulator", *arguments)
