"""Which loops are unrolled: a turn of a conditional node costs as much as a few kernels, a turn that the host decides more.

So a turn runs several copies of the body. Once the loop is over, the kernels of the copies that are left return at once.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from qgraph import language
from qgraph.lowering.dependencies import places_of, reduced, touched_places
from qgraph.lowering.reasons import node_effects
from qgraph.lowering.slot_source import GUARD, NEXT, SLOTS, TOLD, generated
from qgraph.plan import GraphPlan, Node, Unrolling
from qgraph.program import Effects, Loop, Task
from qgraph.source import copied

# Copies of a body of so many nodes at most. On an H200 bodies of 2, 4 and 11 kernels took 0.31, 0.46 and 0.73 of the time with
# eight, 0.40, 0.54 and 0.78 with four: beside many kernels a turn costs little, and what is behind the end takes time, too.
# That 24 are the most is an estimate.
COPIES = ((12, 8), (24, 4))


def unroll_loops(plan: GraphPlan) -> GraphPlan:
    """The plan in which each loop has its number of copies, or says why it has none. No node may change after this."""
    places = places_of(plan.program)
    nodes = list(plan.nodes)
    for node in plan.nodes:
        if node.kind != "while":
            continue
        refused = _refusal(plan, node)
        if refused:
            nodes[node.index] = replace(node, note=f"not unrolled: {refused}")
            continue
        copies = _copies(plan, node)
        note = f"unrolled {copies} times while it runs long, by the device or by a host that drives it"
        nodes[node.index] = replace(node, copies=copies, carried=_carried(plan, node, places), note=note)
    return replace(plan, nodes=tuple(nodes))


def _body(plan: GraphPlan, node: Node) -> list[Node]:
    return [plan.nodes[index] for body in node.bodies for index in plan.regions[body].nodes]


def _refusal(plan: GraphPlan, node: Node) -> str:
    """Why a loop is not unrolled; empty where it is."""
    body = _body(plan, node)
    if any(each.control is not None for each in body):
        return "there is a loop or branch in it"
    if any(each.kind != "kernel" for each in body):
        return "there is a node in it that is no kernel, and looks at no guard"
    if any(temporary.in_graph for temporary in plan.program.temporaries):
        return "the graph takes memory itself"
    if _copies(plan, node) == 1:
        return f"its body has more than {COPIES[-1][0]} nodes, beside which a turn costs little"
    return ""


def _copies(plan: GraphPlan, node: Node) -> int:
    nodes = len(_body(plan, node))
    return next((copies for most, copies in COPIES if nodes <= most), 1)


def _carried(plan: GraphPlan, node: Node, places: Mapping[str, frozenset[str]]) -> tuple[tuple[int, int], ...]:
    """The edges from a copy of a body to the next: a node waits for what it has an order with, and for the condition.

    Further than to the next copy no edge is needed: of two nodes that have an order one writes, so it has one with itself.
    """
    body = _body(plan, node)
    count = len(body)
    position = {each.index: number for number, each in enumerate(body)}
    inside = {(position[before], position[after]) for before, after in plan.edges if before in position and after in position}
    across = {
        (early, count + late)
        for early, before in enumerate(body)
        for late, after in enumerate(body)
        if decides(before, node) or _ordered(node_effects(before), node_effects(after), places)
    }
    both = reduced({*inside, *across, *((count + before, count + after) for before, after in inside)})
    return tuple((body[early].index, body[late - count].index) for early, late in both if early < count <= late)


def _ordered(first: Effects, second: Effects, places: Mapping[str, frozenset[str]]) -> bool:
    one, other = (touched_places(effects.reads | effects.writes, places) for effects in (first, second))
    return bool(touched_places(first.writes, places) & other or touched_places(second.writes, places) & one)


def decides(node: Node, loop: Node) -> bool:
    """Whether the kernel of ``node`` has the condition of ``loop``."""
    return isinstance(loop.control, Loop) and any(task is loop.control.condition for task in node.tasks)


# --- code ---------------------------------------------------------------------------------------------------------------


# The word that counts as it was before this iteration: a local of the kernel with the condition, given to functions in it.
TURN = "_turn"
_HALF = 0xFFFFFFFF


def guard(unrolling: Unrolling, node: Node) -> list[ast.stmt]:
    """What the kernel of ``node`` in an unrolled body does first; if it has the condition, the next copy must know, too."""
    deciding = node.decision is not None
    passed_on = f"        if _cuda.grid(1) == 0: {SLOTS.name}[{NEXT.name}] = 0\n" if deciding else ""
    # Loaded before the guard, and used at the end: nothing waits for it in between.
    count = f"{TURN} = {SLOTS.name}[{unrolling.turns}]\n" if deciding else ""
    if node.index not in unrolling.followers:
        return generated(f"{count}if {GUARD.name} > 0:\n    if {SLOTS.name}[{GUARD.name}] == 0:\n{passed_on}        return\n")
    # The first thing of all, and in any case, since after a branch it could not be before the wait for earlier kernels.
    going = f"_going = _peek({SLOTS.name}, {GUARD.name})\n"
    late = f"    if _going < 0: _going = {SLOTS.name}[{GUARD.name}]\n"
    return generated(f"{going}{count}if {GUARD.name} > 0:\n{late}    if _going == 0:\n{passed_on}        return\n")


def telling(task: Task, unrolling: Unrolling) -> Task:
    """The condition task of an unrolled loop: it counts iterations, and tells the next copy whether there is one more."""
    *others, last = copied(list(task.body))
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    assert isinstance(last.value.func, ast.Name)
    assert task.names[last.value.func.id] is language.set_condition
    again, decided, *after = generated(
        "_again = 0\n"
        # A handle is not 0 while the body runs, and a call takes longer than a test.
        "if _again == 0 or _handle == 0: pass\n"
        "if _again != 0:\n"
        f"    {SLOTS.name}[{unrolling.turns}] = {TURN} + 1\n"
        "else:\n"
        f"    _count = ({TURN} & {_HALF}) + 1\n"
        f"    {SLOTS.name}[{unrolling.turns}] = _count << 32\n"
        f"    if _count != {TURN} >> 32:\n"
        f"        {TOLD.name}[{unrolling.number}] = _count\n"
        f"if {NEXT.name} > 0:\n"
        f"    {SLOTS.name}[{NEXT.name}] = _again\n"
    )
    assert isinstance(again, ast.Assign)
    assert isinstance(decided, ast.If)
    again.value, last.value.args[-1] = last.value.args[-1], ast.Name("_again", ast.Load())
    decided.body = [last]
    return replace(task, body=(*others, again, decided, *after))
