"""Rows of arrays and their elements as expressions: what vectors are made of and stored to, and what loops go over."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Sequence
from typing import TypeVar

from qgraph.frontend.bodies.value_resolution import at
from qgraph.frontend.desugar.made_tuples import is_divmod
from qgraph.frontend.inference.indexing import bounds_of, is_whole, word
from qgraph.frontend.inference.ranks import is_ellipsis, is_new_axis, known, known_object, may_be_tuple, rank
from qgraph.frontend.inference.stores import is_slice, may_change, refuse_changes
from qgraph.frontend.names.bindings import LeafRef, Private, StructRef, ViewRef
from qgraph.frontend.names.definite_assignment import names_assigned
from qgraph.frontend.names.program_builder import ProgramBuilder
from qgraph.frontend.names.scope import Scope, quietly_static
from qgraph.frontend.names.static_eval import constant_of
from qgraph.frontend.syntax.parse import SourceFunction
from qgraph.ir.argument_types import ArrayType, Leaf, TailFound
from qgraph.ir.trees import assign, at_place, load, names_in, parts_of
from qgraph.language import Func
from qgraph.operations import intrinsics
from qgraph.operations.vectors import Shape
from qgraph.records import dataclass
from qgraph.source import as_written, copied, nodes_of, standing_for

# More arguments than anybody writes.
_MOST_STARRED = 64
_Tree = TypeVar("_Tree", bound=ast.AST)


def places_of_rows(shape: Shape) -> list[list[tuple[int, ...]]]:
    """The places of the components of a vector, or of a matrix row by row."""
    if len(shape) == 1:
        return [[(k,) for k in range(shape[0])]]
    return [[(row, k) for k in range(shape[1])] for row in range(shape[0])]


def taken_apart(scope: Scope, node: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
    """The array that ``node`` is a part of, and the indices."""
    indices: list[ast.expr] = []
    while isinstance(node, ast.Subscript) and known(scope, node) is None:
        indices[:0] = _without_wholes(node)
        node = node.value
    return node, indices


@dataclass(frozen=True, slots=True)
class LastAxes:
    """The extents of an array's last axes, as far as they are known, and the path of the argument that may tell more."""

    tail: Shape
    path: str


def last_axes(scope: Scope, unit: ProgramBuilder, node: ast.expr) -> LastAxes | None:
    """What is known of a part of an array that has its last axes; None for any other part."""
    base, indices = taken_apart(scope, node)
    if any(isinstance(each, ast.Slice) or is_new_axis(scope, each) for each in indices):
        return None
    match known(scope, base):
        case LeafRef(leaf=Leaf(type=ArrayType(tail=tail)) as leaf):
            return LastAxes(tail, _path(unit, leaf))
        case ViewRef(leaf=Leaf(type=ArrayType(ndim=ndim, tail=tail)) as leaf, along=along):
            left = along[len(indices) :]
            axes = [*range(ndim - len(left), ndim)]
            whole = [each.axis for each in left] == axes and all(map(is_whole, left))
            return LastAxes(tail, _path(unit, leaf)) if whole else None
        case Private(array=ArrayType(tail=tail), rows_of=path):
            return LastAxes(tail, path)
    return None


def _path(unit: ProgramBuilder, leaf: Leaf) -> str:
    """The path of the argument that tells the extents of ``leaf``; "" where none does."""
    made = any(each.leaf.name == leaf.name for each in unit.temporaries)
    return unit.like.get(leaf.name, "") if made else leaf.path


def row_parts(scope: Scope, unit: ProgramBuilder, node: ast.expr, count: int) -> list[ast.expr] | None:
    """The elements of a row of an array that is unpacked into ``count`` names; None where its length is not known.

    Of rows of several axes it is not: a kernel is compiled for the lengths of the last axes, and this is another one.

    Raises:
        TailFound: how many there are will be known when the kernel is compiled for that.
        KernelSyntaxError: there are more or fewer, or it is no whole row.
    """
    refuse_changes(scope, node)
    found = last_axes(scope, unit, node)
    if found is None:
        words = f"`{as_written(node)}` is unpacked into {count} names, and its length is not known before the call"
        raise scope.error(words, node, "unpack a whole row, `x[i]`, or name its elements: a, b = x[0], x[1]")
    if rank(scope, node) > 1:
        return None
    if not found.tail:
        if found.path:
            raise TailFound(found.path, 1)
        return None
    if found.tail[-1] != count:
        words = f"`{as_written(node)}` has {found.tail[-1]} elements, and is unpacked into {count} names"
        raise scope.error(words, node, "unpack as many as there are")
    return parts_of_row(node, count)


