"""Methods and statements of NumPy's in words of kernels: `np.cumsum(x)` for `x.cumsum()`, `y[...] = v` for `y.fill(v)`."""

from __future__ import annotations

import ast

import numpy as np

from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import as_selection, is_component, known, known_object, rank
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.trees import at_place
from qgraph.operations.table import is_one_of
from qgraph.source import copied, nodes_of, standing_for

# Methods whose function is known, by the same arguments.
_METHODS = {name: getattr(np, name) for name in ("cumsum", "cumprod", "argsort", "searchsorted", "squeeze", "trace", "dot")}
# Functions of an array and an axis, which may have no name.
_ALONG = (np.cumsum, np.cumprod, np.sort, np.argsort)
_NAMES = {*_METHODS, *(function.__name__ for function in _ALONG)}


def with_functions(scope: Scope, node: ast.stmt) -> ast.stmt:
    """A statement at kernel level with functions in place of such methods, and named axes; not those in its own statements."""
    if scope.asked(_has_such, scope.source) and any(map(_may_be_such, nodes_of(node))):
        node = copied(node)
        _Functions(scope).generic_visit(node)
    return node


def _has_such(source: SourceFunction) -> bool:
    return any(map(_may_be_such, nodes_of(source.tree)))


def _may_be_such(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _NAMES
    return False


class _Functions(ast.NodeTransformer):
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def visit(self, node: ast.AST) -> ast.AST:
        """A part of the statement; what is a statement itself comes later."""
        found: ast.AST = node if isinstance(node, (ast.stmt, ast.match_case)) else super().visit(node)
        return found

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A method of an array, as its function."""
        self.generic_visit(node)
        return _as_sum(self._scope, _with_named_axis(self._scope, self._with_function(node)))

    def _with_function(self, node: ast.Call) -> ast.Call:
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _METHODS:
            return node
        array, name = node.func.value, node.func.attr
        ranks = [rank(self._scope, each) for each in (array, *node.args)]
        # Products of two vectors are reductions, of which there is the method, too.
        is_number = name == "dot" and ranks in ([1, 1], [1], [ranks[0], 0])
        if not ranks[0] or is_number or known(self._scope, node.func) is not None:
            return node
        call = word(self._scope, _METHODS[name], array, *node.args)
        assert isinstance(call, ast.Call)
        call.keywords = node.keywords
        return standing_for(at_place(call, node), node)


def _as_sum(scope: Scope, node: ast.Call) -> ast.expr:
    """``np.sum(np.diagonal(a, offset))`` for ``np.trace(a, offset)`` of a matrix, and any other call as it is."""
    if not node.args or known_object(scope, node.func) is not np.trace or rank(scope, node.args[0]) != 2:
        return node
    if len(node.args) + len(node.keywords) > 2 or any(keyword.arg != "offset" for keyword in node.keywords):
        return node
    diagonal = word(scope, np.diagonal, *node.args)
    assert isinstance(diagonal, ast.Call)
    diagonal.keywords = node.keywords
    return standing_for(at_place(word(scope, np.sum, diagonal), node), node)


def _with_named_axis(scope: Scope, node: ast.Call) -> ast.Call:
    has_name = any(keyword.arg == "axis" for keyword in node.keywords)
    if len(node.args) != 2 or has_name or not is_one_of(known_object(scope, node.func), _ALONG):
        return node
    array, axis = node.args
    call = ast.Call(node.func, [array], [ast.keyword("axis", axis), *node.keywords])
    return standing_for(at_place(call, node), node)


def as_store(scope: Scope, node: ast.AST) -> ast.Assign | None:
    """`y[...] = np.add(x, 1)` for `np.add(x, 1, out=y)`, `x[...] = v` for `x.fill(v)`; None for other statements."""
    if not isinstance(node, ast.Expr) or not isinstance(call := node.value, ast.Call):
        return None
    found = _stored(scope, call)
    if found is None:
        return None
    place, value = found
    parts = [*nodes_of(place)]
    # A selection is a new array, which nobody sees changed.
    if any(isinstance(part, ast.Call) or as_selection(scope, part) or is_component(scope, part) for part in parts):
        return None
    target = standing_for(ast.Subscript(copied(place), ast.Constant(...), ast.Store()), place)
    return at_place(ast.Assign([target], value), node) if rank(scope, place) else None


def _stored(scope: Scope, call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """The array that a call changes, and what it stores there."""
    match call:
        case ast.Call(func=ast.Attribute(value=array, attr="fill"), args=[value], keywords=[]):
            return (array, value) if known(scope, call.func) is None and not rank(scope, value) else None
        case ast.Call(func=ast.Attribute(value=array, attr="sort"), args=axis) if known(scope, call.func) is None:
            made = word(scope, np.sort, array, *axis)
            assert isinstance(made, ast.Call)
            made.keywords = call.keywords
            made = _with_named_axis(scope, made)
            return array, standing_for(at_place(made, call), call)
        case ast.Call(args=[array, value], keywords=[]) if known_object(scope, call.func) is np.copyto:
            return (array, value) if _fits(scope, value, array) else None
    function, given = known_object(scope, call.func), [*call.args]
    if isinstance(function, np.ufunc) and function.nout == 1 and len(given) == function.nin + 1 and not call.keywords:
        array = given.pop()
    elif (isinstance(function, np.ufunc) or function is np.clip) and [each.arg for each in call.keywords] == ["out"]:
        array = call.keywords[0].value
    else:
        return None
    made = standing_for(ast.copy_location(ast.Call(call.func, given, []), call), call)
    return (array, made) if _fits(scope, made, array) else None


def _fits(scope: Scope, value: ast.expr, array: ast.expr) -> bool:
    """Whether NumPy stores ``value``, an array, in ``array`` without being told that it may be another kind of number."""
    types = [type_of_new_array(scope, each) if rank(scope, each) else None for each in (value, array)]
    return types[0] is not None and types[1] is not None and np.can_cast(types[0], types[1], "same_kind")
