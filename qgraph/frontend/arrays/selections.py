"""`x[k]` and `x[x > 0]`: what arrays of indices, or of booleans, select.

Of indices it is a loop with an index out of an array. Of booleans, a mask, it is what NumPy makes of it: the indices where the
mask is true, in order. What is stored by one mask needs none of these: each element is looked at.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Sequence

import numpy as np

from qgraph.errors import KernelTypeError
from qgraph.frontend.arrays.array_statements import Elements, assign_slice
from qgraph.frontend.arrays.views import size_of, view_of
from qgraph.frontend.inference.array_dtypes import element_type
from qgraph.frontend.inference.elementwise import array_operands, check_in_place, updated_in_place
from qgraph.frontend.inference.indexing import ONE, ZERO, element, fixed, word
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import index_of, is_ellipsis, is_mask, is_new_axis, is_place, nonzero_of, rank
from qgraph.frontend.inference.selected import only_mask, unmasked
from qgraph.frontend.inference.stores import ufunc_at, with_slices
from qgraph.frontend.names.bindings import Extent, LeafRef, ViewAxis, ViewRef
from qgraph.frontend.names.program_builder import ADDED, SHARED
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.inlining import call_func, evaluated, evaluated_array
from qgraph.frontend.statements.region import Region, calls_func, task_statements
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Temporary
from qgraph.ir.trees import at_place, load, parts_of
from qgraph.records import dataclass
from qgraph.source import as_written, copied, standing_for

# What a ufunc's method `at` does to an element, where kernels have atomics for it.
_UPDATES: dict[object, ast.operator] = {
    np.add: ast.Add(),
    np.subtract: ast.Sub(),
    np.bitwise_and: ast.BitAnd(),
    np.bitwise_or: ast.BitOr(),
    np.bitwise_xor: ast.BitXor(),
}


# --- reads -------------------------------------------------------------------------------------------------------------


def bind_selection(region: Region, scope: Scope, node: ast.Subscript) -> LeafRef | ViewRef:
    """The new array that a selection is. Of a mask, memory is taken for all elements.

    Raises:
        KernelSyntaxError, KernelTypeError: indices of other types than integers and booleans, or of shapes that do not fit.
    """
    array = evaluated(region, scope, node.value)
    array = array if is_place(scope, array) else copy_of(region, scope, array)
    node = ast.copy_location(ast.Subscript(array, node.slice, node.ctx), node)
    selection = _Selection(region, scope, _with_evaluated_parts(region, scope, node))
    assert isinstance(selection.view.leaf.type, ArrayType)
    made = new_memory(region, scope, selection.lengths, selection.most, selection.view.leaf.type.dtype, node)
    body = selection.body()
    value = selection.element(body)
    place = body.at(made, node)
    body.store(place, value, ast.copy_location(ast.Assign([place], value), node))
    return LeafRef(made.leaf) if all(length.host is not None for length in selection.lengths) else made


def new_memory(
    region: Region, scope: Scope, lengths: Sequence[Extent], most: Sequence[ast.expr], dtype: str, node: ast.expr
) -> ViewRef:
    """A new array; where only the device knows its ``lengths``, it is in memory of the size ``most``."""
    unit, span = region.unit, scope.span(node)
    sizes = tuple(copied(size) for size in most)
    names = tuple(unit.host_value(size, span, "size", text=ast.unparse(size)).id for size in sizes)
    leaf = Leaf(unit.array_name("new"), as_written(node), ArrayType(dtype, len(names), "C"))
    unit.add_temporary(Temporary(leaf, names, span, computed=True), sizes)
    return ViewRef(leaf, {}, tuple(ViewAxis(axis, ZERO, ONE, length) for axis, length in enumerate(lengths)))


def bind_places(region: Region, scope: Scope, mask: ast.expr, axis: int | None) -> ViewRef:
    """Where ``mask`` is true, as ``np.nonzero``: the indices along a dimension; None for their numbers in C order."""
    return places_along_axes(region, scope, mask, flat=axis is None)[axis or 0]


def places_along_axes(region: Region, scope: Scope, mask: ast.expr, *, flat: bool = False) -> list[ViewRef]:
    """The same along each dimension."""
    mask = evaluated(region, scope, mask)
    frame = Elements(region, scope)
    lengths = frame.frame_all(mask, exact=False)
    most = [copied(length.host or frame.most(axis - len(lengths))) for axis, length in enumerate(lengths)]
    return _places(region, scope, mask, _Extents(lengths, most, [as_written(mask)] * len(lengths)), flat=flat)


def with_named_places(region: Region, scope: Scope, value: ast.expr) -> ast.expr:
    """`np.nonzero(m)` as the tuple of its arrays, which have been made; anything else as it is."""
    mask = nonzero_of(scope, value)
    if mask is None:
        return value
    names = [named(scope, each, value) for each in places_along_axes(region, scope, mask)]
    return ast.copy_location(ast.Tuple([*names], ast.Load()), value)


@dataclass(frozen=True, slots=True)
class _Extents:
    """Lengths of axes, the greatest ones for the host, and the sources of the operands that have them."""

    lengths: list[Extent]
    most: list[ast.expr]
    texts: list[str]


def _places(region: Region, scope: Scope, mask: ast.expr, extents: _Extents, *, flat: bool = False) -> list[ViewRef]:
    body = Elements(region, scope)
    body.frame(extents.lengths, extents.texts, exact=True)
    test = body.visit(mask)
    if not is_mask(scope, mask):
        test = at_place(ast.Compare(test, [ast.NotEq()], [ast.Constant(0)]), mask)
    size = Extent(body.size(mask), None)
    total = functools.reduce(lambda left, right: ast.BinOp(left, ast.Mult(), right), extents.most)
    marks = new_memory(region, scope, [size], [total], "bool", mask)
    mark = element(marks, [body.number(mask)], scope, mask, natural=True)
    assert isinstance(mark, ast.Subscript)
    body.store(mark, test, ast.copy_location(ast.Assign([mark], test), mask))
    places = new_memory(region, scope, [size], [total], "int64", mask)
    names = [named(scope, each, mask) for each in (marks, LeafRef(places.leaf))]
    function = region.unit.funcs["places_of_true"]
    found = call_func(region, scope, function, None, at_place(word(scope, function, *names), mask))
    assert found is not None
    count = f"{SHARED}count{len(region.unit.slots)}_{mask.lineno}"
    scope.bind(count, found)
    number = Extent(standing_for(at_place(load(count), mask), mask), None)
    ordered = ViewRef(places.leaf, {}, (ViewAxis(0, ZERO, ONE, number),))
    if flat or len(extents.lengths) == 1:
        return [ordered]
    result: list[ViewRef] = []
    for axis, length in enumerate(extents.lengths):
        made = new_memory(region, scope, [number], [total], "int64", mask)
        loop = Elements(region, scope)
        loop.frame([number], [as_written(mask)])
        place: ast.expr = loop.at(ordered, mask)
        for inner in extents.lengths[axis + 1 :]:
            place = ast.BinOp(place, ast.FloorDiv(), copied(inner.code))
        if axis:
            place = ast.BinOp(place, ast.Mod(), copied(length.code))
        store = loop.at(made, mask)
        loop.store(store, at_place(place, mask), ast.copy_location(ast.Assign([store], place), mask))
        result.append(made)
    return result


def named(scope: Scope, view: LeafRef | ViewRef, node: ast.expr) -> ast.expr:
    """A name for an array of the kernel's own."""
    name = f"{ADDED}{view.leaf.name}"
    scope.names[name] = view
    return standing_for(ast.copy_location(load(name), node), node)


