"""Arrays as wholes at kernel level: `y[1:-1] = a * x[:-2] + z[2:]`, and `np.sum(...)` of such expressions, as loops.

A statement becomes a loop over the elements of its target, in which each array stands with an index of its own; from there on
it is a parallel loop like any other. As in NumPy the right side is evaluated first: where it reads the target at other places,
it goes to a temporary before.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.bindings import HostExpr, HostNumber, LeafRef, Value
from qgraph.frontend.flags import assign as assign_name
from qgraph.frontend.host import host_expression
from qgraph.frontend.region import Region, is_array_statement, numpy_reduction
from qgraph.frontend.scope import Scope
from qgraph.language import ndrange
from qgraph.program import ArrayType, Leaf, Temporary

_NO_ELEMENTS = ("shape", "ndim", "size", "dtype")


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of an array in an expression: an index, or ``start + k * step`` for the k-th of ``count`` elements."""

    index: ast.expr | None = None
    start: ast.expr | None = None
    step: int = 1
    count: ast.expr | None = None


@dataclass(frozen=True, slots=True)
class _Operand:
    """An array, or a part of one, in an elementwise expression."""

    node: ast.expr
    base: ast.expr
    leaf: Leaf
    axes: tuple[_Axis, ...]
    transposed: bool

    @property
    def counts(self) -> list[ast.expr]:
        """The extents of the result, as expressions of the host."""
        counts = [axis.count for axis in self.axes if axis.count is not None]
        return counts[::-1] if self.transposed else counts

    def element(self, variables: Sequence[str]) -> ast.expr:
        """The element where the loop variables of the last axes are ``variables``; arrays of fewer axes are repeated."""
        rank = len(self.counts)
        mine = list(variables)[len(variables) - rank :]
        order = iter(mine[::-1] if self.transposed else mine)
        index = [_place(axis, order) for axis in self.axes]
        whole: ast.expr = index[0] if len(index) == 1 else ast.Tuple(index, ast.Load())
        return _at(ast.Subscript(copy.deepcopy(self.base), whole, ast.Load()), self.node)

    def same_places(self, other: _Operand) -> bool:
        """Whether both are the same elements in the same order."""
        return ast.dump(self.element(_names(9))) == ast.dump(other.element(_names(9)))


def _place(axis: _Axis, order: object) -> ast.expr:
    if axis.index is not None:
        return copy.deepcopy(axis.index)
    assert axis.start is not None
    variable: ast.expr = ast.Name(next(order), ast.Load())  # type: ignore[call-overload]
    if axis.step != 1:
        variable = ast.BinOp(variable, ast.Mult(), ast.Constant(axis.step))
    if isinstance(axis.start, ast.Constant) and axis.start.value == 0:
        return variable
    return ast.BinOp(copy.deepcopy(axis.start), ast.Add(), variable)


def assign_elements(region: Region, scope: Scope, target: ast.Subscript, value: ast.expr, node: ast.stmt) -> None:
    """``target = value``, where the target is part of an array.

    Raises:
        KernelSyntaxError: bounds that only the device knows, or shapes that cannot fit.
    """
    elements = _Elements(region, scope)
    place = elements.operand(target)
    assert place is not None
    held = elements.hold_scalars(value)
    operands = elements.operands(held)
    for operand in operands:
        elements.check_shape(place, operand)
    if any(_may_share(region, place, operand) and not place.same_places(operand) for operand in operands):
        copied = _temporary(region, scope, place, node)
        whole = elements.operand(_at(ast.Name(copied, ast.Load()), target))
        assert whole is not None
        elements.loop(whole, held, node)
        held = _at(ast.Name(copied, ast.Load()), value)
    elements.loop(place, held, node)


def reduce_elements(region: Region, scope: Scope, node: ast.Call) -> ast.expr:
    """A name for what ``np.sum``, ``min``, ``max``, ``any``, ``all``, ``mean`` or ``dot`` of an expression gives.

    Raises:
        KernelSyntaxError: arguments that kernels do not know.
    """
    kind = numpy_reduction(scope, node)
    assert kind is not None
    arguments = list(node.args)
    if kind == "dot" and len(arguments) == 2 and not node.keywords:
        value: ast.expr = _at(ast.BinOp(arguments[0], ast.Mult(), arguments[1]), node)
    elif len(arguments) == 1 and not node.keywords:
        (value,) = arguments
    else:
        raise KernelSyntaxError(
            f"`{ast.unparse(node)}` has arguments that kernels do not know",
            scope.span(node),
            hint="reduce over all elements: np.sum(expression)",
        )
    elements = _Elements(region, scope)
    held = elements.hold_scalars(value)
    operands = elements.operands(held)
    first = max(operands, key=lambda operand: len(operand.counts))
    if kind == "dot" and len(first.counts) != 1:
        raise KernelSyntaxError("np.dot of more than one dimension", scope.span(node), hint="write the loops")
    for operand in operands:
        elements.check_shape(first, operand)
    return elements.reduction(kind, first, held, node)


