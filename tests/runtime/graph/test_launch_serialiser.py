"""Launches of graphs with conditional nodes follow one another, whatever streams they are on and whatever becomes of those."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qgraph.runtime.driver import driver as cuda_driver
from qgraph.runtime.driver import stream as cuda_stream
from qgraph.runtime.graph import launch_serialiser
from qgraph.runtime.graph.launch_serialiser import LaunchSerialiser

DEFAULT = (0, 1)


class Driver:
    """Notes what happens before what: operations by number, each with the set of all that have ended when it starts."""

    def __init__(self):
        self.done_before = []
        self.last = {}
        self.events = {}
        self.everything = frozenset()
        self.launched = []
        self.interrupted = False
        # What a signal handler does, and after how many more calls.
        self.handler, self.calls_left = None, 0

    def handle_signals(self):
        self.calls_left -= 1
        if self.calls_left == 0:
            self.handler()

    def add(self, stream, *more):
        stream = 0 if stream in DEFAULT else stream
        before = self.everything | self.last.get(stream, frozenset()) | frozenset().union(*more)
        number = len(self.done_before)
        self.done_before.append(before)
        self.last[stream] = before | {number}
        return number

    def cuGraphLaunch(self, executable, stream):
        self.launched.append(self.add(stream))
        if self.interrupted:
            raise KeyboardInterrupt
        self.handle_signals()
        return (0,)

    def cuEventCreate(self, flags):
        return 0, 9

    def cuEventRecord(self, event, stream):
        self.events[event] = self.last.get(0 if stream in DEFAULT else stream, self.everything)
        self.handle_signals()
        return (0,)

    def cuStreamWaitEvent(self, stream, event, flags):
        self.add(stream, self.events[event])
        self.handle_signals()
        return (0,)

    def cuCtxSynchronize(self):
        self.everything = frozenset(range(len(self.done_before)))
        self.handle_signals()
        return (0,)


class Device:
    epoch = 1

    def alive(self, epoch):
        return False

    def activate(self):
        return contextlib.nullcontext()


def patched(patch, driver):
    for module in (launch_serialiser, cuda_stream, cuda_driver):
        patch.setattr(module, "driver", driver)
    patch.setattr(launch_serialiser, "outside_captures", contextlib.nullcontext)


def one_after_another(driver):
    return all(a in driver.done_before[b] for a, b in zip(driver.launched, driver.launched[1:], strict=False))


@given(st.lists(st.tuples(st.sampled_from((0, 0, 1, 2, 5, 6, 7)), st.sampled_from(("", "", "", "interrupted", "new stream")))))
def test_one_after_another(launches):
    with pytest.MonkeyPatch.context() as patch:
        driver = Driver()
        patched(patch, driver)
        turns = LaunchSerialiser(Device())
        for stream, what in launches:
            if what == "new stream" and stream > 1:
                # Another one, with the handle of one that is gone; what that had may still run.
                driver.last.pop(stream, None)
            driver.interrupted = what == "interrupted"
            if driver.interrupted and stream > 1:
                with pytest.raises(KeyboardInterrupt):
                    turns.launch("graph", stream)
                continue
            with contextlib.suppress(KeyboardInterrupt):
                assert turns.launch("graph", stream) == (0,)
        assert one_after_another(driver)
        assert len(driver.launched) == len(launches)


STREAMS = st.sampled_from((0, 1, 2, 5, 6, 7))


@given(st.lists(st.tuples(STREAMS, st.lists(st.tuples(st.integers(1, 4), STREAMS), max_size=2))))
def test_launches_of_a_signal_handler(launches):
    """It may run whenever a call of the driver returns, and be interrupted by another."""
    with pytest.MonkeyPatch.context() as patch:
        driver = Driver()
        patched(patch, driver)
        turns = LaunchSerialiser(Device())

        def interrupt(handlers):
            if handlers:
                calls, stream = handlers[0]

                def handler():
                    interrupt(handlers[1:])
                    assert turns.launch("graph", stream) == (0,)

                driver.handler, driver.calls_left = handler, calls

        for stream, handlers in launches:
            driver.calls_left = 0
            interrupt(handlers)
            assert turns.launch("graph", stream) == (0,)
        assert one_after_another(driver)


def test_default_streams_of_threads(monkeypatch):
    """Where each thread has a default stream of its own, the end of what is on one is marked, too."""
    driver = Driver()
    patched(monkeypatch, driver)
    monkeypatch.setattr(launch_serialiser, "ONE_DEFAULT", False)
    turns = LaunchSerialiser(Device())
    for _ in range(3):
        turns.launch("graph", 0)
        # Another thread.
        driver.last.pop(0, None)
    assert one_after_another(driver)


def test_a_launch_that_fails_marks_nothing(monkeypatch):
    driver = Driver()
    patched(monkeypatch, driver)
    turns = LaunchSerialiser(Device())
    turns.launch("graph", 5)
    before = dict(driver.events)
    monkeypatch.setattr(driver, "cuGraphLaunch", lambda executable, stream: (900,), raising=False)
    assert turns.launch("graph", 6) == (900,)
    assert driver.events == before
    monkeypatch.undo()
    patched(monkeypatch, driver)
    for stream in (7, 0, 5):
        assert turns.launch("graph", stream) == (0,)
    assert one_after_another(driver)
