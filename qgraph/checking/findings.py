"""What shadow memory found, as the errors that it means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from qgraph.errors import BoundsError, DataRaceError, QGraphError, UnwrittenError
from qgraph.ir.program import Task
from qgraph.lowering.instrumentation import shadow_memory as shadow
from qgraph.lowering.instrumentation.accesses import Access
from qgraph.records import dataclass
from qgraph.runtime.values.array_view import ArrayView
from qgraph.source import Span

Also = tuple[tuple[str, Span], ...]
# Verbs of messages: what an access does, and its participle.
_WRITES = {"load": "reads", "whole": "reads", "store": "writes", "fill": "writes"}
_DONE = {"reads": "read", "writes": "written", "updates": "updated"}
_SITES = (1 << shadow.SITE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Findings:
    """Makes errors: ``sites`` and ``loops`` by number, ``arrays`` by leaf with how the user writes each."""

    sites: Sequence[Access]
    loops: Sequence[Task]
    arrays: Sequence[tuple[str, str, ArrayView]]

    def errors(self, check: Any) -> Iterator[QGraphError]:
        """An error for each finding, in the order in which they were made."""
        for number in range(int(check[shadow.FOUND])):
            words = check[shadow.FIRST_FINDING + number * shadow.FINDING_WORDS :][: shadow.FINDING_WORDS]
            yield _Finding(self, [int(word) for word in words]).error()

    def element(self, address: int, site: Access) -> str:
        """How the user writes the element at ``address``: of the array that the access names, if it is in there."""
        own = [each for each in self.arrays if each[0] == site.array]
        for _, path, view in (*own, *self.arrays):
            index = index_of(view, address)
            if index is not None:
                return f"{path}[{', '.join(map(str, index)) or '()'}]"
        return site.text


def index_of(view: ArrayView, address: int) -> tuple[int, ...] | None:
    """The index of the element that has the byte at ``address``; None where it is between the elements, or outside."""
    low, high = view.span()
    if not low <= address < high:
        return None
    left = address - low
    index = [0] * view.ndim
    for axis in sorted(range(view.ndim), key=lambda axis: -abs(view.strides[axis])):
        stride, extent = view.strides[axis], view.shape[axis]
        if stride != 0 and extent > 1:
            steps = min(left // abs(stride), extent - 1)
            left -= steps * abs(stride)
            index[axis] = steps if stride > 0 else extent - 1 - steps
    return tuple(index) if left < view.dtype.itemsize else None


@dataclass(frozen=True, slots=True)
class _Finding:
    whole: Findings
    words: list[int]

    def error(self) -> QGraphError:
        kind, other, mine = self.words[:3]
        site = self.whole.sites[mine & _SITES]
        if kind == shadow.BOUNDS:
            return self._bounds(site)
        if kind == shadow.UNWRITTEN:
            return self._unwritten(site)
        return self._race((self.whole.sites[other & _SITES], self._iteration(other)), (site, self._iteration(mine)))

    # --- places ---------------------------------------------------------------------------------------------------------

    @property
    def _loop(self) -> Task | None:
        number = self.words[5]
        return None if number < 0 else self.whole.loops[number]

    def _header(self) -> Also:
        return () if self._loop is None else (("the loop is here", self._loop.span),)

    def _iteration(self, entry: int) -> str:
        """The loop variables of the iteration in an entry; empty outside of loops."""
        loop = self._loop
        if loop is None:
            return ""
        left = (entry >> shadow.SITE_BITS) - self.words[4]
        axes = self.words[shadow.FINDING_AXES :]
        values: list[int] = []
        for axis in reversed(range(min(len(loop.axes), shadow.MOST_AXES))):
            start, step, count = axes[3 * axis : 3 * axis + 3]
            left, at = divmod(left, max(count, 1))
            values.insert(0, start + at * step)
        if loop.index_tuple:
            return f"{loop.index_tuple} = ({', '.join(map(str, values))})"
        names = [axis.variable for axis in loop.axes]
        if any(name.startswith("_") for name in names):
            return f"iteration ({', '.join(map(str, values))})" if len(values) > 1 else f"iteration {values[0]}"
        return ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=False))

    # --- errors ---------------------------------------------------------------------------------------------------------

    def _bounds(self, site: Access) -> QGraphError:
        axis, index, extent = self.words[6:9]
        place = f"axis {axis}, which has" if site.axes > 1 else "an axis of"
        iteration = self._iteration(self.words[2])
        found = f"the index of `{site.text}` is out of bounds: {index} on {place} {extent} element{'s' * (extent != 1)}"
        return BoundsError(
            f"{found}{f' ({iteration})' if iteration else ''}",
            site.span,
            also=self._header(),
            hint=f"indices go from {-extent} to {extent - 1}" if extent else "it has no elements: no index is right",
        )

    def _unwritten(self, site: Access) -> QGraphError:
        element, iteration = self.whole.element(self.words[3], site), self._iteration(self.words[2])
        return UnwrittenError(
            f"`{site.text}` is read, and nobody wrote it before (`{element}`{f', {iteration}' if iteration else ''})",
            site.span,
            also=self._header(),
            hint="assign all its elements first, or make it with `qgraph.zeros(...)`",
        )

    def _race(self, first: tuple[Access, str], second: tuple[Access, str]) -> QGraphError:
        # The one that writes is told first, as by the refusals of loops that surely race.
        write, other = (second, first) if _uses(first[0]) == "reads" else (first, second)
        (site, at), (place, where) = write, other
        element = self.whole.element(self.words[3], site)
        does, touches = _uses(site), _uses(place)
        if site is place:
            found = f"different iterations of this parallel loop {does.removesuffix('s')} the same element `{site.text}`"
            also: Also = ()
        else:
            found = f"iterations of this parallel loop are not independent: one {does} `{site.text}`, another {touches} it"
            also = ((f"and here another iteration touches the same element ({_DONE[touches]})", place.span),)
        loop = self._loop
        assert loop is not None
        words = loop.span.text().removeprefix("for ").partition(" in ")[2]
        words = re.sub(r"^(?:\w+\.)*parallel\((.*)\)$", r"\1", words)
        ways = "run the iterations in order with `qgraph.serial(...)`, or write to a second array"
        if does == touches == "writes":
            ways += "; to combine the values of all iterations, update the element (`+=`)"
        return DataRaceError(
            f"{found} (`{element}`: {at} and {where})",
            site.span,
            also=(*also, *self._header()),
            hint=ways.replace("...", words) if words else ways,
        )


def _uses(site: Access) -> str:
    return _WRITES.get(site.kind, "updates")