def row_length(scope: Scope, unit: ProgramBuilder, node: ast.expr) -> int | None:
    """How many elements a whole row of an array has; None of any other part, and where only a call tells.

    Raises:
        TailFound: it will be known when the kernel is compiled for that.
    """
    found = last_axes(scope, unit, node) if rank(scope, node) == 1 else None
    if found is not None and not found.tail and found.path:
        raise TailFound(found.path, 1)
    return found.tail[-1] if found is not None and found.tail else None


def tuple_length(scope: Scope, node: ast.expr) -> int | None:
    """How many parts a tuple has, where that is written: there, or behind each `return` of a func."""
    match node:
        case ast.Tuple(elts=elements) if not any(isinstance(each, ast.Starred) for each in elements):
            return len(elements)
        case ast.IfExp(body=body, orelse=orelse):
            both = {tuple_length(scope, body), tuple_length(scope, orelse)}
            return both.pop() if len(both) == 1 else None
        case ast.Call(func=func) if isinstance(function := known_object(scope, func), Func):
            returned = [each.value for each in nodes_of(function.source.tree) if isinstance(each, ast.Return)]
            found = {tuple_length(scope, each) if isinstance(each, ast.Tuple) else None for each in returned}
            return found.pop() if len(found) == 1 else None
    return None


def length_checks(scope: Scope, unit: ProgramBuilder, node: ast.Assign) -> list[ast.stmt]:
    """Checks of tuples that ``node`` may assign to rows; one that is written out is stored number by number."""
    if isinstance(node.value, ast.Tuple) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
        return []
    pairs = [pair for each in node.targets for pair in assigned_pairs(each, node.value)]
    rows = [(target, value) for target, value in pairs if is_slice(scope, target) and rank(scope, target) == 1]
    tuples = [(row, value) for row, value in rows if not rank(scope, value) and may_be_tuple(scope, value)]
    counts = [tuple_length(scope, value) for _, value in tuples]
    fits = [count is not None and count == row_length(scope, unit, row) for count, (row, _) in zip(counts, tuples, strict=True)]
    return [_length_check(scope, *pair) for pair, sure in zip(tuples, fits, strict=True) if not sure]


def assigned_pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target and its value, of tuples of targets, too, as far as that is written."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for each, part in zip(target.elts, value.elts, strict=True):
            yield from assigned_pairs(each, part)
    else:
        yield target, value


def _length_check(scope: Scope, target: ast.expr, value: ast.expr) -> ast.stmt:
    """The check that a tuple, if ``value`` is one, has as many parts as ``target``, a part of an array, has elements.

    Raises:
        KernelSyntaxError: they cannot be computed twice.
    """
    for each in (target, value):
        refuse_changes(scope, each)
    assert isinstance(target, ast.Subscript)
    length = word(scope, len, standing_for(ast.Subscript(target.value, target.slice, ast.Load()), target))
    wrong = ast.Compare(word(scope, intrinsics.length_of, value, length), [ast.NotEq()], [copied(length)])
    text = f"a tuple of another length is assigned to {as_written(target)}"
    error = word(scope, ValueError, ast.Constant(text))
    return at_place(ast.If(wrong, [ast.Raise(error, None)], []), target)


def parts_of_row(node: ast.expr, count: int) -> list[ast.expr]:
    """The elements of a row of so many."""
    return [item(node, (place,)) for place in range(count)]