def _with_evaluated_parts(region: Region, scope: Scope, node: ast.Subscript) -> ast.Subscript:
    node = copied(node)
    written = (part if isinstance(part, ast.Slice) else index_of(scope, part) for part in parts_of(node))
    parts = [part if isinstance(part, ast.Slice) else evaluated_array(region, scope, part) for part in written]
    parts = [with_repeated(region, scope, part) for part in parts]
    node.slice = ast.copy_location(ast.Tuple(parts, ast.Load()), node.slice) if len(parts) > 1 else parts[0]
    node.ctx = ast.Load()
    return node


def with_repeated(region: Region, scope: Scope, part: ast.expr) -> ast.expr:
    """A name for a mask in which an axis is repeated, `a < c[:, None]`: it selects by its own shape. Others as they are."""
    if isinstance(part, ast.Slice) or is_place(scope, part) or not is_mask(scope, part):
        return part
    views = (view_of(region, scope, operand) for operand in array_operands(scope, part, {}))
    return copy_of(region, scope, part) if any(along.count.is_one for view in views for along in view.along) else part


class _Selection:
    """What ``node`` selects: of which part of an array, by which arrays of indices, and its shape.

    ``apart``: indices that may share memory with the array are copied.
    """

    def __init__(self, region: Region, scope: Scope, node: ast.Subscript, *, apart: bool = False) -> None:
        self._region = region
        self.scope = scope
        self.node = node
        # By dimension of ``view``.
        self._indices: dict[int, ast.expr] = {}
        self.unique = True
        parts = self._expanded()
        arrays = [k for k, part in enumerate(parts) if not isinstance(part, ast.Slice) and rank(scope, part)]
        self.view = self._whole(parts, arrays)
        position = 0
        for k, part in enumerate(parts):
            if k not in arrays:
                position += isinstance(part, ast.Slice) or is_new_axis(scope, part)
                continue
            for index in self._index_arrays(part, position, apart=apart):
                self._indices[position] = index
                position += 1
        self._lay_out(parts, arrays)

    def _expanded(self) -> list[ast.expr]:
        """The indices with ``...`` and what is left out written as ``:``."""
        parts = parts_of(self.node)
        taken = sum(self._taken(part) for part in parts)
        missing = rank(self.scope, self.node.value) - taken
        if missing < 0:
            raise self.scope.error(
                f"`{as_written(self.node)}` has indices for {taken} dimensions, and `{as_written(self.node.value)}` "
                f"{taken + missing}",
                self.node,
                "give one index for each dimension; a mask is one for as many as it has",
            )
        rest: list[ast.expr] = [ast.copy_location(ast.Slice(), self.node) for _ in range(missing)]
        for at, part in enumerate(parts):
            if is_ellipsis(part):
                return [*parts[:at], *rest, *parts[at + 1 :]]
        return [*parts, *rest]

    def _taken(self, part: ast.expr) -> int:
        """The number of dimensions that an index is for."""
        if is_new_axis(self.scope, part) or is_ellipsis(part):
            return 0
        return rank(self.scope, part) if not isinstance(part, ast.Slice) and is_mask(self.scope, part) else 1

    def _whole(self, parts: Sequence[ast.expr], arrays: Sequence[int]) -> ViewRef:
        """The part of the array that the other indices select."""
        others: list[ast.expr] = []
        for k, part in enumerate(parts):
            whole = [ast.copy_location(ast.Slice(), part) for _ in range(self._taken(part))]
            others += whole if k in arrays else [part]
        inside: ast.expr = others[0] if len(others) == 1 else ast.copy_location(ast.Tuple(others, ast.Load()), self.node)
        return view_of(
            self._region, self.scope, ast.copy_location(ast.Subscript(self.node.value, inside, ast.Load()), self.node)
        )

    def _index_arrays(self, part: ast.expr, position: int, *, apart: bool) -> list[ast.expr]:
        """Arrays of integers, one a dimension, that an index is."""
        dtype = type_of_new_array(self.scope, part)
        masks = is_mask(self.scope, part)
        if dtype is None or masks != (dtype == np.bool_):
            raise self.scope.error(
                f"the type of the elements of `{as_written(part)}`, an index, is not known before the launch",
                part,
                "give the indices a name first: k = np.empty(n, np.int64), then k[:] = ...",
            )
        if masks:
            along = self.view.along[position : position + rank(self.scope, part)]
            most = [self._most(each) for each in along]
            extents = _Extents([each.count for each in along], most, [as_written(self.node.value)] * len(along))
            return [named(self.scope, each, part) for each in _places(self._region, self.scope, part, extents)]
        if dtype.kind not in "iu":
            raise KernelTypeError(
                f"`{as_written(part)}` is of type {dtype}: arrays used as indices must be of integer (or boolean) type",
                self.scope.span(part),
                hint="convert it: k.astype(np.int64)",
            )
        self.unique = False
        if apart and may_share(self._region, self.scope, part, self.view):
            return [copy_of(self._region, self.scope, part)]
        return [part]

    def _most(self, along: ViewAxis) -> ast.expr:
        if along.count.host is not None:
            return copied(along.count.host)
        return size_of(self._region.unit, self.view.leaf, along.axis)

    def _lay_out(self, parts: Sequence[ast.expr], arrays: Sequence[int]) -> None:
        """Find the shape: the dimensions of the indices stand where these do, or first where others are between them."""
        frame = Elements(self._region, self.scope)
        several = [*self._indices.values()]
        together = functools.reduce(lambda left, right: ast.copy_location(ast.BinOp(left, ast.Add(), right), left), several)
        lengths = frame.frame_all(together, exact=False)
        most = [length.host or frame.most(axis - len(lengths)) for axis, length in enumerate(lengths)]
        # Indices that are numbers count among the arrays, as in NumPy.
        basic = [isinstance(part, ast.Slice) or is_new_axis(self.scope, part) for part in parts]
        chosen = [k for k, each in enumerate(basic) if not each]
        first = 0 if any(basic[chosen[0] : chosen[-1]]) else sum(basic[: chosen[0]])
        rest = [along for k, along in enumerate(self.view.along) if k not in self._indices]
        others = [each.count for each in rest]
        self.axes = range(first, first + len(lengths))
        self.lengths = [*others[:first], *lengths, *others[first:]]
        sizes = [self._most(each) for each in rest]
        self.most = [*sizes[:first], *most, *sizes[first:]]

    # --- in a loop over its elements ---

    def body(self) -> Elements:
        """The loop over the elements."""
        body = Elements(self._region, self.scope)
        body.frame(self.lengths, [as_written(self.node)] * len(self.lengths))
        return body

    def element(self, body: Elements) -> ast.Subscript:
        """The element of the array that is selected in an iteration."""
        part = fixed(self.view, self._in(body), self.scope)
        others = [variable for axis, variable in enumerate(body.variables) if axis not in self.axes]
        found = element(part, others, self.scope, self.node, natural=True)
        assert isinstance(found, ast.Subscript)
        return found

    def _in(self, body: Elements) -> dict[int, ast.expr]:
        return {dimension: body.visit_along(index, self.axes) for dimension, index in self._indices.items()}

    def last(self) -> ViewRef:
        """For each place that indices select, the number of the last one that does: a new array."""
        along = [self.view.along[dimension] for dimension in self._indices]
        most = [self._most(each) for each in along]
        owner = new_memory(self._region, self.scope, [each.count for each in along], most, "int64", self.node)
        fill = Elements(self._region, self.scope)
        fill.frame([each.count for each in along], [as_written(self.node)] * len(along))
        place = fill.at(owner, self.node)
        value = at_place(ast.Constant(-1), self.node)
        fill.store(place, value, ast.copy_location(ast.Assign([place], value), self.node))
        body = Elements(self._region, self.scope)
        body.frame([self.lengths[axis] for axis in self.axes], [as_written(self.node)] * len(self.axes))
        found = {k: body.visit(index) for k, index in enumerate(self._indices.values())}
        place = self.owner_at(owner, found)
        target = copy.copy(place)
        target.ctx = ast.Store()
        greatest = word(self.scope, max, place, body.number(self.node))
        update = at_place(ast.Assign([target], greatest), self.node)
        self._region.add(*task_statements(*body.loop(update, self.node, declared=False)))
        return owner

    def owner_at(self, owner: ViewRef, indices: dict[int, ast.expr]) -> ast.Subscript:
        """The element of what ``last`` gives, at indices by position."""
        found = element(fixed(owner, indices, self.scope), [], self.scope, self.node, natural=True)
        assert isinstance(found, ast.Subscript)
        return found

    def is_last(self, owner: ViewRef, body: Elements) -> ast.expr:
        """Whether no later index selects the same place as this iteration's."""
        place = self.owner_at(owner, dict(enumerate(self._in(body).values())))
        return at_place(ast.Compare(place, [ast.Eq()], [body.number(self.node, self.axes)]), self.node)


