"""Directions of loops that copy between overlapping parts of one array, as of ``memmove``: no element is read once stored."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from qgraph.frontend.checks.zero_division import values_of
from qgraph.frontend.inference.indexing import is_natural
from qgraph.frontend.inference.ranks import is_ellipsis, known, rank
from qgraph.frontend.names.bindings import Binding, LeafRef, Private, ViewRef
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.trees import parts_of
from qgraph.source import as_written


class Directions:
    """The directions of the loops over the elements of ``target``, one an axis."""

    def __init__(self, scope: Scope, target: ast.expr, axes: int, may_share: Callable[[str, str], bool]) -> None:
        self._scope = scope
        self._shared = may_share
        self._target = target
        self._axes = axes
        # Where slices begin, in pairs: only where both or none of a pair are negative are they as far apart as it looks.
        self.starts: list[tuple[ast.expr, ast.expr]] = []

    def backwards(self, operands: Iterable[ast.expr]) -> list[bool]:
        """Which loops count down, so that no element of ``operands`` is read after it was stored.

        Raises:
            KernelSyntaxError: no order is known to do that.
        """
        wanted: dict[int, bool] = {}
        for operand in operands:
            if ast.unparse(operand) == ast.unparse(self._target) or not self._may_share(operand):
                continue
            shift = self._shift(operand)
            if shift is not None and shift[1] == 0:
                continue
            if shift is None or wanted.setdefault(shift[0], shift[1] < 0) != (shift[1] < 0):
                raise self._scope.error(
                    f"`{as_written(operand)}` and `{as_written(self._target)}`, which is assigned, may be parts of one array "
                    "that overlap",
                    operand,
                    "store the new values in another array first, or write a loop over the elements in an order that is right",
                    in_order=True,
                )
        return [wanted.get(axis, False) for axis in range(self._axes)]

    def _may_share(self, operand: ast.expr) -> bool:
        first, second = (origin(self._scope, node) for node in (self._target, operand))
        if first is None or second is None or " " in (first[-1], second[-1]):
            return True
        return self._shared(first, second)

    def _shift(self, operand: ast.expr) -> tuple[int, int] | None:
        """The first axis with a distance other than 0 from the target to the operand, and that distance; None where unknown."""
        nodes = self._target, operand
        places = tuple(_place(self._scope, node) for node in nodes)
        if None not in places and len({place[0] for place in places if place is not None}) > 1:
            # `row[:] = row * 2`: of a name that stands for a part of an array, both are parts of that part.
            places = tuple(_whole(self._scope, node) or place for node, place in zip(nodes, places, strict=True))
        if places[0] is None or places[1] is None or places[0][0] != places[1][0]:
            return None
        first, second = ([*enumerate(place[1])] for place in places if place is not None)
        sliced = [[(at, part) for at, part in parts if isinstance(part, ast.Slice)] for parts in (first, second)]
        if [at for at, _ in sliced[0]] != [at for at, _ in sliced[1]]:
            return None
        pairs = [(one, other) for (_, one), (_, other) in zip(*sliced, strict=True)]
        distances = [_moved(one, other) for one, other in pairs]
        if None in distances:
            return None
        moved = [(axis, distance) for axis, distance in enumerate(distances) if distance]
        if not moved:
            return 0, 0
        one, other = pairs[moved[0][0]]
        # Where both starts are clipped to one element, the next axis would decide.
        if len(moved) > 1 and (_may_be_clipped(one) or _may_be_clipped(other)):
            return None
        self._compare_signs(one.lower, other.lower)
        return moved[0]

    def _compare_signs(self, first: ast.expr | None, second: ast.expr | None) -> None:
        # Where one is a constant, or nothing, so is the other, and their signs are the same.
        if first is None or second is None or constant_of(first) is not None:
            return
        if not (is_natural(self._scope, first) and is_natural(self._scope, second)):
            self.starts.append((first, second))


def _moved(one: ast.Slice, other: ast.Slice) -> int | None:
    """The distance between the starts of two slices of one step, in elements of a slice; None where it is not known."""
    steps = [1 if part.step is None else constant_of(part.step) for part in (one, other)]
    if steps[0] is None or steps[0] != steps[1] or steps[0] == 0:
        return None
    step = steps[0]
    (base, first), (other_base, second) = (_start(part, step) for part in (one, other))
    # Of constants, those below 0 count from the end.
    if base != other_base or (not base and (first < 0) != (second < 0)):
        return None
    apart = second - first
    # Interleaved slices share no element.
    return apart // step if apart % step == 0 else 0


def _may_be_clipped(part: ast.Slice) -> bool:
    """Whether a slice may begin at the array's first element in its direction, though it is written as if further."""
    if part.lower is None:
        return False
    return _is_negative(part.lower) != _is_negative(part.step)


