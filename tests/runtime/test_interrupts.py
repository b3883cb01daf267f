"""A loop that does not end can be stopped: on the CPU, on the simulator, and with a warning that tells its line."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import qgraph
from qgraph.lowering.codegen.cpu_codegen import control_function
from qgraph.lowering.scalar_types import scalar_types
from qgraph.runtime.values import watchdog
from qgraph.source import Span
from tests.conftest import SIMULATED, thorough
from tests.interrupted_kernels import CASES, counted_down
from tests.processes import run_python


def run(*parts: str, **environment: str) -> list[str]:
    done = run_python("-W", "ignore", "-m", "tests.interrupted_kernels", *parts, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.needs("compiler")
@pytest.mark.parametrize("layer", ["default", *thorough("workqueue")])
def test_interrupts_on_the_cpu(layer):
    parts = "each_case", "repeated_calls", "own_handlers", "on_a_thread", "left_behind"
    said = run(*parts, QGRAPH_BACKEND="cpu", NUMBA_THREADING_LAYER=layer)
    assert said == [*CASES, "repeated calls", "own handlers", "on a thread", "left behind"]


@pytest.mark.needs("compiler")
def test_interrupts_on_the_simulator():
    assert run("each_case", QGRAPH_BACKEND="sim") == [*CASES]


# --- what is polled -----------------------------------------------------------------------------------------------------


def without_loops(x, y):
    for i in range(x.shape[0]):
        while x[i] > 1.0:
            x[i] *= 0.5
    for t in qgraph.serial(range(3)):
        y[t] += x[0]


def several(x, n):
    k = n
    while k > 0:
        k -= 1
        while k > 100:
            k = k // 2
    for t in qgraph.serial(range(n)):
        for i in range(x.shape[0]):
            x[i] += t


def polled(function, *args):
    program = qgraph.kernel(function).plan(*args).program
    parameters, code = control_function(program, scalar_types(program))
    return [parameter.name for parameter in parameters if parameter.kind == "loop"], code.names


@pytest.mark.needs("compiler")
def test_only_loops_that_may_not_end_are_polled():
    assert polled(without_loops, np.ones(3), np.ones(3))[0] == []
    assert "_poll" not in polled(without_loops, np.ones(3), np.ones(3))[1]
    assert polled(several, np.ones(3), 5)[0] == ["_loop0", "_loop1", "_loop2"]


# --- the watchdog -------------------------------------------------------------------------------------------------------

WARNING = """\
this loop has run for more than 0.1 s
  --> {file}:{line}:5
{space} |
{line} |     while qgraph.graph_do_while(counter):
{space} |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: see whether its condition can become false; Ctrl-C on the main thread ends it"""


def test_the_watchdog_tells_the_line(monkeypatch):
    """As an error it ends the loop, here after the first look that is late enough."""
    monkeypatch.setenv("QGRAPH_WATCHDOG", "0.1")
    kernel = qgraph.kernel(backend="sim" if SIMULATED else "cpu")(counted_down.__wrapped__)
    x, counter = np.zeros(5), np.array(0)
    # Should nothing warn, the loop ends all the same.
    timer = threading.Timer(60, lambda: counter.fill(1))
    timer.start()
    try:
        with pytest.raises(qgraph.PerformanceWarning) as found:
            kernel(x, counter)
    finally:
        timer.cancel()
    line = counted_down.__wrapped__.__code__.co_firstlineno + 2
    expected = WARNING.format(file=counted_down.__wrapped__.__code__.co_filename, line=line, space=" " * len(str(line)))
    assert str(found.value) == expected
    counter[()], x[:] = 2, 0
    kernel(x, counter)
    assert x.tolist() == [2.0] * 5


def test_each_entry_of_a_loop_is_told_once(monkeypatch):
    now = 0.0
    monkeypatch.setenv("QGRAPH_WATCHDOG", "2")
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: now)
    loop = watchdog.PolledLoop(Span("file.py", 3, 4, 3, 9))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for now, entered, count in [(0, 7, 0), (1, 7, 0), (2.5, 7, 1), (9, 7, 1), (9, 8, 1), (10, 8, 1), (12, 8, 2)]:  # noqa: B007
            loop(entered)
            assert len(told) == count, (now, entered)
    assert told[0].filename == __file__


@pytest.mark.parametrize("setting", ["soon", "-1", "nan"])
def test_a_setting_that_means_nothing_is_told_once_before_anything_runs(monkeypatch, setting):
    monkeypatch.setenv("QGRAPH_WATCHDOG", setting)
    monkeypatch.setattr(watchdog, "_SAID", set())
    kernel = qgraph.kernel(backend="sim" if SIMULATED else "cpu")(counted_down.__wrapped__)
    x, counter = np.zeros(5), np.array(2)
    with pytest.warns(qgraph.PerformanceWarning) as told:
        kernel(x, counter)
    assert [str(each.message) for each in told] == [
        f"QGRAPH_WATCHDOG={setting!r} is no number of seconds: no loop is watched; QGRAPH_WATCHDOG=10 warns after ten"
    ]
    assert told[0].filename == __file__
    assert x.tolist() == [2.0] * 5
    counter[()] = 1
    kernel(x, counter)


@pytest.mark.parametrize("setting", ["", "0", " 0.0 "])
def test_no_watchdog(monkeypatch, setting):
    monkeypatch.setenv("QGRAPH_WATCHDOG", setting)
    assert watchdog.limit() is None
