"""What the parts of the generator share while they write one program: names, and what may still be spent."""

from __future__ import annotations

from collections.abc import Iterable

from tests.properties.choices import Choices
from tests.properties.expressions import Expressions
from tests.properties.features import Features
from tests.properties.functions import Functions
from tests.properties.values import domain


class State:
    """One program under construction.

    A memory, or a kernel scalar, has room for updates: what all executions of all ``+=`` on it can add, at most.
    """

    def __init__(self, choices: Choices, features: Features) -> None:
        self.choices = choices
        self.features = features
        self.functions = Functions()
        self.expressions = Expressions(choices, features, self.functions)
        self.tasks_left = features.most_tasks
        # Whether NumPy may refuse a statement, for lengths that only the device knows.
        self.may_fail = False
        self._room: dict[object, int] = {}
        self._names: dict[str, int] = {}

    def name(self, prefix: str) -> str:
        """A name that is not taken."""
        self._names[prefix] = self._names.get(prefix, -1) + 1
        return f"{prefix}{self._names[prefix]}"

    def number(self) -> int:
        """A number that is not taken."""
        self._names[""] = self._names.get("", -1) + 1
        return self._names[""]

    def set_room(self, key: object, dtype: str) -> None:
        """Give a memory or a scalar the upper half of its domain for updates; of several types, the least."""
        high = domain(dtype)[1]
        self._room[key] = min(self._room.get(key, high), high // 2)

    def spend(self, key: object, executions: int, most: int = 3) -> int:
        """How much each of that many updates may add, at most ``most``; 0 for no room."""
        step = min(most, self._room[key] // max(1, executions))
        self._room[key] -= step * executions
        return step


def indented(lines: Iterable[str]) -> list[str]:
    """A block's lines, one level further in."""
    return [f"    {line}" for line in lines]
