"""Values of expressions, with what is known of them: a range that they never leave, so that nothing overflows.

The types of integers are those of plain Python on NumPy scalars. A value may have one of several, where that depends on the
data (``min(x[i], 3)`` is a NumPy scalar or a Python int): a range must fit all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

Kind = Literal["int", "float", "bool"]

WEAK = "weak"
SIGNED = ("int64", "int32", "int8", "int16")
UNSIGNED = ("uint8", "uint32", "uint16", "uint64")
FLOATS = ("float64", "float32")

# Elements of an array, and kernel scalars, stay below 2 to this: half of it by assignment, the rest by updates.
BITS = {"int8": 6, "uint8": 7, "int16": 10, "uint16": 10}
WIDE = 12
# What is stored in a float array is a multiple of 2 to minus this.
GRAIN = 2
# Magnitude and grain together, well inside float32's 24 bits: sums and products of what is generated are exact.
EXACT_BITS = 22


@cache
def limits(dtype: str) -> tuple[int, int]:
    """The numbers that an integer type holds; Python's stay far below 64 bits."""
    if dtype == WEAK:
        return -(1 << 40), 1 << 40
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def kind_of(dtype: str) -> Kind:
    """The kind of an array's elements."""
    if dtype == "bool":
        return "bool"
    return "float" if dtype in FLOATS else "int"


def domain(dtype: str, spare: int = 0) -> tuple[int, int]:
    """What an array of a type, or a scalar, may hold; without the upper ``spare`` bits."""
    if dtype == "bool":
        return 0, 1
    top = 1 << (BITS.get(dtype, WIDE) - spare)
    return (0 if dtype in UNSIGNED else -top), top - 1


@dataclass(frozen=True, slots=True)
class Value:
    """An expression. ``grain``: it is a multiple of 2 to minus that; ``atom``: it needs no parentheses."""

    text: str
    kind: Kind
    low: int = 0
    high: int = 1
    dtypes: frozenset[str] = frozenset()
    grain: int = 0
    atom: bool = False

    @property
    def inner(self) -> str:
        """As an operand."""
        return self.text if self.atom else f"({self.text})"

    @property
    def magnitude(self) -> int:
        return max(abs(self.low), abs(self.high))


def literal(number: int) -> Value:
    """A Python int."""
    return Value(str(number), "int", number, number, frozenset([WEAK]), atom=number >= 0)


def fits(value: Value) -> bool:
    """Whether plain Python, NumPy and a kernel surely agree on it."""
    if value.kind == "float":
        return value.magnitude << value.grain < 1 << EXACT_BITS
    if value.kind == "bool":
        return True
    return bool(value.dtypes) and all(limits(t)[0] <= value.low and value.high <= limits(t)[1] for t in value.dtypes)


@cache
def promoted(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    """The types of an operation on integers; empty where it is a float (uint64 with a signed type)."""
    found = set()
    for a in first:
        for b in second:
            result = b if a == WEAK else a if b == WEAK else np.result_type(a, b).name
            if result in FLOATS:
                return frozenset()
            found.add(result)
    return frozenset(found)


def _bounds(operator: str, a: Value, b: Value) -> tuple[int, int] | None:
    corners = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    match operator:
        case "+":
            return a.low + b.low, a.high + b.high
        case "-":
            return a.low - b.high, a.high - b.low
        case "*":
            products = [x * y for x, y in corners]
            return min(products), max(products)
        case "//" if b.low > 0 or b.high < 0:
            quotients = [x // y for x, y in corners]
            return min(quotients), max(quotients)
        case "%" if b.low > 0:
            return 0, b.high - (1 if b.kind == "int" and a.kind == "int" else 0)
        case "%" if b.high < 0:
            return b.low, 0
        case "<<" if 0 <= b.low and b.high <= 4:
            shifted = [x << y for x, y in corners]
            return min(shifted), max(shifted)
        case ">>" if 0 <= b.low and b.high <= 7:
            shifted = [x >> y for x, y in corners]
            return min(shifted), max(shifted)
        case "&" | "|" | "^":
            top = 1 << max(v.bit_length() for v in (a.low, a.high, b.low, b.high))
            return (0 if min(a.low, b.low) >= 0 else -top), top - 1
    return None


def binary(operator: str, a: Value, b: Value) -> Value | None:
    """``a operator b``, or None where it might overflow, divide by zero or round."""
    bounds = _bounds(operator, a, b)
    if bounds is None:
        return None
    low, high = bounds
    text = f"{a.inner} {operator} {b.inner}"
    if "float" in (a.kind, b.kind):
        grain = a.grain + b.grain if operator == "*" else 0 if operator == "//" else max(a.grain, b.grain)
        made = Value(text, "float", low, high, grain=grain)
        return made if fits(made) else None
    made = Value(text, "int", low, high, promoted(a.dtypes, b.dtypes))
    # A Python int that meets a NumPy scalar must fit its type, so the operands must.
    operands = (replace(part, dtypes=made.dtypes) for part in (a, b))
    return made if fits(made) and all(fits(part) for part in operands) else None


def call(word: str, *arguments: Value) -> str:
    """The text of a call."""
    return f"{word}({', '.join(argument.text for argument in arguments)})"


def within(value: Value, low: int, high: int, grain: int | None = None) -> Value:
    """``value`` made to lie between two bounds around 0 (``low <= 0 <= high``), by the cheapest of means."""
    if value.kind == "bool":
        return value
    if value.kind == "float":
        return _float_within(value, low, high, GRAIN if grain is None else grain)
    if low <= value.low and value.high <= high:
        return value
    modulus = min(high + 1, *(limits(t)[1] for t in value.dtypes))
    if modulus > 0 and (value.low < 0 or value.high >= modulus):
        value = Value(f"{value.inner} % {modulus}", "int", 0, modulus - 1, value.dtypes)
    return value


def _float_within(value: Value, low: int, high: int, grain: int) -> Value:
    if value.grain > grain:
        value = Value(f"np.floor({value.text})", "float", value.low - 1, value.high, atom=True)
    if value.low < low or value.high > high:
        modulus = 1 << high.bit_length() >> 1 if high else 1
        value = Value(f"{value.inner} % {modulus}.0", "float", 0, modulus, grain=value.grain)
        if modulus > high:
            value = Value("0.0", "float", 0, 0, atom=True)
    return value


def settled(value: Value, beside: frozenset[str] = frozenset()) -> Value:
    """``value`` as a Python int, where it is Python's or NumPy's and a kernel may ask which one, next to such types."""
    narrow = value.dtypes - {WEAK, "int64", "uint64"}
    if value.kind != "int" or WEAK not in value.dtypes or not narrow:
        return value
    # Of a name a kernel knows no more than that.
    if len(value.dtypes) == 2 and beside <= value.dtypes and not value.text.isidentifier():
        return value
    return Value(f"int({value.text})", "int", value.low, value.high, frozenset([WEAK]), atom=True)


def of_one_narrow_type(value: Value) -> Value:
    """``value`` as a Python int, where it is of one narrow type of NumPy's or of another: a kernel asks which."""
    if len(value.dtypes - {WEAK, "int64", "uint64"}) < 2:
        return value
    return Value(f"int({value.text})", "int", value.low, value.high, frozenset([WEAK]), atom=True)


def named(name: str, value: Value) -> Value:
    """The same, under a name."""
    return replace(value, text=name, atom=True)
