"""What decides the machine code of a function: equal meanings are compiled once."""

from __future__ import annotations

import ast
import copy
from collections.abc import Hashable

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
    # No identifier looks like a number.
    order = {argument.arg: str(position) for position, argument in enumerate(function.tree.args.args)}
    tree = copy.deepcopy(function.tree)
    tree.name = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in order:
            node.id = order[node.id]
        elif isinstance(node, ast.arg) and node.arg in order:
            node.arg = order[node.arg]
    return ast.dump(tree), tuple((name, _value(value, seen)) for name, value in sorted(function.names.items()))


def _value(value: object, seen: dict[int, int]) -> Hashable:
    if isinstance(value, Function):
        return _function(value, seen)
    if isinstance(value, ParallelFunction):
        return value.disjoint, _function(value.function, seen)
    if isinstance(value, Cast):
        return value
    return id(value)
