"""What an expression may read at one place of a program."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.properties.values import Value


@dataclass(frozen=True, slots=True)
class Extent:
    """A size that arrays share, under a number, with its value in each call of the program."""

    number: int
    sizes: tuple[int, ...]

    @property
    def least(self) -> int:
        return min(self.sizes)

    @property
    def most(self) -> int:
        return max(self.sizes)


@dataclass(frozen=True, slots=True)
class Array:
    """An array by the name that it has here. Those of one ``memory`` may share it; ``writable``: statements may store in it."""

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    memory: int
    writable: bool = True
    # Contiguous, and alone in its memory: it may change places with another of its type that was made where it was.
    movable: str = ""
    # Of a part of another array: that one's room.
    of: str = ""

    @property
    def room(self) -> str:
        """What it shares its room for updates with: all that it may be aliased to, or change places with."""
        return self.of or f"{self.dtype}{[extent.number for extent in self.shape]}"


@dataclass(frozen=True, slots=True)
class Counter:
    """An integer variable that is at least ``below``, and less than ``extent - above`` where there is an extent."""

    name: str
    low: int
    high: int
    extent: Extent | None = None
    below: int = 0
    above: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """An array that may be read here: anywhere, or only where the first indices are ``own`` (as text).

    ``whole``: that is one name for all of its indices.
    """

    array: Array
    own: tuple[str, ...] = ()
    whole: bool = False

    @property
    def rest(self) -> tuple[Extent, ...]:
        """The axes whose index is free."""
        return () if self.whole else self.array.shape[len(self.own) :]


@dataclass(frozen=True, slots=True)
class Scope:
    """All that can be named at a place. Scopes are never changed: a block makes a larger one of its own."""

    values: tuple[Value, ...] = ()
    counters: tuple[Counter, ...] = ()
    windows: tuple[Window, ...] = ()
    # How to write an extent here.
    extents: dict[Extent, tuple[str, ...]] = field(default_factory=dict)

    def nonempty(self, extent: Extent) -> bool:
        """Whether the extent is surely not 0 here: it never is, or a loop over it is running."""
        return extent.least > 0 or any(counter.extent is extent for counter in self.counters)
