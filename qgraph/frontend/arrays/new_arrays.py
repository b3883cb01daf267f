"""`t = x + y`, `f(a @ x)`: a temporary of the shape and dtype that NumPy gives, and what fills it: a loop, or a library."""

from __future__ import annotations

import ast

import numpy as np

from qgraph.frontend.arrays.array_statements import Elements, bind_view, named
from qgraph.frontend.arrays.axis_reductions import reduce_axes
from qgraph.frontend.arrays.index_words import index_word, made_by_word
from qgraph.frontend.arrays.indexed_arrays import Indexed, Maker, note_copy
from qgraph.frontend.arrays.library_calls import library_array
from qgraph.frontend.arrays.selections import bind_places, bind_selection
from qgraph.frontend.arrays.sparse_products import sparse_product
from qgraph.frontend.arrays.views import view_of
from qgraph.frontend.inference.axes_reduced import COMPOSED, Reduced
from qgraph.frontend.inference.indexing import ONE
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import (
    as_selection,
    is_component,
    is_elementwise,
    is_place,
    known_object,
    library_call,
    places_of_true,
    rank,
    reduced_along,
)
from qgraph.frontend.inference.reduction_rules import composed
from qgraph.frontend.names.bindings import Binding, LeafRef, ViewRef
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.inlining import evaluated, evaluated_arguments, with_named_base
from qgraph.frontend.statements.region import Region, made_array
from qgraph.frontend.statements.temporaries import temporary
from qgraph.ir.trees import at_place, stored
from qgraph.source import as_written, copied, standing_for


def bind_array(region: Region, scope: Scope, node: ast.expr) -> Binding | None:
    """What a name stands for that is bound to an array: a part of one, or a new one; None where ``node`` is no array.

    Raises:
        KernelSyntaxError: a new array of a kind that kernels lack, or of a shape or type that is not known before the launch.
    """
    value = _elements_of(scope, node)
    if value is not None:
        return _made(region, scope, value, node)
    if (selection := as_selection(scope, node)) is not None:
        return bind_selection(region, scope, with_named_base(region, scope, selection))
    if (places := places_of_true(scope, node)) is not None:
        return bind_places(region, scope, *places)
    if not makes_array(scope, node):
        is_part = isinstance(node, (ast.Subscript, ast.Attribute))
        return bind_view(region, scope, evaluated(region, scope, node) if is_part else node)
    if isinstance(node, ast.Call) and made_array(scope, node) is not None:
        return temporary(region, scope, standing_for(stored("made"), node), node)
    if (reduced := reduced_along(scope, node)) is not None and isinstance(node, ast.Call):
        return _reduced(region, scope, reduced, node)
    if isinstance(node, (ast.Call, ast.Subscript)) and index_word(scope, node) is not None:
        call = evaluated_arguments(region, scope, node) if isinstance(node, ast.Call) else node
        make = Maker(region, scope, call, lambda operand: _made(region, scope, operand, operand))
        return made_by_word(make, call, lambda value: _made(region, scope, at_place(value, call), call))

    def whole(operand: ast.expr) -> LeafRef:
        return bind_copy(region, scope, operand)

    return sparse_product(region, scope, node, whole=whole) or library_array(region, scope, node, whole=whole)


def makes_array(scope: Scope, node: ast.AST) -> bool:
    """Whether ``node`` is a new array, and no expression of elements: a library's, a copy, or memory."""
    if as_selection(scope, node) is not None or places_of_true(scope, node) is not None:
        return not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Subscript):
        return index_word(scope, node) is not None
    match node:
        case ast.BinOp(op=ast.MatMult()):
            return rank(scope, node) > 0
        case ast.Call():
            copy = _elements_of(scope, node)
            others = library_call(scope, node) is not None or made_array(scope, node) is not None
            reduced = reduced_along(scope, node)
            words = index_word(scope, node) is not None or (reduced is not None and reduced.rank > 0)
            return others or copy not in (None, node) or words
    return False


def bind_copy(region: Region, scope: Scope, node: ast.expr) -> LeafRef:
    """A new array with the elements of ``node``, an array or an expression of elements, whose size the host knows."""
    made = _made(region, scope, node, node)
    if isinstance(made, LeafRef):
        return made
    raise scope.error(
        f"the size of `{as_written(node)}`, a new array, is known on the device only",
        node,
        "make an array that is large enough, and assign to a part of it: t[:k] = ...",
    )


def _elements_of(scope: Scope, node: ast.expr) -> ast.expr | None:
    """The expression of elements that a new array holds; None where ``node`` is none."""
    match node:
        case ast.Call(func=ast.Attribute(value=array, attr="copy"), args=[], keywords=[]) if rank(scope, array):
            return array
        case ast.Call(args=[array], keywords=[]) if known_object(scope, node.func) is np.copy and rank(scope, array):
            return array
        case ast.BinOp(op=ast.MatMult()):
            return None
        case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()) | ast.Compare(ops=[_]):
            return node if rank(scope, node) else None
        case ast.Call(func=func) if is_elementwise(scope, func):
            return node if rank(scope, node) else None
        case ast.Attribute() if is_component(scope, node):
            return node
    return None


def _reduced(region: Region, scope: Scope, reduced: Reduced, node: ast.Call) -> LeafRef | ViewRef:
    if reduced.kind in COMPOSED:
        return _made(region, scope, composed(scope, node), node)
    if reduced.kept:
        return reduce_axes(region, scope, node)
    # Of all axes, which are kept: one number.
    kind = type_of_new_array(scope, node)
    call = copied(node)
    call.keywords = [each for each in node.keywords if each.arg != "keepdims"]
    number = evaluated(region, scope, call)
    make = Maker(region, scope, node, lambda operand: _made(region, scope, operand, operand))
    return make.made(Indexed([ONE] * reduced.ndim, kind or make.type_of(node), lambda _: number))


def _made(region: Region, scope: Scope, value: ast.expr, node: ast.expr) -> LeafRef | ViewRef:
    # Before reductions in it become kernel scalars, whose types nobody knows yet; else once funcs in it have given arrays.
    dtype = type_of_new_array(scope, value)
    component = _component_of(scope, value)
    shared = None if component is None else view_of(region, scope, component).leaf
    value = evaluated(region, scope, value)
    if component is None and (component := _component_of(scope, value)) is not None:
        # Of what has just been made: `z.reshape(2, 2).imag`.
        shared = view_of(region, scope, component).leaf
    dtype = dtype or type_of_new_array(scope, value)
    body = Elements(region, scope)
    lengths = body.frame_all(value, exact=False)
    view = body.memory(dtype, dict(enumerate(lengths)), node)
    computed = body.visit(value)
    place = body.at(view, node)
    statement = ast.copy_location(ast.Assign([place], value), node)
    body.store(place, computed, statement)
    if shared is not None:
        note_copy(region.unit, scope, view.leaf, shared)
    return named(view)


def _component_of(scope: Scope, node: ast.expr) -> ast.expr | None:
    """The array whose real or imaginary part ``node`` is, in NumPy as a view of it."""
    match node:
        case ast.Attribute(value=array) if is_component(scope, node):
            pass
        case ast.Call(args=[array]) if known_object(scope, node.func) in (np.real, np.imag):
            pass
        case _:
            return None
    return array if is_place(scope, array) and as_selection(scope, array) is None else None
