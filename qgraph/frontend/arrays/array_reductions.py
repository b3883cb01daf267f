"""Reductions of arrays to one number, as ``np.sum(x)``: a kernel scalar, and the loop that computes it."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from qgraph.errors import ArgumentError, KernelTypeError
from qgraph.frontend.arrays.array_statements import Elements
from qgraph.frontend.arrays.library_calls import library_number
from qgraph.frontend.arrays.selections import with_repeated
from qgraph.frontend.arrays.shape_checks import every
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.axes_reduced import COMPOSED
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import rank, reduction
from qgraph.frontend.inference.reduction_rules import (
    PRODUCTS,
    composed,
    finished,
    operand,
    operands_of_reduction,
    summed,
    wrapped,
)
from qgraph.frontend.inference.selected import Masked, masked
from qgraph.frontend.names.bindings import ScalarRef
from qgraph.frontend.names.program_builder import ADDED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.inlining import evaluated
from qgraph.frontend.statements.region import Region, task_statements
from qgraph.ir.faults import Fault
from qgraph.ir.slots import WORD
from qgraph.ir.trees import assign, at_place, load, stored
from qgraph.source import as_written, copied, standing_for

_EXTREMES = {"min": np.minimum, "max": np.maximum}
_PLACES = {"argmin": np.min, "argmax": np.max}


def reduce_arrays(region: Region, scope: Scope, node: ast.expr, *, may_be_empty: bool = False) -> ast.expr:
    """``np.sum(...)`` and its kin as the name of a kernel scalar, which a loop computes.

    ``may_be_empty``: an extreme of no elements is what none is beyond, instead of an error.
    """
    kind = reduction(scope, node)
    if kind == "det":
        return library_number(region, scope, node, np.linalg.det)
    if kind in COMPOSED:
        return evaluated(region, scope, composed(scope, node))
    operands = operands_of_reduction(scope, node, kind)
    if kind in (*_EXTREMES, *_PLACES):
        _refuse_complex(scope, operands[0], node)
    if kind in _PLACES:
        return _place_of_extreme(region, scope, operands[0], node, kind)
    found = masked(scope, operands[0])
    if found is not None:
        return _reduce_masked(region, scope, node, kind, found)
    value = operand(scope, operands, kind, node)
    # Before what is in it becomes a kernel scalar, whose type nobody knows yet.
    dtype = element_type(scope, value)
    value = evaluated(region, scope, value)
    name = f"{ADDED}{kind}{len(region.unit.slots)}_{node.lineno}"
    body = Elements(region, scope)
    body.frame_all(value, exact=kind in PRODUCTS)
    neutral = _neutral(scope, kind, dtype) if may_be_empty and dtype is not None else None
    start, step = _step(body, body.visit(value), kind, dtype, node, name, neutral)
    result = _combined(region, body, name, start, step, node, _like(kind, dtype))
    result = finished(scope, node, kind, result, body.size(node))
    if kind in PRODUCTS and dtype is not None and dtype.kind in "iu" and dtype.itemsize < WORD:
        result = word(scope, dtype.type, wrapped(result, dtype))
    return at_place(result, node)


def _refuse_complex(scope: Scope, operand: ast.expr, node: ast.expr) -> None:
    dtype = element_type(scope, operand)
    if dtype is not None and dtype.kind == "c":
        raise KernelTypeError(
            "complex numbers have no order: compare their parts, or their absolute values",
            scope.span(node),
            hint="NumPy's order is that of the real parts, then of the imaginary ones: take np.abs(z), z.real or z.imag",
        )


def _reduce_masked(region: Region, scope: Scope, node: ast.expr, kind: str, found: Masked) -> ast.expr:
    """The same of what a mask selects: a loop with a condition, which counts them too where that matters."""
    value = operand(scope, [found.value], kind, node)
    mask = with_repeated(region, scope, found.mask)
    body = Elements(region, scope)
    body.frame_all(value, exact=True)
    test = body.visit_along(mask, range(rank(scope, mask)))
    dtype = element_type(scope, value)
    name, count = (f"{ADDED}{word}{len(region.unit.slots)}_{node.lineno}" for word in (kind, "selected"))
    steps: list[ast.stmt] = []
    if kind != "len":
        computed = body.visit(value)
        if kind in _EXTREMES:
            assert dtype is not None
            extreme = word(scope, _EXTREMES[kind], load(name), computed)
            start, step = _neutral(scope, kind, dtype), assign(name, extreme)
        else:
            start, step = _step(body, computed, kind, dtype, node, name)
        _start(region, body, name, start, node, _like(kind, dtype))
        steps.append(step)
    counts = kind in ("len", "mean", *_EXTREMES)
    if counts:
        _start(region, body, count, ast.Constant(0), node, 1)
        steps.append(ast.AugAssign(stored(count), ast.Add(), ast.Constant(1)))
    bounds, task = body.loop(at_place(ast.If(test, steps, []), node), node, declared=False)
    region.add(*task_statements(bounds, task))
    number = standing_for(at_place(load(count), node), node)
    if kind == "len":
        return number
    result: ast.expr = standing_for(load(name), node)
    if kind in _EXTREMES:
        some = at_place(ast.Compare(number, [ast.Gt()], [ast.Constant(0)]), node)
        words = f"`{as_written(node)}` is of an array without elements", "NumPy refuses this too"
        region.run(scope).check(scope, some, Fault(ArgumentError, scope.span(node), *words, 0), [], node)
    elif kind == "mean":
        result = ast.BinOp(result, ast.Div(), number)
    elif kind == "norm":
        result = word(scope, np.sqrt, result)
    return at_place(result, node)


def _neutral(scope: Scope, kind: str, dtype: np.dtype[np.generic]) -> ast.expr:
    """What no extreme of numbers of a type is beyond."""
    least = kind == "max"
    if dtype.kind == "b":
        return word(scope, np.bool_, ast.Constant(not least))
    if dtype.kind == "f":
        return word(scope, dtype.type, ast.Constant(-np.inf if least else np.inf))
    info = np.iinfo(str(dtype))
    return word(scope, dtype.type, ast.Constant(info.min if least else info.max))


def _place_of_extreme(region: Region, scope: Scope, operand: ast.expr, node: ast.expr, kind: str) -> ast.expr:
    """The first place of the extreme, in C order: the least number of an element that is equal to it, or nan as it is."""
    extreme = reduce_arrays(region, scope, at_place(word(scope, _PLACES[kind], operand), node))
    name = f"{ADDED}{kind}{len(region.unit.slots)}_{node.lineno}"
    body = Elements(region, scope)
    body.frame_all(operand, exact=False)
    value, dtype = body.visit(operand), element_type(scope, operand)
    found: ast.expr = ast.Compare(value, [ast.Eq()], [extreme])
    if dtype is None or dtype.kind in "fc":
        both = [ast.Compare(copied(each), [ast.NotEq()], [copied(each)]) for each in (extreme, value)]
        found = ast.BoolOp(ast.Or(), [found, every([*both])])
    least = word(scope, min, load(name), ast.IfExp(found, body.number(node), body.size(node)))
    step = assign(name, least)
    start = word(scope, np.int64, body.size(node))
    return at_place(_combined(region, body, name, start, step, node, np.int64(1)), node)


def _combined(
    region: Region, body: Elements, name: str, start: ast.expr, step: ast.stmt, node: ast.expr, like: Any
) -> ast.expr:
    """The kernel scalar ``name``, which is ``start`` before the loop over the elements, and which ``step`` updates in it.

    ``like``: a number of its type, None where that is not known.
    """
    _start(region, body, name, start, node, like)
    bounds, task = body.loop(at_place(step, node), node, declared=False)
    region.add(*task_statements(bounds, task))
    return standing_for(load(name), node)


def _start(region: Region, body: Elements, name: str, start: ast.expr, node: ast.expr, like: Any) -> None:
    """``name = start``, a kernel scalar; ``like`` as in ``_combined``."""
    region.run(body.scope).assign(body.scope, name, at_place(start, node))
    made = body.scope.names[name]
    assert isinstance(made, ScalarRef)
    region.unit.number_types[made.slot.name] = like


def _like(kind: str, dtype: np.dtype[np.generic] | None) -> Any:
    """A number of the type of what a reduction combines; None where that is not known."""
    if kind in ("any", "all"):
        return np.True_
    if kind == "count_nonzero":
        # Python's integer before NumPy 2.4.
        return np.count_nonzero(np.ones(1))
    wide = summed(kind, dtype)
    if dtype is None or (kind in PRODUCTS and dtype.kind in "biu"):
        return None
    return np.ones((), wide if wide is not None and kind not in _EXTREMES else dtype)[()]


def _step(
    body: Elements,
    value: ast.expr,
    kind: str,
    dtype: np.dtype[np.generic] | None,
    node: ast.expr,
    name: str,
    neutral: ast.expr | None = None,
) -> tuple[ast.expr, ast.stmt]:
    """The value that a reduction starts with, and the statement of each iteration. An extreme may start with ``neutral``."""
    total, result = stored(name), load(name)
    if kind in PRODUCTS and dtype == np.bool_:
        # NumPy's product of booleans is one: whether there is a pair of True.
        kind = "any"
    if kind in ("any", "all"):
        op: ast.boolop = ast.Or() if kind == "any" else ast.And()
        return ast.Constant(kind == "all"), ast.Assign([total], ast.BoolOp(op, [result, value]))
    if kind in _EXTREMES:
        extreme = word(body.scope, _EXTREMES[kind], result, value)
        return neutral or body.first(value, dtype, node), ast.Assign([total], extreme)
    wide = type(_like(kind, dtype)) if kind == "count_nonzero" else summed(kind, dtype)
    identity: ast.expr = ast.Constant(1 if kind == "prod" else 0)
    if wide is not None:
        # Of the type that NumPy gives the sum, whatever the elements are.
        identity = word(body.scope, wide, identity)
        value = word(body.scope, wide, value)
    return identity, ast.AugAssign(total, ast.Mult() if kind == "prod" else ast.Add(), value)
