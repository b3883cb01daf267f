"""Products of integer matrices, and of those of which only the device knows the sizes: the loop over their elements.

BLAS has none of integers, and PyTorch none on a GPU.
"""

from __future__ import annotations

import ast

import numpy as np

from qgraph import language
from qgraph.frontend.arrays.views import size_of, view_of
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.indexing import ONE, ZERO, word
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.names.bindings import ViewAxis, ViewRef
from qgraph.frontend.names.program_builder import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.region import Region
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Temporary
from qgraph.ir.trees import at_place, load, with_names
from qgraph.source import as_written, standing_for

# By the dimensions of the operands: what the loop goes over, and the row and the column of an element.
_LOOPS = {
    (2, 1): ("for {0} in _range(_t.shape[0]): _t[{0}] = _dot(_a[{0}, :], _b)"),
    (1, 2): ("for {0} in _range(_t.shape[0]): _t[{0}] = _dot(_a, _b[:, {0}])"),
    (2, 2): ("for {0}, {1} in _ndrange(_t.shape[0], _t.shape[1]): _t[{0}, {1}] = _dot(_a[{0}, :], _b[:, {1}])"),
}


def has_unknown_size(region: Region, scope: Scope, operands: list[ast.expr]) -> bool:
    """Whether only the device knows how large one of these is."""
    views = (view_of(region, scope, each, keep=True) for each in operands if _is_part(scope, each))
    return any(along.count.host is None for view in views for along in view.along)


def is_integer_product(scope: Scope, node: ast.expr, operands: list[ast.expr]) -> bool:
    """Whether this is a product of two integer arrays, of one or two dimensions."""
    dtype = element_type(scope, node)
    return dtype is not None and dtype.kind in "iu" and tuple(rank(scope, each) for each in operands) in _LOOPS


def product_loop(region: Region, scope: Scope, node: ast.expr, operands: list[ast.expr]) -> ViewRef:
    """The product of two arrays or parts of arrays, a part of an array that is large enough.

    Raises:
        KernelSyntaxError: an operand has more than two dimensions.
    """
    ranks = rank(scope, operands[0]), rank(scope, operands[1])
    if ranks not in _LOOPS:
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
    place = f"{len(unit.leaves)}_{node.lineno}_{node.col_offset}"
    hidden = {"_a": first, "_b": second, "_t": made}
    stands: dict[str, ast.expr] = {}
    for (name, bound), user in zip(hidden.items(), (*operands, node), strict=True):
        scope.names[f"{ADDED}{name}{place}"] = bound
        stands[name] = standing_for(load(f"{ADDED}{name}{place}"), user)
    functions = {"_range": range, "_ndrange": language.ndrange, "_dot": np.dot}
    stands |= {name: word(scope, function).func for name, function in functions.items()}
    (loop,) = ast.parse(_LOOPS[ranks].format(f"_i{place}", f"_j{place}")).body
    for child in ast.walk(loop):
        ast.copy_location(child, node)
        if isinstance(child, ast.Name) and child.id.endswith(place):
            standing_for(child, child, child.id.removesuffix(place).strip("_"))
    region.block(scope, [at_place(with_names(loop, stands), node)])
    return made


def _is_part(scope: Scope, node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and rank(scope, node) > 0
