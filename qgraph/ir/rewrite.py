"""Program -> Program, task by task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qgraph.ir.program import Branch, Loop, Program, Statement, Task, TaskStatement


def with_tasks(program: Program, changed: Callable[[Task], Task]) -> Program:
    """``program`` with another task in the place of each."""

    def statement(old: Statement) -> Statement:
        match old:
            case TaskStatement(task):
                return TaskStatement(changed(task))
            case Loop():
                enter = None if old.enter is None else changed(old.enter)
                return replace(old, enter=enter, body=block(old.body), condition=changed(old.condition))
            case Branch():
                return replace(old, decide=changed(old.decide), regions=tuple(map(block, old.regions)))
        return old

    def block(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(map(statement, statements))

    return replace(program, body=block(program.body))
