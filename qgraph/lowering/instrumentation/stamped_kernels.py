"""GraphPlan -> GraphPlan: kernels read the clock when they begin and end, for ``profile``.

One thread does, when what its kernel waits for is done, and for launch gaps one of each of the last blocks, at its end. The
nodes are those of the plan without stamps, fused as there. Neighbours that nothing orders run side by side, as there: the first
of them has the stamp, and they have one time together. All others run one after another. A node of its own reads the clock
before what is no kernel, and behind all nodes.
"""

from __future__ import annotations

import re
from dataclasses import field, replace

from qgraph.ir.plan import GraphPlan, Node
from qgraph.ir.profile_places import END, Place, joined
from qgraph.ir.program import Branch, Loop, Task
from qgraph.lowering.graph.dependencies import reduced
from qgraph.lowering.instrumentation.stamps import check_numbers, cleared, stamp_task, with_stamps
from qgraph.records import dataclass
from qgraph.source import Span

# Nodes whose time is that of the node before them.
_UNSEEN = ("join", "alloc", "free")
# The stamp of a node of its own until it has a number.
_BEFORE = -1


def with_stamped_kernels(plan: GraphPlan, *, in_block: bool, gaps: bool) -> GraphPlan:
    """``plan`` with stamps: its program has their places, and ``timed`` is the one for one block, where it may be one.

    Nodes whose ``stamp`` is not 0 begin with that stamp; with ``gaps`` kernels note their ends, too. Before loops are
    unrolled, so that copies come one after another, too.
    """
    plan, first = _with_own_nodes(plan, _side_by_side(plan))
    stamper = _Stamper(plan, first, gaps)
    places = tuple(stamper.region(0, None).places)
    check_numbers(plan.program, stamper.number)
    return replace(
        plan,
        program=replace(plan.program, places=places),
        nodes=tuple(stamper.nodes),
        edges=reduced({*plan.edges, *stamper.order}),
        timed=with_stamps(plan.program, stamper.number) if in_block else None,
    )


# --- side by side -------------------------------------------------------------------------------------------------------


def _side_by_side(plan: GraphPlan) -> dict[int, int]:
    """By node that nothing orders behind those right before it: the first of these, in program order."""
    earlier: dict[int, set[int]] = {}
    for before, after in sorted(plan.edges):
        earlier.setdefault(after, set()).update((before,), earlier.get(before, ()))
    found: dict[int, int] = {}
    for region in plan.regions:
        loop = None if region.parent is None else plan.nodes[region.parent].control
        together: list[int] = []
        for at in region.nodes:
            node = plan.nodes[at]
            if node.kind in _UNSEEN or _only_counts(node, loop):
                continue
            # What a conditional node waits for has a stamp that is known; copies of a body are iterations, which are counted.
            joins = node.control is None and (node.decision is None or node.decision.role == "condition")
            behind = bool(together) and (_only_decides(node) or _written_behind(node, plan.nodes[together[-1]]))
            if joins and behind and earlier.get(at, set()).isdisjoint(together):
                found[at] = together[0]
                together.append(at)
            else:
                together = [] if node.control is not None or _only_decides(node) else [at]
    return found


def _written_behind(node: Node, other: Node) -> bool:
    mine, its = node.span, other.span
    return mine.file == its.file and (mine.line, mine.column) > (its.line, its.column)


def _only_decides(node: Node) -> bool:
    """Whether its kernel decides whether a loop goes on or which branch runs, and does nothing else."""
    return node.decision is not None and _does_only(node, node.decision)


def _only_counts(node: Node, around: Loop | Branch | None) -> bool:
    """Whether all that its kernel does is to count the iterations of the loop around it."""
    return isinstance(around, Loop) and around.counter is not None and _does_only(node, around.condition)


def _does_only(node: Node, deciding: Task | None) -> bool:
    """Whether its kernel runs nothing but ``deciding``, and what lets names of arrays change places."""
    return bool(node.tasks) and all(task is deciding or task.moves for task in node.tasks)


# --- nodes of their own -------------------------------------------------------------------------------------------------


def _with_own_nodes(plan: GraphPlan, beside: dict[int, int]) -> tuple[GraphPlan, dict[int, int]]:
    """The plan with a node where no kernel can have the stamp, and one first of all that clears the array.

    ``beside`` is ``_side_by_side`` of the plan; that of the one with nodes more is given back.
    """
    program = plan.program
    made: list[Node] = []
    moved: dict[int, int] = {}
    regions: list[list[int]] = [[] for _ in plan.regions]

    def add(node: Node) -> None:
        regions[node.region].append(len(made))
        made.append(replace(node, index=len(made)))

    def own(task: Task, region: int, stamp: int, label: str = "") -> None:
        add(Node(0, "kernel", label or task.name, task.span, region, task=task, stamp=stamp))

    own(cleared(program), 0, 0)
    for node in plan.nodes:
        if node.index not in beside and _needs_node(plan, node):
            label = f"before the {node.kind} {node.label} of line {node.span.line}"
            own(stamp_task(program, len(made), node.span, [], "before"), node.region, _BEFORE, label)
        moved[node.index] = len(made)
        add(node)
    own(stamp_task(program, END, program.span, []), 0, END)
    stamped = replace(
        plan,
        nodes=tuple(made),
        edges=tuple(sorted((moved[before], moved[after]) for before, after in plan.edges)),
        regions=tuple(
            replace(region, parent=None if region.parent is None else moved[region.parent], nodes=tuple(regions[region.index]))
            for region in plan.regions
        ),
    )
    return stamped, {moved[node]: moved[first] for node, first in beside.items()}


