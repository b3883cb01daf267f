"""Whether loops in another order keep all dependences: no two accesses that meet in an element change places in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from qgraph.frontend.dependence.access_collector import collect
from qgraph.frontend.facts.loop_facts import Access, Accesses, LoopFacts
from qgraph.polyhedral.dependence_test import answer_to
from qgraph.polyhedral.questions import Order, Question, Reach, Variable
from qgraph.polyhedral.symbolic_integers import HOST_KINDS, ONE, UNDECIDED, Poly, Symbol, symbols_of
from qgraph.records import dataclass

_KNOWN = (*HOST_KINDS, "serial", "variable", "derived")


@dataclass(frozen=True, slots=True)
class Moments:
    """A parallel loop in a serial one, whose variable is ``turn``; and when its iterations were in another program.

    ``before``: a vector by ``turn`` and the variable of the parallel loop, in lexicographic order. ``position``: of the loop in
    the serial one.
    """

    facts: LoopFacts
    turn: Variable
    position: int
    before: tuple[Poly, ...]


def keep_order(loops: Sequence[Moments]) -> bool:
    """Whether accesses of these loops that meet, one of which writes, are in the order in which they were."""
    touched = [_moved(each, collect(each.facts)) for each in loops]
    pairs = ((one, other) for one in zip(loops, touched, strict=True) for other in zip(loops, touched, strict=True))
    return all(_apart(question) for one, other in pairs for question in _questions(*one, *other))


def _apart(question: Question) -> bool:
    return answer_to(question).never


def _questions(first: Moments, one: Accesses, second: Moments, other: Accesses) -> Iterator[Question]:
    """Can an access of the first loop that came before one of the second no longer come before it?"""
    orders = Order(_before(first), "<", _before(second)), Order(_now(first), ">=", _now(second))
    memory = first.facts.memory
    for earlier, later in product(_distinct(one, first.facts), _distinct(other, second.facts)):
        if (earlier.writes or later.writes) and memory(earlier.array) == memory(later.array):
            sizes = first.facts.extents(earlier.array)
            yield Question((), earlier.reach, later.reach, sizes, _around(first), orders=orders)


def _turn(loop: Moments) -> Symbol:
    """The turn as a variable: it is another one for each of two accesses."""
    return Symbol.of(loop.turn.symbol, "variable")


def _before(loop: Moments) -> tuple[Poly, ...]:
    return tuple(number.substitute({loop.turn.symbol: _turn(loop).poly}) for number in loop.before)


def _now(loop: Moments) -> tuple[Poly, ...]:
    return _turn(loop).poly, Poly.const(loop.position)


def _around(loop: Moments) -> tuple[Variable, ...]:
    """The variables of the serial loops around both."""
    return tuple(each for each in loop.facts.serial if each.symbol != loop.turn.symbol)


def _distinct(touched: Accesses, facts: LoopFacts) -> list[Access]:
    found = {(facts.memory(access.array), access.writes, access.reach): access for access in touched.all}
    return [*found.values()]


def _moved(loop: Moments, touched: Accesses) -> Accesses:
    """The accesses with all loops to themselves, that over the turns and the parallel one included."""
    turn = _turn(loop)
    values = {loop.turn.symbol: turn.poly}
    around = (_variable(replace(loop.turn, symbol=turn), {}), *(_variable(each, values) for each in touched.variables))
    moved = (replace(access, reach=_reach(access.reach, around, values)) for access in touched.all)
    return replace(touched, all=tuple(moved))


def _reach(reach: Reach, around: tuple[Variable, ...], values: Mapping[Symbol, Poly]) -> Reach:
    indices = None if reach.indices is None else tuple(_known(index, values) for index in reach.indices)
    loops = (*around, *(_variable(each, values) for each in reach.loops))
    when = reach.when.substitute(values)
    if not _is_known(symbols_of([when])):
        when = UNDECIDED
    return Reach(indices, reach.wraps, loops, when)


def _variable(variable: Variable, values: Mapping[Symbol, Poly]) -> Variable:
    if variable.step.constant is None:
        return Variable(variable.symbol, None, None, ONE)
    return Variable(variable.symbol, _known(variable.start, values), _known(variable.stop, values), variable.step)


def _known(number: Poly | None, values: Mapping[Symbol, Poly]) -> Poly | None:
    """``number`` where it is the same in all turns but for what varies; what is read from memory may be another each time."""
    found = None if number is None else number.substitute(values)
    return found if found is not None and _is_known(symbols_of([found])) else None


def _is_known(symbols: frozenset[Symbol]) -> bool:
    return all(symbol.kind in _KNOWN for symbol in symbols)
