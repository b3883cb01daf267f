"""The type of an integer that is NumPy's, narrow or a uint64, or another one's, depending on values: ``max(x[i], 5)``.

The other may be Python's, or of another of NumPy's types, as in ``x[i] if c else y[i]``. All are one number of one type here.
CPython's differ in what comes of them: NumPy's wraps, and takes part in promotion. Of the Python integer the range is known,
for it comes of literals. So an operation is right where it gives one type whichever number it is given, or where NumPy's type
holds all that Python's integers give; any other is refused. Beside a uint64 an int64 is Python's, of which no sign is known:
what would be negative of one that is not is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from llvmlite import ir
from numba.core.datamodel import default_manager, models

from qgraph.lowering.number_types.number_llvm import types
from qgraph.operations.intervals import Interval
from qgraph.operations.table import OPERATIONS

_Integer: Any = types.Integer
_PrimitiveModel: Any = models.PrimitiveModel
_NATURAL: Interval = (0, types.int64.maxval)
_WHOLE: Interval = (types.int64.minval, types.int64.maxval)


class Either(_Integer):
    """The Numba type of such an integer.

    ``base`` holds them all, ``kinds`` are NumPy's types, ``span`` the least and the greatest of Python's, if it may be one.
    """

    def __init__(self, base: Any, span: Interval | None, kinds: tuple[Any, ...] = ()) -> None:
        kinds = kinds or (base,)
        pythons = () if span is None else (f"{span[0]}_to_{span[1]}",)
        held = () if kinds == (base,) else (f"in_{base}",)
        super(_Integer, self).__init__("_".join(["_or_".join([*map(str, kinds), *pythons]), *held]))
        self.base = base
        self.span = span
        self.kinds = kinds
        self.bitwidth = base.bitwidth
        self.signed = base.signed

    def can_convert_to(self, context: Any, other: Any) -> Any:
        """Numba's hook: to whatever NumPy's integer converts to."""
        return context.can_convert(self.base, other)


class _Model(_PrimitiveModel):
    def __init__(self, manager: Any, item: Either) -> None:
        super().__init__(manager, item, ir.IntType(item.bitwidth))


default_manager.register(Either, _Model)


def bare(item: Any) -> Any:
    """The type, of a tuple that of its items, without what is known of such integers."""
    if isinstance(item, types.BaseTuple):
        found = tuple(map(bare, item.types))
        return item if found == tuple(item.types) else types.BaseTuple.from_types(found)
    return item.base if isinstance(item, Either) else item


def holds(items: Iterable[Any]) -> bool:
    """Whether there is such an integer among Numba types."""
    return any(isinstance(item, Either) for item in items)


def _is_narrow(item: Any) -> bool:
    return isinstance(item, types.Integer) and item.bitwidth < 64


def _kinds(item: Any) -> tuple[Any, ...]:
    """NumPy's types of which a number may be; one of 64 bits may be Python's, too."""
    if isinstance(item, Either):
        return item.kinds
    if isinstance(item, types.Boolean):
        return (types.boolean,)
    return (item,) if isinstance(item, types.Integer) and not isinstance(item, types.IntegerLiteral) else ()


def _has_64_bits(item: Any) -> bool:
    return isinstance(item, types.Integer) and not _is_narrow(item)


def _span(item: Any) -> Interval | None:
    """The Python integers that a number may be."""
    if isinstance(item, types.IntegerLiteral):
        return item.literal_value, item.literal_value
    return item.span if isinstance(item, Either) else None


def _hull(*spans: Interval) -> Interval:
    return min(low for low, _ in spans), max(high for _, high in spans)


def one_of(joined: Any, items: tuple[Any, ...], *, least: bool = False) -> Any:
    """``joined``, the type in which numbers meet of which one is taken as it is: either, if they are not of one type.

    The ``least`` of a uint64 and Python's integer has a sign, and 64 bits; None where no type holds what it may be.
    """
    spans = [span for item in items if (span := _span(item)) is not None]
    kinds = tuple(sorted({kind for item in items for kind in _kinds(item)}, key=str))
    if any(map(_has_64_bits, kinds)):
        # It may be Python's, with which narrow integers have 64 bits, too.
        kinds = tuple(kind for kind in kinds if not _is_narrow(kind))
        if joined == types.uint64 and ((least and types.int64 in kinds) or any(low < 0 for low, _ in spans)):
            return Either(types.int64, _WHOLE, (types.uint64,)) if least else None
        if joined == types.uint64:
            spans += [_NATURAL] * (types.int64 in kinds)
            kinds = tuple(kind for kind in kinds if kind != types.int64)
        else:
            kinds, spans = kinds if types.boolean in kinds else (), []
    if not isinstance(joined, types.Integer) or not kinds or (len(kinds) == 1 and not spans):
        return joined
    return Either(joined, _hull(*spans) if spans else None, kinds)


def on_a_path(joined: Any, items: tuple[Any, ...]) -> Any:
    """As ``one_of``, of a variable: of few ranges, that inference comes to an end in a loop."""
    found = one_of(joined, items)
    if not isinstance(found, Either) or found.span is None or found.span in map(_span, items):
        return found
    low, high = found.span
    ends = [(1 << bits) - 1 for bits in (3, 5, 7, 15, 31) if (1 << bits) - 1 < joined.maxval]
    low = 0 if low >= 0 else next((-end - 1 for end in ends if low >= -end - 1), joined.minval)
    return Either(joined, (low, next((end for end in ends if high <= end), joined.maxval)), found.kinds)


def beyond(items: tuple[Any, ...]) -> Any:
    """The type of a variable that holds narrow integers and a literal that their type does not hold; None for others."""
    found = on_a_path(types.int64, items)
    return found if isinstance(found, Either) else None


def cases(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The operand types of all that may be."""
    yield from itertools.product(*(_cases_of(arg) for arg in args))


