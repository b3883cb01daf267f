"""Induction variables: names that every iteration of a counted loop adds the same number to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from qgraph.frontend.facts.abstract_values import UNKNOWN, Env, Value
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.ir.trees import names_in
from qgraph.polyhedral.questions import Variable
from qgraph.polyhedral.symbolic_integers import ONE, ZERO, Poly, floor_div, trips
from qgraph.source import children_of, nodes_of


class Induction:
    """The increments of names by an iteration of a loop.

    ``evaluate`` gives the value of an expression before the loop, and ``count`` the trip count of a loop there, in an
    environment with some names more.
    """

    def __init__(
        self,
        body: Sequence[ast.stmt],
        target: ast.expr,
        evaluate: Callable[[ast.expr, Env], Value],
        count: Callable[[ast.For, Env], Poly | None],
    ) -> None:
        self._evaluate = evaluate
        self._count = count
        self._assigned = names_assigned(body)
        self._changed = self._assigned.keys() | names_assigned([target]).keys()
        # Names of the body that are the same in all iterations, from their assignment on: the lengths of an ndrange inside.
        self._held: Env = {}

    def growth(self, body: Sequence[ast.stmt]) -> dict[str, Poly | None]:
        """What a run of ``body``, or of a part of it, adds to each name that it assigns; None where that is not one number."""
        found: dict[str, Poly | None] = {}
        skipped = False
        for statement in body:
            for name, added in self._of_statement(statement).items():
                before = found.get(name, ZERO)
                found[name] = None if skipped or added is None or before is None else before + added
            self._pass(statement)
            skipped = skipped or any(isinstance(child, ast.Continue) for child in nodes_of(statement))
        return found

    def _of_statement(self, statement: ast.stmt) -> dict[str, Poly | None]:
        assigned: dict[str, Poly | None] = dict.fromkeys(names_assigned([statement]))
        name, by = _addition(statement)
        if by is not None:
            more = self._evaluate(by, self._held) if self._is_fixed(by) else UNKNOWN
            return {**assigned, name: None if more.dtype else more.poly}
        if isinstance(statement, ast.For) and not may_leave(statement.body) and not statement.orelse:
            many = self._count(statement, self._held) if self._is_fixed(statement.iter) else None
            targets = names_assigned([statement.target])
            for name, added in self.growth(statement.body).items():
                if name not in targets and added is not None and many is not None:
                    assigned[name] = added * many
        return assigned

    def _pass(self, statement: ast.stmt) -> None:
        for name in names_assigned([statement]):
            self._held.pop(name, None)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if len(self._assigned[name]) == 1 and self._is_fixed(
                value
            ):
                self._held[name] = self._evaluate(value, self._held)

    def _is_fixed(self, node: ast.expr) -> bool:
        return all(name in self._held or name not in self._changed for name in names_in(node))


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
    """The trip count of a loop nest over these variables; None where a bound is no known integer."""
    many = ONE
    for variable in variables:
        step = variable.step.constant
        if not step or variable.start is None or variable.stop is None:
            return None
        many *= trips(variable.start, variable.stop, step)
    return many


def iterations_before(variables: Sequence[Variable]) -> Poly | None:
    """The linearised iteration number of a loop nest, whose last variable varies fastest; None as in ``iterations_of``."""
    before = ZERO
    for variable in variables:
        many, step = iterations_of([variable]), variable.step.constant
        if many is None or variable.start is None or not step:
            return None
        offset = variable.number - variable.start
        whole = offset.divided_by(Poly.const(step))
        before = before * many + (floor_div(offset, Poly.const(step)) if whole is None else whole)
    return before


def may_leave(body: Iterable[ast.AST]) -> bool:
    """Whether a loop with this body may end early: a ``break`` of its own, or a ``return``."""
    return any(_leaves(node) for node in body)


def _leaves(node: ast.AST) -> bool:
    if isinstance(node, ast.For | ast.While):
        # Its own breaks stay inside; those in its else clause are the outer loop's.
        return any(isinstance(child, ast.Return | ast.Raise) for child in nodes_of(node)) or may_leave(node.orelse)
    if isinstance(node, ast.expr):
        return False
    return isinstance(node, ast.Break | ast.Raise | ast.Return) or may_leave(children_of(node))
