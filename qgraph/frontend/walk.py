"""Every access to an array that a parallel loop makes, in program order, with its indices as symbolic integers.

A walk over the body with an environment: what each private name holds (an integer, a view of an array, a tuple). A value that
cannot be followed is unknown, and an array that may be reached through it is never lost: it is then accessed "somewhere".
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qgraph import language
from qgraph.frontend.accesses import Access, Accesses, Axis, Kind, LoopFacts, Variable
from qgraph.frontend.affine import ONE, Poly
from qgraph.frontend.definite import names_assigned
from qgraph.frontend.indexing import WRITTEN
from qgraph.frontend.limits import most_of
from qgraph.frontend.ranks import is_ellipsis, parts_of
from qgraph.frontend.symbolic import (
    UNKNOWN,
    Dim,
    Env,
    Index,
    Value,
    View,
    constant,
    first_unknown,
    integer,
    is_float,
    is_integral,
    join,
    join_envs,
    opaque,
    vague,
    views_in,
    without_elements,
)
from qgraph.program import Function
from qgraph.source import Span, copied

# Deeper calls are not followed: what they are given is then accessed "somewhere".
_MAX_DEPTH = 12

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.MatMult: "@",
}
_METADATA = frozenset({"shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides"})
_READING_METHODS = frozenset(
    {"sum", "min", "max", "mean", "any", "all", "dot", "copy", "item", "std", "var", "prod", "argmin", "argmax", "astype"}
)
_WRITING_FUNCTIONS = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"})
_OF_NUMBERS = (min, max, abs, len, round, language.wrapped, language.at_least, language.trip_count)
_ELEMENTWISE_MODULES = ("math", "cmath", "builtins", "operator", "_operator")


def collect(facts: LoopFacts) -> Accesses:
    """All accesses of a loop to its array leaves. Two walks: the first finds which arrays the loop leaves unchanged."""
    everything = frozenset(facts.same.get(leaf, leaf) for leaf in facts.ndim)
    first = _walk(facts, everything, texts=False)
    return _walk(facts, frozenset(facts.same.get(leaf, leaf) for leaf in first.written))


def _walk(facts: LoopFacts, written: frozenset[str], *, texts: bool = True) -> Accesses:
    walker = _Walker(facts, written, texts=texts)
    variables = tuple(walker.axis(at, axis) for at, axis in enumerate(facts.axes))
    walker.axes = variables
    symbols = [integer(Poly.symbol(variable.symbol)) for variable in variables]
    for axis, value in zip(facts.axes, symbols, strict=True):
        walker.env[axis.variable] = value
    if facts.index_tuple:
        # An ndrange of one axis yields the integer itself.
        walker.env[facts.index_tuple] = symbols[0] if len(symbols) == 1 else Value(items=tuple(symbols))
    starts = []
    for statement in facts.body:
        starts.append(len(walker.accesses))
        walker.statement(statement)
    return Accesses(variables, tuple(walker.accesses), tuple(starts), walker.most)


@dataclass(slots=True)
class _Frame:
    """The function that is being walked: its globals and its file; ``call`` is None in the loop itself."""

    names: Mapping[str, object]
    file: str
    call: Span | None
    locals: frozenset[str]
    loops: int
    returned: list[Value]


class _Walker:
    def __init__(self, facts: LoopFacts, written: frozenset[str], *, texts: bool) -> None:
        self.facts = facts
        self.written = written
        # Whether accesses get the words of the user.
        self.texts = texts
        self.accesses: list[Access] = []
        self.env: Env = {}
        self.axes: tuple[Variable, ...] = ()
        self.loops: tuple[Variable, ...] = ()
        self.guards = 0
        # Set after a continue, break or return that may have happened: what follows may not.
        self.escaped = False
        # The expression whose value nothing takes.
        self.unused: ast.expr | None = None
        self.counter = len(facts.axes)
        self.depth = 0
        # Numbers that extents never exceed, by symbol.
        self.most = dict(facts.most)
        self.frame = _Frame(facts.names, facts.file, None, frozenset(names_assigned(facts.body)), 0, [])

    def axis(self, at: int, axis: Axis) -> Variable:
        """An axis as a variable; a bound that is not a polynomial was read once, before the loop: a symbol of its own."""
        bounds = []
        for which, node in (("start", axis.start), ("stop", axis.stop), ("step", axis.step)):
            poly = self.expression(node).poly
            bounds.append(Poly.symbol(f"{which} of axis {at}") if poly is None or poly.varies else poly)
            self.limit(bounds[-1], node)
        self.accesses.clear()  # Bounds are read before the loop, not in it.
        return Variable(f"{axis.variable}@{at}", bounds[0], bounds[1], bounds[2])

    def limit(self, poly: Poly | None, node: ast.expr) -> None:
        """Note how large a bound that is one symbol and a constant can be."""
        symbols = poly.symbols if poly is not None and not poly.varies else frozenset()
        parts = poly.split(*symbols) if poly is not None and len(symbols) == 1 else None
        most = most_of(node, self.resolve, self.facts.most) if parts is not None else None
        if parts is not None and most is not None and parts[0] == ONE:
            (symbol,) = symbols
            most -= parts[1].constant or 0
            self.most[symbol] = min(most, self.most.get(symbol, most))

    # --- recording ---

    def record(self, view: View, kind: Kind, node: ast.AST, sign: str = "", *, maybe: bool = False) -> None:
        place = node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(node, ast.Assign) else node
        self.accesses.append(
            Access(
                array=view.array,
                kind=kind,
                operator=sign,
                indices=view.dims,
                guarded=maybe or self.escaped or self.guards > 0,
                node=node,
                span=Span.of(node, self.frame.file),
                text=self.text(place) if self.texts else "",
                loops=self.loops,
                facts=view.facts,
                call=self.frame.call,
                discarded=kind == "atomic" and self.unused is node,
            )
        )

    def text(self, node: ast.AST) -> str:
        """The source of ``node`` with its names as the user writes them."""
        return user_text(node, self.facts.paths)

    def record_all(self, value: Value, kind: Kind, node: ast.AST, sign: str = "", *, maybe: bool = False) -> None:
        views = views_in([value])
        for view in sorted(views, key=repr):
            self.record(view, kind, node, sign, maybe=maybe or len(views) > 1)

    def use(self, node: ast.expr) -> Value:
        """Evaluate ``node`` where its whole value is read."""
        value = self.expression(node)
        self.record_all(value, "read", node)
        return value if not views_in([value]) else UNKNOWN

    def size(self, array: str, dim: int) -> Poly:
        return Poly.symbol(f"#{self.facts.same.get(array, array)}.shape[{dim}]")

    # --- statements ---

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        _STATEMENTS.get(type(node), _Walker.anything)(self, node)

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.expression(node.value), node.value)

    def if_statement(self, node: ast.If) -> None:
        self.use(node.test)
        self.branches([node.body, node.orelse])

    def while_loop(self, node: ast.While) -> None:
        self.repeat(node.body, test=node.test)
        self.branches([node.orelse, []])

    def leave(self, node: ast.Break | ast.Continue | ast.Return) -> None:
        """What follows may not happen."""
        if isinstance(node, ast.Return):
            value = UNKNOWN if node.value is None else self.expression(node.value)
            # Outside a loop its variable means nothing.
            self.frame.returned.append(value if len(self.loops) == self.frame.loops else vague([value]))
        self.escaped = True

    def bare(self, node: ast.Expr) -> None:
        self.unused = node.value
        self.expression(node.value)

    def anything(self, node: ast.AST) -> None:
        """A statement of no interest here (or refused elsewhere): its parts, each of which may not run."""
        self.guards += 1
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.arguments):
                self.env.update((place.arg, UNKNOWN) for place in ast.walk(child) if isinstance(place, ast.arg))
            elif isinstance(child, ast.stmt):
                self.statement(child)
            elif isinstance(child, ast.expr):
                self.use(child)
            else:
                self.anything(child)
        self.guards -= 1

    def branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        """Alternatives: each may not run."""
        before, ends = self.env, []
        self.guards += 1
        for body in bodies:
            self.env = dict(before)
            self.block(body)
            ends.append(self.env)
        self.guards -= 1
        self.env = ends[0]
        for end in ends[1:]:
            self.env = join_envs(self.env, end)

    def match(self, node: ast.Match) -> None:
        subject = self.use(node.subject)
        for name in names_assigned(case.pattern for case in node.cases):
            self.env[name] = vague([subject])
        for case in node.cases:
            if case.guard is not None:
                self.guarded(case.guard)
        self.branches([case.body for case in node.cases] + [[]])

    def assign(self, node: ast.Assign) -> None:
        change = self.minimum_update(node)
        if change is not None:
            sign, operand = change
            self.use(operand)
            self.update(node, node.targets[0], sign)
            return
        value = self.expression(node.value)
        for target in node.targets:
            self.store(target, value, node.value)

    def minimum_update(self, node: ast.Assign) -> tuple[str, ast.expr] | None:
        """("min" or "max", e) of ``a[k] = min(a[k], e)``."""
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Subscript) or not isinstance(node.value, ast.Call):
            return None
        call = node.value
        function = self.resolve(call.func)
        sign = "min" if function is min else "max" if function is max else ""
        if not sign or len(call.args) != 2 or call.keywords or not self.is_repeatable(target):
            return None
        text = ast.unparse(target)
        others = [argument for argument in call.args if ast.unparse(argument) != text]
        return (sign, others[0]) if len(others) == 1 else None

    def is_repeatable(self, node: ast.AST) -> bool:
        """Whether evaluating ``node`` twice is the same as once: it assigns nothing, and calls only functions of numbers."""
        calls = (child for child in ast.walk(node) if isinstance(child, ast.Call | ast.NamedExpr))
        return all(isinstance(call, ast.Call) and _is_of_numbers(self.resolve(call.func)) for call in calls)

    def augmented(self, node: ast.AugAssign) -> None:
        sign = _OPERATORS[type(node.op)]
        if isinstance(node.target, ast.Name):
            old = self.name(node.target)
            if views_in([old]):  # In place, on the array that the name stands for.
                self.use(node.value)
                self.record_all(old, "read", node.target)
                self.record_all(old, "write", node.target)
            else:
                self.env[node.target.id] = self.binary(node.op, old, self.use(node.value))
            return
        self.use(node.value)
        if isinstance(node.target, ast.Subscript):
            self.update(node, node.target, sign)
        else:
            self.use(node.target)
            self.store(node.target, UNKNOWN, node.value)

    def update(self, node: ast.AugAssign | ast.Assign, target: ast.expr, sign: str) -> None:
        assert isinstance(target, ast.Subscript)
        value = self.subscript(target)
        views = views_in([value])
        for view in sorted(views, key=repr):
            if view.is_element:
                self.record(view, "update", node, sign, maybe=len(views) > 1)
            else:
                self.record(view, "read", target, maybe=len(views) > 1)
                self.record(view, "write", target, maybe=len(views) > 1)

    def store(self, target: ast.expr, value: Value, source: ast.expr) -> None:
        match target:
            case ast.Name():
                self.read_elements(value, source)
                self.env[target.id] = without_elements(value)
            case ast.Tuple() | ast.List():
                items = value.items
                plain = not any(isinstance(item, ast.Starred) for item in target.elts)
                for at, item in enumerate(target.elts):
                    if plain and items is not None and len(items) == len(target.elts):
                        self.store(item, items[at], source)
                    else:
                        self.store(item, vague([value]), source)
            case ast.Starred():
                self.store(target.value, vague([value]), source)
            case ast.Subscript():
                self.record_all(value, "read", source)
                self.record_all(self.subscript(target), "write", target)
            case ast.Attribute():
                self.record_all(value, "read", source)
                self.record_all(vague([self.expression(target.value)]), "write", target)
            case _:
                self.record_all(value, "read", source)

    def read_elements(self, value: Value, node: ast.AST) -> None:
        for view in sorted(views_in([value]), key=repr):
            if view.is_element:
                self.record(view, "read", node)

    def for_loop(self, node: ast.For) -> None:
        targets, bounded = self.iterate(node.iter, node.target)
        outer = self.loops
        self.loops = outer + targets
        self.repeat(node.body, target=node.target, value=self.iterated, sure=bounded)
        self.loops = outer
        self.branches([node.orelse, []])

    iterated: Value = UNKNOWN

    def repeat(
        self,
        body: Sequence[ast.stmt],
        *,
        test: ast.expr | None = None,
        target: ast.expr | None = None,
        value: Value = UNKNOWN,
        sure: bool = False,
    ) -> None:
        """A loop inside the iteration. Names that it assigns are unknown at its head, views being all they may become."""
        sure = sure and not _may_leave(body)
        returns = any(isinstance(child, ast.Return) for statement in body for child in ast.walk(statement))
        changed = names_assigned(body).keys() | (names_assigned([test]).keys() if test is not None else frozenset())
        head = {name: vague([held]) if name in changed else held for name, held in self.env.items()}
        escaped, count, counter = self.escaped, len(self.accesses), self.counter
        while True:
            self.env = dict(head)
            self.guards += not sure
            if test is not None:
                self.use(test)
            if target is not None:
                self.store(target, value, target)
            self.block(body)
            self.guards -= not sure
            self.escaped = escaped
            end = {name: vague([self.env.get(name, UNKNOWN)]) for name in changed}
            after = {**head, **{name: join(held, head.get(name, UNKNOWN)) for name, held in end.items()}}
            if all(views_in([after[name]]) <= views_in([head.get(name, UNKNOWN)]) for name in changed):
                break
            # A view reaches the head that was not there: walk again with it.
            head = after
            del self.accesses[count:]
            self.counter = counter
        self.escaped = escaped or returns
        self.env = after
        if target is not None:
            for name in names_assigned([target]):
                self.env[name] = vague([self.env.get(name, UNKNOWN), value])

    def iterate(self, node: ast.expr, target: ast.expr) -> tuple[tuple[Variable, ...], bool]:
        """The variables of an inner loop and whether it is known to run; ``iterated`` is what its target holds."""
        function = self.resolve(node.func) if isinstance(node, ast.Call) else None
        self.iterated = UNKNOWN
        if isinstance(node, ast.Call) and not node.keywords:
            if function in (language.serial, language.parallel) and len(node.args) == 1:
                return self.iterate(node.args[0], target)
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if function is range and not starred and 1 <= len(node.args) <= 3:
                return self.ranges([node.args], target)
            if function is language.ndrange and not starred:
                axes = [list(argument.elts) if isinstance(argument, ast.Tuple) else [argument] for argument in node.args]
                if all(1 <= len(axis) <= 2 for axis in axes):
                    return self.ranges(axes, target)
        value = self.expression(node)
        self.iterated = self.element_of(value, node)
        return (), bool(value.items)

    def element_of(self, value: Value, node: ast.expr) -> Value:
        """What iterating over ``value`` yields."""
        if value.items:
            result = value.items[0]
            for item in value.items[1:]:
                result = join(result, item)
            return result
        rows = frozenset(first_unknown(view) for view in views_in([value]))
        self.record_all(Value(views=frozenset(view for view in rows if view.is_element)), "read", node)
        return Value(views=frozenset(view for view in rows if not view.is_element))

    def ranges(self, axes: Sequence[Sequence[ast.expr]], target: ast.expr) -> tuple[tuple[Variable, ...], bool]:
        """The variables of ``range(...)``, or of an ``ndrange`` of several axes."""
        variables: list[Variable] = []
        values: list[Value] = []
        sure = True
        for axis in axes:
            bounds = [self.use(bound).poly for bound in axis]
            for poly, bound in zip(bounds, axis, strict=True):
                self.limit(poly, bound)
            start, stop = (Poly.const(0), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
            step = bounds[2] if len(bounds) == 3 else ONE
            self.counter += 1
            name = target.id if isinstance(target, ast.Name) else "_"
            if start is None or step is None or step.varies:
                values.append(UNKNOWN)
                sure = False
                continue
            variable = Variable(f"{name}@{self.counter}", start, stop, step)
            sure = sure and stop is not None
            variables.append(variable)
            values.append(integer(Poly.symbol(variable.symbol)))
        self.iterated = values[0] if len(values) == 1 else Value(items=tuple(values))
        return tuple(variables), sure

    # --- expressions ---

    def guarded(self, node: ast.expr) -> Value:
        """The value of ``node``, which may not be evaluated; nor may its assignments be made."""
        before = dict(self.env)
        self.guards += 1
        value = self.expression(node)
        self.guards -= 1
        self.env = join_envs(before, self.env)
        return value

    def expression(self, node: ast.expr) -> Value:
        """The value of ``node``; reads of elements in it are recorded, views in its value are not read yet."""
        return _EXPRESSIONS.get(type(node), _Walker.other)(self, node)

    def other(self, node: ast.expr) -> Value:
        """An expression that is not followed: all that it touches may be its value."""
        before, outer = len(self.accesses), dict(self.env)
        self.anything(node)
        self.env = join_envs(outer, self.env)
        return Value(views=frozenset(View(access.array, None) for access in self.accesses[before:]))

    def literal(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def binary_operation(self, node: ast.BinOp) -> Value:
        left = self.operand(node.left)
        return self.binary(node.op, left, self.operand(node.right))

    def operand(self, node: ast.expr) -> Value:
        """A value that is read, or a tuple that may be joined to another."""
        value = self.expression(node)
        if value.items is not None:
            return value
        self.record_all(value, "read", node)
        return value if not value.views else UNKNOWN

    def unary(self, node: ast.UnaryOp) -> Value:
        operand = self.use(node.operand)
        if isinstance(node.op, ast.USub) and operand.poly is not None:
            return integer(-operand.poly)
        return operand if isinstance(node.op, ast.UAdd) else opaque(type(node.op).__name__, [operand])

    def display(self, node: ast.Tuple | ast.List) -> Value:
        items = [self.expression(item) for item in node.elts]
        if not _known(node.elts, items):
            return vague(items)
        return Value(items=_unpack(node.elts, items))

    def starred(self, node: ast.Starred) -> Value:
        return self.expression(node.value)

    def conditional(self, node: ast.IfExp) -> Value:
        test = self.use(node.test)
        left, right = self.guarded(node.body), self.guarded(node.orelse)
        joined = join(left, right)
        if joined.poly is None and not views_in([joined]) and joined.items is None:
            return opaque("IfExp", [test, left, right])
        return joined

    def boolean(self, node: ast.BoolOp) -> Value:
        values = [self.expression(node.values[0])] + [self.guarded(value) for value in node.values[1:]]
        views = views_in(values)
        return Value(views=views) if views else opaque(type(node.op).__name__, values)

    def walrus(self, node: ast.NamedExpr) -> Value:
        value = self.expression(node.value)
        self.store(node.target, value, node.value)
        return value

    def name(self, node: ast.Name) -> Value:
        name = node.id
        if name in self.env:
            return self.env[name]
        if self.frame.call is None and name in self.facts.ndim:
            return Value(views=frozenset({View(name, (Dim.WHOLE,) * self.facts.ndim[name])}))
        if name in self.frame.locals:
            return UNKNOWN
        if name in self.frame.names:
            return constant(self.frame.names[name])
        return integer(Poly.symbol(name)) if self.frame.call is None else UNKNOWN

    def binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        a, b = left.poly, right.poly
        if a is not None and b is not None and not (is_float(a) or is_float(b)):
            match op:
                case ast.Add():
                    return integer(a + b)
                case ast.Sub():
                    return integer(a - b)
                case ast.Mult():
                    return integer(a * b)
        if isinstance(op, ast.Add) and left.items is not None and right.items is not None:
            return Value(items=left.items + right.items)
        return opaque(type(op).__name__, [left, right])

    def compare(self, node: ast.Compare) -> Value:
        values = [self.use(node.left), self.use(node.comparators[0])]
        for comparator in node.comparators[1:]:
            values.append(self.guarded(comparator))
            self.record_all(values[-1], "read", comparator, maybe=True)
        return opaque("Compare " + " ".join(type(op).__name__ for op in node.ops), values)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer = dict(self.env)
        changed = names_assigned([node])
        for name in changed:
            self.env[name] = vague([self.env.get(name, UNKNOWN)])
        self.guards += 1
        for generator in node.generators:
            item = self.element_of(self.expression(generator.iter), generator.iter)
            self.store(generator.target, vague([item]), generator.iter)
            for condition in generator.ifs:
                self.use(condition)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        values = [self.expression(part) for part in parts]
        self.guards -= 1
        self.env = {**outer, **{name: vague([self.env.get(name, UNKNOWN)]) for name in changed}}
        return vague(values)

    def attribute(self, node: ast.Attribute) -> Value:
        base = self.expression(node.value)
        views = views_in([base])
        if not views:
            return opaque(f"Attribute {node.attr}", [base])
        if node.attr not in _METADATA:
            return vague([base])
        if len(views) == 1:
            sizes = self.sizes(next(iter(views)))
            if node.attr == "shape" and sizes is not None:
                return Value(items=tuple(integer(size) if size is not None else UNKNOWN for size in sizes))
            if node.attr == "ndim" and sizes is not None:
                return integer(Poly.const(len(sizes)))
            if node.attr == "size" and sizes is not None and None not in sizes:
                product = ONE
                for size in sizes:
                    product = product * (size or ONE)
                return integer(product)
        return UNKNOWN

    def sizes(self, view: View) -> list[Poly | None] | None:
        """The shape of a view, as far as it is known."""
        if view.dims is None:
            return None
        return [
            self.size(view.array, at) if dim is Dim.WHOLE else None for at, dim in enumerate(view.dims) if isinstance(dim, Dim)
        ]

    def load(self, node: ast.Subscript) -> Value:
        value = self.subscript(node)
        views = views_in([value])
        self.read_elements(value, node)
        if len(views) == 1 and value.views:
            (view,) = views
            if view.is_element:
                leaf = self.facts.same.get(view.array, view.array)
                if leaf in self.written or view.dims is None:
                    return UNKNOWN
                return opaque(f"Element {leaf}", [Value(poly=dim if isinstance(dim, Poly) else None) for dim in view.dims])
        return without_elements(value)

    def subscript(self, node: ast.Subscript) -> Value:
        """The place that ``node`` means, elements included as views without dimensions; its indices are read."""
        base = self.expression(node.value)
        parts = parts_of(node)
        indices = self.indices(parts)
        views = views_in([base])
        if base.items is not None:
            at = indices[0].constant if indices is not None and len(indices) == 1 and isinstance(indices[0], Poly) else None
            if at is not None and -len(base.items) <= at < len(base.items):
                return base.items[at]
            return vague([base])
        if views:
            selected = (self.select(view, indices) for view in views)
            return Value(views=frozenset(replace(view, facts=(*view.facts, *self.bounded(parts))) for view in selected))
        if indices is None:
            return UNKNOWN
        return opaque("Subscript", [base, *(Value(poly=at if isinstance(at, Poly) else None) for at in indices)])

    def bounded(self, parts: Sequence[ast.expr]) -> Iterator[Poly]:
        """What the frontend itself says of indices that it made: they are not negative."""
        for part in parts:
            if isinstance(part, ast.Call) and self.resolve(part.func) is language.at_least:
                index, bound = (self.expression(argument).poly for argument in part.args)
                if index is not None and bound is not None:
                    yield index - bound

    def indices(self, parts: Sequence[ast.expr]) -> list[Index] | None:
        """Index expressions as indices; None where they select in a way that is not followed."""
        found: list[Index] = []
        followed = True
        for part in parts:
            if isinstance(part, ast.Slice):
                bounds = [bound for bound in (part.lower, part.upper, part.step) if bound is not None]
                for bound in bounds:
                    self.use(bound)
                found.append(Dim.PART if bounds else Dim.WHOLE)
                continue
            if is_ellipsis(part):
                found.append(Dim.REST)
                continue
            value = self.expression(part)
            self.record_all(value, "read", part)
            fancy = views_in([value]) or (isinstance(part, ast.Constant) and not isinstance(part.value, int))
            if fancy or (isinstance(part, ast.Constant) and isinstance(part.value, bool)) or isinstance(part, ast.List):
                followed = False
            elif value.items is not None:
                found.extend(item.poly for item in value.items)
                followed = followed and all(item.items is None for item in value.items)
            else:
                found.append(value.poly)
        return found if followed else None

    def select(self, view: View, indices: Sequence[Index] | None) -> View:
        """``view[indices]``: each index goes to the next dimension that the view still has."""
        if view.dims is None or indices is None:
            return View(view.array, None)
        dims, facts = list(view.dims), list(view.facts)
        free = [at for at, dim in enumerate(dims) if isinstance(dim, Dim)]
        if Dim.REST in indices:
            at = indices.index(Dim.REST)
            rest = len(free) - (len(indices) - 1)
            indices = [*indices[:at], *(Dim.WHOLE,) * rest, *indices[at + 1 :]]
        if len(indices) > len(free):
            return View(view.array, None)
        for at, index in zip(free, indices, strict=False):
            if dims[at] is Dim.PART:
                dims[at] = Dim.PART if isinstance(index, Dim) else None
            elif isinstance(index, Poly) and index.constant is not None and index.constant < 0:
                dims[at] = wrapped = index + self.size(view.array, at)
                facts.append(wrapped)
            else:
                dims[at] = index
        return View(view.array, tuple(dims), tuple(facts))

    # --- calls ---

    def resolve(self, node: ast.expr) -> object:
        """The function that a name stands for, or None."""
        if not isinstance(node, ast.Name) or node.id in self.env or node.id in self.frame.locals:
            return None
        if node.id in self.frame.names:
            return self.frame.names[node.id]
        return getattr(builtins, node.id, None)

    def call(self, node: ast.Call) -> Value:
        function = self.resolve(node.func)
        if any(function is atomic for atomic in language.ATOMICS) and not node.keywords and len(node.args) >= 3:
            return self.atomic(node, function)
        arguments = [self.expression(argument) for argument in node.args]
        named = {keyword.arg or "**": self.expression(keyword.value) for keyword in node.keywords}
        values = [*arguments, *named.values()]
        if isinstance(function, Function) and self.depth < _MAX_DEPTH:
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if not starred and "**" not in named:
                return self.inline(node, function, arguments, named)
        if any(function is word for word in (language.at_least, language.divisor, language.step)):
            return arguments[0]
        if function is language.wrapped:
            return self.wrapped(arguments[0], arguments[1].poly)
        if function is len and len(arguments) == 1:
            return self.length(arguments[0])
        if isinstance(node.func, ast.Attribute):
            return self.method(node, node.func, values)
        if _is_pure(function):
            return self.pure(node, function, arguments, named)
        # Whatever else it is, it may do anything to the arrays that it is given.
        for value in values:
            self.record_all(value, "read", node, maybe=True)
            self.record_all(value, "write", node, maybe=True)
        return vague(values)

    def wrapped(self, index: Value, size: Poly | None) -> Value:
        """An index that counts from the end where it is negative, if it is known which."""
        if self.is_natural(index.poly):
            return index
        negative = index.poly is not None and self.is_natural(Poly.const(-1) - index.poly)
        return integer(index.poly + size) if negative and index.poly is not None and size is not None else UNKNOWN

    def is_natural(self, poly: Poly | None) -> bool:
        """Whether an index is surely not negative, by its signs and those of the loops' variables."""
        if poly is None:
            return False
        for variable in (*self.loops[::-1], *self.axes):
            value = variable.start + variable.step * Poly.symbol("#t")
            if variable.stop is not None and (variable.step.constant or 0) < 0:
                # What counts down stays above where it stops.
                value = variable.stop + Poly.const(1) + Poly.symbol("#t")
            poly = poly.substitute({variable.symbol: value})
        return all(c >= 0 and all(name.startswith("#") for name in monomial) for monomial, c in poly.terms)

    def pure(self, node: ast.Call, function: object, arguments: list[Value], named: dict[str, Value]) -> Value:
        """A function of NumPy, math or Python: reads its arguments, writes those meant for output."""
        outputs = [named["out"]] if "out" in named else []
        if isinstance(function, np.ufunc):
            outputs += arguments[function.nin :]
        if getattr(function, "__name__", "") in _WRITING_FUNCTIONS:
            outputs += arguments[:1]
        values = [*arguments, *named.values()]
        for value in values:
            self.record_all(value, "read", node)
        for value in outputs:
            self.record_all(value, "write", node)
        if any(function is word for word in (int, np.int32, np.int64)) and len(values) == 1 and is_integral(values[0].poly):
            return values[0]
        views = views_in(values)
        if views:  # A reshaped array is still the array.
            return vague(values) if not _is_reducing(function) else UNKNOWN
        words = [getattr(function, "__module__", ""), getattr(function, "__name__", repr(function)), *named]
        return opaque(f"Call {' '.join(map(str, words))}", values) if values else UNKNOWN

    def length(self, value: Value) -> Value:
        if value.items is not None:
            return integer(Poly.const(len(value.items)))
        views = views_in([value])
        sizes = self.sizes(next(iter(views))) if len(views) == 1 else None
        return integer(sizes[0]) if sizes and sizes[0] is not None else UNKNOWN

    def method(self, node: ast.Call, function: ast.Attribute, values: Sequence[Value]) -> Value:
        base = self.expression(function.value)
        every = [base, *values]
        reading = function.attr in _READING_METHODS
        self.record_all(Value(items=tuple(every)), "read", node, maybe=True)
        if not reading:
            self.record_all(Value(items=tuple(every)), "write", node, maybe=True)
        return UNKNOWN if reading else vague(every)

    def atomic(self, node: ast.Call, function: object) -> Value:
        base = self.expression(node.args[0])
        index = node.args[1]
        indices = self.indices(index.elts if isinstance(index, ast.Tuple) else [index])
        for argument in node.args[2:]:
            self.use(argument)
        places = Value(views=frozenset(self.select(view, indices) for view in views_in([base])))
        sign = getattr(function, "__name__", "").removeprefix("atomic_")
        self.record_all(places, "atomic", node, sign)
        return UNKNOWN

    def inline(self, node: ast.Call, function: Function, arguments: list[Value], named: dict[str, Value]) -> Value:
        """Walk the body of a called function with its parameters bound to the arguments."""
        parameters = function.tree.args
        places = [*parameters.posonlyargs, *parameters.args]
        env: Env = {place.arg: value for place, value in zip(places, arguments, strict=False)}
        for place in places + parameters.kwonlyargs:
            if place.arg in named:
                env[place.arg] = named[place.arg]
            env.setdefault(place.arg, UNKNOWN)
        rest = [*arguments[len(places) :], *(value for name, value in named.items() if name not in env)]
        for extra in (parameters.vararg, parameters.kwarg):
            if extra is not None:
                env[extra.arg] = vague(rest)
        call = self.frame.call or Span.of(node, self.frame.file)
        frame = _Frame(function.names, function.file, call, frozenset(names_assigned(function.tree.body)), len(self.loops), [])
        outer = (self.env, self.frame, self.escaped)
        self.env, self.frame, self.depth = env, frame, self.depth + 1
        self.block(function.tree.body)
        (self.env, self.frame, self.escaped), self.depth = outer, self.depth - 1
        if not frame.returned:
            return UNKNOWN
        result = frame.returned[0]
        for value in frame.returned[1:]:
            result = join(result, value)
        return result


