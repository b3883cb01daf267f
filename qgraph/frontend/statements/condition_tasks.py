"""The statement that ends a task which decides a kernel-level loop or branch."""

from __future__ import annotations

import ast

from qgraph.frontend.bodies.name_resolution import Body
from qgraph.ir.slots import Slot
from qgraph.operations import intrinsics


def decide(body: Body, decided: Slot, value: str) -> ast.stmt:
    """The statement that ends a task which decides a loop or branch: ``value`` is code of an integer."""
    name = body.names.add(intrinsics.set_condition, "_set_condition")
    return ast.parse(f"{name}(_slots, {decided.index}, _handle, {value})").body[0]


def decide_test(body: Body, decided: Slot, test: ast.expr) -> ast.stmt:
    """The same for a resolved condition: 1 where it is true."""
    statement = decide(body, decided, "1 if _test else 0")
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    choice = statement.value.args[-1]
    assert isinstance(choice, ast.IfExp)
    choice.test = test
    return statement


def unless_broken(broke: ast.expr, test: ast.expr) -> ast.expr:
    """The condition after an iteration: a `break` comes before the test, which Python then does not evaluate."""
    return ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), broke), test])
