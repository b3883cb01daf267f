"""Statements that combine a value with a place, as ``s += e`` and its kin: what the frontend and lowering recognise alike."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from qgraph.ir.program import Cast
from qgraph.operations.combinations import BY_SYNTAX, combined_by
from qgraph.records import dataclass
from qgraph.source import children_of, nodes_of

_TESTS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _name(op: ast.operator) -> str:
    """The reduction that an operator does, or ""."""
    found = BY_SYNTAX.get(type(op))
    return "" if found is None else found.name


@dataclass(frozen=True, slots=True)
class Match:
    """One statement that combines: the places that it assigns (the compared one first), and the nodes that may name them."""

    statement: ast.stmt
    operator: str
    keys: tuple[str, ...]
    own: frozenset[int]
    test: str = ""
    constant: str = ""


class Combining(ABC):
    """Collects the statements that combine, by place. What a place is, and its key, says ``key``.

    ``names`` are the globals of the statements.
    """

    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = names
        self.matches: list[Match] = []

    @abstractmethod
    def key(self, node: ast.AST) -> str:
        """The place that ``node`` names, or ""."""

    @abstractmethod
    def is_bool(self, key: str) -> bool:
        """Whether a place may hold a boolean, so that ``and`` and ``or`` combine."""

    @abstractmethod
    def is_constant(self, value: ast.expr) -> bool:
        """Whether every iteration stores the same ``value``."""

    def conflict(self, key: str) -> tuple[Match, Match] | None:
        """Two statements that combine one place in different ways."""
        first, *rest = (match for match in self.matches if key in match.keys)
        for other in rest:
            same_places = first.keys[0] == other.keys[0] and set(first.keys) == set(other.keys)
            if (first.operator, first.test, first.constant) != (other.operator, other.test, other.constant) or not same_places:
                return first, other
        return None

    def keys(self, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
        """Every place that is named under ``node``, with the node that does."""
        for child in nodes_of(node):
            key = self.key(child)
            if key:
                yield key, child

    # --- statements ---

    def block(self, statements: Iterable[ast.AST]) -> None:
        """Match every statement, those inside others too."""
        for statement in statements:
            match = self.match(statement) if isinstance(statement, ast.stmt) else None
            if match is not None:
                self.matches.append(match)
            else:
                children = (c for c in children_of(statement) if isinstance(c, (ast.stmt, ast.match_case)))
                self.block(children)

    def match(self, node: ast.stmt) -> Match | None:
        """A statement as one that combines; None where it is not."""
        match node:
            case ast.AugAssign(target=target, op=op):
                key, operator = self.key(target), _name(op)
                return self._made(node, operator, [key], [target]) if key and operator else None
            case ast.Assign(targets=[target]) if self.key(target):
                return self._assigned(node, target, self.operand(node.value))
            case ast.If(orelse=[]):
                return self._chosen(node)
        return None

    def _made(self, node: ast.stmt, operator: str, keys: Sequence[str], own: Iterable[ast.AST], **more: str) -> Match:
        return Match(node, operator, tuple(keys), frozenset(map(id, (node, *own))), **more)

    def operand(self, value: ast.expr) -> ast.expr:
        """A value without the conversion to a kernel scalar's type around it."""
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            cast = self.names.get(value.func.id)
            if isinstance(cast, Cast):
                return value.args[0]
        return value

    def _assigned(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> Match | None:
        key = self.key(target)
        operator, places = self._combination(value, key)
        if operator and places:
            return self._made(node, operator, [key], [target, *places])
        if self.is_constant(value):
            return self._made(node, "store", [key], [target], constant=ast.dump(value))
        return None

    def _combination(self, value: ast.expr, key: str) -> tuple[str, list[ast.expr]]:
        """The reduction that ``value`` is one step of, and the nodes in it that are the place ``s``; empty where it is none."""
        match value:
            case ast.BinOp():
                return self._chain(value, key)
            case ast.IfExp():
                return self._choice(value, key)
            case ast.Call(func=ast.Name(id=name), args=[_, _, *more] as operands, keywords=[]):
                word = self.names.get(name)
                operator = "" if more and isinstance(word, np.ufunc) else combined_by(word)
            case ast.BoolOp(op=op, values=operands) if self.is_bool(key):
                operator = "and" if isinstance(op, ast.And) else "or"
            case _:
                return "", []
        places = [operand for operand in operands if self.key(operand) == key]
        return operator, places if len(places) == 1 else []

    def _chain(self, value: ast.BinOp, key: str) -> tuple[str, list[ast.expr]]:
        """Of ``s + a - b`` or ``a * s``."""
        operator = _name(value.op)
        left: ast.expr = value.right
        if self.key(left) != key or isinstance(value.op, ast.Sub):
            left = value
            while isinstance(left, ast.BinOp) and _name(left.op) == operator:
                left = left.left
        return operator, [left] if self.key(left) == key else []

    def _choice(self, value: ast.IfExp, key: str) -> tuple[str, list[ast.expr]]:
        """Of ``e if e < s else s`` and its kin."""
        _, place, symbol, other = self._comparison(value.test, {key: None})
        if place is None:
            return "", []
        for way, one, rest in ((symbol, value.body, value.orelse), (_TURNED[symbol], value.orelse, value.body)):
            if ast.dump(one) == ast.dump(other) and self.key(rest) == key:
                return "min" if way in "<=" else "max", [place, rest]
        return "", []

    def _chosen(self, node: ast.If) -> Match | None:
        """``if e < s: s = e`` and its kin, with companions."""
        assigned = self._assignments(node.body)
        tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
        for test in tests:
            best, place, symbol, value = self._comparison(test, assigned)
            if place is None or ast.dump(self.operand(assigned[best][1])) != ast.dump(value):
                continue
            keys = [best, *(key for key in assigned if key != best)]
            own = [place, *(target for target, _ in assigned.values())]
            if len(keys) == 1:
                return self._made(node, "min" if symbol in "<=" else "max", keys, own)
            return self._made(node, "last" if "=" in symbol else "first", keys, own, test=symbol)
        return None

    def _assignments(self, statements: Iterable[ast.stmt]) -> dict[str, tuple[ast.expr, ast.expr]]:
        """By place the target and the value; empty where a statement is no assignment to places, or one is assigned twice."""
        found: dict[str, tuple[ast.expr, ast.expr]] = {}
        for statement in statements:
            match statement:
                case ast.Assign(targets=[ast.Tuple(elts=[_, *_] as targets)], value=ast.Tuple(elts=values)) if len(
                    targets
                ) == len(values):
                    pass
                case ast.Assign(targets=[_] as targets, value=value):
                    values = [value]
                case _:
                    return {}
            for target, value in zip(targets, values, strict=True):
                key = self.key(target)
                if not key or key in found:
                    return {}
                found[key] = target, value
        return found

    def _comparison(self, test: ast.expr, assigned: Mapping[str, object]) -> tuple[str, ast.expr | None, str, ast.expr]:
        """Of ``e < s`` or ``s > e``: the place, its node, the comparison as ``e ? s``, and ``e``."""
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _TESTS:
            symbol, (right,) = _TESTS[type(test.ops[0])], test.comparators
            if self.key(right) in assigned:
                return self.key(right), right, symbol, test.left
            if self.key(test.left) in assigned:
                return self.key(test.left), test.left, _TURNED[symbol], right
        return "", None, "", test
