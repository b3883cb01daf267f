"""What counted loops tell by ``progress`` becomes tasks of their own, which copies of a body have where a row is due.

The frontend makes one task of such a statement and others around it, as of names of arrays that change places behind it. That
is done once in several iterations of an unrolled loop, and rows are written in the iterations that are told. In loops that hand
their results on (``codegen.handed_on``) all blocks evaluate the statement, and one thread writes the row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from qgraph.ir.program import SLOTS, Branch, Effects, Loop, Program, Statement, Task, TaskStatement
from qgraph.ir.slots import Slot
from qgraph.ir.trees import assign, at_place
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


# --- rows of loops that hand their results on ---------------------------------------------------------------------------


class Rows(ast.NodeTransformer):
    """What a task publishes: all blocks compute it, and one thread numbers and writes it when it knows that the iteration ran.

    That thread asks whether the row is due, too: branches of all the others take longer than what they would leave out. Where
    two kernels evaluate the same epilogue they write the same row. The code has the names ``_publish``, ``_to_int64`` and
    ``_to_float64`` for what writes a row and what converts its parts.
    """

    def __init__(self, program: Program, task: Task) -> None:
        self._task = task
        self._number = None if program.progress is None else f"{SLOTS}[{program.progress.number.index}]"
        # Of each: what it is kept in, of how many iterations one is told, and what does not depend on the iteration.
        self.found: list[tuple[str, int, list[ast.expr]]] = []

    def kept(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """``body`` with locals in place of what is published."""
        tree: ast.Module = self.visit(ast.Module(body, []))
        return [*(_assigned(name, ast.Constant(0)) for name in self.locals), *tree.body]

    @property
    def locals(self) -> list[str]:
        """Of each row whether it is told, which is not 0, its iteration and its value."""
        return [f"{stem}_{part}" for stem, *_ in self.found for part in ("told", "iteration", "value")]

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        """Not what counts the rows."""
        return None if ast.unparse(node.targets[0]) == self._number else node

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        """A row of every so many iterations is computed in all of them, unless that loads more."""
        match node:
            case ast.If(test=ast.Compare(left=ast.BinOp(right=ast.Constant(value=int(every)))), body=[_, ast.Expr() as told]):
                if self._publishes(told) and not _loads_elements(told):
                    return self._row(told, every)
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        """What is published is kept."""
        return self._row(node, 1) if self._publishes(node) else node

    def _publishes(self, node: ast.Expr) -> bool:
        match node.value:
            case ast.Call(func=ast.Name(id=name)):
                return self._task.names.get(name) is publish
        return False

    def _row(self, node: ast.Expr, every: int) -> list[ast.stmt]:
        assert isinstance(node.value, ast.Call)
        ring, _, run, line, iteration, value = node.value.args
        stem = f"_row_{self._task.name}_{len(self.found)}"
        self.found.append((stem, every, [ring, run, line]))
        code = {f"{stem}_told": ast.Constant(1), f"{stem}_iteration": iteration, f"{stem}_value": value}
        return [at_place(_assigned(name, each), node) for name, each in code.items()]

    def writes(self, number: str) -> Iterator[str]:
        """Lines that write the rows; ``number`` has that of the last one."""
        for stem, every, fixed in self.found:
            ring, run, line = map(ast.unparse, fixed)
            yield f"if {stem}_told != 0 and {stem}_iteration % {every} == 0:"
            yield f"    {number} = {number} + 1"
            yield f"    _publish({ring}, {number}, {run}, {line}, {stem}_iteration, {stem}_value)"


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    """Of one type in all assignments."""
    cast = "_to_float64" if name.endswith("_value") else "_to_int64"
    return assign(name, ast.Call(ast.Name(cast, ast.Load()), [value], []))


def _loads_elements(node: ast.AST) -> bool:
    subscripts = (each.value for each in ast.walk(node) if isinstance(each, ast.Subscript))
    return not all(isinstance(each, ast.Name) and each.id.startswith(SLOTS) for each in subscripts)
