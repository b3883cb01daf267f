"""Abstract interpretation of expressions in a loop's body: symbolic integers, views of arrays, and the elements they read.

A value that is not followed is unknown; an array that may be reached through it is then accessed at unknown indices.
"""

from __future__ import annotations

import ast
import builtins
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from qgraph.frontend.dependence.view_selection import is_natural, selected, sizes_of, turned
from qgraph.frontend.facts.abstract_values import (
    EITHER,
    UNKNOWN,
    EllipsisIndex,
    Env,
    Index,
    SlicedDimension,
    SliceIndex,
    Subscript,
    Value,
    View,
    all_known,
    as_dtype,
    as_written,
    combined,
    compared,
    condition_of,
    constant,
    first_unknown,
    index_value,
    integer,
    is_boolean,
    join,
    join_envs,
    of_views,
    opaque,
    truth,
    unpacked,
    vague,
    views_in,
    without_elements,
)
from qgraph.frontend.facts.loop_facts import Access, Frame, Kind, LoopFacts
from qgraph.frontend.inference.ranks import is_ellipsis
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.syntax.source_text import user_text
from qgraph.ir.trees import parts_of
from qgraph.polyhedral.questions import Reach, Variable
from qgraph.polyhedral.symbolic_integers import (
    ONE,
    TRUE,
    UNDECIDED,
    ZERO,
    Condition,
    Poly,
    Symbol,
    all_of,
    any_of,
)
from qgraph.source import Span, children_of, nodes_of

_METADATA = frozenset({"shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides"})