def _without_wholes(node: ast.Subscript) -> list[ast.expr]:
    """The indices of ``x[i, :]`` without what takes all of the last axes."""
    indices = parts_of(node)
    while indices and isinstance(indices[-1], ast.Slice) and ast.unparse(indices[-1]) in (":", "::"):
        indices = indices[:-1]
    return indices


def item(node: ast.expr, place: Sequence[int]) -> ast.Subscript:
    """An element of a row, by its place there."""
    base, indices = (node.value, _without_wholes(node)) if isinstance(node, ast.Subscript) else (node, [])
    every = [*map(copied, indices), *map(ast.Constant, place)]
    inside = every[0] if len(every) == 1 else ast.Tuple(every, ast.Load())
    return at(ast.Subscript(_read(base), inside, ast.Load()), node)


def column(node: ast.expr, place: int) -> ast.Subscript:
    """A column of a matrix, by its place there."""
    found = item(node, (0, place))
    assert isinstance(found.slice, ast.Tuple)
    found.slice.elts[-2] = ast.Slice()
    return found


def _read(node: ast.expr) -> ast.expr:
    found = copied(node)
    for child in nodes_of(found):
        if isinstance(child, (ast.Name, ast.Subscript, ast.Attribute)):
            child.ctx = ast.Load()
    return found


# --- `*` of what has a known length ---------------------------------------------------------------------------------------


def with_stars(scope: Scope, unit: ProgramBuilder, node: _Tree, *, whole: bool = False) -> _Tree:
    """A statement with the parts of tuples and rows in the place of `*t`, in calls and tuples, where their length is known.

    ``whole``: also in the statements in it, of which names are not known yet.

    Raises:
        TailFound: it will be known when the kernel is compiled for that.
    """
    if not scope.asked(_has_stars, scope.source):
        return node
    result = copied(node)
    _Stars(scope, unit, whole).generic_visit(result)
    return result


def _has_stars(source: SourceFunction) -> bool:
    return any(map(_may_be_written, nodes_of(source.tree)))


def _may_be_written(node: ast.AST) -> bool:
    match node:
        case ast.Starred() | ast.Call(func=ast.Name(id="tuple")):
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
            return any(isinstance(each, ast.Tuple) or getattr(each, "attr", "") == "shape" for each in (left, right))
    return False


