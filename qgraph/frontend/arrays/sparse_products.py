"""Products of sparse matrices with vectors, ``y[:] = A @ x``, as the loop over the rows that they mean."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from qgraph.frontend.arrays.library_calls import takes_all
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.names.bindings import LeafRef, StructRef
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.statements.region import Region
from qgraph.ir.argument_types import is_csr
from qgraph.ir.trees import at_place, parsed, with_names
from qgraph.source import as_written, nodes_of


def assign_sparse_product(region: Region, scope: Scope, node: ast.Assign) -> bool:
    """Add the loop of ``y[:] = A @ x``, if ``A`` is a CSR matrix.

    Raises:
        KernelSyntaxError: ``x`` or ``y`` is no whole vector, or both are one.
    """
    match node.value:
        case ast.BinOp(left=matrix, op=ast.MatMult(), right=vector):
            pass
        case ast.Call(func=ast.Attribute(value=matrix, attr="dot"), args=[vector], keywords=[]):
            pass
        case _:
            return False
    found = quietly_static(scope, matrix)
    if not isinstance(found, StructRef) or not is_csr(found.type.cls):
        return False
    text = as_written(node.value)
    target = node.targets[0]
    places = [target.value if isinstance(target, ast.Subscript) and takes_all(target.slice) else None, vector]
    vectors = [scope.static(place) if place is not None and rank(scope, place) == 1 else None for place in places]
    leaves = [each.leaf for each in vectors if isinstance(each, LeafRef)]
    extents = _extents(found)
    if len(leaves) < 2 or len(node.targets) > 1 or len(extents) != 2:
        raise scope.error(
            f"`{text}` is a product of a sparse matrix, and not with one vector that is assigned to another",
            node,
            "write y[:] = A @ x, with vectors x and y that are arguments or temporaries",
        )
    unit = region.unit
    y, x = leaves
    parts = {name: part.leaf for name, part in found.children.items() if isinstance(part, LeafRef)}
    if any(unit.may_share(y.name, each.name) for each in (x, *parts.values())):
        raise scope.error(
            f"`{text}` is assigned to memory that it reads", node, "assign it to another array, and copy that: x[:] = y"
        )
    for leaf, extent, axis in ((x.name, extents[1], "columns"), (y.name, extents[0], "rows")):
        test = parsed(f"{unit.shape_of(leaf)}[0] == {extent}")
        written = text.replace("%", "%%")
        note = f"`{written}` does not fit: the matrix has %d {axis}, and the vector %d elements"
        known = f"{note!r} % ({extent}, {unit.shape_of(leaf)}[0])"
        hint = "A @ x takes as many elements as A has columns, and gives as many as it has rows"
        unit.host_value(test, scope.span(node), "shape", text=hint, note=known)
    assert isinstance(target, ast.Subscript)
    stands = {
        "_range": word(scope, range).func,
        "_y": target.value,
        "_x": vector,
        **{f"_{name}": ast.Attribute(matrix, name, ast.Load()) for name in parts},
    }
    region.block(scope, [_loop(node, stands)])
    return True


def _extents(matrix: StructRef) -> list[str]:
    """The names of the extents, for the host; SciPy has sparse vectors, too, which have one."""
    shape = matrix.children["shape"]
    assert isinstance(shape, StructRef)
    return [extent.leaf.name for extent in shape.children.values() if isinstance(extent, LeafRef)]


def _loop(node: ast.Assign, stands: Mapping[str, ast.expr]) -> ast.stmt:
    """The loop at the place of ``node``; ``stands`` are expressions for names in it."""
    row, place, total = (f"_{name}{node.lineno}_{node.col_offset}" for name in ("row", "place", "total"))
    (loop,) = ast.parse(
        f"for {row} in _range(_indptr.shape[0] - 1):\n"
        f"    {total} = 0\n"
        f"    for {place} in _range(_indptr[{row}], _indptr[{row} + 1]):\n"
        f"        {total} += _data[{place}] * _x[_indices[{place}]]\n"
        f"    _y[{row}] = {total}\n"
    ).body
    for child in nodes_of(loop):
        ast.copy_location(child, node)
    return at_place(with_names(loop, stands), node)
