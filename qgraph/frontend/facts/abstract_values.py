"""What a name in a loop's body may hold: an integer, a condition, a tuple, a view of an array.

A value that cannot be followed is unknown, and an array that may be reached through it is never lost.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qgraph.polyhedral.symbolic_integers import (
    ONE,
    UNDECIDED,
    ZERO,
    Condition,
    Poly,
    all_of,
    any_of,
    floor_div,
    is_zero,
    maximum,
    minimum,
    modulo,
    not_negative,
    select,
    symbols_of,
)
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Index:
    """One index of a dimension; ``wraps``: it may be negative, and then counts from the end. ``poly`` None: not known."""

    poly: Poly | None
    wraps: bool = True


@dataclass(frozen=True, slots=True)
class SlicedDimension:
    """A dimension that a view keeps: elements ``start + step * t`` for ``0 <= t < count``."""

    start: Poly
    count: Poly
    step: int = 1
    # All of the array's own dimension.
    whole: bool = False


@dataclass(frozen=True, slots=True)
class SliceIndex:
    """A slice between brackets: None where nothing stands."""

    start: Poly | None = None
    stop: Poly | None = None
    step: int = 1
    # Its bounds are what is written; else any part may be meant.
    known: bool = True


class EllipsisIndex:
    """``...`` between brackets."""


Dim = Index | SlicedDimension
Subscript = Index | SliceIndex | EllipsisIndex


@dataclass(frozen=True, slots=True)
class View:
    """All or part of an array. ``dims`` has one entry a dimension of the leaf; the view keeps each ``SlicedDimension``.

    ``vague``: some part of that, it is not known which, nor how many dimensions it has. ``dims`` None: anywhere.
    ``turned``: its own dimensions are those that it keeps from the last to the first, as in ``x.T``.
    """

    array: str
    dims: tuple[Dim, ...] | None
    vague: bool = False
    turned: bool = False

    @property
    def axes(self) -> tuple[int, ...]:
        """Which dimensions of the array are its own, in its order."""
        axes = tuple(at for at, dim in enumerate(self.dims or ()) if isinstance(dim, SlicedDimension))
        return axes[::-1] if self.turned else axes

    @property
    def is_element(self) -> bool:
        """Whether it is one element: no dimension is left."""
        return self.dims is not None and not self.vague and not any(isinstance(dim, SlicedDimension) for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may hold: an integer, a condition, a tuple, views of arrays; all empty: unknown, but no array.

    ``key``: a text that two values which the loop does not change share only where they are the same; of what the device
    computed, which may be a float, ``poly`` does not tell that. ``natural``: an integer that is not negative. ``dtype``: of an
    integer of NumPy's with fewer than 64 bits, which wraps; LITERAL of one that is written out, EITHER where it is not known
    which it is, or whether it is a boolean.
    """

    poly: Poly | None = None
    items: tuple[Value, ...] | None = None
    views: frozenset[View] = frozenset()
    condition: Condition = UNDECIDED
    key: str = ""
    natural: bool = False
    dtype: str = ""

    @property
    def identity(self) -> str:
        """``key``, of integers too; "" of what varies."""
        if self.poly is not None and not self.poly.varies and is_integral(self.poly):
            return f"{self.dtype or 'int'} {self.poly.spelled()}"
        return self.key

    @property
    def invariant(self) -> Poly | None:
        """The integer that it is where it is used as one."""
        if self.poly is None and self.key:
            return Poly.symbol(self.key, "device")
        return self.poly


UNKNOWN = Value()
LITERAL, EITHER = "literal", "either"
Env = dict[str, Value]


def integer(poly: Poly, *, natural: bool = False) -> Value:
    """A number that is known as a polynomial."""
    return Value(poly=poly, natural=natural)


def index_value(number: Poly | None) -> Value:
    """A number that is an integer, whatever it is made of, since an index is one."""
    return Value(number, key="" if number is None or number.varies else f"at {number.spelled()}")


def truth(condition: Condition, key: str = "") -> Value:
    """A condition."""
    return Value(condition=condition, key=key)


