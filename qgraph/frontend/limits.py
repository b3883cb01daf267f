"""The most that an extent can be, as far as its expression tells: the length of `x[:2]` is at most 2."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from qgraph.frontend.compile_time import constant_of

_NONE = ast.Constant(None)


def most_of(node: ast.expr, resolve: Callable[[ast.expr], object], known: Mapping[str, int]) -> int | None:
    """A number that the integer ``node`` never exceeds, None where nothing is known.

    ``resolve``: the function that a name means. ``known``: such numbers by name.
    """
    return _Limits(resolve, known).most(node)


class _Limits:
    def __init__(self, resolve: Callable[[ast.expr], object], known: Mapping[str, int]) -> None:
        self._resolve = resolve
        self._known = known

    def most(self, node: ast.expr) -> int | None:
        value = constant_of(node)
        if value is not None:
            return value
        match node:
            case ast.Name():
                return self._known.get(node.id)
            case ast.BinOp():
                return self._operation(node)
            case ast.IfExp():
                return _greatest([self.most(node.body), self.most(node.orelse)])
            case ast.Call(keywords=[]) if not any(isinstance(argument, ast.Starred) for argument in node.args):
                return self._call(node)
        return None

    def _operation(self, node: ast.BinOp) -> int | None:
        left, right = self.most(node.left), constant_of(node.right)
        if right is None:
            return None
        match node.op:
            case ast.Add() if left is not None:
                return left + right
            case ast.Sub() if left is not None:
                return left - right
            case ast.FloorDiv() if left is not None and right > 0:
                return left // right
            case ast.Mod() if right > 0:
                return right - 1
        return None

    def _call(self, node: ast.Call) -> int | None:
        function = self._resolve(node.func)
        if function is min and len(node.args) > 1:
            return min((most for most in map(self.most, node.args) if most is not None), default=None)
        if function is max and len(node.args) > 1:
            return _greatest([self.most(argument) for argument in node.args])
        if function is len and len(node.args) == 1:
            match node.args[0]:
                case ast.Call() as made:
                    return self._length(made)
                case ast.Subscript(slice=ast.Slice() as part) | ast.Subscript(slice=ast.Tuple(elts=[ast.Slice() as part, *_])):
                    return self._slice(part.lower or _NONE, part.upper or _NONE, part.step or _NONE, None)
        return None

    def _length(self, made: ast.Call) -> int | None:
        """Of ``range(...)``, as lengths of slices are written."""
        if self._resolve(made.func) is not range or made.keywords:
            return None
        match made.args:
            case [ast.Starred(value=ast.Call(func=ast.Attribute(value=ast.Call() as slice_, attr="indices"), args=[size]))]:
                lower, upper, step = slice_.args
                return self._slice(lower, upper, step, self.most(size)) if self._resolve(slice_.func) is slice else None
            case [start, stop]:
                first, last = constant_of(start), self.most(stop)
                return None if first is None or last is None else max(0, last - first)
        return None

    def _slice(self, lower: ast.expr, upper: ast.expr, by: ast.expr, size: int | None) -> int | None:
        step = 1 if _is_none(by) else constant_of(by)
        if not step:
            return size
        known = (size, _width(lower, upper, forward=step > 0))
        return min((-(-most // abs(step)) for most in known if most is not None), default=None)


def _width(lower: ast.expr, upper: ast.expr, *, forward: bool) -> int | None:
    """How many elements lie between the bounds of a slice at most, whatever the size is that they are clipped to."""
    if not forward:
        # `x[5:2:-1]` has those of `x[3:6]`.
        if _is_none(lower):
            last = None if _is_none(upper) else constant_of(upper)
            return -1 - last if last is not None and last < 0 else None
        first = constant_of(lower)
        if _is_none(upper):
            return first + 1 if first is not None and first >= 0 else None
        return _distance(upper, lower)
    if _is_none(upper):
        first = None if _is_none(lower) else constant_of(lower)
        return -first if first is not None and first < 0 else None
    if _is_none(lower):
        last = constant_of(upper)
        return last if last is not None and last >= 0 else None
    return _distance(lower, upper)


def _distance(lower: ast.expr, upper: ast.expr) -> int | None:
    """``upper - lower``, where it is known and bounds a slice: negative ones may count from different ends."""
    (first, a), (last, b) = _split(lower), _split(upper)
    if first != last:
        return None
    if b >= a:
        return b - a
    return 0 if not first and (a < 0) == (b < 0) else None


def _split(node: ast.expr) -> tuple[str, int]:
    """An expression without the constant that is added to it, as text, and that constant."""
    value = constant_of(node)
    if value is not None:
        return "", value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        right = constant_of(node.right)
        if right is not None:
            base, left = _split(node.left)
            return base, left + (right if isinstance(node.op, ast.Add) else -right)
        left_constant = constant_of(node.left)
        if left_constant is not None and isinstance(node.op, ast.Add):
            base, other = _split(node.right)
            return base, left_constant + other
    return ast.unparse(node), 0


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _greatest(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None
