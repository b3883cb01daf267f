"""Unrolling of device loops: an iteration of a conditional node costs as much as a few kernels, of a host-driven loop more.

So a turn runs several copies of the body. Once the loop is over, the kernels of the copies that are left return at once.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.program import MANY, Counter, Effects, Loop, Task
from qgraph.ir.slots import Slot
from qgraph.ir.unrolling import ArraysOfCopies, CountedUnroll, Unrolling
from qgraph.lowering.codegen.generated_names import COPY, GUARD, HANDLE, NEXT, PEEKS, SLOTS, TOLD, WHOLE, Statements, generated
from qgraph.lowering.codegen.handed_on import hand_on
from qgraph.lowering.graph.dependencies import places_of, reduced, touched_places
from qgraph.lowering.graph.telling import first_told
from qgraph.operations import intrinsics
from qgraph.source import copied, nodes_of

# Copies of a body of so many nodes at most. On an H200 bodies of 2, 4 and 11 kernels took 0.31, 0.46 and 0.73 of the time with
# eight, 0.40, 0.54 and 0.78 with four: beside many kernels a turn costs little, and what is behind the end takes time, too.
# That 24 are the most is an estimate, and that a single kernel has 16.
COPIES = ((1, 16), (12, 8), (24, 4))


def unroll_loops(plan: GraphPlan) -> GraphPlan:
    """The plan in which each loop has its number of copies, or says why it has none. No node may change after this."""
    places = places_of(plan.program)
    nodes = list(plan.nodes)
    for node in plan.nodes:
        if node.kind != "while":
            continue
        refused = _refusal(plan, node)
        if refused:
            times = node.control.times if isinstance(node.control, Loop) else 1
            note = f"{times} iterations a turn, while more are left" if times > 1 else f"not unrolled: {refused}"
            nodes[node.index] = replace(node, note=note)
            continue
        copies = _copies(plan, node)
        note = f"unrolled {copies} times while it runs long, by the device or by a host that drives it"
        counted = _counted(plan, node, places)
        if counted is not None:
            shorter = f", {counted.few} times where it ends earlier" if counted.few < counted.copies else ""
            note = (
                f"unrolled {counted.copies} times while it runs long{shorter}, and counted once in so many; on large grids "
                f"{counted.whole} times while more iterations are left, then {counted.few}; by a host {copies} times"
            )
        carried = _carried(plan, node, _body(plan, node), places)
        arrays = () if counted is not None else _trading(plan, node, copies)
        handed = hand_on(plan, node, carried, arrays) if counted is None else None
        if handed is not None:
            arrays = ()
            note = f"{note}; there each block of the next kernel finishes a reduction, and no last block"
        nodes[node.index] = replace(
            node, copies=copies, carried=carried, arrays=arrays, counted=counted, handed=handed, note=note
        )
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


def _carried(
    plan: GraphPlan, node: Node, body: Sequence[Node], places: Mapping[str, frozenset[str]]
) -> tuple[tuple[int, int], ...]:
    """The edges from a copy of ``body`` to the next: a node waits for what it has an order with, and for the condition.

    Further than to the next copy no edge is needed: of two nodes that have an order one writes, so it has one with itself.
    """
    count = len(body)
    position = {each.index: number for number, each in enumerate(body)}
    inside = {(position[before], position[after]) for before, after in plan.edges if before in position and after in position}
    across = {
        (early, count + late)
        for early, before in enumerate(body)
        for late, after in enumerate(body)
        if decides(before, node) or _ordered(before.effects, after.effects, places)
    }
    if inside == {*itertools.pairwise(range(count))}:
        # Copies of a row of kernels are one, too: what small kernels take to part and to meet is more than they save.
        across.add((count - 1, count))
    both = reduced({*inside, *across, *((count + before, count + after) for before, after in inside)})
    return tuple((body[early].index, body[late - count].index) for early, late in both if early < count <= late)


def _ordered(first: Effects, second: Effects, places: Mapping[str, frozenset[str]]) -> bool:
    one, other = (touched_places(effects.touched, places) for effects in (first, second))
    return bool(touched_places(first.writes, places) & other or touched_places(second.writes, places) & one)


def decides(node: Node, loop: Node) -> bool:
    """Whether the kernel of ``node`` has the condition of ``loop``."""
    return isinstance(loop.control, Loop) and any(task is loop.control.condition for task in node.tasks)


# --- loops that count ---------------------------------------------------------------------------------------------------

# Copies of a body of so many nodes at most, without the one that counts: none of them waits for a condition, so more of them
# share what a turn costs.
_COUNTED_COPIES = ((2, 64), (6, 16), (12, 8))
# The same on large grids: without guards, so that none is there in vain, and the most with guards behind those.
_WHOLE_COPIES = ((2, 64), (6, 32), (12, 16))
_FEW = 8
_LONGEST_PERIOD = 16


def _counted(plan: GraphPlan, node: Node, places: Mapping[str, frozenset[str]]) -> CountedUnroll | None:
    """How a loop counts of which the host, or the device at its entry, knows how long it runs; None for any other.

    So nothing but its condition may touch what that writes; but iterations may read a variable that grows by steps. Names of
    arrays may change places, if before the loop each stands for one that is known.
    """
    loop = node.control
    if not isinstance(loop, Loop) or loop.counter is None:
        return None
    body = _body(plan, node)
    (counting,) = (each for each in body if decides(each, node))
    others = [each for each in body if each is not counting]
    if not others or any(task is not loop.condition and not task.moves for task in counting.tasks):
        return None
    moves = _moves(counting.tasks)
    moved = {slot.name for slot in moves}
    mine = loop.condition.effects
    for each in others:
        effects = each.effects
        # What writes nothing, as a loop that prints, has no order with its next copy: what counts would not wait for it.
        if not effects.writes or effects.writes & (mine.touched | moved):
            return None
        stepping = {slot.name for _, slot, _ in steps_in(each, loop.counter)}
        if effects.reads & mine.writes - stepping:
            return None
        if effects.reads & moved and not _finds_arrays(each, moved):
            return None
    start = _before(plan, node, moved)
    states = _states(start, moves) if start is not None else None
    if states is None:
        return None
    told = tuple(
        (each.index, first, each.task.every)
        for each in others
        if each.task is not None and each.task.every > 1 and (first := first_told(plan.program, loop, each.task)) is not None
    )
    copies, whole = (
        _telling(
            _periods(next((number for most, number in table if len(others) <= most), _copies(plan, node)), states), states, told
        )
        for table in (_COUNTED_COPIES, _WHOLE_COPIES)
    )
    arrays = _arrays((each for each in others if each.effects.reads & moved), states)
    carried = _carried(plan, node, others, places)
    few = min(copies, _periods(_FEW, states))
    return CountedUnroll(counting.index, loop.counter.left.index, copies, carried, arrays, len(states), whole, few, told)


def _arrays(nodes: Iterable[Node], states: Sequence[Mapping[str, int]]) -> ArraysOfCopies:
    """What the names of arrays in ``nodes`` stand for when the slots that select them are in each of ``states``."""
    return tuple(
        (each.index, tuple((s.local, tuple(s.leaves[state[s.slot.name]] for state in states)) for s in each.task.selections))
        for each in nodes
        if each.task is not None
    )


def _trading(plan: GraphPlan, node: Node, copies: int) -> ArraysOfCopies:
    """What names of arrays stand for in the copies of a loop that may end with any of them; none where that is not known.

    They change places once an iteration, behind all that looks at them, and after all copies each is back in its place.
    """
    body = _body(plan, node)
    looking = [(each, each.task.selections) for each in body if each.task is not None and each.task.selections]
    moving = [(each, task) for each in body for task in each.tasks if task.trades]
    if not looking or len(moving) != 1 or moving[0][1].selections:
        return ()
    if any(each.beside or each.index > moving[0][0].index for each, _ in looking):
        return ()
    moves = _moves([moving[0][1]], mixed=True)
    moved = {slot.name for slot in moves}
    others = any(task.effects.writes & moved for each in body for task in each.tasks if task is not moving[0][1])
    start = _before(plan, node, moved, mixed=True)
    states = _states(start, moves) if start is not None else None
    chosen = {each.slot.name for _, selections in looking for each in selections}
    if others or not chosen <= moved or states is None or copies % len(states):
        return ()
    return _arrays((each for each, _ in looking), states)


def _periods(copies: int, states: Sequence[object]) -> int:
    """About so many copies, after which all arrays are back in their places."""
    return max(1, copies // len(states)) * len(states)


def _telling(copies: int, states: Sequence[object], told: Sequence[tuple[int, int, int]]) -> int:
    """About so many copies: of those numbers down to a half of it, one with the fewest copies in which a row may be due."""
    if not told:
        return copies
    every = told[0][2]
    return max(range(copies, max(copies // 2, 1) - 1, -len(states)), key=lambda number: math.gcd(number, every))


def steps_in(node: Node, counter: Counter) -> list[tuple[str, Slot, ast.expr]]:
    """The variables of a counted loop that a kernel reads once, at its start: the local of each, its slot, and its step."""
    task = node.task
    if task is None or node.tasks != (task,):
        return []
    steps = {slot.name: step for slot, step in counter.steps}
    found = [(local, slot, steps[slot.name]) for local, slot in task.scalars if slot.name in steps]
    code = [*task.body, *(part for axis in task.axes for part in (axis.start, axis.step, axis.count))]
    read = {
        child.slice.value
        for statement in code
        for child in nodes_of(statement)
        if isinstance(child, ast.Subscript) and isinstance(child.slice, ast.Constant) and _is_scratch(child.value)
    }
    return [each for each in found if each[1].index not in read]


def _is_scratch(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == SLOTS.name


def _moves(tasks: Iterable[Task], *, mixed: bool = False) -> dict[Slot, Slot]:
    """For each slot that an iteration moves, the one that it takes its number from; ``mixed``: by tasks that do more, too."""
    found: dict[Slot, Slot] = {}
    for task in tasks:
        moves = task.trades if mixed else task.moves
        found |= {slot: found.get(source, source) for slot, source in moves if isinstance(source, Slot)}
    return found


def _finds_arrays(node: Node, moved: Set[str]) -> bool:
    """Whether all that a kernel wants to know of the slots ``moved`` is which arrays it has."""
    task = node.task
    return task is not None and node.tasks == (task,) and all(each.slot.name in moved for each in task.selections)


def _before(plan: GraphPlan, loop: Node, slots: Set[str], *, mixed: bool = False) -> dict[str, int] | None:
    """What lies in ``slots`` whenever the loop is entered; None where that is not known. ``mixed``: as of ``_moves``."""
    state: dict[str, int] = {}
    for index in plan.regions[loop.region].nodes:
        node = plan.nodes[index]
        if node is loop:
            break
        for task in node.tasks:
            known = {slot.name: number for slot, number in (task.trades if mixed else task.moves) if isinstance(number, int)}
            state |= known
            unknown = task.effects.writes - known.keys()
            state = {name: number for name, number in state.items() if name not in unknown}
        if not node.tasks:
            state = {name: number for name, number in state.items() if name not in node.effects.writes}
    return {name: state[name] for name in slots} if slots <= state.keys() else None


def _states(start: Mapping[str, int], moves: Mapping[Slot, Slot]) -> list[Mapping[str, int]] | None:
    """What lies in the slots in iteration 0, 1, ..., until that begins again; None where it takes long, or never does."""
    states = [start]
    while len(states) <= _LONGEST_PERIOD:
        last = states[-1]
        following = {slot.name: last[source.name] for slot, source in moves.items() if source.name in last}
        if len(following) < len(moves):
            return None
        if following == start:
            return states
        states.append(following)
    return None


# --- code ---------------------------------------------------------------------------------------------------------------


# The word that counts as it was before this iteration: a local of the kernel with the condition, given to functions in it.
TURN = "_turn"
_HALF = 0xFFFFFFFF


def guard(unrolling: Unrolling, node: Node) -> Statements:
    """What the kernel of ``node`` in an unrolled body does first; if it has the condition, the next copy must know, too."""
    if unrolling.counted is not None and node.index != unrolling.counted.node:
        # What that looks at changes between turns alone, so it need not wait before.
        seen = f"_peek_spread({SLOTS.name}, {GUARD.name}, {PEEKS.name})"
        return generated(f"if _is_over({SLOTS.name}, {GUARD.name}, {seen}, {COPY.name}): return")
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


def stepping(node: Node, counter: Counter) -> tuple[Node, list[ast.stmt]]:
    """The kernel of ``node``, and what follows its guard: the variables of the loop as they are in this copy."""
    found = steps_in(node, counter)
    if not found:
        return node, []
    assert node.task is not None
    names = {local for local, _, _ in found}
    scalars = tuple(each for each in node.task.scalars if each[0] not in names)
    task = replace(node.task, scalars=scalars, given=node.task.given | names)
    lines = [f"{local} = {SLOTS.name}[{slot.index}] + {COPY.name} * ({ast.unparse(step)})" for local, slot, step in found]
    return replace(node, task=task), generated("\n".join(lines))


def emit_counter_step(body: Statements, unrolling: Unrolling, counter: Counter, stop: int) -> Statements:
    """What the kernel that counts does in place of its ``body``: that of all iterations of a turn, where it is behind copies.

    All iterations of a turn are done at once, but of the last turn the last one, and those in which names of arrays would not
    be back in their places. A turn of copies without guards is never the last.
    """
    assert unrolling.counted is not None
    left, period = f"{SLOTS.name}[{counter.left.index}]", unrolling.counted.period
    return generated(
        f"_copies = {NEXT.name} >> 32",
        f"_left = {left}",
        _stopping(stop),
        "if _copies > 0:",
        f"    {MANY} = _copies if _left > _copies else (_left - 1) // {period} * {period}",
        f"    {TURN} += {MANY}",
        "    skip",
        "    if _left > _copies:",
        f"        {SLOTS.name}[{unrolling.turns}] = {TURN}",
        # Else what follows is one more turn, as it has been decided, but where the host ends the loop.
        f"        if {NEXT.name} & 1 or _stopping: {_decide(HANDLE.name, f'{left} > _copies and not _stopping')}",
        "while _copies == 0 or _left <= _copies:",
        "    body",
        f"    if _copies == 0 or {left} <= 0: break",
        f"    {TURN} = {SLOTS.name}[{unrolling.turns}]",
        f"if _copies > 0: {_spreading(counter, unrolling)}",
        skip=counter.skip,
        body=body,
    )


def _spreading(counter: Counter, unrolling: Unrolling) -> str:
    """A statement that tells all blocks how many iterations are left."""
    return f"_spread({SLOTS.name}, {unrolling.spread}, {SLOTS.name}[{counter.left.index}])"


def entering(task: Task, unrolling: Unrolling, counter: Counter) -> Task:
    """The task that enters a counted loop: the first turn must know how many iterations there are, and of which kind it is."""
    assert unrolling.counted is not None
    more = f"{SLOTS.name}[{counter.left.index}] > {unrolling.counted.whole}"
    whole = generated(f"if {WHOLE.name} != 0: {_decide(WHOLE.name, more)}")
    body = (*task.body, *generated(_spreading(counter, unrolling)), *whole)
    return replace(task, body=body, names={**task.names, "_spread": intrinsics.spread})


def _decide(handle: str, test: str) -> str:
    """The call that lets the while node with ``handle``, which is not 0, run another turn where ``test`` is true."""
    return f"_set_condition({SLOTS.name}, 0, {handle}, 1 if {test} else 0)"


def stopping(task: Task, stop: int, unrolling: Unrolling | None) -> Task:
    """The condition task of a loop: its end comes, too, where word ``stop`` of scratch is not 0, which it reads first.

    Of the copies in a turn of the device the last one does. A host that drives the loop need not launch the next turn.
    """
    if task.role != "condition":
        return task
    *others, last = copied(list(task.body))
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    last.value.args[-1] = ast.IfExp(ast.Name("_stopping", ast.Load()), ast.Constant(0), last.value.args[-1])
    look = _stopping(stop)
    if unrolling is not None and unrolling.counted is None:
        look += f" if {NEXT.name} == 0 or {NEXT.name} == {unrolling.guards + unrolling.copies} else False"
    body = (*generated(look), *others, last)
    return replace(task, body=body, names={**task.names, "_stopped": intrinsics.stopped})


def _stopping(stop: int) -> str:
    return f"_stopping = _stopped({SLOTS.name}, {stop})"


def emit_guard_store(task: Task, unrolling: Unrolling) -> Task:
    """The condition task of an unrolled loop: it counts iterations, and tells the next copy whether there is one more."""
    *others, last = copied(list(task.body))
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    assert isinstance(last.value.func, ast.Name)
    assert task.names[last.value.func.id] is intrinsics.set_condition
    again = ast.Assign([ast.Name("_again", ast.Store())], last.value.args[-1])
    last.value.args[-1] = ast.Name("_again", ast.Load())
    decided = generated(
        "again",
        # A handle is not 0 while the body runs, and a call takes longer than a test.
        "if _again == 0 or _handle == 0:",
        "    last",
        "if _again != 0:",
        f"    {SLOTS.name}[{unrolling.turns}] = {TURN} + 1",
        "else:",
        f"    _count = ({TURN} & {_HALF}) + 1",
        f"    {SLOTS.name}[{unrolling.turns}] = _count << 32",
        f"    if _count != {TURN} >> 32:",
        f"        {TOLD.name}[{unrolling.number}] = _count",
        f"if 0 < {NEXT.name} <= {_HALF}:",
        f"    {SLOTS.name}[{NEXT.name}] = _again",
        again=[again],
        last=[last],
    )
    return replace(task, body=(*others, *decided))