class Evaluator:
    """An environment, in which expressions have values; evaluating one records its accesses."""

    def __init__(self, facts: LoopFacts, written: frozenset[str], counters: frozenset[str], *, texts: bool) -> None:
        self.facts = facts
        self.written = written
        # Arrays that one atomic statement counts in, and nothing else touches.
        self.counters = counters
        # Whether accesses get the words of the user.
        self.texts = texts
        self.accesses: list[Access] = []
        self.env: Env = {}
        self.axes: tuple[Variable, ...] = ()
        self.loops: tuple[Variable, ...] = ()
        # In which iterations what is walked now happens.
        self.path: Condition = TRUE
        # The expression whose value nothing takes.
        self.unused: ast.expr | None = None
        self.counter = len(facts.axes)
        self.depth = 0
        self.frame = Frame(facts.names, facts.file, None, frozenset(names_assigned(facts.body)), 0, [])

    def statement(self, node: ast.stmt) -> None:
        """Walk a statement, those of functions that are called included."""
        handler: Callable[[Any], None] = getattr(self, f"visit_{type(node).__name__}", self.anything)
        handler(node)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Walk statements."""
        for statement in statements:
            self.statement(statement)

    def anything(self, node: ast.AST) -> None:
        """A statement of no interest here (or refused elsewhere): its parts, each of which may not run."""
        outer = self.path
        self.path = all_of(outer, UNDECIDED)
        for child in children_of(node):
            if isinstance(child, ast.arguments):
                self.env.update((place.arg, UNKNOWN) for place in nodes_of(child) if isinstance(place, ast.arg))
            elif isinstance(child, ast.stmt):
                self.statement(child)
            elif isinstance(child, ast.expr):
                self.use(child)
            else:
                self.anything(child)
        self.path = outer

    # --- recording ---

    def record(
        self,
        value: Value,
        kind: Kind,
        node: ast.AST,
        sign: str = "",
        *,
        maybe: bool = False,
        stored: str = "",
        region: bool = False,
    ) -> None:
        """Note accesses, here and now, to all views in ``value``, of which one is meant.

        ``maybe``: they may not happen, or go to another array. ``stored``: what is written there.
        """
        place = node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(node, ast.Assign) else node
        views = views_in([value])
        for view in sorted(views, key=repr):
            # Of an array without axes there is one part only.
            some = view.vague and view.dims != ()
            self.accesses.append(
                Access(
                    array=view.array,
                    kind=kind,
                    operator=sign,
                    reach=self.reach(view, maybe=maybe or len(views) > 1 or some or region),
                    node=node,
                    span=Span.of(node, self.frame.file),
                    text=user_text(place, self.facts.paths) if self.texts else "",
                    call=self.frame.call,
                    discarded=kind == "atomic" and self.unused is node,
                    value=stored,
                    region=region or some,
                )
            )

    def reach(self, view: View, *, maybe: bool) -> Reach:
        """The elements of a view; those of a part are all that a loop over it would reach."""
        when = all_of(self.path, UNDECIDED) if maybe else self.path
        if view.dims is None:
            return Reach(None, (), self.loops, when)
        loops, indices, wraps = self.loops, [], []
        for dim in view.dims:
            if isinstance(dim, Index):
                indices.append(dim.poly)
                wraps.append(dim.wraps and dim.poly is not None)
                continue
            if dim.count == ONE:
                indices.append(dim.start)
            else:
                self.counter += 1
                variable = Variable(Symbol.of(f"_@{self.counter}", "variable"), ZERO, dim.count, ONE)
                loops = (*loops, variable)
                indices.append(dim.start + Poly.const(dim.step) * Poly((((variable.symbol,), 1),)))
            wraps.append(False)
        return Reach(tuple(indices), tuple(wraps), loops, when)

    def use(self, node: ast.expr) -> Value:
        """Evaluate ``node`` where its whole value is read."""
        value = self.expression(node)
        self.record(value, "read", node)
        return value if not views_in([value]) else UNKNOWN

    def read_elements(self, value: Value, node: ast.AST) -> None:
        """Note the reads of elements that ``value`` is."""
        for view in sorted(views_in([value]), key=repr):
            if view.is_element:
                self.record(of_views([view]), "read", node)

    # --- names and places ---

    def store(self, target: ast.expr, value: Value, source: ast.expr) -> None:
        """Assign ``value``, which is written ``source``, to names and places."""
        match target:
            case ast.Name():
                self.read_elements(value, source)
                self.env[target.id] = without_elements(value)
            case ast.Tuple() | ast.List():
                parts = value.items
                starred = any(isinstance(item, ast.Starred) for item in target.elts)
                if parts is None and value.views:
                    rows = [[Index(Poly.const(k))] for k in range(len(target.elts))]
                    parts = tuple(of_views(selected(view, row, self.is_natural) for view in value.views) for row in rows)
                if starred or parts is None or len(parts) != len(target.elts):
                    parts = (vague([value]),) * len(target.elts)
                for item, part in zip(target.elts, parts, strict=True):
                    self.store(item, part, source)
            case ast.Starred():
                self.store(target.value, vague([value]), source)
            case ast.Subscript():
                self.record(value, "read", source)
                self.record(self.subscript(target), "write", target, stored=value.identity)
            case ast.Attribute():
                self.record(value, "read", source)
                self.record(vague([self.expression(target.value)]), "write", target)
            case _:
                self.record(value, "read", source)

    def element_of(self, value: Value, node: ast.expr) -> Value:
        """What iterating over ``value`` yields."""
        if value.items:
            return functools.reduce(join, value.items)
        rows = of_views(first_unknown(view) for view in views_in([value]))
        self.record(of_views(view for view in rows.views if view.is_element), "read", node)
        return without_elements(rows)

    # --- expressions ---

    def guarded(self, node: ast.expr, when: Condition = UNDECIDED) -> Value:
        """The value of ``node``, which is evaluated where ``when`` holds; so are its assignments made."""
        before, outer = dict(self.env), self.path
        self.path = all_of(outer, when)
        value = self.expression(node)
        self.path = outer
        self.env = join_envs(self.env, before, when)
        return value

    def expression(self, node: ast.expr) -> Value:
        """The value of ``node``; reads of elements in it are recorded, views in its value are not read yet."""
        handler: Callable[[Any], Value] = getattr(self, f"visit_{type(node).__name__}", self.other)
        return handler(node)

    def other(self, node: ast.expr) -> Value:
        """An expression that is not followed: all that it touches may be its value."""
        before, outer = len(self.accesses), dict(self.env)
        self.anything(node)
        self.env = join_envs(outer, self.env)
        return of_views(View(access.array, None) for access in self.accesses[before:])

    def visit_Constant(self, node: ast.Constant) -> Value:
        """A number, a text, None."""
        return constant(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> Value:
        """An operator between two operands."""
        left = self.operand(node.left)
        return combined(node.op, left, self.operand(node.right))

    def operand(self, node: ast.expr) -> Value:
        """A value that is read, or a tuple that may be joined to another."""
        value = self.expression(node)
        if value.items is not None:
            return value
        self.record(value, "read", node)
        return as_written(node, value) if not value.views else UNKNOWN

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Value:
        """A sign, ``not`` or ``~``."""
        operand = self.use(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        key = opaque(type(node.op).__name__, [operand]).key
        if isinstance(node.op, ast.Not):
            return truth(condition_of(operand).negated(), key)
        if operand.poly is not None:
            number = -operand.poly if isinstance(node.op, ast.USub) else -operand.poly - ONE
            return replace(as_dtype(number, operand.dtype), key=key)
        return Value(key=key)

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> Value:
        """A tuple or list, as its items."""
        items = [self.expression(item) for item in node.elts]
        return Value(items=unpacked(node.elts, items)) if all_known(node.elts, items) else vague(items)

    visit_List = visit_Tuple

    def visit_Starred(self, node: ast.Starred) -> Value:
        """The tuple behind a star; what it is part of unpacks it."""
        return self.expression(node.value)

    def visit_IfExp(self, node: ast.IfExp) -> Value:
        """``a if c else b``: what both may be."""
        test_ = self.use(node.test)
        when = condition_of(test_)
        left, right = self.guarded(node.body, when), self.guarded(node.orelse, when.negated())
        joined = join(left, right, when)
        if not views_in([joined]) and joined.items is None and not joined.key:
            return replace(joined, key=opaque("IfExp", [test_, left, right]).key)
        return joined

    def visit_BoolOp(self, node: ast.BoolOp) -> Value:
        """``and`` and ``or``: any of the operands, of which all but the first may not be evaluated."""
        both = isinstance(node.op, ast.And)
        values = [self.expression(node.values[0])]
        for operand in node.values[1:]:
            tests = [condition_of(value) for value in values]
            values.append(self.guarded(operand, all_of(*tests) if both else all_of(*(each.negated() for each in tests))))
        views = views_in(values)
        if views:
            return of_views(views)
        tests = [condition_of(value) for value in values]
        tested = truth(all_of(*tests) if both else any_of(*tests), opaque(type(node.op).__name__, values).key)
        # `i or 3` is an integer.
        return tested if all(map(is_boolean, values)) else replace(tested, dtype=EITHER)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Value:
        """``name := value``."""
        value = self.expression(node.value)
        self.store(node.target, value, node.value)
        return value

    def visit_Name(self, node: ast.Name) -> Value:
        """What a name holds; an array is a view of all of itself."""
        name = node.id
        if name in self.env:
            return self.env[name]
        if self.frame.call is None and name in self.facts.ndim:
            dims = tuple(SlicedDimension(ZERO, size, whole=True) for size in self.facts.extents(name))
            # An array without axes is not its element, which `a[()]` is.
            return of_views([View(name, dims, vague=not dims)])
        if name in self.frame.names and name not in self.frame.locals:
            return constant(self.frame.names[name])
        if self.frame.call is not None or name in self.frame.locals:
            return UNKNOWN
        known = self.facts.integers.get(name)
        if known is not None:
            return Value(known, dtype=self.facts.narrow.get(name, ""))
        # Of a kernel scalar nobody knows the type yet; where it is an index it is an integer.
        return Value(None if name in self.facts.floats else Poly.symbol(name, "device"), key=name)

    def visit_Compare(self, node: ast.Compare) -> Value:
        """A comparison; from the second one on, they may not be evaluated."""
        values = [self.use(node.left), self.use(node.comparators[0])]
        tests = [compared(node.ops[0], *(value.poly for value in values))]
        for op, comparator in zip(node.ops[1:], node.comparators[1:], strict=True):
            values.append(self.guarded(comparator, all_of(*tests)))
            self.record(values[-1], "read", comparator, maybe=True)
            tests.append(compared(op, *(value.poly for value in values[-2:])))
        return truth(all_of(*tests), opaque("Compare " + " ".join(type(op).__name__ for op in node.ops), values).key)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        """A comprehension: its parts may run any number of times."""
        outer = dict(self.env)
        changed = names_assigned([node])
        for name in changed:
            self.env[name] = vague([self.env.get(name, UNKNOWN)])
        path = self.path
        self.path = all_of(path, UNDECIDED)
        for generator in node.generators:
            item = self.element_of(self.expression(generator.iter), generator.iter)
            self.store(generator.target, vague([item]), generator.iter)
            for condition in generator.ifs:
                self.use(condition)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        values = [self.expression(part) for part in parts]
        self.path = path
        self.env = {**outer, **{name: vague([self.env.get(name, UNKNOWN)]) for name in changed}}
        return vague(values)

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def visit_Attribute(self, node: ast.Attribute) -> Value:
        """An extent of a view, or something that may be the view still."""
        base = self.expression(node.value)
        if not views_in([base]):
            return opaque(f"Attribute {node.attr}", [base])
        if node.attr == "T" and base.items is None:
            return of_views(map(turned, base.views))
        if node.attr not in _METADATA:
            return vague([base])
        sizes = sizes_of(base)
        match node.attr:
            case "shape" if sizes is not None:
                return Value(items=tuple(map(integer, sizes)))
            case "ndim" if sizes is not None:
                return integer(Poly.const(len(sizes)))
            case "size" if sizes is not None:
                return integer(functools.reduce(operator.mul, sizes, ONE))
        return UNKNOWN

    def visit_Subscript(self, node: ast.Subscript) -> Value:
        """A subscript that is read."""
        value = self.subscript(node)
        views = views_in([value])
        self.read_elements(value, node)
        if len(views) == 1 and value.views:
            (view,) = views
            if view.is_element and view.dims is not None:
                memory = self.facts.memory(view.array)
                places = [index_value(dim.poly) for dim in view.dims if isinstance(dim, Index)]
                return UNKNOWN if memory in self.written else opaque(f"Element {memory}", places)
        return without_elements(value)

    def subscript(self, node: ast.Subscript) -> Value:
        """The place that ``node`` means, elements included as views without dimensions; its indices are read."""
        base = self.expression(node.value)
        parts = parts_of(node)
        indices = self.indices(parts)
        views = views_in([base])
        if base.items is not None:
            first = indices[0] if indices is not None and len(indices) == 1 else None
            at = first.poly.constant if isinstance(first, Index) and first.poly is not None else None
            if at is not None and -len(base.items) <= at < len(base.items):
                return base.items[at]
            return vague([base])
        if views:
            return of_views(selected(view, indices, self.is_natural) for view in views)
        if indices is None:
            return UNKNOWN
        return opaque("Subscript", [base, *(index_value(at.poly if isinstance(at, Index) else None) for at in indices)])

    def indices(self, parts: Sequence[ast.expr]) -> list[Subscript] | None:
        """Index expressions as indices; None where they select in a way that is not followed."""
        found: list[Subscript] = []
        followed = True
        for part in parts:
            if isinstance(part, ast.Slice):
                found.append(self.cut(part))
                continue
            if is_ellipsis(part):
                found.append(EllipsisIndex())
                continue
            value = self.expression(part)
            self.record(value, "read", part)
            items = [value] if value.items is None else value.items
            found.extend(map(self.index, items))
            no_integer = isinstance(part, ast.List) or (isinstance(part, ast.Constant) and type(part.value) is not int)
            if no_integer or views_in([value]) or any(item.items is not None for item in items):
                followed = False
        return found if followed else None

    def index(self, value: Value) -> Index:
        """A value as an index."""
        poly = value.invariant
        return Index(poly, not value.natural and not self.is_natural(poly))

    def cut(self, part: ast.Slice) -> SliceIndex:
        """A slice between brackets; its bounds are read."""
        bounds: list[Poly | None] = []
        known = True
        for bound in (part.lower, part.upper, part.step):
            absent = bound is None or (isinstance(bound, ast.Constant) and bound.value is None)
            value = UNKNOWN if bound is None else self.use(bound)
            bounds.append(None if absent else value.invariant)
            known = known and (absent or value.invariant is not None)
        step = 1 if bounds[2] is None else bounds[2].constant
        return SliceIndex(bounds[0], bounds[1], step or 1, known and bool(step))

    def is_natural(self, poly: Poly | None) -> bool:
        """Whether an integer is surely not negative, whatever the iteration."""
        return poly is not None and is_natural(poly, (*self.loops[::-1], *self.axes))

    def resolve(self, node: ast.expr) -> object:
        """The function that a name stands for, or None."""
        if not isinstance(node, ast.Name) or node.id in self.env or node.id in self.frame.locals:
            return None
        if node.id in self.frame.names:
            return self.frame.names[node.id]
        return getattr(builtins, node.id, None)
