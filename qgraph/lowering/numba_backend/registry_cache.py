"""Numba's contexts, refreshed once a compilation: they search all of Numba's modules for new declarations at each new call.

They also try what every function has declared for each call, twice for each function that is compiled: here once.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numba.core.imputils import builtin_registry

from qgraph.compat import numba
from qgraph.lowering.number_types.number_llvm import types

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
            self.install_registry(numba.first_registry(self))
            self.install_external_registry(builtin_registry)
        super().refresh()


_SUBSCRIPTS = (operator.getitem, operator.setitem)
# So many signatures are kept; each is some hundred bytes.
_MAX_RESOLVED = 10_000


class ResolvedOnce(_Context):
    """Mixin of a Numba typing context: keeps the signatures of Numba's own functions for arguments of plain types.

    The code that goes with a signature is with the function, and stays there. ``resolved`` is to be empty at first.
    """

    resolved: dict[tuple[Any, tuple[Any, ...]], Any]
    _flags: Any = None

    def resolve_for(self, flags: Any) -> None:
        """A compilation with ``flags`` begins: code was found for those of the last one."""
        if self._flags != flags or len(self.resolved) > _MAX_RESOLVED:
            self.resolved.clear()
            self._flags = flags

    def resolve_function_type(self, func: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """Numba's hook: the signature of a call."""
        if kws or not (type(func) is types.Function or func in _SUBSCRIPTS) or not all(map(_is_plain, args)):
            return super().resolve_function_type(func, args, kws)
        found = self.resolved.get((func, args))
        if found is None:
            found = self.resolved[func, args] = super().resolve_function_type(func, args, kws)
        return found


def _is_plain(item: Any) -> bool:
    """Whether a type says nothing about functions, which belong to one compilation."""
    if isinstance(item, types.UniTuple):
        return isinstance(item.dtype, types.Number)
    return isinstance(item, types.Number | types.Boolean | types.Array)
