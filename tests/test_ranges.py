"""``QGRAPH_NVTX=1``: a range around each call of a kernel, with its name and place."""

from __future__ import annotations

import pytest

from tests.processes import printed_by, run_program

PROGRAM = """
import sys, types

told = []
made = types.ModuleType("nvtx")
made.push_range = lambda message, domain: told.append((message, domain))
made.pop_range = lambda domain: told.append(("end", domain))
if {installed}:
    sys.modules["nvtx"] = made
else:
    sys.modules["nvtx"] = None

import numpy as np
import qgraph


@qgraph.kernel(backend="cpu")
def twice(x):
    for i in range(x.shape[0]):
        x[i] *= 2


x = np.ones(3)
for _ in range(3):
    twice(x)
try:
    twice(x, 1)
except qgraph.ArgumentError:
    print("refused")
print(x.tolist(), told)
"""


def test_calls_are_in_ranges_with_their_place(tmp_path):
    printed = printed_by(PROGRAM.format(installed=True), tmp_path, QGRAPH_NVTX="1")
    pair = "('twice (script.py:18)', 'qgraph'), ('end', 'qgraph')"
    assert printed == f"refused\n[8.0, 8.0, 8.0] [{', '.join([pair] * 4)}]\n"


@pytest.mark.parametrize("asked", ["", "0"])
def test_nobody_asked(tmp_path, asked):
    assert printed_by(PROGRAM.format(installed=False), tmp_path, QGRAPH_NVTX=asked) == "refused\n[8.0, 8.0, 8.0] []\n"


def test_what_is_missing_is_named(tmp_path):
    done = run_program(PROGRAM.format(installed=False), tmp_path, QGRAPH_NVTX="1")
    assert done.returncode == 1
    assert "BackendError: QGRAPH_NVTX=1 asks for NVTX ranges, and the package nvtx" in done.stderr
    assert "help: pip install nvtx, or unset QGRAPH_NVTX" in done.stderr
    done = run_program(PROGRAM.format(installed=True), tmp_path, QGRAPH_NVTX="yes")
    assert "QGraphError: QGRAPH_NVTX='yes' is neither 0 nor 1" in done.stderr
