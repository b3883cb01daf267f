"""The addresses of a pool: which bytes are taken, which are free, and which are free for some work only."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import NamedTuple

from qgraph.records import dataclass

ALIGNMENT = 512


class Order(NamedTuple):
    """Work that may still use a block which was freed: nothing but what comes after that work may have it.

    Attributes:
        stream: the number of the stream after which it may be had, in a capture its handle; None where nobody knows it.
        capture: the number of the capture whose graph works on it; 0: none.
    """

    stream: int | None
    capture: int = 0


@dataclass(slots=True)
class _Hole:
    """Free bytes; those without an order are nobody's."""

    offset: int
    size: int
    order: Order | None


class Blocks:
    """Blocks within ``nbytes`` bytes, by their offsets. It touches no memory, and is not safe to use from several threads.

    Sizes are rounded up to ``ALIGNMENT``, and free neighbours of one order are one hole. The smallest hole that fits is taken;
    of equal ones that of the same order, which nobody else can have, and then the first.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes // ALIGNMENT * ALIGNMENT
        self.used = 0
        self._holes = [_Hole(0, self.nbytes, None)] if self.nbytes else []
        self._taken: dict[int, int] = {}

    @property
    def free(self) -> int:
        """Bytes that are not taken, whoever may have them."""
        return self.nbytes - self.used

    def largest(self, order: Order | None = None) -> int:
        """The size of the largest block that work of ``order`` can have."""
        return max((hole.size for hole in self._holes if _may_have(order, hole.order)), default=0)

    def orders(self) -> set[Order]:
        """Those of the holes."""
        return {hole.order for hole in self._holes if hole.order is not None}

    def take(self, nbytes: int, order: Order | None = None) -> int | None:
        """The offset of a block for work of ``order``; None where no hole is large enough."""
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        fitting = [hole for hole in self._holes if hole.size >= size and _may_have(order, hole.order)]
        if not fitting:
            return None
        hole = min(fitting, key=lambda each: (each.size, each.order is None))
        offset = hole.offset
        hole.offset += size
        hole.size -= size
        if not hole.size:
            self._holes.remove(hole)
        self._taken[offset] = size
        self.used += size
        return offset

    def give(self, offset: int, order: Order | None = None) -> None:
        """The block at ``offset`` is free again, for what comes after ``order``; ``KeyError`` if there is none."""
        size = self._taken.pop(offset)
        self.used -= size
        bisect.insort(self._holes, _Hole(offset, size, order), key=lambda hole: hole.offset)
        self._join()

    def reorder(self, now: Callable[[Order], Order | None]) -> None:
        """Who may have the holes of an order is ``now`` another one, or with None anybody."""
        for hole in self._holes:
            if hole.order is not None:
                hole.order = now(hole.order)
        self._join()

    def _join(self) -> None:
        joined: list[_Hole] = []
        for hole in self._holes:
            last = joined[-1] if joined else None
            if last is not None and last.offset + last.size == hole.offset and last.order == hole.order:
                last.size += hole.size
            else:
                joined.append(hole)
        self._holes = joined


def _may_have(order: Order | None, hole: Order | None) -> bool:
    return hole is None or (hole == order and hole.stream is not None)
