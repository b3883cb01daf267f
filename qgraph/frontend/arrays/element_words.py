"""NumPy's functions and methods that stand for an expression of elements: `np.outer`, `np.diff`, `x.clip(a, b)`."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable

import numpy as np

from qgraph.frontend.arrays.indexed_arrays import Maker, written
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import is_mask, rank
from qgraph.frontend.names.foreign_calls import one_limit
from qgraph.ir.trees import at_place
from qgraph.source import as_written, copied, standing_for

_ZERO, _NONE = ast.Constant(0), ast.Constant(None)


def _outer(make: Maker, a: ast.expr, b: ast.expr) -> ast.expr:
    for each in (a, b):
        make.check_rank(each, 1)
    return written("a[:, None] * b[None, :]", a=make.place(a), b=make.place(b))


def outer_of(make: Maker, function: ast.expr, A: ast.expr, B: ast.expr) -> ast.expr:
    """``np.add.outer(A, B)`` and that of other ufuncs."""
    new = ", None" * rank(make.scope, B)
    return written(f"f(a[...{new}], b)", f=copied(function), a=make.place(A), b=B)


def _diff(make: Maker, a: ast.expr, *, axis: ast.expr = ast.Constant(-1)) -> ast.expr:  # noqa: B008
    of = make.array(a)
    if of.dtype == np.bool_:
        raise make.refused("are booleans", "compare their parts: x[1:] != x[:-1]")
    before = ":, " * make.axis(axis, len(of.extents))
    return written(f"a[{before}1:] - a[{before}:-1]", a=make.place(a))


def _select(make: Maker, condlist: ast.expr, choicelist: ast.expr, default: ast.expr = _ZERO) -> ast.expr:
    tests, values = (each.elts if isinstance(each, (ast.Tuple, ast.List)) else [] for each in (condlist, choicelist))
    if not tests or len(tests) != len(values):
        raise make.refused("are no lists that are written out, of one length", "write np.select([m, n], [x, y], 0)")
    for test in tests:
        if not is_mask(make.scope, test):
            raise make.refused(f"`{as_written(test)}` is a condition that is no array of booleans", "compare: x != 0")
    *values, result = _of_one_type(make, tests[0], [*values, default])
    for test, value in reversed([*zip(tests, values, strict=True)]):
        result = word(make.scope, np.where, test, value, result)
    return result


def _of_one_type(make: Maker, test: ast.expr, values: list[ast.expr]) -> list[ast.expr]:
    """``values``, numbers among them in the type of all: two of Python's, alone in one `np.where`, would be a wide one."""
    ordered = sorted(values, key=lambda value: rank(make.scope, value) == 0)
    kind = type_of_new_array(make.scope, functools.reduce(lambda a, b: word(make.scope, np.where, test, a, b), ordered))
    if kind is None or not rank(make.scope, ordered[0]):
        return values
    return [value if rank(make.scope, value) else word(make.scope, kind.type, value) for value in values]


def _clip(make: Maker, a: ast.expr, min: ast.expr = _NONE, max: ast.expr = _NONE) -> ast.expr:
    call = at_place(standing_for(word(make.scope, np.clip, a, min, max), make.node), make.node)
    limit = one_limit(make.scope, call)
    return call if limit is None else word(make.scope, limit, *call.args)


def _conjugate(make: Maker, a: ast.expr) -> ast.expr:
    kind = type_of_new_array(make.scope, a)
    # The method gives real numbers back as they are, not in a new array.
    return word(make.scope, np.conjugate if kind is None or kind.kind == "c" else np.real, a)


def _round(make: Maker, a: ast.expr, decimals: ast.expr = _ZERO) -> ast.expr:
    return word(make.scope, np.round, a, decimals)


ELEMENTWISE: tuple[tuple[object, Callable[..., ast.expr]], ...] = (
    (np.outer, _outer),
    (np.diff, _diff),
    (np.select, _select),
)
ELEMENTWISE_METHODS: dict[str, Callable[..., ast.expr]] = {
    "clip": _clip,
    "conj": _conjugate,
    "conjugate": _conjugate,
    "round": _round,
}
