"""Executables with two graphs: which one is launched, and that its nodes have the arguments, handles and guards they need."""

from __future__ import annotations

import pytest

from tests.processes import agrees_on_the_simulator

PARTS = [
    "forced",
    "adapted",
    "the_same",
    "never",
    "repeated",
    "repeated_without_loops",
    "in_turn",
    "in_turn_with_scratch",
    "kept_for_all_threads",
    "kept_until_closed",
    "graph_at_first",
    "rows",
    "rows_in_turn",
    "rows_interrupted",
    "rows_refused",
    "index64",
    "equal_extents",
    "repeated_and_adapted",
    "interrupted",
    "converging",
    "stopped",
    "counted",
    "large",
    "whole_turns",
]
# Several in a process, which takes a second to start; the last ones take long.
HANDED = ("handed", "every_remainder", "sizes", "floats", "other_widths", "adapted", "stopped", "told")
GROUPS = [*(PARTS[first:-4:4] for first in range(4)), *([part] for part in PARTS[-4:])]


@pytest.mark.parametrize("parts", GROUPS, ids="-".join)
def test_graphs_on_the_simulator(parts):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.graphs_on_simulator", *parts)


@pytest.mark.parametrize("part", HANDED)
def test_results_are_handed_on(part):
    pytest.importorskip("cuda.bindings")
    agrees_on_the_simulator("tests.runtime.handed_graphs_on_simulator", part)