def _is_negative(part: ast.expr | None) -> bool:
    constant = None if part is None else constant_of(part)
    return constant is not None and constant < 0


def _start(part: ast.Slice, step: int) -> tuple[str, int]:
    """The start of a slice: what is written, and a constant offset from that."""
    match part.lower:
        case None:
            return "", 0 if step > 0 else -1
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=ast.Constant(value=int() as value)):
            return ast.unparse(left), value if isinstance(op, ast.Add) else -value
    constant = constant_of(part.lower)
    return ("", constant) if constant is not None else (ast.unparse(part.lower), 0)


def _whole(scope: Scope, node: ast.expr) -> tuple[str, list[ast.expr]] | None:
    """All of what a name means, by that name."""
    return (node.id, [ast.Slice()] * rank(scope, node)) if isinstance(node, ast.Name) else None


def _place(scope: Scope, node: ast.expr) -> tuple[str, list[ast.expr]] | None:
    """The array that ``node`` is a part of, and an index or slice for each of its dimensions; None for any other expression."""
    if isinstance(node, ast.Name):
        part = _named_part(scope, node)
        return _whole(scope, node) if part is None else _place(scope, part)
    if not isinstance(node, ast.Subscript):
        return None
    if isinstance(node.value, ast.Attribute) and node.value.attr == "T":
        turned = _place(scope, ast.Subscript(node.value.value, node.slice, node.ctx))
        # Of one slice alone the axes have one order.
        is_line = turned is not None and sum(isinstance(part, ast.Slice) for part in turned[1]) == 1
        return (turned[0], turned[1][::-1]) if turned is not None and is_line else None
    if not isinstance(node.value, ast.Name):
        return None
    parts = parts_of(node)
    missing = rank(scope, node.value) - sum(not is_ellipsis(part) for part in parts)
    rest: list[ast.expr] = [ast.Slice()] * missing
    at = next((k for k, part in enumerate(parts) if is_ellipsis(part)), None)
    return node.value.id, [*parts, *rest] if at is None else [*parts[:at], *rest, *parts[at + 1 :]]


def _named_part(scope: Scope, node: ast.Name) -> ast.Subscript | None:
    """The part of an argument that a name of the body stands for, wherever its indices are now: its slices are constant."""
    values = (values_of(scope, node) or []) if isinstance(known(scope, node), Private) else []
    # `row += x` changes the elements, and leaves the name what it is.
    match [value for value in values if not (isinstance(value, ast.BinOp) and _is_name(value.left, node.id))]:
        case [ast.Subscript(value=ast.Name() as array) as part] if isinstance(known(scope, array), LeafRef):
            bounds = [each for index in parts_of(part) if isinstance(index, ast.Slice) for each in (index.lower, index.step)]
            return part if all(each is None or constant_of(each) is not None for each in bounds) else None
    return None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def origin(scope: Scope, node: ast.expr) -> str | None:
    """The name of the array argument or temporary that ``node`` is a part of; None where it may be any."""
    while isinstance(node, (ast.Subscript, ast.Attribute)) and known(scope, node) is None:
        node = node.value
    bound: Binding | None = known(scope, node)
    match bound:
        case LeafRef() | ViewRef():
            return bound.leaf.name
        case Private():
            return bound.origin or None
    return None
