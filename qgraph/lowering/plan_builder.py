"""Program -> GraphPlan: one node a task, one conditional node a device loop or branch, edges from effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qgraph.ir.plan import GraphPlan, IndependentSections, Node, Region, control_effects, task_label
from qgraph.ir.profile_places import Profiles
from qgraph.ir.program import (
    Branch,
    Effects,
    Loop,
    NodeRecord,
    NodeStatement,
    Program,
    Statement,
    Task,
    TaskStatement,
    Temporary,
)
from qgraph.lowering.codegen.cooperative_rows import lane_notes
from qgraph.lowering.codegen.thread_mapping import jam_notes
from qgraph.lowering.codegen.unrolling import unroll_loops
from qgraph.lowering.graph.dependencies import edges_of, places_of
from qgraph.lowering.graph.epilogue_fusion import fold_statements
from qgraph.lowering.graph.horizontal_fusion import put_side_by_side
from qgraph.lowering.graph.memory_reuse import share_memory
from qgraph.lowering.graph.single_block import consider_one_block
from qgraph.lowering.graph.telling import tell_apart
from qgraph.lowering.instrumentation.early_exits import with_early_exits
from qgraph.lowering.instrumentation.stamped_kernels import with_stamped_kernels
from qgraph.lowering.instrumentation.stamps import with_stamps
from qgraph.lowering.loops.neighbours import with_near_neighbours
from qgraph.lowering.loops.repeated_bodies import repeat_bodies
from qgraph.nodes.allocation import lifetimes, planned
from qgraph.nodes.join import add_joins
from qgraph.nodes.kind import Planned, statement_kind
from qgraph.nodes.registry import LOOPS
from qgraph.polyhedral.array_sections import Section
from qgraph.source import Span
from qgraph.stack import compiling


@compiling
def build_plan(
    program: Program,
    *,
    fuse: bool = False,
    one_block: bool = False,
    bounds_check: bool = False,
    as_graph: bool = True,
    shared: int | None = None,
    timed: Profiles = "",
    tiles: bool = False,
) -> GraphPlan:
    """The graph of ``program``, bodies of device loops included.

    ``fuse``: independent loops share a kernel. ``one_block``: the plan says whether all of it may run as one block.
    ``bounds_check``: indices are looked at, in a program that was built to check them. ``as_graph``: it will be a graph, in
    which a turn of a loop costs as much as a few nodes. ``shared``: bytes of shared memory that a block of threads may have on
    CUDA, where blocks have the shapes that loops like best. ``timed``: what it notes for a profile (``with_words``).
    ``tiles``: arrays are large enough for them, with ``fuse``; else host values say whether those of a call are.
    """
    # Checks first: where one fails, the iteration ends.
    if bounds_check:
        # Not otherwise: its words are about Numba's types.
        from qgraph.lowering.instrumentation.bounds_checks import with_bounds_checks

        program = with_bounds_checks(program)
    program = with_early_exits(program)
    if fuse and not bounds_check and (shared is not None or not as_graph):
        # Read where it is asked for, as what looks for wavefronts is: 10 ms that a first call waits.
        from qgraph.lowering.loops.overlapped_tiles import tile_loops

        program = tile_loops(program, shared, tiles=tiles)
    program = with_near_neighbours(program)
    if as_graph:
        program = repeat_bodies(tell_apart(program))
    elif timed:
        program = with_stamps(program)
    program = share_memory(program, in_order=not as_graph)
    builder = _Builder(program)
    builder.region(program.body, None, None)
    plan = GraphPlan(
        program,
        tuple(builder.nodes),
        tuple(sorted(builder.edges)),
        tuple(Region(index, parent, tuple(nodes)) for index, (parent, nodes) in enumerate(builder.regions)),
        apart=tuple(builder.apart),
    )
    # Fills first: what is no kernel takes no statements. Joins last: they stand between nodes, whatever kind those are.
    plan = fold_statements(replace(plan, nodes=tuple(_marked(program, node) for node in plan.nodes)))
    plan = put_side_by_side(plan) if fuse else plan
    block = consider_one_block(plan).one_block if one_block else None
    if timed and as_graph:
        plan = with_stamped_kernels(plan, in_block=block is not None and not block.why_not, gaps=timed == "gaps")
    return replace(jam_notes(lane_notes(unroll_loops(add_joins(plan)))), one_block=block)


def _marked(program: Program, node: Node) -> Node:
    """The node as one of another kind, where its loop is nothing but that.

    Only in the root of the graph: a memset in the body of a conditional node cannot be updated when arrays change.
    """
    if node.task is None or node.region != 0:
        return node
    found = next(filter(None, (kind.of_loop(program, node.task) for kind in LOOPS)), None)
    return node if found is None else replace(node, kind=found.name, what=found)


class _Builder:
    """Nodes are numbered in program order; a conditional node comes before the nodes of its bodies."""

    def __init__(self, program: Program) -> None:
        self._places = places_of(program)
        self._lifetimes = lifetimes(program)
        self.nodes: list[Node] = []
        self.edges: list[tuple[int, int]] = []
        self.regions: list[tuple[int | None, list[int]]] = []
        self.apart: list[IndependentSections] = []

    def region(self, statements: tuple[Statement, ...], parent: int | None, condition: Task | None) -> int:
        """Add a region for ``statements``, and behind them the condition of the loop whose body it is."""
        index = len(self.regions)
        self.regions.append((parent, []))
        touched: list[tuple[int, Effects]] = []
        # CUDA keeps the bodies of conditional nodes free of allocations.
        starts, ends = self._lifetimes if parent is None else ({}, {})
        for position, statement in enumerate(statements):
            touched += [self._memory(index, "alloc", temporary) for temporary in starts.get(position, ())]
            touched += self._statement(index, statement)
            touched += [self._memory(index, "free", temporary) for temporary in ends.get(position, ())]
        if condition is not None:
            touched.append((self._kernel(index, condition), condition.effects))
        sections = {node: task.sections for node, _ in touched if (task := self.nodes[node].task) is not None}
        unordered: list[tuple[int, int, Section, Section]] = []
        self.edges += edges_of(touched, self._places, sections, unordered)
        # Names of arrays come from a set.
        self.apart += sorted((self._apart(*each) for each in unordered), key=lambda apart: (apart.line, str(apart)))
        return index

    def _statement(self, region: int, statement: Statement) -> Iterator[tuple[int, Effects]]:
        """Add the nodes of a statement, and give each with what it touches."""
        if isinstance(statement, NodeStatement):
            for each in statement_kind(statement).planned():
                yield self._other(region, each, statement, statement.span)
            return
        before = statement.task if isinstance(statement, TaskStatement) else _before(statement)
        if before is not None:
            yield self._kernel(region, before), before.effects
        if not isinstance(statement, TaskStatement):
            yield self._conditional(region, statement), control_effects(statement)

    def _apart(self, before: int, after: int, first: Section, second: Section) -> IndependentSections:
        earlier, later = self.nodes[before].task, self.nodes[after].task
        assert earlier is not None
        assert later is not None
        return IndependentSections(earlier.name, later.name, earlier.span.line, first.text, second.text)

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        self.regions[node.region][1].append(node.index)
        return node.index

    def _kernel(self, region: int, task: Task) -> int:
        return self._add(Node(len(self.nodes), "kernel", task_label(task), task.span, region, task=task))

    def _memory(self, region: int, kind: str, temporary: Temporary) -> tuple[int, Effects]:
        return self._other(region, *planned(kind, temporary), temporary.span)

    def _other(self, region: int, node: Planned, what: NodeRecord, span: Span) -> tuple[int, Effects]:
        return self._add(Node(len(self.nodes), node.kind, node.label, span, region, what=what)), node.effects

    def _conditional(self, region: int, control: Loop | Branch) -> int:
        kind = "while" if isinstance(control, Loop) else control.kind
        index = self._add(Node(len(self.nodes), kind, control.label, control.span, region, control=control))
        regions = (
            [(control.body, control.condition)] if isinstance(control, Loop) else [(each, None) for each in control.regions]
        )
        bodies = tuple(self.region(statements, index, condition) for statements, condition in regions)
        self.nodes[index] = replace(self.nodes[index], bodies=bodies)
        return index


def _before(control: Loop | Branch) -> Task | None:
    """The task that decides whether a loop is entered, or which region runs."""
    return control.enter if isinstance(control, Loop) else control.decide
