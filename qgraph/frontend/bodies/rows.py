"""Array expressions inside loop bodies: `y[i] = np.dot(a[i], x)`, `a[i, 1:] += x[:-1]` as calls of functions with the loops.

Each is a function of the arrays, or parts of them, and the numbers in the expression, which every backend compiles like one
that the user wrote. NumPy evaluates the right side of an assignment first: where parts of one array meet, the loop runs in the
direction in which it reads no element that it has stored, or the statement is refused.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from qgraph.errors import ArgumentError
from qgraph.frontend.bodies.array_expressions import indices_in, refuse_masks
from qgraph.frontend.bodies.row_elements import Line, in_lines, item_at, line_of, shape_along
from qgraph.frontend.bodies.row_overlaps import Directions
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.elementwise import Elementwise, Zeros, array_operands, check_in_place, updated_in_place
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import is_ellipsis, is_new_axis, is_place, known_object, rank, reduction
from qgraph.frontend.inference.reduction_rules import PRODUCTS, finished, operand, operands_of_reduction, summed, wider
from qgraph.frontend.names.bindings import Private
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.argument_types import ArrayType
from qgraph.ir.faults import FAULTS, Fault
from qgraph.ir.program import SLOTS
from qgraph.ir.trees import assign, at_place, load, parts_of, stored
from qgraph.operations import intrinsics
from qgraph.records import dataclass
from qgraph.source import as_written, copied, nodes_of, standing_for

Noting = Callable[[Fault], tuple[ast.expr, ...]]
Shared = Callable[[str, str], bool]

_EXTREMES = {"min": np.minimum, "max": np.maximum}
_PLACES = {"argmin": ast.Lt, "argmax": ast.Gt}
_HINT = "the arrays of a statement have one shape; take a part of the longer one, or write a loop"
_TUPLE_HINT = "assign as many numbers as the part of the array has"


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function to be compiled: its statements in ``scope``, and what it is given, by parameter, as the user wrote it."""

    name: str
    scope: Scope
    arguments: dict[str, ast.expr]
    statements: list[ast.stmt]

    def in_line(self, number: int) -> tuple[list[ast.stmt], ast.expr | None] | None:
        """The statements as those of its caller, and the value of a function that returns one; None where they cannot be.

        ``number`` tells the names in them from others.
        """
        last = self.statements[-1]
        value = last.value if isinstance(last, ast.Return) else None
        statements = self.statements if value is None else self.statements[:-1]
        if any(isinstance(child, ast.Return) for each in statements for child in nodes_of(each)):
            return None
        names = {name: load(f"{name}_{number}") for name in names_assigned(statements)}
        lines: list[ast.stmt] = []
        arrays: dict[str, Line] = {}
        for name, argument in self.arguments.items():
            bound = self.scope.names[name]
            if isinstance(bound, Private) and bound.array is not None:
                line = line_of(self.scope, argument, f"{name}_{number}")
                if line is None:
                    return None
                lines += line.before
                arrays[name] = line
            else:
                names[name] = load(f"{name}_{number}")
                lines.append(assign(names[name].id, copied(argument)))
        lines += (in_lines(each, arrays, names) for each in statements)
        value = None if value is None else in_lines(value, arrays, names)
        every = lines if value is None else [*lines, value]
        if any(isinstance(child, ast.Name) and child.id in arrays for each in every for child in nodes_of(each)):
            return None
        return [at_place(each, last) for each in lines], value if value is None else at_place(value, last)


def reducing_function(scope: Scope, node: ast.expr, noting: Noting) -> RowFunction:
    """The function that computes ``node``, a reduction such as ``np.sum(a[i] * x)``.

    Raises:
        KernelSyntaxError: it takes what is no array expression, or options.
    """
    kind = reduction(scope, node)
    if kind == "det":
        raise scope.error(
            f"`{as_written(node)}` is computed by a library, of whole arrays",
            node,
            "of one matrix call it at kernel level; in a loop write it out: m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0], "
            "and of three rows c = np.cross(m[1], m[2]), then np.dot(m[0], c)",
        )
    value = operand(scope, operands_of_reduction(scope, node, kind), kind, node)
    return _Reduction(scope, node, noting, kind).function(value)


