"""The dtype of an array expression, known before Numba infers types: NumPy computes it on samples."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from qgraph.frontend.inference.axes_reduced import Reduced
from qgraph.frontend.inference.lookups import number_looked_up
from qgraph.frontend.inference.ranks import (
    as_selection,
    known,
    known_object,
    library_call,
    library_operands,
    places_of_true,
    rank,
    reduced_along,
    view_word,
)
from qgraph.frontend.names.bindings import Binding, HostExpr, LeafRef, Private, SlotRef, Value, ViewRef
from qgraph.frontend.names.scope import Scope
from qgraph.ir.argument_types import ArrayType, Leaf, ScalarType
from qgraph.ir.trees import MEMBERSHIP, constants_of, is_none, operands_of
from qgraph.operations.library_functions import LibraryFunction
from qgraph.operations.table import OPERATIONS, operation


class _UnknownError(Exception):
    """Some part is a kernel scalar, whose type Numba infers later."""


# What a number of the device or the host is like, where its binding does not tell; None for one that is not known.
_Numbers = Callable[[Binding], Any]


def element_type(scope: Scope, node: ast.expr, numbers: _Numbers | None = None) -> np.dtype[np.generic] | None:
    """The dtype of the elements of ``node``, None where it is not known here."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(_sample(scope, node, numbers)).dtype
    except (_UnknownError, TypeError, ValueError, ArithmeticError):
        return None


def number_like(scope: Scope, node: ast.expr, numbers: _Numbers) -> Any:
    """A number of the type of ``node``, a Python one where it is that; None where it is not known."""
    try:
        with np.errstate(all="ignore"):
            found = _sample(scope, node, numbers)
    except (_UnknownError, TypeError, ValueError, ArithmeticError):
        return None
    return found[0] if isinstance(found, np.ndarray) and found.ndim else found