# --- stores ------------------------------------------------------------------------------------------------------------


def assign_selections(region: Region, scope: Scope, node: ast.Assign) -> None:
    """``x[m] = value``."""
    (target,) = node.targets if len(node.targets) == 1 else (node.targets[-1],)
    if len(node.targets) > 1 or not isinstance(target, ast.Subscript):
        raise scope.error(
            f"`{as_written(node)}` assigns what arrays select together with others",
            node,
            "write one statement for each: x[m] = ...",
        )
    assign_selection(region, scope, node, target, node.value)


def assign_selection(
    region: Region, scope: Scope, node: ast.Assign | ast.AugAssign, target: ast.Subscript, value: ast.expr
) -> None:
    """``x[k] = value`` and ``x[m] op= value``. Of an index that occurs twice the last value stays, as in NumPy."""
    updates = isinstance(node, ast.AugAssign)
    whole = unmasked(scope, value, target) if only_mask(scope, target) is not None else None
    if updates and whole is not None and calls_func(region.unit, scope, whole):
        # What a func changes of the elements is lost: they are read before.
        whole = None
    if not updates:
        # Python takes the value first.
        value = evaluated_array(region, scope, value if whole is None else whole)
    place = _with_evaluated_parts(region, scope, target)
    mask = only_mask(scope, place)
    if mask is not None:
        _refuse_part_as_mask(region, scope, place, mask)
    if isinstance(node, ast.AugAssign):
        check_in_place(scope, node, place, value)
    if mask is not None and whole is not None:
        _assign_where(region, scope, node, place, mask, evaluated_array(region, scope, whole) if updates else value)
        return
    if isinstance(node, ast.AugAssign):
        # All elements are read before any is stored: an index that occurs twice counts once.
        held = named(scope, _view(bind_selection(region, scope, place), region, scope, place), place)
        update = ast.copy_location(ast.AugAssign(_stored(held), node.op, value), node)
        assign_slice(region, scope, update, _stored(held), value)
        _scatter(region, scope, node, place, held, alike=not rank(scope, value))
    else:
        _scatter(region, scope, node, place, value, alike=not rank(scope, value))


