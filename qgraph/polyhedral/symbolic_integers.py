"""Symbolic integers and conditions on them: polynomials over symbols, which may stand for ``//``, ``%``, ``min`` and choices.

What is affine in these symbols, isl decides (``isl_sets.py``). Polynomials are kept because isl holds no products of symbols:
of ``i * n + j`` the strides are found again from them (``delinearisation.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, ClassVar, Literal

from qgraph.records import dataclass

# size: an extent, never negative. argument: an integer that the host knows. flag: a boolean that it knows. serial: the variable
# of a serial loop around. device: an invariant integer that only the device knows. variable: of the loop that is judged, or of
# one inside it. ticket: what an atomic counter was, different in each iteration. derived: ``operation`` of ``operands``.
Kind = Literal["size", "argument", "flag", "serial", "device", "variable", "ticket", "derived"]
HOST_KINDS = ("size", "argument", "flag")
Operation = Literal["", "floor", "mod", "min", "max", "select"]


class Symbol(str):
    """A named integer; equal names mean the same one, so the name of a derived symbol spells its operation and operands."""

    __slots__ = ("kind", "operands", "operation", "varies")

    kind: Kind
    operation: Operation
    # Two polynomials; of "select" a condition and two polynomials; of a ticket the least that is added.
    operands: tuple[Any, ...]
    varies: bool

    @classmethod
    def of(cls, name: str, kind: Kind, operation: Operation = "", operands: Sequence[Poly | Condition] = ()) -> Symbol:
        """The symbol ``name``."""
        symbol = cls(name)
        symbol.kind, symbol.operation, symbol.operands = kind, operation, tuple(operands)
        symbol.varies = kind in ("variable", "ticket") or any(operand.varies for operand in operands)
        return symbol

    @property
    def poly(self) -> Poly:
        """The symbol as a polynomial."""
        return Poly((((self,), 1),))

    def __repr__(self) -> str:
        # Two questions are the same where this is.
        return f"{self.kind} {self.operation or str(self)}{list(self.operands) or ''}"

    def __deepcopy__(self, memo: object) -> Symbol:
        return self


Monomial = tuple[Symbol, ...]
Row = dict[Monomial, int]


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
    def symbol(cls, name: str, kind: Kind) -> Poly:
        """A single symbol."""
        return Symbol.of(name, kind).poly

    @property
    def constant(self) -> int | None:
        """The value of a constant polynomial, else None."""
        match self.terms:
            case ():
                return 0
            case (((), value),):
                return value
        return None

    @property
    def symbols(self) -> frozenset[Symbol]:
        """Every symbol that occurs, operands of derived ones aside."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    @property
    def varies(self) -> bool:
        """Whether it changes within the loop that is judged."""
        return any(symbol.varies for symbol in self.symbols)

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

    def substitute(self, values: Mapping[Symbol, Poly]) -> Poly:
        """This polynomial with symbols replaced, all at once, in the operands of derived ones too."""
        terms = (prod((_substituted(name, values) for name in monomial), start=Poly.const(c)) for monomial, c in self.terms)
        return sum(terms, ZERO)

    def divided_by(self, divisor: Poly) -> Poly | None:
        """The polynomial q with ``self == q * divisor``, where there is one."""
        quotient, rest = divide(self, divisor)
        return quotient if not rest.terms else None

    def __str__(self) -> str:
        return self.spelled(word_of)

    def spelled(self, word: Callable[[Symbol], str] = str) -> str:
        """As text, each symbol as its ``word``: its own name tells it from all others, the user's may not."""
        words = []
        for monomial, c in sorted(self.terms, key=lambda term: (not term[0], term)):
            factors = [word(name) for name in monomial]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            words.append(("- " if c < 0 else "+ ") + "*".join(factors))
        text = " ".join(words) or "0"
        return text[2:] if text.startswith("+ ") else text.replace("- ", "-", 1) if text.startswith("- ") else text


ZERO, ONE = Poly(), Poly.const(1)


def word_of(symbol: Symbol) -> str:
    """A symbol as the user writes it."""
    if symbol.kind == "derived":
        return f"{symbol.operation}({', '.join(map(str, symbol.operands))})"
    return symbol.lstrip("#").split("@")[0]


def divide(dividend: Poly, divisor: Poly) -> tuple[Poly, Poly]:
    """(q, r) with ``dividend == q * divisor + r``: as much as the leading term of ``divisor`` divides."""
    if not divisor.terms:
        return ZERO, dividend
    lead, by = max(divisor.terms, key=lambda term: (len(term[0]), term[0]))
    quotient, rest = ZERO, dividend
    while True:
        found = next(filter(None, (_over(term, lead, by) for term in rest.terms)), None)
        if found is None:
            return quotient, rest
        quotient, rest = quotient + found, rest - found * divisor