_STATEMENTS: dict[type[ast.stmt], Callable[[_Walker, Any], None]] = {
    ast.Assign: _Walker.assign,
    ast.AugAssign: _Walker.augmented,
    ast.AnnAssign: _Walker.annotated,
    ast.If: _Walker.if_statement,
    ast.For: _Walker.for_loop,
    ast.While: _Walker.while_loop,
    ast.Match: _Walker.match,
    ast.Return: _Walker.leave,
    ast.Break: _Walker.leave,
    ast.Continue: _Walker.leave,
    ast.Expr: _Walker.bare,
}
_EXPRESSIONS: dict[type[ast.expr], Callable[[_Walker, Any], Value]] = {
    ast.Constant: _Walker.literal,
    ast.Name: _Walker.name,
    ast.Subscript: _Walker.load,
    ast.Attribute: _Walker.attribute,
    ast.BinOp: _Walker.binary_operation,
    ast.UnaryOp: _Walker.unary,
    ast.Call: _Walker.call,
    ast.Tuple: _Walker.display,
    ast.List: _Walker.display,
    ast.Starred: _Walker.starred,
    ast.IfExp: _Walker.conditional,
    ast.BoolOp: _Walker.boolean,
    ast.Compare: _Walker.compare,
    ast.NamedExpr: _Walker.walrus,
    ast.ListComp: _Walker.comprehension,
    ast.SetComp: _Walker.comprehension,
    ast.GeneratorExp: _Walker.comprehension,
    ast.DictComp: _Walker.comprehension,
}


