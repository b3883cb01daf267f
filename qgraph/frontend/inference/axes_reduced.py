"""Which axes a reduction goes along: what `axis=` and `keepdims=` say, by NumPy's rules."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

# Reductions that have an axis, and of these the ones that take one axis or all.
ALONG_AXES = frozenset(
    {"sum", "prod", "min", "max", "any", "all", "mean", "count_nonzero", "argmin", "argmax", "norm", "var", "std", "ptp"}
)
_OF_ONE = frozenset({"argmin", "argmax"})
# The most axes that it goes along; the others take all.
_MOST = {"norm": 2}
OPTIONS = {"var": frozenset({"ddof"}), "std": frozenset({"ddof"})}


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduction of ``array``, which has ``ndim`` dimensions, along ``axes``, in order.

    ``ddof``: what a variance leaves out of the number of elements, where it is given.
    """

    kind: str
    array: ast.expr
    ndim: int
    axes: tuple[int, ...]
    keepdims: bool = False
    ddof: ast.expr | None = None

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that it does not go along."""
        return tuple(axis for axis in range(self.ndim) if axis not in self.axes)

    @property
    def rank(self) -> int:
        """The number of dimensions of the result; 0 for a number."""
        return self.ndim if self.keepdims else self.ndim - len(self.axes)


def axes_of(kind: str, ndim: int, axis: object) -> tuple[int, ...] | None:
    """The axes that ``axis``, an option's value, means of ``ndim``, in order; None where NumPy refuses it."""
    if axis is None:
        return tuple(range(ndim))
    if kind in _OF_ONE and not isinstance(axis, int):
        return None
    given: Sequence[object] = axis if isinstance(axis, tuple) else (axis,)
    axes = [each % ndim for each in given if type(each) is int and -ndim <= each < ndim]
    if len(axes) < len(given) or len({*axes}) < len(axes) or not 0 < len(axes) <= _MOST.get(kind, ndim):
        return None
    return tuple(sorted(axes))
