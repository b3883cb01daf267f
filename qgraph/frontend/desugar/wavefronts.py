"""Two nested serial loops in another order: along fronts, of which each is loops whose iterations may run at the same time.

What is in the inner loop, and what else is in the outer one, are the parts of a nest. In a *schedule* each part has a front,
an affine function of its iteration, such as ``j`` or ``i + j``; fronts come one behind the other, and in a front the parts.
Which schedules keep all dependences is not known here. Lamport, The parallel execution of DO loops (1974); Kelly and Pugh, A
unifying framework for iteration reordering transformations (1995).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from qgraph import language
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.names.bindings import Value
from qgraph.frontend.names.definite_assignment import names_assigned, names_read, read_before
from qgraph.frontend.names.program_builder import ADDED
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.trees import assign, at_place, load, names_in, parsed, stored, with_names
from qgraph.polyhedral.symbolic_integers import ONE, ZERO, Poly, Symbol
from qgraph.records import dataclass
from qgraph.source import copied, nodes_of, standing_for

# The number of the front, in polynomials and in the loops that are made.
FRONT = Symbol.of("_front", "argument")
_VARIABLE = f"{ADDED}front"
# What an iteration that may run beside others cannot do, or would do in another order.
_IN_ORDER = (ast.While, ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Assert, ast.With, ast.Try, ast.Match)
_OF_HOST = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Load)


@dataclass(frozen=True, slots=True)
class Part:
    """Loops over the iterations of one front, and when each of these was, by ``FRONT`` and the loop's variable, as written."""

    loop: ast.For
    before: tuple[Poly, ...]

    @property
    def variable(self) -> Symbol:
        """The loop's variable in ``before``."""
        assert isinstance(self.loop.target, ast.Name)
        return Symbol.of(self.loop.target.id, "argument")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The fronts of a nest: the loop over them, its parts in order, and how each part's front is found, for people."""

    loop: ast.For
    parts: tuple[Part, ...]
    text: str


@dataclass(frozen=True, slots=True)
class _Range:
    """A loop from ``low`` to below ``high``, upwards where ``sign`` is 1, downwards where it is -1."""

    variable: str
    low: Poly
    high: Poly
    sign: int

    @property
    def symbol(self) -> Symbol:
        return Symbol.of(self.variable, "argument")

    @property
    def inside(self) -> tuple[Poly, Poly]:
        """What is not negative of each value."""
        return self.symbol.poly - self.low, self.high - ONE - self.symbol.poly

    def extremes(self, number: Poly) -> tuple[Poly, Poly] | None:
        """What an affine function of the variable is at least and at most."""
        by = _coefficient(number, self.symbol)
        if by is None:
            return None
        ends = [number.substitute({self.symbol: end}) for end in (self.low, self.high - ONE)]
        return (ends[0], ends[1]) if by >= 0 else (ends[1], ends[0])


@dataclass(frozen=True, slots=True)
class _Item:
    """A part as written: statements of the outer loop, or those of a loop in it, of range ``inner``."""

    statements: Sequence[ast.stmt]
    inner: _Range | None
    serial: bool
    node: ast.stmt


def schedules_of(scope: Scope, node: ast.For) -> Iterator[Schedule]:
    """Those that may be worth it, the best one first; none for what is no nest of serial loops."""
    nest = _nest(scope, node)
    if nest is None:
        return
    outer, items = nest
    columns = [_signed(item.inner if item.serial and item.inner is not None else outer) for item in items]
    if len(items) == 1:
        # Whatever the word says, nothing may need the order of the inner loop.
        yield from _found(scope, node, outer, items, [_signed(outer)], [0])
    first_those_outside = sorted(range(len(items)), key=lambda at: items[at].serial)
    yield from _found(scope, node, outer, items, columns, first_those_outside)
    if first_those_outside != [*range(len(items))]:
        yield from _found(scope, node, outer, items, columns, [*range(len(items))])
    if len(items) == 1:
        for times in (1, 2):
            skewed = [_signed(outer) * Poly.const(times) + columns[0]]
            yield from _found(scope, node, outer, items, skewed, [0])


