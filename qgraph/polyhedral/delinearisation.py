"""Indices that are linear only in loop variables, ``i * m + j``: the equation of two of them as one equation a stride.

After Maslov, "Delinearization: an efficient way to break multiloop dependence equations" (PLDI 1992). isl holds no products
of symbols, so this stays beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from qgraph.polyhedral.symbolic_integers import ONE, ZERO, Monomial, Poly, Row, Symbol, divide
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """One stride of an equation: ``stride * part + ...``; ``limit``: what ``abs(part)`` stays below, None for the outermost."""

    stride: Poly
    part: Poly
    limit: Poly | None


def levels_of(difference: Poly) -> tuple[Level, ...] | None:
    """``difference == 0`` taken apart by strides, the largest first; None where it is not a sum of strides times parts.

    If every part but the first stays below its limit in absolute value, and the smallest stride is not 0, the difference is 0
    exactly where all parts are.
    """
    factors = _by_factor(difference)
    if factors is None:
        return None
    coefficients, rest = factors
    strides = _strides_of(coefficients.values())
    parts = dict.fromkeys(strides, ZERO)
    for symbol, coefficient in coefficients.items():
        stride = next((stride for stride in strides if _multiple(coefficient, stride) is not None), None)
        if stride is None:
            return None
        parts[stride] += Poly.of({(symbol,): _multiple(coefficient, stride) or 0})
    for stride in strides:
        quotient, rest = divide(rest, stride)
        parts[stride] += quotient
    if rest.terms:
        parts[ONE] = parts.get(ONE, ZERO) + rest
    return _chained(parts)


def _strides_of(coefficients: Iterable[Poly]) -> list[Poly]:
    """What the coefficients are multiples of, those of the highest degree first."""
    strides: list[Poly] = []
    for coefficient in coefficients:
        if not any(_multiple(coefficient, stride) is not None for stride in strides):
            strides = [s for s in strides if _multiple(s, coefficient) is None] + [_primitive(coefficient)]
    return sorted(dict.fromkeys(strides), key=lambda stride: max(len(monomial) for monomial, _ in stride.terms), reverse=True)


def _chained(parts: Mapping[Poly, Poly]) -> tuple[Level, ...] | None:
    """A level for each stride; None where one does not divide the next larger one."""
    found: list[Level] = []
    for stride, part in parts.items():
        limit = found[-1].stride.divided_by(stride) if found else None
        if found and limit is None:
            return None
        found.append(Level(stride, part, limit))
    return tuple(found)


def holds(levels: Sequence[Level], below: Callable[[Poly, Poly], bool], nonzero: Callable[[Poly], bool]) -> bool:
    """Whether the difference is 0 exactly where all parts are. ``below(part, limit)`` proves ``abs(part) < limit``."""
    return nonzero(levels[-1].stride) and all(level.limit is None or below(level.part, level.limit) for level in levels)


def _by_factor(poly: Poly) -> tuple[Mapping[Symbol, Poly], Poly] | None:
    """Each varying symbol with its coefficient, and the rest; None where two of them are multiplied."""
    rows: dict[Symbol, Row] = {}
    rest: Row = {}
    for monomial, c in poly.terms:
        varying = [name for name in monomial if name.varies]
        if len(varying) > 1:
            return None
        if not varying:
            rest[monomial] = c
            continue
        others: Monomial = tuple(name for name in monomial if not name.varies)
        rows.setdefault(varying[0], {})[others] = c
    return {symbol: Poly.of(row) for symbol, row in rows.items()}, Poly.of(rest)


def _multiple(coefficient: Poly, stride: Poly) -> int | None:
    """The integer k with ``coefficient == k * stride``."""
    quotient = coefficient.divided_by(stride)
    return None if quotient is None else quotient.constant


def _primitive(coefficient: Poly) -> Poly:
    """A stride with a positive leading term; the constant one for numbers."""
    if coefficient.constant is not None:
        return ONE
    _, lead = max(coefficient.terms, key=lambda term: (len(term[0]), term[0]))
    return -coefficient if lead < 0 else coefficient
