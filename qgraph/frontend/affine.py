"""Symbolic integers: polynomials over names, and proofs that a system of (in)equalities between them has no solution.

Two kinds of symbols are told apart by their spelling. ``#x.shape[0]``: a size, never negative. ``i@0``: a loop variable, which
varies inside the loop that is judged. Any other symbol is an integer that the loop does not change, of unknown sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

Monomial = tuple[str, ...]
Row = dict[Monomial, int]

# More rows than this and a proof is given up: the answer is then "not known", never a wrong one.
_MAX_ROWS = 250


@dataclass(frozen=True, slots=True)
class Poly:
    """A polynomial with integer coefficients; ``terms`` are sorted (monomial, coefficient) pairs without zeros."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @classmethod
    def of(cls, row: Mapping[Monomial, int]) -> Poly:
        """The polynomial with these coefficients."""
        return cls(tuple(sorted((monomial, c) for monomial, c in row.items() if c)))

    @classmethod
    def const(cls, value: int) -> Poly:
        """A constant."""
        return cls((((), value),)) if value else cls()

    @classmethod
    def symbol(cls, name: str) -> Poly:
        """A single symbol."""
        return cls((((name,), 1),))

    @property
    def constant(self) -> int | None:
        """The value of a constant polynomial, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def symbols(self) -> frozenset[str]:
        """Every symbol that occurs."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    @property
    def varies(self) -> bool:
        """Whether a loop variable occurs."""
        return any("@" in name for monomial, _ in self.terms for name in monomial)

    def __add__(self, other: Poly) -> Poly:
        row = dict(self.terms)
        for monomial, c in other.terms:
            row[monomial] = row.get(monomial, 0) + c
        return Poly.of(row)

    def __neg__(self) -> Poly:
        return Poly(tuple((monomial, -c) for monomial, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        row: Row = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted(left + right))
                row[monomial] = row.get(monomial, 0) + a * b
        return Poly.of(row)

    def substitute(self, values: Mapping[str, Poly]) -> Poly:
        """This polynomial with symbols replaced, all at once."""
        if not any(name in values for name in self.symbols):
            return self
        result = Poly()
        for monomial, c in self.terms:
            term = Poly.const(c)
            for name in monomial:
                term = term * values.get(name, Poly.symbol(name))
            result = result + term
        return result

    def split(self, name: str) -> tuple[Poly, Poly] | None:
        """(a, b) with ``self == a * name + b`` and neither holding ``name``; None where ``name`` is not linear."""
        factor: Row = {}
        rest: Row = {}
        for monomial, c in self.terms:
            uses = monomial.count(name)
            if uses > 1:
                return None
            if uses:
                at = monomial.index(name)
                factor[monomial[:at] + monomial[at + 1 :]] = c
            else:
                rest[monomial] = c
        return Poly.of(factor), Poly.of(rest)

    def divided_by(self, other: Poly) -> int | None:
        """The integer k with ``self == k * other``, where there is one."""
        if not self.terms:
            return 0
        if not other.terms:
            return None
        k, remainder = divmod(self.terms[0][1], other.terms[0][1])
        return k if not remainder and self == Poly.const(k) * other else None

    def __str__(self) -> str:
        words = []
        for monomial, c in self.terms:
            factors = [name.lstrip("#").split("@")[0] for name in monomial]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            words.append(("- " if c < 0 else "+ ") + "*".join(factors))
        text = " ".join(words) or "0"
        return text[2:] if text.startswith("+ ") else text.replace("- ", "-", 1) if text.startswith("- ") else text

    def key(self) -> str:
        """A string that two polynomials share only if they are equal."""
        return repr(self.terms)


ONE = Poly.const(1)


def sizes_not_negative(polys: Iterable[Poly]) -> list[Poly]:
    """``size >= 0`` for every size that occurs in ``polys``."""
    names = {name for poly in polys for name in poly.symbols if name.startswith("#")}
    return [Poly.symbol(name) for name in sorted(names)]


def infeasible(equalities: Sequence[Poly], inequalities: Sequence[Poly]) -> bool:
    """Whether no integers make every equality zero and every inequality at least zero. False means "not known".

    Each monomial counts as a variable of its own. Equalities are eliminated (with the test on their greatest common
    divisor), then variables one by one (Fourier and Motzkin), with bounds rounded to integers on the way.
    """
    rows = _eliminate([dict(poly.terms) for poly in equalities], [dict(poly.terms) for poly in inequalities])
    if rows is None:
        return True
    tight = _tighten(rows)
    while tight is not None:
        variable = _cheapest(tight)
        if variable is None or len(tight) > _MAX_ROWS:
            return False
        tight = _tighten(_project(tight, variable))
    return True


def _eliminate(equalities: list[Row], rows: list[Row]) -> list[Row] | None:
    """Inequalities with the equalities solved into them; None if the equalities contradict each other."""
    todo = equalities
    while todo:
        row = todo.pop()
        divisor = gcd(*(c for monomial, c in row.items() if monomial))
        if row.get((), 0) % divisor if divisor else row.get((), 0):
            return None
        if not divisor:
            continue
        row = {monomial: c // divisor for monomial, c in row.items()}
        pivot = min((monomial for monomial in row if monomial), key=lambda monomial: (abs(row[monomial]), monomial))
        todo = [_cancel(other, row, pivot) for other in todo]
        rows = [_cancel(other, row, pivot) for other in rows]
    return rows


def _cancel(row: Row, equality: Row, pivot: Monomial) -> Row:
    """``row`` times a positive number plus a multiple of ``equality``, without ``pivot``."""
    c = row.get(pivot, 0)
    if not c:
        return row
    p = equality[pivot]
    return _combine(row, abs(p), equality, -c if p > 0 else c)


def _combine(left: Row, a: int, right: Row, b: int) -> Row:
    row = {monomial: a * c for monomial, c in left.items()}
    for monomial, c in right.items():
        row[monomial] = row.get(monomial, 0) + b * c
    return {monomial: c for monomial, c in row.items() if c}


def _tighten(rows: list[Row]) -> list[Row] | None:
    """Rows divided by their common divisor, constants rounded down, the strongest of each kind; None on ``-1 >= 0``."""
    best: dict[tuple[tuple[Monomial, int], ...], int] = {}
    for row in rows:
        constant = row.get((), 0)
        parts = sorted((monomial, c) for monomial, c in row.items() if monomial and c)
        if not parts:
            if constant < 0:
                return None
            continue
        divisor = gcd(*(c for _, c in parts))
        key = tuple((monomial, c // divisor) for monomial, c in parts)
        best[key] = min(best.get(key, constant // divisor), constant // divisor)
    for key, constant in best.items():
        opposite = best.get(tuple((monomial, -c) for monomial, c in key))
        if opposite is not None and constant + opposite < 0:
            return None
    return [{**dict(key), (): constant} for key, constant in best.items()]


def _cheapest(rows: list[Row]) -> Monomial | None:
    """The variable whose elimination makes the fewest new rows."""
    signs: dict[Monomial, list[int]] = {}
    for row in rows:
        for monomial, c in row.items():
            if monomial:
                signs.setdefault(monomial, [0, 0])[c > 0] += 1
    return min(signs, key=lambda monomial: (signs[monomial][0] * signs[monomial][1], monomial), default=None)


def _project(rows: list[Row], variable: Monomial) -> list[Row]:
    """The rows that do not hold ``variable``, and every sum of two in which it cancels."""
    lower = [row for row in rows if row.get(variable, 0) > 0]
    upper = [row for row in rows if row.get(variable, 0) < 0]
    rest = [row for row in rows if not row.get(variable, 0)]
    if len(lower) * len(upper) + len(rest) > 4 * _MAX_ROWS:
        return rest  # Fewer constraints can only hide a contradiction.
    return rest + [_combine(low, -up[variable], up, low[variable]) for low in lower for up in upper]
