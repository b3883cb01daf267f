"""Why an edge is there: the memory that both nodes touch, and one of them changes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator

from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import TURN, Effects, control_effects
from qgraph.lowering.graph.dependencies import places_of, touched_places
from qgraph.nodes.kind import kind_of


def reasons(plan: GraphPlan) -> dict[tuple[int, int], str]:
    """For each edge of ``plan``, what the later node does to memory that the earlier one touches, in the user's words."""
    places = places_of(plan.program)
    return {
        (before, after): "; ".join(_conflicts(plan, plan.nodes[before], plan.nodes[after], places)) or "through a join"
        for before, after in plan.edges
    }


def _conflicts(plan: GraphPlan, earlier: Node, later: Node, places: dict[str, frozenset[str]]) -> Iterator[str]:
    first, second = node_effects(earlier), node_effects(later)
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


def node_effects(node: Node) -> Effects:
    """What a node touches, with all that is in it."""
    if node.control is not None:
        return control_effects(node.control)
    if node.what is not None:
        return kind_of(node.what).touched
    return functools.reduce(operator.or_, (task.effects for task in node.tasks), Effects())