def is_boolean(value: Value) -> bool:
    """Whether ``value`` is surely True or False."""
    if value.poly is not None:
        return any(value.poly == symbol.poly for symbol in value.poly.symbols if symbol.kind == "flag")
    return value.condition != UNDECIDED and value.dtype != EITHER


def condition_of(value: Value) -> Condition:
    """When ``value`` is true, as far as it is known."""
    if value.poly is not None and is_integral(value.poly):
        return is_zero(value.poly).negated()
    return value.condition


def views_in(values: Sequence[Value]) -> frozenset[View]:
    """Every view inside ``values``."""
    found: frozenset[View] = frozenset()
    for value in values:
        found |= value.views | views_in(value.items or ())
    return found


def of_views(views: Iterable[View]) -> Value:
    """A value that is one of ``views``."""
    return Value(views=frozenset(views))


def vague(values: Sequence[Value]) -> Value:
    """A value of which only the arrays it may reach are known."""
    return of_views(View(view.array, None) for view in views_in(values))


def part_of(values: Sequence[Value]) -> Value:
    """A value that may be any part of the views in ``values``."""
    return of_views(replace(view, vague=True) for view in views_in(values))


def join(left: Value, right: Value, when: Condition = UNDECIDED) -> Value:
    """What is known of a value that is one of two: ``left`` where ``when`` holds."""
    if left == right:
        return left
    if left.items is not None or right.items is not None:
        if left.items is not None and right.items is not None and len(left.items) == len(right.items):
            return Value(items=tuple(join(a, b, when) for a, b in zip(left.items, right.items, strict=True)))
        return vague((left, right))
    poly = None
    if left.poly is not None and right.poly is not None:
        poly = select(when, left.poly, right.poly)
    tested = UNDECIDED if left.poly is not None or right.poly is not None else chosen(when, left.condition, right.condition)
    natural = left.natural and right.natural and poly is not None
    dtype = left.dtype if left.dtype == right.dtype else EITHER
    return Value(poly, views=left.views | right.views, condition=tested, natural=natural, dtype=dtype)


def chosen(when: Condition, first: Condition, second: Condition) -> Condition:
    """``first if when else second``."""
    if first == second:
        return first
    return any_of(all_of(when, first), all_of(when.negated(), second))


def join_envs(left: Env, right: Env, when: Condition = UNDECIDED) -> Env:
    """What is known of each name where two paths meet, the first one taken ``when``."""
    return {name: join(left.get(name, UNKNOWN), right.get(name, UNKNOWN), when) for name in left.keys() | right.keys()}


def opaque(label: str, values: Sequence[Value]) -> Value:
    """A value that is computed from ``values`` alone: it has a key if none of them varies in the loop."""
    keys = [value.identity for value in values]
    return Value(key=f"{label}({', '.join(keys)})") if all(keys) else UNKNOWN


def constant(value: object) -> Value:
    """A known value: an integer, a tuple of known values, or something with a key (a function, a float, a constant array)."""
    if isinstance(value, bool):
        return truth(all_of() if value else any_of(), f"constant {value}")
    if isinstance(value, float | str | complex | np.floating):
        return Value(key=f"constant {type(value).__name__} {value!r}")
    if isinstance(value, tuple):
        return Value(items=tuple(constant(item) for item in value))
    dtype = narrow_dtype(value.dtype) if isinstance(value, np.integer) else ""
    try:
        return Value(Poly.const(operator.index(value)), dtype=dtype)  # type: ignore[arg-type]
    except TypeError:
        return Value(key=f"constant object {id(value)}")


def without_elements(value: Value) -> Value:
    """``value`` after its elements were read: a number is no view."""
    if value.items is not None:
        return Value(items=tuple(without_elements(item) for item in value.items))
    return replace(value, views=frozenset(view for view in value.views if not view.is_element))


def first_unknown(view: View) -> View:
    """A row of ``view``, it is not known which."""
    if view.dims is None or view.vague:
        return view
    dims = list(view.dims)
    for at in view.axes[:1]:
        dims[at] = Index(None)
    return replace(view, dims=tuple(dims))


