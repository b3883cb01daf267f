"""Dispatch cache of a kernel: repeated calls, found by the identity of their arguments, each with a prepared launch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from qgraph.dispatch.specialisation import Specialisation
from qgraph.dispatch.variant import Variant
from qgraph.records import dataclass
from qgraph.runtime.arguments.backends import DEFAULTS
from qgraph.runtime.executors.launch_records import CapturedRun
from qgraph.runtime.values.prepared_call import Call

# Entries of a kernel's dispatch cache.
MAX_RECENT = 8

# The specialisation, the call as its executable took it, and what the kernel returned.
Launched = tuple[Specialisation, Call, Any]


@dataclass(slots=True, eq=False)
class LastRun:
    """The specialisation that a kernel ran last, or what it did, where that is not to be held."""

    specialisation: Specialisation | CapturedRun | None = None

    def let_go(self) -> None:
        """Hold what it did and no specialisation, which holds plans and the recorded graphs that are called in them."""
        ran = self.specialisation
        launched = None if ran is None else ran.launched
        self.specialisation = None if launched is None else CapturedRun(launched)


@dataclass(slots=True, eq=False)
class CachedCall:
    """A repeated call."""

    # Guard and launch: returns what the kernel returns, or ``CHANGED`` where the guard fails and nothing ran.
    run: Callable[[tuple[Any, ...]], Any]
    # Its recorded successor, whose guard is tried first after it.
    next: CachedCall | None = None


def still(variant: Variant, default: str | None) -> tuple[list[str], dict[str, Any]]:
    """Conditions of every guard, and what the names in them stand for: arguments like those that it saw mean ``variant``.

    ``default`` is what ``set_backend`` had chosen. All that was compiled in must be what it was, too.
    """
    names: dict[str, Any] = {"defaults": DEFAULTS, "default": default, "holds": variant.holds}
    return ["defaults.backend is default", "holds()"], names


def _no_key(*values: Any) -> None:
    """The key of any arguments, before there was a call."""


class DispatchCache:
    """The repeated calls of one kernel, by key.

    Calls read it without a lock: whatever they find, its guard says whether it is this call, and else it is found anew.
    """

    __slots__ = ("_calls", "_lock", "_numbers", "_ran", "_seen", "key", "last")

    def __init__(self, ran: LastRun, lock: threading.RLock) -> None:
        self._ran = ran
        self._lock = lock
        # The key of a call with these arguments, all positional; None for those that have none.
        self.key: Callable[..., tuple[Any, ...] | None] = _no_key
        # The last call, if nothing else ran since; the guard of the one that came after it is tried first.
        self.last: CachedCall | None = None
        # Which arguments are numbers: keys have their values.
        self._numbers: tuple[int, ...] | None = None
        # Keys of recent calls, and the calls that were repeated.
        self._seen: dict[tuple[Any, ...], None] = {}
        self._calls: dict[tuple[Any, ...] | None, CachedCall] = {}

    def find(self, key: tuple[Any, ...] | None) -> CachedCall | None:
        """The call with this key."""
        return self._calls.get(key)

    def watch_numbers(self, values: tuple[Any, ...]) -> None:
        """Put the values of arguments that are numbers now into keys."""
        from qgraph.runtime.arguments.guards import key_maker, numbers_among

        numbers = numbers_among(values)
        if numbers != self._numbers:
            self.key, self._numbers = key_maker(len(values), numbers), numbers

    def notice(self, key: tuple[Any, ...] | None, values: tuple[Any, ...], launched: Launched, default: str | None) -> None:
        """Cache this call when it comes a second time; ``set_backend`` had chosen ``default``."""
        if key is None or len(key) != len(values):
            key = self.key(*values)
            if key is None:
                return
        # A guard costs more to make than one call gains.
        if key in self._seen:
            self._remember(key, values, launched, default)
        else:
            if len(self._seen) >= MAX_RECENT:
                self._seen.clear()
            self._seen[key] = None

    def _remember(self, key: tuple[Any, ...], values: tuple[Any, ...], launched: Launched, default: str | None) -> None:
        specialisation, call, _ = launched
        executable = specialisation.executable
        found = None if executable is None else specialisation.again(executable, call, held=False)
        if found is None:
            return
        from qgraph.runtime.arguments.guards import repeater

        conditions, names = still(specialisation.variant, default)
        names |= {"specialisation": specialisation, "executable": executable, "ran": self._ran, "value": specialisation.value}
        # It is still the one to run.
        conditions.append("specialisation.executable is executable")
        returned = "None" if specialisation.plan.program.result is None else "value(numbers)"
        if specialisation.returns_arrays:
            returned = "specialisation.with_arrays(numbers, made)"
        done = ["ran.specialisation = specialisation", f"return {returned}"]
        again = repeater(values, found, conditions=conditions, done=done, names=names)
        if again is None:
            return
        with self._lock:
            self._forget_one(key)
            self._calls[key] = CachedCall(again)
            if len(self._calls) > MAX_RECENT:
                self._forget_one(next(iter(self._calls)))

    def _forget_one(self, key: tuple[Any, ...] | None) -> None:
        gone = self._calls.pop(key, None)
        for known in (gone, *self._calls.values()):
            if known is not None and (known is gone or known.next is gone):
                known.next = None

    def forget(self) -> None:
        """No call is known any more, but which came lately."""
        self.last = None
        self._ran.let_go()
        # They name each other, and would live on until the next collection.
        for known in self._calls.values():
            known.next = None
        self._calls.clear()

    def start_anew(self) -> None:
        """Other things are arguments from now on."""
        self.forget()
        self._seen.clear()
        self._numbers, self.key = None, _no_key
