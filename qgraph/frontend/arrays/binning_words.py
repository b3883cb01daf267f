"""NumPy's functions that sort elements into bins: `np.bincount`, `np.digitize`, `np.histogram`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from qgraph.errors import ArgumentError
from qgraph.frontend.arrays.indexed_arrays import Indexed, Indices, Maker, Source, written
from qgraph.frontend.inference.indexing import word
from qgraph.frontend.inference.ranks import rank
from qgraph.frontend.names.bindings import Extent, LeafRef, ViewRef
from qgraph.frontend.names.program_builder import ADDED
from qgraph.frontend.statements.inlining import call_func
from qgraph.ir.faults import Fault
from qgraph.ir.trees import at_place, load
from qgraph.language import Func
from qgraph.source import as_written, copied, standing_for

_FALSE = ast.Constant(False)


def _digitize(make: Maker, x: ast.expr, bins: ast.expr, right: ast.expr = _FALSE) -> Indexed:
    of, edges, below = make.array(x), make.place(bins), make.constant(right)
    make.array(edges, 1)
    _check_order(make, edges)
    search = make.region.unit.funcs["edges_below"]

    def element(indices: Indices) -> ast.expr:
        return word(make.scope, search, copied(edges), of.at(indices), ast.Constant(bool(below)))

    return Indexed(of.extents, np.dtype(np.int64), element)


def _bincount(make: Maker, x: ast.expr, weights: ast.expr | None = None, minlength: ast.expr | None = None) -> LeafRef:
    of = make.array(x, 1)
    if of.dtype.kind not in "iu":
        raise make.refused(f"`{as_written(x)}` is of type {of.dtype}", "NumPy counts integers")
    if minlength is None:
        raise make.refused(
            "the largest element decides the length", "name a length that is enough: np.bincount(x, minlength=n)"
        )
    kind = np.dtype(np.int64 if weights is None else np.float64)
    if weights is not None:
        found = f"`{as_written(x).replace('%', '%%')}` has %d elements"
        make.check("n > 0", found, "of none NumPy's counts are integers", n=of.extents[0])
    counts = make.made(Indexed([make.size(minlength)], kind, lambda _: make.cast(ast.Constant(0), kind)))
    wrong = _called(make, "counted", make.place(x), _named(make, counts), *_weights(make, of, weights))
    found = f"`{as_written(x)}` has elements below 0, or not below `{as_written(minlength)}`"
    hint = "the length of what np.bincount makes is `minlength` here, which the elements are below"
    _check(make, written("wrong == 0", wrong=wrong), found, hint)
    return counts


def _weights(make: Maker, of: Source, weights: ast.expr | None) -> list[ast.expr]:
    """``weights``, one for each element, by name, if there are any."""
    if weights is None:
        return []
    given = make.array(weights, 1)
    text = as_written(weights).replace("%", "%%")
    found = f"`{text}` has length %d, and `{as_written(of.node).replace('%', '%%')}` %d"
    make.same(given.extents[0], of.extents[0], found, "give one weight for each element")
    return [make.place(weights)]


def histogram_part(
    make: Maker,
    part: ast.expr,
    a: ast.expr,
    bins: ast.expr = ast.Constant(10),  # noqa: B008 - nobody changes it
    range: ast.expr | None = None,
    density: ast.expr = _FALSE,
    weights: ast.expr | None = None,
) -> LeafRef | ViewRef | Indexed:
    """The counts, ``part`` 0, or the edges, 1, of ``np.histogram``."""
    of = make.array(a, 1)
    if make.constant(density):
        raise make.refused("a density is asked for", "divide the counts by their sum and the widths of the bins")
    if of.dtype.kind not in "iuf":
        raise make.refused(f"`{as_written(a)}` is of type {of.dtype}", "convert it to numbers that have an order")
    even = not rank(make.scope, bins)
    if not even:
        edges = make.place(bins)
        _check_order(make, edges)
        length = make.array(edges, 1).extents[0]
    else:
        edges, length = _even(make, of, bins, range)
    if make.constant(part) == 1:
        return _same(make, edges)
    kind = np.dtype(np.int64) if weights is None else make.array(weights, 1).dtype
    if kind not in (np.dtype(np.int64), np.dtype(np.float64)):
        raise make.refused(f"the weights are of type {kind}", "convert them: w.astype(np.float64)")
    size = make.derived("max(0, n - 1)", n=length)
    counts = make.made(Indexed([size], kind, lambda _: make.cast(ast.Constant(0), kind)))
    make.check("n >= 1", f"`{as_written(bins).replace('%', '%%')}` gives %d bins", "give at least one", n=size)
    _called(make, "binned", make.place(a), edges, _named(make, counts), ast.Constant(even), *_weights(make, of, weights))
    return counts


def _even(make: Maker, of: Source, bins: ast.expr, limits: ast.expr | None) -> tuple[ast.expr, Extent]:
    """Edges of as many bins of one width, by name, and how many."""
    if of.dtype.kind == "f" and of.dtype.itemsize < 8:
        raise make.refused(
            f"`{as_written(of.node)}` is of type {of.dtype}, in which NumPy computes the edges",
            "give edges of your own: np.linspace(low, high, n + 1)",
        )
    given: list[ast.expr] = []
    if limits is None:
        ends = [_reduced(make, function, of.node, may_be_empty=True) for function in (np.min, np.max)]
        given = [make.place(of.node)]
    else:
        ends = make.parts(limits)
        if len(ends) != 2:
            raise make.refused(f"`{as_written(limits)}` is no pair that is written out", "write (low, high)")
        ends = [make.number(each) for each in ends]
    length = make.derived("n + 1", n=make.size(bins))
    kind = np.dtype(np.float64)
    made = make.made(Indexed([length], kind, lambda _: make.cast(ast.Constant(0), kind)))
    edges = _named(make, made)
    found = f"`{as_written(make.node)}` has no range of finite numbers"
    _check(make, _called(make, "even_edges", edges, *ends, *given), found, "NumPy refuses this too")
    return edges, length


def _check_order(make: Maker, edges: ast.expr) -> None:
    """Whoever waits is told where ``edges`` do not increase."""
    edges = copied(edges)
    falls = at_place(written("a[1:] < a[:-1]", a=edges), make.node)
    found = f"`{as_written(edges)}` does not increase"
    _check(make, written("not falls", falls=_reduced(make, np.any, falls)), found, "sort the edges of bins")


def _reduced(make: Maker, function: Callable[..., Any], node: ast.expr, *, may_be_empty: bool = False) -> ast.expr:
    call = at_place(word(make.scope, function, node), make.node)
    return make.region.arrays.reduce(make.region, make.scope, call, may_be_empty=may_be_empty)


def _check(make: Maker, test: ast.expr, found: str, hint: str) -> None:
    fault = Fault(ArgumentError, make.scope.span(make.node), found, hint, 0)
    make.region.run(make.scope).check(make.scope, at_place(copied(test), make.node), fault, [], make.node)


def _called(make: Maker, name: str, *arguments: ast.expr) -> ast.expr:
    """The name of what one of the package's funcs gives."""
    function: Func = make.region.unit.funcs[name]
    call = at_place(word(make.scope, function, *arguments), make.node)
    found = call_func(make.region, make.scope, function, None, call)
    assert found is not None
    result = f"{ADDED}{name}{len(make.region.unit.slots)}_{make.node.lineno}"
    make.scope.names[result] = found
    return standing_for(ast.copy_location(load(result), make.node), make.node)


def _named(make: Maker, bound: LeafRef) -> ast.expr:
    return standing_for(ast.copy_location(load(f"{ADDED}{bound.leaf.name}"), make.node), make.node)


def _same(make: Maker, edges: ast.expr) -> LeafRef | ViewRef:
    bound = make.scope.static(edges)
    return bound if isinstance(bound, (LeafRef, ViewRef)) else make.copy(edges)


BINNING: tuple[tuple[object, Callable[..., Any]], ...] = (
    (np.digitize, _digitize),
    (np.bincount, _bincount),
    (histogram_part, histogram_part),
)
