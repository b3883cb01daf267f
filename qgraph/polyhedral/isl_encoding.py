"""A dependence question as text of isl: sets of pairs of iterations, with sizes and unknown values as parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

import islpy

from qgraph.polyhedral.delinearisation import Level, holds, levels_of
from qgraph.polyhedral.questions import Order, Question, Variable
from qgraph.polyhedral.symbolic_integers import (
    HOST_KINDS,
    All,
    Any_,
    Condition,
    Monomial,
    Poly,
    Symbol,
    Test,
    symbols_of,
)


class _NotAffine(Exception):  # noqa: N818 - no error: it is then left out
    """A product of symbols, or a symbol that isl cannot be told of."""


class Encoder:
    """One of the two sets of a question, as isl reads it.

    Dimensions: ``v0 v1 ...`` and ``w0 w1 ...`` are the axes on the two sides, ``el0 ...`` the element; then inner loops and
    derived integers. Parameters are ``p0 p1 ...``.
    """

    def __init__(self, question: Question, context: islpy.Context, parameters: dict[Poly, str], *, sure: bool) -> None:
        self._question = question
        self._reaches = (question.first, question.second)
        self._context = context
        self._sure = sure
        # What holds of a constraint that is not known.
        self._unknown = "false" if sure else "true"
        self._parameters = parameters
        self._dims: dict[tuple[Symbol, int], str] = {}
        self._auxiliary: list[str] = []
        # By derived symbol and side: the integer that it is; by dividend, divisor and side: the quotient and what is left.
        self._selections: dict[tuple[Symbol, int], str] = {}
        self._divisions: dict[tuple[Poly, Poly, int], tuple[str, str]] = {}
        self._defined: list[str] = []

    # --- the set ---

    def conflicts(self) -> islpy.Set:
        """The pairs of iterations that conflict, with the element."""
        question = self._question
        for at, axis in enumerate(question.axes):
            self._dims[axis.symbol, 0], self._dims[axis.symbol, 1] = f"v{at}", f"w{at}"
        domain: list[str] = []
        for side, reach in enumerate(self._reaches):
            domain += [self._range(variable, side) for variable in (*question.axes, *reach.loops)]
            domain.append(self._condition(reach.when, side))
        domain += [self._range(variable, 0) for variable in question.serial]
        if question.axes:
            domain.append("(" + " or ".join(f"v{at} != w{at}" for at in range(len(question.axes))) + ")")
        domain += map(self._ordered, question.orders)
        return self._set([*domain, *self._equations(domain), *self._tickets()])

    def _set(self, parts: Sequence[str]) -> islpy.Set:
        sides = [f"{side}{at}" for side in "vw" for at in range(len(self._question.axes))]
        element = [f"el{at}" for at in range(len(self._question.sizes))]
        dims = dict.fromkeys([*sides, *element, *self._dims.values(), *self._auxiliary])
        body = " and ".join([*parts, *self._defined, *self._signs().values()])
        text = f"[{', '.join(self._parameters.values())}] -> {{ [{', '.join(dims)}] : {body} }}"
        return islpy.Set.read_from_str(self._context, text)

    def around(self) -> islpy.Set:
        """What holds for the parameters that the host knows, whatever the call."""
        signs = [text for poly, text in self._signs().items() if _is_of_host(poly)]
        names = [name for poly, name in self._parameters.items() if _is_of_host(poly)]
        return islpy.Set.read_from_str(self._context, f"[{', '.join(names)}] -> {{ : {' and '.join(signs) or 'true'} }}")

    def device_parameters(self, indices: Collection[Symbol]) -> tuple[list[str], list[str]]:
        """The parameters that only the device knows: those of which ``indices`` depend, and those that only limit ranges."""
        found: tuple[list[str], list[str]] = [], []
        for poly, name in self._parameters.items():
            symbols = {symbol for symbol in poly.symbols if symbol.kind == "device"}
            if symbols:
                found[symbols.isdisjoint(indices)].append(name)
        return found

    def serial_parameters(self) -> list[str]:
        """The parameters that change from one iteration of a serial loop around to the next."""
        kinds = ((name, {symbol.kind for symbol in poly.symbols}) for poly, name in self._parameters.items())
        return [name for name, found in kinds if "serial" in found and "device" not in found]

    def host_parameters(self) -> list[tuple[str, str, str]]:
        """(name, host expression, what the user calls it) of the parameters that the host knows."""
        return [(name, source_of(poly), str(poly)) for poly, name in self._parameters.items() if _is_of_host(poly)]

    # --- elements ---

    def _equations(self, domain: Sequence[str]) -> list[str]:
        question = self._question
        first, second = question.first.indices, question.second.indices
        if first is None or second is None or len(first) != len(second):
            return [self._unknown]
        found: list[str] = []
        for at, size in enumerate(question.sizes):
            indices, wraps = (first[at], second[at]), [reach.wraps[at] for reach in self._reaches]
            try:
                places = [self._place(indices[side], f"el{at}", size, side, wraps=wraps[side]) for side in (0, 1)]
                found += [*places, self._inside(at, size, indices)]
            except _NotAffine:
                found += self._by_strides(*indices, wraps, domain)
        return found

    def _place(self, index: Poly | None, element: str, size: Poly, side: int, *, wraps: bool) -> str:
        if index is None:
            return self._unknown
        text = self._linear(index, side)
        if not wraps:
            return f"{element} = {text}"
        return f"((0 <= {text} and {element} = {text}) or ({text} < 0 and {element} = {text} + {self._linear(size, side)}))"

    def _inside(self, at: int, size: Poly, indices: Sequence[Poly | None]) -> str:
        """That the element exists. Whatever the device's numbers are, they are no reason why iterations should not meet."""
        known = [index for index in indices if index is not None]
        if self._sure and any(symbol.kind == "device" for symbol in symbols_of(known)):
            return "true"
        try:
            return f"0 <= el{at} < {self._linear(size, 0)}"
        except _NotAffine:
            return f"0 <= el{at}"

    def _by_strides(self, first: Poly | None, second: Poly | None, wraps: Sequence[bool], domain: Sequence[str]) -> list[str]:
        unknown = [self._unknown]
        if first is None or second is None:
            return unknown
        one, other = self._own_steps(first, 0), self._own_steps(second, 1)
        if one == other and wraps[0] == wraps[1]:
            # It does not change, whatever it is.
            return []
        if any(wraps[side] and not self._is_natural(index, side, domain) for side, index in enumerate((first, second))):
            return unknown
        levels = levels_of(one - other)
        with suppress(_NotAffine):
            if levels is not None:
                equations = [f"{self._linear(level.part, 0)} = 0" for level in levels]
                if self._sure or self._separate(levels, domain):
                    return equations
        return unknown

    def _is_natural(self, index: Poly, side: int, domain: Sequence[str]) -> bool:
        """Whether an index is a sum of products of which no factor is negative where both accesses happen."""
        try:
            negative = [f"{self._symbol(symbol, side)} < 0" for symbol in index.symbols]
        except _NotAffine:
            return False
        if any(c < 0 for _, c in index.terms):
            return False
        return all(self._set([*domain, each]).is_empty() for each in negative)

    def _separate(self, levels: Sequence[Level], domain: Sequence[str]) -> bool:
        def below(part: Poly, limit: Poly) -> bool:
            text, most = self._linear(part, 0), self._linear(limit, 0)
            return bool(self._set([*domain, f"({text} >= {most} or {text} <= -({most}))"]).is_empty())

        def nonzero(stride: Poly) -> bool:
            if stride in self._question.nonzero or -stride in self._question.nonzero:
                return True
            return bool(self._set([*domain, f"{self._linear(stride, 0)} = 0"]).is_empty())

        return holds(levels, below, nonzero)

    def _own_steps(self, index: Poly, side: int) -> Poly:
        """``index`` over variables of one side, those of symbolic steps by what they count."""
        values: dict[Symbol, Poly] = {}
        for variable in (*self._question.axes, *self._reaches[side].loops):
            if variable.step.constant is None and variable.start is not None:
                values[variable.symbol] = variable.start.substitute(values) + variable.step * _sided(_counter(variable), side)
            else:
                values[variable.symbol] = _sided(variable.symbol, side)
        return index.substitute(values)

    # --- loops and conditions ---

    def _range(self, variable: Variable, side: int) -> str:
        step = variable.step.constant
        name = self._symbol(variable.symbol, side)
        with suppress(_NotAffine):
            if step is None:
                return self._counted(variable, side)
            from_, until, lowest = (">=", "<", variable.start) if step > 0 else ("<=", ">", variable.stop)
            start = None if variable.start is None else self._linear(variable.start, side)
            parts = [] if start is None else [f"{name} {from_} {start}"]
            if variable.stop is not None:
                parts.append(f"{name} {until} {self._linear(variable.stop, side)}")
            if self._sure and (lowest is None or _on_device(lowest)):
                # It counts as large, and no index as one that counts from the end.
                parts.append(f"{name} >= 0")
            if abs(step) != 1:
                base = start or (self._dimension(variable.symbol, 0) if side else name)
                if base != name:
                    parts.append(f"({name} - ({base})) mod {abs(step)} = 0")
            return " and ".join(parts) or "true"
        return self._unknown

    def _counted(self, variable: Variable, side: int) -> str:
        """A range with a symbolic step, by the number of the iteration."""
        counter = self._dimension(_counter(variable), side)
        name = self._dimension(variable.symbol, side)
        value, number = self._dimension(variable.symbol, 0), self._dimension(_counter(variable), 0)
        parts = [f"{counter} >= 0"]
        if variable.count is not None:
            parts.append(f"{counter} < {self._linear(variable.count, side)}")
        elif self._sure:
            raise _NotAffine
        if not self._sure and variable.start is not None and variable.stop is not None:
            # Whichever way it counts, it stays between the two.
            start, stop = self._linear(variable.start, side), self._linear(variable.stop, side)
            parts.append(f"(({start} <= {name} < {stop}) or ({stop} < {name} <= {start}))")
        if self._sure and self._uses(variable, side):
            # Its other values are products of the step.
            assert variable.start is not None
            parts.append(f"{counter} = 0 and {name} = {self._linear(variable.start, side)}")
        if side and any(axis is variable for axis in self._question.axes):
            # Other values are other iterations: the step is not 0.
            same, other = (f"{name} {sign} {value} and {counter} {sign} {number}" for sign in ("=", "!="))
            parts.append(f"(({same}) or ({other}))")
        return " and ".join(parts)

    def _uses(self, variable: Variable, side: int) -> bool:
        """Whether it matters to the access of a side which value a variable has."""
        reach = self._reaches[side]
        bounds = [bound for loop in reach.loops for bound in (loop.start, loop.stop, loop.step)]
        known = [part for part in (*(reach.indices or ()), *bounds) if part is not None]
        return variable.symbol in symbols_of([*known, reach.when])

    def _condition(self, condition: Condition, side: int) -> str:
        match condition:
            case Test(poly, equal):
                with suppress(_NotAffine):
                    if not _on_device(poly):
                        return f"{self._linear(poly, side)} {'=' if equal else '>='} 0"
            case All(parts) | Any_(parts):
                return f"({f' {condition.operator} '.join(self._condition(part, side) for part in parts) or condition.empty})"
        return self._unknown

    def _ordered(self, order: Order) -> str:
        equal: list[str] = []
        ways: list[str] = []
        for one, other in zip(order.first, order.second, strict=True):
            first, second = self._linear(one, 0), self._linear(other, 1)
            ways.append(" and ".join([*equal, f"{first} {order.sign[0]} {second}"]))
            equal.append(f"{first} = {second}")
        if order.sign == ">=":
            ways.append(" and ".join(equal))
        return "(" + " or ".join(f"({way})" for way in ways) + ")"

    def _tickets(self) -> list[str]:
        """What an atomic counter was is different on the two sides, by what was added to it at least."""
        found = []
        for (symbol, side), one in self._dims.items():
            other = self._dims.get((symbol, 1))
            if symbol.kind == "ticket" and side == 0 and other and self._question.axes:
                by = symbol.operands[0].constant
                found.append(f"({one} + {by} <= {other} or {other} + {by} <= {one})")
        return found

    # --- integers ---

    def _linear(self, poly: Poly, side: int) -> str:
        """A polynomial as isl reads it.

        Raises:
            _NotAffine: it is none that isl can hold.
        """
        return f"({' + '.join(f'{c} * {self._product(monomial, side)}' for monomial, c in poly.terms) or '0'})"

    def _product(self, monomial: Monomial, side: int) -> str:
        if not monomial:
            return "1"
        if len(monomial) == 1:
            return self._symbol(monomial[0], side)
        if any(name.varies or name.kind == "derived" for name in monomial):
            raise _NotAffine
        return self._parameter(Poly(((monomial, 1),)))

    def _symbol(self, symbol: Symbol, side: int) -> str:
        if symbol.kind == "derived":
            return self._derived(symbol, side)
        if isinstance(symbol, _Sided):
            return self._symbol(symbol.symbol, symbol.side)
        if symbol.varies:
            return self._dimension(symbol, side)
        return self._parameter(symbol.poly)

    def _parameter(self, poly: Poly) -> str:
        return self._parameters.setdefault(poly, f"p{len(self._parameters)}")

    def _dimension(self, symbol: Symbol, side: int) -> str:
        return self._dims.setdefault((symbol, side), f"d{len(self._dims)}")

    def _derived(self, symbol: Symbol, side: int) -> str:
        operands = symbol.operands
        if symbol.operation in ("min", "max"):
            return f"{symbol.operation}({', '.join(self._linear(operand, side) for operand in operands)})"
        if symbol.operation == "floor" and operands[1].constant:
            return f"floor({self._linear(operands[0], side)}/{operands[1].constant})"
        side = side if symbol.varies else 0
        if symbol.operation == "select":
            return self._selected(symbol, side)
        return self._divided(symbol, side)

    def _selected(self, symbol: Symbol, side: int) -> str:
        if (symbol, side) in self._selections:
            return self._selections[symbol, side]
        condition, first, second = symbol.operands
        if any(_on_device(poly) for poly in condition.polys()):
            raise _NotAffine
        tests = [self._condition(each, side) for each in (condition, condition.negated())]
        values = [self._linear(each, side) for each in (first, second)]
        name = self._selections[symbol, side] = self._new()
        either = " or ".join(f"({test} and {name} = {value})" for test, value in zip(tests, values, strict=True))
        self._defined.append(f"({either})")
        return name

    def _new(self) -> str:
        self._auxiliary.append(f"a{len(self._auxiliary)}")
        return self._auxiliary[-1]

    def _divided(self, symbol: Symbol, side: int) -> str:
        """``e // s`` or ``e % s`` by a symbol: exact where ``-s <= e < 2 * s``, where the quotient is -1, 0 or 1."""
        dividend, divisor = symbol.operands
        key = dividend, divisor, side
        if key not in self._divisions:
            e, s = self._linear(dividend, side), self._linear(divisor, side)
            quotient, rest = self._divisions[key] = self._new(), self._new()
            ways = [f"({quotient} = {q} and {rest} = {e} - {q} * {s})" for q in (-1, 0, 1)]
            if not self._sure:
                ways += [f"{e} >= 2 * {s}", f"{e} < -{s}"]
            defined = f"(0 <= {rest} < {s} and ({' or '.join(ways)}))"
            self._defined.append(defined if self._sure else f"({defined} or {s} <= 0)")
            if side and not self._sure and symbol.varies:
                self._relate_quotients(dividend, divisor)
        return self._divisions[key][symbol.operation == "mod"]

    def _relate_quotients(self, dividend: Poly, divisor: Poly) -> None:
        """Two values divided by one number: the quotients grow with them, and what is left tells them apart."""
        if (dividend, divisor, 0) not in self._divisions or divisor.varies:
            return
        (q, r), (other_q, other_r) = (self._divisions[dividend, divisor, side] for side in (0, 1))
        e, other_e = self._linear(dividend, 0), self._linear(dividend, 1)
        equal = f"({q} = {other_q} and {e} - {other_e} = {r} - {other_r})"
        self._defined.append(f"({equal} or ({q} > {other_q} and {e} > {other_e}) or ({q} < {other_q} and {e} < {other_e}))")

    # --- parameters ---

    def _signs(self) -> dict[Poly, str]:
        found = {}
        for poly, name in self._parameters.items():
            kinds = {symbol.kind for symbol in poly.symbols}
            if kinds == {"size"}:
                found[poly] = f"{name} >= 0"
            elif kinds == {"flag"}:
                found[poly] = f"0 <= {name} <= 1"
            elif poly in self._question.nonzero:
                found[poly] = f"{name} != 0"
        return found


