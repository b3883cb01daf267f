"""Which axes a reduction goes along: what `axis=` and `keepdims=` say, by NumPy's rules."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.names.bindings import Value
from qgraph.frontend.names.scope import Scope
from qgraph.records import dataclass

# Reductions that have an axis, and of these the ones that take one axis or all.
ALONG_AXES = frozenset(
    {"sum", "prod", "min", "max", "any", "all", "mean", "count_nonzero", "argmin", "argmax", "norm", "var", "std", "ptp"}
)
_OF_ONE = frozenset({"argmin", "argmax"})
# What is composed of others: the greatest less the least, norms of other orders, closeness and integrals.
COMPOSED = frozenset({"ptp", "norm of an order", "allclose", "trapezoid", "trapz"})
# Of these the ones that have no axis here.
OF_ALL = frozenset({"allclose", "trapezoid", "trapz"})
# The most axes that it goes along; the others take all.
_MOST = {"norm": 2}
OPTIONS = {"var": frozenset({"ddof"}), "std": frozenset({"ddof"}), "norm": frozenset({"ord"})}


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduction of ``array``, which has ``ndim`` dimensions, along ``axes``, in order.

    ``ddof``: what a variance leaves out of the number of elements, where it is given. ``order``: that of a norm.
    """

    kind: str
    array: ast.expr
    ndim: int
    axes: tuple[int, ...]
    keepdims: bool = False
    ddof: ast.expr | None = None
    order: float = 2

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


def kind_of_norm(ndim: int, axes: tuple[int, ...], order: object, *, axis_given: bool) -> tuple[str, float]:
    """Which reduction ``np.linalg.norm`` of an ``order`` is, and that order; "" where it is none, as the spectral norm."""
    if order is None or (order == "fro" and len(axes) == 2) or (order == 2 and len(axes) == 1):
        return "norm", 2
    if not isinstance(order, int | float) or order == 0:
        return "", 2
    of_columns = len(axes) == ndim == 2 and not axis_given and abs(order) in (1, float("inf"))
    return "norm of an order" if len(axes) == 1 or of_columns else "", order


def option(scope: Scope, node: ast.expr | None, default: object) -> object:
    """The value of an option, ``...`` where it is not known at compile time."""
    if node is None:
        return default
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        pass
    minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    try:
        bound = scope.static(node.operand if minus and isinstance(node, ast.UnaryOp) else node)
    except KernelSyntaxError:
        return ...
    value = bound.value if isinstance(bound, Value) else ...
    return -value if minus and isinstance(value, int | float) else value
