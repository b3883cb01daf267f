"""Executables with two graphs: which one is launched, and that its nodes have the arguments, handles and guards they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("graphs_on_simulator.py")


@pytest.mark.parametrize("part", ["forced", "adapted", "the_same", "never", "repeated", "repeated_and_adapted", "interrupted"])
def test_graphs_on_the_simulator(part):
    pytest.importorskip("cuda.bindings")
    command = [sys.executable, "-W", "ignore", SCRIPT, part]
    environment = {**os.environ, "QGRAPH_BACKEND": "sim"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "as plain Python\n", done.stderr
