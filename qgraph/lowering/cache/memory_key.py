"""The key of a function within a process: structurally equal functions are compiled once."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Set

from qgraph.captured_state import CompiledIn, Identity, numba_function
from qgraph.ir.functions import Function, ParallelFunction, SeparateFunction
from qgraph.ir.program import Cast
from qgraph.source import nodes_of


def structural_key(function: Function) -> Hashable:
    """The statements of ``function`` with its parameters by position, and what its names stand for, functions included.

    Objects stand for themselves, by identity: a meaning says something only while ``function`` is alive. A function that Numba
    compiles is what it looks at, too.
    """
    return _function(function, {})


def _function(function: Function, seen: dict[int, int]) -> Hashable:
    if id(function) in seen:
        return "function", seen[id(function)]
    seen[id(function)] = len(seen)
    numbers = {argument.arg: position for position, argument in enumerate(function.tree.args.args)}
    names = function.names
    nodes = (node for node in nodes_of(function.tree) if isinstance(node, ast.Name))
    known = names.keys() | {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    statements = _shape((function.tree.args, function.tree.body), numbers, known)
    # By now all names have numbers, in the order in which they come.
    return statements, tuple(_value(names[name], seen) for name in numbers if name in names)


def _shape(node: object, numbers: dict[str, int], names: Set[str]) -> Hashable:
    """A syntax tree without positions, in which parameters and ``names`` are numbers; those that have none yet get the next."""
    if isinstance(node, ast.Name):
        if node.id in names:
            numbers.setdefault(node.id, len(numbers))
        return type(node.ctx), numbers.get(node.id, node.id)
    if isinstance(node, ast.arg):
        return ast.arg, numbers.get(node.arg, node.arg)
    if isinstance(node, ast.Constant):
        return type(node.value), repr(node.value)
    if isinstance(node, ast.AST):
        return type(node), *(_shape(getattr(node, field, None), numbers, names) for field in node._fields)
    return tuple(_shape(each, numbers, names) for each in node) if isinstance(node, (list, tuple)) else node


def _value(value: object, seen: dict[int, int]) -> Hashable:
    if isinstance(value, Function):
        return _function(value, seen)
    if isinstance(value, ParallelFunction):
        return value.disjoint, value.reduces, _function(value.function, seen)
    if isinstance(value, SeparateFunction):
        return SeparateFunction, _function(value.function, seen)
    if isinstance(value, Cast):
        return value
    python = numba_function(value)
    if python is not None:
        # Held: what it looked at may be gone when its names are others.
        return id(value), tuple(Identity(found) for _, found in CompiledIn().python(python))
    return id(value)
