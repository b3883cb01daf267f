"""The variants and specialisations that a kernel keeps, and the guards of arguments that mean them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from qgraph.dispatch.specialisation import Specialisation
from qgraph.dispatch.variant import Aliases, Variant
from qgraph.records import dataclass
from qgraph.runtime.executors.launch_records import Stats

# Specialisations a kernel keeps; the one unused for longest goes when there are more.
MAX_SPECIALISATIONS = 64
# Argument types that a kernel reads without describing them.
_MAX_GUARDS = 8


@dataclass(frozen=True, slots=True)
class ArgumentGuard:
    """How arguments, global arrays included, of types that were seen before are read, and what they mean."""

    # Leaves, and whether a glance told that they share no memory; None where the arguments are of other types.
    read: Callable[[tuple[Any, ...]], tuple[tuple[Any, ...], bool] | None]
    variant: Variant
    # What ``set_backend`` had chosen.
    default: str | None
    # The stream of such a call, from its leaves, where it is one only and nothing is copied; 0 where there are no streams.
    stream: Callable[[tuple[Any, ...]], int] | None


class SpecialisationCache:
    """What one kernel was specialised for. It is changed under ``lock``, but for ``guards``, where an update may be lost.

    Attributes:
        guards: the ones that matched or came last.
        variants: by argument types, backend, device and the places of global arrays.
        specialisations: the one used last is at the end.
        counts: what the kernel did, but for what executables count that are alive.
    """

    __slots__ = ("_latest", "_lock", "counts", "guards", "specialisations", "variants")

    def __init__(self, lock: threading.RLock) -> None:
        self.guards: list[ArgumentGuard] = []
        self.variants: dict[Any, Variant] = {}
        self.specialisations: OrderedDict[Any, Specialisation] = OrderedDict()
        self.counts = Stats()
        self._lock = lock
        # The one used last.
        self._latest: Specialisation | None = None

    def find(self, variant: Variant, aliases: Aliases, leaves: tuple[Any, ...], *, tiles: bool = False) -> Specialisation:
        """The specialisation for these leaves; with ``tiles`` where they are large enough for them."""
        latest, key = self._latest, (variant, aliases, tiles)
        if latest is not None and latest.variant is variant and latest.aliases == aliases and not latest.by_size:
            return latest
        with self._lock:
            found = self.specialisations.get(key)
            if found is None:
                found = self.specialisations[key] = Specialisation(variant, aliases, tiles=tiles)
            self.specialisations.move_to_end(key)
            self._latest = found
            if len(self.specialisations) > MAX_SPECIALISATIONS:
                _, oldest = self.specialisations.popitem(last=False)
                self._retire(oldest)
                self.counts.evictions += 1
                self._drop_unused(oldest.variant)
        return self.find(variant, aliases, leaves, tiles=True) if found.has_large(leaves) else found

    def add(self, key: Any, variant: Variant) -> None:
        """Keep ``variant``, and let go of those that have no specialisation where there are many."""
        if len(self.variants) >= 2 * MAX_SPECIALISATIONS:
            self._drop_unused()
        self.variants[key] = variant

    def drop(self, key: Any) -> bool:
        """Let go of a variant and its specialisations; whether there was one."""
        variant = self.variants.pop(key, None)
        for other in [k for k, s in self.specialisations.items() if s.variant is variant]:
            self._retire(self.specialisations.pop(other))
        return variant is not None

    def _drop_unused(self, gone: Variant | None = None) -> None:
        """Let go of ``gone``, or of all variants, where they have no specialisation."""
        kept = {specialisation.variant for specialisation in self.specialisations.values()}
        if gone is not None:
            kept.update(variant for variant in self.variants.values() if variant is not gone)
        self.variants = {key: variant for key, variant in self.variants.items() if variant in kept}
        self.guards = [guard for guard in self.guards if guard.variant in kept]

    def add_guard(self, guard: ArgumentGuard) -> None:
        """Try ``guard`` first from now on."""
        self.guards = [guard, *self.guards[: _MAX_GUARDS - 1]]

    def forget_guards(self) -> None:
        """No argument was seen before."""
        self.guards, self._latest = [], None

    def close(self, variant: Variant | None = None) -> None:
        """Close all executables, or those of ``variant`` that are outdated; they are built anew when they are called."""
        for specialisation in self.specialisations.values():
            if variant is None or (specialisation.variant is variant and specialisation.outdated):
                self._retire(specialisation)

    def _retire(self, specialisation: Specialisation) -> None:
        self.counts.add(specialisation.executable)
        specialisation.close()

    def leave_graphs_behind(self) -> bool:
        """In a child process: graphs are the parent's, and nothing of them may be touched. Whether there were some."""
        gone = {key for key, variant in self.variants.items() if variant.backend == "cuda"}
        for key, specialisation in list(self.specialisations.items()):
            if specialisation.variant.backend == "cuda":
                self.counts.add(specialisation.abandon())
                del self.specialisations[key]
        self.variants = {key: variant for key, variant in self.variants.items() if key not in gone}
        return bool(gone)

    def clear(self) -> None:
        """Forget all, executables that are closed by now."""
        self.specialisations.clear()
        self.variants.clear()

    def stats(self) -> Stats:
        """What the kernel did so far, as a record of its own."""
        with self._lock:
            alive = [s.executable for s in self.specialisations.values() if s.executable is not None]
            counts = replace(self.counts, executables=len(alive))
        for executable in alive:
            counts.add(executable)
        return counts
