"""Captures on a device that the tests play: how they end, and what their graphs keep alive."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from types import SimpleNamespace

import pytest

import qgraph
from qgraph.errors import CudaError
from qgraph.runtime.driver.stream import CURRENT
from qgraph.runtime.graph import recording
from qgraph.runtime.graph.recorded_nodes import RecordedNode, RecordedPlan
from qgraph.runtime.graph.recording import Recording


class Device:
    """What a recording asks of a device. ``log`` has what the driver was told; ``retired`` is freed later."""

    ordinal, epoch = 0, 1

    def __init__(self):
        self.lock = threading.RLock()
        self.made, self.log, self.retired, self.capturing = {}, [], [], set()

    def activate(self):
        return contextlib.nullcontext()

    def once(self, cls):
        return self.made.setdefault(cls, cls(self))

    def alive(self, epoch):
        return epoch == self.epoch

    def refresh(self):
        return self.epoch

    def retire(self, release):
        self.retired.append(release)

    def free_retired(self):
        while self.retired:
            self.retired.pop()()


@pytest.fixture
def device(monkeypatch):
    device = Device()
    nodes = (RecordedNode(0, "kernel", "theirs"),)

    def call(function, *arguments):
        device.log.append(function)
        return 4096 + len(device.log) if function == "cuStreamCreate" else None

    def begin(stream, mode):
        device.capturing.add(stream)

    def end(stream):
        device.capturing.discard(stream)
        if device.broken:
            raise CudaError("the capture was invalidated")
        return "graph"

    device.broken = False
    names = ("cuStreamCreate", "cuGraphDestroy", "cuGraphExecDestroy", "cuCtxSynchronize", "cuGraphLaunch")
    monkeypatch.setattr(recording, "driver", SimpleNamespace(**{name: name for name in names}))
    monkeypatch.setattr(recording, "call", call)
    monkeypatch.setattr(recording, "begin_capture", begin)
    monkeypatch.setattr(recording, "end_capture", end)
    monkeypatch.setattr(recording, "is_capturing", lambda stream: stream in device.capturing)
    monkeypatch.setattr(recording, "current_streams", lambda: [0])
    monkeypatch.setattr(recording, "captures", lambda: False)
    monkeypatch.setattr(recording, "outside_captures", contextlib.nullcontext)
    monkeypatch.setattr(recording, "recorded_plan", lambda graph, known: RecordedPlan(nodes, ()))
    return device


def capture(device, keep=()):
    return Recording(device, None, "global", keep)


def test_an_exception_ends_the_capture(device):
    g = capture(device)
    with pytest.raises(ZeroDivisionError) as caught, g:
        assert device.capturing == {g.stream} == {CURRENT.get()}
        raise ZeroDivisionError
    # Nobody captures any more, qgraph works on the stream that it had, and what was recorded so far is gone.
    assert not device.capturing
    assert CURRENT.get() == 0
    assert device.log[-1] == "cuGraphDestroy"
    assert not hasattr(caught.value, "__notes__")
    for use in (g, g.launch, lambda: g.plan, lambda: g.reads, lambda: g.writes, g.not_in_graph):
        with pytest.raises(CudaError, match="this graph was not recorded: its capture failed"):
            use()
    with pytest.raises(CudaError, match="each capture makes its own graph"), g:
        pass
    with capture(device) as other:
        pass
    assert [node.label for node in other.plan.nodes] == ["theirs"]


def test_an_exception_that_broke_the_capture_says_so(device):
    device.broken = True
    with pytest.raises(ZeroDivisionError) as caught, capture(device):
        raise ZeroDivisionError
    assert caught.value.__notes__ == ["the capture ended with it: the capture was invalidated"]
    assert not device.capturing
    g = capture(device)
    with pytest.raises(CudaError, match="was invalidated"), g:
        pass
    with pytest.raises(CudaError, match="its capture failed"):
        g()


def test_a_capture_in_a_capture_is_refused_and_the_outer_one_goes_on(device):
    stream = 77
    with Recording(device, stream, "global", ()) as g:
        inner = Recording(device, stream, "global", ())
        with pytest.raises(CudaError, match="captures cannot be nested"), inner:
            pass
        assert device.capturing == {stream}
    assert g.plan.nodes


def test_it_goes_with_its_context_alone(device, monkeypatch):
    """Where the driver refuses to tell it is there; a context that is lost is not called reset."""
    with Recording(device, 77, "global", ()) as g:
        pass
    monkeypatch.setattr(device, "alive", lambda epoch: False)
    assert g.plan.nodes

    def lost():
        raise CudaError("the context is lost")

    with monkeypatch.context() as patch:
        patch.setattr(device, "refresh", lost)
        with pytest.raises(CudaError, match="is lost"):
            _ = g.plan
    device.epoch += 1
    with pytest.raises(CudaError, match="before its CUDA context was reset"):
        _ = g.plan


@pytest.mark.parametrize("refused", [None, *range(4)])
def test_a_node_is_replaced_or_stays_as_it_was(device, monkeypatch, refused):
    with capture(device) as g:
        pass
    nodes, edges, calls = ["before", "old", "after"], [("before", "old"), ("old", "after")], []

    def change(act):
        calls.append(act)
        if len(calls) - 1 == refused:
            raise CudaError("refused")
        return act()

    def add():
        nodes.append("new")
        return "new"

    def destroy(node):
        nodes.remove(node)
        edges[:] = [edge for edge in edges if node not in edge]

    adds, destroys = lambda *_: change(add), lambda node: change(lambda: destroy(node))
    played = SimpleNamespace(cuGraphAddChildGraphNode=adds, cuGraphDestroyNode=destroys)
    monkeypatch.setattr(recording, "driver", played)
    monkeypatch.setattr(recording, "call", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(recording, "neighbours", lambda node: (["before"], ["after"]))
    monkeypatch.setattr(recording, "connect", lambda graph, pairs, programmatic: change(lambda: edges.extend(pairs)))
    if refused is None:
        assert g.replace("graph", "old") == "new"
    else:
        with pytest.raises(CudaError, match="refused"):
            g.replace("graph", "old")
    stays = "new" if refused is None else "old"
    assert sorted(nodes) == sorted(["before", stays, "after"])
    assert edges == [("before", stays), (stays, "after")]


class Array:
    """Memory that somebody holds."""


def test_what_it_works_on_lives_as_long_as_the_graph(device):
    named, recorded = Array(), Array()
    alive = [weakref.ref(each) for each in (named, recorded)]
    with capture(device, [named]) as g:
        # As kernels of qgraph do with their arrays.
        recording.KEPT.get().append(recorded)
    del named, recorded
    gc.collect()
    assert all(each() is not None for each in alive)
    del g
    gc.collect()
    # Its copies may still run: what it works on is let go when the device is asked.
    assert all(each() is not None for each in alive)
    device.free_retired()
    gc.collect()
    assert all(each() is None for each in alive)
    assert device.log[-2:] == ["cuCtxSynchronize", "cuGraphDestroy"]


def test_a_failed_capture_keeps_nothing(device):
    array = Array()
    alive = weakref.ref(array)
    g = capture(device, [array])
    with pytest.raises(ZeroDivisionError), g:
        raise ZeroDivisionError
    del array
    gc.collect()
    assert alive() is None
    assert "failed" in repr(g)


def test_a_stream_of_its_own_is_lent_again(device):
    streams = []
    for _ in range(3):
        with capture(device) as g:
            streams.append(g.stream)
        del g
        gc.collect()
        device.free_retired()
    assert len(set(streams)) == 1
    with capture(device) as first, capture(device) as second:
        assert first.stream != second.stream


def test_the_default_stream_and_unknown_modes_are_refused(device):
    with pytest.raises(qgraph.ArgumentError, match="the default stream cannot be captured"):
        Recording(device, 0, "global", ())
    with pytest.raises(qgraph.ArgumentError, match="is not a mode of a capture"):
        Recording(device, None, "strict", ())


def test_a_capture_that_cannot_begin_holds_no_stream(device, monkeypatch):
    def refuse(stream, mode):
        raise CudaError("no capture begins")

    refused = capture(device)
    begin = recording.begin_capture
    monkeypatch.setattr(recording, "begin_capture", refuse)
    with pytest.raises(CudaError, match="no capture begins") as caught, refused:
        pass
    monkeypatch.setattr(recording, "begin_capture", begin)
    # Though what failed is still known.
    with capture(device) as g:
        assert g.stream == refused.stream
    del caught
    with pytest.raises(CudaError, match="this graph was not recorded: its capture failed"):
        refused()
