"""Executables with two graphs: which one is launched, and that its nodes have the arguments, handles and guards they need."""

from __future__ import annotations

import pytest

from tests.processes import agrees_on_the_simulator


@pytest.mark.parametrize(
    "part",
    [
        "forced",
        "adapted",
        "the_same",
        "never",
        "repeated",
        "in_turn",
        "in_turn_with_scratch",
        "kept_from_other_threads",
        "kept_until_closed",
        "graph_at_first",
        "rows",
        "rows_in_turn",
        "rows_interrupted",
        "rows_refused",
        "index64",
        "repeated_and_adapted",
        "interrupted",
        "counted",
        "converging",
        "large",
        "whole_turns",
        "stopped",
    ],
)
def test_graphs_on_the_simulator(part):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.graphs_on_simulator", part)
