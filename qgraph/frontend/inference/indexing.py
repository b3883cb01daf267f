"""Elements of views as elements of their arrays: index expressions, folded as far as they go."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from qgraph.frontend.inference.ranks import is_new_axis
from qgraph.frontend.names.bindings import Extent, LeafRef, SlotRef, ViewAxis, ViewRef
from qgraph.frontend.names.program_builder import SHARED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.trees import at_place, call_of, load
from qgraph.operations import intrinsics
from qgraph.source import copied, standing_for

_Tree = TypeVar("_Tree", bound=ast.AST)


def number(value: int) -> Extent:
    """A known integer."""
    return Extent(ast.Constant(value), ast.Constant(value))


ZERO, ONE = number(0), number(1)


def word(scope: Scope, function: object, *arguments: ast.expr) -> ast.Call:
    """A call of ``function``, whatever names the user has."""
    # Functions share their names with others: `min` is NumPy's and Python's.
    name = scope.name_for(function, getattr(function, "__name__", "call"))
    return call_of(name, *(copied(argument) for argument in arguments))


def element(view: ViewRef, indices: Sequence[ast.expr], scope: Scope, node: ast.expr, *, natural: bool) -> ast.expr:
    """The element of ``view`` at ``indices``, one for each of its dimensions, in place of ``node``.

    ``natural``: the indices are not negative, and inside the view.
    """
    places = dict(view.fixed)
    for along, index in zip(view.along, indices, strict=True):
        if along.axis >= 0:
            places[along.axis] = _index(scope, along, index, natural=natural)
    name = f"{SHARED}{view.leaf.name}"
    scope.bind(name, LeafRef(view.leaf))
    parts = [copied(places[axis]) for axis in range(len(places))]
    inside: ast.expr = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
    return standing_for(placed(ast.Subscript(load(name), inside, ast.Load()), node), node)


def fixed(view: ViewRef, indices: Mapping[int, ast.expr], scope: Scope) -> ViewRef:
    """The part of ``view`` at ``indices``, by dimension, which may be negative, as Python's."""
    places = dict(view.fixed)
    for position, index in indices.items():
        along = view.along[position]
        if along.axis >= 0:
            places[along.axis] = _index(scope, along, index, natural=False)
    return replace(view, fixed=places, along=tuple(along for k, along in enumerate(view.along) if k not in indices))


def _index(scope: Scope, along: ViewAxis, index: ast.expr, *, natural: bool) -> ast.expr:
    start, step = along.start.constant, along.step.constant
    if not natural:
        constant = constant_of(index)
        if scope.checks_indices and not (start == 0 and step == 1 and is_whole(along)):
            index = word(scope, intrinsics.view_index, index, along.count.code)
        elif constant is not None and constant < 0:
            index = join(along.count.code, ast.Add(), ast.Constant(constant))
        elif constant is None and not (start == 0 and step == 1 and is_whole(along)):
            index = word(scope, intrinsics.wrap_index, index, along.count.code)
    moved = join(along.start.code, ast.Add(), join(index, ast.Mult(), along.step.code))
    if start is not None and start >= 0 and step is not None and step > 0:
        return moved
    # Whatever is inside the view is inside the array, and so not negative.
    return word(scope, intrinsics.assume_ge, moved, ast.Constant(0))


def is_whole(along: ViewAxis) -> bool:
    """Whether the view has all of the dimension, so that negative indices mean the same."""
    code = along.count.code
    return isinstance(code, ast.Name) and code.id.endswith(f".shape[{along.axis}]")


def is_natural(scope: Scope, node: ast.expr) -> bool:
    """Whether an integer is surely not negative: made of constants and of variables that count up from 0 or more."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        return is_natural(scope, node.left) and is_natural(scope, node.right)
    if isinstance(node, ast.Name):
        bound = scope.names.get(node.id)
        return isinstance(bound, SlotRef) and bound.natural
    constant = constant_of(node)
    return constant is not None and constant >= 0


def placed(tree: ast.expr, node: ast.AST) -> ast.expr:
    """A copy of ``tree`` at the place of ``node``."""
    return at_place(copied(tree), node)


def join(left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
    """A sum or product, as short as it goes."""
    a, b = constant_of(left), constant_of(right)
    is_sum = isinstance(op, ast.Add)
    if a is not None and b is not None:
        return ast.Constant(a + b if is_sum else a * b)
    if not is_sum and 0 in (a, b):
        return ast.Constant(0)
    neutral = 0 if is_sum else 1
    if a == neutral:
        return copied(right)
    return copied(left) if b == neutral else ast.BinOp(copied(left), op, copied(right))


def _both(left: Extent, op: ast.operator, right: Extent) -> Extent:
    host = None if left.host is None or right.host is None else join(left.host, op, right.host)
    return Extent(join(left.code, op, right.code), host)


def plus(left: Extent, right: Extent) -> Extent:
    """The sum of two integers."""
    return _both(left, ast.Add(), right)


def times(left: Extent, right: Extent) -> Extent:
    """The product of two integers."""
    return _both(left, ast.Mult(), right)


def bounds_of(scope: Scope, part: ast.Slice) -> list[ast.expr | None]:
    """Start, stop and step of a slice; None for one that is left out, or is a name for None."""
    return [None if each is None or is_new_axis(scope, each) else each for each in (part.lower, part.upper, part.step)]
