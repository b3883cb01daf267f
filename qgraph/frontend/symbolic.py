"""What a name in a loop's body may hold: an integer, a tuple, a view of an array.

A value that cannot be followed is unknown, and an array that may be reached through it is never lost.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from qgraph.frontend.affine import Poly


class Dim(Enum):
    """What an index may be besides an integer: all of a dimension, an unknown part of it, or all that others do not take.

    The last is found between brackets only: a view says how each of its dimensions is.
    """

    WHOLE = ":"
    PART = "part"
    REST = "..."


Index = Poly | Dim | None


@dataclass(frozen=True, slots=True)
class View:
    """All or part of an array: ``dims`` has one entry a dimension of the leaf; the view keeps those that are a ``Dim``."""

    array: str
    dims: tuple[Index, ...] | None
    facts: tuple[Poly, ...] = ()

    @property
    def is_element(self) -> bool:
        """Whether it is one element: no dimension is left."""
        return self.dims is not None and not any(isinstance(dim, Dim) for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may hold: an integer, a tuple, views of arrays; all empty: unknown, but no array."""

    poly: Poly | None = None
    items: tuple[Value, ...] | None = None
    views: frozenset[View] = frozenset()


UNKNOWN = Value()
Env = dict[str, Value]


def integer(poly: Poly) -> Value:
    """A number that is known as a polynomial."""
    return Value(poly=poly)


def views_in(values: Sequence[Value]) -> frozenset[View]:
    """Every view inside ``values``."""
    found: frozenset[View] = frozenset()
    for value in values:
        found |= value.views | views_in(value.items or ())
    return found


def vague(values: Sequence[Value]) -> Value:
    """A value of which only the arrays it may reach are known."""
    return Value(views=frozenset(View(view.array, None) for view in views_in(values)))


def join(left: Value, right: Value) -> Value:
    """What is known of a value that is one of two."""
    if left == right:
        return left
    if left.items is not None or right.items is not None:
        if left.items is not None and right.items is not None and len(left.items) == len(right.items):
            return Value(items=tuple(join(a, b) for a, b in zip(left.items, right.items, strict=True)))
        return vague((left, right))
    return Value(views=left.views | right.views)


def join_envs(left: Env, right: Env) -> Env:
    """What is known of each name where two paths meet."""
    return {name: join(left.get(name, UNKNOWN), right.get(name, UNKNOWN)) for name in left.keys() | right.keys()}


def opaque(label: str, values: Sequence[Value]) -> Value:
    """A value that is computed from ``values`` alone: a symbol of its own if none of them varies in the loop."""
    keys = []
    for value in values:
        if value.poly is None or value.poly.varies:
            return UNKNOWN
        keys.append(value.poly.key())
    return integer(Poly.symbol(f"{label}({', '.join(keys)})"))


def constant(value: object) -> Value:
    """A known value: an integer, a tuple of known values, or a symbol of its own (a function, a float, a constant array)."""
    if isinstance(value, bool | float | str | complex | np.floating):
        return integer(Poly.symbol(f"constant {type(value).__name__} {value!r}"))
    if isinstance(value, tuple):
        return Value(items=tuple(constant(item) for item in value))
    try:
        return integer(Poly.const(operator.index(value)))  # type: ignore[arg-type]
    except TypeError:
        return integer(Poly.symbol(f"constant object {id(value)}"))


def without_elements(value: Value) -> Value:
    """``value`` after its elements were read: a number is no view."""
    if value.items is not None:
        return Value(items=tuple(without_elements(item) for item in value.items))
    return replace(value, views=frozenset(view for view in value.views if not view.is_element))


def first_unknown(view: View) -> View:
    """A row of ``view``, it is not known which."""
    if view.dims is None:
        return view
    dims = list(view.dims)
    for at, dim in enumerate(dims):
        if isinstance(dim, Dim):
            dims[at] = None
            return View(view.array, tuple(dims), view.facts)
    return view


def is_float(poly: Poly) -> bool:
    """Whether a value may be a float: it is made of one, or of a true division."""
    return any(name.startswith(("constant ", "Div(")) for name in poly.symbols)


def is_integral(poly: Poly | None) -> bool:
    """Whether a value is surely an integer: made of loop variables, sizes and integers."""
    return poly is not None and all(name.startswith("#") or "@" in name for name in poly.symbols)
