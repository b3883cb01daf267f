"""A float that may stand for an integer with more digits: what one path, or one operand of `max`, gives as an integer.

CPython keeps the integer. Here both are one float, which is right wherever a float is wanted: stored in an array of floats, or
combined with one. Where it becomes an integer again digits may be missing, so that is refused.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core.datamodel import default_manager, models
from numba.core.typeconv import Conversion

from qgraph.lowering.number_types.number_llvm import types

_Float: Any = types.Float
_PrimitiveModel: Any = models.PrimitiveModel
_MANTISSA = {types.float16: 11, types.float32: 24, types.float64: 53}


class Rounded(_Float):
    """The Numba type of such a float; ``base`` is that of any other one with as many bits."""

    def __init__(self, base: Any) -> None:
        super(_Float, self).__init__(f"rounded_{base}")
        self.base = base
        self.bitwidth = base.bitwidth

    def can_convert_to(self, _context: Any, other: Any) -> Any:
        """Numba's hook: to whatever a float converts to, but integers."""
        return None if isinstance(other, types.Integer) else Conversion.unsafe


class _Model(_PrimitiveModel):
    def __init__(self, manager: Any, item: Rounded) -> None:
        super().__init__(manager, item, ir.FloatType() if item.base == types.float32 else ir.DoubleType())


default_manager.register(Rounded, _Model)
_ROUNDED = {kind: Rounded(kind) for kind in (types.float32, types.float64)}


def meeting(joined: Any, items: tuple[Any, ...]) -> Any:
    """``joined``, the type in which numbers meet of which one is taken as it is: rounded, if an integer loses digits in it."""
    if joined not in _ROUNDED:
        return joined
    loses = any(isinstance(item, Rounded) or _digits(item) > _MANTISSA[joined] for item in items)
    return _ROUNDED[joined] if loses else joined


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
