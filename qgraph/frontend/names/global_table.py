"""The globals of generated code: each object a body refers to, under a readable unique name."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Names:
    """Gives each object one identifier; the mapping becomes ``Task.names``."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.values: dict[str, object] = {}
        self._taken = set(taken)
        self._by_identity: dict[int, str] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """Names that no global may have: locals of the body."""
        self._taken.update(names)

    def add(self, value: object, wish: str) -> str:
        """The identifier for ``value``, made from ``wish`` the first time."""
        known = self._by_identity.get(id(value))
        if known is not None:
            return known
        base = re.sub(r"\W", "_", wish) or "value"
        name, number = base, 1
        while name in self.values or name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self.values[name] = value
        self._by_identity[id(value)] = name
        return name
