"""What `np.take` and its kin select by, by the names of their arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable

import numpy as np

from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Selecting:
    """``array`` by ``index`` along ``axis``. ``by_mask``: of booleans; ``of_all``: which may have several dimensions."""

    array: ast.expr
    index: ast.expr
    axis: ast.expr | None = None
    by_mask: bool = False
    of_all: bool = False


def selecting(function: object, *given: ast.expr, **options: ast.expr) -> Selecting | None:
    """What a function selects; None for other functions, and options that kernels lack."""
    return _bound(next((means for other, means in _FUNCTIONS if other is function), None), given, options)


def selecting_method(name: str, array: ast.expr, *given: ast.expr, **options: ast.expr) -> Selecting | None:
    """The same of a method of ``array``."""
    return _bound(_METHODS.get(name), (array, *given), options)


def _bound(
    means: Callable[..., Selecting] | None, given: tuple[ast.expr, ...], options: dict[str, ast.expr]
) -> Selecting | None:
    try:
        return None if means is None else means(*given, **options)
    except TypeError:
        return None


def _take(a: ast.expr, indices: ast.expr, axis: ast.expr | None = None) -> Selecting:
    return Selecting(a, indices, axis)


def _compress(condition: ast.expr, a: ast.expr, axis: ast.expr | None = None) -> Selecting:
    return Selecting(a, condition, axis, by_mask=True)


def _extract(condition: ast.expr, arr: ast.expr) -> Selecting:
    return Selecting(arr, condition, by_mask=True, of_all=True)


_FUNCTIONS: tuple[tuple[object, Callable[..., Selecting]], ...] = (
    (np.take, _take),
    (np.compress, _compress),
    (np.extract, _extract),
)
_METHODS: dict[str, Callable[..., Selecting]] = {
    "take": _take,
    "compress": lambda a, condition, axis=None: _compress(condition, a, axis),
}
