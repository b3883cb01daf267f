"""Array statements at kernel level, as the loops they mean: `y[1:-1] = a * x[:-2] + z[2:]`, `np.sum(x * y)`.

Each becomes a parallel loop over the elements, in which a slice is an element; the rest of the frontend treats it like a loop
that the user wrote. NumPy evaluates the right side first. The loop means the same where it reads no element that another
iteration writes, which the race analysis decides; else the right side goes to a temporary before.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from qgraph import language
from qgraph.errors import DataRaceError
from qgraph.frontend.arrays.shape_checks import Lengths, compare, every
from qgraph.frontend.arrays.views import Seen, size_of, view_of
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.elementwise import Elementwise, Zeros, array_operands, check_in_place, updated_in_place
from qgraph.frontend.inference.host_expressions import binding, host_expression
from qgraph.frontend.inference.indexing import ONE, ZERO, element, word
from qgraph.frontend.inference.ranks import known, rank
from qgraph.frontend.names.bindings import Binding, Extent, LeafRef, RangeRef, ViewAxis, ViewRef
from qgraph.frontend.names.program_builder import ADDED, SHARED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.inlining import bind_value, evaluated_array
from qgraph.frontend.statements.region import Region, task_statements
from qgraph.frontend.statements.task_builder import parallel_task
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Task, Temporary
from qgraph.ir.slots import SCALAR_DTYPES
from qgraph.ir.trees import at_place, call_of, load, stored
from qgraph.ir.verdicts import Verdict
from qgraph.source import as_written, copied, nodes_of, standing_for


def bind_view(region: Region, scope: Scope, node: ast.expr) -> Binding | None:
    """What a name stands for that is bound to a part of an array; None where ``node`` is no array, or known anyway."""
    if rank(scope, node) == 0 or known(scope, node) is not None:
        return None
    return view_of(region, scope, node, keep=True)


def named(view: ViewRef) -> LeafRef | ViewRef:
    """What a name stands for that means a new array: all of it, or as much as only the device knows."""
    return LeafRef(view.leaf) if all(along.count.host is not None for along in view.along) else view


# --- assignments -------------------------------------------------------------------------------------------------------


def assign_slice(region: Region, scope: Scope, node: ast.Assign | ast.AugAssign, target: ast.expr, value: ast.expr) -> None:
    """``target = value``, or ``target op= value``, element by element.

    Raises:
        KernelSyntaxError, KernelTypeError: the value does not fit the target.
    """
    assert isinstance(target, (ast.Name, ast.Subscript))
    place = copy.copy(target)
    place.ctx = ast.Load()
    if isinstance(node, ast.AugAssign):
        # Before reductions become kernel scalars, whose types nobody knows yet.
        check_in_place(scope, node, place, value)
    value = evaluated_array(region, scope, _as_array(scope, place, value, node))
    if isinstance(node, ast.AugAssign):
        # Again, since of arrays that had to be made first the types are known now.
        check_in_place(scope, node, place, value)
        value = ast.copy_location(ast.BinOp(place, node.op, value), node)
    if isinstance(value, ast.Tuple):
        raise scope.error(
            f"`{as_written(node)}` assigns a tuple to a part of an array",
            value,
            "assign its parts one by one: u[0] = x, then u[1] = y",
        )
    body = Elements(region, scope)
    view = body.assigned(place)
    computed = body.visit(value)
    if isinstance(node, ast.AugAssign) and isinstance(computed, ast.BinOp) and element_type(scope, value) is None:
        # Of a kernel scalar, whose type is inferred later.
        computed = at_place(updated_in_place(body.scope, place, computed), node)
    store = body.at(view, target)
    if not body.store_at_once(store, computed, node):
        copied = body.copied(view, target, node)
        body.store(copied, computed, node)
        body.store(store, copied, node)


def _as_array(scope: Scope, place: ast.expr, value: ast.expr, node: ast.Assign | ast.AugAssign) -> ast.expr:
    """``value``; of a tuple of numbers, and of tuples of these, the array that NumPy makes of it."""
    if not isinstance(value, ast.Tuple) or not _holds_numbers(scope, value):
        return value
    made = word(scope, np.array, value)
    if isinstance(node, ast.Assign) and (dtype := element_type(scope, place)) is not None:
        # Each number is converted by itself.
        made.keywords = [ast.keyword("dtype", word(scope, dtype.type).func)]
    return at_place(standing_for(made, value), value)


def _holds_numbers(scope: Scope, node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(_holds_numbers(scope, each) for each in node.elts)
    return not rank(scope, node) and not isinstance(node, ast.Starred)


# --- elements ----------------------------------------------------------------------------------------------------------


class Elements(Elementwise):
    """The elements of a kernel-level statement; collects what the host must check before a launch."""

    def __init__(self, region: Region, scope: Scope) -> None:
        super().__init__(scope)
        self._region = region
        self._unit = region.unit
        self._target: ViewRef | None = None
        self._seen: Seen = {}
        self._elements: list[tuple[ViewRef, ast.Subscript]] = []
        self._framed: list[ViewRef] = []
        # Those of the loop's axes that belong to the expression which is visited; None for all.
        self._axes: Sequence[int] | None = None
        self._test: ast.expr | None = None

    # --- the loop ---

    def assigned(self, node: ast.expr, *, exact: bool = False) -> ViewRef:
        """The part of an array that a statement assigns: the loop goes over its elements. ``exact`` as in ``frame_all``."""
        view = self._target = self._view(node)
        self.frame([along.count for along in view.along], [as_written(node)] * len(view.along), exact=exact)
        return view

    def frame(self, lengths: Sequence[Extent], texts: Sequence[str], *, exact: bool = False) -> None:
        """The loop goes over axes of these lengths, which operands have whose sources are ``texts``."""
        self._lengths = Lengths(self._region, self.scope, lengths, texts, exact=exact)

    def stores_to(self, view: ViewRef) -> None:
        """Numbers that are read of the array of ``view`` are computed before the loop, which changes it."""
        self._target = view

    def visit_along(self, node: ast.expr, axes: Sequence[int]) -> ast.expr:
        """``node`` for one element, where its dimensions are these axes of the loop, from the last one on."""
        self._axes = axes
        result = self.visit(node)
        self._axes = None
        return result

    def only_where(self, test: ast.expr) -> None:
        """Store elements where ``test`` is true, and leave the others as they are."""
        self._test = test

    def frame_all(self, value: ast.expr, *, exact: bool) -> list[Extent]:
        """The loop goes over the elements of an expression, whose lengths it gives.

        ``exact``: its operands are of one length, 1 is not repeated.
        """
        ndim = rank(self.scope, value, self._ranks)
        if ndim == 0:
            # Calls in it have changed what its arrays are copies of.
            for name in (child for child in nodes_of(value) if isinstance(child, ast.Name)):
                binding(self._unit, self.scope, name)
        self._lengths = Lengths(self._region, self.scope, [ONE] * ndim, [""] * ndim, exact=exact)
        operands = [(operand, self._view(operand)) for operand in array_operands(self.scope, value, self._ranks)]
        self._framed = [view for _, view in operands]
        for axis in range(-ndim, 0):
            lengths = [(view.along[axis].count, as_written(operand)) for operand, view in operands if len(view.along) >= -axis]
            self._lengths.join(ndim + axis, lengths, value)
        return self._lengths.settled(value)

    def most(self, axis: int) -> ast.expr:
        """The greatest length, for the host, that the framed expression may have along ``axis``, which counts from the last."""
        along = [(view.leaf, view.along[axis]) for view in self._framed if len(view.along) >= -axis]
        sizes = [size_of(self._unit, leaf, each.axis) for leaf, each in along if each.axis >= 0]
        greatest = {ast.unparse(size): size for size in sizes}
        first, *others = greatest.values()
        return first if not others else call_of(self._unit.host_object(max, "max"), first, *others)

    def _view(self, node: ast.expr) -> ViewRef:
        return view_of(self._region, self.scope, node, seen=self._seen)

    @property
    def variables(self) -> list[ast.Name]:
        """The variables of the loop, one an axis."""
        return [load(f"{ADDED}i{axis}") for axis in range(len(self._lengths))]

    def _sizes(self, node: ast.AST) -> list[ast.expr]:
        return [length.code for length in self._lengths.settled(node)]

    def loop(
        self, statement: ast.stmt | list[ast.stmt], node: ast.AST, *, declared: bool, axes: Sequence[int] | None = None
    ) -> tuple[Task | None, Task]:
        """``for i0, i1 in ndrange(n0, n1): statement`` at the place of ``node``, as ``parallel_task`` gives it.

        ``axes``: those that it goes over, where ``statement`` is several that go over the others.
        """
        over = range(len(self._lengths)) if axes is None else axes
        sizes, variables = self._sizes(node), self.variables
        call = word(self.scope, language.ndrange, *(sizes[axis] for axis in over))
        assert isinstance(call, ast.Call)
        names: list[ast.expr] = [stored(variables[axis].id) for axis in over]
        target = names[0] if len(names) == 1 else ast.Tuple(names, ast.Store())
        inner = self.scope.inner({f"{ADDED}elements": RangeRef(at_place(call, node), self.scope)})
        loop = ast.For(target, load(f"{ADDED}elements"), statement if isinstance(statement, list) else [statement], [])
        return parallel_task(self._unit, inner, at_place(loop, node), declared=declared)

    def fill(self, statements: list[ast.stmt], axes: Sequence[int], node: ast.AST) -> None:
        """Add the loop over ``axes`` with ``statements`` that fill a new array."""
        bounds, task = self.loop(statements, node, declared=True, axes=axes)
        verdict = Verdict("independent", "elementwise", self.scope.span(node))
        self._region.add(*task_statements(bounds, replace(task, verdict=verdict)))

    def lengths(self, node: ast.AST) -> list[Extent]:
        """The lengths of the loop, once all operands were compared."""
        return self._lengths.settled(node)

    def size(self, node: ast.expr, axes: Sequence[int] | None = None) -> ast.expr:
        """The number of elements, or of those along ``axes``."""
        sizes = self._sizes(node)
        several = sizes if axes is None else [sizes[axis] for axis in axes]
        return copied(functools.reduce(lambda size, length: ast.BinOp(size, ast.Mult(), length), several))

    def number(self, node: ast.expr, axes: Sequence[int] | None = None) -> ast.expr:
        """The number of an element, in C order; along some ``axes`` of the loop, if they are named."""
        total: ast.expr
        axes = range(len(self._lengths)) if axes is None else axes
        total, *variables = (self.variables[axis] for axis in axes)
        sizes = self._sizes(node)
        for variable, length in zip(variables, (sizes[axis] for axis in axes[1:]), strict=True):
            total = ast.BinOp(ast.BinOp(total, ast.Mult(), copied(length)), ast.Add(), variable)
        return total

    def first(
        self, value: ast.expr, dtype: np.dtype[np.generic] | None, node: ast.expr, axes: Sequence[int] | None = None
    ) -> ast.expr:
        """The first element, of all or along ``axes``, where an extreme starts."""
        over = range(len(self._lengths)) if axes is None else axes
        names = {self.variables[axis].id for axis in over}
        result: ast.expr = Zeros(names).visit(copied(value))
        unknown = self._lengths.need_elements(node, over, by_device=dtype is not None)
        if not unknown:
            return result
        if dtype is None:
            raise self.scope.error(
                f"`{as_written(node)}` is of a slice whose length only the device knows, and the type of its elements is not "
                "known",
                node,
                "write a loop: for i in range(...): s = max(s, ...)",
            )
        nothing = word(self.scope, dtype.type, ast.Constant(0))
        return ast.IfExp(every([compare(length, ast.Gt(), ZERO) for length in unknown]), result, nothing)

    # --- expressions ---

    def _element(self, node: ast.expr) -> ast.expr:
        return self.at(self._view(node), node)

    def _number(self, node: ast.expr) -> ast.expr:
        """A number, the same for all elements: computed before, where the statement may change what it reads."""
        if self._target is None or host_expression(self._unit, self.scope, node) is not None:
            return copied(node)
        places = (child for child in nodes_of(node) if isinstance(child, (ast.Name, ast.Attribute, ast.Subscript)))
        read = (bound.leaf for bound in (known(self.scope, place) for place in places) if isinstance(bound, (LeafRef, ViewRef)))
        if not any(self._unit.may_share(leaf.name, self._target.leaf.name) for leaf in read):
            return copied(node)
        name = f"{SHARED}held{len(self._unit.slots)}"
        self.scope.bind(name, bind_value(self._region, self.scope, node))
        return at_place(standing_for(load(name), node), node)

    def at(self, view: ViewRef, node: ast.expr) -> ast.Subscript:
        """The element of ``view`` for this iteration; lengths that may differ from the loop's are checked."""
        axes = range(len(self._lengths)) if self._axes is None else self._axes
        missing = len(axes) - len(view.along)
        if missing < 0:
            raise self.scope.error(
                f"`{as_written(node)}` has {len(view.along)} dimensions, and `{self._lengths.last_text}` {len(axes)}",
                node,
                "leave dimensions out with an index, `u[0]`",
            )
        indices = [
            self._lengths.index(axis, along.count, self.variables[axis], node)
            for axis, along in zip(axes[missing:], view.along, strict=True)
        ]
        result = element(view, indices, self.scope, node, natural=True)
        assert isinstance(result, ast.Subscript)
        self._elements.append((view, result))
        return result

    # --- stores ---

    def store_at_once(self, place: ast.Subscript, value: ast.expr, node: ast.stmt) -> bool:
        """Add the loop that stores ``value`` in ``place``; False where it may read what another iteration has stored."""
        assert self._target is not None
        target, text = self._target.leaf, ast.unparse(place)
        # Operands that may share elements with the target, at other indices.
        shared = [
            view.leaf.name
            for view, code in self._elements
            if self._unit.may_share(view.leaf.name, target.name)
            and (view.leaf.name != target.name or ast.unparse(code) != text)
        ]
        if any(frozenset({name, target.name}) in self._unit.overlapping for name in shared):
            return False
        return self.store(place, value, node, declared=not shared)

    def store(self, place: ast.Subscript, value: ast.expr, node: ast.stmt, *, declared: bool = True) -> bool:
        """Add the loop that stores ``value`` in ``place``; False where it is not proved to be parallel, nor ``declared``."""
        target = copy.copy(place)
        target.ctx = ast.Store()
        statement: ast.stmt = ast.copy_location(ast.Assign([target], value), node)
        if self._test is not None:
            statement = at_place(ast.If(self._test, [statement], []), node)
        try:
            bounds, task = self.loop(statement, node, declared=declared)
        except DataRaceError:
            return False
        if not declared and (task.verdict is None or task.verdict.kind != "independent"):
            return False
        verdict = Verdict("independent", "elementwise", self.scope.span(node))
        self._region.add(*task_statements(bounds, replace(task, verdict=verdict)))
        return True

    def memory(self, dtype: np.dtype[np.generic] | None, lengths: Mapping[int, Extent], node: ast.expr) -> ViewRef:
        """A new array that is ``node``: its lengths, each by the axis of the loop whose most it may be.

        Raises:
            KernelSyntaxError: its type is not known, or none of a kernel's.
        """
        if dtype is None or dtype.name not in SCALAR_DTYPES:
            raise self.scope.error(
                f"the type of the elements of `{as_written(node)}` is not known before the launch",
                node,
                "make the array first: t = qgraph.empty_like(x), then t[:] = ...",
            )
        unit, span = self._unit, self.scope.span(node)
        # What only the device knows is as long as the parts may be.
        known = [copied(length.host or self.most(axis - len(self._lengths))) for axis, length in lengths.items()]
        names = tuple(unit.host_value(size, span, "size", text=ast.unparse(size)).id for size in known)
        leaf = Leaf(unit.array_name("new"), as_written(node), ArrayType(dtype.name, len(names), "C"))
        unit.add_temporary(Temporary(leaf, names, span, computed=True), tuple(known))
        along = (ViewAxis(axis, ZERO, ONE, length) for axis, length in enumerate(lengths.values()))
        return ViewRef(leaf, {}, tuple(along))

    def copied(self, view: ViewRef, node: ast.expr, statement: ast.stmt) -> ast.Subscript:
        """The element of a new array, of the shape and dtype of ``view``; where only the device knows that, it is larger."""
        unit, span = self._unit, self.scope.span(statement)
        assert isinstance(view.leaf.type, ArrayType)
        sizes = [along.count.host or size_of(unit, view.leaf, along.axis) for along in view.along]
        names = tuple(unit.host_value(size, span, "size", text=as_written(node)).id for size in sizes)
        leaf = Leaf(unit.array_name("copy"), "a copy of the right side", ArrayType(view.leaf.type.dtype, len(names), "C"))
        unit.add_temporary(Temporary(leaf, names, span), tuple(sizes))
        along = tuple(ViewAxis(axis, ZERO, ONE, old.count) for axis, old in enumerate(view.along))
        return self.at(ViewRef(leaf, {}, along), node)
