"""A float that may stand for an integer: what one path, or one operand of `max`, gives as an integer.

CPython keeps the integer. Here both are one float, which is right wherever a float is wanted: stored in an array of floats, or
combined with one. Where it becomes an integer again digits may be missing, so that is refused. So is what an integer of NumPy's
with fewer than 64 bits, which wraps around, would make a narrow integer of: `-max(x[i], 0.5)` of a uint8, and a literal's
`max(8, 0.5) - x[i]`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from llvmlite import ir
from numba.core.datamodel import default_manager, models
from numba.core.typeconv import Conversion

from qgraph.lowering.number_types.number_llvm import types

_Float: Any = types.Float
_PrimitiveModel: Any = models.PrimitiveModel
_MANTISSA = {types.float16: 11, types.float32: 24, types.float64: 53}


class Rounded(_Float):
    """The Numba type of such a float; ``base`` is that of any other one with as many bits.

    ``kinds`` are NumPy's narrow types that it may be of, and Python's literals. It ``loses`` digits of integers with more.
    """

    def __init__(self, base: Any, loses: bool = True, kinds: tuple[Any, ...] = ()) -> None:
        super(_Float, self).__init__("_or_".join([f"rounded_{base}" if loses else str(base), *map(str, kinds)]))
        self.base = base
        self.bitwidth = base.bitwidth
        self.loses = loses
        self.kinds = kinds

    def can_convert_to(self, _context: Any, other: Any) -> Any:
        """Numba's hook: to whatever a float converts to, but integers."""
        return None if isinstance(other, types.Integer) else Conversion.unsafe


class _Model(_PrimitiveModel):
    def __init__(self, manager: Any, item: Rounded) -> None:
        super().__init__(manager, item, ir.FloatType() if item.base == types.float32 else ir.DoubleType())


default_manager.register(Rounded, _Model)


def meeting(joined: Any, items: tuple[Any, ...]) -> Any:
    """``joined``, the type in which numbers meet of which one is taken as it is: rounded, if it may be an integer."""
    if joined not in (types.float32, types.float64):
        return joined
    loses = any(item.loses if isinstance(item, Rounded) else _digits(item) > _MANTISSA[joined] for item in items)
    kinds = tuple(sorted({kind for item in items for kind in _narrow_kinds(item)}, key=str))
    return Rounded(joined, loses, kinds) if loses or kinds else joined


def losing(joined: Any, items: Iterable[Any]) -> Any:
    """``joined``, the type of what an operation makes of numbers: rounded, if it may be an integer that has lost digits."""
    loses = any(item.loses if isinstance(item, Rounded) else _digits(item) > _MANTISSA.get(joined, 64) for item in items)
    return Rounded(joined) if loses and joined in (types.float32, types.float64) else joined


def cases(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The operand types of all that may be, where one may be a narrow integer."""
    if any(isinstance(arg, Rounded) and arg.kinds for arg in args):
        yield from itertools.product(*((*arg.kinds, arg.base) if isinstance(arg, Rounded) else (arg,) for arg in args))


def integers_divided_by_zero(dividend: Any, divisor: Any) -> bool:
    """Whether both may be integers, of which one may be a float, and the second 0."""
    may_be_integers = all(isinstance(each, Rounded | types.Integer | types.Boolean) for each in (dividend, divisor))
    if not may_be_integers or not (isinstance(dividend, Rounded) or isinstance(divisor, Rounded)):
        return False
    kinds = divisor.kinds if isinstance(divisor, Rounded) and not divisor.loses else (divisor,)
    return any(not isinstance(kind, types.IntegerLiteral) or kind.literal_value == 0 for kind in kinds)


def unfit(item: Any, integer: Any, text: str) -> str | None:
    """What to say of a number of which ``text`` makes an ``integer``, if it may stand for one with other digits."""
    if not isinstance(item, Rounded) or not isinstance(integer, types.Integer):
        return None
    if item.loses:
        return refusal(text)
    ends = [_ends(kind) for kind in item.kinds if isinstance(kind, types.Integer)]
    held = all(integer.minval <= low and high <= integer.maxval for low, high in ends)
    return None if held else narrow_refusal([item])


def _ends(kind: Any) -> tuple[int, int]:
    is_known = isinstance(kind, types.IntegerLiteral)
    return (kind.literal_value, kind.literal_value) if is_known else (kind.minval, kind.maxval)


def _narrow_kinds(item: Any) -> tuple[Any, ...]:
    if isinstance(item, types.Boolean):
        return (types.boolean,)
    found = getattr(item, "kinds", (item,))
    return tuple(kind for kind in found if isinstance(kind, types.Integer | types.Boolean) and _is_narrow(kind))


def _is_narrow(kind: Any) -> bool:
    return isinstance(kind, types.Boolean | types.IntegerLiteral) or kind.bitwidth < 64


def _digits(item: Any) -> int:
    if isinstance(item, types.IntegerLiteral):
        value = abs(item.literal_value)
        # Zeros at the end are the exponent's.
        return int(value.bit_length() - ((value & -value).bit_length() - 1)) if value else 0
    return item.bitwidth - int(item.signed) if isinstance(item, types.Integer) else 0


def refusal(text: str) -> str:
    """What to say where ``text`` makes an integer of such a float."""
    return (
        f"{text} a number that is an integer on one path and a float on another, as in max(n, 0.5), and may lose digits: "
        "make integers of both, or floats, by int(...) or float(...)"
    )


def narrow_refusal(items: Iterable[Any]) -> str:
    """What to say where it counts whether it is a narrow integer."""
    kinds = next(item for item in items if isinstance(item, Rounded) and item.kinds).kinds
    kind = next((each for each in kinds if not isinstance(each, types.IntegerLiteral)), None)
    one, word = (f"Python's {kinds[0]}", "int") if kind is None else (f"NumPy's {kind}", f"numpy.{kind}")
    found = (
        f"a number is {one} or a float, as in max({kinds[0] if kind is None else 'a'}, 0.5), and the result depends on which"
    )
    return f"{found}: write float(...) for a float, or {word}(...)"
