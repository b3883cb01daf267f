"""Is a loop parallel? Independent and dependent are proved, each by a system over two different iterations.

Two accesses are *apart* when no two iterations can reach the same element (the system has no solution in integers), and they
*meet* when two iterations surely do: a witness, checked symbol by symbol, for ranges that are long enough. Anything else is
not known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product
from typing import Literal

from qgraph.errors import DataRaceError
from qgraph.frontend.accesses import Access, Accesses, Axis, LoopFacts, Variable
from qgraph.frontend.affine import ONE, Monomial, Poly, infeasible, sizes_not_negative
from qgraph.frontend.symbolic import Dim, Index
from qgraph.frontend.walk import collect
from qgraph.program import Verdict
from qgraph.source import Span

__all__ = ["Axis", "Judgement", "LoopFacts", "judge"]

# Updates in one group may be done in any order: they become atomics where they collide, and are no race.
_GROUPS = {"+": "add", "-": "add", "&": "and", "|": "or", "^": "xor", "min": "min", "max": "max"}
# An unknown extent stands for a long one: a witness may use this many iterations.
_LONG = 1000
_MAX_STEPS = 800


# Why a loop is independent that may still reduce.
NOTHING_WRITTEN = "it writes no array"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a loop, and which updates must be atomic.

    ``atomics``: updates that two iterations may make to one element, with their operators. ``owned``: ``id`` of the statements
    of the updates whose elements each iteration provably has to itself. ``accesses``: all that the loop touches.
    ``collisions``: pairs of the author's atomics, or of one and an update, that two iterations may do to one element.
    """

    verdict: Verdict
    owned: frozenset[int]
    atomics: tuple[Access, ...]
    accesses: Accesses
    collisions: frozenset[frozenset[object]] = frozenset()

    def also(self, other: Judgement) -> Judgement:
        """What holds where either of two judgements on the same loop may apply."""
        weaker = other.verdict if other.verdict.kind == "assumed" else self.verdict
        known = {id(access.node) for access in self.atomics}
        more = tuple(access for access in other.atomics if id(access.node) not in known)
        return Judgement(
            weaker, self.owned & other.owned, self.atomics + more, self.accesses, self.collisions | other.collisions
        )


