"""Functions and methods that make a new array: kernels lack them, and each has something to write instead."""

from __future__ import annotations

import ast
import builtins

import numpy as np

from qgraph import language
from qgraph.source import as_written

_LOOP = "write a loop that fills an array: t = qgraph.empty(n), then for i in range(n): t[i] = ..."
_COPY = "t = qgraph.empty_like(x), then t[:] = x"
_ARRAY = "name it first, with its dtype: t = np.array((a, b), dtype=np.float64)"
_CONVERT = "convert in an assignment: t = qgraph.empty_like(x, dtype=...), then t[:] = x"
_FULL = "name an array that is full of one number: t = qgraph.full(n, 1.0)"
_COUNT = "t = qgraph.empty(n), then for i in range(n): t[i] = start + i * step"
_WHOLE = "compute it at kernel level, of whole arrays: t = u @ x; for i in range(n): of one row write np.dot(u[i], x)"
_ROWS = (
    "compute it at kernel level, of all rows at once: t = np.{0}(u, axis=1); what iterations make they store in rows, `u[i]`"
)
_SCAN = "go through it in order: for i in qgraph.serial(range(1, n)): t[i] = t[i - 1] + x[i]"
_SORT = "sort before the call and pass the result, or write the sort as loops"
_UNIQUE = "write `n = qgraph.unique(x, values)`: the different elements are `values[:n]`, in memory that you name"
_FLIP = "write the slice that it is: x[::-1], u[:, ::-1]"
_ROLL = "two assignments of parts: t[k:] = x[:-k], then t[:k] = x[-k:]"
_OUTER = "call it at kernel level; in a loop write one over the rows: for j in range(len(x)): t[j] = x[j] * y"
_MATRIX = "write loops: for i in range(m): s = 0.0, then for j in range(n): s += u[i, j] * x[j], then y[i] = s"
_JOIN = "make the array and assign its parts: t = qgraph.empty(n + m), then t[:n] = x, t[n:] = y"
_SHAPE = "reshape before the call, or compute the indices in a loop: t[i // n, i % n] = x[i]"
_TRANSPOSE = "write u.T, or loops over u[j, i]"
_PART = "write that of a part, `z[1:].real`; what changes it as a loop: for i in range(n): z.real[i] = ..."
_ANGLE = "write the loop: for i in range(n): t[i] = np.angle(z[i])"
_DIFFERENCE = "subtract parts: t[:] = x[1:] - x[:-1]"
_SELECT = "write a loop with an `if`; a counter in qgraph.serial(range(n)) tells how many were found"
_ELEMENTS = "assign it to a part of an array, `y[:] = ...`; a name can stand for a part of an array, `w = x[1:-1]`"
_NAME = "give it a name first: t = qgraph.zeros(n)"

_COVARIANCE = "d = x - np.mean(x, axis=1, keepdims=True), then d @ d.T / (x.shape[1] - 1), divided by deviations for corrcoef"

# What to write instead of a function of numbers that is given an array.
_OF_NUMBERS: dict[object, str] = {
    **dict.fromkeys((builtins.divmod, np.divmod), "write x // y and x % y"),
    builtins.round: "write np.round(x)",
    builtins.pow: "write x ** y",
    **dict.fromkeys((builtins.int, builtins.float, builtins.complex, builtins.bool), "convert the elements, x.astype(dtype)"),
}

