"""Launches of graphs with conditional nodes follow one another, whatever streams they are on and whatever becomes of those."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qgraph.runtime import cuda_stream, cuda_turns
from qgraph.runtime.cuda_turns import Turns

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
        return (0,)

    def cuEventCreate(self, flags):
        return 0, 9

    def cuEventRecord(self, event, stream):
        self.events[event] = self.last[0 if stream in DEFAULT else stream] if stream in self.last else self.everything
        return (0,)

    def cuStreamWaitEvent(self, stream, event, flags):
        self.add(stream, self.events[event])
        return (0,)

    def cuCtxSynchronize(self):
        self.everything = frozenset(range(len(self.done_before)))
        return (0,)


class Device:
    epoch = 1

    def alive(self, epoch):
        return False

    def activate(self):
        return contextlib.nullcontext()


@given(st.lists(st.tuples(st.sampled_from((0, 0, 1, 2, 5, 6, 7)), st.sampled_from(("", "", "", "interrupted", "new stream")))))
def test_one_after_another(launches):
    with pytest.MonkeyPatch.context() as patch:
        driver = Driver()
        for module in (cuda_turns, cuda_stream):
            patch.setattr(module, "driver", driver)
        patch.setattr(cuda_turns, "outside_captures", contextlib.nullcontext)
        turns = Turns(Device())
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
        for earlier, later in zip(driver.launched, driver.launched[1:], strict=False):
            assert earlier in driver.done_before[later]
        assert len(driver.launched) == len(launches)