def storing_function(
    scope: Scope, node: ast.Assign | ast.AugAssign, target: ast.expr, noting: Noting, may_share: Shared
) -> RowFunction:
    """The function that does ``node``, an assignment of arrays to ``target``, a part of one.

    Raises:
        KernelSyntaxError, KernelTypeError: the value does not fit, or parts of one array overlap in more than one way.
    """
    place = _read(target)
    value = node.value
    if isinstance(node, ast.AugAssign):
        check_in_place(scope, node, place, value)
        value = ast.copy_location(ast.BinOp(place, node.op, value), node)
    return _Store(scope, node, noting).function(place, value, may_share)


def tuple_storing_function(
    scope: Scope, node: ast.Assign, target: ast.expr, parts: list[ast.expr], noting: Noting, *, fits: bool
) -> RowFunction:
    """The function that stores numbers in the elements of ``target``, a row; ``fits``: it surely has as many."""
    return _TupleStore(scope, node, noting).function(_read(target), parts, fits=fits)


def _read(target: ast.expr) -> ast.expr:
    """``target`` as an expression."""
    place = copied(target)
    for child in nodes_of(place):
        if isinstance(child, (ast.Name, ast.Subscript, ast.Attribute)) and child.ctx.__class__ is ast.Store:
            child.ctx = ast.Load()
    return place


class _Rows(Elementwise):
    """Builds a function: its parameters, and nested loops whose extents are those of the arrays."""

    def __init__(self, scope: Scope, node: ast.AST, noting: Noting) -> None:
        super().__init__(scope.inner({name: Private(name) for name in (FAULTS, SLOTS)}))
        self._node = node
        self._noting = noting
        self._arguments: dict[str, ast.expr] = {}
        self._parameters: dict[str, str] = {}
        # The same by the node: what `+=` reads and stores is one place, whatever its indices call.
        self._places: dict[ast.expr, str] = {}
        # By axis of the loops: the arrays that have it, and which axis of theirs it is.
        self._axes: list[list[tuple[str, int]]] = []

    def _parameter(self, node: ast.expr, wish: str, array: ArrayType | None) -> str:
        """The parameter for ``node``, which is evaluated once, before the loops."""
        if node in self._places:
            return self._places[node]
        text = ast.unparse(node)
        repeated = not any(isinstance(child, ast.Call) for child in nodes_of(node))
        if repeated and text in self._parameters:
            return self._parameters[text]
        name = f"{wish}{len(self._arguments)}"
        self._arguments[name] = node
        self._parameters[text] = self._places[node] = name
        self.scope.names[name] = Private(name, array)
        return name

    def _element(self, node: ast.expr) -> ast.expr:
        ndim = rank(self.scope, node)
        name = self._array(node)
        variables = [load(f"_i{axis}") for axis in range(len(self._axes) - ndim, len(self._axes))]
        return at_place(standing_for(item_at(name, variables), node), node)

    def _array(self, node: ast.expr) -> str:
        """The parameter for an array, whose lengths are those of the loops."""
        ndim = rank(self.scope, node)
        missing = len(self._axes) - ndim
        if missing < 0:
            raise self.scope.error(
                f"`{as_written(node)}` has {ndim} dimensions, and the part that is assigned {len(self._axes)}",
                node,
                "leave dimensions out with an index, `u[0]`",
            )
        _refuse_selections(self.scope, node)
        dtype = element_type(self.scope, node)
        name = self._parameter(node, "_a", ArrayType("" if dtype is None else dtype.name, ndim, "A"))
        for axis in range(ndim):
            if (name, axis) not in self._axes[missing + axis]:
                self._axes[missing + axis].append((name, axis))
        return name

    def _number(self, node: ast.expr) -> ast.expr:
        if constant_of(node) is not None or isinstance(node, ast.Constant) or _is_known(self.scope, node):
            return copied(node)
        return at_place(load(self._parameter(node, "_s", None)), node)

    def _sample(self, value: ast.expr) -> ast.expr:
        """An expression of the type of ``value`` that reads no element."""
        result: ast.expr = _Sample(self.scope, self._arguments).visit(copied(value))
        return result

    # --- statements ---

    def _lengths(self, *, exact: bool = True) -> list[ast.stmt]:
        """The extents of the loops, `_n0` and so on: 0 where arrays have different ones, and a fault is noted."""
        result: list[ast.stmt] = []
        for at, arrays in enumerate(self._axes):
            (first, axis), *others = arrays
            length = shape_along(first, axis)
            for name, other in others:
                if self._surely_same((first, axis), (name, other)):
                    continue
                texts = [as_written(self._arguments[each]).replace("%", "%%") for each in (first, name)]
                along = f" along axis {at}" if len(self._axes) > 1 else ""
                found = f"`{texts[1]}` and `{texts[0]}` have different lengths{along}"
                fault = Fault(ArgumentError, self.scope.span(self._node), found, _HINT)
                length = word(self.scope, intrinsics.same_length, length, shape_along(name, other), *self._noting(fault))
            result.append(assign(f"_n{at}", length))
        return result

    def _surely_same(self, one: tuple[str, int], other: tuple[str, int]) -> bool:
        first, second = (_extent(self.scope, self._arguments[name], axis) for name, axis in (one, other))
        return first is not None and first == second

    def _loops(self, body: list[ast.stmt], backwards: Sequence[bool] = ()) -> list[ast.stmt]:
        for axis in reversed(range(len(self._axes))):
            length = load(f"_n{axis}")
            bounds: list[ast.expr] = [length]
            if backwards and backwards[axis]:
                bounds = [ast.BinOp(length, ast.Sub(), ast.Constant(1)), ast.Constant(-1), ast.Constant(-1)]
            body = [ast.For(stored(f"_i{axis}"), word(self.scope, range, *bounds), body, [])]
        return body

    def _size(self) -> ast.expr:
        size: ast.expr = load("_n0")
        for axis in range(1, len(self._axes)):
            size = ast.BinOp(size, ast.Mult(), load(f"_n{axis}"))
        return size

    def _made(self, name: str, statements: list[ast.stmt]) -> RowFunction:
        return RowFunction(name, self.scope, self._arguments, [at_place(each, self._node) for each in statements])


