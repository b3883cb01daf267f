"""What reductions of arrays to one number combine, and in which type: the rules of ``np.sum(x)`` and its kin."""

from __future__ import annotations

import ast

import numpy as np

from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.axes_reduced import ALONG_AXES, OF_ALL, OPTIONS, Reduced
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import rank, reduced_along, reduction
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.syntax import unsupported_functions
from qgraph.ir.trees import at_place
from qgraph.source import as_written, copied

PRODUCTS = ("dot", "vdot")
DEVIATIONS = ("var", "std")


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
    if (reduced := reduced_along(scope, node)) is not None:
        return [reduced.array]
    if isinstance(node, ast.Attribute):
        return [node.value]
    assert isinstance(node, ast.Call)
    base = [node.func.value] if isinstance(node.func, ast.Attribute) and rank(scope, node.func.value) else []
    operands = [*base, *node.args]
    wanted = 2 if kind in PRODUCTS else 1
    if len(operands) != wanted or node.keywords:
        takes = "two vectors" if wanted == 2 else "one array"
        if kind in ALONG_AXES:
            more = ", ".join(f"{name}=" for name in ("axis", "keepdims", *OPTIONS.get(kind, ())))
            takes += f", and of options {more}; axes are constants that the array has"
        raise scope.error(
            f"`{as_written(node)}` has arguments that are not supported", node, f"`{as_written(node.func)}` takes {takes}"
        )
    if wanted == 2 and [rank(scope, operand) for operand in operands] != [1, 1]:
        hint = unsupported_functions.instead(node, np.dot)
        if base and all(rank(scope, operand) for operand in operands):
            hint = f"write `{' @ '.join(map(as_written, operands))}`, at kernel level, of vectors and matrices"
        raise scope.error(f"`{as_written(node)}` is no product of two vectors", node, hint)
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
    elif kind in DEVIATIONS:
        mean = word(scope, np.mean, first)
        reduced = reduced_along(scope, node)
        if reduced is not None and reduced.rank:
            mean.keywords = along(reduced.axes, keepdims=True)
        first = ast.BinOp(first, ast.Sub(), mean)
        dtype = element_type(scope, first)
        first = word(scope, np.square, word(scope, np.abs, first) if dtype is None or dtype.kind == "c" else first)
    elif kind in ("any", "all", "count_nonzero") and element_type(scope, first) != np.bool_:
        first = ast.Compare(first, [ast.NotEq()], [ast.Constant(0)])
    return at_place(first, node)


def along(axes: tuple[int, ...], *, keepdims: bool) -> list[ast.keyword]:
    """The options of a reduction along ``axes``."""
    numbers = ast.Tuple([ast.Constant(axis) for axis in axes], ast.Load())
    return [ast.keyword("axis", numbers), ast.keyword("keepdims", ast.Constant(keepdims))]


def composed(scope: Scope, node: ast.expr) -> ast.expr:
    """A reduction that is ``COMPOSED`` as an expression of others."""
    kind = reduction(scope, node)
    if kind in OF_ALL and isinstance(node, ast.Call):
        return at_place(_close(scope, node) if kind == "allclose" else _integral(scope, node), node)
    reduced = reduced_along(scope, node)
    if reduced is None:
        # An option that it does not take is refused.
        operands_of_reduction(scope, node, kind)
    assert reduced is not None
    return at_place(_norm(scope, reduced) if reduced.kind != "ptp" else _range(scope, reduced, node), node)


def _close(scope: Scope, node: ast.Call) -> ast.expr:
    names = ("a", "b", "rtol", "atol")
    given = dict(zip(names, node.args, strict=False)) | {str(each.arg): each.value for each in node.keywords}
    if len(node.args) > len(names) or not {"a", "b"} <= given.keys() <= {*names}:
        raise scope.error(f"`{as_written(node)}` has options that kernels do not know", node, f"known are {', '.join(names)}")
    if len(given) > 2:
        given = {"rtol": ast.Constant(1e-05), "atol": ast.Constant(1e-08)} | given
    return word(scope, np.all, word(scope, np.isclose, *(given[name] for name in names if name in given)))