# --- helpers of the walk -----------------------------------------------------------------------------------------------


def _known(nodes: Sequence[ast.expr], values: Sequence[Value]) -> bool:
    return all(not isinstance(node, ast.Starred) or value.items is not None for node, value in zip(nodes, values, strict=True))


def _unpack(nodes: Sequence[ast.expr], values: Sequence[Value]) -> tuple[Value, ...]:
    """The items of a display with starred parts."""
    found: list[Value] = []
    for node, value in zip(nodes, values, strict=True):
        found.extend((value.items or ()) if isinstance(node, ast.Starred) else (value,))
    return tuple(found)


def _is_pure(function: object) -> bool:
    """Whether a function only reads what it is given (outputs aside): NumPy's, math's and Python's own."""
    if isinstance(function, np.ufunc):
        return True
    module = getattr(function, "__module__", None) or ""
    if module in _ELEMENTWISE_MODULES or module.split(".")[0] == "numpy":
        return True
    return any(function is word for word in (language.serial, language.parallel, language.ndrange))


def _is_reducing(function: object) -> bool:
    """Whether a function's result is never a view of an array that it was given."""
    if isinstance(function, np.ufunc):
        return True
    module = getattr(function, "__module__", None) or ""
    return module in _ELEMENTWISE_MODULES or getattr(function, "__name__", "") in _READING_METHODS


