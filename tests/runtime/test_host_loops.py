"""Loops that the host drives and runs ahead of, on a driver in plain Python: see host_loops_on_simulator.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("host_loops_on_simulator.py")
PARTS = ["any_number_of_turns", "launches", "unchanged", "interrupted", "faults", "one_by_one"]


@pytest.mark.parametrize("part", PARTS)
def test_host_loops_on_the_simulator(part):
    pytest.importorskip("cuda.bindings")
    command = [sys.executable, "-W", "ignore", SCRIPT, part]
    environment = {**os.environ, "QGRAPH_BACKEND": "sim"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "as plain Python\n", done.stderr
