"""Induction variables: names that every iteration of a counted loop adds the same number to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from qgraph.dependence.expressions import ONE, ZERO, Poly, floor_div
from qgraph.dependence.questions import Variable
from qgraph.frontend.called import trips
from qgraph.frontend.definite import names_assigned

# What an expression is, and how often a loop runs, where that does not change while the loop around them runs.
Amount = Callable[[ast.expr], Poly | None]
Count = Callable[[ast.For], Poly | None]


def growth(
    body: Sequence[ast.stmt], amount: Amount, count: Count, passed: Callable[[ast.stmt], None]
) -> Mapping[str, Poly | None]:
    """What a run of ``body`` adds to each name that it assigns; None where that is not one number.

    ``amount`` and ``count`` are asked in program order, and ``passed`` is told of each statement when it has run.
    """
    found: dict[str, Poly | None] = {}
    skipped = False
    for statement in body:
        for name, added in _of_statement(statement, amount, count, passed).items():
            before = found.get(name, ZERO)
            found[name] = None if skipped or added is None or before is None else before + added
        passed(statement)
        skipped = skipped or any(isinstance(child, ast.Continue) for child in ast.walk(statement))
    return found


def _of_statement(
    statement: ast.stmt, amount: Amount, count: Count, passed: Callable[[ast.stmt], None]
) -> Mapping[str, Poly | None]:
    assigned: dict[str, Poly | None] = dict.fromkeys(names_assigned([statement]))
    name, by = _addition(statement)
    if by is not None:
        return {**assigned, name: amount(by)}
    if isinstance(statement, ast.For) and not may_leave(statement.body) and not statement.orelse:
        many = count(statement)
        targets = names_assigned([statement.target])
        for name, added in growth(statement.body, amount, count, passed).items():
            if name not in targets and added is not None and many is not None:
                assigned[name] = added * many
    return assigned


def _addition(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """(name, e) of ``name += e`` and ``name = name + e``; with ``-``, e is ``-e``."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.Sub() as sign, value=by):
            pass
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Sub() as sign, right=by)
        ) if left == name:
            pass
        case _:
            return "", None
    return name, by if isinstance(sign, ast.Add) else ast.copy_location(ast.UnaryOp(ast.USub(), by), by)


def iterations_of(variables: Sequence[Variable]) -> Poly | None:
    """How many iterations a loop over these variables has; None where a bound is no known integer."""
    many = ONE
    for variable in variables:
        step = variable.step.constant
        if not step or variable.start is None or variable.stop is None:
            return None
        many *= trips(variable.start, variable.stop, step)
    return many


def iterations_before(variables: Sequence[Variable]) -> Poly | None:
    """How many iterations came before the one in which the variables are what they are; the last one varies fastest."""
    before = ZERO
    for variable in variables:
        many, step = iterations_of([variable]), variable.step.constant
        if many is None or variable.start is None or not step:
            return None
        offset = variable.number - variable.start
        whole = offset.divided_by(Poly.const(step))
        before = before * many + (floor_div(offset, Poly.const(step)) if whole is None else whole)
    return before


def may_leave(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop with this body may end early: a ``break`` of its own, or a ``return``."""
    return any(_leaves(statement) for statement in body)


def _leaves(node: ast.stmt) -> bool:
    if isinstance(node, ast.Break | ast.Return):
        return True
    if isinstance(node, ast.For | ast.While):
        # Its own breaks stay inside; those in its else clause are the outer loop's.
        return any(isinstance(child, ast.Return) for child in ast.walk(node)) or may_leave(node.orelse)
    return any(_leaves(child) for child in _statements(node))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.match_case | ast.ExceptHandler):
            yield from _statements(child)
