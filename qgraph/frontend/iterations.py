"""One access of a loop in one iteration: its indices over counters of the loops, which are not negative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qgraph.frontend.accesses import Variable
from qgraph.frontend.affine import ONE, Poly
from qgraph.frontend.symbolic import Index


@dataclass(frozen=True, slots=True)
class Trip:
    """A loop variable in one of the two iterations: it counts ``t``; the iteration happens when ``t`` and ``room`` are >= 0."""

    t: str
    value: Poly
    room: Poly | None
    last: Poly | None

    def substitute(self, values: Mapping[str, Poly]) -> Trip:
        """The same with symbols replaced."""
        room, last = (None if poly is None else poly.substitute(values) for poly in (self.room, self.last))
        return Trip(self.t, self.value.substitute(values), room, last)


@dataclass(frozen=True, slots=True)
class Side:
    """One access in one iteration: every variable as a polynomial in counters and invariants."""

    trips: tuple[Trip, ...]
    indices: tuple[Index, ...]
    bounds: tuple[Poly, ...]

    def substitute(self, values: Mapping[str, Poly]) -> Side:
        """The same with symbols replaced."""
        return Side(
            tuple(trip.substitute(values) for trip in self.trips),
            tuple(index.substitute(values) if isinstance(index, Poly) else index for index in self.indices),
            tuple(bound.substitute(values) for bound in self.bounds),
        )


def trip_of(variable: Variable, values: Mapping[str, Poly], prime: str) -> Trip:
    """A variable in the iteration marked by ``prime``, the outer ones being known as ``values``."""
    counter = f"{variable.symbol}.t{prime}"
    start = variable.start.substitute(values)
    value = start + variable.step * Poly.symbol(counter)
    step = variable.step.constant
    if variable.stop is None or not step:
        return Trip(counter, value, None, None)
    stop = variable.stop.substitute(values)
    if step > 0:
        room, extent = stop - ONE - value, stop - start
    else:
        room, extent = value - stop - ONE, start - stop
    last: Poly | None = None
    if extent.constant is not None:
        last = Poly.const(-(-extent.constant // abs(step)) - 1)
    elif abs(step) == 1:
        last = extent - ONE
    return Trip(counter, value, room, last)
