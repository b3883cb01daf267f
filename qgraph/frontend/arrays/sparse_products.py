"""Products of sparse matrices with vectors, ``y[:] = A @ x`` and in expressions, as the loop over the rows that they mean."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import numpy as np

from qgraph.frontend.arrays.library_calls import MATRIX, takes_all
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.names.bindings import LeafRef, StructRef
from qgraph.frontend.names.program_builder import ADDED
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.statements.region import Region
from qgraph.ir.argument_types import ArrayType, Leaf, is_csr
from qgraph.ir.program import Temporary
from qgraph.ir.trees import at_place, load, parsed, with_names
from qgraph.source import as_written, nodes_of, standing_for


def assign_sparse_product(region: Region, scope: Scope, node: ast.Assign) -> bool:
    """Add the loop of ``y[:] = A @ x``, if ``A`` is a CSR matrix, and ``x`` and ``y`` are whole vectors that are apart.

    Raises:
        KernelSyntaxError: ``x`` is no vector.
    """
    operands = _operands(scope, node.value)
    if operands is None:
        return False
    found, matrix, vector = operands
    text = as_written(node.value)
    target = node.targets[0]
    places = [target.value if isinstance(target, ast.Subscript) and takes_all(target.slice) else None, vector]
    vectors = [scope.static(place) if place is not None and rank(scope, place) == 1 else None for place in places]
    leaves = [each.leaf for each in vectors if isinstance(each, LeafRef)]
    extents = _extents(found)
    if len(leaves) < 2 or len(node.targets) > 1:
        return False
    unit = region.unit
    y, x = leaves
    parts = {name: part.leaf for name, part in found.children.items() if isinstance(part, LeafRef)}
    if any(unit.may_share(y.name, each.name) for each in (x, *parts.values())):
        # Rows would read what others have stored: the product is a new array, and copied.
        assert isinstance(vectors[1], LeafRef)
        name = _new_product(region, scope, node.value, vectors[1])
        region.block(scope, [at_place(ast.Assign([target], standing_for(load(name), node.value)), node)])
        return True
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


def sparse_product(region: Region, scope: Scope, node: ast.expr, *, whole: Callable[[ast.expr], LeafRef]) -> LeafRef | None:
    """The new array that ``A @ x`` is, if ``A`` is a CSR matrix; ``whole`` makes a copy of what is no whole vector."""
    operands = _operands(scope, node)
    if operands is None:
        return None
    bound = quietly_static(scope, operands[2])
    found = scope.names[_new_product(region, scope, node, bound if isinstance(bound, LeafRef) else whole(operands[2]))]
    assert isinstance(found, LeafRef)
    return found


def _new_product(region: Region, scope: Scope, node: ast.expr, x: LeafRef) -> str:
    """The name of the new array that ``A @ x`` is."""
    operands = _operands(scope, node)
    assert operands is not None
    found, matrix, vector = operands
    data, extents = found.children["data"], _extents(found)
    types = [each.leaf.type for each in (data, x) if isinstance(each, LeafRef)]
    dtype = np.result_type(*(each.dtype for each in types if isinstance(each, ArrayType)))
    unit, span = region.unit, scope.span(node)
    leaf = Leaf(unit.array_name("of_matrix"), as_written(node), ArrayType(dtype.name, 1, "C"))
    rows = parsed(extents[0])
    size = unit.host_value(rows, span, "size", text=f"{found.path}.shape[0]").id
    unit.add_temporary(Temporary(leaf, (size,), span, computed=True), (rows,))
    names = [f"{ADDED}{name}" for name in (f"x{leaf.name}", leaf.name)]
    scope.names.update(zip(names, (x, LeafRef(leaf)), strict=True))
    target = ast.Subscript(load(names[1]), ast.Slice(), ast.Store())
    product = standing_for(ast.BinOp(matrix, ast.MatMult(), standing_for(load(names[0]), vector)), node)
    assigned = assign_sparse_product(region, scope, at_place(ast.Assign([target], product), node))
    assert assigned
    return names[1]


def _operands(scope: Scope, node: ast.expr) -> tuple[StructRef, ast.expr, ast.expr] | None:
    """The matrix, how it is written, and the vector of a product; None of anything else."""
    match node:
        case ast.BinOp(left=matrix, op=ast.MatMult(), right=vector):
            pass
        case ast.Call(func=ast.Attribute(value=matrix, attr="dot"), args=[vector], keywords=[]):
            pass
        case _:
            return None
    found = quietly_static(scope, matrix)
    if not isinstance(found, StructRef) or not is_csr(found.type.cls):
        return None
    if rank(scope, vector) != 1 or len(_extents(found)) != MATRIX:
        raise scope.error(
            f"`{as_written(node)}` is a product of a sparse matrix, and not with one vector",
            node,
            "write y[:] = A @ x, with vectors x and y, for each column: u[:, 0] = A @ v[:, 0]",
        )
    return found, matrix, vector


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
