"""What counted loops tell by ``progress`` becomes tasks of their own, which copies of a body have where a row is due.

The frontend makes one task of such a statement and others around it, as of names of arrays that change places behind it. That
is done once in several iterations of an unrolled loop, and rows are written in the iterations that are told.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from qgraph.ir.program import SLOTS, Branch, Effects, Loop, Program, Statement, Task, TaskStatement
from qgraph.ir.slots import Slot
from qgraph.operations.progress_ring import publish


def tell_apart(program: Program) -> Program:
    """``program``, in whose counted loops tasks that tell the progress do nothing else; as it is where nobody watches."""
    return program if program.progress is None else replace(program, body=_block(program.body))


def _block(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for statement in statements:
        match statement:
            case Loop():
                body = _block(statement.body)
                counts = statement.counter is not None
                body = tuple(part for each in body for part in _parts(each)) if counts else body
                found.append(replace(statement, body=body))
            case Branch():
                found.append(replace(statement, regions=tuple(map(_block, statement.regions))))
            case _:
                found.append(statement)
    return tuple(found)


def _parts(statement: Statement) -> list[Statement]:
    """A statement, or the one that tells and the one that lets names of arrays change places behind it."""
    if not isinstance(statement, TaskStatement):
        return [statement]
    task = statement.task
    moving = 2 * len(task.trades)
    telling, trading = task.body[: len(task.body) - moving], task.body[len(task.body) - moving :]
    every = _every(task, telling)
    if not every or task.results or not all(isinstance(each, ast.Assign) for each in trading):
        return [statement]
    targets, sources = ({slot.name for slot in each} for each in _trades(task))
    selected = {each.slot.name for each in task.selections}
    effects = Effects(task.effects.reads - (sources - selected), task.effects.writes - targets)
    tells = replace(task, body=telling, effects=effects, trades=(), every=every)
    if not moving:
        return [TaskStatement(tells)]
    trades = Task(
        name=f"{task.name}_trades",
        role="serial",
        span=task.span,
        axes=(),
        body=trading,
        names={},
        effects=Effects(frozenset(sources), frozenset(targets)),
        moves=task.trades,
        trades=task.trades,
    )
    return [TaskStatement(tells), TaskStatement(trades)]


def _trades(task: Task) -> tuple[list[Slot], list[Slot]]:
    return [slot for slot, _ in task.trades], [source for _, source in task.trades if isinstance(source, Slot)]


def _every(task: Task, body: Sequence[ast.stmt]) -> int:
    """Of how many iterations one is told, where ``body`` is one statement that tells; else 0."""
    match body:
        case [ast.Assign(), ast.If(test=ast.Compare(left=ast.BinOp(right=ast.Constant(value=int(every)))), orelse=[]) as told]:
            return every if _publishes(task, told.body) else 0
        case [ast.Assign(), *told]:
            return int(_publishes(task, told))
    return 0


def _publishes(task: Task, body: Sequence[ast.stmt]) -> bool:
    match body:
        case [ast.Assign(), ast.Expr(value=ast.Call(func=ast.Name(id=name)))]:
            return task.names.get(name) is publish
    return False


def first_told(program: Program, loop: Loop, task: Task) -> int | None:
    """What a task that tells calls the first iteration of ``loop``, and the next one more; None where that is not known."""
    constants = {value.name: value.source for value in program.host_values}

    def constant(node: ast.expr) -> int | None:
        text = constants.get(node.id, "") if isinstance(node, ast.Name) else ast.unparse(node)
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return None
        return found if type(found) is int else None

    assert loop.counter is not None
    first = task.body[0]
    assert isinstance(first, ast.Assign)
    name, more = "", 0
    match first.value:
        case ast.Name(id=name):
            pass
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=int(more))):
            pass
    slot = next((slot for local, slot in task.scalars if local == name), None)
    steps = {stepping.name: constant(step) for stepping, step in loop.counter.steps}
    if slot is None or steps.get(slot.name) != 1 or loop.enter is None:
        return None
    begins = [
        each.value
        for each in loop.enter.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == f"{SLOTS}[{slot.index}]"
    ]
    start = constant(begins[0]) if len(begins) == 1 else None
    return None if start is None else start + more
