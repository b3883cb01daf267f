"""Consecutive kernel-level statements for one thread: one task. Kernel scalars are its local variables while it runs."""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.dependence.access_collector import collect
from qgraph.frontend.inference.host_expressions import surely_runs
from qgraph.frontend.inference.new_array_dtype import note_number
from qgraph.frontend.names.bindings import Poisoned, ScalarRef, is_known_number
from qgraph.frontend.names.definite_assignment import check_private, names_assigned, needed_before, surely_assigned
from qgraph.frontend.names.function_frame import Frame
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.returns import RETURNED
from qgraph.frontend.statements.task_builder import facts_of_statements, get_slot, sections_of, selected, set_slot
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.faults import FAULTS, Fault
from qgraph.ir.program import Effects, Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import assign, at_place, call_of, load, names_in, stored
from qgraph.source import Span, as_written, nodes_of


class SerialRun:
    """A task for one thread under construction; statements are added in program order."""

    def __init__(self, unit: ProgramBuilder, file: str) -> None:
        self.file = file
        self._unit = unit
        self._body = Body(unit)
        self._statements: list[ast.stmt] = []
        self._slots_read: set[Slot] = set()
        self._slots_written: set[Slot] = set()
        # By slot, as in ``Task.moves``, and how many of the statements do that.
        self._moves: dict[Slot, Slot | int] = {}
        self._moving = 0
        # Whether that is all that it does to them.
        self._known = True

    @property
    def empty(self) -> bool:
        """Whether there is nothing to run."""
        return not self._statements

    def assign(self, scope: Scope, name: str, value: ast.expr) -> None:
        """``name = value``: a kernel scalar of the scope's function."""
        self.assign_all(scope, [name], [value])

    def assign_all(self, scope: Scope, names: Sequence[str], values: Sequence[ast.expr]) -> None:
        """``a, b = x, y``: all values are computed before any name changes."""
        refs = [_frame(scope).scalar(name) for name in names]
        for name, ref, value in zip(names, refs, values, strict=True):
            note_number(scope, name, ref.slot, value)
        parts = [self._cast(ref, self._body.expression(scope, value)) for ref, value in zip(refs, values, strict=True)]
        targets: list[ast.expr] = [stored(ref.name) for ref in refs]
        target = targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())
        whole = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
        # Of all of them, in whatever order they stand.
        place = ast.copy_location(ast.Pass(), values[0])
        place.end_lineno, place.end_col_offset = values[-1].end_lineno, values[-1].end_col_offset
        in_order = (place.end_lineno or 0, place.end_col_offset or 0) > (place.lineno, place.col_offset)
        self._add(ast.Assign([target], whole), place if in_order else values[0])
        for name, ref in zip(names, refs, strict=True):
            self._bind(scope, name, ref)

    def unpack(self, scope: Scope, names: Sequence[str], value: ast.expr) -> None:
        """``a, b = f(x)``, where a device function gives a tuple."""
        whole = f"_tuple{len(self._statements)}"
        self._add(assign(whole, self._body.expression(scope, value)), value)
        for position, name in enumerate(names):
            ref = _frame(scope).scalar(name)
            part = ast.Subscript(load(whole), ast.Constant(position), ast.Load())
            self._add(assign(ref.name, self._cast(ref, part)), value)
            self._bind(scope, name, ref)

    def rotate(self, slots: Sequence[Slot], reads: Sequence[Slot], values: Sequence[ast.expr], node: ast.AST) -> None:
        """Integers into ``slots``; all ``values``, which may read the slots ``reads``, are computed before any slot changes."""
        held = [f"_held{len(self._statements)}_{k}" for k in range(len(values))]
        for name, value in zip(held, values, strict=True):
            self._add(assign(name, value), node)
        for name, slot in zip(held, slots, strict=True):
            self._add(set_slot(slot, load(name)), node)
        self._slots_read.update(reads)
        self._slots_written.update(slots)
        sources = {ast.dump(get_slot(slot)): slot for slot in reads}
        found = [value.value if isinstance(value, ast.Constant) else sources.get(ast.dump(value)) for value in values]
        known = [each for each in found if isinstance(each, int | Slot)]
        if len(known) == len(slots):
            self._moves |= {slot: self._before(each) for slot, each in zip(slots, known, strict=True)}
            self._moving += 2 * len(slots)
        else:
            self._known = False

    def _before(self, number: Slot | int) -> Slot | int:
        """Where the run finds at its start what is now in a slot."""
        return self._moves.get(number, number) if isinstance(number, Slot) else number

    def check(self, scope: Scope, test: ast.expr, fault: Fault, details: Sequence[ast.expr], node: ast.AST) -> None:
        """Note ``fault``, with the integers ``details``, where ``test`` is false and nothing is noted yet."""
        failed, number = self._unit.failed, self._unit.fault(fault)
        words = enumerate([*(self._body.expression(scope, detail) for detail in details), ast.Constant(number)], 1)
        noting = [_store(FAULTS, at % (len(details) + 1), value) for at, value in words]
        unnoted = ast.Compare(_load(FAULTS, 0), [ast.Eq()], [ast.Constant(0)])
        wrong = ast.UnaryOp(ast.Not(), self._body.expression(scope, test))
        self._add(ast.If(wrong, [set_slot(failed, ast.Constant(1)), ast.If(unnoted, noting, [])], []), node)
        self._slots_read.add(failed)
        self._slots_written.add(failed)

    def statement(self, scope: Scope, node: ast.stmt) -> None:
        """An assignment to elements, or a call."""
        _check_targets(scope, node)
        self._statements += self._body.statements(scope, [node], ())

    def compound(self, scope: Scope, node: ast.If | ast.For | ast.While) -> None:
        """An `if` or loop without kernel-level loops inside: Python as it stands.

        Names that nothing else uses are its own; the others are kernel scalars.
        """
        _check_targets(scope, node)
        frame = _frame(scope)
        assigned = names_assigned([node])
        refs = {name: frame.scalar(name) for name in assigned if not frame.is_private(name, node)}
        for name in refs:
            # No branch but what stands behind a `return` assigns it, and it is known until then.
            if is_known_number(scope.names.get(name)):
                self.assign(scope, name, ast.copy_location(load(name), node))
        for name, ref in refs.items():
            _check_number(scope, name, node)
            self._unit.number_types[ref.slot.name] = None
        fresh = [name for name in refs if not isinstance(scope.names.get(name), ScalarRef)]
        sure = surely_assigned([node], fresh, scope.file, lambda loop: self._runs(scope, assigned, loop), RETURNED)
        added = self._body.statements(scope.inner(refs), [node], ())
        leaving = refs[RETURNED].name if RETURNED in refs else ""
        bound = [ref.name for ref in refs.values()]
        check_private(added, bound, scope.file, self._body.names.values, private=False, leaving=leaving)
        self._statements += added
        for name in fresh:
            scope.names[name] = refs[name] if name in sure else _unassigned(scope, name, node)

    def _runs(self, scope: Scope, assigned: Container[str], node: ast.For) -> bool:
        """Whether a loop inside a statement that assigns the names ``assigned`` has at least one iteration."""
        return not any(name in assigned for name in names_in(node.iter)) and surely_runs(self._unit, scope, node)

    def _bind(self, scope: Scope, name: str, ref: ScalarRef) -> None:
        self._body.assigned[ref.name] = ref.slot
        scope.bind(name, ref)

    def _cast(self, ref: ScalarRef, value: ast.expr) -> ast.expr:
        name = self._body.names.add(self._unit.cast(ref.slot), f"_as{ref.slot.name}")
        return call_of(name, value)

    def _add(self, statement: ast.stmt, node: ast.AST) -> None:
        self._statements.append(at_place(statement, node))

    def task(self) -> Task:
        """The task of all statements added."""
        first, last = self._statements[0], self._statements[-1]
        end_line = last.end_lineno or last.lineno
        span = Span(self.file, first.lineno, first.col_offset, end_line, last.end_col_offset or 0)
        facts = facts_of_statements(self._unit, self._body, self._statements, span)
        touched = collect(facts)
        slots = {**self._body.scalars, **self._body.assigned}
        needed = needed_before(self._statements, slots)
        published = self._unit.progress
        counted = [published.number] if published is not None and published.ring in touched.written else []
        launch = [published.run] if published is not None and counted else []
        reads = frozenset(slot.name for slot in (*(slots[name] for name in needed), *self._slots_read, *counted, *launch))
        writes = frozenset(slot.name for slot in (*self._body.assigned.values(), *self._slots_written, *counted))
        return Task(
            name=self._unit.task_name(first.lineno, "serial"),
            role="serial",
            span=span,
            axes=(),
            body=tuple(self._statements),
            names=self._body.names.values,
            effects=self._unit.touched(Effects(touched.reads, touched.written) | Effects(reads, writes)),
            sections=sections_of(self._unit, facts, touched, Effects(), self._statements),
            selections=selected(self._unit, self._statements),
            scalars=tuple((name, slot) for name, slot in slots.items() if name in needed),
            results=tuple(self._body.assigned.items()),
            moves=tuple(self._moves.items()) if self._moving == len(self._statements) else (),
            trades=tuple(self._moves.items()) if self._known else (),
        )