def _cases_of(item: Any) -> tuple[Any, ...]:
    return (*item.kinds, *map(types.literal, item.span or ())) if isinstance(item, Either) else (item,)


def are_literals(args: Iterable[Any]) -> bool:
    """Whether numbers of these types are known Python integers, all of them."""
    return all(isinstance(arg, types.IntegerLiteral) for arg in args)


def are_pythons(args: Iterable[Any]) -> bool:
    """Whether numbers of these types are Python integers, all of them, where none is an int64 of NumPy's."""
    return all(isinstance(arg, types.IntegerLiteral) or arg == types.int64 for arg in args)


def of_pythons(operation: Any, result: Any, args: tuple[Any, ...]) -> Any:
    """The type of what ``operation`` gives: NumPy's ``result``, or Python's integers; None if the one does not hold these."""
    long = result == types.uint64
    spans = [span for arg in args if (span := _NATURAL if long and arg == types.int64 else _span(arg)) is not None]
    find = OPERATIONS.of(operation).interval
    if find is None or len(spans) < len(args) or not (_is_narrow(result) or long):
        return None
    found = find(*spans)
    if long:
        # Integers of 64 bits wrap, and a division by zero gives 0.
        found = _NATURAL if found is None else (found[0], min(found[1], result.maxval))
    return Either(result, found) if found is not None and result.minval <= found[0] and found[1] <= result.maxval else None


def keeps(find: Callable[..., Interval | None] | None, result: Any, args: tuple[Any, ...]) -> bool:
    """Whether ``result`` holds whatever an operation, which gives the intervals that ``find`` does, makes of these types."""
    spans = [_span(arg) or ((arg.minval, arg.maxval) if _is_narrow(arg) else None) for arg in args]
    found = find(*spans) if find is not None and None not in spans else None
    return found is not None and _is_narrow(result) and bool(result.minval <= found[0] and found[1] <= result.maxval)


def of_literals(operation: Any, args: tuple[Any, ...]) -> Any:
    """The type of what ``operation`` gives of literals: one of 64 bits, or None."""
    find = OPERATIONS.of(operation).interval
    found = find(*map(_span, args)) if find is not None else None
    known = found is not None and found[0] == found[1] and types.int64.minval <= found[0] <= types.int64.maxval
    return types.literal(found[0]) if found is not None and known else None


def refusal(items: Iterable[Any]) -> str:
    """What to say where it counts which one it is."""
    item = next(item for item in items if isinstance(item, Either))
    found, counts = "a number is NumPy's", "and the result depends on which: write"
    if item.span is None:
        return f"{found} {' or '.join(map(str, item.kinds))}, as in max(a, b), {counts} numpy.{item.base}(...)"
    kind = item.kinds[0]
    return f"{found} {kind} or a Python integer, as in max(a, 5), {counts} int(...) for Python's, or numpy.{kind}(...)"
