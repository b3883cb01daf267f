"""Basic indexing of views, and sign analysis of index polynomials: a negative index counts from the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from qgraph.frontend.facts.abstract_values import (
    EllipsisIndex,
    Index,
    SlicedDimension,
    SliceIndex,
    Subscript,
    Value,
    View,
    kept,
    views_in,
)
from qgraph.polyhedral.questions import Variable
from qgraph.polyhedral.symbolic_integers import ONE, Poly, Symbol, not_negative, select


def sizes_of(value: Value) -> list[Poly] | None:
    """The shape of ``value``, where that is one view, and known."""
    match [*views_in([value])]:
        case [View(dims=tuple(dims), vague=False) as view]:
            kept_ = (dims[at] for at in view.axes)
            return [dim.count for dim in kept_ if isinstance(dim, SlicedDimension)]
    return None


def selected(view: View, indices: Sequence[Subscript] | None, natural: Callable[[Poly], bool]) -> View:
    """``view[indices]``: each index goes to the next dimension that the view still has."""
    if view.dims == () and indices is not None and not indices:
        # `a[()]` of an array without axes.
        return View(view.array, ())
    if view.dims is None or view.vague:
        return view
    if indices is None:
        return replace(view, vague=True)
    dims = list(view.dims)
    free = view.axes
    rests = [at for at, index in enumerate(indices) if isinstance(index, EllipsisIndex)]
    if rests:
        more = len(free) - (len(indices) - 1)
        indices = [*indices[: rests[0]], *(SliceIndex(),) * more, *indices[rests[0] + 1 :]]
    if len(indices) > len(free):
        return View(view.array, None)
    vague_ = False
    for at, index in zip(free, indices, strict=False):
        dim = dims[at]
        assert isinstance(dim, SlicedDimension)
        if isinstance(index, SliceIndex):
            part = kept(dim, index, natural)
            dims[at] = part or dim
            vague_ = vague_ or part is None
        elif isinstance(index, Index):
            dims[at] = _within(dim, index)
    return replace(view, dims=tuple(dims), vague=vague_)


def turned(view: View) -> View:
    """``view.T``."""
    return replace(view, turned=not view.turned)


def _within(dim: SlicedDimension, index: Index) -> Index:
    """An index of a part as one of the array's own dimension."""
    poly = index.poly
    if poly is None:
        return index
    if poly.constant is not None and poly.constant < 0:
        poly, wraps = poly + dim.count, False
    else:
        wraps = index.wraps
    if dim.whole:
        return Index(poly, wraps)
    if wraps:
        wrapped = select(not_negative(poly), poly, poly + dim.count)
        if wrapped is None:
            return Index(None)
        poly = wrapped
    return Index(dim.start + Poly.const(dim.step) * poly, False)


def is_natural(poly: Poly, variables: Sequence[Variable]) -> bool:
    """Whether an integer is surely not negative, by its signs and those of the ``variables`` of loops, inner ones first."""
    for variable in variables:
        if variable.symbol not in poly.symbols:
            continue
        # Each counts for itself.
        count = Poly.symbol(f"#{variable.symbol}", "size")
        step, start, stop = variable.step.constant, variable.start, variable.stop
        if step is None:
            # Whichever way it counts, it stays between the two.
            value = count if all(each is not None and is_natural(each, variables) for each in (start, stop)) else None
        elif step > 0:
            value = start + variable.step * count if start is not None else None
        else:
            value = stop + ONE + count if stop is not None else None
        if value is None:
            return False
        poly = poly.substitute({variable.symbol: value})
    return _has_natural_terms(poly)


def _has_natural_terms(poly: Poly) -> bool:
    return all(c >= 0 and all(map(_is_natural, monomial)) for monomial, c in poly.terms)


def _is_natural(symbol: Symbol) -> bool:
    operands = [operand for operand in symbol.operands if isinstance(operand, Poly)]
    signs = [*map(_has_natural_terms, operands)]
    match symbol.operation:
        case "max":
            return any(signs)
        case "min" | "select":
            return all(signs)
        case "floor":
            return signs[0] and (operands[1].constant or 0) > 0
    return symbol.kind in ("size", "flag", "ticket")
