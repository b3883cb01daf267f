"""Expressions of what one mask selects, `2 * x[m] + y[m]`: the expression of all elements, of which the mask then selects."""

from __future__ import annotations

import ast
import copy

from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.elementwise import array_operands
from qgraph.frontend.inference.ranks import (
    as_selection,
    index_of,
    is_elementwise,
    is_mask,
    is_place,
    is_selection,
    known,
    rank,
    reduction,
)
from qgraph.frontend.names.bindings import LeafRef, ViewRef
from qgraph.frontend.names.scope import Scope
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.trees import at_place, operands_of, parts_of, with_operands
from qgraph.records import dataclass
from qgraph.source import nodes_of, standing_for


@dataclass(frozen=True, slots=True)
class Masked:
    """The elements of ``value`` where ``mask`` is true: dimensions of the mask are the first ones of the value."""

    mask: ast.expr
    value: ast.expr


def only_mask(scope: Scope, node: ast.AST) -> ast.expr | None:
    """The mask of `x[m]`; None for anything else."""
    if not isinstance(node, ast.Subscript) or not is_selection(scope, node):
        return None
    parts = parts_of(node)
    found = index_of(scope, parts[0]) if len(parts) == 1 and is_mask(scope, parts[0]) else None
    return found if found is None or rank(scope, found) <= rank(scope, node.value) else None


def unmasked(scope: Scope, node: ast.expr, like: ast.Subscript) -> ast.expr | None:
    """``node`` with `x` for each `x[m]`, of the mask and the rank of ``like``; None where it has other arrays."""
    if rank(scope, node) == 0:
        return node
    if isinstance(node, ast.Subscript):
        same = only_mask(scope, node) is not None and ast.unparse(node.slice) == ast.unparse(like.slice)
        alike = same and rank(scope, node.value) == rank(scope, like.value)
        return node.value if alike and (is_place(scope, node.value) or _repeats_nothing(scope, node.value)) else None
    elementwise = (
        (isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult))
        or isinstance(node, (ast.UnaryOp, ast.Compare))
        or (isinstance(node, ast.Call) and is_elementwise(scope, node.func))
    )
    if not elementwise:
        return None
    return with_operands(node, [unmasked(scope, operand, like) for operand in operands_of(node)])


def _repeats_nothing(scope: Scope, node: ast.expr) -> bool:
    """Whether no array in an expression is seen to have a length of 1, which may be repeated."""
    return all(_has_no_one(scope, operand) for operand in array_operands(scope, node, {}))


def _has_no_one(scope: Scope, node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=value, attr="T"):
            return _has_no_one(scope, value)
        case ast.Subscript(value=value):
            slices = all(isinstance(part, ast.Slice) and None in (part.lower, part.upper) for part in parts_of(node))
            return slices and _has_no_one(scope, value)
    match known(scope, node):
        case LeafRef(leaf=Leaf(name=name, type=ArrayType(ones=ones))):
            extents = () if scope.frame is None else scope.frame.unit.extents.get(name, ())
            return not ones and not any(isinstance(extent, ast.Constant) for extent in extents)
        case ViewRef(along=along):
            return not any(each.count.is_one for each in along)
    return False


def masked(scope: Scope, node: ast.expr) -> Masked | None:
    """What one mask selects of an expression, where all its arrays are selected by it; None for other expressions."""
    selection = as_selection(scope, node)
    if selection is not None and not isinstance(node, ast.Subscript):
        node = selection
    first = next((child for child in nodes_of(node) if only_mask(scope, child) is not None), None)
    if not isinstance(first, ast.Subscript):
        return None
    value = unmasked(scope, node, first)
    return None if value is None else Masked(index_of(scope, first.slice), value)


def extracted(found: Masked, node: ast.expr) -> ast.expr:
    """What is masked as one selection, `(2 * x + y)[m]`, in the place of ``node``."""
    return standing_for(at_place(ast.Subscript(found.value, found.mask, ast.Load()), node), node)


# The reductions of which the elements that are left out are no part: of the others a selection is made first.
_REDUCTIONS = ("sum", "prod", "mean", "min", "max", "any", "all", "count_nonzero", "norm", "len")


def masked_operand(scope: Scope, node: ast.expr) -> tuple[ast.expr, Masked] | None:
    """The operand of a reduction, and what one mask selects in it; None where nothing, or more than that, does."""
    if reduction(scope, node) not in _REDUCTIONS:
        return None
    match node:
        case ast.Attribute(value=operand):
            pass
        case ast.Call(func=ast.Attribute(value=operand), args=[], keywords=[]) if rank(scope, operand):
            pass
        case ast.Call(args=[operand], keywords=[]):
            pass
        case _:
            return None
    found = masked(scope, operand)
    if found is None:
        return None
    dtype = element_type(scope, found.value)
    known = dtype is not None and (dtype.kind in "biuf" or reduction(scope, node) not in ("min", "max"))
    return (operand, found) if known else None


def with_operand(node: ast.expr, operand: ast.expr, other: ast.expr) -> ast.expr:
    """``node``, a reduction, of ``other`` in place of ``operand``."""
    result = copy.copy(node)
    if isinstance(result, ast.Attribute):
        result.value = other
    elif isinstance(result, ast.Call) and result.args:
        result.args = [other]
    elif isinstance(result, ast.Call) and isinstance(result.func, ast.Attribute):
        result.func = ast.copy_location(ast.Attribute(other, result.func.attr, ast.Load()), result.func)
    return standing_for(result, node)
