"""That two accesses meet: two iterations, in numbers, that surely reach one element."""

from __future__ import annotations

from collections.abc import Iterator

from qgraph.frontend.affine import ONE, Poly, infeasible, sizes_not_negative
from qgraph.frontend.iterations import Side, Trip
from qgraph.frontend.symbolic import Dim

# An unknown extent stands for a long one: a witness may use this many iterations.
_LONG = 1000
_MAX_STEPS = 800


class Witness:
    """Looks for two different iterations that surely reach one element: numbers for all counters, then checked exactly.

    Counters are tried near the start and at the end of their ranges; the equations give the rest.
    """

    def __init__(self, left: Side, right: Side, axes: int) -> None:
        self.trips = [trip for pair in zip(left.trips[:axes], right.trips[:axes], strict=True) for trip in pair]
        self.distinct = [(self.trips[at].t, self.trips[at + 1].t) for at in range(0, len(self.trips), 2)]
        self.trips += [*left.trips[axes:], *right.trips[axes:]]
        self.bounds = [*left.bounds, *right.bounds]
        self.pairs = list(zip(left.indices, right.indices, strict=True))
        self.steps = 0

    def find(self) -> dict[str, Poly] | None:
        """Values of the counters, or None where no witness was found."""
        equations = []
        for a, b in self.pairs:
            if isinstance(a, Poly) and isinstance(b, Poly):
                equations.append(a - b)
            elif a is None or b is None or Dim.PART in (a, b):
                return None
        self.offsets = sorted({abs(dict(equation.terms).get((), 0)) for equation in equations} - {0, 1, 2, 3})
        return self.search({}, equations)

    def search(self, values: dict[str, Poly], equations: list[Poly]) -> dict[str, Poly] | None:
        """Try values for the counters that have none yet."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return None
        solved = self.propagate(values, equations)
        if solved is None:
            return None
        values, equations = solved
        trip = next((trip for trip in self.trips if trip.t not in values), None)
        if trip is None:
            return values if self.holds(values) else None
        for value in self.candidates(trip, values):
            step = {trip.t: value}
            found = self.search({**values, **step}, [equation.substitute(step) for equation in equations])
            if found is not None:
                return found
        return None

    def propagate(self, values: dict[str, Poly], equations: list[Poly]) -> tuple[dict[str, Poly], list[Poly]] | None:
        """Solve every equation with one counter left; None where an equation or a bound cannot hold."""
        values = dict(values)
        while True:
            left: list[Poly] = []
            step: dict[str, Poly] = {}
            for equation in equations:
                unknown = [name for name in equation.symbols if "@" in name]
                if not unknown and equation.terms:
                    return None
                if len(unknown) == 1 and not step:
                    value = _solve(equation, unknown[0])
                    if value is None:
                        return None
                    step = {unknown[0]: value}
                elif unknown:
                    left.append(equation)
            if not step:
                return (values, left) if self.possible(values) else None
            values.update(step)
            equations = [equation.substitute(step) for equation in left]

    def possible(self, values: dict[str, Poly]) -> bool:
        """Whether the iterations may still differ, and no bound is broken."""
        if all(t in values and other in values and values[t] == values[other] for t, other in self.distinct):
            return False
        return all((bound.substitute(values).constant or 0) >= 0 for bound in self.bounds)

    def candidates(self, trip: Trip, values: dict[str, Poly]) -> Iterator[Poly]:
        """Values to try for a counter, those of its range that are likely first."""
        numbers = [1, 0, 2, 3] if trip.t.endswith("'") else [0, 1, 2, 3]
        found = [Poly.const(number) for number in numbers + self.offsets]
        last = trip.last.substitute(values) if trip.last is not None else None
        if last is not None and not last.varies:
            found += [last, last - ONE]
        yield from dict.fromkeys(found)

    def holds(self, values: dict[str, Poly]) -> bool:
        """Whether the witness is one: counters in range, and no two extents that exclude each other."""
        long: list[Poly] = []
        for trip in self.trips:
            at, room = values[trip.t], trip.room.substitute(values) if trip.room is not None else None
            known = [part.constant for part in (at, room) if part is not None and part.constant is not None]
            if not known or min(known) < 0:
                return False  # Neither near the start nor near the end.
            long += [part - Poly.const(_LONG) for part in (at, room) if part is not None and part.constant is None]
        long += [bound.substitute(values) for bound in self.bounds]
        return not infeasible((), [*long, *sizes_not_negative(long)])


def _solve(equation: Poly, name: str) -> Poly | None:
    """The value of ``name`` that makes ``equation`` zero, where it is a polynomial that a counter can be."""
    parts = equation.split(name)
    if parts is None:
        return None
    factor, rest = parts
    if factor == ONE:
        return -rest
    if -factor == ONE:
        return rest
    quotient = (-rest).divided_by(factor)
    return None if quotient is None else Poly.const(quotient)
