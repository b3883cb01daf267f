"""Loop fusion: neighbouring loops over one range become one where no later iteration needs another one of the earlier loop.

Then the later loop's iteration may follow at once on the earlier one's, in the same thread, and what both touch is read once.
Anything not proved is not joined, and says why. Loops that share no array stay apart: they can run side by side.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from qgraph.frontend.dependence.access_collector import collect
from qgraph.frontend.dependence.loop_verdict import LoopCarriedConflict, crossing
from qgraph.frontend.facts.loop_facts import LoopFacts
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.equal_extents import EqualExtents
from qgraph.frontend.names.function_frame import occurrences
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.functions import Function
from qgraph.ir.program import NUMBER, Branch, Effects, Loop, Selection, Statement, Task, TaskStatement, effects_of, tasks_of
from qgraph.ir.renaming import MOST_NODES, MOST_WORDS, ReservedNames, apart_from, identifiers, node_count, words_of
from qgraph.ir.trees import RANGE, at_place, counted_loop, parts_of
from qgraph.ir.verdicts import Verdict
from qgraph.polyhedral.array_sections import Section
from qgraph.source import children_of, copied

# How many statements a loop looks back.
_FARTHEST = 32
_PRINTED = frozenset({"_printed"})
_STRENGTH = ("assumed", "dependent", "asserted", "independent")


def join_loops(
    unit: ProgramBuilder, aliases: Iterable[tuple[str, str]], statements: Sequence[Statement]
) -> tuple[Statement, ...]:
    """``statements`` with neighbouring loops joined, in bodies of device loops and branches too.

    Statements between two loops go before or behind both, where they have nothing to do with one of them.

    Args:
        unit: what the frontend knows of the leaves, and what it judged of each loop.
        aliases: pairs of leaves that share memory.
        statements: a kernel, or part of it.
    """
    return _Joiner(unit, aliases).block(statements)


class _Joiner:
    def __init__(self, unit: ProgramBuilder, aliases: Iterable[tuple[str, str]]) -> None:
        self._unit = unit
        self._leaves = unit.leaves
        self._extents = EqualExtents(unit)
        # By name of a leaf: all leaves that share memory with it.
        self._related: dict[str, set[str]] = {}
        for first, second in aliases:
            self._related.setdefault(first, {first}).add(second)
            self._related.setdefault(second, {second}).add(first)
        # What is known of each loop, joined ones included.
        self._judged = dict(unit.judged)
        # What has one meaning in all tasks.
        self._common = frozenset({NUMBER, *unit.leaves, *(value.name for value in unit.host_values)})

    def block(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        done: list[Statement] = []
        for statement in statements:
            match statement:
                case TaskStatement() if _is_loop(statement):
                    self._add_loop(done, statement.task)
                case Loop():
                    done.append(replace(statement, body=self.block(statement.body)))
                case Branch():
                    done.append(replace(statement, regions=tuple(map(self.block, statement.regions))))
                case _:
                    done.append(statement)
        return tuple(done)

    def _add_loop(self, done: list[Statement], task: Task) -> None:
        """Join ``task`` with the nearest loop of ``done`` that allows it, or append it.

        What has to come before ``task`` and stands behind that loop goes before both: it must have nothing to do with the loop.
        """
        note = ""
        first: list[int] = []
        needed = _touched(TaskStatement(task))
        for position in reversed(range(max(0, len(done) - _FARTHEST), len(done))):
            earlier = done[position]
            touched = _touched(earlier)
            if _is_loop(earlier):
                between = next((each for each in reversed(first) if self._meet(touched, _touched(done[each]))), None)
                if between is None:
                    joined = self._join(earlier.task, task)
                else:
                    joined = f"what line {_line(done[between])} does comes between them"
                if isinstance(joined, Task):
                    rest = [done[each] for each in range(position + 1, len(done)) if each not in first]
                    done[position:] = [*(done[each] for each in reversed(first)), TaskStatement(joined), *rest]
                    return
                note = note or f"not joined with the loop at line {earlier.task.span.line}: {joined}"
            if self._meet(touched, needed):
                first.append(position)
                needed |= touched
        done.append(TaskStatement(replace(task, note=note)))

    def _meet(self, first: Effects, second: Effects) -> bool:
        """Whether one writes what the other touches."""
        return bool(self._all(first.writes) & second.touched or self._all(second.writes) & first.touched)

    def _all(self, names: Iterable[str]) -> set[str]:
        return {other for name in names for other in self._related.get(name, (name,))}

    # --- two loops ---

    def _join(self, first: Task, second: Task) -> Task | str:
        """One loop that does what ``first`` and then ``second`` do, or why they are not joined."""
        written = second
        facts, later = self._judged[first.name], self._judged[second.name]
        if len(first.axes) > len(second.axes):
            first, facts = _by_rows(first, facts, second)
        else:
            second, later = _by_rows(second, later, first)
        refused = self._cheap_reason(first, second, facts, later)
        body = _without_continue(first.body)
        if refused or body is None:
            return refused or "its `continue` ends the iteration"
        first = replace(first, body=tuple(body))
        variables = {b.variable: a.variable for a, b in zip(first.axes, second.axes, strict=True)}
        if first.index_tuple and second.index_tuple:
            variables[second.index_tuple] = first.index_tuple
        renamed, new = apart_from(second, ReservedNames.by(first, self._common), variables)
        assert not new.keys() & self._leaves.keys()
        joined = _joined(first, renamed, written, self._leaves)
        whole = replace(
            facts,
            body=list(joined.body),
            names=joined.names,
            index_tuple=joined.index_tuple,
            asserted=facts.asserted and later.asserted,
            ndim=self._unit.array_dimensions(),
        )
        crossed = self._crossing(whole, len(first.body))
        if crossed is not None:
            return _words(crossed, {name: old for old, name in new.items()})
        self._judged[joined.name] = whole
        return joined

    def _cheap_reason(self, first: Task, second: Task, facts: LoopFacts, later: LoopFacts) -> str:
        """What keeps two loops apart, as far as it can be told without looking at indices; "" if nothing does."""
        if len(first.axes) != len(second.axes) or self._extents.of(first) != self._extents.of(second):
            return _other_range(facts.text, later.text)
        if facts.file != later.file:
            return "they stand in two files"
        if not (first.reductions or second.reductions or first.on_device or self._share(first, second)):
            return "they share no array, and can run side by side"
        if any(self._meet(Effects(writes=_reduced(a)), b.effects) for a, b in ((first, second), (second, first))):
            return f"one combines values in {self._words(first, second)}, which the other uses"
        if names_assigned(first.body).keys() & {first.index_tuple, *(axis.variable for axis in first.axes)}:
            return "it assigns its own variable"
        if prints(first.names) and prints(second.names):
            return "both print"
        parameters = [self._leaves[name] for name in identifiers(first) | identifiers(second) if name in self._leaves]
        if words_of(parameters) > MOST_WORDS or node_count(first) + node_count(second) > MOST_NODES:
            touched = first.effects.touched | second.effects.touched
            return f"one kernel of both would be too long (they touch {len(touched)} arrays)"
        return ""

    def _share(self, first: Task, second: Task) -> bool:
        arrays = first.effects.touched & self._unit.array_dimensions().keys()
        return bool(self._all(arrays) & second.effects.touched)

    def _words(self, first: Task, second: Task) -> str:
        """The places that are reduced, as the user writes them."""
        places = _reduced(first) | _reduced(second)
        names = sorted(self._all(places) & first.effects.touched & second.effects.touched) or sorted(places)
        texts = (self._leaves[name].path if name in self._leaves else re.sub(r"^_|_\d+$", "", name) for name in names)
        return ", ".join(f"`{text}`" for text in texts)

    def _crossing(self, whole: LoopFacts, statements: int) -> LoopCarriedConflict | None:
        """Accesses of the first ``statements`` and of the rest that may meet, whichever arrays happen to be the same."""
        found = self._crossing_where(whole, statements)
        # The leaves that the loop may name, each as the one that stands for its memory.
        named = set(map(whole.memory, occurrences(whole.body)))
        for pair in sorted({tuple(sorted(map(whole.memory, pair))) for pair in self._unit.sometimes_same}):
            first, second = pair
            if found is None and first != second and named.issuperset(pair):
                found = self._crossing_where(whole.where_same(first, second), statements)
        return found

    def _crossing_where(self, whole: LoopFacts, statements: int) -> LoopCarriedConflict | None:
        touched = collect(whole)
        at = touched.starts[statements]
        return crossing(touched.all[:at], touched.all[at:], touched, whole, self._unit.overlapping)


def _by_rows(task: Task, facts: LoopFacts, other: Task) -> tuple[Task, LoopFacts]:
    """``task`` with its last axis as a loop inside, where ``other`` has one, too, in iterations of so many axes; else as it is.

    Sums over rows, and what is done with their elements, become one loop over the rows: each of these is read once from memory.
    """
    *axes, last = task.axes
    plain = not (task.reductions or task.index_tuple or task.on_device or other.reductions)
    counted = constant_of(last.start) == 0 and constant_of(last.step) == 1
    if len(axes) != len(other.axes) or not axes or not plain or not counted or not _has_loop(other) or _has_loop(task):
        return task, facts
    if not all(_is_along(each, last.variable) for each in task.body) or task.names.get(RANGE, range) is not range:
        return task, facts
    inside = counted_loop(last.variable, ast.Constant(0), copied(last.count), ast.Constant(1), list(task.body))
    loop = at_place(inside, task.body[0])
    names = {**task.names, RANGE: range}
    facts = replace(facts, axes=facts.axes[:-1], body=[loop], names=names)
    return replace(task, axes=tuple(axes), body=(loop,), names=names), facts


def _has_loop(task: Task) -> bool:
    return any(isinstance(each, ast.For) for each in task.body)


def _is_along(statement: ast.stmt, variable: str) -> bool:
    """Whether a statement stores elements of a row, of which ``variable`` is the number, and nothing else."""
    match statement:
        case ast.If(body=body, orelse=other):
            return all(_is_along(each, variable) for each in (*body, *other))
        case ast.Assign(targets=[ast.Subscript() as target]):
            last = parts_of(target)[-1]
            return isinstance(last, ast.Name) and last.id == variable
    return False


def _joined(first: Task, second: Task, written: Task, leaves: Mapping[str, Leaf]) -> Task:
    """The task of both; ``second`` has no name that ``first`` has for something else. ``written`` is the second as it was."""
    verdicts = [task.verdict for task in (first, second) if task.verdict is not None]
    verdict: Verdict | None = min(verdicts, key=lambda each: _STRENGTH.index(each.kind), default=None)
    body = (*first.body, *second.body)
    # An element that only a promise keeps from other iterations may be another one's to store.
    proved = verdict is not None and verdict.kind == "independent"
    if proved and any(isinstance(each, ast.For) for each in body):
        body = tuple(_chosen(each, leaves) for each in body)
    return replace(
        first,
        body=body,
        names={**first.names, **second.names},
        effects=first.effects | second.effects,
        sections=_sections(first, second),
        verdict=verdict,
        index_tuple=first.index_tuple or second.index_tuple,
        scalars=tuple(dict((*first.scalars, *second.scalars)).items()),
        selections=_selections(first, second),
        reductions=(*first.reductions, *second.reductions),
        ticket=first.ticket or second.ticket,
        joined=tuple(replace(loop, note="") for loop in (*first.written, written)),
    )


def _chosen(statement: ast.stmt, leaves: Mapping[str, Leaf]) -> ast.stmt:
    """If-conversion of a store in an element that the condition is of: the lanes of a warp, which share loops, all store it.

    An iteration that reads an element whatever the condition is has it to itself where another one stores it. Elements are
    floats: an integer that is kept beside a float that is stored has the digits of a float.
    """
    match statement:
        case ast.If(test, [ast.Assign([ast.Subscript(ast.Name(name)) as place], value)], []):
            text, type_ = ast.unparse(place), leaves[name].type if name in leaves else None
            floats = isinstance(type_, ArrayType) and type_.dtype.startswith(("float", "complex"))
            if floats and any(isinstance(node, ast.Subscript) and ast.unparse(node) == text for node in _evaluated(test)):
                kept = ast.Subscript(copied(place.value), copied(place.slice), ast.Load())
                return at_place(ast.Assign([place], ast.IfExp(test, value, kept)), statement)
    return statement


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that are evaluated whatever the others are."""
    yield node
    match node:
        case ast.BoolOp(values=[first, *_]) | ast.IfExp(test=first):
            yield from _evaluated(first)
        case ast.Compare(left, _, [first, *_]):
            yield from _evaluated(left)
            yield from _evaluated(first)
        case _:
            for child in children_of(node):
                yield from _evaluated(child)