class _Reduction(_Rows):
    """``np.sum(...)`` and its kin."""

    def __init__(self, scope: Scope, node: ast.expr, noting: Noting, kind: str) -> None:
        super().__init__(scope, node, noting)
        self._reduction, self._kind = node, kind

    def function(self, value: ast.expr) -> RowFunction:
        """The function that combines the elements of ``value``."""
        scope, kind = self.scope, self._kind
        self._axes = [[] for _ in range(rank(scope, value, self._ranks))]
        dtype = element_type(scope, value)
        element = self.visit(value)
        if kind in PRODUCTS and dtype == np.bool_:
            kind = "any"
        if kind in ("any", "all"):
            statements = self._found(element, kind)
        elif kind in _EXTREMES:
            step = word(scope, _EXTREMES[kind], load("_best"), element)
            statements = [*self._first(element), *self._loops([assign("_best", step)]), ast.Return(load("_best"))]
        elif kind in _PLACES:
            statements = self._place(element, kind, dtype)
        else:
            statements = self._sum(element, kind, dtype)
        return self._made(f"_row_{kind}", [*self._lengths(), *statements])

    def _element(self, node: ast.expr) -> ast.expr:
        """The element of an array, or the one that a vector of indices selects."""
        match node:
            case ast.Subscript(value=base, slice=index) if self._is_gather(base, index):
                dtype = element_type(self.scope, base)
                name = self._parameter(base, "_a", ArrayType("" if dtype is None else dtype.name, 1, "A"))
                # Of a part that only the device knows it would not be known to be a number.
                place = word(self.scope, np.int64, super()._element(index))
                return at_place(standing_for(item_at(name, [place]), node), node)
        return super()._element(node)

    def _is_gather(self, base: ast.expr, index: ast.expr) -> bool:
        """Whether ``index`` is a vector of integers that selects elements of the vector ``base``."""
        if rank(self.scope, base) != 1 or rank(self.scope, index) != 1 or not is_place(self.scope, index):
            return False
        dtype = element_type(self.scope, index)
        return is_place(self.scope, base) and dtype is not None and dtype.kind in "iu"

    def _found(self, element: ast.expr, kind: str) -> list[ast.stmt]:
        test = element if kind == "any" else ast.UnaryOp(ast.Not(), element)
        leave = ast.If(test, [ast.Return(ast.Constant(kind == "any"))], [])
        return [*self._loops([leave]), ast.Return(ast.Constant(kind != "any"))]

    def _first(self, element: ast.expr) -> list[ast.stmt]:
        """The first element as ``_best``; a fault where there is none."""
        found = f"`{as_written(self._node)}` is of an array without elements".replace("%", "%%")
        fault = Fault(ArgumentError, self.scope.span(self._node), found, "NumPy refuses this too")
        some = word(self.scope, intrinsics.divisor, self._size(), *self._noting(fault))
        empty = ast.Compare(some, [ast.Eq()], [ast.Constant(0)])
        variables = {f"_i{axis}" for axis in range(len(self._axes))}
        first: ast.expr = Zeros(variables).visit(copied(element))
        nothing: ast.expr = ast.Constant(0) if self._kind in _PLACES else self._sample(element)
        return [ast.If(empty, [ast.Return(nothing)], []), assign("_best", first)]

    def _place(self, element: ast.expr, kind: str, dtype: np.dtype[np.generic] | None) -> list[ast.stmt]:
        """The first place of the extreme in C order; a nan counts as one."""
        better: ast.expr = ast.Compare(load("_value"), [_PLACES[kind]()], [load("_best")])
        if dtype is None or dtype.kind in "fc":
            is_nan = ast.Compare(load("_value"), [ast.NotEq()], [load("_value")])
            none_yet = ast.Compare(load("_best"), [ast.Eq()], [load("_best")])
            better = ast.BoolOp(ast.Or(), [better, ast.BoolOp(ast.And(), [is_nan, none_yet])])
        step = [
            assign("_value", element),
            ast.If(better, [assign("_best", load("_value")), assign("_place", load("_at"))], []),
            assign("_at", ast.BinOp(load("_at"), ast.Add(), ast.Constant(1))),
        ]
        start = [assign("_place", ast.Constant(0)), assign("_at", ast.Constant(0))]
        return [*self._first(element), *start, *self._loops(step), ast.Return(word(self.scope, np.int64, load("_place")))]

    def _sum(self, element: ast.expr, kind: str, dtype: np.dtype[np.generic] | None) -> list[ast.stmt]:
        product = kind == "prod"
        # Products and norms are added up in their own type, as BLAS and NumPy do.
        added = None if (kind in PRODUCTS or kind == "norm") and dtype != np.float16 else wider(kind, dtype)

        def wide(value: ast.expr) -> ast.expr:
            """``value`` as it is summed up."""
            if added is not None:
                return word(self.scope, added, value)
            if kind in PRODUCTS or kind == "norm":
                return value
            cast = summed(kind, dtype)
            return word(self.scope, intrinsics.summed if cast is None else cast, value)

        identity = intrinsics.empty_product if product else intrinsics.empty_sum
        start: ast.expr = word(self.scope, identity, wide(self._sample(element)))
        if not product:
            # No sum is -0.0.
            start = ast.BinOp(start, ast.Add(), ast.Constant(0))
        step: ast.stmt = ast.AugAssign(stored("_total"), ast.Mult() if product else ast.Add(), wide(element))
        if dtype is not None and dtype.kind == "f" and not product:
            # NumPy adds in an order of its own too; in program order a CPU would wait for each addition.
            step = assign("_total", word(self.scope, intrinsics.reassociable_add, load("_total"), wide(element)))
        result: ast.expr = load("_total")
        result = finished(self.scope, self._reduction, kind, result, self._size())
        if added is not None and dtype is not None:
            result = word(self.scope, dtype.type, result)
        return [assign("_total", start), *self._loops([step]), ast.Return(result)]


