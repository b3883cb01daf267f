"""Arguments of a call -> the arrays and numbers in them, which another library's operation takes one by one, and back."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from qgraph.errors import ArgumentError
from qgraph.records import dataclass

# What a number is in the schema of an operation, the class that it derives from first.
_NUMBERS: tuple[tuple[type, str], ...] = ((bool, "bool"), (int, "int"), (float, "float"), (complex, "complex"))
# What stands, with the name of its class, for an argument that a tracer cannot pass on.
REFUSED = "\0qgraph refuses: "


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item was: ``kind`` is array, bool, int, float or complex; ``cls`` what a number of NumPy's is made of again."""

    index: int
    kind: str
    cls: type | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """``structure`` are the arguments with a ``Place`` for each item; an array that is passed twice is one item.

    ``places`` are these in order, which is that of the leaves of a kernel; ``paths`` is how the user writes each item.
    """

    items: tuple[Any, ...]
    paths: tuple[str, ...]
    structure: tuple[Any, ...]
    places: tuple[Place, ...]

    def filled(self, items: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with other items."""
        return tuple(_filled(each, items) for each in self.structure)


def parts_of(
    names: Sequence[str], values: Sequence[Any], static: frozenset[str], kind_of: Callable[[Any], str | None], host: str
) -> Parts:
    """Take the arguments of a call apart.

    Args:
        names: how the user writes them.
        values: what was passed.
        static: the names of those that are constants.
        kind_of: the kind of a value as ``Place`` has it, for arrays and numbers of the other library; else None.
        host: how the other library's compiler is called.

    Raises:
        ArgumentError: an argument that no operation of that library takes, by its name.
    """
    items: list[Any] = []
    paths: list[str] = []
    places: list[Place] = []

    def visit(path: str, value: Any) -> Any:
        kind, cls = kind_of(value) or _number_kind(value), None
        if kind is None and isinstance(value, numpy.generic):
            kind, cls = _number_kind(value.item()), type(value)
        if kind is not None:
            same = [index for index, item in enumerate(items) if kind == "array" and item is value]
            place = Place(same[0] if same else len(items), kind, cls)
            if not same:
                items.append(value if cls is None else value.item())
                paths.append(path)
            places.append(place)
            return place
        if (value is None or isinstance(value, str | enum.Enum)) and not _is_refused(value):
            return value
        if isinstance(value, tuple):
            names = getattr(value, "_fields", range(len(value)))
            found = [
                visit(f"{path}.{name}" if isinstance(name, str) else f"{path}[{name}]", each)
                for name, each in zip(names, value, strict=True)
            ]
            return type(value)(*found) if hasattr(value, "_fields") else tuple(found)
        raise _unsupported(path, value, host)

    given = zip(names, values, strict=True)
    structure = tuple(_constant(name, value, host) if name in static else visit(name, value) for name, value in given)
    return Parts(tuple(items), tuple(paths), structure, tuple(places))


def _is_refused(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(REFUSED)


def _number_kind(value: Any) -> str | None:
    return next((kind for cls, kind in _NUMBERS if isinstance(value, cls)), None)


def _unsupported(path: str, value: Any, host: str) -> ArgumentError:
    name = value.removeprefix(REFUSED) if isinstance(value, str) else type(value).__name__
    return ArgumentError(
        f"argument `{path}`: an object of type {name} cannot be passed to a kernel in {host}",
        hint="pass its arrays and numbers as arguments of their own, or in tuples",
    )


def _constant(path: str, value: Any, host: str) -> Any:
    if _is_refused(value):
        raise _unsupported(path, value, host)
    # A number that a tracer keeps open is what it is now.
    return int(value) if hasattr(value, "__index__") and not isinstance(value, int | numpy.integer) else value


def _filled(value: Any, items: Sequence[Any]) -> Any:
    if isinstance(value, Place):
        item = items[value.index]
        return item if value.cls is None else value.cls(item)
    if isinstance(value, tuple):
        found = [_filled(each, items) for each in value]
        return type(value)(*found) if hasattr(value, "_fields") else tuple(found)
    return value
