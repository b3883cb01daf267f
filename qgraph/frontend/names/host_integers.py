"""What the host computes, as symbolic integers: extents, scalar arguments, and the bounds made of them."""

from __future__ import annotations

import ast
import builtins
import functools
import math
from collections.abc import Iterable, Mapping

import numpy as np

from qgraph.frontend.facts.abstract_values import (
    EITHER,
    LITERAL,
    SlicedDimension,
    SliceIndex,
    arithmetic,
    compared,
    kept,
    may_wrap,
    narrow_dtype,
)
from qgraph.frontend.names.static_eval import constant_of
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.trees import is_none, parsed
from qgraph.polyhedral.symbolic_integers import (
    ONE,
    UNDECIDED,
    ZERO,
    Condition,
    Poly,
    all_of,
    any_of,
    floor_div,
    maximum,
    minimum,
    select,
)


class HostIntegers:
    """Expressions of the host as polynomials; an integer expression that is not followed is an opaque symbol."""

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        names: Mapping[str, object],
        sources: Mapping[str, str],
        extents: Mapping[str, tuple[ast.expr, ...]],
    ) -> None:
        self._leaves, self._names, self._sources, self._extents = leaves, names, sources, extents
        self._known: dict[str, Poly] = {}
        self._sizes: dict[str, tuple[Poly, ...]] = {}

    def scalars(self) -> dict[str, Poly]:
        """The scalars that are integers, and the values of the host, by name."""
        arguments = {name: poly for name in self._leaves if (poly := self._scalar(name)) is not None}
        return arguments | {name: self.value(name) for name in self._sources}

    def floats(self) -> frozenset[str]:
        """The scalars that are no integers."""
        return frozenset(name for name in self._leaves if not self._is_array(name) and self._scalar(name) is None)

    def narrow(self) -> dict[str, str]:
        """The dtypes of those scalars, and values of the host, that are integers of NumPy's with fewer than 64 bits."""
        dtypes = {name: self._dtype(ast.Name(name)) for name in (*self._leaves, *self._sources)}
        return {name: dtype for name, dtype in dtypes.items() if dtype not in ("", LITERAL)}

    def value(self, name: str) -> Poly:
        """A value of the host, by name."""
        if name not in self._known:
            self._known[name] = self.of(parsed(self._sources[name]))
        return self._known[name]

    def sizes(self, array: str) -> tuple[Poly, ...]:
        """The extents of an array."""
        if array not in self._sizes:
            type_, extents = self._leaves[array].type, self._extents.get(array)
            assert isinstance(type_, ArrayType)
            # Extents of an argument may be its own.
            self._sizes[array] = tuple(Poly.symbol(f"#{array}.shape[{at}]", "size") for at in range(type_.ndim))
            if extents is not None:
                self._sizes[array] = tuple(map(self.of, extents))
        return self._sizes[array]

    def of(self, node: ast.expr) -> Poly:
        """An integer that the host computes."""
        found = self._integer(node)
        return Poly.symbol(ast.unparse(node), "argument") if found is None else found

    def _integer(self, node: ast.expr) -> Poly | None:
        """The same, None where it may be no integer."""
        value = constant_of(node)
        if value is not None:
            return Poly.const(value)
        match node:
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(value=ast.Name(id=name), attr="size") if self._is_array(name):
                return math.prod(self.sizes(name), start=ONE)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=index) if self._is_array(name):
                at, sizes = constant_of(index), self.sizes(name)
                return sizes[at] if at is not None and -len(sizes) <= at < len(sizes) else None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self._integer(operand)
                return None if inner is None or may_wrap(ast.Sub(), self._dtype(operand), ZERO, inner) else -inner
            case ast.BinOp(left=left, op=op, right=right):
                both = self._integers((left, right))
                return arithmetic(op, *both) if both and not may_wrap(op, self._dtype(node), *both) else None
            case ast.IfExp(test=test, body=body, orelse=orelse):
                both = self._integers((body, orelse))
                return select(self._condition(test), *both) if both else None
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call(node, self._names.get(name, getattr(builtins, name, None)), args)
        return None

    def _integers(self, nodes: Iterable[ast.expr]) -> list[Poly]:
        """Several of them; none where one may be no integer."""
        found = [self._integer(each) for each in nodes]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else []

    def _is_array(self, name: str) -> bool:
        return name in self._leaves and isinstance(self._leaves[name].type, ArrayType)

    def _scalar(self, name: str) -> Poly | None:
        """A scalar argument, None where it is no integer or there is none of that name."""
        if name not in self._leaves or self._is_array(name):
            return None
        kind = np.dtype(self._leaves[name].type.dtype).kind
        return Poly.symbol(name, "flag" if kind == "b" else "argument") if kind in "iub" else None

    def _name(self, name: str) -> Poly | None:
        if name in self._sources:
            return self.value(name)
        value = self._names.get(name)
        if name not in self._leaves and isinstance(value, np.integer):
            return Poly.const(int(value))
        return self._scalar(name)

    def _dtype(self, node: ast.expr) -> str:
        """The dtype of an integer that the host computes, as ``Value.dtype``."""
        match node:
            case ast.Constant():
                return LITERAL
            case ast.Name(id=name) if name in self._sources:
                return self._dtype(parsed(self._sources[name]))
            case ast.Name(id=name) if name in self._leaves and not self._is_array(name):
                return narrow_dtype(np.dtype(self._leaves[name].type.dtype))
            case ast.Name(id=name) if isinstance(value := self._names.get(name), np.integer):
                return narrow_dtype(value.dtype)
            case ast.UnaryOp(operand=operand):
                return self._dtype(operand)
            case ast.BinOp(left=left, right=right):
                found = {self._dtype(left), self._dtype(right)} - {LITERAL}
                # With one of 64 bits it has 64.
                return found.pop() if len(found) == 1 else LITERAL if not found else "" if "" in found else EITHER
            case ast.IfExp(body=body, orelse=orelse):
                return self._either(body, orelse)
            case ast.Call(func=ast.Name(id="min" | "max" | "abs"), args=args):
                return self._either(*args)
        return ""

    def _either(self, *nodes: ast.expr) -> str:
        found = {self._dtype(node) for node in nodes}
        return found.pop() if len(found) == 1 else "" if found <= {"", LITERAL} else EITHER

    def _call(self, node: ast.Call, function: object, args: list[ast.expr]) -> Poly | None:
        if function is len and len(args) == 1:
            return self._length(args[0])
        known = self._integers(args)
        if known:
            if (function is min or function is max) and len(known) > 1:
                rest = [each for each in known if each.constant is None or each.constant > 0]
                if function is max and any(map(never_negative, rest)):
                    # An extent is not below 0.
                    known = rest
                return functools.reduce(minimum if function is min else maximum, known)
            if function is abs and not may_wrap(ast.Sub(), self._dtype(args[0]), ZERO, known[0]):
                return maximum(known[0], -known[0])
            if function is int:
                return known[0]
        # A whole number, of whatever it is made.
        return Poly.symbol(ast.unparse(node), "argument") if (function is int or function is round) and len(args) == 1 else None

    def _length(self, node: ast.expr) -> Poly | None:
        match node:
            case ast.Name(id=name) if self._is_array(name) and self.sizes(name):
                return self.sizes(name)[0]
            case ast.Call(func=ast.Name(id="range"), args=[ast.Starred(value=ast.Call() as indices)]):
                return self._of_slice(indices)
            case ast.Call(func=ast.Name(id="range"), args=args):
                known = self._integers(args)
                step = known[2].constant if len(known) == 3 else 1
                if not known or not step:
                    return None
                start, stop = (ZERO, known[0]) if len(known) == 1 else known[:2]
                extent, by = (stop - start if step > 0 else start - stop), Poly.const(abs(step))
                return maximum(ZERO, floor_div(extent + by - ONE, by))
        return None

    def _of_slice(self, node: ast.Call) -> Poly | None:
        """``slice(a, b, c).indices(size)``, whose range has the length of a slice."""
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="slice"), args=[lower, upper, by]), attr="indices"),
                args=[size],
            ):
                bounds = [None if is_none(each) else self._integer(each) for each in (lower, upper)]
                step = 1 if is_none(by) else constant_of(by)
                count = self._integer(size)
                followed = all(b is not None or is_none(e) for b, e in zip(bounds, (lower, upper), strict=True))
                if not step or count is None or not followed:
                    return None
                part = kept(SlicedDimension(ZERO, count), SliceIndex(bounds[0], bounds[1], step), never_negative)
                return None if part is None else part.count
        return None

    def _condition(self, node: ast.expr) -> Condition:
        match node:
            case ast.Constant(value=bool(value)):
                return all_of() if value else any_of()
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                values = [self._integer(each) for each in (left, *comparators)]
                pairs = zip(ops, values, values[1:], strict=False)
                return all_of(*(compared(op, a, b) for op, a, b in pairs))
            case ast.BoolOp(op=op, values=values):
                parts = [self._condition(each) for each in values]
                return all_of(*parts) if isinstance(op, ast.And) else any_of(*parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._condition(operand).negated()
        found = self._integer(node)
        return UNDECIDED if found is None else compared(ast.NotEq(), found, ZERO)


def never_negative(poly: Poly) -> bool:
    """Whether a number of the host is 0 or more, whatever the extents are."""
    return all(c >= 0 and all(symbol.kind in ("size", "flag") for symbol in monomial) for monomial, c in poly.terms)