def _integral(scope: Scope, node: ast.Call) -> ast.expr:
    """``np.trapezoid(y, x)``, or with ``dx=``, of vectors: the sum of the steps by the means of neighbours."""
    options = {each.arg: each.value for each in node.keywords}
    y, *x = node.args
    x += [options.pop("x")] if "x" in options and not x else []
    step = options.pop("dx", ast.Constant(1.0))
    if options or len(x) > 1 or any(rank(scope, each) != 1 for each in (y, *x)):
        hint = "it takes the vectors y and x, or y and the step, dx="
        raise scope.error(f"`{as_written(node)}` is no integral of a vector", node, hint)
    after, before = (ast.Slice(ast.Constant(1)), ast.Slice(None, ast.UnaryOp(ast.USub(), ast.Constant(1))))
    ends = [[ast.Subscript(copied(each), copied(part), ast.Load()) for part in (after, before)] for each in (y, *x)]
    steps = ast.BinOp(ends[1][0], ast.Sub(), ends[1][1]) if x else step
    areas = ast.BinOp(ast.BinOp(steps, ast.Mult(), ast.BinOp(ends[0][0], ast.Add(), ends[0][1])), ast.Div(), ast.Constant(2.0))
    return word(scope, np.sum, areas)


def _norm(scope: Scope, reduced: Reduced) -> ast.expr:
    """``np.linalg.norm(x, p)``: of a vector the p-th root of a sum, or an extreme; of a matrix the extreme of such sums."""
    array, order = reduced.array, reduced.order
    dtype = element_type(scope, array)
    if dtype is not None and dtype.kind in "biu":
        array = ast.BinOp(array, ast.Mult(), ast.Constant(1.0))
    sizes = word(scope, np.abs, array)
    extreme = np.max if order > 0 else np.min
    if len(reduced.axes) == 2:
        sums = word(scope, np.sum, sizes)
        sums.keywords = [ast.keyword("axis", ast.Constant(int(abs(order) != 1)))]
        sums.keywords.append(ast.keyword("keepdims", ast.Constant(reduced.keepdims)))
        found = word(scope, extreme, sums)
        found.keywords = [ast.keyword("keepdims", ast.Constant(value=True))] if reduced.keepdims else []
        return found
    if abs(order) == np.inf:
        found = word(scope, extreme, sizes)
    else:
        found = word(scope, np.sum, sizes if order == 1 else ast.BinOp(sizes, ast.Pow(), ast.Constant(order)))
    found.keywords = along(reduced.axes, keepdims=reduced.keepdims)
    return found if order == 1 or abs(order) == np.inf else ast.BinOp(found, ast.Pow(), ast.Constant(1 / order))


def _range(scope: Scope, reduced: Reduced, node: ast.expr) -> ast.expr:
    """``np.ptp(x)``, as the difference of two reductions."""
    if element_type(scope, reduced.array) == np.bool_:
        raise scope.error(f"`{as_written(node)}` subtracts booleans", node, "NumPy refuses this too")
    extremes = [word(scope, function, reduced.array) for function in (np.max, np.min)]
    for extreme in extremes:
        extreme.keywords = along(reduced.axes, keepdims=reduced.keepdims)
    return ast.BinOp(extremes[0], ast.Sub(), extremes[1])


def finished(scope: Scope, node: ast.expr, kind: str, total: ast.expr, size: ast.expr) -> ast.expr:
    """What a reduction gives whose elements are summed up in ``total``, and of which there are ``size``."""
    reduced = reduced_along(scope, node) if kind in DEVIATIONS else None
    if reduced is not None and reduced.ddof is not None:
        size = word(scope, max, ast.BinOp(size, ast.Sub(), reduced.ddof), ast.Constant(0))
    if kind in ("mean", *DEVIATIONS):
        total = ast.BinOp(total, ast.Div(), size)
    return word(scope, np.sqrt, total) if kind in ("norm", "std") else total


# One sum after the other, where NumPy adds in pairs: of 2e7 float32 ones a float32 would be 1.7e7.
_WIDER: dict[str, type[np.generic]] = {"float16": np.float32, "float32": np.float64, "complex64": np.complex128}


def wider(kind: str, dtype: np.dtype[np.generic] | None) -> type[np.generic] | None:
    """The type in which a sum of ``dtype`` is added up where its own loses too much; None where it does not, as in products."""
    return _WIDER.get(str(dtype)) if dtype == np.float16 or kind != "prod" else None


def summed(kind: str, dtype: np.dtype[np.generic] | None) -> type[np.generic] | None:
    """The type of a sum of ``dtype``, None where it is that of the elements, or not known."""
    if dtype is None or kind in PRODUCTS:
        return None
    if kind == "mean" and dtype.kind in "biu":
        return np.float64
    return {"b": np.int64, "i": np.int64, "u": np.uint64}.get(dtype.kind)
