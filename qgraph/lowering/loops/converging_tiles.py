"""A loop that tests in each iteration how far it is, in overlapped tiles.

A pass does a block of sweeps from the loop's arrays to others, and keeps what each of them found in each tile. A task of one
thread then goes through the block as the loop would: numbers, reductions and the test, sweep after sweep. Where the test holds
behind all of them, the next pass goes back. Where it does not, the numbers are what they were before the block, which the loop
as written then does from its begin: it ends where it ends, and its arrays are those of just that sweep.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qgraph.ir.artifacts import REDUCTION_BLOCK
from qgraph.ir.blocks import BlockShape
from qgraph.ir.functions import Function
from qgraph.ir.program import Axis, Carried, Cast, Effects, Loop, Program, Task, TaskStatement
from qgraph.ir.slots import Slot
from qgraph.ir.trees import load, names_in, parsed
from qgraph.ir.verdicts import Verdict
from qgraph.lowering.codegen.generated_names import SLOTS, generated, place_at, walk
from qgraph.lowering.codegen.reduction_codegen import ReductionCode
from qgraph.lowering.codegen.task_codegen import BUILTINS, make_function
from qgraph.lowering.loops.repeated_bodies import deciding
from qgraph.lowering.loops.stencils import NotTiled, Stage, Stencils, tasks_in
from qgraph.lowering.loops.sure_floats import assigns_floats, is_float
from qgraph.lowering.loops.tile_codegen import InTile, TileCode, reduction_code, region, sweep_name
from qgraph.records import dataclass
from qgraph.source import copied

_EXTREMES = ("min", "max")
_OF_INTEGERS = ("+", "*", "&", "|", "^", "and", "or")


@dataclass(frozen=True, slots=True)
class Tested:
    """The body of a loop that is no counted one.

    ``tasks``: its loops, without reductions, and where names change places. ``order``: all that the loop does but that, in
    order: tasks of one thread, and reductions with their loops, by the number of the loop.
    """

    program: Program
    loop: Loop
    tasks: tuple[Task, ...]
    order: tuple[tuple[int | None, Task], ...]

    @property
    def scalars(self) -> dict[str, Slot]:
        """The kernel scalars that reductions compute, by name."""
        slots = (_variable(task).slot for task in self.reducing.values())
        return {slot.name: slot for slot in slots if slot is not None}

    @property
    def reducing(self) -> dict[int, Task]:
        """The loops with a reduction."""
        return {number: task for number, task in self.order if number is not None}

    @property
    def serial(self) -> tuple[Task, ...]:
        """The tasks of one thread."""
        return tuple(task for number, task in self.order if number is None)

    @property
    def loops(self) -> tuple[Task, ...]:
        """The tasks with iterations."""
        return tuple(task for task in self.tasks if task.axes)

    @property
    def elements(self) -> tuple[ast.Subscript, ...]:
        """The elements that reductions compute."""
        elements = (_variable(task).element for task in self.reducing.values())
        return tuple(element for element in elements if isinstance(element, ast.Subscript))

    @property
    def carried(self) -> frozenset[str]:
        """The names of numbers that are read before an iteration assigns to them: what the one before it left."""
        # The loop as written begins with a test where it was one that is tested first.
        read = {name for name, _ in self.loop.condition.scalars} if self.loop.test_first else set[str]()
        assigned = set[str]()
        for _, task in self.order:
            slots = (variable.slot for each in task.reductions for variable in each.variables)
            places = {slot.name for slot in slots if slot is not None}
            read |= ({name for name, _ in task.scalars} | places) - assigned
            assigned |= {name for name, _ in task.results} | places
        return frozenset(read | ({name for name, _ in self.loop.condition.scalars} - assigned))


def tested(loop: Loop, program: Program) -> Tested:
    """The body of ``loop``, whose tests and numbers one thread can do for a block of sweeps.

    Raises:
        NotTiled: it cannot.
    """
    tasks: list[Task] = []
    order: list[tuple[int | None, Task]] = []
    number = 0
    for task in tasks_in(loop):
        if task.moves:
            tasks.append(task)
        elif not task.axes:
            order.append((None, task))
            tasks += [replace(task, moves=task.trades)] if task.trades else []
        else:
            tasks.append(_without_reduction(task, program) if task.reductions else task)
            order += [(number, task)] if task.reductions else []
            number += 1
    found = Tested(program, loop, tuple(tasks), tuple(order))
    if not number:
        raise NotTiled("there is no loop in it")
    if not found.reducing:
        raise NotTiled("no loop in it computes what it tests")
    _refuse(found)
    return found


def _variable(task: Task) -> Carried:
    return task.reductions[0].variables[0]


def _without_reduction(task: Task, program: Program) -> Task:
    """A loop for what it does to arrays."""
    line = f"line {task.span.line}"
    (reduction, *more) = task.reductions
    variable = _variable(task)
    if more or reduction.at is not None or len(reduction.variables) > 1:
        raise NotTiled(f"{line} has more than one reduction, or one with a place")
    slot, sums = variable.slot, reduction.operator == "+"
    if slot is not None and not (is_float(slot, program) if sums else assigns_floats(task, slot, program)):
        raise NotTiled(
            f"the reduction of {line} is a kernel scalar whose type is not known here, but that of an element would be"
        )
    dtype = variable.dtype if slot is None else program.float_type
    operators = {"f": (*_EXTREMES, "+"), "c": ()}.get(np.dtype(dtype).kind, (*_EXTREMES, *_OF_INTEGERS))
    if reduction.operator not in operators:
        raise NotTiled(f"`{reduction.operator}` of {dtype} in {line} depends on the order of the iterations")
    place = slot.name if slot is not None else _array_of(variable.element)
    if place in frozenset().union(*map(names_in, task.body)):
        raise NotTiled(f"{line} looks at `{place}` besides")
    effects = Effects(task.effects.reads - {place}, task.effects.writes - {place})
    body, names = reduction_code(task, program).reassociable_sums()
    return replace(task, body=tuple(body), names={**task.names, **names}, reductions=(), ticket=None, effects=effects)


def has_loops_alone(loop: Loop) -> bool:
    """Whether the body of ``loop`` is tasks alone, and some of them are loops."""
    tasks = [each.task for each in loop.body if isinstance(each, TaskStatement)]
    return len(tasks) == len(loop.body) and any(task.axes for task in tasks)


def over_both_axes(which: Tested, stencils: Stencils) -> None:
    """What a tile owns of a loop with a reduction has borders of its own.

    Raises:
        NotTiled: of one of them it does not.
    """
    for number in which.reducing:
        stage = stencils.stages[number]
        if any(place.axis is None for place in stage.places):
            raise NotTiled(f"the reduction of line {stage.task.span.line} is along an edge")
        if not len({place.axis for place in stage.places}) == len(stage.task.axes) == 2:
            raise NotTiled(f"the reduction of line {stage.task.span.line} is not over rows and columns")
        if any(place.wraps is not None and by for place, by in zip(stage.places, stage.anchor, strict=True)):
            raise NotTiled(f"the reduction of line {stage.task.span.line} is over a periodic axis, beside where it writes")


def begun(loop: Loop, large: str) -> Task:
    """The task that decides whether there are blocks at all: where the loop begins, and where arrays are large."""
    begins = f"({ast.unparse(_tested(loop.enter))}) != 0 and " if loop.test_first and loop.enter is not None else ""
    enter = loop.enter if loop.enter is not None else replace(loop.condition, role="enter", scalars=())
    first = [] if loop.enter is None else list(loop.enter.body[:-1])
    return deciding(enter, f"{loop.condition.name}_begun", first, f"{begins}{large} != 0")


def goes_on(loop: Loop, state: Slot) -> Task:
    """The task that decides whether there is another block: where both were accepted."""
    task = deciding(loop.condition, f"{loop.condition.name}_many", [], f"{SLOTS.name}[{state.index}] == 2")
    return replace(task, scalars=(), effects=Effects(frozenset({state.name}), loop.condition.effects.writes))


def _tested(task: Task | None) -> ast.expr:
    """What a task decides by."""
    assert task is not None
    last = task.body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    return last.value.args[-1]


def _refuse(found: Tested) -> None:
    arrays = {_array_of(element) for element in found.elements}
    for task in found.serial:
        _refuse_numbers(task, arrays, {ast.unparse(element) for element in found.elements})
    condition = found.loop.condition
    written = frozenset().union(*(task.effects.writes for task in found.loops))
    numbers = (task.effects.writes - _traded(task) for task in found.serial)
    moving = condition.effects.writes.union(arrays, found.scalars, *numbers)
    for task in (*found.serial, condition):
        if task.effects.touched & written:
            raise NotTiled(f"line {task.span.line} looks at arrays that the loops write")
    for task in found.loops:
        if task.effects.touched & moving:
            raise NotTiled(f"line {task.span.line} looks at what changes from one iteration to the next")
    names: dict[str, object] = {}
    for task in (*found.serial, condition):
        for name, thing in (*task.names.items(), *task.scalars, *task.results, *found.scalars.items()):
            if names.setdefault(name, thing) != thing:
                raise NotTiled(f"`{name}` stands for two things")


def _refuse_numbers(task: Task, arrays: set[str], places: set[str]) -> None:
    """A task of one thread; ``places`` are the elements of ``arrays`` that reductions compute."""
    line = f"line {task.span.line}"
    if task.reductions or task.selections or task.plain is not None or task.role != "serial":
        raise NotTiled(f"{line} does more than compute with numbers")
    more = task.effects.writes - arrays - _traded(task) - {slot.name for _, slot in task.results}
    if more:
        raise NotTiled(f"{line} writes `{min(more)}` in each iteration")
    stores = (each for each in walk(task.body) if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store))
    places = places | {f"{SLOTS.name}[{slot.index}]" for slot, _ in task.trades}
    if any(ast.unparse(each) not in places for each in stores):
        raise NotTiled(f"{line} writes elements that no reduction computes")


def _traded(task: Task) -> frozenset[str]:
    """The slots that say what names of arrays stand for, and which a task changes besides."""
    return frozenset(slot.name for slot, _ in task.trades)


def _array_of(element: ast.expr | None) -> str:
    assert isinstance(element, ast.Subscript)
    assert isinstance(element.value, ast.Name)
    return element.value.id


@dataclass(frozen=True, slots=True)
class ConvergingCode(TileCode):
    """Writes a pass of a block of sweeps on the CPU."""

    def _iteration(self) -> list[str]:
        return ["pass"] if self.copies else TileCode._iteration(self)

    def _call(self, number: int, stage: Stage) -> list[str]:
        """A sweep: what a tile owns has a result, and what lies around it is done in four parts."""
        if number not in self.reductions():
            return TileCode._call(self, number, stage)
        assert self.attempt is not None
        lines, anchor = [], stage.anchor
        for axis, place in enumerate(stage.places):
            assert place.axis is not None
            each, (low, high) = stage.task.axes[place.axis], region(stage, axis)
            start, count = ast.unparse(each.start), ast.unparse(each.count)
            own = f"_own{axis} - {anchor[axis]} - _from{axis}"
            # A periodic axis goes on beyond its end, which no tile owns.
            around = place.wraps is not None
            lines += [
                f"_begin{axis} = {low if around else f'_max({start}, {low})'} - _from{axis}",
                f"_stop{axis} = _max({high if around else f'_min({start} + {count}, {high})'} - _from{axis}, _begin{axis})",
                f"_first{axis} = _min(_max({own}, _begin{axis}), _stop{axis})",
                f"_end = _min({own} + {self.tile[axis]}, {start} + {count} - _from{axis})",
                f"_last{axis} = _min(_max(_end, _first{axis}), _stop{axis})",
            ]
        above, below = ("_begin0", "_first0"), ("_last0", "_stop0")
        middle, left, right, all_ = ("_first0", "_last0"), ("_begin1", "_first1"), ("_last1", "_stop1"), ("_begin1", "_stop1")
        parts = [self._part(number, stage, *part) for part in ((above, all_), (below, all_), (middle, left), (middle, right))]
        result = self.attempt.place(number, "_sweep")
        return [*lines, *parts, f"{result} = {self._part(number, stage, middle, ('_first1', '_last1'))}"]

    def _part(self, number: int, stage: Stage, *ranges: tuple[str, str]) -> str:
        axes = [stage.along(position) for position in (0, 1)]
        bounds = [bound for axis in axes if axis is not None for bound in ranges[axis]]
        return f"{sweep_name(number)}({', '.join([*bounds, *self.given(stage)])})"

    def _function(self, number: int, stage: Stage) -> Function:
        reductions = self.reductions().get(number)
        if reductions is None:
            return TileCode._function(self, number, stage)
        arguments, body = self._nest(stage, InTile(stage).statements())
        body = [*generated(*reductions.identities), *body, *generated(f"return {reductions.local}")]
        names = {**stage.task.names, **reductions.own_names, **BUILTINS}
        return make_function(f"{stage.task.name}_sweep", arguments, body, names, stage.task.span)


def in_one_block(
    reductions: ReductionCode, task: Task, name: str, found: str, all_: str, shape: tuple[str, str], tiles: str, large: str
) -> Task:
    """What combines in ``all_``, of ``shape``, what the ``tiles`` found in the sweeps of a loop: on CUDA a block for each."""
    body = [
        *reductions.in_one_block(tiles, f"{found}[_sweep, _assume_ge(_part, 0)]"),
        *generated("if _lane == 0:", f"    {all_}[_sweep, _one] = {reductions.local}"),
    ]
    for node in walk(body):
        place_at(node, task.span)
    named = zip(("_sweep", "_one"), shape, strict=True)
    axes = (Axis(name, parsed("0"), parsed("1"), load(count), on_device=False, span=task.span) for name, count in named)
    return Task(
        name=f"{task.name}_found{name}",
        role="loop",
        span=task.span,
        axes=tuple(axes),
        body=tuple(body),
        names={**reductions.next_names, **BUILTINS},
        effects=Effects(frozenset({found}), frozenset({all_})),
        verdict=Verdict("independent", "each sweep has a result"),
        block=BlockShape((REDUCTION_BLOCK, 1), 0, large),
        note="what all tiles found in a sweep",
    )


def going_through(which: Tested, sweeps: int, found: Mapping[int, str], parts: str, state: Slot, before: int) -> Task:
    """The task that goes through a block of sweeps, and says in ``state`` whether it is accepted: then it is one more.

    ``before``: what ``state`` is where there is such a block. ``found``: what the loops found, in columns of which there are
    ``parts``, the code of a number.
    """
    condition = which.loop.condition
    names: dict[str, object] = {"_range": range, **condition.names}
    steps: list[ast.stmt] = []
    for number, task in which.order:
        if number is None:
            steps += copied(list(task.body))
            names |= task.names
            continue
        reductions, slot = reduction_code(task, which.program), _variable(task).slot
        steps += generated(*reductions.of_parts(parts, f"{found[number]}[_sweep, _part]"))
        names |= reductions.own_names
        if slot is not None:
            conversion = next(name for name, value in task.names.items() if isinstance(value, Cast) and value.slot == slot)
            steps += generated(f"{slot.name} = {conversion}({slot.name})")
            names[conversion] = task.names[conversion]
    results = dict(pair for task in which.serial for pair in task.results)
    results |= which.scalars
    scalars = dict(pair for task in (*which.serial, condition) for pair in task.scalars) | results
    kept = [*(name for name in results if name in which.carried), *dict.fromkeys(map(ast.unparse, which.elements))]
    # All names of arrays stand for what they stood for before, behind a block of sweeps.
    same = dict.fromkeys(f"{SLOTS.name}[{slot.index}]" for task in which.serial for slot, _ in task.trades)
    first = copied(list(condition.body[:-1]))
    place = f"{SLOTS.name}[{state.index}]"
    body = generated(
        f"if {before} == 0 or {place} == {before}:",
        *(f"    _kept{number} = {name}" for number, name in enumerate(kept)),
        *(f"    _same{number} = {name}" for number, name in enumerate(same)),
        f"    _accepted = {before + 1}",
        f"    for _sweep in _range({sweeps}):",
        "        steps",
        "        first",
        f"        if ({ast.unparse(_tested(condition))}) == 0:",
        f"            _accepted = {before}",
        "            break",
        f"    if _accepted == {before}:",
        *(f"        {name} = _kept{number}" for number, name in enumerate(kept)),
        *(f"    {name} = _same{number}" for number, name in enumerate(same)),
        f"    {place} = _accepted",
        steps=steps,
        first=first or generated("pass"),
    )
    for node in walk(body):
        place_at(node, which.loop.span)
    effects = [task.effects for task in (*which.serial, condition)]
    touched = {_array_of(element) for element in which.elements} | {slot.name for slot in results.values()}
    touched |= {name for task in which.serial for name in _traded(task)}
    reads = frozenset().union(*(each.reads for each in effects)) | touched | {*found.values(), state.name}
    return Task(
        name=f"{condition.name}_{'back' if before else 'forth'}",
        role="serial",
        span=which.loop.span,
        axes=(),
        body=tuple(body),
        names=names,
        effects=Effects(reads, frozenset(touched | {state.name})),
        scalars=tuple(scalars.items()),
        results=tuple(results.items()),
    )
