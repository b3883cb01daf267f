"""New arrays of which each element is an expression of its indices, as `np.eye(n)` and `np.roll(x, 2)` are."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qgraph.errors import KernelSyntaxError
from qgraph.frontend.arrays.array_statements import Elements
from qgraph.frontend.arrays.views import view_of
from qgraph.frontend.inference.host_expressions import host_expression
from qgraph.frontend.inference.indexing import ONE, element, word
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import extents_of, is_place, rank
from qgraph.frontend.names.bindings import Extent, HostExpr, LeafRef, Poisoned, ViewRef
from qgraph.frontend.names.program_builder import ADDED, SHARED, ProgramBuilder
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.statements.array_joins import is_private
from qgraph.frontend.statements.inlining import evaluated_array, held
from qgraph.frontend.statements.region import Region
from qgraph.frontend.statements.temporaries import dtype_of
from qgraph.ir.argument_types import ArrayType, Leaf
from qgraph.ir.program import Temporary
from qgraph.ir.slots import SCALAR_DTYPES
from qgraph.ir.trees import at_place, load, parsed, with_names
from qgraph.records import dataclass
from qgraph.source import as_written, copied, standing_for

Indices = Sequence[ast.expr]


@dataclass(frozen=True, slots=True)
class Indexed:
    """A new array: its extents, which the host computes, and its element at some indices.

    ``shares``: with this one it shares its elements in NumPy, of which it is a copy here.
    """

    extents: list[Extent]
    dtype: np.dtype[Any]
    element: Callable[[Indices], ast.expr]
    shares: Source | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """An array that is read at any indices, whose extents the host knows."""

    view: ViewRef
    scope: Scope
    node: ast.expr
    dtype: np.dtype[Any]

    @property
    def extents(self) -> list[Extent]:
        """One a dimension."""
        return [along.count for along in self.view.along]

    def at(self, indices: Indices) -> ast.expr:
        """The element at ``indices``, which are inside."""
        return element(self.view, [copied(index) for index in indices], self.scope, self.node, natural=True)


@dataclass(frozen=True, slots=True)
class Maker:
    """What a word looks at its arguments with. ``copy`` gives an expression of elements a name, as that of a new array."""

    region: Region
    scope: Scope
    node: ast.expr
    copy: Callable[[ast.expr], LeafRef | ViewRef]

    def place(self, node: ast.expr) -> ast.expr:
        """``node``, an array, by name."""
        node = evaluated_array(self.region, self.scope, node)
        if is_place(self.scope, node):
            return node
        made = self.copy(node)
        name = f"{ADDED}{made.leaf.name}"
        self.scope.names[name] = made
        return standing_for(ast.copy_location(load(name), node), node)

    def array(self, node: ast.expr, *ranks: int) -> Source:
        """``node``, an array of one of ``ranks`` dimensions, or of any."""
        self.check_rank(node, *ranks)
        view = view_of(self.region, self.scope, self.place(node))
        if any(along.count.host is None for along in view.along):
            raise self.refused(
                f"the size of `{as_written(node)}` is known on the device only",
                "make an array that is large enough, and write a loop over a part of it",
            )
        assert isinstance(view.leaf.type, ArrayType)
        return Source(view, self.scope, node, np.dtype(view.leaf.type.dtype))

    def check_rank(self, node: ast.expr, *ranks: int) -> None:
        """Refuse a number, and an array of other than ``ranks`` dimensions, if they are given."""
        ndim = rank(self.scope, node)
        bound = self.scope.static(node) if ndim == 0 else None
        if isinstance(bound, Poisoned):
            raise self.scope.error(bound.reason, node, bound.hint)
        if ndim == 0 or (ranks and ndim not in ranks):
            wanted = f"of {' or '.join(map(str, ranks))} dimensions" if ranks else "here"
            raise self.refused(f"`{as_written(node)}` has {ndim} dimensions", f"pass an array {wanted}")

    def arrays(self, node: ast.expr) -> list[Source]:
        """The arrays of a tuple or list that is written out."""
        if not isinstance(node, (ast.Tuple, ast.List)) or not node.elts:
            raise self.refused(f"`{as_written(node)}` is no tuple that is written out", "write (a, b)")
        return [self.array(each) for each in node.elts]

    def number(self, node: ast.expr) -> ast.expr:
        """``node``, a number, as it is now."""
        if rank(self.scope, node):
            raise self.refused(f"`{as_written(node)}` is an array", "pass a number")
        return held(self.region, self.scope, node)

    def size(self, node: ast.expr) -> Extent:
        """``node``, an integer that the host computes."""
        return self._extent(self.host(node))

    def host(self, node: ast.expr) -> ast.expr:
        """``node`` as the host computes it."""
        host = host_expression(self.region.unit, self.scope, node)
        if host is None:
            raise self.refused(
                f"the size `{as_written(node)}` is known on the device only",
                "use shapes, scalar arguments and constants, and unroll loops that it varies with: qgraph.static(range(3))",
            )
        return host

    def _extent(self, host: ast.expr) -> Extent:
        if isinstance(host, ast.Constant):
            return Extent(host, host)
        host = ast.fix_missing_locations(ast.copy_location(copied(host), self.node))
        value = self.region.unit.host_value(host, self.scope.span(self.node), text=as_written(self.node))
        name = f"{SHARED}{value.id}"
        self.scope.bind(name, HostExpr(host, value.id))
        return Extent(ast.copy_location(load(name), self.node), host)

    def derived(self, text: str, **parts: Extent | ast.expr | int) -> Extent:
        """An integer that the host computes of others."""
        hosts = {name: _host(part) if isinstance(part, Extent) else part for name, part in parts.items()}
        return self._extent(written(text, **hosts))

    def product(self, sizes: Sequence[Extent]) -> Extent:
        """The product of integers."""
        return functools.reduce(lambda left, right: self.derived("a * b", a=left, b=right), sizes, ONE)

    def check(self, text: str, found: str, hint: str, **parts: Extent) -> None:
        """Let calls be refused where ``text``, a condition on ``parts``, is false: ``found`` takes them, in order."""
        hosts = {name: _host(part) for name, part in parts.items()}
        test = ast.fix_missing_locations(ast.copy_location(written(text, **hosts), self.node))
        note = f"{found!r} % ({', '.join(ast.unparse(each) for each in hosts.values())})"
        self.region.unit.host_value(test, self.scope.span(self.node), "shape", text=hint, note=note)

    def same(self, one: Extent, other: Extent, found: str, hint: str) -> None:
        """Let calls be refused where two extents differ."""
        if ast.unparse(one.code) != ast.unparse(other.code):
            self.check("a == b", found, hint, a=one, b=other)

    def sizes(self, node: ast.expr) -> list[Extent]:
        """The sizes of a shape."""
        return [self.size(each) for each in self.parts(node)]

    def parts(self, node: ast.expr) -> list[ast.expr]:
        """The extents of a shape, as written."""
        if extents := extents_of(self.scope, node):
            return extents
        return list(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else [node]

    def constant(self, node: ast.expr) -> Any:
        """The value of an option."""
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise self.refused(f"`{as_written(node)}` is no constant", "write the value") from None

    def axis(self, node: ast.expr, ndim: int) -> int:
        """An axis of ``ndim``."""
        axis = self.constant(node)
        if not isinstance(axis, int) or not -ndim <= axis < ndim:
            raise self.refused(f"there is no axis `{as_written(node)}`", f"the array has {ndim} dimensions")
        return axis % ndim

    def dtype(self, node: ast.expr | None, default: Any = np.float64) -> np.dtype[Any]:
        """The dtype that is given, or a default."""
        return np.dtype(default) if node is None else np.dtype(dtype_of(self.scope, node))

    def type_of(self, node: ast.expr) -> np.dtype[Any]:
        """The dtype of a number or array."""
        found = type_of_new_array(self.scope, node)
        if found is None:
            raise self.refused(f"the type of `{as_written(node)}` is not known before the launch", "give a dtype")
        return found

    def cast(self, value: ast.expr, dtype: np.dtype[Any], given: np.dtype[Any] | None = None) -> ast.expr:
        """``value``, which is of type ``given`` where that is known, as a number of ``dtype``."""
        # NumPy takes None for float64 where it compares types.
        return value if given is not None and given == dtype else word(self.scope, dtype.type, value)

    def refused(self, found: str, hint: str) -> KernelSyntaxError:
        """An argument that is not understood."""
        return self.scope.error(f"in `{as_written(self.node)}` {found}", self.node, hint)

    def made(self, indexed: Indexed) -> LeafRef:
        """The new array, and the loop that fills it."""
        if indexed.dtype.name not in SCALAR_DTYPES:
            raise self.refused(f"elements would be of type {indexed.dtype}", "convert to a type that kernels have")
        unit, span, node = self.region.unit, self.scope.span(self.node), self.node
        hosts = [copied(_host(extent)) for extent in indexed.extents]
        sizes = tuple(unit.host_value(size, span, "size", text=ast.unparse(size)).id for size in hosts)
        leaf = Leaf(unit.array_name("new"), as_written(node), ArrayType(indexed.dtype.name, len(sizes), "C"))
        unit.add_temporary(Temporary(leaf, sizes, span, computed=True), tuple(hosts))
        name = f"{ADDED}{leaf.name}"
        self.scope.names[name] = LeafRef(leaf)
        body = Elements(self.region, self.scope)
        view = body.assigned(standing_for(ast.copy_location(load(name), node), node))
        value = at_place(copied(indexed.element(body.variables)), node)
        place = body.at(view, node)
        body.store(place, value, ast.copy_location(ast.Assign([place], value), node))
        if indexed.shares is not None:
            note_copy(unit, self.scope, leaf, indexed.shares.view.leaf)
        return LeafRef(leaf)


def note_copy(unit: ProgramBuilder, scope: Scope, copy: Leaf, base: Leaf) -> None:
    """Take note that ``copy`` shares its elements with ``base`` in NumPy, unless nobody else knows ``base`` or its base."""
    if base.name in unit.copies or not is_private(unit, scope, "", frozenset({base.name}), base):
        unit.copies[copy.name] = base.name


def _host(extent: Extent) -> ast.expr:
    assert extent.host is not None
    return extent.host


def written(text: str, **parts: Extent | ast.expr | int) -> ast.expr:
    """The expression that ``text`` is the source of, with expressions for its names."""
    return with_names(parsed(text), {name: _code(part) for name, part in parts.items()})


def _code(part: Extent | ast.expr | int) -> ast.expr:
    if isinstance(part, Extent):
        return part.code
    return ast.Constant(part) if isinstance(part, int) else part
