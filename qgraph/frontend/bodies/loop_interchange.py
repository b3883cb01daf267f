"""Serial loops of parallel ones over one range that need not be serial, or not outside.

Where no two elements in any turns touch what one of them writes, the serial loop's variable is one more axis of a parallel
loop. Else, where iteration i of each parallel loop touches only what iteration i of the others does, in all turns, it goes
inside (loop interchange): a thread takes its element through all of them. Nothing is launched a turn then, and what only one
turn needs stays in registers. Which of both it may be is what the dependence test says of the loop that comes of it. Legality
as in Allen and Kennedy, Optimizing Compilers for Modern Architectures (2001), 5.2; privatisation, 5.3.

Where a turn decides the range of the parallel loops, as in triangular ones, they go over the range that holds those of all
turns, and a guard leaves out what is not the turn's.

The tasks of a turn are straight-line code, but for loops inside where the turns are an axis. Reductions, faults and exits leave
the loop as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence, Set
from dataclasses import field, replace

from qgraph.errors import DataRaceError
from qgraph.frontend.bodies.array_contraction import NOT_STRAIGHT, Registers, uses_of
from qgraph.frontend.bodies.loop_fusion import prints
from qgraph.frontend.dependence.loop_verdict import judge
from qgraph.frontend.facts import loop_facts
from qgraph.frontend.facts.loop_facts import LoopFacts
from qgraph.frontend.inference.trip_counts import coefficient, on_host
from qgraph.frontend.names.equal_extents import EqualExtents
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.program import (
    SLOTS,
    Axis,
    Branch,
    Cast,
    Effects,
    Loop,
    Result,
    Statement,
    Task,
    TaskStatement,
    effects_of,
)
from qgraph.ir.renaming import MOST_NODES, MOST_WORDS, ReservedNames, apart_from, node_count, words_of
from qgraph.ir.slots import Slot
from qgraph.ir.trees import RANGE, assign, at_place, counted_loop, load, parsed, with_names
from qgraph.ir.verdicts import Verdict
from qgraph.polyhedral.symbolic_integers import Poly
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of


def interchange_loops(unit: ProgramBuilder, statements: Sequence[Statement], result: Result | None) -> tuple[Statement, ...]:
    """``statements`` of a kernel that returns ``result``, with serial loops inside of parallel ones where that is legal."""
    return _Interchanger(unit, statements, result).block(statements)


class _Interchanger:
    def __init__(self, unit: ProgramBuilder, statements: Sequence[Statement], result: Result | None) -> None:
        self._unit = unit
        self._arrays = unit.array_dimensions().keys()
        # How many tasks touch each slot and array; what is returned is touched once more.
        self._uses = uses_of(statements, result)
        self._extents = EqualExtents(unit)

    def block(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """The statements, those in device loops and branches included; the innermost loops come first."""
        done: list[Statement] = []
        for statement in statements:
            match statement:
                case Loop():
                    loop = replace(statement, body=self.block(statement.body))
                    changed = self._interchanged(loop)
                    if changed is not None:
                        self._uses.subtract(uses_of((loop,)))
                        self._uses.update(uses_of((changed,)))
                    done.append(changed or loop)
                case Branch():
                    done.append(replace(statement, regions=tuple(map(self.block, statement.regions))))
                case _:
                    done.append(statement)
        return tuple(done)

    def _interchanged(self, loop: Loop) -> TaskStatement | None:
        """The parallel loop; None where there may be none."""
        tasks = [each.task for each in loop.body if isinstance(each, TaskStatement)]
        loops = [task for task in tasks if task.role == "loop"]
        if loop.counter is None or loop.counter.range is None or not loops or len(tasks) < len(loop.body):
            return None
        touched = effects_of(loop)
        inside = uses_of((loop,))
        # What nothing else looks at; numbers that change from turn to turn must be among it.
        own = {name for name in touched.touched if self._uses[name] == inside[name]}
        moving = touched.writes - self._arrays
        ((variable, _),) = loop.counter.steps
        if not moving <= own or not _in_order(tasks, moving, variable) or not all(map(self._is_taken, tasks)):
            return None
        if not self._over_one_range(loops) or not self._fits(tasks, touched):
            return None
        space = self._space(loop, loops[0], variable)
        if space is None:
            return None
        merged = _Merged(self._unit, loops[0], moving)
        for task in tasks:
            merged.add(task)
        if merged.names.setdefault(RANGE, range) is not range:
            return None
        registers = Registers(self._unit, [axis.variable for axis in loops[0].axes], own)
        merged.body = registers.promoted(merged.body)
        merged.names |= registers.casts
        if space.tests:
            guarded = ast.If(space.guard(merged.name_of(variable)), merged.body, [])
            merged.body = [at_place(guarded, merged.body[-1])]
        taken = loop, merged, variable, space, registers
        return self._as_axis(*taken) or self._inside(*taken)

    def _space(self, loop: Loop, task: Task, variable: Slot) -> _Space | None:
        """Where the iterations of ``task`` are, in all turns; None where the host does not know it."""
        space = _Space(next((local for local, slot in task.scalars if slot == variable), ""))
        for axis, known in zip(task.axes, self._unit.judged[task.name].axes, strict=True):
            found = self._of_all_turns(loop, space, axis, known) if axis.on_device else (axis, known)
            if found is None:
                return None
            space.axes.append(found[0])
            space.facts.append(found[1])
        return space

    def _of_all_turns(
        self, loop: Loop, space: _Space, axis: Axis, known: loop_facts.Axis
    ) -> tuple[Axis, loop_facts.Axis] | None:
        """The axis with the iterations of all turns, where its bounds are sums of the variable and what the host knows."""
        begin, by, count = self._range(loop)
        first, last = (coefficient(bound, space.turn) for bound in (known.start, known.stop))
        upwards = constant_of(by)
        # Of a window that moves it would be a small part.
        if not (space.turn and upwards) or constant_of(known.step) != 1 or first is None or last is None or first == last:
            return None
        end = ast.BinOp(begin, ast.Add(), ast.BinOp(ast.BinOp(count, ast.Sub(), ast.Constant(1)), ast.Mult(), by))
        least, most = (begin, end) if upwards > 0 else (end, begin)
        low = self._in_turn(space, known.start, least if first > 0 else most)
        high = self._in_turn(space, known.stop, most if last > 0 else least)
        if low is None or high is None:
            return None
        step = ast.Constant(1)
        extent = parsed(f"max(0, ({ast.unparse(high)}) - ({ast.unparse(low)}))")
        if first:
            space.tests.append(ast.Compare(copied(known.start), [ast.LtE()], [load(axis.variable)]))
        if last:
            space.tests.append(ast.Compare(load(axis.variable), [ast.Lt()], [copied(known.stop)]))
        polys = tuple(map(self._unit.host_integers.of, (low, high, step, extent)))
        held = loop_facts.Axis(known.variable, low, high, step, polys)
        return replace(axis, start=low, step=step, count=extent, on_device=False), held

    def _named(self, axis: Axis) -> Axis:
        """``axis``, whose bounds are expressions of the host, over names of the host's values."""
        start, count = (
            part if isinstance(part, (ast.Name, ast.Constant)) else self._unit.host_value(part, axis.span, text="a range")
            for part in (axis.start, axis.count)
        )
        return replace(axis, start=start, count=count)

    def _in_turn(self, space: _Space, bound: ast.expr, turn: ast.expr) -> ast.expr | None:
        """A bound of a parallel loop, as the host computes it, where the serial loop's variable is ``turn``."""
        return on_host(self._unit, with_names(copied(bound), {space.turn: turn}))

    def _as_axis(
        self, loop: Loop, merged: _Merged, variable: Slot, space: _Space, registers: Registers
    ) -> TaskStatement | None:
        """The loop whose iterations are those of all turns."""
        start, step, count = self._range(loop)
        name, integers = merged.name_of(variable), self._unit.host_integers
        stop = ast.BinOp(start, ast.Add(), ast.BinOp(count, ast.Mult(), step))
        known = tuple(map(integers.of, (start, stop, step, count)))
        axis = Axis(name, start, step, count, on_device=False, span=loop.span)
        turns = loop_facts.Axis(name, start, stop, step, known)
        return self._judged(loop, merged, merged.body, space, registers, [(axis, turns)])

    def _inside(self, loop: Loop, merged: _Merged, variable: Slot, space: _Space, registers: Registers) -> TaskStatement | None:
        """The loop whose iterations go through all turns."""
        if any(isinstance(node, (ast.For, ast.While)) for statement in merged.body for node in nodes_of(statement)):
            return None
        start, step, count = self._range(loop)
        stop = ast.BinOp(copied(start), ast.Add(), ast.BinOp(count, ast.Mult(), copied(step)))
        turns = counted_loop(merged.name_of(variable), start, stop, step, merged.body)
        return self._judged(loop, merged, [at_place(turns, merged.body[-1])], space, registers, [])

    def _range(self, loop: Loop) -> tuple[ast.expr, ast.expr, ast.expr]:
        assert loop.counter is not None
        assert loop.counter.range is not None
        start, step, count = map(self._extents.constant, loop.counter.range)
        return start, step, count

    def _is_taken(self, task: Task) -> bool:
        """Whether a task is straight-line code: of one element of a proved parallel loop, or of kernel scalars."""
        nodes = [node for statement in task.body for node in nodes_of(statement)]
        if any(isinstance(node, NOT_STRAIGHT) or (isinstance(node, ast.Name) and node.id == SLOTS) for node in nodes):
            return False
        if prints(task.names) or task.selections or task.moves or task.trades or task.plain is not None:
            return False
        if task.role != "loop":
            return task.role == "serial" and task.effects.writes == {slot.name for _, slot in task.results}
        proved = task.verdict is not None and task.verdict.kind == "independent" and not task.races
        return proved and not (task.reductions or task.results) and task.effects.writes <= self._arrays

    def _over_one_range(self, loops: Sequence[Task]) -> bool:
        first, *others = loops
        one_file = len({self._unit.judged[task.name].file for task in loops}) == 1
        same = (len(task.axes) == len(first.axes) and self._extents.of(task) == self._extents.of(first) for task in others)
        return one_file and all(same)

    def _fits(self, tasks: Sequence[Task], touched: Effects) -> bool:
        """Whether one kernel may be as long, and it is known which arrays share memory."""
        arrays = touched.touched & self._arrays
        if any(pair <= arrays and pair & touched.writes for pair in self._unit.sometimes_same | self._unit.overlapping):
            return False
        return words_of(self._unit.leaves[name] for name in arrays) <= MOST_WORDS and sum(map(node_count, tasks)) <= MOST_NODES

    def _judged(
        self,
        loop: Loop,
        merged: _Merged,
        body: list[ast.stmt],
        space: _Space,
        registers: Registers,
        more: Sequence[tuple[Axis, loop_facts.Axis]],
    ) -> TaskStatement | None:
        """The task with this body, and with ``more`` axes outside, if no two iterations touch an element that one writes."""
        unit, first = self._unit, merged.first
        known = unit.judged[first.name]
        facts = replace(
            known,
            axes=(*(each for _, each in more), *space.facts),
            body=body,
            names=merged.names,
            span=loop.span,
            index_tuple=merged.index_tuple,
            asserted=False,
            ndim=unit.array_dimensions(),
            integers=unit.host_integers.scalars() | merged.integers,
            sizes=unit.extents_of_arrays(),
            serial=tuple({each.symbol: each for facts in merged.facts for each in facts.serial}.values()),
        )
        # A tuple of all indices has none for the turn.
        if more and merged.index_tuple:
            return None
        try:
            judgement = judge(facts)
        except DataRaceError:
            return None
        if judgement.verdict.kind != "independent" or judgement.atomics or judgement.collisions:
            return None
        effects = effects_of(loop)
        scalars = {slot.name for slot in merged.scalars.values()}
        where = "is an axis of it" if more else "runs inside of each"
        task = replace(
            first,
            name=unit.task_name(loop.span.line, "loop"),
            span=loop.span,
            axes=(*(axis for axis, _ in more), *map(self._named, space.axes)),
            body=tuple(body),
            names=merged.names,
            effects=Effects(
                (effects.reads & self._arrays - registers.names) | scalars, effects.writes & self._arrays - registers.names
            ),
            verdict=Verdict("independent", f"{judgement.verdict.reason}; `{loop.label}` {where}", loop.span),
            sections={},
            index_tuple=merged.index_tuple,
            scalars=tuple(merged.scalars.items()),
        )
        unit.judged[task.name] = facts
        return TaskStatement(task)


