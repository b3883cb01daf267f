"""``:=`` as an assignment before its statement, wherever that means the same; elsewhere it is refused by name."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from dataclasses import field
from types import ModuleType

from qgraph.errors import KernelSyntaxError
from qgraph.ir.trees import load
from qgraph.operations.table import operation
from qgraph.records import dataclass
from qgraph.source import Span, copied, nodes_of

_HINT = "write the assignment as a statement of its own"
# What is evaluated before the statement in these fields of it; the statements in it come later.
_FIELDS: dict[type[ast.stmt], tuple[str, ...]] = {
    ast.Assign: ("value", "targets"),
    ast.AugAssign: ("target", "value"),
    ast.AnnAssign: ("value", "target"),
    ast.Expr: ("value",),
    ast.Return: ("value",),
    ast.If: ("test",),
    ast.Assert: ("test",),
    ast.While: ("test",),
    ast.For: ("iter",),
    ast.Match: ("subject",),
}


def without_walrus(tree: ast.FunctionDef, file: str, is_pure: Callable[[ast.Call], bool]) -> ast.FunctionDef:
    """``tree`` with assignments for each ``:=``; ``is_pure`` tells which calls only compute.

    Raises:
        KernelSyntaxError: one that is not always evaluated, or after something that it may change.
    """
    if not any(isinstance(node, ast.NamedExpr) for node in nodes_of(tree)):
        return tree
    tree = copied(tree)
    tree.body = _Statements(file, is_pure).block(tree.body)
    return tree


class _Statements:
    def __init__(self, file: str, is_pure: Callable[[ast.Call], bool]) -> None:
        self._file = file
        self._is_pure = is_pure

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The same statements, with assignments before them."""
        result: list[ast.stmt] = []
        for node in statements:
            result += self._statement(node)
        return result

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        before = self._hoisted(node)
        for name in ("body", "orelse"):
            if isinstance(getattr(node, name, None), list):
                setattr(node, name, self.block(getattr(node, name)))
        if isinstance(node, ast.Match):
            for case in node.cases:
                self._refuse_in(case.guard)
                case.body = self.block(case.body)
        if isinstance(node, ast.While) and before:
            node.body = [*_before_continue(node.body, before), *copied(before)]
        return [*before, node]

    def _hoisted(self, node: ast.stmt) -> list[ast.stmt]:
        expression = _Expression(self._file, self._is_pure)
        for name in _FIELDS.get(type(node), ()):
            part = getattr(node, name)
            if isinstance(part, list):
                setattr(node, name, [expression.visit(each) for each in part])
            elif part is not None:
                setattr(node, name, expression.visit(part))
        return expression.hoisted

    def _refuse_in(self, node: ast.expr | None) -> None:
        for child in nodes_of(node) if node is not None else ():
            if isinstance(child, ast.NamedExpr):
                raise _sometimes(child, self._file)


@dataclass(slots=True)
class _Done:
    """What has been evaluated: the names read, whether memory was read, and whether a call may have written some."""

    names: set[str] = field(default_factory=set)
    reads: bool = False
    calls: bool = False


class _Expression:
    """The expressions of one statement, in the order in which Python evaluates them."""

    def __init__(self, file: str, is_pure: Callable[[ast.Call], bool]) -> None:
        self.hoisted: list[ast.stmt] = []
        self._file = file
        self._is_pure = is_pure
        self._done = _Done()
        # Inside something that is evaluated in some cases only.
        self._sometimes = False

    def visit(self, node: ast.expr) -> ast.expr:
        """``node`` with a name for each ``:=``."""
        if isinstance(node, ast.NamedExpr):
            return self._named(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self._part(node, name, 0, value))
            elif isinstance(value, list):
                setattr(node, name, [self._part(node, name, at, each) for at, each in enumerate(value)])
        self._note(node)
        return node

    def _part(self, node: ast.expr, name: str, position: int, part: ast.AST) -> ast.AST:
        if isinstance(part, ast.keyword):
            part.value = self.visit(part.value)
        if not isinstance(part, ast.expr):
            return part
        outside = self._sometimes
        self._sometimes = outside or _is_conditional(node, name, position)
        result = self.visit(part)
        self._sometimes = outside
        return result

    def _named(self, node: ast.NamedExpr) -> ast.expr:
        if self._sometimes:
            raise _sometimes(node, self._file)
        value = self._effects(node.value)
        done = self._done
        if node.target.id in done.names or (done.calls and value.reads) or (value.calls and done.reads):
            raise KernelSyntaxError(
                f"`{ast.unparse(node)}` comes after something in its statement that it may change, or that may change it",
                Span.of(node, self._file),
                hint=_HINT,
            )
        self._done = _Done(set(done.names), done.reads, done.calls)
        assigned = ast.Assign([node.target], self.visit(node.value))
        self.hoisted.append(ast.copy_location(assigned, node))
        self._done = done
        done.names.add(node.target.id)
        return ast.copy_location(load(node.target.id), node)

    def _effects(self, node: ast.expr) -> _Done:
        inner = _Expression(self._file, self._is_pure)
        for child in nodes_of(node):
            if isinstance(child, ast.expr):
                inner._note(child)
        return inner._done

    def _note(self, node: ast.expr) -> None:
        done = self._done
        if isinstance(node, ast.Name):
            done.names.add(node.id)
        elif isinstance(node, ast.Subscript):
            done.reads = True
        elif isinstance(node, ast.Call) and not self._is_pure(node):
            done.reads = done.calls = True


def _is_conditional(node: ast.expr, name: str, position: int) -> bool:
    """Whether a part of ``node`` is evaluated in some cases only."""
    if isinstance(node, ast.BoolOp):
        return name == "values" and position > 0
    if isinstance(node, ast.IfExp):
        return name in ("body", "orelse")
    return isinstance(node, ast.Compare) and name == "comparators" and position > 0


def _sometimes(node: ast.NamedExpr, file: str) -> KernelSyntaxError:
    return KernelSyntaxError(
        f"`{ast.unparse(node)}` is evaluated in some cases only: behind `and` or `or`, in a conditional expression or a `case`",
        Span.of(node, file),
        hint=f"{_HINT}, in an `if`",
    )


def _before_continue(statements: list[ast.stmt], again: list[ast.stmt]) -> list[ast.stmt]:
    """A loop's body that repeats ``again`` before each `continue` of this loop: the condition comes next."""
    result: list[ast.stmt] = []
    for node in statements:
        if isinstance(node, ast.Continue):
            result += copied(again)
        elif isinstance(node, (ast.For, ast.While)):
            node.orelse = _before_continue(node.orelse, again)
        elif isinstance(node, ast.If):
            node.body, node.orelse = _before_continue(node.body, again), _before_continue(node.orelse, again)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                case.body = _before_continue(case.body, again)
        result.append(node)
    return result


def purity(names: Mapping[str, object]) -> Callable[[ast.Call], bool]:
    """Tells whether a call only computes in a function of these names: Python's own functions of numbers, math, and ufuncs."""

    def value_of(node: ast.expr) -> object:
        if isinstance(node, ast.Name):
            return names.get(node.id, vars(builtins).get(node.id))
        owner = value_of(node.value) if isinstance(node, ast.Attribute) else None
        return getattr(owner, node.attr, None) if isinstance(node, ast.Attribute) and isinstance(owner, ModuleType) else None

    def is_pure(node: ast.Call) -> bool:
        function = value_of(node.func)
        return operation(function).pure

    return is_pure