class _Sided(Symbol):
    """A varying symbol in the iteration of one side."""

    __slots__ = ("side", "symbol")

    symbol: Symbol
    side: int


def _sided(symbol: Symbol, side: int) -> Poly:
    found = _Sided(f"{symbol}{chr(39) * side}")
    found.kind, found.operation, found.operands, found.varies = "variable", "", (), True
    found.symbol, found.side = symbol, side
    return found.poly


def _counter(variable: Variable) -> Symbol:
    """The number of the iteration of a loop whose step is no constant."""
    return Symbol.of(f"{variable.symbol}.count", "variable")


def _is_of_host(poly: Poly) -> bool:
    return all(symbol.kind in HOST_KINDS for symbol in poly.symbols)


def _on_device(poly: Poly) -> bool:
    return any(symbol.kind == "device" for symbol in symbols_of([poly]))


def source_of(poly: Poly) -> str:
    """A product of symbols that the host knows, as it computes it."""
    ((monomial, _),) = poly.terms
    return " * ".join(_source(symbol) for symbol in monomial)


def _source(symbol: Symbol) -> str:
    if symbol.kind == "flag":
        return f"int({symbol})"
    return symbol.lstrip("#") if symbol.lstrip("#").isidentifier() or symbol.kind == "size" else f"({symbol})"