class _Elements(ast.NodeTransformer):
    """Rewrites elementwise expressions of one statement."""

    def __init__(self, region: Region, scope: Scope) -> None:
        self._region = region
        self._scope = scope
        self._unit = region.unit
        self._variables: list[str] = []
        self._found: list[_Operand] = []

    # --- operands ------------------------------------------------------------------------------------------------------

    def operand(self, node: ast.expr) -> _Operand | None:
        """The array that ``node`` is or is part of; None for a number."""
        transposed = isinstance(node, ast.Attribute) and node.attr == "T"
        inner = node.value if transposed and isinstance(node, ast.Attribute) else node
        base = inner.value if isinstance(inner, ast.Subscript) else inner
        bound = self._scope.static(base) if isinstance(base, (ast.Name, ast.Attribute, ast.Subscript)) else None
        if not isinstance(bound, LeafRef) or not isinstance(bound.leaf.type, ArrayType):
            return None
        parts: list[ast.expr] = []
        if isinstance(inner, ast.Subscript):
            parts = list(inner.slice.elts) if isinstance(inner.slice, ast.Tuple) else [inner.slice]
        parts = self._complete(parts, bound.leaf.type.ndim, node)
        axes = tuple(self._axis(part, base, axis) for axis, part in enumerate(parts))
        if all(axis.count is None for axis in axes):
            return None
        return _Operand(node, base, bound.leaf, axes, transposed)

    def _complete(self, parts: list[ast.expr], ndim: int, node: ast.expr) -> list[ast.expr]:
        """One part for each axis: `...` and what is left out are whole axes."""
        dots = [k for k, part in enumerate(parts) if isinstance(part, ast.Constant) and part.value is ...]
        rest: list[ast.expr] = [ast.Slice() for _ in range(ndim - len(parts) + len(dots))]
        if len(parts) - len(dots) > ndim or len(dots) > 1:
            raise KernelSyntaxError(
                f"`{ast.unparse(node)}` has {len(parts)} indices for {ndim} dimensions", self._scope.span(node)
            )
        return [*parts[: dots[0]], *rest, *parts[dots[0] + 1 :]] if dots else [*parts, *rest]

    def _axis(self, part: ast.expr, base: ast.expr, axis: int) -> _Axis:
        if not isinstance(part, ast.Slice):
            if isinstance(part, ast.Constant) and part.value is None:
                raise KernelSyntaxError("a new axis at kernel level", self._scope.span(base), hint="write the loops")
            return _Axis(index=part)
        length = _at(ast.Subscript(ast.Attribute(base, "shape", ast.Load()), ast.Constant(axis), ast.Load()), base)
        size = host_expression(self._unit, self._scope, length)
        bounds = [self._bound(each, base) for each in (part.lower, part.upper, part.step)]
        assert size is not None
        step = bounds[2]
        stride = 1 if step is None else _integer(step)
        if stride is None or stride == 0:
            raise KernelSyntaxError(
                f"the step of `{ast.unparse(part)}` is not a constant other than 0",
                self._scope.span(base),
                hint="write a loop over range(start, stop, step)",
            )
        if part.lower is None and part.upper is None and stride == 1:
            return _Axis(start=ast.Constant(0), count=size)
        texts = ", ".join("None" if bound is None else ast.unparse(bound) for bound in bounds)
        indices = f"slice({texts}).indices({ast.unparse(size)})"
        count = ast.parse(f"len(range(*{indices}))", mode="eval").body
        lower = None if bounds[0] is None else _integer(bounds[0])
        if stride > 0 and (bounds[0] is None or (lower is not None and lower >= 0)):
            # What lies beyond the end has no elements, so the start need not be clipped.
            return _Axis(start=ast.Constant(lower or 0), step=stride, count=count)
        start = self._number(ast.parse(f"{indices}[0]", mode="eval").body, base)
        return _Axis(start=start, step=stride, count=count)

    def _bound(self, node: ast.expr | None, base: ast.expr) -> ast.expr | None:
        if node is None:
            return None
        known = host_expression(self._unit, self._scope, node)
        if known is None:
            raise KernelSyntaxError(
                f"the bound `{ast.unparse(node)}` of a slice is known on the device only",
                self._scope.span(node),
                hint="write a loop: for i in range(start, stop): ...",
            )
        return known

    def _number(self, expr: ast.expr, base: ast.expr) -> ast.expr:
        """A name for an integer that the host computes."""
        value = self._unit.host_value(_at(expr, base), self._scope.span(base), text=ast.unparse(base))
        name = f".{value.id}"
        self._scope.names[name] = HostNumber(value.id, expr)
        return _at(ast.Name(name, ast.Load()), base)

    def check_shape(self, target: _Operand, operand: _Operand) -> None:
        """The last axes of both must have the same extents: known now, or checked before the launch."""
        mine, others = target.counts, operand.counts
        if len(others) > len(mine):
            raise KernelSyntaxError(
                f"`{ast.unparse(operand.node)}` has {len(others)} dimensions, `{ast.unparse(target.node)}` has {len(mine)}",
                self._scope.span(operand.node),
                hint="assign parts of the same shape",
            )
        for left, right in zip(mine[len(mine) - len(others) :], others, strict=True):
            if ast.dump(left) != ast.dump(right):
                same = ast.parse(f"int({ast.unparse(left)} == {ast.unparse(right)})", mode="eval").body
                text = f"`{ast.unparse(operand.node)}` and `{ast.unparse(target.node)}` have different shapes"
                self._unit.host_value(same, self._scope.span(operand.node), "same", text=text)

    # --- expressions ---------------------------------------------------------------------------------------------------

    def operands(self, value: ast.expr) -> list[_Operand]:
        """All arrays in an expression."""
        self._found, self._variables = [], _names(9)
        self.visit(copy.deepcopy(value))
        return self._found

    def hold_scalars(self, value: ast.expr) -> ast.expr:
        """``value`` with array elements in it read now: the loop may change them."""
        return _Holder(self._region, self._scope, self).visit(copy.deepcopy(value))  # type: ignore[no-any-return]

    def visit(self, node: ast.AST) -> ast.AST:
        """Put an element in the place of an array."""
        if isinstance(node, ast.Attribute) and node.attr in _NO_ELEMENTS:
            return node
        if isinstance(node, ast.expr):
            operand = self.operand(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else None
            if operand is not None:
                self._found.append(operand)
                return operand.element(self._variables)
            if isinstance(node, ast.Call):
                bound = self._scope.static(node.func)
                if isinstance(bound, Value) and bound.value is np.where and len(node.args) == 3:
                    test, then, other = (self.visit(argument) for argument in node.args)
                    return _at(ast.IfExp(test, then, other), node)  # type: ignore[arg-type]
                node.args = [self.visit(argument) for argument in node.args]  # type: ignore[misc]
                return node
        return super().generic_visit(node)

    # --- loops ---------------------------------------------------------------------------------------------------------

    def loop(self, place: _Operand, value: ast.expr, node: ast.stmt) -> None:
        """Add the loop that stores ``value`` to all elements of ``place``."""
        names = _names(len(place.counts))
        self._variables = names
        element = place.element(names)
        assert isinstance(element, ast.Subscript)
        element.ctx = ast.Store()
        self._emit(place.counts, names, [ast.Assign([element], self._rewritten(value))], node)

    def reduction(self, kind: str, first: _Operand, value: ast.expr, node: ast.Call) -> ast.expr:
        """Add the loop that combines all elements of ``value``; gives the expression of the result."""
        names = _names(len(first.counts))
        result = f".{kind}{len(self._unit.slots)}_{node.lineno}_{node.col_offset}"
        load: ast.expr = ast.Name(result, ast.Load())
        self._variables = names
        element = self._rewritten(value)
        if kind in ("min", "max"):
            nonempty = " and ".join(f"{ast.unparse(count)} > 0" for count in first.counts)
            text = f"np.{kind} of no elements"
            self._unit.host_value(ast.parse(f"int({nonempty})", mode="eval").body, self._scope.span(node), "same", text=text)
            self._variables = []
            start = _Zeroed(names).visit(copy.deepcopy(element))
            word = f".{kind}"
            self._scope.names[word] = Value({"min": min, "max": max}[kind])
            update: ast.expr = ast.Call(ast.Name(word, ast.Load()), [load, element], [])
        elif kind in ("any", "all"):
            start = ast.Constant(kind == "all")
            truth: ast.expr = ast.Compare(element, [ast.NotEq()], [ast.Constant(0)])
            truth = element if isinstance(element, (ast.Compare, ast.BoolOp)) else truth
            update = ast.BoolOp(ast.And() if kind == "all" else ast.Or(), [load, truth])
        else:
            start = ast.Constant(0)
            update = ast.BinOp(load, ast.Add(), element)
        self._region.block(self._scope, [assign_name(result, _at(start, node), node)])
        self._emit(first.counts, names, [ast.Assign([ast.Name(result, ast.Store())], update)], node)
        if kind == "mean":
            product = " * ".join(f"({ast.unparse(count)})" for count in first.counts)
            count = self._number(ast.parse(product, mode="eval").body, node)
            return _at(ast.BinOp(load, ast.Div(), count), node)
        return _at(load, node)

    def _rewritten(self, value: ast.expr) -> ast.expr:
        result = self.visit(copy.deepcopy(value))
        assert isinstance(result, ast.expr)
        return result

    def _emit(self, counts: list[ast.expr], names: list[str], body: list[ast.stmt], node: ast.AST) -> None:
        word = ".ndrange"
        self._scope.names[word] = Value(ndrange)
        extents: list[ast.expr] = []
        for axis, count in enumerate(counts):
            name = f".count{axis}_{len(self._unit.host_values)}_{getattr(node, 'lineno', 0)}"
            self._scope.names[name] = HostExpr(count)
            extents.append(ast.Name(name, ast.Load()))
        variables: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
        target = variables[0] if len(variables) == 1 else ast.Tuple(variables, ast.Store())
        loop = ast.For(target, ast.Call(ast.Name(word, ast.Load()), extents, []), body, [])
        for child in ast.walk(loop):
            if isinstance(child, (ast.expr, ast.stmt)):
                ast.copy_location(child, node)
        self._region.block(self._scope, [loop])


class _Holder(ast.NodeTransformer):
    """Reads array elements that stand in an elementwise expression as numbers, before the loop."""

    def __init__(self, region: Region, scope: Scope, elements: _Elements) -> None:
        self._region = region
        self._scope = scope
        self._elements = elements

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if self._elements.operand(node) is not None or not is_array_statement(self._scope, node):
            return node
        name = f".element{len(self._region.unit.slots)}_{node.lineno}_{node.col_offset}"
        self._region.block(self._scope, [assign_name(name, node, node)])
        return _at(ast.Name(name, ast.Load()), node)


class _Zeroed(ast.NodeTransformer):
    """The same expression at the first element."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(0), node) if node.id in self._names else node


def _temporary(region: Region, scope: Scope, place: _Operand, node: ast.stmt) -> str:
    """A new array of the shape and dtype of ``place``, under a name of its own."""
    unit = region.unit
    assert isinstance(place.leaf.type, ArrayType)
    span = scope.span(node)
    names = [unit.host_value(count, span, "size", text=ast.unparse(place.node)).id for count in place.counts]
    leaf = Leaf(unit.array_name("copy"), "a copy of the right side", ArrayType(place.leaf.type.dtype, len(names), "C"))
    unit.add_temporary(Temporary(leaf, tuple(names), span), tuple(place.counts))
    name = f".{leaf.name}"
    scope.names[name] = LeafRef(leaf)
    return name


def _may_share(region: Region, left: _Operand, right: _Operand) -> bool:
    """Whether two arrays may be the same memory, or share some."""
    unit = region.unit
    names = frozenset((left.leaf.name, right.leaf.name))
    if len({unit.same.get(name, name) for name in names}) == 1:
        return True
    return names in unit.overlapping or names in unit.sometimes_same


def _integer(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def _names(count: int) -> list[str]:
    return [f"_e{axis}" for axis in range(count)]


def _at(node: ast.expr, where: ast.AST) -> ast.expr:
    for child in ast.walk(node):
        if isinstance(child, ast.expr) and not hasattr(child, "lineno"):
            ast.copy_location(child, where)
    return node
