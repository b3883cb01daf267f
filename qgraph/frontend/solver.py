"""What is known of two accesses in two different iterations: that they are apart, that they meet, or neither.

They are apart where a system of equations and bounds has no solution in integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from qgraph.frontend.accesses import Access, Variable
from qgraph.frontend.affine import ONE, Monomial, Poly, infeasible, sizes_not_negative
from qgraph.frontend.commuting import commute
from qgraph.frontend.iterations import Side, trip_of
from qgraph.frontend.witness import Witness

Relation = Literal["apart", "meet", "may"]


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two accesses and what is known of them in different iterations; ``values``: an example, ((variable, p, p'), ...)."""

    write: Access
    other: Access
    relation: Relation
    values: tuple[tuple[str, Poly, Poly], ...] = ()
    # Not proved apart only because an index may be negative, which counts from the end.
    wraps: bool = False


class Solver:
    """Relates two accesses of a loop in two different iterations; answers are remembered by the indices."""

    def __init__(self, axes: Sequence[Variable], same: Mapping[str, str], most: Mapping[str, int]) -> None:
        self.axes = tuple(axes)
        self.most = {symbol: Poly.const(number) for symbol, number in most.items()}
        self.same = same
        self.known: dict[object, tuple[Relation, tuple[tuple[str, Poly, Poly], ...], bool]] = {}

    def memory_of(self, access: Access) -> str:
        """The leaf that stands for all leaves of the same memory."""
        return self.same.get(access.array, access.array)

    def at_most_one_iteration(self) -> bool:
        """Whether the ranges are known and have fewer than two iterations in all, whatever the arguments."""
        lengths = [self.length(axis) for axis in self.axes]
        if 0 in lengths:
            return True
        return all(length == 1 for length in lengths)

    def length(self, axis: Variable) -> int | None:
        """The number of iterations, or how many there are at most."""
        step, extent = axis.step.constant, axis.stop - axis.start if axis.stop is not None else None
        if step and extent is not None:
            extent = extent.substitute(self.growing([extent if step > 0 else -extent]))
        if not step or extent is None or extent.constant is None:
            return None
        return max(0, -(-extent.constant // step))

    def relate(self, first: Access, second: Access) -> Meeting:
        """What is known of two accesses to one array; the one that writes comes first in the answer."""
        if not first.writes or (second.kind == "write" and first.kind != "write"):
            first, second = second, first
        key = (first.indices, first.loops, first.facts, second.indices, second.loops, second.facts, first is second)
        surely = not (first.guarded or second.guarded or (first.kind == "atomic") != (second.kind == "atomic"))
        surely = surely and not commute(first, second)
        answer = self.known.get((key, surely))
        if answer is None:
            answer = self.known[key, surely] = self.decide(first, second, surely)
        return Meeting(first, second, *answer)

    def decide(self, first: Access, second: Access, surely: bool) -> tuple[Relation, tuple[tuple[str, Poly, Poly], ...], bool]:
        """The relation of two accesses, an example where they meet, and whether a negative index is all that is in doubt."""
        if first.indices is None or second.indices is None or len(first.indices) != len(second.indices):
            return "may", (), False
        left, right = self.side(first, ""), self.side(second, "'")
        if self.apart(first, left, right):
            return "apart", (), False
        if surely:
            witness = Witness(*self.longest(left, right), len(self.axes)).find()
            if witness is not None:
                pairs = zip(self.axes, left.trips, right.trips, strict=False)
                values = ((_word(x), a.value.substitute(witness), b.value.substitute(witness)) for x, a, b in pairs)
                return "meet", tuple(values), False
        return "may", (), self.apart(first, left, right, wrap=False)

    def side(self, access: Access, prime: str) -> Side:
        """``access`` in one iteration, whose counters are marked by ``prime``."""
        values: dict[str, Poly] = {}
        trips = []
        for variable in (*self.axes, *access.loops):
            trip = trip_of(variable, values, prime)
            values[variable.symbol] = trip.value
            trips.append(trip)
        assert access.indices is not None
        indices = tuple(index.substitute(values) if isinstance(index, Poly) else index for index in access.indices)
        bounds = [fact.substitute(values) for fact in access.facts]
        for trip in trips:
            bounds.append(Poly.symbol(trip.t))
            if trip.room is not None:
                bounds.append(trip.room)
        used = frozenset[str]().union(*(poly.symbols for poly in bounds))
        bounds += [most - Poly.symbol(symbol) for symbol, most in self.most.items() if symbol in used]
        return Side(tuple(trips), indices, tuple(bounds))

    def growing(self, rooms: Sequence[Poly]) -> dict[str, Poly]:
        """The symbols that are limited, with which some of ``rooms`` grow, as the most that they can be."""
        terms = [term for room in rooms for term in room.terms]
        # In a product they may make it smaller: `3 * n - n * n` is largest in between.
        multiplied = {symbol for m, _ in terms if len(m) > 1 for symbol in m}
        grown = {symbol for m, c in terms if c > 0 for symbol in m} - multiplied
        return {symbol: most for symbol, most in self.most.items() if symbol in grown}

    def longest(self, left: Side, right: Side) -> tuple[Side, Side]:
        """Both with the longest ranges that there can be: an extent of which nothing else is known stands for a long one."""
        most = self.growing([trip.room for trip in (*left.trips, *right.trips) if trip.room is not None])
        return (left.substitute(most), right.substitute(most)) if most else (left, right)

    # --- apart ---

    def apart(self, access: Access, left: Side, right: Side, *, wrap: bool = True, anywhere: bool = False) -> bool:
        """Whether no two different iterations reach one element, a negative index being counted from the end.

        ``anywhere``: nor does one iteration.
        """
        leaf = self.memory_of(access)
        modes: list[list[tuple[Poly, tuple[Poly, ...]]]] = []
        facts = (*left.bounds, *right.bounds)
        for at, (a, b) in enumerate(zip(left.indices, right.indices, strict=True)):
            if isinstance(a, Poly) and isinstance(b, Poly):
                size = Poly.symbol(f"#{leaf}.shape[{at}]")
                modes.append(_coincidences(a, b, size, facts) if wrap else [(a - b, ())])
        for choice in product(*modes):
            known = [*facts, *(fact for _, wrapped in choice for fact in wrapped)]
            equalities = [equality for equality, _ in choice]
            if not (_contradicts(known, equalities) if anywhere else self.never(equalities, known, left, right)):
                return False
        return True

    def never(self, equalities: list[Poly], facts: list[Poly], left: Side, right: Side) -> bool:
        """Whether the equalities have no solution in two different iterations."""
        common = [(a.t, b.t) for a, b in zip(left.trips, right.trips, strict=False) if a.t + "'" == b.t]
        axes, inner = common[: len(self.axes)], common[len(self.axes) :]
        axes.sort(key=lambda pair: _weight(pair[0], equalities), reverse=True)
        if _all_cases_fail(equalities, facts, axes):
            return True
        used = frozenset[str]().union(*(equality.symbols for equality in equalities))
        inner = [pair for pair in inner if pair[0] in used]
        mixed = sorted(axes + inner, key=lambda pair: _weight(pair[0], equalities), reverse=True)
        return bool(inner) and _all_cases_fail(equalities, facts, mixed)


def _word(variable: Variable) -> str:
    return variable.symbol.split("@")[0]


def _coincidences(a: Poly, b: Poly, size: Poly, facts: Sequence[Poly]) -> list[tuple[Poly, tuple[Poly, ...]]]:
    """The ways in which two indices of a dimension are one element: equal, or apart by the size with one negative."""
    ways: list[tuple[Poly, tuple[Poly, ...]]] = [(a - b, ())]
    for one, other in ((a, b), (b, a)):
        wrapped = (-other - ONE, other + size, one, size - ONE - one)
        if not _contradicts([*facts, *wrapped[:1]]) and not _contradicts([*facts, *wrapped], [one - other - size]):
            ways.append((one - other - size, wrapped))
    return ways


def _contradicts(facts: Sequence[Poly], equalities: Sequence[Poly] = ()) -> bool:
    known = [*facts, *sizes_not_negative([*facts, *equalities])]
    return infeasible(equalities, known) or infeasible(equalities, [*known, *_products(known, equalities, facts)])


def _all_cases_fail(equalities: Sequence[Poly], facts: Sequence[Poly], pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether there is no solution in which some pair of counters differs.

    The cases: the first pair differs; the first is equal and the second differs; and so on, with both signs each.
    """
    equal: dict[str, Poly] = {}
    for t, other in pairs:
        rows = [equality.substitute(equal) for equality in equalities]
        known = [fact.substitute(equal) for fact in facts]
        distance = Poly.symbol(other) - Poly.symbol(t)
        for difference in (distance - ONE, -distance - ONE):
            if not _contradicts([difference, *known], rows):
                return False
        equal[other] = Poly.symbol(t)
    return True


def _weight(t: str, polys: Sequence[Poly]) -> tuple[int, int]:
    """How strongly a counter counts in an index: the degree of its factor, then the factor itself."""
    weights = [(len(monomial), abs(c)) for poly in polys for monomial, c in poly.terms if t in monomial]
    return max(weights, default=(0, 0))


def _products(known: Sequence[Poly], equalities: Sequence[Poly], facts: Sequence[Poly]) -> list[Poly]:
    """Bounds of counters times the sizes that multiply these counters somewhere: what makes ``i * m + j`` linear."""
    factors = _factors([*known, *equalities])
    positive = {name: name.startswith("#") or ".t" in name for _, factor in factors for name in factor}
    for name, is_known in positive.items():
        positive[name] = is_known or infeasible((), [*known, -Poly.symbol(name) - ONE])
    found: list[Poly] = []
    for t, factor in factors:
        if all(positive[name] for name in factor):
            by = Poly.of({factor: 1})
            found.extend(fact * by for fact in facts if (t,) in dict(fact.terms))
    return list(dict.fromkeys(found))


def _factors(polys: Sequence[Poly]) -> list[tuple[str, Monomial]]:
    """(counter, the rest of a monomial that holds it), each once."""
    found: dict[tuple[str, Monomial], None] = {}
    for poly in polys:
        for monomial, _ in poly.terms:
            for at, name in enumerate(monomial):
                if len(monomial) > 1 and "@" in name:
                    found[name, monomial[:at] + monomial[at + 1 :]] = None
    return list(found)
