"""Parts of arrays that two statements touch: are they apart, whatever the sizes?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from qgraph.polyhedral.dependence_test import answer_to
from qgraph.polyhedral.questions import Question, Reach, Variable
from qgraph.polyhedral.symbolic_integers import All, Any_, Condition, Poly, Symbol, Test
from qgraph.records import dataclass

# Sizes of the sample, and how many iterations of one access are tried in it.
_SIZE, _ARGUMENT = 5, 3
_MOST = 128


@dataclass(frozen=True)
class Section:
    """The elements of one array that a statement may touch by one access, in all its iterations.

    ``reach`` has the loops of the statement around it; ``text`` is what the user wrote.
    """

    array: str
    writes: bool
    reach: Reach
    sizes: tuple[Poly, ...]
    serial: tuple[Variable, ...]
    text: str

    @cached_property
    def key(self) -> str:
        """A text that two sections of one array share only where they are the same."""
        return f"{self.array} {self.writes} {self.reach!r} {self.serial!r}"

    @cached_property
    def sample(self) -> frozenset[tuple[int, ...]] | None:
        """The elements that it has where all extents are small; None where it may be any."""
        return _sample(self)


def apart(first: Section, second: Section) -> bool:
    """Whether two sections of one array have no element in common, for all sizes and arguments."""
    if _meet_in_sample(first, second):
        return False
    return answer_to(Question((), first.reach, second.reach, first.sizes, first.serial or second.serial)).never


# --- a sample: most sections that are not apart meet in small arrays -----------------------------------------------------


def _meet_in_sample(first: Section, second: Section) -> bool:
    # Most begin with the same element.
    begin, other = (next(_points(each), None) for each in (first, second))
    if begin is not None and begin == other:
        return True
    return first.sample is None or second.sample is None or not first.sample.isdisjoint(second.sample)


def _sample(region: Section) -> frozenset[tuple[int, ...]] | None:
    indices = region.reach.indices
    return None if indices is None or None in indices else frozenset(_points(region))


def _points(region: Section) -> Iterator[tuple[int, ...]]:
    """The elements of the sample, where the indices are known."""
    reach = region.reach
    sizes = [_value(size, {}) for size in region.sizes]
    known = reach.indices is not None and None not in reach.indices
    for values in itertools.islice(_iterations(reach.loops, {}), _MOST if known else 0):
        if _holds(reach.when, values):
            indices = [_value(index, values) for index in reach.indices or () if index is not None]
            pairs = list(zip(indices, sizes, strict=True))
            if all(-size <= index < size for index, size in pairs):
                yield tuple(index % size for index, size in pairs)


def _iterations(loops: Sequence[Variable], values: Mapping[Symbol, int]) -> Iterator[Mapping[Symbol, int]]:
    if not loops:
        yield values
        return
    first, *rest = loops
    start = 0 if first.start is None else _value(first.start, values)
    stop = _SIZE if first.stop is None else _value(first.stop, values)
    for value in range(start, stop, _value(first.step, values) or 1):
        yield from _iterations(rest, {**values, first.symbol: value})


def _value(poly: Poly, values: Mapping[Symbol, int]) -> int:
    return sum(c * math.prod(_of_symbol(symbol, values) for symbol in monomial) for monomial, c in poly.terms)


def _of_symbol(symbol: Symbol, values: Mapping[Symbol, int]) -> int:
    if symbol in values:
        return values[symbol]
    if symbol.operation == "":
        return {"size": _SIZE, "flag": 1}.get(symbol.kind, _ARGUMENT)
    if symbol.operation == "select":
        test, chosen, other = symbol.operands
        return _value(chosen if _holds(test, values) else other, values)
    return _OPERATIONS[symbol.operation](*(_value(operand, values) for operand in symbol.operands))


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "min": min,
    "max": max,
    "floor": lambda dividend, divisor: dividend // (divisor or 1),
    "mod": lambda dividend, divisor: dividend % (divisor or 1),
}


def _holds(condition: Condition, values: Mapping[Symbol, int]) -> bool:
    match condition:
        case Test(poly, equal):
            value = _value(poly, values)
            return value == 0 if equal else value >= 0
        case All(parts) | Any_(parts):
            return (all if isinstance(condition, All) else any)(_holds(part, values) for part in parts)
    return True
