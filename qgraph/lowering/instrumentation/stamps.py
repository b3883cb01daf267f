"""Program -> Program: between its tasks one thread reads the clock, so that ``profile`` knows when each began and ended.

A stamp is a task for one thread, and has an order with all other tasks. So these run one after another; all else that decides
what runs (unrolled copies, one block, a host that drives loops) takes stamps as any other statements.
"""

from __future__ import annotations

from dataclasses import replace

from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.profile_places import CAPACITY, COUNT, HEAD, LAST, WORDS, Place
from qgraph.ir.program import (
    Branch,
    Effects,
    HostValue,
    Loop,
    NodeStatement,
    Program,
    Result,
    Statement,
    Task,
    TaskStatement,
    Temporary,
)
from qgraph.lowering.codegen.generated_names import Statements, generated, place_at, walk
from qgraph.operations import intrinsics
from qgraph.source import Span

_READS = Effects(frozenset({WORDS}))
_STAMPS = Effects(frozenset({WORDS}), frozenset({WORDS}))


def with_stamps(program: Program) -> Program:
    """``program`` with stamps and their ``places``; it returns the array of stamps, behind what it returned."""
    stamper = _Stamper(program)
    start = stamper.stamp(program.span)
    body, places = stamper.block(program.body)
    size = HostValue("_profile_size", str(stamper.first + 2 * CAPACITY), program.span, "size", "stamps of the profile")
    words = Temporary(Leaf(WORDS, WORDS, ArrayType("int64", 1, "C")), (size.name,), program.span)
    result = Result(leaf=WORDS)
    return replace(
        program,
        body=(*_cleared(program, stamper.first), start, *body),
        host_values=(*program.host_values, size),
        returned=(*program.returned, words),
        result=result if program.result is None else Result(cls=tuple, items=(program.result, result)),
        places=places,
    )


class _Stamper:
    """Numbers stamps in program order."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._number = 0
        # Where the stamps themselves begin in the array: each place of one has two words before.
        self.first = HEAD + 2 * (1 + _count(program.body))

    def stamp(self, span: Span) -> TaskStatement:
        number, self._number = self._number, self._number + 1
        mine = HEAD + 2 * number
        lines = [
            "_now = _clock()",
            f"_count = {WORDS}[{COUNT}]",
            f"{WORDS}[{mine}] += 1",
            f"{WORDS}[{mine + 1}] += _now - {WORDS}[{LAST}]",
            f"{WORDS}[{LAST}] = _now",
            f"_place = {self.first} + 2 * (_count & {CAPACITY - 1})",
            f"{WORDS}[_place] = {number}",
            f"{WORDS}[_place + 1] = _now",
            f"{WORDS}[{COUNT}] = _count + 1",
        ]
        return _one_thread(self._program, f"stamp_{number}", span, generated(*lines))

    def block(self, statements: tuple[Statement, ...]) -> tuple[tuple[Statement, ...], tuple[Place, ...]]:
        found: list[Statement] = []
        places = []
        for statement in statements:
            stamped, place = self._statement(statement)
            end = self.stamp(place.spans[-1])
            found += [stamped, end]
            places.append(replace(place, end=self._number - 1))
        return tuple(found), tuple(places)

    def _body(
        self, statements: tuple[Statement, ...], span: Span
    ) -> tuple[tuple[Statement, ...], tuple[int, tuple[Place, ...]]]:
        number, start = self._number, self.stamp(span)
        inside, places = self.block(statements)
        return (start, *inside), (number, places)

    def _statement(self, statement: Statement) -> tuple[Statement, Place]:
        """A statement with stamps in it, and its place but for the stamp behind it."""
        match statement:
            case TaskStatement(task):
                spans = tuple(each.span for each in task.written)
                return TaskStatement(_ordered(task)), Place("task", task.name, spans, 0)
            case Loop():
                body, place = self._body(statement.body, statement.span)
                # A loop that counts may do so beside its iterations.
                condition = statement.condition if statement.counter is not None else _ordered(statement.condition)
                enter = None if statement.enter is None else _ordered(statement.enter)
                stamped = replace(statement, enter=enter, body=body, condition=condition)
                return stamped, Place("loop", statement.label, (statement.span,), 0, (place,))
            case Branch():
                parts = [self._body(region, statement.span) for region in statement.regions]
                regions = tuple(region for region, _ in parts)
                branch = replace(statement, decide=_ordered(statement.decide), regions=regions)
                return branch, Place("branch", statement.label, (statement.span,), 0, tuple(place for _, place in parts))
            case NodeStatement():
                node = replace(statement, effects=statement.effects | _READS)
                return node, Place("task", statement.label, (statement.span,), 0)


def _ordered(task: Task) -> Task:
    return replace(task, effects=task.effects | _READS)


def _count(statements: tuple[Statement, ...]) -> int:
    """How many stamps there are in ``statements``, and behind each of them."""
    count = len(statements)
    for statement in statements:
        match statement:
            case Loop():
                count += 1 + _count(statement.body)
            case Branch():
                count += sum(1 + _count(region) for region in statement.regions)
            case _:
                pass
    return count


def _cleared(program: Program, words: int) -> tuple[TaskStatement, ...]:
    lines = [f"for _word in _range({words}):", f"    {WORDS}[_word] = 0"]
    return (_one_thread(program, "stamps", program.span, generated(*lines)),)


def _one_thread(program: Program, name: str, span: Span, body: Statements) -> TaskStatement:
    for node in walk(body):
        place_at(node, span)
    names = {"_clock": intrinsics.clock, "_range": range}
    return TaskStatement(Task(f"{program.name}_{name}", "start", span, (), tuple(body), names, _STAMPS))
