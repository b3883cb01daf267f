"""Loops that do not end, interrupted in every way: a program of its own, since one that hangs must be killed.

It prints a line for each case that went as it must, and ends with the name of the first that did not.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import qgraph

# How long a call may take from the signal on: a turn is short, so that what is more than the tenth part is the machine's.
SOON = 3.0


@qgraph.kernel
def counted_down(x, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] = x[i] + 1.0
        counter[()] -= 1


@qgraph.kernel(fuse=True)
def in_one_block(x, counter):
    while qgraph.graph_do_while(counter):
        for i in range(x.shape[0]):
            x[i] = x[i] + 1.0
        for i in range(x.shape[0]):
            x[i] = x[i] - 0.5
        counter[()] -= 1


@qgraph.kernel
def in_order(x, steps):
    for _ in qgraph.serial(range(steps[0])):
        for i in range(x.shape[0]):
            x[i] += 1.0


@qgraph.kernel
def of_one_thread(x, enough):
    n = 0
    while n != enough[0]:
        n += 2
    x[0] = n


@qgraph.func
def halved(x, tol):
    s = tol + 1.0
    while s > tol:
        s = 0.0
        for i in range(x.shape[0]):
            x[i] *= 0.5
            s = max(s, x[i])
    return s


@qgraph.kernel
def with_loops_in_loops(x, tol):
    k = 0
    last = 1.0
    while k < 3:
        last = halved(x, tol[0])
        k += 1
    return last


# A kernel, its arrays with which it never ends, and those with which it does.
CASES: dict[str, tuple[Any, Callable[[], tuple[Any, ...]], Callable[[], tuple[Any, ...]]]] = {
    "do-while": (counted_down, lambda: (np.zeros(100), np.array(0)), lambda: (np.zeros(100), np.array(4))),
    "one block": (in_one_block, lambda: (np.zeros(5), np.array(0)), lambda: (np.zeros(5), np.array(4))),
    "serial": (in_order, lambda: (np.zeros(100), np.array([1 << 60])), lambda: (np.zeros(100), np.array([4]))),
    "one thread": (of_one_thread, lambda: (np.zeros(1), np.array([3])), lambda: (np.zeros(1), np.array([8]))),
    "inner loop": (
        with_loops_in_loops,
        lambda: (np.full(100, 8.0), np.array([-1.0])),
        lambda: (np.full(100, 8.0), np.array([1.0])),
    ),
}


class Stopped(Exception):  # noqa: N818 - no error
    """What a handler of this program raises."""


@contextmanager
def signalled(after: float = 0.3) -> Iterator[None]:
    """An interrupt comes while the block runs, which must end soon after."""
    at, main_thread = time.monotonic() + after, threading.get_ident()
    # To the main thread, which may wait in the system: nothing else wakes it.
    timer = threading.Timer(after, lambda: signal.pthread_kill(main_thread, signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        took = time.monotonic() - at
        timer.join()
    assert -0.1 < took < SOON, f"ended {took:.1f} s after the signal"


@contextmanager
def handler(function: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, function)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def runs_right(kernel: Any, make: Callable[[], tuple[Any, ...]]) -> None:
    given, expected = make(), make()
    assert kernel(*given) == kernel.reference(*expected)
    for one, other in zip(given, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def interrupted(call: Callable[[], object], raised: type[BaseException] = KeyboardInterrupt) -> None:
    with signalled():
        try:
            call()
        except raised:
            return
    raise AssertionError("the call ended by itself")


def each_case() -> None:
    for name, (kernel, endless, ends) in CASES.items():
        runs_right(kernel, ends)
        interrupted(lambda kernel=kernel, endless=endless: kernel(*endless()))
        runs_right(kernel, ends)
        print(name)


def repeated_calls() -> None:
    """Calls that are found by the identity of their arguments, and what is bound."""
    x, counter = np.zeros(100), np.array(1)
    for _ in range(4):
        counter[()] = 1
        counted_down(x, counter)
    bound = counted_down.bind(x, counter)
    counter[()] = 1
    bound.launch()
    for call in (lambda: counted_down(x, counter), bound.launch):
        for _ in range(2):
            counter[()] = 0
            interrupted(call)
            counter[()], x[:] = 3, 0
            call()
            assert counter[()] == 0
            assert (x == 3).all()
    print("repeated calls")


def own_handlers() -> None:
    def raising(*_: object) -> None:
        raise Stopped

    x, counter = np.zeros(100), np.array(0)
    with handler(raising):
        interrupted(lambda: counted_down(x, counter), Stopped)

    def ending(*_: object) -> None:
        # The loop reads it after each turn.
        counter[()] = 1

    with handler(ending), signalled():
        counter[()] = 0
        counted_down(x, counter)

    def calling(*_: object) -> None:
        runs_right(counted_down, CASES["do-while"][2])
        raise Stopped

    with handler(calling):
        counter[()] = 0
        interrupted(lambda: counted_down(x, counter), Stopped)
    runs_right(counted_down, CASES["do-while"][2])
    print("own handlers")


def on_a_thread() -> None:
    """Python handles signals on the main thread; an exception that is sent to another thread ends its kernel."""
    raised: list[BaseException] = []
    counter = np.array(0)

    def run() -> None:
        try:
            counted_down(np.zeros(100), counter)
        except Stopped as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    interrupted(threading.Event().wait)
    assert thread.is_alive()
    sent = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stopped))
    assert sent == 1
    thread.join(SOON)
    assert not thread.is_alive()
    assert raised
    # Nobody else's lock is held.
    other = threading.Thread(target=lambda: runs_right(counted_down, CASES["do-while"][2]), daemon=True)
    other.start()
    other.join(60)
    assert not other.is_alive()
    print("on a thread")


def on_the_device() -> None:
    """Every form of a device loop, on CUDA: plain and unrolled graphs, one block, the host in charge, and other streams."""
    ways: dict[str, dict[str, Any]] = {
        "device": {"conditional": "device"},
        "one block": {"conditional": "device", "fuse": True},
        "host": {"conditional": "host"},
        "launches": {"graph": False},
    }
    for way, options in ways.items():
        for name in ("do-while", "one block", "serial", "inner loop"):
            function, endless, ends = CASES[name]
            kernel = qgraph.kernel(backend="cuda", **options)(function.__wrapped__)

            def call(make: Callable[[], tuple[Any, ...]], kernel: Any = kernel) -> list[np.ndarray]:
                given = [qgraph.asarray(each, backend="cuda") for each in make()]
                kernel(*given)
                qgraph.synchronize()
                return [qgraph.to_numpy(each) for each in given]

            # The second time it runs long: then its loops are unrolled, where they can be.
            for _ in range(2):
                expected = ends()
                kernel.reference(*expected)
                for one, other in zip(call(ends), expected, strict=True):
                    np.testing.assert_array_equal(one, other)
                interrupted(lambda call=call, endless=endless: call(endless))
        print(way)


def waits_on_the_device() -> None:
    """Whoever waits: for numbers, for an element, for a copy, in a stream of its own, and behind calls that come back."""
    kernel = qgraph.kernel(backend="cuda", conditional="device")(counted_down.__wrapped__)
    x, counter = (qgraph.asarray(each, backend="cuda") for each in CASES["do-while"][2]())
    bound = kernel.bind(x, counter)
    for _ in range(3):
        counter[()] = 2
        bound.launch()
    for wait in (qgraph.synchronize, lambda: x[0], lambda: qgraph.to_numpy(x), lambda: x.fill(0)):
        counter[()] = 0
        bound.launch()
        interrupted(wait)
        counter[()] = 3
        x.fill(0)
        bound.launch()
        assert (qgraph.to_numpy(x) == 3).all()
    from cuda.bindings import driver

    _, stream = driver.cuStreamCreate(1)
    with qgraph.stream(int(stream)):
        counter[()] = 0
        bound.launch()
    interrupted(qgraph.synchronize)
    with qgraph.stream(int(stream)):
        counter[()] = 5
        x.fill(0)
        bound.launch()
    assert (qgraph.to_numpy(x) == 5).all()
    print("waits")


def left_behind() -> None:
    """A thread whose loop never ends does not keep the process from ending."""
    threading.Thread(target=lambda: counted_down(np.zeros(100), np.array(0)), daemon=True).start()
    time.sleep(0.2)
    print("left behind")


def main(names: list[str]) -> None:
    # A process that was started in the background of a shell ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in names:
        globals()[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
