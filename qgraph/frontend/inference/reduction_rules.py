"""What reductions of arrays to one number combine, and in which type: the rules of ``np.sum(x)`` and its kin."""

from __future__ import annotations

import ast

import numpy as np

from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.syntax import unsupported_functions
from qgraph.ir.trees import at_place
from qgraph.source import as_written, copied

PRODUCTS = ("dot", "vdot")


def wrapped(total: ast.expr, dtype: np.dtype[np.generic]) -> ast.expr:
    """The sum of narrow products as one of them, as NumPy adds them up."""
    mask = (1 << 8 * dtype.itemsize) - 1
    least = 0 if dtype.kind == "u" else (mask + 1) // 2
    shifted = ast.BinOp(total, ast.Add(), ast.Constant(least)) if least else total
    found = ast.BinOp(shifted, ast.BitAnd(), ast.Constant(mask))
    return ast.BinOp(found, ast.Sub(), ast.Constant(least)) if least else found


def operands_of_reduction(scope: Scope, node: ast.expr, kind: str) -> list[ast.expr]:
    """The arrays that a reduction is of, as written; ``KernelSyntaxError`` for options, and for no two vectors."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Attribute):
        return [node.value]
    assert isinstance(node, ast.Call)
    base = [node.func.value] if isinstance(node.func, ast.Attribute) and rank(scope, node.func.value) else []
    operands = [*base, *node.args]
    wanted = 2 if kind in PRODUCTS else 1
    if len(operands) != wanted or node.keywords:
        raise scope.error(
            f"`{as_written(node)}` has arguments that are not supported",
            node,
            f"`{as_written(node.func)}` takes {'two vectors' if wanted == 2 else 'one array'} here, and gives one number; "
            "for one of each row write a loop: for i in range(m): t[i] = np.sum(u[i])",
        )
    if wanted == 2 and [rank(scope, operand) for operand in operands] != [1, 1]:
        raise scope.error(
            f"`{as_written(node)}` is no product of two vectors", node, unsupported_functions.instead(node, np.dot)
        )
    return operands


def operand(scope: Scope, operands: list[ast.expr], kind: str, node: ast.expr) -> ast.expr:
    """The array expression that is summed, or whose extreme is sought."""
    first = operands[0]
    if kind in PRODUCTS:
        dtype = element_type(scope, first)
        if kind == "vdot" and (dtype is None or dtype.kind == "c"):
            first = word(scope, np.conjugate, first)
        first = ast.BinOp(first, ast.Mult(), operands[1])
    elif kind == "norm":
        dtype = element_type(scope, first)
        first = word(scope, np.abs, first) if dtype is None or dtype.kind == "c" else first
        if dtype is not None and dtype.kind in "biu":
            first = ast.BinOp(first, ast.Mult(), ast.Constant(1.0))
        first = ast.BinOp(first, ast.Mult(), copied(first))
    elif kind in ("any", "all", "count_nonzero") and element_type(scope, first) != np.bool_:
        first = ast.Compare(first, [ast.NotEq()], [ast.Constant(0)])
    return at_place(first, node)


def summed(kind: str, dtype: np.dtype[np.generic] | None) -> type[np.generic] | None:
    """The type of a sum of ``dtype``, None where it is that of the elements, or not known."""
    if dtype is None or kind in PRODUCTS:
        return None
    if kind == "mean" and dtype.kind in "biu":
        return np.float64
    return {"b": np.int64, "i": np.int64, "u": np.uint64}.get(dtype.kind)
