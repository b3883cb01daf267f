"""`match` on integers as `if` and `elif`; on compile-time constants, the case that is taken."""

from __future__ import annotations

import ast

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.bindings import Value
from qgraph.frontend.names.definite_assignment import matches_all
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import known_test
from qgraph.ir.trees import assign, at_place, load
from qgraph.records import dataclass
from qgraph.source import as_written, copied, nodes_of


@dataclass(frozen=True, slots=True)
class Case:
    """A case of ``values``, None for all; the ``name`` that the subject gets, or "", and what else must be true."""

    values: list[int] | None
    name: str
    guard: ast.expr | None
    body: list[ast.stmt]

    @property
    def is_plain(self) -> bool:
        """Whether the integers alone decide."""
        return not self.name and self.guard is None


def cases_of(scope: Scope, node: ast.Match) -> list[Case]:
    """The cases of a match on integers.

    Raises:
        KernelSyntaxError: a case that is no integer, name or ``_``.
    """
    cases = [Case(_values(scope, case), _name(case.pattern), case.guard, case.body) for case in node.cases]
    guards: list[ast.expr] = []
    for case, pattern in zip(cases, node.cases, strict=True):
        # The subject is read again, which must give the same.
        calls = [] if isinstance(node.subject, ast.Name) else [node.subject, *guards]
        if case.name and case.values is not None and case.guard is not None:
            found = f"`case {as_written(pattern.pattern)}` names what is matched, and has an `if`"
            values = f"{tuple(case.values)}" if len(case.values) > 1 else f"({case.values[0]},)"
            hint = f"write the values into the `if`: `case {case.name} if {case.name} in {values} and ...:`"
            raise KernelSyntaxError(found, scope.span(pattern.pattern), hint=hint)
        if case.name and any(isinstance(child, ast.Call) for each in calls for child in nodes_of(each)):
            found = f"`case {as_written(pattern.pattern)}` names what is matched, `{as_written(node.subject)}`, after a call"
            raise KernelSyntaxError(found, scope.span(pattern.pattern), hint="name it before: n = ..., then match n")
        guards += [] if case.guard is None else [case.guard]
    return cases


def chosen_case(scope: Scope, node: ast.Match) -> list[ast.stmt] | None:
    """The statements of the case that is taken, where the subject is known at compile time; else None.

    Raises:
        KernelSyntaxError: a pattern, or the `if` of a case before it, that is not known then.
    """
    bound = scope.static(node.subject)
    if not isinstance(bound, Value):
        return None
    for case in node.cases:
        if not _fits(scope, case.pattern, bound.value):
            continue
        known = True if case.guard is None else known_test(scope, case.guard)
        if known is None:
            raise _guarded(scope, case)
        if known:
            return case.body
    return []


def _fits(scope: Scope, pattern: ast.pattern, value: object) -> bool:
    match pattern:
        case ast.MatchAs(pattern=None, name=None):
            return True
        case ast.MatchOr():
            return any(_fits(scope, part, value) for part in pattern.patterns)
        case ast.MatchSingleton():
            return value is pattern.value
        case ast.MatchValue():
            wanted = _constant(scope, pattern.value)
            if wanted is not None:
                return bool(value == wanted[0])
    raise KernelSyntaxError(
        f"`case {as_written(pattern)}` is not a constant",
        scope.span(pattern),
        hint='compare what is known at compile time with constants: `case "fast":`, `case 1 | 2:`, `case None:`, `case _:`',
    )


def _constant(scope: Scope, node: ast.expr) -> tuple[object] | None:
    """The value of a pattern, if it is known."""
    try:
        return (ast.literal_eval(node),)
    except ValueError:
        bound = scope.static(node)
        return (bound.value,) if isinstance(bound, Value) else None


def _guarded(scope: Scope, case: ast.match_case) -> KernelSyntaxError:
    assert case.guard is not None
    found = "a `case` with an `if` that is not known at compile time, as what is matched is"
    hint = "write an `if` inside the case, or if/elif instead of match"
    return KernelSyntaxError(found, scope.span(case.guard), hint=hint)


def is_one_of(name: str, values: list[int]) -> ast.expr:
    """``name == 1 or name == 2``."""
    tests: list[ast.expr] = [ast.Compare(load(name), [ast.Eq()], [ast.Constant(value)]) for value in values]
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)


def as_if(node: ast.Match, cases: list[Case], subject: str) -> list[ast.stmt]:
    """The same as `if` and `elif` over a name that holds the subject."""
    rest: list[ast.stmt] = []
    for case in reversed(cases):
        tests = [] if case.values is None else [is_one_of(subject, case.values)]
        tests += [] if case.guard is None else [case.guard]
        # Not what holds the subject, which is wider than an integer of NumPy's.
        named = [at_place(assign(case.name, copied(node.subject)), node.subject)] if case.name else []
        if tests:
            test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
            rest = [at_place(ast.If(test, case.body if case.values is None else [*named, *case.body], rest), node)]
        else:
            rest = case.body
        rest = rest if case.values is not None else [*named, *rest]
    return rest


def _name(pattern: ast.pattern) -> str:
    return (isinstance(pattern, ast.MatchAs) and pattern.name) or ""


def _values(scope: Scope, case: ast.match_case) -> list[int] | None:
    """The integers that a case stands for; None for ``case _`` and ``case n``."""
    pattern = case.pattern
    if matches_all(pattern):
        return None
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        pattern = pattern.pattern
    values = []
    for part in pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]:
        value = _value(scope, part.value) if isinstance(part, ast.MatchValue) else None
        if value is None:
            raise _no_integer(scope, part)
        values.append(value)
    return values


def _no_integer(scope: Scope, pattern: ast.pattern) -> KernelSyntaxError:
    what, text = "is not an integer", f"case {as_written(pattern)}"
    hint = "kernels match integers: `case 0:`, `case 1 | 2:`, `case Color.RED:`, `case _:`"
    match pattern:
        case ast.MatchSequence():
            what, text = "takes a tuple apart", f"case ({text.removeprefix('case [').removesuffix(']')})"
            hint = "kernels match integers: name the parts, a, b = t, and write `if a == 1 and b == 0:`, `elif ...`"
        case ast.MatchClass():
            what, hint = "asks for a type", "types are known before the kernel runs: leave it out, or match an integer"
        case ast.MatchValue(value=ast.Constant(value=float())):
            hint = f"kernels match integers; of floats write `if` and `elif`: `if v == {as_written(pattern)}:`"
    return KernelSyntaxError(f"`{text}` {what}", scope.span(pattern), hint=hint)


def _value(scope: Scope, node: ast.expr) -> int | None:
    found = _constant(scope, node)
    return int(found[0]) if found is not None and isinstance(found[0], int) else None