def _signed(over: _Range) -> Poly:
    """What grows by one from each iteration to the next."""
    return over.symbol.poly * Poly.const(over.sign)


# --- what a nest is ----------------------------------------------------------------------------------------------------


def _nest(scope: Scope, node: ast.For) -> tuple[_Range, list[_Item]] | None:
    outer = _range(scope, node, language.serial)
    if outer is None or any(isinstance(child, _IN_ORDER) for child in nodes_of(node)):
        return None
    items: list[_Item] = []
    for statement in node.body:
        serial = _range(scope, statement, language.serial)
        inner = serial or _range(scope, statement, None)
        if inner is not None:
            assert isinstance(statement, ast.For)
            items.append(_Item(statement.body, inner, serial is not None, statement))
        elif items and items[-1].inner is None:
            items[-1] = replace(items[-1], statements=[*items[-1].statements, statement])
        else:
            items.append(_Item([statement], None, False, statement))
    inside = [statement for item in items for statement in item.statements]
    if not any(item.serial for item in items) or _holds_serial(scope, inside):
        return None
    return (outer, items) if _is_private(scope, node, outer, items) else None


def _range(scope: Scope, node: ast.stmt, around: object) -> _Range | None:
    """The range of a loop ``for variable in range(...)``, with the word ``around`` it, where it is affine in names."""
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name) or node.orelse:
        return None
    call = node.iter
    if around is not None:
        if not isinstance(call, ast.Call) or quietly_static(scope, call.func) != Value(around) or len(call.args) != 1:
            return None
        call = call.args[0]
    if not isinstance(call, ast.Call) or quietly_static(scope, call.func) != Value(range) or call.keywords:
        return None
    bounds, sign = call.args, 1
    if len(bounds) == 3 and constant_of(bounds[2]) in (1, -1):
        bounds, sign = bounds[:2], constant_of(bounds[2]) or 1
    if len(bounds) not in (1, 2):
        return None
    start = ZERO if len(bounds) == 1 else _affine(bounds[0])
    end = _affine(bounds[-1])
    if start is None or end is None:
        return None
    low, high = (start, end) if sign > 0 else (end + ONE, start + ONE)
    return _Range(node.target.id, low, high, sign)


