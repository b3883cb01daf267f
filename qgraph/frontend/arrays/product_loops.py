"""Products of matrices that are loops over elements: of integers, of unknown sizes, of what is in no memory yet.

BLAS has none of integers, and PyTorch none on a GPU.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from qgraph.frontend.arrays.array_statements import Elements
from qgraph.frontend.arrays.shape_checks import Lengths
from qgraph.frontend.arrays.views import size_of, view_of
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.elementwise import array_operands
from qgraph.frontend.inference.indexing import ONE, ZERO, element, word
from qgraph.frontend.inference.ranks import is_place, rank
from qgraph.frontend.names.bindings import ViewAxis, ViewRef
from qgraph.frontend.names.program_builder import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.region import Region
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Temporary
from qgraph.ir.trees import assign, at_place, load, stored
from qgraph.operations import intrinsics
from qgraph.source import as_written, copied, standing_for

# The dimensions of the operands.
_RANKS = frozenset({(2, 1), (1, 2), (2, 2)})
_TOTAL = f"{ADDED}total"


def has_unknown_size(region: Region, scope: Scope, operands: list[ast.expr]) -> bool:
    """Whether only the device knows how large one of these is."""
    views = (view_of(region, scope, each, keep=True) for each in operands if _is_part(scope, each))
    return any(along.count.host is None for view in views for along in view.along)


def is_integer_product(scope: Scope, node: ast.expr, operands: list[ast.expr]) -> bool:
    """Whether this is a product of two integer arrays, of one or two dimensions."""
    dtype = element_type(scope, node)
    return dtype is not None and dtype.kind in "iu" and tuple(rank(scope, each) for each in operands) in _RANKS


def sums_of_rows(region: Region, scope: Scope, node: ast.expr, operands: list[ast.expr]) -> ast.Call | None:
    """The product of an expression, a matrix that is never in memory then, with a vector or one column; None for others."""
    dtype, (first, second) = element_type(scope, node), operands
    ndim = rank(scope, second)
    if dtype is None or dtype.kind != "f" or rank(scope, first) != 2 or is_place(scope, first) or not is_place(scope, second):
        return None
    vector, *views = (view_of(region, scope, each, keep=True) for each in (second, *array_operands(scope, first, {})))
    length, *columns = (along.count for along in vector.along)
    # A length of 1 that is not repeated, and what only the device knows, is compared where the library is called.
    known = all(along.count.host is not None for view in (vector, *views) for along in view.along)
    alone = length.is_one or all(view.along[-1].count.is_one for view in views)
    if not known or alone or ndim > 2 or not all(each.is_one for each in columns):
        return None
    if columns:
        second = ast.Subscript(second, ast.Tuple([ast.Slice(), ast.Constant(0)], ast.Load()), ast.Load())
    call = word(scope, np.sum, at_place(ast.BinOp(first, ast.Mult(), second), node))
    call.keywords = [ast.keyword("axis", ast.Constant(1)), ast.keyword("keepdims", ast.Constant(bool(columns)))]
    return standing_for(at_place(call, node), node)


def product_loop(region: Region, scope: Scope, node: ast.expr, operands: list[ast.expr]) -> ViewRef:
    """The product of two arrays or parts of arrays, a part of an array that is large enough.

    Raises:
        KernelSyntaxError: an operand has more than two dimensions.
    """
    ranks = rank(scope, operands[0]), rank(scope, operands[1])
    if ranks not in _RANKS:
        raise scope.error(
            f"`{as_written(node)}` is a product of stacks of matrices, whose sizes only the device knows",
            node,
            "multiply whole arrays, or write a loop over the matrices",
        )
    first, second = (view_of(region, scope, each, keep=_is_part(scope, each)) for each in operands)
    kept = [(first, each) for each in first.along[:-1]] + [(second, each) for each in second.along[1:]]
    dtype = element_type(scope, node)
    assert dtype is not None
    unit, span = region.unit, scope.span(node)
    sizes = [size_of(unit, view.leaf, along.axis) if along.axis >= 0 else ast.Constant(1) for view, along in kept]
    names = tuple(unit.host_value(size, span, "size", text=ast.unparse(size)).id for size in sizes)
    leaf = Leaf(unit.array_name("product"), as_written(node), ArrayType(dtype.name, len(names), "C"))
    unit.add_temporary(Temporary(leaf, names, span, computed=True), tuple(sizes))
    made = ViewRef(leaf, {}, tuple(ViewAxis(axis, ZERO, ONE, along.count) for axis, (_, along) in enumerate(kept)))
    body = Elements(region, scope)
    body.frame([along.count for _, along in kept], [as_written(node)] * len(kept))
    rows = len(first.along) - 1
    along, texts = load(f"{ADDED}along"), (_line(operands[0], ranks[0], "[i, :]"), _line(operands[1], ranks[1], "[:, j]"))
    lengths = Lengths(region, scope, [first.along[-1].count], texts[:1], exact=True)
    # No length of 1 is repeated, so that it is the same index.
    lengths.index(0, second.along[0].count, along, standing_for(copied(operands[1]), operands[1], texts[1]))
    factors = [
        element(first, [*body.variables[:rows], along], scope, node, natural=True),
        element(second, [along, *body.variables[rows:]], scope, node, natural=True),
    ]
    place = element(made, body.variables, scope, node, natural=True)
    assert isinstance(place, ast.Subscript)
    place.ctx = ast.Store()
    start, step = _summed(scope, factors, dtype)
    loop = ast.For(stored(along.id), word(scope, range, lengths.settled(node)[0].code), [step], [])
    body.fill([assign(_TOTAL, start), loop, ast.Assign([place], load(_TOTAL))], range(len(kept)), node)
    return made


def _line(node: ast.expr, ndim: int, index: str) -> str:
    """A row or a column of an operand, as it could be written."""
    return as_written(node) + (index if ndim > 1 else "")


def _summed(scope: Scope, factors: Sequence[ast.expr], dtype: np.dtype[np.generic]) -> tuple[ast.expr, ast.stmt]:
    """What a sum of products of type ``dtype`` starts with, and the statement that adds one."""
    if dtype.kind == "b":
        found = ast.BoolOp(ast.Or(), [load(_TOTAL), ast.BoolOp(ast.And(), [*factors])])
        return ast.Constant(False), assign(_TOTAL, found)
    first, second = factors
    value: ast.expr = ast.BinOp(first, ast.Mult(), second)
    if dtype.kind != "f":
        # Narrow integers wrap when they are stored.
        wide = {"i": np.int64, "u": np.uint64}.get(dtype.kind, dtype.type)
        return word(scope, wide, ZERO.code), ast.AugAssign(stored(_TOTAL), ast.Add(), value)
    float_type = np.float32 if dtype == np.float16 else dtype.type
    # BLAS adds in an order of its own, too.
    step = word(scope, intrinsics.reassociable_add, load(_TOTAL), word(scope, float_type, value))
    return word(scope, float_type, ZERO.code), assign(_TOTAL, step)


def _is_part(scope: Scope, node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and rank(scope, node) > 0