def _refuse_part_as_mask(region: Region, scope: Scope, place: ast.Subscript, mask: ast.expr) -> None:
    """Raise ``KernelSyntaxError`` for `m[m[::-1]] = False`: there NumPy reads elements of its mask that it has stored."""
    same = ast.unparse(mask) == ast.unparse(place.value)
    if not same and is_place(scope, mask) and may_share(region, scope, mask, view_of(region, scope, place.value)):
        raise scope.error(
            f"`{as_written(mask)}`, the mask, is another part of the array that is assigned",
            mask,
            f"select by a copy: ({as_written(mask)}).copy()",
        )


def _stored(node: ast.expr) -> ast.Name:
    assert isinstance(node, ast.Name)
    target = copy.copy(node)
    target.ctx = ast.Store()
    return target


def _view(bound: LeafRef | ViewRef, region: Region, scope: Scope, node: ast.expr) -> ViewRef:
    if isinstance(bound, ViewRef):
        return bound
    name = f"{ADDED}{bound.leaf.name}"
    scope.names[name] = bound
    return view_of(region, scope, ast.copy_location(load(name), node))


def _assign_where(
    region: Region, scope: Scope, node: ast.Assign | ast.AugAssign, place: ast.Subscript, mask: ast.expr, value: ast.expr
) -> None:
    """``x[m] = value``, where the value has an element for each one of ``x``: a loop with a condition."""
    base, written = place.value, value
    if isinstance(node, ast.AugAssign):
        written = ast.copy_location(ast.BinOp(base, node.op, value), node)
    body = Elements(region, scope)
    view = body.assigned(base, exact=True)
    body.only_where(body.visit_along(mask, range(rank(scope, mask))))
    computed = body.visit(written)
    if isinstance(node, ast.AugAssign) and isinstance(computed, ast.BinOp) and element_type(scope, written) is None:
        computed = at_place(updated_in_place(body.scope, base, computed), node)
    if body.store_at_once(body.at(view, place), computed, node):
        return
    if rank(scope, value):
        value = copy_of(region, scope, value)
    _assign_where(region, scope, node, place, copy_of(region, scope, mask), value)