def _sample(scope: Scope, node: ast.expr, numbers: _Numbers | None) -> Any:
    """An array of one element, or a number, of the type of ``node``."""
    bound = known(scope, node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
    if bound is not None:
        return _bound(bound, numbers)
    if numbers is not None and _is_extent(node):
        return 1
    match node:
        case ast.Constant(value=value) if isinstance(value, (bool, int, float, complex)):
            return value
        case ast.Attribute(value=value, attr="T" | "real" | "imag" as part) if rank(scope, value):
            return getattr(_sample(scope, value, numbers), part)
        case ast.Subscript(value=ast.Call()) if places_of_true(scope, node) is not None:
            return np.ones(1, np.int64)
        case ast.Subscript(value=value):
            array = _sample(scope, value, numbers)
            return array[0] if rank(scope, value) and not rank(scope, node) else array
        case ast.Compare(ops=[op]) if rank(scope, node) or isinstance(op, MEMBERSHIP):
            # Whatever an array is compared with.
            return np.ones(1, np.bool_) if rank(scope, node) else True
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.Compare(ops=[op]) if type(op) in OPERATIONS.by_syntax:
            return OPERATIONS.by_syntax[type(op)].functions[0](
                *(_sample(scope, operand, numbers) for operand in operands_of(node))
            )
        case ast.BinOp(op=ast.MatMult()) | ast.Call():
            return _of_arrays(scope, node, numbers)
    raise _UnknownError


def _of_arrays(scope: Scope, node: ast.BinOp | ast.Call, numbers: _Numbers | None) -> Any:
    """The same of a product of arrays, and of a call."""
    if (record := library_call(scope, node)) is not None:
        return _of_library(scope, record, node, numbers)
    if isinstance(node, ast.BinOp):
        if rank(scope, node.left) == rank(scope, node.right) == 1:
            return (_sample(scope, node.left, numbers) * _sample(scope, node.right, numbers))[0]
        raise _UnknownError
    if (view := view_word(scope, node)) is not None:
        return _sample(scope, view.array, numbers)
    if (reduced := reduced_along(scope, node)) is not None:
        return _reduced(reduced, _sample(scope, reduced.array, numbers))
    if (selection := as_selection(scope, node)) is not None:
        return _sample(scope, selection, numbers)
    if places_of_true(scope, node) is not None:
        return np.ones(1, np.int64)
    if (number := number_looked_up(scope, node)) is not None:
        return number
    if node.keywords:
        raise _UnknownError
    return _called(scope, node, numbers)


def _reduced(reduced: Reduced, sample: Any) -> Any:
    """The same of a reduction along axes."""
    function: Any = np.linalg.norm if reduced.kind.startswith("norm") else getattr(np, reduced.kind)
    number = function(sample)
    return np.asarray(number).reshape(1) if reduced.rank else number


def _is_extent(node: ast.expr) -> bool:
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Attribute(attr="size" | "ndim"):
            return True
    return False


def _of_library(scope: Scope, record: LibraryFunction, node: ast.expr, numbers: _Numbers | None) -> Any:
    """An array of one element of the type of what a library's function gives, which is asked itself."""
    operands = library_operands(record, node)
    # The inverse transform of one number is none.
    length = 2 if record.module == "numpy.fft" else 1
    given = [np.ones((length,) * rank(scope, each), np.asarray(_sample(scope, each, numbers)).dtype) for each in operands]
    function = record.function
    assert function is not None
    packed = [tuple(given[: record.packed]), *given[record.packed :]] if record.packed else given
    return np.ones(1, np.asarray(function(*packed, **constants_of(node))).dtype)


def _called(scope: Scope, node: ast.Call, numbers: _Numbers | None) -> Any:
    """The result of a function or method that NumPy, or Python, can call with samples."""
    function = known_object(scope, node.func)
    if operation(function).elementwise or (len(node.args) == 1 and _converts_or_reduces(function)):
        assert callable(function)
        # `np.clip` may have one limit alone.
        return function(*(None if is_none(each) else _sample(scope, each, numbers) for each in node.args))
    if function is len and numbers is not None:
        return 1
    if isinstance(function, BuiltinFunctionType) and function.__module__ == math.__name__:
        return of_math(function, [_sample(scope, each, numbers) for each in node.args])
    if function is min or function is max:
        # Python's give one of their operands as it is.
        samples = [_sample(scope, argument, numbers) for argument in node.args]
        if len({type(each) for each in samples}) == 1 and not isinstance(samples[0], np.ndarray):
            return samples[0]
    if operation(function).reduces in ("dot", "vdot") and [rank(scope, each) for each in node.args] == [1, 1]:
        found = _sample(scope, node.args[0], numbers) * _sample(scope, node.args[1], numbers)
        if found.dtype.kind in "fc":
            return found[0]
    match node:
        case ast.Call(func=ast.Attribute(value=array, attr=attr), args=[]) if attr in OPERATIONS.methods and rank(scope, array):
            return getattr(_sample(scope, array, numbers), attr)()
    raise _UnknownError


def of_math(function: Callable[..., Any], samples: Sequence[Any]) -> Any:
    """A number of Python's like what a function of ``math`` gives for numbers.

    Raises:
        ValueError: it gives no number, or none for such numbers.
    """
    if any(isinstance(each, np.ndarray) for each in samples):
        raise ValueError
    found = function(*samples)
    if not isinstance(found, (bool, int, float)):
        raise ValueError
    return found


def _converts_or_reduces(function: object) -> bool:
    """Whether a function makes a number of a number, or of an array, whose type NumPy tells by a sample."""
    converts = isinstance(function, type) and issubclass(function, np.generic)
    return converts or function is int or function is float or bool(operation(function).reduces)


def _bound(bound: Binding, numbers: _Numbers | None) -> Any:
    match bound:
        case LeafRef(leaf=Leaf(type=ArrayType(dtype=dtype))) | ViewRef(leaf=Leaf(type=ArrayType(dtype=dtype))):
            return np.ones(1, dtype)
        case Private(array=ArrayType(dtype=dtype)) if dtype:
            return np.ones(1, dtype)
        case LeafRef(leaf=Leaf(type=ScalarType(dtype=dtype, weak=weak))):
            number = np.ones((), dtype)[()]
            return number.item() if weak else number
        case SlotRef():
            return 1
        case HostExpr(expr=ast.Constant(value=value)) if isinstance(value, (int, float)):
            return value
        case Value(value=value) if isinstance(value, (bool, int, float, complex, np.generic)):
            return value
    found = None if numbers is None else numbers(bound)
    if found is None:
        raise _UnknownError
    return found
