"""`match` on integers: what its cases stand for, and the same as `if` and `elif`."""

from __future__ import annotations

import ast

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.scope import Scope


def cases_of(scope: Scope, node: ast.Match) -> list[tuple[list[int] | None, list[ast.stmt]]]:
    """The integers of each case, None for ``case _``, and its statements.

    Raises:
        KernelSyntaxError: a case that is not an integer, or has a guard.
    """
    return [(_values(scope, case), case.body) for case in node.cases]


def is_one_of(name: str, values: list[int]) -> ast.expr:
    """``name == 1 or name == 2``."""
    tests: list[ast.expr] = [ast.Compare(ast.Name(name, ast.Load()), [ast.Eq()], [ast.Constant(value)]) for value in values]
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)


def as_if(node: ast.Match, cases: list[tuple[list[int] | None, list[ast.stmt]]], subject: str) -> list[ast.stmt]:
    """The same as `if` and `elif` over a name that holds the subject."""
    rest: list[ast.stmt] = []
    for values, block in reversed(cases):
        rest = block if values is None else [_placed(ast.If(is_one_of(subject, values), block, rest), node)]
    return rest


def _placed(statement: ast.stmt, node: ast.AST) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(statement, node))


def _values(scope: Scope, case: ast.match_case) -> list[int] | None:
    """The integers that a case stands for; None for ``case _``."""
    if case.guard is not None:
        raise KernelSyntaxError(
            "a `case` with an `if`", scope.span(case.guard), hint="write an `if` inside the case, or if/elif instead of match"
        )
    pattern = case.pattern
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None:
        return None
    values = []
    for part in pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]:
        value = _value(scope, part.value) if isinstance(part, ast.MatchValue) else None
        if value is None:
            raise KernelSyntaxError(
                f"`case {ast.unparse(part)}` is not an integer",
                scope.span(part),
                hint="kernels match integers: `case 0:`, `case 1 | 2:`, `case Color.RED:`, `case _:`",
            )
        values.append(value)
    return values


def _value(scope: Scope, node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = getattr(scope.static(node), "value", None)
    return int(value) if isinstance(value, int) else None
