"""Why an edge is there: the memory that both nodes touch, and one of them changes."""

from __future__ import annotations

from collections.abc import Iterator

from qgraph.ir.plan import TURN, GraphPlan, Node
from qgraph.lowering.graph.dependencies import places_of, touched_places


def reasons(plan: GraphPlan) -> dict[tuple[int, int], str]:
    """For each edge of ``plan``, what the later node does to memory that the earlier one touches, in the user's words."""
    places = places_of(plan.program)
    return {
        (before, after): "; ".join(_conflicts(plan, plan.nodes[before], plan.nodes[after], places)) or "through a join"
        for before, after in plan.edges
    }


def _conflicts(plan: GraphPlan, earlier: Node, later: Node, places: dict[str, frozenset[str]]) -> Iterator[str]:
    first, second = earlier.effects, later.effects
    seen: set[str] = set()
    for verb, names, others, did in (
        ("reads", second.reads, first.writes, "writes"),
        ("writes", second.writes, first.writes, "writes too"),
        ("writes", second.writes, first.reads, "reads"),
    ):
        theirs = touched_places(others, places)
        touched = (name for name in names - {TURN} if touched_places((name,), places) & theirs)
        found = [each for each in plan.slot_text(touched) if each not in seen]
        seen.update(found)
        if found:
            yield f"{verb} {', '.join(found)}, which n{earlier.index} {did}"
    if TURN in first.writes & second.writes and not seen:
        yield "loops and branches take turns: drivers fail where several run at once"
