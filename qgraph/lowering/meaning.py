"""What decides the machine code of a function: equal meanings are compiled once."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping

from qgraph.program import Cast, Function, ParallelFunction


def meaning(function: Function) -> Hashable:
    """The statements of ``function`` with its parameters by position, and what its names stand for, functions included.

    Objects stand for themselves, by identity: a meaning says something only while ``function`` is alive.
    """
    return _function(function, {})


def _function(function: Function, seen: dict[int, int]) -> Hashable:
    if id(function) in seen:
        return "function", seen[id(function)]
    seen[id(function)] = len(seen)
    order = {argument.arg: position for position, argument in enumerate(function.tree.args.args)}
    statements = _shape(function.tree.args, order), _shape(function.tree.body, order)
    return statements, tuple((name, _value(value, seen)) for name, value in sorted(function.names.items()))


def _shape(node: object, order: Mapping[str, int]) -> Hashable:
    """A syntax tree without positions, names in ``order`` replaced by numbers."""
    if isinstance(node, ast.Name):
        return type(node.ctx), order.get(node.id, node.id)
    if isinstance(node, ast.arg):
        return ast.arg, order.get(node.arg, node.arg)
    if isinstance(node, ast.Constant):
        return type(node.value), repr(node.value)
    if isinstance(node, ast.AST):
        return type(node), *(_shape(getattr(node, field, None), order) for field in node._fields)
    return tuple(_shape(each, order) for each in node) if isinstance(node, list) else node


def _value(value: object, seen: dict[int, int]) -> Hashable:
    if isinstance(value, Function):
        return _function(value, seen)
    if isinstance(value, ParallelFunction):
        return value.disjoint, _function(value.function, seen)
    if isinstance(value, Cast):
        return value
    return id(value)