class _Stars(ast.NodeTransformer):
    def __init__(self, scope: Scope, unit: ProgramBuilder, whole: bool) -> None:
        self._scope, self._unit = scope, unit
        self._unknown = names_assigned(scope.source.tree.body) if whole else {}
        self._whole = whole

    def visit(self, node: ast.AST) -> ast.AST:
        if not self._whole and isinstance(node, (ast.stmt, ast.match_case)):
            return node
        if isinstance(node, ast.BinOp | ast.Call) and _may_be_written(node):
            return self._joined(node)
        if not isinstance(node, (ast.Call, ast.Tuple)):
            found: ast.AST = self.generic_visit(node)
            return found
        parts = node.args if isinstance(node, ast.Call) else node.elts
        starred = any(isinstance(each, ast.Starred) for each in parts)
        written = as_written(node) if starred else ""
        self.generic_visit(node)
        if starred:
            parts[:] = [part for each in parts for part in self._parts(each)]
            standing_for(node, node, written)
        return node

    def _joined(self, node: ast.BinOp | ast.Call) -> ast.AST:
        """A sum of tuples, one several times, and `tuple(t)`, as a tuple that is written out, if it is known."""
        written = as_written(node)
        self.generic_visit(node)
        parts: list[ast.expr] | None = None
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, other = self._tuple(left), self._tuple(right)
                parts = None if first is None or other is None else [*first, *other]
            case ast.BinOp(left=ast.Tuple(elts=elements) as left, op=ast.Mult(), right=ast.Constant(value=int() as times)):
                once = times < 2 or not may_change(self._scope, left)
                parts = elements * times if once and len(elements) * times <= _MOST_STARRED else None
            case ast.Call(func=func, args=[value], keywords=[]) if known_object(self._scope, func) is tuple:
                parts = self._range(value) or self._tuple(value) or self._known_parts(value)
        if parts is None or any(isinstance(each, ast.Starred) for each in parts):
            return node
        return standing_for(at_place(ast.Tuple([copied(each) for each in parts], ast.Load()), node), node, written)

    def _tuple(self, node: ast.expr) -> list[ast.expr] | None:
        """The parts of a tuple; None of a row, too, whose sum is another one."""
        return node.elts if isinstance(node, ast.Tuple) else None if rank(self._scope, node) else self._known_parts(node)

    def _range(self, node: ast.expr) -> list[ast.expr] | None:
        """The integers of a range of literals."""
        if not isinstance(node, ast.Call) or known_object(self._scope, node.func) is not range or node.keywords:
            return None
        bounds = [bound for each in node.args if (bound := constant_of(each)) is not None]
        if len(bounds) < len(node.args) or not 1 <= len(bounds) <= 3 or bounds[2:] == [0]:
            return None
        found = range(*bounds)
        return [ast.Constant(each) for each in found] if len(found) <= _MOST_STARRED else None

    def _parts(self, node: ast.expr) -> list[ast.expr]:
        """What stands in the place of a part of a call or tuple: for `*t`, all that it gives, if that is known."""
        if not isinstance(node, ast.Starred):
            return [node]
        found = node.value.elts if isinstance(node.value, ast.Tuple) else self._known_parts(node.value)
        return [node] if found is None else found

    def _known_parts(self, value: ast.expr) -> list[ast.expr] | None:
        """The parts of a tuple or row that has a name, or is the pair of a division; None where they are not known."""
        if any(name in self._unknown for name in names_in(value)) or may_change(self._scope, value):
            known_rows = None
        elif isinstance(value, ast.Attribute) and value.attr == "shape":
            known_rows = rank(self._scope, value.value) or None
        else:
            known_rows = self._length(value)
        count = _written_length(self._scope, value) if known_rows is None else known_rows
        if count is None or count > _MOST_STARRED:
            return None
        return [at(ast.Subscript(copied(value), ast.Constant(k), ast.Load()), value) for k in range(count)]

    def _length(self, value: ast.expr) -> int | None:
        """How many elements a row has, and how many parts a tuple that is known."""
        bound = quietly_static(self._scope, value)
        if isinstance(bound, StructRef):
            return len(bound.children) if issubclass(bound.type.cls, tuple) else None
        is_row = isinstance(value, (ast.Name, ast.Subscript, ast.Attribute)) and rank(self._scope, value) == 1
        return row_length(self._scope, self._unit, value) if is_row else None


def _written_length(scope: Scope, value: ast.expr) -> int | None:
    """How many parts the tuple ``value`` has: one that is made there, or a name that is assigned such tuples alone."""
    if not isinstance(value, ast.Name):
        return 2 if is_divmod(scope, value) and not may_change(scope, value) else None
    function = scope.source
    places = names_assigned(function.tree.body).get(value.id, [])
    given = [
        child.value
        for child in nodes_of(function.tree)
        if isinstance(child, ast.Assign)
        for target in child.targets
        if isinstance(target, ast.Name) and target.id == value.id
    ]
    if value.id in function.signature.parameters or len(places) != len(given):
        return None
    lengths = {_made_length(scope, each) for each in given}
    return lengths.pop() if len(lengths) == 1 else None


def _made_length(scope: Scope, value: ast.expr) -> int | None:
    if is_divmod(scope, value):
        return 2
    made = known_object(scope, value.func) if isinstance(value, ast.Call) else None
    if isinstance(made, type) and issubclass(made, tuple) and hasattr(made, "_fields"):
        return len(made._fields)
    return tuple_length(scope, value)