def _affine(node: ast.expr) -> Poly | None:
    """A sum of names and of what the host may know; what else there is of them is a symbol."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)):
            return Poly.const(value)
        case ast.Name(id=name):
            return Poly.symbol(name, "argument")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = _affine(operand)
            return None if found is None else -found
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            one, other = _affine(left), _affine(right)
            if one is None or other is None:
                return None
            if not isinstance(op, ast.Mult):
                return one + other if isinstance(op, ast.Add) else one - other
            if one.constant is not None or other.constant is not None:
                return one * other
    whole = all(isinstance(child, _OF_HOST) for child in nodes_of(node))
    shapes = [child for child in nodes_of(node) if isinstance(child, ast.Subscript)]
    if not whole or not all(isinstance(each.value, ast.Attribute) and each.value.attr == "shape" for each in shapes):
        return None
    return Poly.symbol(f"({ast.unparse(node)})", "argument")


def _holds_serial(scope: Scope, statements: Iterable[ast.stmt]) -> bool:
    calls = (child for each in statements for child in nodes_of(each) if isinstance(child, ast.Call))
    return any(quietly_static(scope, call.func) == Value(language.serial) for call in calls)


def _is_private(scope: Scope, node: ast.For, outer: _Range, items: Sequence[_Item]) -> bool:
    """Whether no number goes from one iteration of a part to another, or out of the nest; nor changes a range."""
    assert scope.frame is not None
    variables = {outer.variable, *(item.inner.variable for item in items if item.inner is not None)}
    assigned = names_assigned([node]).keys()
    inside = [names_assigned(item.statements).keys() for item in items]
    own = set[str]().union(*inside)
    loops = [outer, *(item.inner for item in items if item.inner is not None)]
    if own & variables or any(each.variable == outer.variable for each in loops[1:]):
        return False
    for item in items:
        # The variable of another loop is what it was last.
        others = variables - {outer.variable} - ({item.inner.variable} if item.inner is not None else set())
        if _needed(item.statements, own | others):
            return False
    symbols = {symbol for each in loops for bound in (each.low, each.high) for symbol in bound.symbols}
    changing = {symbol for symbol in symbols if names_in(parsed(symbol)) & assigned}
    if changing - {outer.variable} or outer.symbol in outer.low.symbols | outer.high.symbols:
        return False
    return not any(scope.frame.live_after(name, node) for name in assigned)


def _needed(statements: Sequence[ast.stmt], names: set[str]) -> bool:
    """Whether one of ``names`` may be read before ``statements`` assign it."""
    never = names_read(statements) & names - names_assigned(statements).keys()
    return bool(never) or read_before(statements, names) != []


# --- what a schedule is ------------------------------------------------------------------------------------------------


def _found(
    scope: Scope, node: ast.For, outer: _Range, items: Sequence[_Item], fronts: Sequence[Poly], order: Sequence[int]
) -> Iterator[Schedule]:
    """The schedule in which each item has one of ``fronts``, if its loops can be written."""
    extents = [_extremes(outer, item, front) for item, front in zip(items, fronts, strict=True)]
    known = [each for each in extents if each is not None]
    if len(known) < len(extents):
        return
    first, last = _only([low for low, _ in known], min), _only([high for _, high in known], max)
    parts = []
    for at in order:
        part = _part(scope, outer, items[at], at, fronts[at], first, last)
        if part is None:
            return
        parts.append(part)
    start, stop = (
        _joined(scope, name, [_source(end) for end in ends]) for name, ends in ((min, first), (max, [e + ONE for e in last]))
    )
    assert isinstance(node.iter, ast.Call)
    around = ast.Call(copied(node.iter.func), [standing_for(word(scope, range, start, stop), node.iter.args[0])], [])
    loop = ast.For(stored(_VARIABLE), standing_for(around, node.iter), [part.loop for part in parts], [])
    text = ", ".join(dict.fromkeys(str(front) for front in fronts))
    yield Schedule(at_place(loop, node), tuple(parts), text)


def _extremes(outer: _Range, item: _Item, front: Poly) -> tuple[Poly, Poly] | None:
    """The first and the last front of an item, in all iterations of the outer loop."""
    inner = (front, front) if item.inner is None else item.inner.extremes(front)
    if inner is None:
        return None
    low, high = (outer.extremes(each) for each in inner)
    return None if low is None or high is None else (low[0], high[1])


def _only(ends: Sequence[Poly], which: Callable[..., int]) -> list[Poly]:
    """The least, or the greatest, of ``ends``; those of which that is not known."""
    found: list[Poly] = []
    for end in ends:
        apart = [(end - other).constant for other in found]
        if any(each is not None and which(each, 0) == 0 for each in apart):
            continue
        found = [other for other, each in zip(found, apart, strict=True) if each is None] + [end]
    return found


def _part(
    scope: Scope, outer: _Range, item: _Item, at: int, front: Poly, first: Sequence[Poly], last: Sequence[Poly]
) -> Part | None:
    """The loop over the iterations of an item that are in front ``FRONT``."""
    i, inner = outer.symbol, item.inner
    skew = _coefficient(front, i)
    assert skew is not None
    # What the variables are, by the front and the one that goes over its iterations.
    if inner is None or _coefficient(front, inner.symbol) == 0:
        values = {i: FRONT.poly * Poly.const(outer.sign)}
        over = outer if inner is None else inner
    else:
        along = (FRONT.poly - i.poly * Poly.const(skew)) * Poly.const(inner.sign)
        values, over = {inner.symbol: along}, outer
    inside = [*outer.inside, *(() if inner is None else inner.inside)]
    if inner is None:
        # One iteration, of a loop over the variable itself.
        inside += [i.poly - values[i], values[i] - i.poly]
        tests = inside
    else:
        tests = [test.substitute(values) for test in inside]
    lows, highs = [], []
    for test in tests:
        by = _coefficient(test, over.symbol)
        if by is None:
            return None
        rest = test - over.symbol.poly * Poly.const(by)
        if by == 0 and not _holds(rest, first, last):
            return None
        if by > 0:
            lows.append((rest, by))
        elif by < 0:
            highs.append((rest, -by))
    low = [_ceiling(rest, by) for rest, by in _tightest(lows, first, last)]
    high = [_floor(rest, by) for rest, by in _tightest(highs, first, last)]
    bounds = _joined(scope, max, low), _joined(scope, min, high)
    numbers = Poly.const(outer.sign) * i.poly, Poly.const(at), ZERO if inner is None else _signed(inner)
    before = tuple(number.substitute(values) for number in numbers)
    body = _body(item, {} if inner is None else values)
    loop = ast.For(stored(over.variable), word(scope, range, *bounds), body, [])
    return Part(at_place(loop, item.node), before)


def _body(item: _Item, values: dict[Symbol, Poly]) -> list[ast.stmt]:
    """The statements of an item, in which a variable is what it is in its front."""
    statements = [copied(statement) for statement in item.statements]
    for symbol, value in values.items():
        number = _named(value)
        if isinstance(number, ast.Name):
            statements = [at_place(with_names(each, {symbol: number}), each) for each in statements]
        else:
            statements.insert(0, assign(str(symbol), number, item.node))
    return statements


def _coefficient(number: Poly, symbol: Symbol) -> int | None:
    """How often ``symbol`` is in an affine number; None where it is part of a product."""
    with_it = {monomial: by for monomial, by in number.terms if symbol in monomial}
    if any(len(monomial) > 1 for monomial in with_it):
        return None
    return with_it.get((symbol,), 0)


def _holds(number: Poly, first: Sequence[Poly], last: Sequence[Poly]) -> bool:
    """Whether ``number``, affine in the front, is not negative in any front."""
    by = _coefficient(number, FRONT)
    if by is None:
        return False
    ends = [number.substitute({FRONT: end}).constant for end in (first if by >= 0 else last)]
    return all(end is not None and end >= 0 for end in ends)


def _tightest(tests: Sequence[tuple[Poly, int]], first: Sequence[Poly], last: Sequence[Poly]) -> list[tuple[Poly, int]]:
    """The tests ``rest + by * variable >= 0``, or of ``- by``, without those that others of the same ``by`` imply."""
    found: list[tuple[Poly, int]] = []
    for rest, by in tests:
        if any(each == by and _holds(rest - other, first, last) for other, each in found):
            continue
        found = [(other, each) for other, each in found if each != by or not _holds(other - rest, first, last)]
        found.append((rest, by))
    return found


def _ceiling(rest: Poly, by: int) -> ast.expr:
    """The least number with ``rest + by * number >= 0``."""
    if by == 1:
        return _named(-rest)
    return ast.UnaryOp(ast.USub(), ast.BinOp(_named(rest), ast.FloorDiv(), ast.Constant(by)))


def _floor(rest: Poly, by: int) -> ast.expr:
    """One more than the greatest number with ``rest - by * number >= 0``."""
    if by == 1:
        return _named(rest + ONE)
    return ast.BinOp(ast.BinOp(_named(rest), ast.FloorDiv(), ast.Constant(by)), ast.Add(), ast.Constant(1))


def _joined(scope: Scope, function: object, parts: Sequence[ast.expr]) -> ast.expr:
    return parts[0] if len(parts) == 1 else word(scope, function, *parts)


def _named(number: Poly) -> ast.expr:
    return with_names(_source(number), {FRONT: load(_VARIABLE)})


def _source(number: Poly) -> ast.expr:
    return parsed(number.spelled())