# What to write instead of a function, or of a method of that name.
_INSTEAD = {
    **dict.fromkeys(("copy", "asarray", "ascontiguousarray", "asfortranarray"), _COPY),
    "array": _ARRAY,
    **dict.fromkeys(("astype", "view", "byteswap"), _CONVERT),
    **dict.fromkeys(("ones", "ones_like", "eye", "identity"), _FULL),
    **dict.fromkeys(("arange", "linspace", "logspace", "geomspace"), _COUNT),
    **dict.fromkeys(("cumsum", "cumprod", "sort", "argsort"), _ROWS),
    **dict.fromkeys(("searchsorted", "inv", "solve", "cholesky"), _WHOLE),
    **dict.fromkeys(("nancumsum", "nancumprod"), _SCAN),
    **dict.fromkeys(("partition", "argpartition", "lexsort"), _SORT),
    "unique": _UNIQUE,
    **dict.fromkeys(("flip", "fliplr", "flipud", "rot90"), _FLIP),
    "roll": _ROLL,
    "outer": _OUTER,
    "kron": _LOOP,
    **dict.fromkeys(("matmul", "dot"), _WHOLE),
    **dict.fromkeys(("tensordot", "einsum"), _MATRIX),
    **dict.fromkeys(("concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "append", "insert", "pad"), _JOIN),
    **dict.fromkeys(("reshape", "ravel", "flatten", "resize", "broadcast_to", "expand_dims", "squeeze"), _SHAPE),
    **dict.fromkeys(("transpose", "swapaxes", "moveaxis", "rollaxis"), _TRANSPOSE),
    **dict.fromkeys(("real", "imag"), _PART),
    "angle": _ANGLE,
    **dict.fromkeys(("diff", "gradient", "ediff1d"), _DIFFERENCE),
    **dict.fromkeys(("nonzero", "flatnonzero", "argwhere", "extract", "compress", "delete"), _SELECT),
    **dict.fromkeys(("repeat", "tile", "meshgrid", "indices", "diag", "diagonal", "tri", "tril", "triu", "vander"), _LOOP),
    **dict.fromkeys(("cross", "convolve", "correlate", "histogram", "bincount", "interp", "polyval"), _LOOP),
    **dict.fromkeys(("digitize", "select"), _LOOP),
    **dict.fromkeys(("cov", "corrcoef"), _COVARIANCE),
    **dict.fromkeys(("pinv", "qr", "svd", "eig", "eigh", "eigvals", "eigvalsh", "lstsq"), _LOOP),
}
# Of these only the method makes a new array: the function is elementwise.
_METHODS = ("round", "clip", "conj", "conjugate")
_ATTRIBUTES = ("real", "imag")
# Functions that need no array to make one.
_FROM_NUMBERS = (_ARRAY, _FULL, _COUNT, _COPY, _LOOP, _JOIN)


def of_function(function: object, *, of_arrays: bool) -> bool:
    """Whether a function makes a new array; ``of_arrays``: some argument is one."""
    if isinstance(function, np.ufunc):
        return function is np.matmul
    if language.array_maker(function) is not None:
        return True
    return _is_numpy(function) and _instead(function) in (_INSTEAD.values() if of_arrays else _FROM_NUMBERS)


def of_numbers(function: object) -> str:
    """What to write instead of ``function``, one of numbers alone, for arrays; "" for others."""
    return next((hint for each, hint in _OF_NUMBERS.items() if each is function), "")


def as_assignment(function: object, call: ast.Call) -> str:
    """What to write instead of a call that changes an array; ``function`` is what it calls, if that is known."""
    if isinstance(function, np.ufunc):
        given = [*call.args, *(each.value for each in call.keywords if each.arg == "out")]
        if function.nout == 1 and len(given) == function.nin + 1:
            operands = ", ".join(as_written(each) for each in given[:-1])
            return f"assign what it gives: {as_written(given[-1])}[...] = {as_written(call.func)}({operands})"
    return "write what it does: `x[:] = 3`, for one, or a loop"


def of_method(name: str) -> bool:
    """Whether a method of an array makes a new one."""
    return name in _METHODS or name in _INSTEAD


def of_attribute(name: str) -> bool:
    """Whether an attribute of an array is one that kernels have only of its elements."""
    return name in _ATTRIBUTES


def instead(node: ast.expr, function: object) -> str:
    """What to write instead of ``node``, which makes a new array; ``function`` is what it calls, if that is known."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _WHOLE
    if language.array_maker(function) is not None:
        return _NAME
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    name = node.attr if isinstance(node, ast.Attribute) else name
    if function is None and name in _METHODS:
        return f"write NumPy's function of that name, which is one of elements: np.{name}(x)"
    found = _instead(function) or _INSTEAD.get(name, _ELEMENTS)
    return found.format(name) if found is _ROWS else found


def _is_numpy(function: object) -> bool:
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "numpy"


def _instead(function: object) -> str:
    return _INSTEAD.get(getattr(function, "__name__", ""), "") if _is_numpy(function) or isinstance(function, np.ufunc) else ""