def _sections(first: Task, second: Task) -> dict[str, tuple[Section, ...]]:
    """The sections that both touch, of arrays of which that is known of both."""
    return {
        name: (*first.sections.get(name, ()), *second.sections.get(name, ()))
        for name in first.sections.keys() | second.sections.keys()
        if all(name in task.sections or name not in task.effects.touched for task in (first, second))
    }


def _selections(first: Task, second: Task) -> tuple[Selection, ...]:
    """Those of both; a name that one of them loads or stores through is read or written."""
    found: dict[str, Selection] = {}
    for each in (*first.selections, *second.selections):
        known = found.get(each.local, each)
        found[each.local] = replace(each, read=each.read or known.read, written=each.written or known.written)
    return tuple(found.values())


def _reduced(task: Task) -> frozenset[str]:
    """The slots and arrays that the loop combines values in, once all its iterations are done."""
    found: set[str] = set()
    leaves = {selection.local: selection.leaves for selection in task.selections}
    for variable in (each for reduction in task.reductions for each in reduction.variables):
        if variable.slot is not None:
            found.add(variable.slot.name)
        elif variable.element is not None:
            assert isinstance(variable.element.value, ast.Name)
            name = variable.element.value.id
            found.update(leaves.get(name, (name,)))
    return frozenset(found)


