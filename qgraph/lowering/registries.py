"""Numba's contexts, which look for new declarations in all of its modules whenever a call is new: here once a compilation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba.core.imputils import builtin_registry

if TYPE_CHECKING:
    _Context = Any
else:
    _Context = object


class RefreshedOnce(_Context):
    """Mixin of a Numba context. ``fresh`` is to be False when a compilation begins."""

    fresh = False

    def refresh(self) -> None:
        """Numba's hook: take what was declared since the last time."""
        if not self.fresh:
            self.fresh = True
            super().refresh()


class SearchedOnce(RefreshedOnce):
    """Mixin of a Numba target context."""

    def refresh(self) -> None:
        """Numba's hook. Code that typing makes is declared in the target's first registry, that of others in Numba's own.

        A search for what is not there ends here, too: Numba looks for the code of constant indices before that of others.
        """
        if self.fresh:
            self.install_registry(next(iter(self._registries)))
            self.install_external_registry(builtin_registry)
        super().refresh()
