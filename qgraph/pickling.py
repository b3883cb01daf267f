"""Kernels and funcs in pickles: as functions are, by module and name. A copy of one is itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from typing import Any, Self

from qgraph.errors import ArgumentError


class ByName:
    """Mixin of what marks a function, which is found again under its name."""

    __slots__ = ()
    __qualname__: str

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> str:
        """The name in its module, which is all that a pickle holds.

        Raises:
            ArgumentError: it has none, as in a function.
        """
        module, name = sys.modules.get(self.__module__), self.__qualname__
        if module is not None:
            if _at(module, name) is self:
                return name
            for other, value in list(vars(module).items()):
                if value is self:
                    return other
        raise ArgumentError(
            f"{self!r} cannot be pickled: it is not found as {self.__module__}.{name}",
            hint="a pickle holds its name, as it does a function's: define it at the top of a module, or in a class there",
        )


def not_pickled(found: str, hint: str) -> Callable[..., Any]:
    """The ``__reduce__`` of what belongs to one process."""

    def refuse(_self: object) -> str:
        raise ArgumentError(found, hint=hint)

    return refuse


def _at(module: object, name: str) -> object:
    try:
        return reduce(getattr, name.split("."), module)
    except AttributeError:
        return None
