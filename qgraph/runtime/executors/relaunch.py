"""A call that comes back: its arguments, and how the graph that has them now is launched with nothing else.

All of it is changed with the lock of its executable held.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from qgraph.errors import CudaError
from qgraph.runtime.driver import native
from qgraph.runtime.driver.driver import driver, failure
from qgraph.runtime.driver.stream import LASTING
from qgraph.runtime.values.prepared_call import Call, ReplayCode

# Launches of one call after which machine code makes them. To load the compiler takes 0.1 s, as these launches do.
_OFTEN = 50_000
# What the driver says of a stream that is not being captured.
_NOT_CAPTURED = (0, 0)


class Relaunch:
    """A repeated call. It holds no array: the caller's guard has shown that they are alive.

    Attributes:
        executable: the graph that has its arguments, a CUgraphExec; None where there is none whose launch is all.
        stream: on which it is launched.
        handle: that as the bindings' own type, which saves a conversion.
        direct: what ``native.launcher`` made for it, if anything.
        changes: how often the call came when the graph had the arguments of another one.
    """

    __slots__ = (
        *("__weakref__", "_context", "_counter", "_launch", "_lock", "_looks", "_owner", "_request", "_words"),
        *("changes", "direct", "executable", "handle", "stream"),
    )

    def __init__(self, owner: Any, lock: Any, counter: ctypes.c_int64, request: Call) -> None:
        self._owner, self._lock, self._counter = owner, lock, counter
        self._request = request.without_owners()
        self.changes = self._looks = 0
        self.executable: Any = None
        self.direct: Callable[[int], int | None] | None = None
        self._words = bytearray(8)

    def open(self, stream: int, context: int, executable: Any, launch: Callable[[Relaunch], Any] | None = None) -> None:
        """From now on a launch of ``executable`` on ``stream``, with this context current, is all that the call needs.

        It is launched by ``launch``, where that is not the driver's; this gives the code, or None, and nothing ran.
        """
        self.close()
        self.stream, self._context, self.executable, self._launch = stream, context, executable, launch
        self.handle = driver.CUstream(stream)
        if launch is None and native.may_launch():
            self.direct, self._words = native.launcher(stream, context, executable, self._lock, self._counter)

    def close(self) -> None:
        """From now on it is not."""
        self.executable = self.direct = None
        # Somebody may be about to call ``direct``.
        self._words[0] = 0

    def look(self, stream: int) -> Any:
        """What ``direct`` does, where that is None; and None, where there is no such graph."""
        with self._lock:
            if self.executable is None or stream != self.stream or driver.cuCtxGetId(None)[1] != self._context:
                return None
            if stream not in LASTING and driver.cuStreamIsCapturing(self.handle) != _NOT_CAPTURED:
                return None
            if self._launch is not None:
                code = self._launch(self)
            else:
                self._looks += 1
                if self._looks == _OFTEN:
                    native.want()
                    self.close()
                # A signal's handler may have launched something else meanwhile; from here on none can.
                executable = self.executable
                code = None if executable is None else driver.cuGraphLaunch(executable, self.handle)[0]
            if code == 0:
                self._counter.value += 1
            return code

    def launch(self, stream: int) -> tuple[Any, ...] | None:
        """Launch it on ``stream``, nothing assumed."""
        request = self._request
        numbers: tuple[Any, ...] | None = self._owner.launch(request if stream == request.stream else request.on(stream), self)
        return numbers


_STATEMENTS = """\
stream = find_stream()
direct = repeat.direct
code = repeat.look(stream) if direct is None else direct(stream)
if code is None:
    numbers = repeat.launch(stream)
elif code:
    raise refused(code)
else:
    numbers = None
""".splitlines()


def again(repeat: Relaunch, find_stream: Callable[[], int]) -> ReplayCode:
    """How ``repeat`` runs once more, on the stream that ``find_stream`` gives then.

    Raises as a launch does. Where the graph has its arguments, nothing but the driver's launch is left of it.
    """
    names = {"repeat": repeat, "find_stream": find_stream, "refused": _refused}

    def statements(_arrays: Sequence[str]) -> list[str]:
        return _STATEMENTS

    return ReplayCode((), names, statements)


def _refused(code: int) -> CudaError:
    return failure(driver.CUresult(code), "cuGraphLaunch")