class _Store(_Rows):
    """An assignment of arrays to a part of one."""

    def function(self, target: ast.expr, value: ast.expr, may_share: Shared) -> RowFunction:
        """The function that stores ``value`` in ``target``."""
        scope = self.scope
        self._axes = [[] for _ in range(rank(scope, target, self._ranks))]
        # Texts that are the same have one parameter: the target's comes first, so that what is updated is read through it.
        _refuse_selections(scope, target)
        store = self._element(target)
        of_value = array_operands(scope, value, self._ranks)
        directions = Directions(scope, target, len(self._axes), may_share)
        backwards = directions.backwards(of_value)
        computed = self.visit(value)
        place = copied(store)
        assert isinstance(place, ast.Subscript)
        place.ctx = ast.Store()
        step: ast.stmt = ast.Assign([place], computed)
        if isinstance(self._node, ast.AugAssign) and isinstance(computed, ast.BinOp):
            dtype = element_type(scope, target)
            if element_type(scope, value) is None and (dtype is None or dtype.kind not in "fc"):
                step = ast.Assign([place], updated_in_place(scope, target, computed))
            else:
                # Which is atomic where iterations may meet. Floats take whatever real number is added.
                step = ast.AugAssign(place, computed.op, computed.right)
        if isinstance(self._node, ast.Assign):
            # Python evaluates the value first.
            first = next(iter(self._arguments))
            self._arguments[first] = self._arguments.pop(first)
        before = [*self._lengths(), *itertools.starmap(self._same_signs, directions.starts)]
        return self._made("_row_store", [*before, *self._loops([step], backwards)])

    def _same_signs(self, one: ast.expr, other: ast.expr) -> ast.stmt:
        """Extent 0, and a fault, where starts count from the end: the direction was chosen as if none did."""
        starts = [load(self._parameter(copied(start), "_s", None)) for start in (one, other)]
        negative: list[ast.expr] = [ast.Compare(start, [ast.Lt()], [ast.Constant(0)]) for start in starts]
        length, several = load("_n0"), len(self._axes) > 1
        # One element is read before it is stored. Where both starts are clipped to 0, the next axis decides the direction.
        wrong: ast.expr = ast.BoolOp(ast.Or(), negative) if several else ast.Compare(negative[0], [ast.NotEq()], negative[1:])
        harmless = ast.Constant(0) if several else word(self.scope, min, length, ast.Constant(1))
        wanted = ast.IfExp(wrong, harmless, length)
        texts = [as_written(start).replace("%", "%%") for start in (one, other)]
        found = f"parts of one array begin at `{texts[0]}` and `{texts[1]}`, of which at least one is negative"
        fault = Fault(ArgumentError, self.scope.span(self._node), found, "count both from the start of the array")
        return assign("_n0", word(self.scope, intrinsics.same_length, length, wanted, *self._noting(fault)))


