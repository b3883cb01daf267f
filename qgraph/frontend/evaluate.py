"""What the expressions of a loop's body are, as symbolic integers and views of arrays, and which elements they read.

A value that cannot be followed is unknown, and an array that may be reached through it is never lost: it is then accessed
"somewhere".
"""

from __future__ import annotations

import ast
import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qgraph import language
from qgraph.frontend.accesses import Access, Kind, LoopFacts, Variable
from qgraph.frontend.affine import ONE, Poly
from qgraph.frontend.definite import names_assigned
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
    join,
    join_envs,
    opaque,
    vague,
    views_in,
    without_elements,
)
from qgraph.frontend.wording import user_text
from qgraph.source import Span

_METADATA = frozenset({"shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides"})


@dataclass(slots=True)
class Frame:
    """The function that is being walked: its globals and its file; ``call`` is None in the loop itself."""

    names: Mapping[str, object]
    file: str
    call: Span | None
    locals: frozenset[str]
    loops: int
    returned: list[Value]


class Evaluator(ABC):
    """An environment, in which expressions have values; evaluating one records its accesses."""

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
        self.frame = Frame(facts.names, facts.file, None, frozenset(names_assigned(facts.body)), 0, [])

    @abstractmethod
    def statement(self, node: ast.stmt) -> None:
        """Walk a statement, those of functions that are called included."""

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Walk statements."""
        for statement in statements:
            self.statement(statement)

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

    # --- recording ---

    def record(self, view: View, kind: Kind, node: ast.AST, sign: str = "", *, maybe: bool = False) -> None:
        """Note an access, here and now; ``maybe``: it may not happen, or go to another array."""
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
        """Note accesses to all views in ``value``, of which one is meant."""
        views = views_in([value])
        for view in sorted(views, key=repr):
            self.record(view, kind, node, sign, maybe=maybe or len(views) > 1)

    def use(self, node: ast.expr) -> Value:
        """Evaluate ``node`` where its whole value is read."""
        value = self.expression(node)
        self.record_all(value, "read", node)
        return value if not views_in([value]) else UNKNOWN

    def size(self, array: str, dim: int) -> Poly:
        """The symbol of an extent: equal arrays have the same."""
        return Poly.symbol(f"#{self.facts.same.get(array, array)}.shape[{dim}]")

    def read_elements(self, value: Value, node: ast.AST) -> None:
        """Note the reads of elements that ``value`` is."""
        for view in sorted(views_in([value]), key=repr):
            if view.is_element:
                self.record(view, "read", node)

    # --- names and places ---

    def store(self, target: ast.expr, value: Value, source: ast.expr) -> None:
        """Assign ``value``, which is written ``source``, to names and places."""
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
        return _EXPRESSIONS.get(type(node), Evaluator.other)(self, node)

    def other(self, node: ast.expr) -> Value:
        """An expression that is not followed: all that it touches may be its value."""
        before, outer = len(self.accesses), dict(self.env)
        self.anything(node)
        self.env = join_envs(outer, self.env)
        return Value(views=frozenset(View(access.array, None) for access in self.accesses[before:]))

    def literal(self, node: ast.Constant) -> Value:
        """A number, a text, None."""
        return constant(node.value)

    def binary_operation(self, node: ast.BinOp) -> Value:
        """An operator between two operands."""
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
        """A sign, ``not`` or ``~``."""
        operand = self.use(node.operand)
        if isinstance(node.op, ast.USub) and operand.poly is not None:
            return integer(-operand.poly)
        return operand if isinstance(node.op, ast.UAdd) else opaque(type(node.op).__name__, [operand])

    def display(self, node: ast.Tuple | ast.List) -> Value:
        """A tuple or list, as its items."""
        items = [self.expression(item) for item in node.elts]
        if not _known(node.elts, items):
            return vague(items)
        return Value(items=_unpack(node.elts, items))

    def starred(self, node: ast.Starred) -> Value:
        """The tuple behind a star; what it is part of unpacks it."""
        return self.expression(node.value)

    def conditional(self, node: ast.IfExp) -> Value:
        """``a if c else b``: what both may be."""
        test = self.use(node.test)
        left, right = self.guarded(node.body), self.guarded(node.orelse)
        joined = join(left, right)
        if joined.poly is None and not views_in([joined]) and joined.items is None:
            return opaque("IfExp", [test, left, right])
        return joined

    def boolean(self, node: ast.BoolOp) -> Value:
        """``and`` and ``or``: any of the operands, of which all but the first may not be evaluated."""
        values = [self.expression(node.values[0])] + [self.guarded(value) for value in node.values[1:]]
        views = views_in(values)
        return Value(views=views) if views else opaque(type(node.op).__name__, values)

    def walrus(self, node: ast.NamedExpr) -> Value:
        """``name := value``."""
        value = self.expression(node.value)
        self.store(node.target, value, node.value)
        return value

    def name(self, node: ast.Name) -> Value:
        """What a name holds; an array is a view of all of itself."""
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
        """The value of an operator with operands that were read."""
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
        """A comparison; from the second one on, they may not be evaluated."""
        values = [self.use(node.left), self.use(node.comparators[0])]
        for comparator in node.comparators[1:]:
            values.append(self.guarded(comparator))
            self.record_all(values[-1], "read", comparator, maybe=True)
        return opaque("Compare " + " ".join(type(op).__name__ for op in node.ops), values)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        """A comprehension: its parts may run any number of times."""
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
        """An extent of a view, or something that may be the view still."""
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
        """A subscript that is read."""
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

    @abstractmethod
    def call(self, node: ast.Call) -> Value:
        """A call: followed if its body or its meaning is known."""


_EXPRESSIONS: dict[type[ast.expr], Callable[[Evaluator, Any], Value]] = {
    ast.Constant: Evaluator.literal,
    ast.Name: Evaluator.name,
    ast.Subscript: Evaluator.load,
    ast.Attribute: Evaluator.attribute,
    ast.BinOp: Evaluator.binary_operation,
    ast.UnaryOp: Evaluator.unary,
    ast.Call: lambda evaluator, node: evaluator.call(node),
    ast.Tuple: Evaluator.display,
    ast.List: Evaluator.display,
    ast.Starred: Evaluator.starred,
    ast.IfExp: Evaluator.conditional,
    ast.BoolOp: Evaluator.boolean,
    ast.Compare: Evaluator.compare,
    ast.NamedExpr: Evaluator.walrus,
    ast.ListComp: Evaluator.comprehension,
    ast.SetComp: Evaluator.comprehension,
    ast.GeneratorExp: Evaluator.comprehension,
    ast.DictComp: Evaluator.comprehension,
}


def _known(nodes: Sequence[ast.expr], values: Sequence[Value]) -> bool:
    return all(not isinstance(node, ast.Starred) or value.items is not None for node, value in zip(nodes, values, strict=True))


def _unpack(nodes: Sequence[ast.expr], values: Sequence[Value]) -> tuple[Value, ...]:
    """The items of a display with starred parts."""
    found: list[Value] = []
    for node, value in zip(nodes, values, strict=True):
        found.extend((value.items or ()) if isinstance(node, ast.Starred) else (value,))
    return tuple(found)
