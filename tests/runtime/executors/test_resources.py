"""What an executable owns is freed without breaking a capture that goes on."""

from __future__ import annotations

import contextlib
import types

import pytest

from qgraph.errors import CudaError
from qgraph.runtime.executors import resources
from qgraph.runtime.executors.resources import Resources


@pytest.fixture
def made(monkeypatch):
    """Resources, what the driver was asked, and what was retired."""
    asked, retired = [], []
    device = types.SimpleNamespace(alive=lambda _epoch: True, activate=contextlib.nullcontext, retire=retired.append)
    monkeypatch.setattr(resources, "driver", types.SimpleNamespace(cuCtxSynchronize="cuCtxSynchronize"))
    monkeypatch.setattr(resources, "call", asked.append)
    monkeypatch.setattr(resources, "outside_captures", contextlib.nullcontext)
    found = Resources(device, 0)
    found.code = types.SimpleNamespace(unload=lambda: asked.append("unload"))
    return found, asked, retired


def test_code_that_may_run_is_waited_for(made):
    found, asked, _ = made
    found.release()
    found.release()
    assert asked == ["cuCtxSynchronize", "unload"]


def test_nobody_waits_for_what_did_not_run(made):
    found, asked, _ = made
    found.release(ran=False)
    assert asked == ["unload"]


@pytest.mark.parametrize("lost", [False, True])
def test_while_a_stream_is_captured_it_is_freed_later(made, lost, monkeypatch):
    def captures():
        if lost:
            raise CudaError("the context is lost")
        return True

    found, asked, retired = made
    monkeypatch.setattr(resources, "captures", captures)
    found.let_go()
    assert found.released is lost
    if not lost:
        assert not asked
        (later,) = retired
        later()
    assert asked == ["cuCtxSynchronize", "unload"]
