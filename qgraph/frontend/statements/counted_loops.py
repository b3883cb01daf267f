"""A serial loop with parallel loops inside: counted on the device, with its variables and what is left of it in slots."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bodies.name_resolution import Body
from qgraph.frontend.inference.host_expressions import host_expression, surely_runs
from qgraph.frontend.inference.iteration_space import LoopCall, WrittenAxis, loop_call, ranges_of
from qgraph.frontend.names.bindings import SlotRef
from qgraph.frontend.names.function_frame import ADDED
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.condition_tasks import decide_test, unless_broken
from qgraph.frontend.statements.task_builder import as_index, get_slot, locate, set_slot, small_task, trip_source
from qgraph.ir.program import MANY, Counter, Task
from qgraph.ir.slots import Slot
from qgraph.ir.trees import assign, call_of, load
from qgraph.operations import intrinsics
from qgraph.records import dataclass
from qgraph.source import Span, as_written, copied


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """The tasks before the first and after each iteration; both decide through slot ``decided`` whether one follows."""

    enter: Task
    condition: Task
    decided: Slot
    names: Mapping[str, SlotRef]
    label: str
    # None where something else may end the loop.
    counter: Counter | None
    # After the loop the variables hold their last values, and this slot whether there was an iteration; None where it is sure.
    entered: Slot | None


def counted_loop(unit: ProgramBuilder, scope: Scope, node: ast.For, span: Span, broke: ast.expr | None) -> CountedLoop:
    """The loop of ``for t in serial(range(...))`` or ``for i, j in serial(ndrange(...))``, which ends where ``broke`` is true.

    Raises:
        KernelSyntaxError: the target does not fit the number of axes.
    """
    found = loop_call(scope, node.iter)
    assert found is not None
    axes = ranges_of(found.scope, found.call)
    names = _targets(scope, node.target, len(axes))
    counter = _Counter(unit, scope, found, [unit.slot(name.strip(ADDED)) for name in names])
    entered = None if surely_runs(unit, scope, node) else counter.entered()
    if len(axes) == 1:
        counter.count(axes[0])
    else:
        counter.count_product(axes)
    enter, condition = counter.tasks(span, broke)
    slots = {
        name: SlotRef(slot.name if name.startswith(ADDED) else unit.local_name(name), slot, _counts_up(axis))
        for name, slot, axis in zip(names, counter.variables, axes, strict=True)
    }
    label = f"serial {', '.join(names).replace(ADDED, '')}"
    counts = counter.counts(span) if broke is None else None
    return CountedLoop(enter, condition, counter.decided, slots, label, counts, entered)


def _counts_up(axis: WrittenAxis) -> bool:
    """Whether a range starts at a constant that is not negative, and its step is a positive one."""
    start, step = (part.value if isinstance(part, ast.Constant) else None for part in (axis.start, axis.step))
    return isinstance(start, int) and isinstance(step, int) and start >= 0 and step > 0


def _targets(scope: Scope, target: ast.expr, axes: int) -> list[str]:
    places = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [place.id for place in places if isinstance(place, ast.Name)]
    if len(names) != axes or len(places) != axes or isinstance(target, ast.Tuple) != (axes > 1):
        raise KernelSyntaxError(
            f"a serial loop with loops inside has {axes} {'axis' if axes == 1 else 'axes'}, which does not fit "
            f"`{as_written(target)}`",
            scope.span(target),
            hint="write one variable for each axis: for i, j in qgraph.serial(qgraph.ndrange(n, m)):",
        )
    return names


class _Counter:
    """The statements of both tasks. What only the device knows of the bounds is read once, at the entry."""

    def __init__(self, unit: ProgramBuilder, scope: Scope, found: LoopCall, variables: list[Slot]) -> None:
        self.variables = variables
        self.decided = unit.slot("again")
        self._unit = unit
        self._scope = scope
        self._found = found
        self._body = Body(unit)
        self._left = unit.slot("left")
        # What each iteration changes, and what the entry writes besides.
        self._moving = [*variables, self._left, self.decided]
        self._written = list(self._moving)
        self._entered: Slot | None = None
        self._entering: list[ast.stmt] = []
        # What lets the variables advance, by so many iterations.
        self._advance: Callable[[ast.expr], list[ast.stmt]] = lambda _many: []
        self._steps: list[tuple[Slot, ast.expr]] = []
        self._count: int | None = None
        self._known: tuple[ast.expr, ast.expr, ast.expr] | None = None

    def entered(self) -> Slot:
        """A slot that is not 0 after the entry if the loop has an iteration."""
        self._entered = self._slot("entered")
        return self._entered

    def count(self, axis: WrittenAxis) -> None:
        """One variable, which moves by the step."""
        (variable,) = self.variables
        begin, step, count = self._bounds(axis, variable)
        self._entering += [set_slot(variable, begin), set_slot(self._left, count)]
        if variable.name in self._unit.serial_ranges:
            self._known = begin, step, count

        def advance(many: ast.expr) -> list[ast.stmt]:
            by = step if _is_one(many) else ast.BinOp(many, ast.Mult(), step)
            return [set_slot(variable, ast.BinOp(get_slot(variable), ast.Add(), by))]

        self._advance = advance
        self._steps.append((variable, step))
        match [each.value if isinstance(each, ast.Constant) else None for each in (axis.start, axis.stop, axis.step)]:
            case [int(first), int(last), int(by)] if by != 0:
                self._count = len(range(first, last, by))

    def count_product(self, axes: Sequence[WrittenAxis]) -> None:
        """A variable for each axis of an ``ndrange``, from the number of the iteration; the last axis is the fastest."""
        begins, counts = [], []
        for variable, axis in zip(self.variables, axes, strict=True):
            begin, _, count = self._bounds(axis, variable)
            begins.append(self._keep("start", begin))
            counts.append(self._keep("count", count))
            self._entering.append(set_slot(variable, begins[-1]))
        at = self._slot("at")
        self._moving.append(at)
        self._entering += [set_slot(at, ast.Constant(0)), set_slot(self._left, _product(counts))]

        def advance(many: ast.expr) -> list[ast.stmt]:
            statements = [set_slot(at, ast.BinOp(get_slot(at), ast.Add(), many))]
            for position, variable in enumerate(self.variables):
                rest = counts[position + 1 :]
                digit = ast.BinOp(get_slot(at), ast.FloorDiv(), _product(rest)) if rest else get_slot(at)
                if position:
                    digit = ast.BinOp(digit, ast.Mod(), counts[position])
                statements.append(set_slot(variable, ast.BinOp(digit, ast.Add(), begins[position])))
            return statements

        self._advance = advance

    def tasks(self, span: Span, broke: ast.expr | None) -> tuple[Task, Task]:
        """The enter and the condition task."""
        if self._entered is not None:
            self._entering.append(set_slot(self._entered, get_slot(self._left)))
        self._entering.append(decide_test(self._body, self.decided, self._more()))
        enter = small_task(self._unit, "enter", span, self._body, self._entering, writes=self._written)
        again = Body(self._unit)
        test = self._more() if broke is None else unless_broken(again.expression(self._scope, broke), self._more())
        more = load("_more")
        # After the last iteration the variables stay what they are: they may be read after the loop.
        advancing = [
            self._count_down(ast.Constant(1)),
            assign("_more", test),
            ast.If(more, self._advance(ast.Constant(1)), []),
            decide_test(again, self.decided, more),
        ]
        reads = [slot for slot in self._written if slot is not self.decided]
        return enter, small_task(self._unit, "condition", span, again, advancing, reads=reads, writes=self._moving)

    def counts(self, span: Span) -> Counter:
        """How the loop at ``span`` counts, where nothing else ends it."""
        many = load(MANY)
        skip = (self._count_down(many), *self._advance(many))
        for statement in (*skip, *(step for _, step in self._steps)):
            locate(statement, span)
        return Counter(self._left, skip, tuple(self._steps), self._count, self._known)

    def _count_down(self, by: ast.expr) -> ast.stmt:
        return set_slot(self._left, ast.BinOp(get_slot(self._left), ast.Sub(), by))

    def _bounds(self, axis: WrittenAxis, variable: Slot) -> tuple[ast.expr, ast.expr, ast.expr]:
        """The start, the step and the number of iterations: the host's where it knows them."""
        unit, scope, inner = self._unit, self._scope, self._found.scope
        start, stop, step = (host_expression(unit, inner, part) for part in (axis.start, axis.stop, axis.step))
        by = None if step is None else unit.host_value(step, scope.span(axis.step), "step", text=as_written(axis.step))
        if start is not None and stop is not None and step is not None and by is not None:
            begin = unit.host_value(start, scope.span(axis.start), text=as_written(axis.start))
            unit.serial_ranges[variable.name] = (start, stop, step)
            return begin, by, unit.host_value(trip_source(unit, start, stop, step), scope.span(axis.node), text=axis.extent)
        first, last, width = (self._read(part) for part in (axis.start, axis.stop, axis.step))
        moved: ast.expr = by or self._keep("step", width)
        name = self._body.names.add(intrinsics.trip_count, "_trip_count")
        return first, moved, call_of(name, copied(first), last, copied(moved))

    def _read(self, bound: ast.expr) -> ast.expr:
        return as_index(self._body, self._body.expression(self._found.scope, bound))

    def _keep(self, name: str, value: ast.expr) -> ast.expr:
        """``value`` as every iteration may read it."""
        if isinstance(value, (ast.Name, ast.Constant)):
            return value
        slot = self._slot(name)
        self._entering.append(set_slot(slot, value))
        return get_slot(slot)

    def _slot(self, name: str) -> Slot:
        slot = self._unit.slot(name)
        self._written.append(slot)
        return slot

    def _more(self) -> ast.expr:
        return ast.Compare(get_slot(self._left), [ast.Gt()], [ast.Constant(0)])


def _is_one(many: ast.expr) -> bool:
    return isinstance(many, ast.Constant) and many.value == 1


def _product(factors: Sequence[ast.expr]) -> ast.expr:
    result = copied(factors[0])
    for factor in factors[1:]:
        result = ast.BinOp(result, ast.Mult(), copied(factor))
    return result
