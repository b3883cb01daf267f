"""Launch serialiser: graphs with conditional nodes on one device run one after another.

Driver 580.159 (CUDA 13.0) loses the whole context to CUDA_ERROR_LAUNCH_FAILED when several conditional nodes run at the same
time, while nodes among them: three in one graph are enough, and so are two graphs on two streams. It is the driver's fault
alone, as ``tests/gpu/while_nodes.cu`` shows without anything of ours. Inside a graph the plan keeps the nodes of loops and
branches apart; here launches are.
"""

from __future__ import annotations

import threading
from typing import Any

from qgraph.runtime.driver.driver import DeviceContext, call, driver, outside_captures
from qgraph.runtime.driver.stream import DEFAULT_STREAM, LEGACY, ONE_DEFAULT, Event


class LaunchSerialiser:
    """Whose turn it is on a device; get it with ``device.once(Turns)``.

    On the default stream, which is there always, one launch follows another by itself. The end of any other launch is marked
    by an event, since its stream may be gone when the next one comes.
    """

    def __init__(self, device: DeviceContext) -> None:
        # A signal handler may launch while this thread does.
        self._lock = threading.RLock()
        self._end = Event(device)
        # Whether the event marks the end of the last launch; if not, that was on the default stream.
        self._marked = False
        # Whether a launch was begun, and not finished: its end is marked by nothing.
        self._broken_off = False
        # Whether this thread is in the middle of a launch, which a signal handler may have interrupted.
        self._inside = False

    def launch(self, executable: Any, stream: Any) -> tuple[Any, ...]:
        """``cuGraphLaunch``, after all earlier launches; gives what that gives. The context must be current."""
        default = ONE_DEFAULT and int(stream) <= LEGACY
        with self._lock:
            if self._inside:
                return self._launch_between(executable, stream)
            if default and not self._marked and not self._broken_off:
                result: tuple[Any, ...] = driver.cuGraphLaunch(executable, stream)
                return result
            try:
                self._inside = True
                self._follow(stream)
                self._broken_off = True
                result = driver.cuGraphLaunch(executable, stream)
                if result[0] != 0:
                    # Where a stream is being captured a mark would belong to that graph.
                    return result
                if not default:
                    self._end.record(int(stream))
                self._marked = not default
                self._broken_off = False
                return result
            finally:
                self._inside = False

    def _launch_between(self, executable: Any, stream: Any) -> tuple[Any, ...]:
        # Nobody knows how far the interrupted launch came: all is done before this one, and this one before that goes on.
        before, self._broken_off = self._broken_off, True
        with outside_captures():
            call(driver.cuCtxSynchronize)
            result: tuple[Any, ...] = driver.cuGraphLaunch(executable, stream)
            call(driver.cuCtxSynchronize)
        self._broken_off = before
        return result

    def _follow(self, stream: Any) -> None:
        if self._broken_off:
            with outside_captures():
                call(driver.cuCtxSynchronize)
            return
        if not self._marked:
            self._end.record(DEFAULT_STREAM)
        self._end.wait(int(stream))