# --- rows of which each element is taken by a loop -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """The elements of an array along one axis: a subscript with a slice in the place ``axis``, from ``start`` on.

    ``before``: what computes the start and the length.
    """

    scope: Scope
    array: ast.expr
    parts: list[ast.expr]
    axis: int
    start: ast.expr | None
    length: ast.expr
    before: list[ast.stmt]

    def element(self, index: ast.expr) -> ast.Subscript:
        """That with the number ``index``."""
        place = index
        if self.start is not None:
            # It does not count from the end: who knows that need not look, and loads several at once.
            place = word(self.scope, intrinsics.assume_ge, ast.BinOp(index, ast.Add(), self.start), ast.Constant(0))
        return item_at(self.array, [*self.parts[: self.axis], place, *self.parts[self.axis + 1 :]])


def line_of(scope: Scope, node: ast.expr, name: str) -> Line | None:
    """``node``, a part of an array, as a line; None where it is more than indices and one slice.

    Nor is it one where an index changes something: it is computed for each element anew.
    """
    array, parts = (node.value, parts_of(node)) if isinstance(node, ast.Subscript) else (node, [])
    if not isinstance(array, (ast.Name, ast.Attribute)) or may_change(scope, node):
        return None
    parts = [*parts, *(ast.Slice() for _ in range(rank(scope, array) - len(parts)))]
    slices = [(at, part) for at, part in enumerate(parts) if isinstance(part, ast.Slice)]
    whole = all(isinstance(part, ast.Slice) or not rank(scope, part) for part in parts)
    if len(slices) != 1 or not whole or any(is_new_axis(scope, part) or is_ellipsis(part) for part in parts):
        return None
    ((axis, part),) = slices
    lower, upper, step = bounds_of(scope, part)
    if step is not None:
        return None
    before: list[ast.stmt] = []

    def inside(bound: ast.expr, kept: str) -> ast.expr:
        """A bound as the number of an element, which no longer counts from the end."""
        if isinstance(bound, ast.Constant) and isinstance(bound.value, int) and bound.value >= 0:
            return bound
        before.append(assign(kept, word(scope, operator.index, bound)))
        from_end = ast.Compare(load(kept), [ast.Lt()], [ast.Constant(0)])
        counted = word(scope, max, ast.BinOp(load(kept), ast.Add(), shape_along(array, axis)), ast.Constant(0))
        before.append(assign(kept, ast.IfExp(from_end, counted, load(kept))))
        return load(kept)

    size = shape_along(array, axis)
    start = None if lower is None or constant_of(lower) == 0 else inside(lower, f"{name}_from")
    stop = size if upper is None else word(scope, min, inside(upper, f"{name}_to"), size)
    length = stop if start is None else word(scope, max, ast.BinOp(stop, ast.Sub(), start), ast.Constant(0))
    return Line(scope, array, parts, axis, start, length, before)


def in_lines(tree: _Tree, arrays: dict[str, Line], names: dict[str, ast.Name]) -> _Tree:
    """A copy of ``tree`` with elements and lengths of lines in the place of those of parameters, and other names for some."""
    result: _Tree = _InLine(arrays, names).visit(copied(tree))
    return result


class _InLine(ast.NodeTransformer):
    def __init__(self, arrays: dict[str, Line], names: dict[str, ast.Name]) -> None:
        self._arrays, self._names = arrays, names

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        match node.value:
            case ast.Name(id=name) if name in self._arrays and not isinstance(node.slice, ast.Tuple):
                element = self._arrays[name].element(node.slice)
                element.ctx = node.ctx
                return at(standing_for(element, node), node)
            case ast.Attribute(value=ast.Name(id=name), attr="shape") if name in self._arrays:
                return copied(self._arrays[name].length)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self._names[node.id].id, node.ctx) if node.id in self._names else node


def shape_along(array: str | ast.expr, axis: int) -> ast.expr:
    """How long an array, by its name or as an expression, is along an axis."""
    return ast.Subscript(ast.Attribute(_array_named(array), "shape", ast.Load()), ast.Constant(axis), ast.Load())


def item_at(array: str | ast.expr, indices: Sequence[ast.expr]) -> ast.Subscript:
    """An element of it."""
    inside = copied(indices[0]) if len(indices) == 1 else ast.Tuple(copied([*indices]), ast.Load())
    return ast.Subscript(_array_named(array), inside, ast.Load())


def _array_named(array: str | ast.expr) -> ast.expr:
    return load(array) if isinstance(array, str) else copied(array)
