"""One stream handle stands for a stream of each thread: launches that share scratch are ordered all the same."""

from __future__ import annotations

import types

import pytest

from qgraph.runtime.executors import single_block
from qgraph.runtime.executors.host_loop import CudaHostLoopExecutable
from qgraph.runtime.executors.single_block import BlockForm


@pytest.mark.parametrize(("first", "second", "waits"), [(0, 0, 0), (2, 2, 1), (5, 5, 0), (5, 6, 1)])
def test_from_one_block_to_the_graph(monkeypatch, first, second, waits):
    waited = []
    driver = types.SimpleNamespace(cuGraphLaunch=lambda executable, stream: (0,))
    monkeypatch.setattr(single_block, "driver", driver)
    monkeypatch.setattr(BlockForm, "wait", lambda self: waited.append(1))
    form = object.__new__(BlockForm)
    form._last, form.executable = None, "graph"
    for form.chosen, stream in ((True, first), (False, second)):
        form.run(stream, lambda stream: None)
    assert len(waited) == waits


@pytest.mark.parametrize(("first", "second", "waits"), [(0, 0, 0), (2, 2, 1), (5, 5, 1), (5, 6, 1)])
def test_launches_with_loops_of_the_host(monkeypatch, first, second, waits):
    waited = []
    monkeypatch.setattr(CudaHostLoopExecutable, "_run_steps", lambda self, steps, stream: None)
    made = object.__new__(CudaHostLoopExecutable)
    made._done = types.SimpleNamespace(wait=waited.append, record=lambda stream: None)
    made._last_stream, made._reasons, made._steps = None, ("reason", ""), ()
    for stream in (first, second):
        made._run(stream)
    assert len(waited) == waits
