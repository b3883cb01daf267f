"""Waits for device loops: a handler is heard while the device works, and what it raises ends the loops before it is raised."""

from __future__ import annotations

import signal
import threading
import time
import warnings

import pytest

import qgraph
from qgraph.errors import CudaError
from qgraph.runtime.values.running_loops import RunningLoops, StoppableLoops
from qgraph.source import Span

LOOP = Span("file.py", 7, 4, 7, 20)


class Device:
    """Loops that run until their word is set; it writes down what the host does."""

    def __init__(self, loops=1):
        self.ended, self.log, self.told = threading.Event(), [], []
        self.running = RunningLoops(self.block, self.told.append)
        self.loops = [StoppableLoops((LOOP,), lambda value, k=k: self.write(k, value)) for k in range(loops)]
        for each in self.loops:
            self.running.add(each)

    def write(self, loop, value):
        self.log.append((loop, value))
        if value and loop == len(self.loops) - 1:
            self.ended.set()

    def block(self):
        self.log.append("block")
        # Should nothing stop them, no test hangs.
        assert self.ended.wait(30)

    def wait(self):
        self.running.wait_for_all(self.ended.is_set)


@pytest.fixture
def interrupt():
    """An interrupt that comes while the test waits."""
    timers = []
    # A shell without job control lets what runs in its background ignore them.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(after=0.2):
        main = threading.main_thread().ident
        timers.append(threading.Timer(after, lambda: signal.pthread_kill(main, signal.SIGINT)))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.cancel()
        timer.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("anywhere", [False, True])
def test_an_interrupt_sets_the_words_waits_and_clears_them(interrupt, anywhere):
    device = Device(loops=2)
    device.running.launched(device.loops[0], anywhere=anywhere)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        device.wait()
    # On another stream a thread is waiting already.
    assert device.log == [*["block"] * anywhere, (0, 1), (1, 1), "block", (0, 0), (1, 0)]
    assert device.told == []
    device.log.clear()
    device.wait()
    assert device.log == ["block"] * (1 + anywhere)


def test_a_second_interrupt_leaves_no_word_set(interrupt):
    device = Device()
    plainly = device.block

    def slowly():
        time.sleep(0.5)
        plainly()

    device.running._block = slowly
    interrupt(0.1)
    interrupt(0.3)
    with pytest.raises(KeyboardInterrupt):
        device.wait()
    assert device.log == [(0, 1), "block", (0, 0)]


def test_what_fails_while_loops_are_stopped_is_told(interrupt):
    device = Device()
    failure = CudaError("the word cannot be written")

    def failing():
        device.ended.set()
        raise failure

    device.running._block = failing
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        device.wait()
    assert device.told == [failure]
    assert device.log == [(0, 1), (0, 0)]


def test_loops_of_other_threads_are_told(interrupt):
    device = Device()
    other = threading.Thread(target=lambda: device.running.launched(device.loops[0], anywhere=False))
    other.start()
    other.join()
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        device.wait()
    (error,) = device.told
    assert isinstance(error, CudaError)
    assert str(error) == (
        "a device loop that another thread had launched was ended, too, when this process was interrupted\n"
        "help: what it wrote is not complete: launch it again"
    )


def test_without_loops_and_on_other_threads_the_wait_is_the_drivers():
    device = Device(loops=0)
    device.ended.set()
    asked = []
    device.running.wait(lambda: asked.append(1) or True, device.block)
    assert (device.log, asked) == (["block"], [])
    device = Device()
    device.ended.set()
    thread = threading.Thread(target=lambda: device.running.wait(lambda: asked.append(1) or True, device.block))
    thread.start()
    thread.join()
    assert (device.log, asked) == (["block"], [])
    device.running.remove(device.loops[0])
    assert not device.running.some


def test_the_watchdog_warns_once_a_wait_and_as_an_error_ends_the_loops(monkeypatch):
    monkeypatch.setenv("QGRAPH_WATCHDOG", "0.05")
    device = Device()
    threading.Timer(0.5, device.ended.set).start()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        device.wait()
    assert [str(each.message) for each in told] == [
        "this loop has run for more than 0.05 s\n  --> file.py:7:5\n"
        "help: see whether its condition can become false; Ctrl-C on the main thread ends it"
    ]
    device = Device(loops=2)
    with pytest.raises(qgraph.PerformanceWarning, match="one of these loops has run for more than 0.05 s"):
        device.wait()
    assert device.log == [(0, 1), (1, 1), "block", (0, 0), (1, 0)]