def _needs_node(plan: GraphPlan, node: Node) -> bool:
    """Whether the stamp before a node is a node."""
    if node.what is not None:
        return node.kind not in _UNSEEN
    region = plan.regions[node.region]
    around = None if region.parent is None else plan.nodes[region.parent].control
    if not isinstance(around, Loop):
        return False
    # An iteration begins with it: no kernel is there that does, or none but the one that decides whether another follows.
    return node.index == region.nodes[0] and (node.control is not None or _does_only(node, around.condition))


# --- numbers ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Region:
    """Places of a region, the stamps of which one is the first in it, and those that are of the loop around."""

    places: list[Place] = field(default_factory=list)
    first: tuple[int, ...] = ()
    loose: tuple[int, ...] = ()

    def add(self, place: Place) -> None:
        # Copies of a body that does several iterations a turn have the same stamps.
        if all(each.own != place.own for each in self.places):
            self.places.append(place)


class _Stamper:
    """Gives nodes their stamps, and an order."""

    def __init__(self, plan: GraphPlan, first: dict[int, int], gaps: bool) -> None:
        self._plan, self._first, self._gaps = plan, first, gaps
        self.nodes = list(plan.nodes)
        self.number = END + 1
        self.order: list[tuple[int, int]] = []
        self._numbers: dict[object, int] = {}
        # By the identity of a task that decides: the stamp of its kernel, and whether that does nothing else.
        self._deciding: dict[int, tuple[int, bool]] = {}

    def region(self, index: int, loop: Loop | None) -> _Region:
        """Give the nodes of a region stamps; ``loop`` is the one whose body it is."""
        found = _Region()
        # What the next node waits for, and what one beside the last one does.
        last: tuple[int, ...] = ()
        earlier: tuple[int, ...] = ()
        # The stamp of a node of its own, which is that of what comes behind.
        before: tuple[int, ...] = ()
        turns = False
        for at in self._plan.regions[index].nodes:
            node = self.nodes[at]
            counts = _only_counts(node, loop)
            if counts:
                # It may count beside the iterations.
                found.loose += before
            if counts or node.kind in _UNSEEN:
                continue
            if at in self._first:
                self.order += [(each, at) for each in earlier]
                last += (at,)
                self.nodes[at] = replace(node, ends=self._gaps and node.what is None)
                continue
            self.order += [(each, at) for each in last]
            earlier, last = last, (at,)
            if node.control is not None:
                place = self._control(node, node.control, before)
                if turns and found.places[-1].spans == place.spans:
                    place = joined(found.places.pop(), place)
                found.add(place)
            elif node.what is not None:
                found.add(self._task(node, before))
            elif node.stamp != END and node.index > 0:
                stamp = self._stamp(node, loop)
                found.first = found.first or stamp
                if node.stamp != _BEFORE:
                    found.loose += before
                    self._kernel(node, *stamp, found)
                before = stamp
            # Between the two loops that one was made to is the kernel that enters the second.
            turns = (turns and node.task is not None) or (isinstance(node.control, Loop) and node.control.times > 1)
            before = before if node.stamp == _BEFORE else ()
        return found

    def _stamp(self, node: Node, loop: Loop | None) -> tuple[int]:
        """The stamp that a kernel begins with."""
        assert node.task is not None
        # Copies of a body, for several iterations a turn, have names with numbers, and are one statement.
        copied = loop is not None and loop.times > 1
        key = node.label if node.stamp == _BEFORE else re.sub(r"_\d+$", "", node.task.name) if copied else node.task.name
        number = self._numbers.setdefault((key, None if loop is None else loop.span), self.number)
        self.number += number == self.number
        self.nodes[node.index] = replace(node, stamp=number, ends=self._gaps and node.stamp != _BEFORE)
        return (number,)

    def _kernel(self, node: Node, stamp: int, found: _Region) -> None:
        """Note where a kernel stands, which may be that it belongs to a loop or branch."""
        decision, only = node.decision, _only_decides(node)
        if decision is not None:
            self._deciding[id(decision)] = stamp, only
        if not only:
            found.add(self._task(node, (stamp,)))
        elif decision is not None and decision.role == "condition":
            found.loose += (stamp,)

    def _task(self, node: Node, stamp: tuple[int, ...]) -> Place:
        """The place of a node, and of those beside it."""
        beside = (self.nodes[at] for at, first in self._first.items() if first == node.index)
        together = [each for each in (node, *beside) if not _only_decides(each)]
        work, serial = (tuple(span for each in together for span in _spans(each, role)) for role in ("loop", "serial"))
        return Place("task", work or serial or (node.span,), stamp, stamp, stamp, also=serial if work else ())

    def _control(self, node: Node, control: Loop | Branch, before: tuple[int, ...]) -> Place:
        decides = control.enter if isinstance(control, Loop) else control.decide
        stamp, only = (0, False) if decides is None else self._deciding[id(decides)]
        enters = before or ((stamp,) if only else ())
        mine = (*before, *((stamp,) if only else ()))
        if isinstance(control, Loop):
            (inside,) = (self.region(body, control) for body in node.bodies)
            own = tuple(dict.fromkeys((*mine, *inside.loose)))
            return Place("loop", (node.span,), enters, inside.first, own, (tuple(inside.places),))
        regions = tuple(tuple(self.region(body, None).places) for body in node.bodies)
        return Place("branch", (node.span,), enters, (stamp,), mine, regions)


def _spans(node: Node, role: str) -> tuple[Span, ...]:
    """Where what a node runs is written; what is no kernel counts as a loop."""
    if node.what is not None:
        return (node.span,) if role == "loop" else ()
    return tuple(each.span for task in node.tasks if task.role == role for each in task.written)