def is_integral(poly: Poly | None) -> bool:
    """Whether a value is surely an integer that the host could know: made of loop variables, sizes and integers."""
    return poly is not None and all(symbol.kind not in ("device", "ticket") for symbol in symbols_of([poly]))


def kept(dim: SlicedDimension, cut: SliceIndex, is_natural: Callable[[Poly], bool]) -> SlicedDimension | None:
    """The part that a slice of a dimension is; None where it is not known which. ``is_natural`` tells signs of integers."""
    if not cut.known:
        return None
    if cut == SliceIndex():
        return dim
    # As slice.indices does: backwards, what comes before the first element is -1.
    low, high = (ZERO, dim.count) if cut.step > 0 else (Poly.const(-1), dim.count - ONE)
    first, last = (low, high) if cut.step > 0 else (high, low)
    start = first if cut.start is None else _clipped(cut.start, dim.count, low, high, is_natural)
    stop = last if cut.stop is None else _clipped(cut.stop, dim.count, low, high, is_natural)
    if start is None or stop is None:
        return None
    by = Poly.const(abs(cut.step))
    length = floor_div((stop - start if cut.step > 0 else start - stop) + by - ONE, by)
    if not is_natural(length):
        length = maximum(length, ZERO)
    return SlicedDimension(dim.start + Poly.const(dim.step) * start, length, dim.step * cut.step)


def _clipped(bound: Poly, count: Poly, low: Poly, high: Poly, is_natural: Callable[[Poly], bool]) -> Poly | None:
    """A bound of a slice, where a negative one counts from the end, between ``low`` and ``high``."""
    if is_natural(bound):
        return minimum(bound, high)
    if is_natural(Poly.const(-1) - bound):
        return maximum(bound + count, low)
    return select(not_negative(-bound - ONE), maximum(bound + count, low), minimum(bound, high))


def arithmetic(op: ast.operator, a: Poly, b: Poly) -> Poly | None:
    """An operator of integers; None where it is not followed."""
    by = b.constant
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv() if by is None or by:
            return floor_div(a, b)
        case ast.Mod() if by is None or by:
            return modulo(a, b)
        case ast.LShift() if by is not None and 0 <= by < 63:
            return a * Poly.const(1 << by)
        case ast.RShift() if by is not None and 0 <= by < 63:
            return floor_div(a, Poly.const(1 << by))
        case ast.BitAnd() if by is not None and by >= 0 and not by & (by + 1):
            return modulo(a, Poly.const(by + 1))
    return None


def compared(op: ast.cmpop, left: Poly | None, right: Poly | None) -> Condition:
    """When a comparison of two integers is true."""
    if left is None or right is None or not (is_integral(left) and is_integral(right)):
        return UNDECIDED
    distance = right - left
    match op:
        case ast.Lt():
            return not_negative(distance - ONE)
        case ast.LtE():
            return not_negative(distance)
        case ast.Gt():
            return not_negative(-distance - ONE)
        case ast.GtE():
            return not_negative(-distance)
        case ast.Eq():
            return is_zero(distance)
        case ast.NotEq():
            return is_zero(distance).negated()
    return UNDECIDED


