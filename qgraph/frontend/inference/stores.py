"""Statements that store arrays as a whole, or parts of them: known before anything is laid out."""

from __future__ import annotations

import ast

import numpy as np

from qgraph import language
from qgraph.frontend.inference.ranks import is_ellipsis, known, known_object, rank, reduction
from qgraph.frontend.names.bindings import BoundFunc, LeafRef, ViewRef
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.trees import is_none, parts_of
from qgraph.language import Func
from qgraph.operations.table import is_one_of, operation
from qgraph.source import as_written, nodes_of


def is_in_place(scope: Scope, node: ast.AST) -> bool:
    """Whether a statement such as `x *= 2` changes the elements of the array ``x``."""
    return isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and rank(scope, node.target) > 0


def updates_only_element(scope: Scope, node: ast.AugAssign) -> bool:
    """Whether a statement such as `x *= 2`, or `x[...] *= 2`, changes the element of ``x``, an array without axes."""
    target: ast.expr = node.target
    if isinstance(target, ast.Subscript) and is_ellipsis(target.slice):
        target = target.value
    bound = known(scope, target) if isinstance(target, ast.Name) else None
    is_array = isinstance(bound, ViewRef) or (isinstance(bound, LeafRef) and bound.is_array)
    return is_array and not rank(scope, target)


def is_slice(scope: Scope, target: ast.expr) -> bool:
    """Whether an assignment to ``target`` is one to a part of an array, and not to an element of a tuple of arrays."""
    return isinstance(target, ast.Subscript) and rank(scope, target) > 0 and known(scope, target) is None


def stores_slice(scope: Scope, node: ast.AST) -> bool:
    """Whether a statement assigns an array, or part of one, as a whole."""
    match node:
        case ast.Assign(targets=targets):
            parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            parts = [target]
        case _:
            return False
    return is_in_place(scope, node) or any(isinstance(part, ast.Subscript) and rank(scope, part) for part in parts)


def ufunc_at(scope: Scope, node: ast.AST) -> object:
    """The ufunc whose method ``at`` a call is of, as `np.add.at(x, k, v)`; None for anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "at":
        return None
    owner = known_object(scope, node.func.value)
    return owner if isinstance(owner, np.ufunc) else None


def with_slices(scope: Scope, index: ast.expr) -> ast.expr:
    """A tuple of indices with `slice(a, b)` in it as `a:b`."""
    return ast.Tuple([_as_slice(scope, each) for each in index.elts], ast.Load()) if isinstance(index, ast.Tuple) else index


def _as_slice(scope: Scope, node: ast.expr) -> ast.expr:
    if not isinstance(node, ast.Call) or known_object(scope, node.func) is not slice:
        return node
    bounds = [None if is_none(each) else each for each in node.args]
    return ast.Slice(None, *bounds) if len(bounds) == 1 else ast.Slice(*bounds)


def refuse_element_array(scope: Scope, value: ast.expr) -> None:
    """Raise where a name is bound to ``x[0, ...]``, which in NumPy is an array without axes that shares its element."""
    if not isinstance(value, ast.Subscript) or rank(scope, value) or not any(map(is_ellipsis, parts_of(value))):
        return
    whole = quietly_static(scope, value.value)
    if not (rank(scope, value.value) or isinstance(whole, ViewRef) or (isinstance(whole, LeafRef) and whole.is_array)):
        return
    array = as_written(value.value)
    index = ", ".join(as_written(part) for part in parts_of(value) if not is_ellipsis(part))
    raise scope.error(
        f"`{as_written(value)}` has no axes left, and is an array in NumPy, which shares its element with `{array}`",
        value,
        f"leave the dots out, for the number that it is now: {array}[{index or '()'}]",
    )


def may_change(scope: Scope, node: ast.AST) -> bool:
    """Whether a call in ``node`` may do more than compute, so that to make it twice is not the same as once."""
    return any(isinstance(child, ast.Call) and _changes(scope, child) for child in nodes_of(node))


def refuse_changes(scope: Scope, node: ast.expr) -> None:
    """Raise ``KernelSyntaxError`` where the indices of ``node``, which is computed more than once, may change something."""
    if may_change(scope, node):
        words = f"`{as_written(node)}`, which is computed more than once, has a call in its index that changes something"
        raise scope.error(words, node, "give the index a name before: k = qgraph.atomic_add(n, 0, 1), and then x[k]")


def refuse_atomics_of_arrays(scope: Scope, node: ast.stmt) -> None:
    """Raise ``KernelSyntaxError`` where a statement at kernel level has an atomic in an expression or index of arrays.

    The loop over the elements would make the call for each of them. Funcs are called before.
    """
    if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)):
        return
    if not scope.asked(_has_atomics, scope.source):
        return
    places: list[ast.AST] = [node] if stores_slice(scope, node) else []
    for place in [*places, *(each for each in nodes_of(node) if isinstance(each, ast.expr) and rank(scope, each))]:
        for child in nodes_of(place):
            if _is_atomic(scope.source, child):
                words = f"`{as_written(child)}` changes something, and stands in what is computed for each element of an array"
                raise scope.error(words, child, f"give its value a name before: k = {as_written(child)}")


def _has_atomics(source: SourceFunction) -> bool:
    return any(_is_atomic(source, child) for child in nodes_of(source.tree))


def _is_atomic(source: SourceFunction, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and is_one_of(called_in(source, node.func), language.ATOMICS)


def _changes(scope: Scope, node: ast.Call) -> bool:
    bound = known(scope, node.func)
    function = bound.function if isinstance(bound, BoundFunc) else known_object(scope, node.func)
    if isinstance(function, Func):
        return scope.asked(_func_changes, function.source)
    if reduction(scope, node):
        return False
    takes_arrays = any(rank(scope, argument) for argument in node.args)
    return is_one_of(function, language.ATOMICS) or (takes_arrays and not operation(function).pure)


def _func_changes(source: SourceFunction, seen: frozenset[object] = frozenset()) -> bool:
    """Whether a func, or one that it calls, may store in an array, or change one in place."""
    for node in nodes_of(source.tree):
        match node:
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                return True
            case ast.AugAssign(target=ast.Name(id=name)) if name in source.signature.parameters:
                return True
            case ast.Call(func=function):
                called = called_in(source, function)
                if _is_atomic(source, node):
                    return True
                if isinstance(called, Func) and called not in seen and _func_changes(called.source, seen | {called}):
                    return True
    return False


def called_in(source: SourceFunction, node: ast.expr) -> object:
    """The object that ``node`` stands for in a function, as far as its globals and its closure tell."""
    if isinstance(node, ast.Attribute):
        return getattr(called_in(source, node.value), node.attr, None)
    return source.closure.get(node.id, source.globals.get(node.id)) if isinstance(node, ast.Name) else None
