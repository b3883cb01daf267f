"""The forms of an executable, one block among them, on a driver in plain Python: see block_graphs_on_simulator.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).with_name("block_graphs_on_simulator.py"))


@pytest.mark.parametrize("arguments", [("do_while", "plain"), ("do_while", "unrolled"), ("stale",)], ids="-".join)
def test_forms_on_the_simulator(arguments):
    pytest.importorskip("cuda.bindings")
    command = [sys.executable, "-W", "ignore", SCRIPT, *arguments]
    done = subprocess.run(command, env={**os.environ, "QGRAPH_BACKEND": "sim"}, capture_output=True, text=True, check=False)
    assert done.stdout == "as plain Python\n", done.stderr
