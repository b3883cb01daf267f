"""What a process that was forked from this one must not wait for, nor go on with.

``fork`` copies one thread. What the others had begun never ends there: a lock that one of them held stays held, a compiler that
one of them was in stays as it was, and threads that would run parallel loops are gone. So in the child qgraph's own locks are
free, parallel loops run on the thread that calls, and what cannot go on is refused by name.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from qgraph.compat import cpython, llvmlite, numba
from qgraph.errors import BackendError

WAYS_OUT = (
    "start processes by spawn: multiprocessing.get_context('spawn'), or DataLoader(..., multiprocessing_context='spawn'); "
    "or fork before {what}"
)


class _Forks:
    """What is known of it: one object a process.

    Attributes:
        alone: a word that is not 0 where the threads for parallel loops were left behind. Compiled code reads it.
    """

    def __init__(self) -> None:
        self.alone = ctypes.c_int64(0)
        self._locks: weakref.WeakSet[Any] = weakref.WeakSet()
        # Whether another thread was in a compiler.
        self._compiling = False

    def lock(self) -> threading.Lock:
        """A lock that is free in a child."""
        made = threading.Lock()
        self._locks.add(made)
        return made

    def rlock(self) -> threading.RLock:
        """The same, for a thread that takes it again."""
        made = threading.RLock()
        self._locks.add(made)
        return made

    def refuse_to_compile(self) -> None:
        """Compilers keep what they are doing to themselves: one that another thread was in at the fork cannot be used again.

        Raises:
            BackendError: there was one.
        """
        if self._compiling:
            raise BackendError(
                "this process was forked while another thread of its parent compiled, so that it cannot compile itself",
                hint=WAYS_OUT.format(what="a thread compiles"),
            )

    def in_child(self) -> None:
        """Before anything else runs in a child."""
        for lock in list(self._locks):
            self._compiling |= not cpython.freed(lock)
        if numba.has_threads():
            self.alone.value = 1
        # Whoever compiles, be it for qgraph or not, holds one of these.
        for find in (numba.fork_lock, llvmlite.fork_lock):
            try:
                lock = find()
            except BackendError:  # it has another place by now, so nobody knows who holds it
                self._compiling = True
                continue
            # This thread's own are no hindrance.
            if lock is not None and lock.acquire(blocking=False):
                lock.release()
            elif lock is not None:
                self._compiling = True
                cpython.freed(lock)


FORKS = _Forks()
lock: Callable[[], threading.Lock] = FORKS.lock
rlock: Callable[[], threading.RLock] = FORKS.rlock


def in_child(function: Callable[[], None]) -> None:
    """Have ``function`` run in each child, where there are any."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


in_child(FORKS.in_child)