def _scatter(
    region: Region, scope: Scope, node: ast.Assign | ast.AugAssign, place: ast.Subscript, value: ast.expr, *, alike: bool
) -> None:
    """``alike``: where an index occurs twice, both values are the same."""
    selection = _Selection(region, scope, place, apart=True)
    if rank(scope, value) and may_share(region, scope, value, selection.view):
        value = copy_of(region, scope, value)
    last = None if selection.unique or alike else selection.last()
    body = selection.body()
    body.stores_to(selection.view)
    found = selection.element(body)
    computed = body.visit(value)
    if last is not None:
        body.only_where(selection.is_last(last, body))
    body.store(found, computed, node)


def may_share(region: Region, scope: Scope, node: ast.expr, view: ViewRef) -> bool:
    """Whether an expression reads an array that may share elements with that of ``view``."""
    places = (view_of(region, scope, operand) for operand in array_operands(scope, node, {}))
    return any(region.unit.may_share(each.leaf.name, view.leaf.name) for each in places)


def copy_of(region: Region, scope: Scope, node: ast.expr) -> ast.expr:
    """The name of a new array with the elements of ``node``."""
    made = at_place(word(scope, np.copy, node), node) if is_place(scope, node) else node
    bound = region.arrays.bind(region, scope, made)
    assert isinstance(bound, (LeafRef, ViewRef))
    return named(scope, _view(bound, region, scope, node), node)