@dataclass(slots=True)
class _Space:
    """The axes of a parallel loop in all turns; where ``tests`` hold, an iteration is one of turn ``turn``, a name in them."""

    turn: str
    axes: list[Axis] = field(default_factory=list)
    facts: list[loop_facts.Axis] = field(default_factory=list)
    tests: list[ast.expr] = field(default_factory=list)

    def guard(self, turn: str) -> ast.expr:
        """The tests together, of the turn that is called so."""
        tests = [with_names(copied(each), {self.turn: load(turn)}) for each in self.tests]
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)


def _in_order(tasks: Sequence[Task], moving: Set[str], variable: Slot) -> bool:
    """Whether each number that changes from turn to turn is assigned once in a turn, before it is read there."""
    known = {variable.name}
    for task in tasks:
        results = {slot.name for _, slot in task.results}
        read = task.effects.reads & moving
        if read - known or results & known or read - {slot.name for _, slot in task.scalars}:
            return False
        known |= results
    return True


class _Merged:
    """The bodies of tasks, one behind the other, in which each name has one meaning."""

    def __init__(self, unit: ProgramBuilder, first: Task, moving: Set[str]) -> None:
        self.first = first
        self.index_tuple = first.index_tuple
        self.body: list[ast.stmt] = []
        self.names: dict[str, object] = {}
        self.scalars: dict[str, Slot] = {}
        # What is known of integers in the bodies, and what was known of each loop.
        self.integers: dict[str, Poly] = {}
        self.facts: list[LoopFacts] = []
        self._judged = unit.judged
        self._moving = moving
        # The numbers that change from turn to turn, by the names that they have been given.
        self._read: set[tuple[str, Slot]] = set()
        self._taken = ReservedNames(frozenset({RANGE, *unit.leaves, *(value.name for value in unit.host_values)}), {})

    def name_of(self, slot: Slot) -> str:
        """What a number that changes from turn to turn is called between the bodies."""
        return f"_turn{slot.index}"

    def add(self, task: Task) -> None:
        """Append a task, with names of its own."""
        variables: dict[str, str] = {}
        if task.role == "loop":
            variables = {own.variable: axis.variable for axis, own in zip(self.first.axes, task.axes, strict=True)}
            self.index_tuple = self.index_tuple or task.index_tuple
            variables |= {task.index_tuple: self.index_tuple} if task.index_tuple else {}
        renamed, new = apart_from(task, self._taken, variables)
        self._taken |= ReservedNames.by(renamed)
        facts = self._judged.get(task.name)
        if facts is not None:
            self.facts.append(facts)
        for (local, slot), (written, _) in zip(renamed.scalars, task.scalars, strict=True):
            if slot.name in self._moving:
                # It is assigned once in a turn, before it is read.
                if (local, slot) not in self._read:
                    self.body.append(at_place(assign(local, load(self.name_of(slot))), task.body[0]))
                self._read.add((local, slot))
                continue
            self.scalars[local] = slot
            if facts is not None and written in facts.integers:
                self.integers[local] = facts.integers[written]
        casts = {name for name, value in renamed.names.items() if isinstance(value, Cast)} if task.role == "serial" else set()
        self.names |= {name: value for name, value in renamed.names.items() if name not in casts}
        self.body += (_WithoutCasts(casts).visit(copied(statement)) for statement in renamed.body)
        for local, slot in task.results:
            self.body.append(at_place(assign(self.name_of(slot), load(new.get(local, local))), task.body[-1]))


class _WithoutCasts(ast.NodeTransformer):
    """Takes conversions to the type of a kernel scalar away: what is assigned once in a turn has the type of what it is."""

    def __init__(self, casts: Set[str]) -> None:
        self._casts = casts

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        return node.args[0] if isinstance(node.func, ast.Name) and node.func.id in self._casts else node
