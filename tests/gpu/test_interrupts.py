"""Ctrl-C ends loops on the device, and leaves context and arrays usable; in processes of their own, which may be killed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import qgraph
from tests.interrupted_kernels import counted_down
from tests.processes import run_python


@pytest.mark.parametrize(
    ("part", "said"), [("on_the_device", ["device", "one block", "host", "launches"]), ("waits_on_the_device", ["waits"])]
)
def test_interrupts(part, said):
    done = run_python("-W", "ignore", "-m", "tests.interrupted_kernels", part)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == said


@pytest.mark.filterwarnings("ignore::qgraph.PerformanceWarning")
def test_host_arrays_are_waited_for():
    program = "import qgraph, tests.interrupted_kernels as k; del k.CASES['one thread']; k.each_case()"
    done = run_python("-W", "ignore", "-c", program, QGRAPH_BACKEND="cuda")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["do-while", "one block", "serial", "inner loop"]


@pytest.mark.unsanitized(reason="measures time")
def test_the_watchdog_names_the_loop(monkeypatch):
    """A loop of a second or more, which ends by itself."""
    monkeypatch.setenv("QGRAPH_WATCHDOG", "0.01")
    kernel = qgraph.kernel(backend="cuda", conditional="device")(counted_down.__wrapped__)
    x, counter = (qgraph.asarray(each, backend="cuda") for each in (np.zeros(100), np.array(200_000)))
    kernel(x, counter)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        qgraph.synchronize()
    (warning,) = told
    assert "loop has run for more than 0.01 s" in str(warning.message) or "loops has run" in str(warning.message)
    assert "while qgraph.graph_do_while(counter):" in str(warning.message)
    assert warning.filename == __file__
    assert (qgraph.to_numpy(x) == 200_000).all()