# --- updates -----------------------------------------------------------------------------------------------------------


def update_at(region: Region, scope: Scope, node: ast.Call) -> None:
    """``np.add.at(x, k, v)``: an index that occurs twice counts twice."""
    op = _UPDATES.get(ufunc_at(scope, node))
    if op is None or len(node.args) != 3 or node.keywords or not rank(scope, node.args[0]):
        raise scope.error(
            f"`{as_written(node)}` is no update that kernels have",
            node,
            "known are add, subtract, bitwise_and, bitwise_or and bitwise_xor, as np.add.at(x, k, v); or write a loop: "
            "x[k[i]] = max(x[k[i]], v[i])",
        )
    array = evaluated(region, scope, node.args[0])
    target = at_place(ast.Subscript(array, with_slices(scope, node.args[1]), ast.Load()), node)
    target, value = _with_evaluated_parts(region, scope, target), evaluated_array(region, scope, node.args[2])
    update = ast.copy_location(ast.AugAssign(_as_target(target), op, value), node)
    check_in_place(scope, update, target, value)
    if not any(rank(scope, part) for part in parts_of(target) if not isinstance(part, ast.Slice)):
        region.block(scope, [update])
        return
    selection = _Selection(region, scope, target, apart=True)
    if rank(scope, value) and may_share(region, scope, value, selection.view):
        value = copy_of(region, scope, value)
    body = selection.body()
    body.stores_to(selection.view)
    found, computed = selection.element(body), body.visit(value)
    statement = at_place(ast.AugAssign(_as_target(found), op, computed), node)
    region.add(*task_statements(*body.loop(statement, node, declared=False)))


def _as_target(node: ast.Subscript) -> ast.Subscript:
    target = copy.copy(node)
    target.ctx = ast.Store()
    return target
