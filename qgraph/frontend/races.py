"""Is a loop parallel? Independent and dependent are proved, each by a system over two different iterations.

Two accesses are *apart* when no two iterations can reach the same element (the system has no solution in integers:
``solver.py``), and they *meet* when two iterations surely do: a witness, checked symbol by symbol, for ranges that are long
enough (``witness.py``). Anything else is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from qgraph.errors import DataRaceError
from qgraph.frontend.accesses import Access, Accesses, Axis, LoopFacts, Variable
from qgraph.frontend.affine import Poly
from qgraph.frontend.commuting import commute, group, order_unseen
from qgraph.frontend.solver import Meeting, Solver
from qgraph.frontend.symbolic import Dim
from qgraph.frontend.walk import collect
from qgraph.program import Verdict
from qgraph.source import Span

__all__ = ["Axis", "Judgement", "LoopFacts", "judge"]

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


def judge(facts: LoopFacts) -> Judgement:
    """Decide whether the iterations of a loop are independent.

    Raises:
        DataRaceError: they are proved not to be, and the author did not say ``parallel(...)``.
    """
    accesses = collect(facts)
    solver = Solver(accesses.variables, facts.same, accesses.most)
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
    atomics = tuple(access for access in shared if group(access))
    races = [meeting for meeting in meetings if not commute(meeting.write, meeting.other)]
    verdict = _verdict(facts, accesses, races, atomics)
    taken = {id(access.node) for access in shared}
    owned = frozenset(id(a.node) for a in accesses.all if a.kind == "update" and id(a.node) not in taken)
    return Judgement(verdict, owned, atomics, accesses, _collisions(meetings))


def always_apart(first: Access, second: Access, touched: Accesses, same: Mapping[str, str]) -> bool:
    """Whether two accesses to one array never reach the same element, in whatever iterations."""
    if first.indices is None or second.indices is None or len(first.indices) != len(second.indices):
        return False
    solver = Solver(touched.variables, same, touched.most)
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
    solver = Solver(touched.variables, same, touched.most)
    if solver.at_most_one_iteration():
        return None
    for second in later:
        for first in earlier:
            if not (first.writes or second.writes) or order_unseen(first, second):
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


def _shared_updates(meetings: Sequence[Meeting]) -> tuple[Access, ...]:
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


def _collisions(meetings: Sequence[Meeting]) -> frozenset[frozenset[object]]:
    """The pairs of accesses, an atomic of the author's among them, that two iterations may do to one element."""
    return frozenset(
        frozenset((id(access.node), access.call) for access in (meeting.write, meeting.other))
        for meeting in meetings
        if meeting.relation != "apart" and "atomic" in (meeting.write.kind, meeting.other.kind)
    )


# --- verdicts and words ------------------------------------------------------------------------------------------------


def _verdict(facts: LoopFacts, accesses: Accesses, meetings: Sequence[Meeting], atomics: Sequence[Access]) -> Verdict:
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


def _doubt(meeting: Meeting) -> tuple[str, Span]:
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


def _race(facts: LoopFacts, accesses: Accesses, meeting: Meeting) -> DataRaceError:
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


def _example(meeting: Meeting) -> str:
    """Two iterations that meet, where both are plain numbers."""
    if not all(p.constant is not None and other.constant is not None for _, p, other in meeting.values):
        return ""
    first = ", ".join(f"{name} = {p}" for name, p, _ in meeting.values)
    second = ", ".join(f"{name} = {p}" for name, _, p in meeting.values)
    return f" (for example {first} and {second})"


def _hint(meeting: Meeting, accesses: Accesses, words: str) -> str:
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
