"""Program -> Program: before each of its tasks one thread reads the clock, so that ``profile`` knows when each began.

That is how the CPU and one block of a GPU run it. In a graph kernels read the clock themselves (``stamped_kernels``).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.profile_places import BEFORE, EACH, END, HEAD, NEXT_STAMP, NOTHING, TOTALS, WORDS, Place, begins, joined
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
    parts_of,
)
from qgraph.lowering.codegen.generated_names import Statements, generated, place_at, walk
from qgraph.lowering.codegen.task_codegen import BUILTINS, STAMP_NAMES, stamp_lines
from qgraph.source import Span

STAMPS = Effects(frozenset({WORDS}), frozenset({WORDS}))
_SIZE = "_profile_size"
# Stamps for each task and statement, and besides: loops are taken apart, and one block has stamps of its own.
_MOST, _MORE = 8, 16


def with_words(program: Program) -> Program:
    """``program``, which returns the array of stamps behind what it returned."""
    numbers = _MORE + _MOST * sum(1 for _ in parts_of(program.body))
    size = HostValue(_SIZE, str(TOTALS + EACH * numbers), program.span, "size", "stamps of the profile")
    words = Temporary(Leaf(WORDS, WORDS, ArrayType("int64", 1, "C")), (size.name,), program.span)
    result = Result(leaf=WORDS)
    return replace(
        program,
        host_values=(*program.host_values, size),
        returned=(*program.returned, words),
        result=result if program.result is None else Result(cls=tuple, items=(program.result, result)),
    )


def with_stamps(program: Program, first: int = END + 1) -> Program:
    """``program``, with the words, and with stamps and their ``places``; their numbers count from ``first`` on."""
    stamper = _Stamper(program, first)
    body, places = stamper.block(program.body)
    check_numbers(program, stamper.number)
    last = stamp_task(program, END, program.span, stamp_lines(END))
    return replace(program, body=(TaskStatement(cleared(program)), *body, TaskStatement(last)), places=places)


def check_numbers(program: Program, after: int) -> None:
    """The array has room for numbers below ``after``."""
    (size,) = (value.source for value in program.host_values if value.name == _SIZE)
    assert int(size) >= TOTALS + EACH * after, f"{after} stamps in {size} words"


def cleared(program: Program) -> Task:
    """What sets the words to 0, but for the ring and the places that the first stamp looks for."""
    lines = [
        f"for _word in _range({HEAD}):",
        f"    {WORDS}[_word] = 0",
        f"for _word in _range({TOTALS}, {_SIZE}):",
        f"    {WORDS}[_word] = 0",
        f"{WORDS}[{NEXT_STAMP}] = {HEAD}",
        f"{WORDS}[{BEFORE}] = {TOTALS + EACH * NOTHING}",
    ]
    return _one_thread(program, "stamps", program.span, generated(*lines))


def stamp_task(program: Program, number: int, span: Span, lines: Sequence[str], name: str = "stamp") -> Task:
    """A task for one thread that is a stamp, or does nothing where its kernel is one."""
    return _one_thread(program, f"{name}_{number}", span, generated(*lines or ["pass"]))


def _one_thread(program: Program, name: str, span: Span, body: Statements) -> Task:
    for node in walk(body):
        place_at(node, span)
    used = {node.id for node in walk(body) if isinstance(node, ast.Name)}
    names = {name: value for name, value in {**BUILTINS, **STAMP_NAMES}.items() if name in used}
    return Task(f"{program.name}_{name}", "start", span, (), tuple(body), names, STAMPS)


class _Stamper:
    """Numbers stamps in program order."""

    def __init__(self, program: Program, first: int) -> None:
        self._program, self.number = program, first

    def _stamp(self, span: Span) -> tuple[TaskStatement, int]:
        number, self.number = self.number, self.number + 1
        return TaskStatement(stamp_task(self._program, number, span, stamp_lines(number))), number

    def block(self, statements: tuple[Statement, ...]) -> tuple[tuple[Statement, ...], tuple[Place, ...]]:
        found: list[Statement] = []
        places: list[Place] = []
        turns = False
        for statement in statements:
            span = statement.task.written[0].span if isinstance(statement, TaskStatement) else statement.span
            stamp, number = self._stamp(span)
            stamped, place = self._statement(statement, number)
            found += [stamp, stamped]
            if turns and isinstance(statement, Loop):
                place = joined(places.pop(), place)
            places.append(place)
            turns = isinstance(statement, Loop) and statement.times > 1
        return tuple(found), tuple(places)

    def _statement(self, statement: Statement, number: int) -> tuple[Statement, Place]:
        """A statement with stamps in it, and its place; ``number`` is that of the stamp before it."""
        mine: tuple[int, ...] = (number,)
        match statement:
            case TaskStatement(task):
                return statement, Place("task", tuple(each.span for each in task.written), mine, mine, mine)
            case Loop():
                body, places = self.block(statement.body)
                own, counts = mine, begins(places)
                if not places:
                    stamp, first = self._stamp(statement.span)
                    body, own, counts = (stamp,), (number, first), (first,)
                if statement.counter is None:
                    stamp, turn = self._stamp(statement.span)
                    body, own = (*body, stamp), (*own, turn)
                place = Place("loop", (statement.span,), mine, counts, own, (places,))
                return replace(statement, body=body), place
            case Branch():
                parts = [self.block(region) for region in statement.regions]
                branch = replace(statement, regions=tuple(region for region, _ in parts))
                return branch, Place("branch", (statement.span,), mine, mine, mine, tuple(places for _, places in parts))
            case NodeStatement():
                return statement, Place("task", (statement.span,), mine, mine, mine)