def combined(op: ast.operator, left: Value, right: Value) -> Value:
    """The value of an operator with operands that were read."""
    a, b = left.poly, right.poly
    if a is not None and b is not None:
        result, dtype = arithmetic(op, a, b), _common_dtype(left, right)
        if result is not None and not may_wrap(op, dtype, a, b):
            key = opaque(type(op).__name__, [left, right]).key
            # Of floats `s - s` may be a nan.
            cancelled = is_integral(result) and not result.varies and not (is_integral(a) and is_integral(b))
            return Value(None if cancelled else result, dtype=dtype, key=key)
        if result is not None and dtype != EITHER and all(symbol.kind in _OF_LOOPS for symbol in symbols_of([a, b])):
            return as_dtype(result, dtype)
    if isinstance(op, ast.BitAnd | ast.BitOr) and not (left.condition.partly_known and right.condition.partly_known):
        parts = (condition_of(left), condition_of(right))
        key = opaque("bits", [left, right]).key
        if is_boolean(left) and is_boolean(right):
            return truth(all_of(*parts) if isinstance(op, ast.BitAnd) else any_of(*parts), key)
        # An integer and a boolean have one digit in common, or none.
        tested = all_of(*parts, UNDECIDED) if isinstance(op, ast.BitAnd) else any_of(*parts)
        return Value(condition=tested, key=key, dtype=EITHER)
    if isinstance(op, ast.Add) and left.items is not None and right.items is not None:
        return Value(items=left.items + right.items)
    return opaque(type(op).__name__, [left, right])


def _common_dtype(left: Value, right: Value) -> str:
    """Of what type an operator of two integers is: a literal takes the other's; with what has 64 bits a narrow one has 64."""
    found = {left.dtype, right.dtype} - {LITERAL}
    if len(found) < 2:
        return next(iter(found), "")
    # Of what is no loop variable or extent nobody knows the type here.
    known = [value.dtype or _has_64_bits(value.poly) for value in (left, right)]
    return "" if True in known and EITHER not in found else EITHER


def _has_64_bits(number: Poly | None) -> bool:
    """Whether an integer without a dtype is surely none of NumPy's with fewer bits, nor one that is written out."""
    kinds = {symbol.kind for symbol in symbols_of([number])} if number is not None else set()
    return bool(kinds) and kinds.issubset(_OF_LOOPS)


# What is 64 bits wide, and small beside that.
_OF_LOOPS = ("variable", "size", "serial", "derived")


def may_wrap(op: ast.operator, dtype: str, left: Poly, right: Poly) -> bool:
    """Whether the result of an operator of a dtype may be one that the dtype does not hold.

    One of 32 bits and a number beside it that is written out count as far from its ends.
    """
    by = right.constant
    if dtype in ("", LITERAL):
        return False
    if isinstance(op, ast.FloorDiv | ast.Mod | ast.RShift | ast.BitAnd) and by is not None and by > 0:
        return dtype == EITHER
    return not (dtype == "int32" and isinstance(op, ast.Add | ast.Sub) and not (by is None and left.constant is None))


def narrow_dtype(dtype: np.dtype[Any]) -> str:
    """The name of a dtype of integers with fewer than 64 bits, "" of any other."""
    return dtype.name if dtype.kind in "iu" and dtype.itemsize < 8 else ""


def as_dtype(number: Poly, dtype: str) -> Value:
    """An integer of a dtype: one of fewer than 64 bits is a remainder; those of 64 bits, and Python's, count as unbounded."""
    if dtype in ("", LITERAL, EITHER) or np.dtype(dtype).itemsize == 8:
        return Value(number, dtype=dtype if dtype == EITHER else "")
    kind = np.dtype(dtype)
    bits = 8 * kind.itemsize
    least = Poly.const(1 << (bits - 1)) if kind.kind == "i" else ZERO
    return Value(modulo(number + least, Poly.const(1 << bits)) - least, dtype=dtype)


def as_written(node: ast.expr, value: Value) -> Value:
    """The value of an operand, if it is an integer that is written out as one that is."""
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return replace(value, dtype=LITERAL) if isinstance(number, ast.Constant) and value.poly is not None else value


def all_known(nodes: Sequence[ast.expr], values: Sequence[Value]) -> bool:
    """Whether the starred parts of a display have known items."""
    return all(not isinstance(node, ast.Starred) or value.items is not None for node, value in zip(nodes, values, strict=True))


def unpacked(nodes: Sequence[ast.expr], values: Sequence[Value]) -> tuple[Value, ...]:
    """The items of a display with starred parts."""
    found: list[Value] = []
    for node, value in zip(nodes, values, strict=True):
        found.extend((value.items or ()) if isinstance(node, ast.Starred) else (value,))
    return tuple(found)