def _over(term: tuple[Monomial, int], lead: Monomial, by: int) -> Poly | None:
    monomial, c = term
    left = list(monomial)
    for name in lead:
        if name not in left:
            return None
        left.remove(name)
    return Poly.of({tuple(left): c // by}) if not c % by else None


def _substituted(name: Symbol, values: Mapping[Symbol, Poly]) -> Poly:
    if name in values:
        return values[name]
    if name.kind == "derived" and not symbols_of(name.operands).isdisjoint(values):
        return _BUILDERS[name.operation](*(operand.substitute(values) for operand in name.operands))
    return name.poly


def symbols_of(parts: Iterable[Poly | Condition]) -> frozenset[Symbol]:
    """Every symbol in ``parts``, those in the operands of derived ones included."""
    found: set[Symbol] = set()
    todo: list[Poly | Condition] = list(parts)
    while todo:
        part = todo.pop()
        symbols = part.symbols if isinstance(part, Poly) else frozenset().union(*(poly.symbols for poly in part.polys()))
        for symbol in symbols - found:
            found.add(symbol)
            todo += symbol.operands
    return frozenset(found)


# --- derived integers --------------------------------------------------------------------------------------------------


def _derived(operation: Operation, *operands: Poly | Condition) -> Poly:
    name = f"{operation}({', '.join(operand.spelled() for operand in operands)})"
    return Symbol.of(name, "derived", operation, operands).poly


def least(poly: Poly) -> Poly:
    """What ``poly`` is at least: ``-m * (a // c)`` is no less than ``-(m // c) * a`` where the constant c divides m."""
    result = poly
    for symbols, number in poly.terms:
        if len(symbols) == 1 and number < 0 and symbols[0].operation == "floor":
            dividend, divisor = symbols[0].operands
            by = divisor.constant
            if by is not None and by > 0 and number % by == 0:
                result += symbols[0].poly * Poly.const(-number) + dividend * Poly.const(number // by)
    return result


def floor_div(dividend: Poly, divisor: Poly) -> Poly:
    """``dividend // divisor``, as Python rounds."""
    by = divisor.constant
    if by:
        if by < 0:
            return floor_div(-dividend, -divisor)
        # (a*by + rest) // by == a + rest // by: what divides exactly goes before it, and of the constant the quotient.
        split = {monomial: c // by for monomial, c in dividend.terms if monomial == () or not c % by}
        whole = Poly.of(split)
        rest = dividend - whole * divisor
        return whole + _derived("floor", rest, divisor) if rest.constant is None else whole
    return _derived("floor", dividend, divisor)


def modulo(dividend: Poly, divisor: Poly) -> Poly:
    """``dividend % divisor``, with the sign of the divisor as in Python."""
    if divisor.constant:
        return dividend - floor_div(dividend, divisor) * divisor
    return _derived("mod", dividend, divisor)


def minimum(first: Poly, second: Poly) -> Poly:
    """The smaller one."""
    return _extreme("min", first, second)


def maximum(first: Poly, second: Poly) -> Poly:
    """The larger one."""
    return _extreme("max", first, second)


def _extreme(operation: Literal["min", "max"], first: Poly, second: Poly) -> Poly:
    difference = (first - second).constant
    if difference is None:
        return _derived(operation, *sorted((first, second), key=Poly.spelled))
    return second if (difference > 0 if operation == "min" else difference < 0) else first


def select(test: Condition, first: Poly, second: Poly) -> Poly | None:
    """``first if test else second``; None where the test is not known."""
    if first == second or test == TRUE:
        return first
    if test == FALSE:
        return second
    return None if test.partly_known else _derived("select", test, first, second)


# --- conditions --------------------------------------------------------------------------------------------------------


class Condition:
    """A condition on symbolic integers: ``Test``, ``All`` or ``Any_`` of several, or ``UNDECIDED``, which may be either."""

    __slots__ = ()

    def polys(self) -> Iterator[Poly]:
        """The polynomials that are tested."""
        return iter(())

    def spelled(self, word: Callable[[Symbol], str] = str) -> str:
        """As text, like ``Poly.spelled``."""
        return "?"

    def __str__(self) -> str:
        return self.spelled(word_of)

    @property
    def varies(self) -> bool:
        """Whether it changes within the loop that is judged."""
        return any(poly.varies for poly in self.polys())

    @property
    def partly_known(self) -> bool:
        """Whether something in it is not known."""
        return False

    def negated(self) -> Condition:
        """Its opposite; of what is not known, nothing is known."""
        return self

    def substitute(self, values: Mapping[Symbol, Poly]) -> Condition:
        """The same with symbols replaced."""
        return self


@dataclass(frozen=True, slots=True)
class _Unknown(Condition):
    @property
    def partly_known(self) -> bool:
        """Whether something in it is not known."""
        return True


@dataclass(frozen=True, slots=True)
class Test(Condition):
    """``poly >= 0``, or ``poly == 0`` where it is ``equal``."""

    poly: Poly
    equal: bool = False

    def polys(self) -> Iterator[Poly]:
        """The polynomials that are tested."""
        yield self.poly

    def negated(self) -> Condition:
        """Its opposite."""
        if self.equal:
            return any_of(not_negative(self.poly - ONE), not_negative(-self.poly - ONE))
        return not_negative(-self.poly - ONE)

    def substitute(self, values: Mapping[Symbol, Poly]) -> Condition:
        """The same with symbols replaced."""
        return (is_zero if self.equal else not_negative)(self.poly.substitute(values))

    def spelled(self, word: Callable[[Symbol], str] = str) -> str:
        """Its source, with ``word`` of each symbol."""
        return f"{self.poly.spelled(word)} {'==' if self.equal else '>='} 0"


@dataclass(frozen=True, slots=True)
class _Several(Condition):
    """``parts`` with ``operator`` between them; ``empty`` where there are none."""

    parts: tuple[Condition, ...]
    operator: ClassVar[str]
    empty: ClassVar[str]

    def polys(self) -> Iterator[Poly]:
        """The polynomials that are tested."""
        for part in self.parts:
            yield from part.polys()

    @property
    def partly_known(self) -> bool:
        """Whether something in it is not known."""
        return any(part.partly_known for part in self.parts)

    def negated(self) -> Condition:
        """Its opposite."""
        return _combined(_OPPOSITE[type(self)], (part.negated() for part in self.parts))

    def substitute(self, values: Mapping[Symbol, Poly]) -> Condition:
        """The same with symbols replaced."""
        return _combined(type(self), (part.substitute(values) for part in self.parts))

    def spelled(self, word: Callable[[Symbol], str] = str) -> str:
        """Its source, with ``word`` of each symbol."""
        return f"({f' {self.operator} '.join(part.spelled(word) for part in self.parts)})" if self.parts else self.empty


class All(_Several):
    """All of ``parts``; true where there are none."""

    __slots__ = ()
    operator, empty = "and", "true"


class Any_(_Several):  # noqa: N801 - typing has the other one
    """One of ``parts``; false where there are none."""

    __slots__ = ()
    operator, empty = "or", "false"


_OPPOSITE: dict[type[_Several], type[_Several]] = {All: Any_, Any_: All}
UNDECIDED = _Unknown()
TRUE: Condition = All(())
FALSE: Condition = Any_(())


def not_negative(poly: Poly) -> Condition:
    """``poly >= 0``."""
    value = poly.constant
    return Test(poly) if value is None else TRUE if value >= 0 else FALSE


def is_zero(poly: Poly) -> Condition:
    """``poly == 0``."""
    value = poly.constant
    return Test(poly, equal=True) if value is None else TRUE if value == 0 else FALSE


def all_of(*parts: Condition) -> Condition:
    """All of ``parts``."""
    return _combined(All, parts)


def any_of(*parts: Condition) -> Condition:
    """One of ``parts``."""
    return _combined(Any_, parts)


def _combined(kind: type[_Several], parts: Iterable[Condition]) -> Condition:
    """``kind`` of ``parts``, which are taken apart where they are of that kind themselves."""
    found = dict.fromkeys(each for part in parts for each in (part.parts if isinstance(part, kind) else (part,)))
    decisive = _OPPOSITE[kind](())
    if decisive in found:
        return decisive
    return kind(tuple(found)) if len(found) != 1 else next(iter(found))


_BUILDERS: dict[Operation, Callable[..., Poly]] = {
    "floor": floor_div,
    "mod": modulo,
    "min": minimum,
    "max": maximum,
    "select": lambda condition, first, second: select(condition, first, second) or ZERO,
}


def trips(start: Poly, stop: Poly, step: int) -> Poly:
    """``len(range(start, stop, step))``."""
    extent = stop - start if step > 0 else start - stop
    by = Poly.const(abs(step))
    return maximum(ZERO, floor_div(extent + by - ONE, by))