Relation = Literal["apart", "meet", "may"]


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Two accesses and what is known of them in different iterations; ``values``: an example, ((variable, p, p'), ...)."""

    write: Access
    other: Access
    relation: Relation
    values: tuple[tuple[str, Poly, Poly], ...] = ()
    # Not proved apart only because an index may be negative, which counts from the end.
    wraps: bool = False


def judge(facts: LoopFacts) -> Judgement:
    """Decide whether the iterations of a loop are independent.

    Raises:
        DataRaceError: they are proved not to be, and the author did not say ``parallel(...)``.
    """
    accesses = collect(facts)
    solver = _Solver(accesses.variables, facts.same, accesses.most)
    if solver.at_most_one_iteration():
        updates = frozenset(id(access.node) for access in accesses.all if access.kind == "update")
        return Judgement(Verdict("independent", "it has at most one iteration", facts.span), updates, (), accesses)
    meetings = [
        solver.relate(first, second)
        for at, first in enumerate(accesses.all)
        for second in accesses.all[at:]
        if (first.writes or second.writes) and solver.memory_of(first) == solver.memory_of(second)
    ]
    shared = _shared_updates(meetings)
    atomics = tuple(access for access in shared if _group(access))
    races = [meeting for meeting in meetings if not _commute(meeting.write, meeting.other)]
    verdict = _verdict(facts, accesses, races, atomics)
    taken = {id(access.node) for access in shared}
    owned = frozenset(id(a.node) for a in accesses.all if a.kind == "update" and id(a.node) not in taken)
    return Judgement(verdict, owned, atomics, accesses, _collisions(meetings))


def always_apart(first: Access, second: Access, touched: Accesses, same: Mapping[str, str]) -> bool:
    """Whether two accesses to one array never reach the same element, in whatever iterations."""
    if first.indices is None or second.indices is None or len(first.indices) != len(second.indices):
        return False
    solver = _Solver(touched.variables, same, touched.most)
    return solver.apart(first, solver.side(first, ""), solver.side(second, "'"), anywhere=True)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Accesses of an earlier and a later loop over one range, the element of which one iteration each may be another's."""

    earlier: Access
    later: Access
    # Proved, and not only not disproved.
    surely: bool


def crossing(
    earlier: Sequence[Access],
    later: Sequence[Access],
    touched: Accesses,
    same: Mapping[str, str],
    overlapping: Set[frozenset[str]],
) -> Crossing | None:
    """The first accesses by which an iteration of one loop may touch what another iteration of the other writes.

    None where there are none: then each iteration of the later loop may follow at once on that of the earlier one. Updates
    that both loops make by atomics, and of which nobody sees the order, may go to any element. ``overlapping``: pairs of
    arrays that share some memory.
    """
    solver = _Solver(touched.variables, same, touched.most)
    if solver.at_most_one_iteration():
        return None
    for second in later:
        for first in earlier:
            if not (first.writes or second.writes) or _order_unseen(first, second):
                continue
            memories = frozenset({solver.memory_of(first), solver.memory_of(second)})
            if len(memories) == 1:
                meeting = solver.relate(first, second)
                if meeting.relation != "apart":
                    return Crossing(first, second, meeting.relation == "meet")
            elif any({solver.memory_of(first), solver.memory_of(second)} == _memories(pair, same) for pair in overlapping):
                return Crossing(first, second, False)
    return None


def _memories(pair: frozenset[str], same: Mapping[str, str]) -> set[str]:
    return {same.get(name, name) for name in pair}


def _order_unseen(first: Access, second: Access) -> bool:
    """Whether both are atomic updates whose old values nobody takes, in any order to the same effect."""
    unseen = first.kind == second.kind == "atomic" and first.discarded and second.discarded
    return unseen and _atomic_group(first) == _atomic_group(second) in _GROUPS.values()


def _group(access: Access) -> str:
    """The kind of combination that an update does; "" if its order matters."""
    return _GROUPS.get(access.operator, "") if access.kind == "update" else ""


def _commute(first: Access, second: Access) -> bool:
    """Whether two accesses to one element are no race: both are atomic, or will be, and their order is free."""
    if first.kind == second.kind == "atomic":
        return True
    groups = {_atomic_group(access) if access.kind == "atomic" else _group(access) for access in (first, second)}
    return len(groups) == 1 and "" not in groups


def _atomic_group(access: Access) -> str:
    """The group of an atomic that the author wrote: ``atomic_sub`` goes with ``+=``, ``atomic_or_`` with ``|=``."""
    return access.operator.rstrip("_").replace("sub", "add")


def _shared_updates(meetings: Sequence[_Meeting]) -> tuple[Access, ...]:
    """Updates that may touch what another iteration updates, each statement once, in program order."""
    found: dict[int, Access] = {}
    for meeting in meetings:
        pair = (meeting.write, meeting.other)
        if meeting.relation == "apart" or not all(access.kind in ("update", "atomic") for access in pair):
            continue
        for access in pair:
            if access.kind == "update":
                found.setdefault(id(access.node), access)
    return tuple(sorted(found.values(), key=lambda access: (access.span.file, access.span.line, access.span.column)))


def _collisions(meetings: Sequence[_Meeting]) -> frozenset[frozenset[object]]:
    """The pairs of accesses, an atomic of the author's among them, that two iterations may do to one element."""
    return frozenset(
        frozenset((id(access.node), access.call) for access in (meeting.write, meeting.other))
        for meeting in meetings
        if meeting.relation != "apart" and "atomic" in (meeting.write.kind, meeting.other.kind)
    )


# --- verdicts and words ------------------------------------------------------------------------------------------------


def _verdict(facts: LoopFacts, accesses: Accesses, meetings: Sequence[_Meeting], atomics: Sequence[Access]) -> Verdict:
    if facts.asserted:
        return Verdict("asserted", f"the author wrote `{facts.text}`", facts.span)
    met = [meeting for meeting in meetings if meeting.relation == "meet"]
    if met:
        # What meets itself says most: the element does not vary with the loop.
        raise _race(facts, accesses, next((meeting for meeting in met if meeting.write is meeting.other), met[0]))
    for meeting in meetings:
        if meeting.relation == "may":
            return Verdict("assumed", *_doubt(meeting))
    note = "; updates that may collide are atomic" if atomics else ""
    for access in accesses.all:
        if access.writes and not any(access is atomic for atomic in atomics):
            return Verdict("independent", f"no iteration touches what another writes{note}", access.span)
    if atomics:
        return Verdict("independent", "it writes by atomic updates only", atomics[0].span)
    return Verdict("independent", NOTHING_WRITTEN, facts.span)


def _doubt(meeting: _Meeting) -> tuple[str, Span]:
    """Why nothing was proved, and the line that decides it."""
    pair = (meeting.write, meeting.other)
    for access in pair:
        if isinstance(access.node, ast.Call) and access.kind != "atomic":
            return f"what `{access.text}` does to its arrays is not known", access.span
        if access.indices is None or any(index is None or index is Dim.PART for index in access.indices):
            return f"the element that `{access.text}` means is known only when it runs", access.span
    if meeting.wraps:
        return f"`{meeting.write.text}` may have a negative index, which counts from the end", meeting.write.span
    for access in pair:
        if access.guarded:
            return f"`{access.text}` is {_done(access)} only under a condition", access.span
    if meeting.write is meeting.other:
        return f"two iterations may write the same element by `{meeting.write.text}`", meeting.write.span
    first, second = meeting.write, meeting.other
    return f"`{first.text}` and `{second.text}` may be the same element in different iterations", first.span


def _done(access: Access) -> str:
    return {"read": "read", "write": "written"}.get(access.kind, "updated")


def _race(facts: LoopFacts, accesses: Accesses, meeting: _Meeting) -> DataRaceError:
    write, other = meeting.write, meeting.other
    words = facts.text.strip()
    if write is other:
        also: tuple[tuple[str, Span], ...] = (("and here, by every other iteration that has the same index", facts.span),)
        found = f"different iterations of this parallel loop write the same element `{write.text}`"
    else:
        also = ((f"and here another iteration touches the same element ({_done(other)})", other.span),)
        found = f"iterations of this parallel loop are not independent: one writes `{write.text}`, another {_uses(other)} it"
    example = _example(meeting)
    also += tuple(("called here", call) for call in dict.fromkeys((write.call, other.call)) if call is not None)
    return DataRaceError(found + example, write.span, also=also, hint=_hint(meeting, accesses, words))


def _uses(access: Access) -> str:
    return {"read": "reads", "write": "writes"}.get(access.kind, "updates")


def _example(meeting: _Meeting) -> str:
    """Two iterations that meet, where both are plain numbers."""
    if not all(p.constant is not None and other.constant is not None for _, p, other in meeting.values):
        return ""
    first = ", ".join(f"{name} = {p}" for name, p, _ in meeting.values)
    second = ", ".join(f"{name} = {p}" for name, _, p in meeting.values)
    return f" (for example {first} and {second})"


def _hint(meeting: _Meeting, accesses: Accesses, words: str) -> str:
    write = meeting.write
    order = f"to run the iterations in order, use `qgraph.serial({words})`"
    if not _varies_with_all(write, accesses.variables):
        sums = [a for a in accesses.all if a.array == write.array and a.kind == "read" and a.indices == write.indices]
        if sums and write.kind == "write" and not write.loops:
            return f"{order}; to combine values of all iterations, update the element (`{write.text} += ...`)"
        return f"{order}: `{write.text}` does not vary with every variable of this loop"
    return f"{order}; or write to a second array; or, if you know better, say `qgraph.parallel({words})`"


def _varies_with_all(access: Access, variables: Sequence[Variable]) -> bool:
    used = frozenset[str]().union(*(index.symbols for index in access.indices or () if isinstance(index, Poly)))
    return all(variable.symbol in used for variable in variables)


# --- two iterations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trip:
    """A loop variable in one of the two iterations: it counts ``t``; the iteration happens when ``t`` and ``room`` are >= 0."""

    t: str
    value: Poly
    room: Poly | None
    last: Poly | None

    def substitute(self, values: Mapping[str, Poly]) -> _Trip:
        """The same with symbols replaced."""
        room, last = (None if poly is None else poly.substitute(values) for poly in (self.room, self.last))
        return _Trip(self.t, self.value.substitute(values), room, last)


@dataclass(frozen=True, slots=True)
class _Side:
    """One access in one iteration: every variable as a polynomial in counters and invariants."""

    trips: tuple[_Trip, ...]
    indices: tuple[Index, ...]
    bounds: tuple[Poly, ...]

    def substitute(self, values: Mapping[str, Poly]) -> _Side:
        """The same with symbols replaced."""
        return _Side(
            tuple(trip.substitute(values) for trip in self.trips),
            tuple(index.substitute(values) if isinstance(index, Poly) else index for index in self.indices),
            tuple(bound.substitute(values) for bound in self.bounds),
        )


class _Solver:
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

    def relate(self, first: Access, second: Access) -> _Meeting:
        """What is known of two accesses to one array; the one that writes comes first in the answer."""
        if not first.writes or (second.kind == "write" and first.kind != "write"):
            first, second = second, first
        key = (first.indices, first.loops, first.facts, second.indices, second.loops, second.facts, first is second)
        surely = not (first.guarded or second.guarded or (first.kind == "atomic") != (second.kind == "atomic"))
        surely = surely and not _commute(first, second)
        answer = self.known.get((key, surely))
        if answer is None:
            answer = self.known[key, surely] = self.decide(first, second, surely)
        return _Meeting(first, second, *answer)

    def decide(self, first: Access, second: Access, surely: bool) -> tuple[Relation, tuple[tuple[str, Poly, Poly], ...], bool]:
        """The relation of two accesses, an example where they meet, and whether a negative index is all that is in doubt."""
        if first.indices is None or second.indices is None or len(first.indices) != len(second.indices):
            return "may", (), False
        left, right = self.side(first, ""), self.side(second, "'")
        if self.apart(first, left, right):
            return "apart", (), False
        if surely:
            witness = _Witness(*self.longest(left, right), len(self.axes)).find()
            if witness is not None:
                pairs = zip(self.axes, left.trips, right.trips, strict=False)
                values = ((_word(x), a.value.substitute(witness), b.value.substitute(witness)) for x, a, b in pairs)
                return "meet", tuple(values), False
        return "may", (), self.apart(first, left, right, wrap=False)

    def side(self, access: Access, prime: str) -> _Side:
        values: dict[str, Poly] = {}
        trips = []
        for variable in (*self.axes, *access.loops):
            trip = _trip(variable, values, prime)
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
        return _Side(tuple(trips), indices, tuple(bounds))

    def growing(self, rooms: Sequence[Poly]) -> dict[str, Poly]:
        """The symbols that are limited, with which some of ``rooms`` grow, as the most that they can be."""
        terms = [term for room in rooms for term in room.terms]
        return {symbol: most for symbol, most in self.most.items() if any(m == (symbol,) and c > 0 for m, c in terms)}

    def longest(self, left: _Side, right: _Side) -> tuple[_Side, _Side]:
        """Both with the longest ranges that there can be: an extent of which nothing else is known stands for a long one."""
        most = self.growing([trip.room for trip in (*left.trips, *right.trips) if trip.room is not None])
        return (left.substitute(most), right.substitute(most)) if most else (left, right)

    # --- apart ---

    def apart(self, access: Access, left: _Side, right: _Side, *, wrap: bool = True, anywhere: bool = False) -> bool:
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

    def never(self, equalities: list[Poly], facts: list[Poly], left: _Side, right: _Side) -> bool:
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


def _trip(variable: Variable, values: Mapping[str, Poly], prime: str) -> _Trip:
    """A variable in the iteration marked by ``prime``, the outer ones being known as ``values``."""
    counter = f"{variable.symbol}.t{prime}"
    start = variable.start.substitute(values)
    value = start + variable.step * Poly.symbol(counter)
    step = variable.step.constant
    if variable.stop is None or not step:
        return _Trip(counter, value, None, None)
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
    return _Trip(counter, value, room, last)


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


# --- meet --------------------------------------------------------------------------------------------------------------


class _Witness:
    """Looks for two different iterations that surely reach one element: numbers for all counters, then checked exactly.

    Counters are tried near the start and at the end of their ranges; the equations give the rest.
    """

    def __init__(self, left: _Side, right: _Side, axes: int) -> None:
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

    def candidates(self, trip: _Trip, values: dict[str, Poly]) -> Iterator[Poly]:
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