class _TupleStore(_Rows):
    """An assignment of a tuple of numbers to a row."""

    def function(self, target: ast.expr, parts: list[ast.expr], *, fits: bool) -> RowFunction:
        """The function that stores ``parts``, which are evaluated first, in the elements of ``target``."""
        self._axes = [[]]
        values = [self._number(part) for part in parts]
        name = self._array(target)
        stores: list[ast.stmt] = []
        for k, value in enumerate(values):
            place = at_place(standing_for(item_at(name, [ast.Constant(k)]), target), target)
            place.ctx = ast.Store()
            stores.append(ast.Assign([place], value))
        if fits:
            return self._made("_row_store", stores)
        text = as_written(target).replace("%", "%%")
        fault = Fault(ArgumentError, self.scope.span(self._node), f"`{text}` has not {len(parts)} elements", _TUPLE_HINT)
        count: ast.expr = ast.Constant(len(parts))
        length = word(self.scope, intrinsics.same_length, shape_along(name, 0), count, *self._noting(fault))
        return self._made("_row_store", [assign("_n0", length), ast.If(load("_n0"), stores, [])])


def _is_known(scope: Scope, node: ast.expr) -> bool:
    """Whether ``node`` is a number at compile time."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, (ast.Name, ast.Attribute)) and isinstance(
        known_object(scope, node), (int, float, complex, np.generic)
    )


def _refuse_selections(scope: Scope, node: ast.expr) -> None:
    """Raise ``KernelSyntaxError`` for masks and new axes: rows take an index or a slice of each dimension."""
    refuse_masks(scope, node)
    if any(is_new_axis(scope, part) for part in indices_in(scope, node)):
        raise scope.error(
            f"`{as_written(node)}` has a new dimension, which is not supported in a loop",
            node,
            "write a loop over the elements",
        )


def _extent(scope: Scope, node: ast.expr, axis: int) -> str | None:
    """A key of the length of an axis: what has the same key has the same length. None where nothing is known of it."""
    match node:
        case ast.Subscript(value=ast.Name(id=name) as base):
            parts = parts_of(node)
            if any(map(is_ellipsis, parts)):
                return None
            parts += [ast.Slice()] * (rank(scope, base) - len(parts))
            sliced = [(k, part) for k, part in enumerate(parts) if isinstance(part, ast.Slice)]
            at, part = sliced[axis]
            return f"{name} {at} {ast.unparse(part)}"
        case ast.Name(id=name):
            return f"{name} {axis} :"
    return None


class _Sample(ast.NodeTransformer):
    """Replaces each element by 1 of its dtype: the type of the expression stays, and nothing is read."""

    def __init__(self, scope: Scope, arrays: dict[str, ast.expr]) -> None:
        self._scope, self._arrays = scope, arrays

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        bound = self._scope.names.get(name) if name in self._arrays else None
        if not isinstance(bound, Private) or bound.array is None:
            return node
        if not bound.array.dtype:
            kind = ast.Attribute(ast.Attribute(load(name), "dtype", ast.Load()), "type", ast.Load())
            return ast.copy_location(ast.Call(kind, [ast.Constant(1)], []), node)
        return ast.copy_location(word(self._scope, np.dtype(bound.array.dtype).type, ast.Constant(1)), node)