def _continues(statements: Iterable[ast.AST]) -> bool:
    """Whether a `continue` among ``statements`` belongs to the loop that they are the body of."""
    return any(
        isinstance(node, ast.Continue)
        or _continues(node.orelse if isinstance(node, (ast.For, ast.While)) else children_of(node))
        for node in statements
    )


def _without_continue(statements: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    """If-conversion of `continue`: what follows it goes to the other branch; None where that would duplicate code."""
    done: list[ast.stmt] = []
    for at, statement in enumerate(statements):
        if isinstance(statement, ast.Continue):
            return done
        if not _continues([statement]):
            done.append(statement)
            continue
        if not isinstance(statement, ast.If):
            return None
        written = (statement.body, statement.orelse)
        body, orelse = (_without_continue([*branch, *statements[at + 1 :]]) for branch in written)
        ends = any(branch and isinstance(branch[-1], ast.Continue) for branch in written)
        if not ends or body is None or orelse is None:
            return None
        body = body or [ast.copy_location(ast.Pass(), statement)]
        return [*done, ast.copy_location(ast.If(statement.test, body, orelse), statement)]
    return done


def prints(names: Mapping[str, object]) -> bool:
    """Whether code with these globals, or a function that it calls, prints."""
    return any(value is print or (isinstance(value, Function) and prints(value.names)) for value in names.values())


def _is_loop(statement: Statement) -> TypeGuard[TaskStatement]:
    return isinstance(statement, TaskStatement) and statement.task.role == "loop"


def _touched(statement: Statement) -> Effects:
    """All that a statement touches; what is printed keeps its order too."""
    effects = effects_of(statement)
    printing = any(prints(task.names) for task in tasks_of((statement,)))
    return effects | Effects(writes=_PRINTED) if printing else effects


def _other_range(one: str, other: str) -> str:
    if one.startswith(".") or other.startswith("."):
        # Those of array statements have no text.
        return "their ranges are not known to be the same"
    return f"`{one}` and `{other}` are not known to be the same"


def _line(statement: Statement) -> int:
    return statement.task.span.line if isinstance(statement, TaskStatement) else statement.span.line


def _words(crossed: LoopCarriedConflict, written: Mapping[str, str]) -> str:
    """Why loops that cross are not joined; ``written`` are the names of the later one that had to be changed."""
    later, earlier = crossed.later, crossed.earlier
    text = re.sub(r"[A-Za-z_]\w*", lambda name: written.get(name[0], name[0]), later.text)
    does, did = (each.kind if each.kind in ("read", "write") else "update" for each in (later, earlier))
    modal, ending = ("", "s") if crossed.surely else ("may ", "")
    return f"`{text}` {modal}{does}{ending} what another iteration {did}s by `{earlier.text}`"