def _is_of_numbers(function: object) -> bool:
    """Whether a function makes a number of numbers, and does nothing else."""
    if isinstance(function, np.ufunc) or (isinstance(function, type) and issubclass(function, (int, float, np.generic))):
        return True
    return getattr(function, "__module__", None) == "math" or any(function is known for known in _OF_NUMBERS)


def _may_leave(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop with this body may end early: a ``break`` of its own, or a ``return``."""
    return any(_leaves(statement) for statement in body)


def _leaves(node: ast.stmt) -> bool:
    if isinstance(node, ast.Break | ast.Return):
        return True
    if isinstance(node, ast.For | ast.While):
        # Its own breaks stay inside; those in its else clause are the outer loop's.
        return any(isinstance(child, ast.Return) for child in ast.walk(node)) or _may_leave(node.orelse)
    return any(_leaves(child) for child in _statements(node))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.match_case | ast.ExceptHandler):
            yield from _statements(child)


def user_text(node: ast.AST, paths: Mapping[str, str]) -> str:
    """The source of ``node`` with its names as the user writes them; ``paths``: of each leaf."""
    return ast.unparse(_Rename(paths).visit(copied(node)))


class _Rename(ast.NodeTransformer):
    """Leaves and locals to what the user wrote."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.paths = paths

    def visit_Name(self, node: ast.Name) -> ast.Name:
        name = node.id
        if name.endswith("_") and (name[:-1] in self.paths or name.startswith("_")):
            # A local of the user's that has a leaf's name: ``Unit.local_name`` spelled it so.
            return ast.Name(name[:-1], node.ctx)
        return ast.Name(self.paths.get(name, name), node.ctx)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        written = vars(node).get(WRITTEN)
        if isinstance(written, str):
            return ast.parse(written, mode="eval").body
        self.generic_visit(node)
        return node
