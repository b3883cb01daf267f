"""Which loops a thread of a tile runs several iterations of together, so that no load waits for the stores of another one."""

from __future__ import annotations

import ast

from qgraph.lowering.codegen.cooperative_rows import stored_in
from qgraph.lowering.codegen.generated_names import Statements, walk
from qgraph.lowering.codegen.task_codegen import has_loops, operations
from qgraph.lowering.loops.stencils import Access, Stage
from qgraph.source import nodes_of

# The most nodes of the syntax tree of what a thread runs together: all rows of a column.
_TOGETHER = 3200

# A row and a column, from the first ones that a thread owns.
Cell = tuple[int, int]


def runs_together(stage: Stage, rows: int) -> bool:
    """Whether loads of ``rows`` iterations may come before all their stores: none loads from where another one may store.

    What is under a condition is computed without it. So it is not enough that none needs what another one stores.
    """
    body, written = stage.task.body, {access.array: access.places for access in stage.accesses if access.writes}
    if not is_short(stage, rows) or not assigns_alone(body):
        return False
    apart = all(written.get(each.array, each.places) == each.places for each in stage.accesses)
    return apart and all(_may_compute(stage, each) for each in body)


def is_short(stage: Stage, rows: int) -> bool:
    """Whether ``rows`` iterations are so little that they may run together."""
    nodes = list(operations(stage.task.body, stage.task.names))
    if any(isinstance(each, ast.comprehension | ast.Lambda) for each in nodes):
        return False
    return len(nodes) * rows <= _TOGETHER and not has_loops(nodes)


def assigns_alone(body: Statements) -> bool:
    """Whether statements are assignments to names and elements, some of them under a condition."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                pass
            case ast.If() if assigns_alone(statement.body) and assigns_alone(statement.orelse):
                continue
            case _:
                return False
        stores = [each for each in nodes_of(statement) if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store)]
        if stores not in ([], [target]):
            return False
    return True


def _may_compute(stage: Stage, statement: ast.stmt) -> bool:
    """Whether all but the stores may be done without the condition, if it has one: others look at none of it."""
    if not isinstance(statement, ast.If):
        return True
    if statement.orelse or stage.task.reductions or any(isinstance(each, ast.If) for each in statement.body):
        return False
    inside, beside = (
        {node.id for node in walk(some) if isinstance(node, ast.Name)}
        for some in (statement.body, [each for each in stage.task.body if each is not statement])
    )
    arrays = {stage.arrays[name] for name in inside & stage.arrays.keys()} & written_under(statement, stage)
    if arrays & {stage.arrays[name] for name in beside & stage.arrays.keys()} or stored_in(statement.body) & beside:
        return False
    known = {id(node) for node in subscripts(stage.task.body, stage)}
    return all(_is_harmless(node, known) for node in walk(statement.body))


def _is_harmless(node: ast.AST, known: set[int]) -> bool:
    """Whether a node does nothing besides, and looks at elements of tiles alone, which are there. ``known``: those."""
    return id(node) in known if isinstance(node, ast.Subscript) else not isinstance(node, ast.Call)


def written_under(statement: ast.stmt, stage: Stage) -> set[str]:
    """The arrays in tiles that a statement stores to."""
    return {
        stage.arrays[node.value.id]
        for node in subscripts([statement], stage)
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)
    }


def guards(stage: Stage) -> dict[str, tuple[int, ...]]:
    """The arrays of which a loop looks at neighbours and writes some elements: the numbers of the conditions, or none."""
    beside = {each.array for each in stage.accesses if not each.writes and seen_from((0, 0), each, stage) != (0, 0)}
    found = {}
    for array in sorted(beside & {each.array for each in stage.accesses if each.writes}):
        writing = {
            number: isinstance(statement, ast.If) and not statement.orelse
            for number, statement in enumerate(stage.task.body)
            if array in written_under(statement, stage)
        }
        found[array] = tuple(writing) if all(writing.values()) else ()
    return found


def guard(number: int) -> str:
    """Whether the condition of a statement holds."""
    return f"_on{number}"


def subscripts(body: Statements, stage: Stage) -> list[ast.Subscript]:
    """The accesses to arrays in tiles, as in ``stage.accesses``."""
    return [
        node
        for node in walk(body)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in stage.arrays
        if isinstance(node.slice, ast.Tuple)
    ]


def seen_from(cell: Cell, access: Access, stage: Stage) -> Cell:
    """The cell of an access in the iteration that writes ``cell``."""
    row, column = (at + place.offset - by for at, place, by in zip(cell, access.places, stage.anchor, strict=True))
    return row, column
