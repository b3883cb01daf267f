"""Statements -> Task: a parallel loop with its verdict, a run of statements for one thread, and the small tasks of loops."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from qgraph.errors import ArgumentError, DataRaceError, KernelSyntaxError
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.bodies.perfect_nests import loop_inside
from qgraph.frontend.bodies.reductions import find_reductions
from qgraph.frontend.bodies.value_resolution import Divisors
from qgraph.frontend.dependence.access_collector import collect
from qgraph.frontend.dependence.loop_verdict import Judgement, judge
from qgraph.frontend.facts import loop_facts
from qgraph.frontend.facts.loop_facts import Access, LoopFacts
from qgraph.frontend.inference.host_expressions import host_expression
from qgraph.frontend.inference.iteration_space import WrittenAxis, loop_call, ranges_of, zero_step
from qgraph.frontend.names.bindings import LeafRef, Poisoned, Private
from qgraph.frontend.names.definite_assignment import check_private, names_assigned, names_bound_again
from qgraph.frontend.names.function_frame import occurrences
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.frontend.statements.atomic_updates import make_atomic
from qgraph.frontend.statements.known_scalars import integers_of
from qgraph.ir.argument_types import ScalarType
from qgraph.ir.program import SLOTS, Axis, Effects, Selection, Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import call_of, load
from qgraph.operations import intrinsics
from qgraph.polyhedral.array_sections import Section
from qgraph.source import Span, as_written, copied, nodes_of


def parallel_task(unit: ProgramBuilder, scope: Scope, node: ast.For, *, declared: bool) -> tuple[Task | None, Task]:
    """The task of a parallel loop, and before it, where its bounds are read from memory that it writes, one that saves them.

    Raises:
        DataRaceError: the loop is proved to be dependent.
        KernelSyntaxError: a private name may be unassigned, or control leaves the loop.
        KernelTypeError: colliding updates of a type that has no atomics.
        ArgumentError: arrays that overlap in part, one of them written.
    """
    call = loop_call(scope, node.iter)
    assert call is not None
    header = Span.of(node.iter, scope.file)
    span = Span(scope.file, node.lineno, node.col_offset, header.end_line, header.end_column)
    written = ranges_of(call.scope, call.call)
    body = Body(unit, one_thread=False, rows_in_line=True)
    variables, index_tuple = _targets(unit, scope, node.target, len(written))
    _refuse_exits(scope, node.body)
    _refuse_whole_arrays(scope, node.body)
    own = names_assigned([node.target])
    # One name for several axes stands for several indices.
    inside = scope.inner({name: Private(name, is_tuple=True) for name in own}) if index_tuple else scope
    written_as = {unit.local_name(name): name for name in names_assigned(node.body)}
    earlier = {name for name in written_as.values() if not isinstance(scope.names.get(name), Poisoned | None)}
    statements = body.statements(inside, node.body, own)
    bound = [*variables, *([index_tuple] if index_tuple else []), *body.assigned]
    check_private(statements, bound, scope.file, body.names.values, written_as, earlier)
    bounds = _Bounds(unit, call.scope, body)
    axes = [bounds.axis(axis, variable) for axis, variable in zip(written, variables, strict=True)]
    facts = LoopFacts(
        axes=tuple(bounds.facts),
        body=statements,
        names=body.names.values,
        ndim=unit.array_dimensions(),
        same=unit.same,
        paths={name: leaf.path for name, leaf in unit.leaves.items()},
        file=scope.file,
        span=span,
        text=as_written(node.iter),
        index_tuple=index_tuple,
        asserted=declared,
        **integers_of(unit, body),
    )
    found = find_reductions(body, facts)
    if found is not None:
        statements = found.statements
        facts = replace(facts, body=statements)
    judgement = _judge_all(unit, facts)
    carried = [variable.local for each in found.reductions for variable in each.variables] if found is not None else []
    nested = _Nest(unit, scope, body, facts, judgement, carried)
    axes += [bounds.axis(inner, variable) for inner, variable in nested.descend(node)]
    facts, judgement, statements = nested.facts, nested.judgement, list(nested.facts.body)
    touched = found.touched if found is not None else judgement.accesses
    _refuse_partial_overlap(unit, touched.all, span)
    make_atomic(unit, body, statements, judgement.atomics)
    save, read_for_bounds, settled = bounds.settle(touched.written, span, axes)
    effects = Effects(touched.reads, touched.written) | read_for_bounds
    if found is not None:
        effects |= found.effects
    verdict = judgement.verdict
    if found is not None:
        verdict = found.verdict(verdict, nested.text)
    elif nested.text:
        verdict = replace(verdict, reason=verdict.reason + nested.text)
    # A scalar that is reduced is loaded only where something else needs it: the bounds of the loop.
    outside = [part for axis in settled for part in (axis.start, axis.step, axis.count)]
    everywhere = [*statements, *outside, *(found.elements if found is not None else ())]
    used = occurrences(everywhere)
    task = Task(
        name=unit.task_name(node.lineno, "loop"),
        role="loop",
        span=span,
        axes=settled,
        body=tuple(statements),
        names=body.names.values,
        effects=unit.touched(effects | _slot_reads(body)),
        selections=tuple(
            replace(each, read=each.local in effects.reads, written=each.local in effects.writes)
            for each in selected(unit, everywhere)
        ),
        verdict=verdict,
        races=judgement.races,
        sections=sections_of(unit, facts, touched, read_for_bounds, everywhere),
        index_tuple=index_tuple,
        scalars=tuple((name, slot) for name, slot in body.scalars.items() if name in used),
        reductions=() if found is None else found.reductions,
        ticket=None if found is None else found.ticket,
    )
    unit.judged[task.name] = facts
    return save, task


# A statement that touches more places of one array than this counts as touching all of it.
_MOST_SECTIONS = 8


def sections_of(
    unit: ProgramBuilder, facts: LoopFacts, touched: loop_facts.Accesses, more: Effects, code: Iterable[ast.AST]
) -> dict[str, tuple[Section, ...]]:
    """The parts of arrays that a statement touches; ``more`` is what it reads besides, anywhere in it."""
    chosen = {name for selection in selected(unit, code) for name in (selection.local, *selection.leaves)}
    found: dict[str, list[Section]] = {}
    for access in touched.all:
        reach = replace(access.reach, loops=(*touched.variables, *access.reach.loops))
        region = Section(access.array, access.writes, reach, facts.extents(access.array), facts.serial, access.text)
        found.setdefault(access.array, []).append(region)
    whole = {
        name
        for name, sections in found.items()
        if len(sections) > _MOST_SECTIONS or any(r.reach.indices is None for r in sections)
    }
    return {name: tuple(sections) for name, sections in found.items() if name not in whole | chosen | more.reads}


class _Nest:
    """A loop, its facts and the judgement on it, with those loops inside that can be axes of it.

    ``carried``: the locals of its reductions.
    """

    def __init__(
        self, unit: ProgramBuilder, scope: Scope, body: Body, facts: LoopFacts, judgement: Judgement, carried: Sequence[str]
    ) -> None:
        self._unit = unit
        self._scope = scope
        self._body = body
        self._carried = carried
        self.facts = facts
        self.judgement = judgement
        # What the verdict's reason says of the loops that became axes.
        self.text = ""

    def descend(self, node: ast.For) -> Iterator[tuple[WrittenAxis, str]]:
        """The ranges and variables of the loops that become axes, from the outside in."""
        lines: list[str] = []
        outer = {*names_assigned([node.target])}
        while not self.facts.asserted and not self.facts.index_tuple and self.judgement.verdict.kind == "independent":
            found = loop_inside(self._unit, self._scope, node.body, outer)
            if found is None or not self._fits(*found):
                break
            node, axis = found
            outer |= names_assigned([node.target]).keys()
            lines.append(str(node.lineno))
            yield axis, self.facts.axes[-1].variable
        if lines:
            self.text = f", the loop inside (line {', '.join(lines)}) included"

    def _fits(self, node: ast.For, axis: WrittenAxis) -> bool:
        """Whether the loop inside is one more axis; then it is one."""
        (statement,) = self.facts.body
        if not isinstance(statement, ast.For) or not isinstance(statement.target, ast.Name):
            return False
        start, stop, step = (
            self._body.expression(self._scope, part, divisors="known") for part in (axis.start, axis.stop, axis.step)
        )
        variable = statement.target.id
        facts = replace(self.facts, axes=(*self.facts.axes, loop_facts.Axis(variable, start, stop, step)), body=statement.body)
        bound = [*(each.variable for each in facts.axes), *self._body.assigned, *self._carried]
        try:
            _refuse_exits(self._scope, node.body)
            check_private(statement.body, bound, self._scope.file, self._body.names.values)
            judgement = _judge_all(self._unit, facts)
        except (DataRaceError, KernelSyntaxError):
            # In order, as one thread runs them, they are right.
            return False
        if judgement.verdict.kind != "independent" or judgement.atomics:
            return False
        if judgement.collisions - self.judgement.collisions:
            # One iteration of the loop so far does these atomics in order, which their old values and results may show.
            return False
        self.facts, self.judgement = facts, judgement
        return True


def _judge_all(unit: ProgramBuilder, facts: LoopFacts) -> Judgement:
    """The judgement that holds whichever arrays happen to be the same: names that change places may be."""
    judgement = judge(facts)
    touched = {facts.memory(access.array) for access in judgement.accesses.all}
    written = set(map(facts.memory, judgement.accesses.written))
    for pair in sorted({tuple(sorted(map(facts.memory, pair))) for pair in unit.sometimes_same}):
        first, second = pair
        if first != second and touched.issuperset(pair) and not written.isdisjoint(pair):
            judgement = judgement.also(judge(facts.where_same(first, second)))
    return judgement


def small_task(
    unit: ProgramBuilder,
    role: Literal["enter", "condition", "bounds", "decide", "start"],
    span: Span,
    body: Body,
    statements: list[ast.stmt],
    *,
    reads: Iterable[Slot | str] = (),
    writes: Iterable[Slot] = (),
) -> Task:
    """A one-thread task that the frontend made itself: it reads and writes slots, and may read arrays."""
    for statement in statements:
        locate(statement, span)
    arrays = touched_by(unit, body, statements, span).reads
    names = frozenset(item if isinstance(item, str) else item.name for item in reads)
    effects = Effects(names | arrays, frozenset(slot.name for slot in writes))
    return Task(
        name=unit.task_name(span.line, role),
        role=role,
        span=span,
        axes=(),
        body=tuple(statements),
        names=body.names.values,
        effects=unit.touched(effects | _slot_reads(body)),
        selections=selected(unit, statements),
        scalars=tuple(body.scalars.items()),
    )


class _Bounds:
    """The ranges of one loop: computed by the host where possible, else read on the device before the first iteration."""

    def __init__(self, unit: ProgramBuilder, scope: Scope, body: Body) -> None:
        self._unit = unit
        self._scope = scope
        self._body = body
        self._device: list[Axis] = []
        self.facts: list[loop_facts.Axis] = []

    def axis(self, written: WrittenAxis, variable: str) -> Axis:
        """The axis as the tasks compute it; also collects it for the race analysis."""
        unit, scope = self._unit, self._scope
        start, stop, step = (host_expression(unit, scope, part) for part in (written.start, written.stop, written.step))
        span = scope.span(written.node)
        if isinstance(step, ast.Constant) and step.value == 0:
            raise zero_step(scope.span(written.step))
        step_value: ast.expr | None = step
        if step is not None and constant_of(step) is None:
            step_value = unit.host_value(step, scope.span(written.step), "step", text=as_written(written.step))
        on_host = start is not None and stop is not None and step is not None
        divisors: Divisors = "known" if on_host else "checked"
        first, last, by = (
            self._body.expression(scope, part, divisors=divisors) for part in (written.start, written.stop, written.step)
        )
        self.facts.append(loop_facts.Axis(variable, first, last, by))
        if start is not None and stop is not None and step is not None and step_value is not None:
            count = unit.host_value(trip_source(unit, start, stop, step), span, text=written.extent)
            known = tuple(map(unit.host_integers.of, (start, stop, step, count)))
            self.facts[-1] = loop_facts.Axis(variable, first, last, by, known)
            text = as_written(written.start)
            begin: ast.expr = (
                start if constant_of(start) is not None else unit.host_value(start, scope.span(written.start), text=text)
            )
            return Axis(variable, begin, step_value, count, False, span)
        name = self._body.names.add(intrinsics.trip_count, "_trip_count")
        first, last, by = (as_index(self._body, bound) for bound in (first, last, by))
        by = step_value or by
        trip = ast.copy_location(call_of(name, first, last, by), written.node)
        axis = Axis(variable, first, by, trip, True, span)
        self._device.append(axis)
        return axis

    def reads(self) -> frozenset[str]:
        """Array leaves that the bounds read."""
        arrays = self._unit.array_dimensions()
        # The count is made of all three bounds. Extents are no memory.
        nodes = [node for axis in self._device for node in nodes_of(axis.count)]
        sized = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == "shape"}
        names = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in sized}
        return frozenset(self._unit.same.get(name, name) for name in names & arrays.keys())

    def settle(self, written: frozenset[str], span: Span, axes: list[Axis]) -> tuple[Task | None, Effects, tuple[Axis, ...]]:
        """Where the loop writes what its bounds are read from, a task that saves them in slots: Python reads them once.

        Returns that task or None, what the loop's task reads for its bounds, and the axes that it shall use.
        """
        unit = self._unit
        pairs = unit.overlapping | unit.sometimes_same
        touched = {other for pair in pairs for other in pair if pair & written} | written
        if not self.reads() & {unit.same.get(name, name) for name in touched}:
            return None, Effects(self.reads()), tuple(axes)
        body = Body(self._unit)
        body.names.values.update(self._body.names.values)
        body.scalars.update(self._body.scalars)
        statements: list[ast.stmt] = []
        slots: list[Slot] = []
        settled = list(axes)
        for axis in self._device:
            parts = {"start": axis.start, "step": axis.step, "count": axis.count}
            for part, value in parts.items():
                if isinstance(value, ast.Call):  # Not a constant, nor a value of the host's.
                    slots.append(self._unit.slot(part))
                    statements.append(set_slot(slots[-1], value))
                    parts[part] = get_slot(slots[-1])
            settled[axes.index(axis)] = replace(axis, start=parts["start"], step=parts["step"], count=parts["count"])
        save = small_task(self._unit, "bounds", span, body, statements, writes=slots)
        return save, Effects(frozenset(slot.name for slot in slots)), tuple(settled)


def get_slot(slot: Slot) -> ast.expr:
    """The code that reads a scratch slot."""
    return ast.Subscript(load(SLOTS), ast.Constant(slot.index), ast.Load())


def set_slot(slot: Slot, value: ast.expr) -> ast.stmt:
    """The code that writes a scratch slot."""
    target = ast.Subscript(load(SLOTS), ast.Constant(slot.index), ast.Store())
    return ast.Assign([target], copied(value))


def as_index(body: Body, bound: ast.expr) -> ast.expr:
    """A bound that the device reads, as ``range`` takes it: a 64-bit integer whatever its array holds, and never a float."""
    if constant_of(bound) is not None:
        return bound
    name = body.names.add(operator.index, "_index")
    return ast.copy_location(call_of(name, bound), bound)


def trip_source(unit: ProgramBuilder, start: ast.expr, stop: ast.expr, step: ast.expr) -> ast.expr:
    """An expression for ``len(range(start, stop, step))``, short where start and step are the usual ones."""
    plain = isinstance(start, ast.Constant) and start.value == 0
    # The difference of two NumPy integers is one, and may wrap.
    exact = plain or not _has_numpy_scalars(unit, [start, stop])
    if exact and isinstance(step, ast.Constant) and step.value == 1:
        extent = stop if plain else ast.BinOp(stop, ast.Sub(), start)
        if isinstance(extent, ast.Call) and isinstance(extent.func, ast.Name) and extent.func.id == "len":
            # The length of a slice: functions of the user's have other names.
            return extent
        # A shape is an integer; anything else may be a float, which range() refuses: the zero keeps its type.
        is_shape = isinstance(extent, ast.Subscript)
        zero: ast.expr = ast.Constant(0) if is_shape else ast.BinOp(copied(extent), ast.Mult(), ast.Constant(0))
        trip = call_of("max", zero, extent)
    else:
        steps = call_of("range", start, stop, step)
        trip = call_of("len", steps)
    return ast.fix_missing_locations(ast.copy_location(trip, stop))


def _has_numpy_scalars(unit: ProgramBuilder, bounds: Iterable[ast.expr]) -> bool:
    """Whether a NumPy scalar is in these expressions of the host, passed or compiled in."""
    for node in (child for bound in bounds for child in nodes_of(bound) if isinstance(child, ast.Name)):
        leaf = unit.leaves.get(node.id)
        if isinstance(unit.host_names.get(node.id), np.generic):
            return True
        if leaf is not None and isinstance(leaf.type, ScalarType) and not leaf.type.weak:
            return True
    return False


def _targets(unit: ProgramBuilder, scope: Scope, target: ast.expr, axes: int) -> tuple[list[str], str]:
    """The variable of each axis, and the name of the index tuple where the target is not unpacked."""
    if isinstance(target, ast.Name):
        name = unit.local_name(target.id)
        if axes == 1:
            return [name], ""
        return [f"_{name}{k}" for k in range(axes)], name
    elements = target.elts if isinstance(target, ast.Tuple) else []
    names = [unit.local_name(element.id) for element in elements if isinstance(element, ast.Name)]
    if len(names) != axes or len(elements) != axes or axes == 1:
        raise KernelSyntaxError(
            f"the loop has {axes} {'axis' if axes == 1 else 'axes'}, which does not fit `{as_written(target)}`",
            scope.span(target),
            hint="write one variable for each axis of ndrange, or one name for the tuple of them",
        )
    # `for _, j in ...`: a name given twice keeps its last value, as in Python; the others need names of their own.
    return [f"_{k}{name}" if name in names[k + 1 :] else name for k, name in enumerate(names)], ""


def _refuse_exits(scope: Scope, statements: list[ast.stmt], inside: bool = False) -> None:
    """`break` and `return` would leave a parallel loop: its iterations have no order to stop in."""
    for node in statements:
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not inside):
            word = "return" if isinstance(node, ast.Return) else "break"
            raise scope.error(f"`{word}` in a parallel loop", node, "use `continue` to end one iteration", in_order=True)
        nested = inside or isinstance(node, (ast.For, ast.While))
        for name in ("body", "orelse"):
            _refuse_exits(scope, getattr(node, name, []), nested if name == "body" else inside)
        for case in node.cases if isinstance(node, ast.Match) else []:
            _refuse_exits(scope, case.body, inside)


def _refuse_whole_arrays(scope: Scope, statements: list[ast.stmt]) -> None:
    """`x += 1` of an array in a parallel loop: in Python every iteration changes all of its elements."""
    again = names_bound_again(statements)
    for update in (child for each in statements for child in nodes_of(each) if isinstance(child, ast.AugAssign)):
        name = update.target.id if isinstance(update.target, ast.Name) else ""
        bound = scope.names.get(name)
        if isinstance(bound, LeafRef) and bound.is_array and name not in again:
            found = f"`{as_written(update)}` changes all elements of `{name}` in every iteration of a parallel loop"
            raise scope.error(found, update, f"change the iteration's own element, `{name}[i]`", in_order=True)


def _refuse_partial_overlap(unit: ProgramBuilder, touched: tuple[Access, ...], span: Span) -> None:
    arrays = {access.array for access in touched}
    written = {access.array: access for access in touched if access.writes}
    for pair in unit.overlapping:
        if pair <= arrays and pair & set(written):
            access = written[min(pair & set(written))]
            paths = sorted(unit.leaves[name].path for name in pair)
            raise ArgumentError(
                f"`{paths[0]}` and `{paths[1]}` overlap in part, and one loop writes one of them and uses the other",
                access.span,
                also=(("the loop is here", span),),
                hint="pass arrays that are disjoint or the same, or write the result to a third array first",
            )


def touched_by(unit: ProgramBuilder, body: Body, statements: list[ast.stmt], span: Span) -> loop_facts.Accesses:
    """The array elements that statements of one thread read and write."""
    return collect(facts_of_statements(unit, body, statements, span))


def facts_of_statements(unit: ProgramBuilder, body: Body, statements: list[ast.stmt], span: Span) -> LoopFacts:
    """Statements of one thread, as a loop of one iteration."""
    return LoopFacts(
        axes=(),
        body=statements,
        names=body.names.values,
        ndim=unit.array_dimensions(),
        same=unit.same,
        paths={},
        file=span.file,
        span=span,
        text="",
        **integers_of(unit, body),
    )


def selected(unit: ProgramBuilder, nodes: Iterable[ast.AST]) -> tuple[Selection, ...]:
    """The arrays under ``nodes`` that a slot selects."""
    used = occurrences(nodes)
    return tuple(selection for name, selection in unit.selections.items() if name in used)


def _slot_reads(body: Body) -> Effects:
    return Effects(frozenset(slot.name for slot in body.scalars.values()))


def locate(statement: ast.AST, span: Span) -> None:
    """Let what has no place in the user's source stand at ``span``."""
    for child in nodes_of(statement):
        if isinstance(child, (ast.stmt, ast.expr)) and not hasattr(child, "lineno"):
            child.lineno, child.col_offset = span.line, span.column
            child.end_lineno, child.end_col_offset = span.end_line, span.end_column
