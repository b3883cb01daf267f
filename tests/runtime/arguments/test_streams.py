"""Calls that are repeated: with which streams they are ordered is found out each time."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

import qgraph
from qgraph.dispatch import executables
from qgraph.runtime.arguments import streams
from qgraph.runtime.values.array_view import ArrayView
from qgraph.runtime.values.prepared_call import Call, ReplayCode
from tests.running_again import function_of


class Foreign:
    """An array of a library whose current stream nobody can ask for: it says on which one it was made."""


@pytest.fixture
def ordered(monkeypatch):
    """What was noted: (before, after) of streams, and launches."""
    noted = []
    device = SimpleNamespace(activate=contextlib.nullcontext)
    monkeypatch.setattr(streams.driver, "device", lambda ordinal: device)
    monkeypatch.setattr(streams, "order_after", lambda stream, other: noted.append((other, stream)))
    return noted


@pytest.mark.parametrize("first", [0, 7])
def test_the_streams_of_a_repeated_call_are_looked_at_each_time(ordered, first):
    array = np.ones(3)
    view = ArrayView(array.ctypes.data, array.shape, array.strides, array.dtype, False, 0, Foreign(), stream=7)
    variant = SimpleNamespace(arrays=(0,), device=0, streams=streams)
    executable = SimpleNamespace(
        again=lambda call, find: ReplayCode((), {"run": lambda: ordered.append(find())}, lambda _arrays: ["numbers = run()"])
    )
    with qgraph.stream(first):
        run = function_of(executables._again_on_cuda(executable, Call((view,), ()), variant, False))
        run()
    wanted = {0: [(7, 0), 0, (0, 7)], 7: [7]}
    assert ordered == wanted[first]
    ordered.clear()
    with qgraph.stream(7 - first):
        run()
    assert ordered == wanted[7 - first]