def _load(name: str, at: int) -> ast.Subscript:
    return ast.Subscript(load(name), ast.Constant(at), ast.Load())


def _store(name: str, at: int, value: ast.expr) -> ast.stmt:
    target = _load(name, at)
    target.ctx = ast.Store()
    return ast.Assign([target], value)


def _frame(scope: Scope) -> Frame:
    assert scope.frame is not None, "kernel-level statements belong to a function"
    return scope.frame


def _unassigned(scope: Scope, name: str, node: ast.stmt) -> Poisoned:
    if isinstance(node, ast.For) and name in names_assigned([node.target]):
        return without_iterations(scope, name, node)
    reason = f"`{name}` may be read before it is assigned"
    return Poisoned(reason, scope.span(node), "assign it on every path before this line", on_paths=True)


def without_iterations(scope: Scope, name: str, node: ast.For) -> Poisoned:
    """What the variable ``name`` of a serial loop is after it, where the loop may have no iteration."""
    reason = f"`{name}` may be read before it is assigned"
    return Poisoned(reason, scope.span(node.target), "an empty loop leaves it without a value: assign it before the loop too")


def _check_number(scope: Scope, name: str, node: ast.stmt) -> None:
    """A name that is an array, a tuple or a function here cannot become a number."""
    bound = scope.names.get(name)
    if bound is None or isinstance(bound, (ScalarRef, Poisoned)):
        return
    place = names_assigned([node])[name][0]
    raise KernelSyntaxError(
        f"`{name}` is assigned here, and it is no kernel scalar",
        scope.span(place),
        hint="use another name: inside a branch or a loop only numbers can be assigned",
    )


def _check_targets(scope: Scope, node: ast.stmt) -> None:
    """A store into a Python tuple or number is no store into an array."""
    for child in nodes_of(node):
        if not isinstance(child, ast.Subscript) or not isinstance(child.ctx, ast.Store):
            continue
        base = child.value
        while isinstance(base, ast.Subscript) and scope.static(base) is None:
            base = base.value
        bound = scope.static(base)
        if isinstance(bound, Poisoned):
            raise KernelSyntaxError(bound.reason, scope.span(base), hint=bound.hint)
        leaf = getattr(bound, "leaf", None)
        if _has_slice(child.slice) and getattr(getattr(leaf, "type", None), "ndim", None) != 0:
            raise KernelSyntaxError(
                f"`{as_written(child)}` assigns a slice in a statement of one thread",
                scope.span(child),
                hint="write a loop: for i in range(...): ...",
            )
        if bound is not None and (leaf is None or not isinstance(leaf.type, ArrayType)):
            raise KernelSyntaxError(
                f"`{as_written(base)}` is not an array",
                scope.span(child),
                hint="assign to elements of array arguments",
            )


def _has_slice(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...) for part in parts)
