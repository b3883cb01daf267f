"""An integer of 8, 16 or 32 bits or Python's, whichever it is: `max(x[i], 5)`, `x[i] if c else 5`, a name for one on each path.

The value is the same in both, so it is kept in the narrow type. What it makes of other numbers is not: NumPy's wraps, Python's
does not. Operations that may tell the difference are refused.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba.core.datamodel import default_manager, models

from qgraph.lowering.intrinsics.number_llvm import types

_Integer: Any = types.Integer
_PrimitiveModel: Any = models.PrimitiveModel


class Either(_Integer):
    """The Numba type of such an integer; ``base`` is that of the narrow one."""

    def __init__(self, base: Any) -> None:
        super().__init__(f"either_{base}", bitwidth=base.bitwidth, signed=base.signed)
        self.base = base

    def can_convert_to(self, context: Any, other: Any) -> Any:
        """Numba's hook: to whatever the narrow integer converts to."""
        return context.can_convert(self.base, other)


class _Model(_PrimitiveModel):
    def __init__(self, manager: Any, item: Either) -> None:
        super().__init__(manager, item, manager[item.base].get_value_type())


NARROW = (types.int8, types.int16, types.int32, types.uint8, types.uint16, types.uint32)
_EITHER = {kind: Either(kind) for kind in NARROW}
default_manager.register(Either, _Model)

# These give the same number of both, in the narrow type: the number is no larger than the operands are.
_KEEP: tuple[object, ...] = (
    *(operator.mod, operator.floordiv, operator.and_, operator.or_, operator.xor, operator.rshift, operator.pos),
    *(operator.imod, operator.ifloordiv, operator.iand, operator.ior, operator.ixor, operator.irshift, min, max),
)
# These may give a larger one.
_GROW: tuple[object, ...] = (operator.add, operator.sub, operator.mul, operator.iadd, operator.isub, operator.imul)


def narrow(item: Any) -> Any:
    """A type, or the narrow one where it is ``Either``."""
    return item.base if isinstance(item, Either) else item


def chosen(joined: Any, items: tuple[Any, ...]) -> Any:
    """The type of one of several integers, of which all are values of ``joined``: ``Either``, if one is Python's."""
    pythons = any(isinstance(item, (Either, types.IntegerLiteral)) for item in items)
    return _EITHER[joined] if pythons and joined in _EITHER else joined


def result_of(value: object, result: Any, items: tuple[Any, ...]) -> Any:
    """The type of what ``value``, an operator or function, makes of ``items``, if it is ``result`` for narrow ones.

    None where it depends on which kind of integer they are.
    """
    others = [item for item in items if not isinstance(item, (Either, types.IntegerLiteral))]
    negative = any(isinstance(item, types.IntegerLiteral) and item.literal_value < 0 for item in items)
    # A Python integer takes the type of another operand, and a narrow one does if it has fewer bits.
    if len(others) == 1 and others[0] == result and (value in _KEEP or value in _GROW):
        return result
    if value in (min, max):
        return chosen(result, items)
    if value in _KEEP and not others and not negative:
        return _EITHER.get(result)
    if isinstance(value, np.ufunc) and any(isinstance(item, Either) and item.bitwidth < types.int32.bitwidth for item in items):
        # NumPy's functions make float16 and float32 of the narrowest.
        return None
    wraps = result in NARROW or (result == types.uint64 and any(isinstance(item, Either) and item.signed for item in items))
    return None if wraps else result


def refusal(name: str, item: Either) -> str:
    """What to say where ``name`` is given such an integer."""
    return (
        f"{name} of {_with_article(item.base)} or Python's integer, whichever it is then, as of max(x[i], 5): the one wraps, "
        f"and the other does not. Make it one of them, by numpy.{item.base}(...) or int(...)"
    )


def _with_article(kind: Any) -> str:
    return f"{'an' if str(kind).startswith('int') else 'a'} {kind}"
