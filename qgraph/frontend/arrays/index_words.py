"""NumPy's functions that make arrays of indices, or move the elements of others: `np.eye`, `np.triu`, `np.concatenate`."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qgraph.frontend.arrays.binning_words import BINNING, histogram_part
from qgraph.frontend.arrays.element_words import ELEMENTWISE, ELEMENTWISE_METHODS, outer_of
from qgraph.frontend.arrays.field_words import FIELDS
from qgraph.frontend.arrays.indexed_arrays import Indexed, Indices, Maker, Source, written
from qgraph.frontend.inference.indexing import ONE, ZERO, number, word
from qgraph.frontend.inference.lookups import number_looked_up
from qgraph.frontend.inference.new_array_dtype import type_of_new_array
from qgraph.frontend.inference.ranks import histogram_part_of, known, known_object, rank, view_word
from qgraph.frontend.names.bindings import Extent, LeafRef, Value, ViewRef
from qgraph.frontend.names.scope import Scope
from qgraph.frontend.syntax.written_arrays import written_out
from qgraph.ir.trees import at_place, load, parsed
from qgraph.source import as_written, copied, standing_for

Word = Callable[..., "Indexed | LeafRef | ViewRef | ast.expr"]
_ZERO, _ONE = ast.Constant(0), ast.Constant(1)


def index_word(scope: Scope, node: ast.AST) -> tuple[Word, list[ast.expr]] | None:
    """The word that a call is of, and its arguments by position; None for other calls."""
    if (part := histogram_part_of(scope, node)) is not None:
        return histogram_part, [part[1], *part[0].args]
    if not isinstance(node, ast.Call):
        return None
    func, bound = node.func, known(scope, node.func)
    if isinstance(bound, Value):
        found = next((word for function, word in _FUNCTIONS if function is bound.value), None)
        none = found is None or view_word(scope, node) is not None or number_looked_up(scope, node) is not None
        return None if none or found is None else (found, node.args)
    if bound is not None or not isinstance(func, ast.Attribute):
        return None
    owner = known(scope, func.value)
    if func.attr == "outer" and isinstance(owner, Value) and isinstance(owner.value, np.ufunc):
        return outer_of, [func.value, *node.args]
    method = _METHODS.get(func.attr)
    return (method, [func.value, *node.args]) if method is not None and rank(scope, func.value) else None


def made_by_word(
    make: Maker, node: ast.Call | ast.Subscript, elementwise: Callable[[ast.expr], LeafRef | ViewRef]
) -> LeafRef | ViewRef:
    """The array that such a call makes; ``elementwise`` makes that of an expression of elements.

    Raises:
        KernelSyntaxError: its arguments are not what the word takes.
    """
    found = index_word(make.scope, node)
    assert found is not None
    function, arguments = found
    try:
        call = node if isinstance(node, ast.Call) else node.value
        options = call.keywords if isinstance(call, ast.Call) else []
        bound = inspect.signature(function).bind(make, *arguments, **{str(each.arg): each.value for each in options})
    except TypeError:
        names = [*inspect.signature(function).parameters][1:]
        raise make.refused("are arguments that kernels do not know", f"known are {', '.join(names)}") from None
    made = function(*bound.args, **bound.kwargs)
    if isinstance(made, (LeafRef, ViewRef)):
        return made
    return make.made(made) if isinstance(made, Indexed) else elementwise(made)


# --- of numbers --------------------------------------------------------------------------------------------------------


def _eye(make: Maker, N: ast.expr, M: ast.expr | None = None, k: ast.expr = _ZERO, dtype: ast.expr | None = None) -> Indexed:
    rows = make.size(N)
    columns = rows if M is None else make.size(M)
    kind, diagonal = make.dtype(dtype), make.number(k)

    def element(indices: Indices) -> ast.expr:
        ones = make.cast(_ONE, kind), make.cast(_ZERO, kind)
        return written("one if j - i == k else zero", i=indices[0], j=indices[1], k=diagonal, one=ones[0], zero=ones[1])

    return Indexed([rows, columns], kind, element)


def _identity(make: Maker, n: ast.expr, dtype: ast.expr | None = None) -> Indexed:
    return _eye(make, n, dtype=dtype)


def _linspace(
    make: Maker,
    start: ast.expr,
    stop: ast.expr,
    num: ast.expr = ast.Constant(50),  # noqa: B008 - nobody changes it
    endpoint: ast.expr = ast.Constant(True),  # noqa: B008
    *,
    dtype: ast.expr | None = None,
) -> Indexed:
    # NumPy computes in the type of the ends where these are floats, and converts then.
    computed = type_of_new_array(make.scope, written("a + b + 0.5", a=start, b=stop)) or np.dtype(np.float64)
    kind = make.dtype(dtype, computed)
    if kind.kind != "f":
        raise make.refused(f"elements would be of type {kind}", "leave the dtype out, and convert in an assignment: t[:] = ...")
    if computed.kind == "c":
        raise make.refused("are complex numbers", "compute the real and imaginary parts: z = x + 1j * y")
    first, last, count = make.number(start), make.number(stop), make.size(num)
    ends = make.constant(endpoint)

    def element(indices: Indices) -> ast.expr:
        steps = written("most(n - 1, 1)" if ends else "n", n=count, most=word(make.scope, max).func)
        numbers = {name: make.cast(value, computed) for name, value in (("first", first), ("last", last))}
        counts = {"i": indices[0], "n": steps}
        if computed != np.float64:
            counts = {name: make.cast(value, computed) for name, value in counts.items()}
        value = written("first + i * ((last - first) / n)", **counts, **numbers)
        if not ends:
            return value
        return written("last if i == n - 1 and i > 0 else value", i=indices[0], n=count, value=value, **numbers)

    return Indexed([count], kind, element)


def _arange(
    make: Maker, start: ast.expr, stop: ast.expr | None = None, step: ast.expr = _ONE, *, dtype: ast.expr | None = None
) -> Indexed:
    low, high = (_ZERO, start) if stop is None else (start, stop)
    kinds = [make.type_of(each) for each in (low, high, step)]
    floats = any(kind.kind == "f" for kind in kinds)
    kind = make.dtype(dtype, np.float64 if floats else np.int64)
    if kind == np.bool_:
        raise make.refused("elements would be booleans", "compare: np.arange(n) != 0")
    first, last, by = (make.host(each) for each in (low, high, step))
    if floats:
        ceil = load(make.region.unit.host_object(math.ceil, "ceil"))
        count = make.derived("max(0, ceil((last - first) / by))", first=first, last=last, by=by, ceil=ceil)
    else:
        count = make.derived("len(range(first, last, by))", first=first, last=last, by=by)
    values = {"first": make.number(low), "by": make.number(step)}

    def element(indices: Indices) -> ast.expr:
        if not floats and kind.kind != "f":
            return written("first + i * by", i=indices[0], **values)
        # NumPy converts the first two elements, and counts on by their difference.
        two = {"first": make.cast(values["first"], kind), "second": make.cast(written("first + by", **values), kind)}
        return written("first + kind(i) * (second - first)", i=indices[0], kind=word(make.scope, kind.type).func, **two)

    return Indexed([count], kind, element)


def grid_part(make: Maker, axis: ast.expr, *bounds: ast.expr) -> Indexed:
    """One array of ``np.mgrid[a:b, c:d]``: the indices along ``axis``. ``bounds``: the first and the last of each axis."""
    pairs = [(bounds[k], bounds[k + 1]) for k in range(0, len(bounds), 2)]
    extents = [make.derived("len(range(a, b))", a=make.size(low), b=make.size(high)) for low, high in pairs]
    at = make.constant(axis)
    start = make.number(pairs[at][0])
    return Indexed(extents, np.dtype(np.int64), lambda indices: written("i + start", i=indices[at], start=start))


def grids(scope: Scope, node: ast.expr) -> ast.expr:
    """``np.mgrid[a:b, c:d]`` and ``np.meshgrid(x, y)`` as the tuple of their arrays; anything else as it is."""
    match node:
        case ast.Subscript(value=value, slice=ast.Tuple(elts=[*parts])) if known_object(scope, value) is np.mgrid:
            slices = [each for each in parts if isinstance(each, ast.Slice) and each.upper is not None and each.step is None]
            if len(slices) < len(parts):
                raise scope.error(f"`{as_written(node)}` is no grid that kernels know", node, "write np.mgrid[a:b, c:d]")
            bounds = [bound for each in slices for bound in (each.lower or ast.Constant(0), each.upper) if bound is not None]
            arrays: list[ast.expr] = [word(scope, grid_part, ast.Constant(axis), *bounds) for axis in range(len(slices))]
        case ast.Call(args=[x, y], keywords=[*options]) if known_object(scope, node.func) is np.meshgrid:
            if any(each.arg != "indexing" for each in options):
                raise scope.error(f"`{as_written(node)}` has options that kernels do not know", node, "known is indexing='ij'")
            order = [each.value for each in options]
            arrays = [word(scope, _meshed, ast.Constant(axis), x, y, *order) for axis in range(2)]
        case ast.Call() if known_object(scope, node.func) is np.histogram:
            arrays = [ast.Subscript(copied(node), ast.Constant(part), ast.Load()) for part in range(2)]
        case _:
            return node
    return at_place(ast.Tuple([standing_for(each, node) for each in arrays], ast.Load()), node)


def _meshed(make: Maker, axis: ast.expr, x: ast.expr, y: ast.expr, indexing: ast.expr = ast.Constant("xy")) -> Indexed:  # noqa: B008
    sources = make.array(x, 1), make.array(y, 1)
    at, order = make.constant(axis), make.constant(indexing)
    if order not in ("xy", "ij"):
        raise make.refused(f"`{as_written(indexing)}` is no order of axes", "write indexing='xy', or 'ij'")
    first, second = sources if order == "ij" else sources[::-1]
    along = at if order == "ij" else 1 - at
    return Indexed([first.extents[0], second.extents[0]], sources[at].dtype, lambda indices: sources[at].at([indices[along]]))


def _array(make: Maker, object: ast.expr, dtype: ast.expr | None = None) -> Indexed:
    if rank(make.scope, object):
        return _converted(make, object, dtype)
    rows = written_out(object)
    if rows is None or any(isinstance(each, ast.Starred) for each in rows.values):
        found = f"`{as_written(object)}` is no row of numbers, and no rows of one length, that are written out"
        raise make.refused(found, "make the array, and assign its parts")
    values = [make.number(each) for each in rows.values]
    kind = make.dtype(dtype) if dtype is not None else np.result_type(*(make.type_of(each) for each in values))

    def element(indices: Indices) -> ast.expr:
        at = indices[0]
        for index, size in zip(indices[1:], rows.shape[1:], strict=True):
            at = written("at * size + index", at=at, size=number(size), index=index)
        return _chosen(make, at, values, kind)

    return Indexed([number(size) for size in rows.shape], kind, element)


def _chosen(make: Maker, index: ast.expr, values: Sequence[ast.expr], kind: np.dtype[Any]) -> ast.expr:
    """The one of ``values`` that ``index`` counts."""
    result = make.cast(values[-1], kind)
    for at, value in reversed([*enumerate(values[:-1])]):
        result = written("value if i == at else rest", i=index, at=at, value=make.cast(value, kind), rest=result)
    return result


# --- of arrays ---------------------------------------------------------------------------------------------------------


def _converted(make: Maker, a: ast.expr, dtype: ast.expr | None) -> Indexed:
    of = make.array(a)
    kind = make.dtype(dtype, of.dtype)
    return Indexed(of.extents, kind, lambda indices: make.cast(of.at(indices), kind, of.dtype))


def _astype(make: Maker, a: ast.expr, dtype: ast.expr) -> Indexed:
    return _converted(make, a, dtype)


def _asarray(make: Maker, a: ast.expr, dtype: ast.expr | None = None) -> Indexed:
    made = _converted(make, a, dtype)
    of = make.array(a)
    return replace(made, shares=of) if made.dtype == of.dtype else made


def _triangle(make: Maker, m: ast.expr, k: ast.expr, test: str) -> Indexed:
    of, diagonal = make.array(m), make.number(k)
    if len(of.extents) == 1:
        raise make.refused(f"`{as_written(m)}` has 1 dimension", "pass a matrix")

    def element(indices: Indices) -> ast.expr:
        zero = make.cast(_ZERO, of.dtype)
        return written(f"x if {test} else zero", i=indices[-2], j=indices[-1], k=diagonal, x=of.at(indices), zero=zero)

    return Indexed(of.extents, of.dtype, element)


def _triu(make: Maker, m: ast.expr, k: ast.expr = _ZERO) -> Indexed:
    return _triangle(make, m, k, "j - i >= k")


def _tril(make: Maker, m: ast.expr, k: ast.expr = _ZERO) -> Indexed:
    return _triangle(make, m, k, "j - i <= k")


def _diag(make: Maker, v: ast.expr, k: ast.expr = _ZERO) -> Indexed:
    of, at = make.array(v, 1, 2), make.constant(k)
    if len(of.extents) > 1:
        rows, columns = of.extents
        count = make.derived("max(0, min(m - down, n - right))", m=rows, n=columns, down=max(-at, 0), right=max(at, 0))
        down, right = max(-at, 0), max(at, 0)

        def on_diagonal(indices: Indices) -> ast.expr:
            return of.at([written("i + d", i=indices[0], d=start) for start in (down, right)])

        return Indexed([count], of.dtype, on_diagonal, of)
    size = make.derived("n + k", n=of.extents[0], k=abs(at))

    def element(indices: Indices) -> ast.expr:
        found = of.at([written("i - d", i=indices[0], d=max(-at, 0))])
        return written("x if j - i == k else zero", i=indices[0], j=indices[1], k=at, x=found, zero=make.cast(_ZERO, of.dtype))

    return Indexed([size, size], of.dtype, element)


def _diagonal(make: Maker, a: ast.expr, offset: ast.expr = _ZERO) -> Indexed:
    make.array(a, 2)
    return _diag(make, a, offset)


def _roll(make: Maker, a: ast.expr, shift: ast.expr, axis: ast.expr | None = None) -> Indexed:
    of, ndim = make.array(a), rank(make.scope, a)
    if axis is None and ndim > 1:
        raise make.refused("no axis is named", "name one: np.roll(x, 1, axis=0)")
    shifts, axes = ([*each.elts] if isinstance(each, ast.Tuple | ast.List) else [each] for each in (shift, axis or _ZERO))
    several = max(len(shifts), len(axes))
    if {len(shifts), len(axes)} - {1, several}:
        raise make.refused("there are not as many shifts as axes", "write one for each: np.roll(u, (1, 2), axis=(0, 1))")
    shifts, axes = (each * several if len(each) == 1 else each for each in (shifts, axes))
    moves = [(make.axis(each, ndim), make.number(by)) for by, each in zip(shifts, axes, strict=True)]

    def element(indices: Indices) -> ast.expr:
        found = [*indices]
        for at, by in moves:
            # The remainder of the shift, which is the same for all of them, and a comparison: no division for each.
            found[at] = written("i - by % n if i >= by % n else i - by % n + n", i=found[at], by=by, n=of.extents[at])
        return of.at(found)

    return Indexed(of.extents, of.dtype, element)


def _repeat(make: Maker, a: ast.expr, repeats: ast.expr, axis: ast.expr | None = None) -> Indexed:
    of, times = make.array(a), make.size(repeats)
    if axis is None and len(of.extents) > 1:
        raise make.refused("no axis is named", "name one: np.repeat(x, 2, axis=0)")
    at = 0 if axis is None else make.axis(axis, len(of.extents))
    extents = [*of.extents[:at], make.product([of.extents[at], times]), *of.extents[at + 1 :]]

    def element(indices: Indices) -> ast.expr:
        return of.at([*indices[:at], written("i // n", i=indices[at], n=times), *indices[at + 1 :]])

    return Indexed(extents, of.dtype, element)


def _tile(make: Maker, A: ast.expr, reps: ast.expr) -> Indexed:
    of, times = make.array(A), make.sizes(reps)
    ndim = max(len(of.extents), len(times))
    times = [ONE] * (ndim - len(times)) + times
    lengths = [ONE] * (ndim - len(of.extents)) + of.extents
    new = ndim - len(of.extents)

    def element(indices: Indices) -> ast.expr:
        return of.at([written("i % n", i=i, n=n) for i, n in zip(indices[new:], of.extents, strict=True)])

    return Indexed([make.product([n, times_]) for n, times_ in zip(lengths, times, strict=True)], of.dtype, element)


# --- several arrays ----------------------------------------------------------------------------------------------------


def _concatenate(make: Maker, arrays: ast.expr, axis: ast.expr = _ZERO) -> Indexed:
    sources = make.arrays(arrays)
    return _joined(make, sources, make.axis(axis, len(sources[0].extents)))


def _joined(make: Maker, sources: list[Source], at: int) -> Indexed:
    first = sources[0]
    _same_extents(make, sources, but=at)
    kind = np.result_type(*(each.dtype for each in sources))
    starts = [ZERO]
    for each in sources:
        starts.append(make.derived("a + b", a=starts[-1], b=each.extents[at]))

    def element(indices: Indices) -> ast.expr:
        def part(of: Source, start: Extent) -> ast.expr:
            inside = [*indices[:at], written("i - start", i=indices[at], start=start), *indices[at + 1 :]]
            return make.cast(of.at(inside), kind, of.dtype)

        result = part(sources[-1], starts[-2])
        for of, start, stop in reversed([*zip(sources[:-1], starts, starts[1:-1], strict=False)]):
            result = written("x if i < stop else rest", i=indices[at], stop=stop, x=part(of, start), rest=result)
        return result

    return Indexed([*first.extents[:at], starts[-1], *first.extents[at + 1 :]], kind, element)


def _same_extents(make: Maker, sources: Sequence[Source], *, but: int = -1) -> None:
    """Let the call be refused where the arrays differ along another axis than ``but``."""
    first = sources[0]
    for each in sources[1:]:
        if len(each.extents) != len(first.extents):
            several = [(as_written(source.node), len(source.extents)) for source in (each, first)]
            found = "`{}` has {} dimensions, and `{}` {}".format(*several[0], *several[1])
            raise make.refused(found, "give the arrays as many dimensions: x[:, None]")
        for axis, (one, other) in enumerate(zip(first.extents, each.extents, strict=True)):
            texts = [as_written(source.node).replace("%", "%%") for source in (each, first)]
            found = f"`{texts[0]}` has length %d along axis {axis}, and `{texts[1]}` %d"
            if axis != but:
                make.same(other, one, found, "arrays that are joined have one shape, but for the axis along which they are")


def _stack(make: Maker, arrays: ast.expr, axis: ast.expr = _ZERO) -> Indexed:
    return _stacked(make, make.arrays(arrays), axis)


def _stacked(make: Maker, sources: list[Source], axis: ast.expr) -> Indexed:
    _same_extents(make, sources)
    at = make.axis(axis, len(sources[0].extents) + 1)
    kind = np.result_type(*(each.dtype for each in sources))
    extents = [*sources[0].extents]
    extents.insert(at, number(len(sources)))

    def element(indices: Indices) -> ast.expr:
        rest = [*indices[:at], *indices[at + 1 :]]
        return _chosen(make, indices[at], [of.at(rest) for of in sources], kind)

    return Indexed(extents, kind, element)


def _hstack(make: Maker, tup: ast.expr) -> Indexed:
    sources = make.arrays(tup)
    return _joined(make, sources, min(len(sources[0].extents) - 1, 1))


def _vstack(make: Maker, tup: ast.expr) -> Indexed:
    sources = make.arrays(tup)
    return _stacked(make, sources, _ZERO) if len(sources[0].extents) == 1 else _joined(make, sources, 0)


def _column_stack(make: Maker, tup: ast.expr) -> Indexed:
    sources = make.arrays(tup)
    return _stacked(make, sources, _ONE) if len(sources[0].extents) == 1 else _joined(make, sources, 1)


# --- shapes ------------------------------------------------------------------------------------------------------------


def _reshape(make: Maker, a: ast.expr, shape: ast.expr) -> Indexed:
    of = make.array(a)
    return _reshaped(make, of, make.parts(shape), of)


def _reshaped(make: Maker, of: Source, parts: Sequence[ast.expr], shares: Source | None) -> Indexed:
    unknown = [_is_open(each) for each in parts]
    extents = [ONE if open_ else make.size(each) for each, open_ in zip(parts, unknown, strict=True)]
    size = make.product(of.extents)
    if unknown.count(True) == 1:
        extents[unknown.index(True)] = make.derived("n // m if m else -1", n=size, m=make.product(extents))
    text = as_written(make.node).replace("%", "%%")
    found = f"`{text}` gives %d elements a shape of %d"
    make.check("a == b", found, "give it as many elements", a=size, b=make.product(extents))

    def element(indices: Indices) -> ast.expr:
        place: ast.expr = indices[0]
        for index, extent in zip(indices[1:], extents[1:], strict=True):
            place = written("place * n + i", place=place, n=extent, i=index)
        inside: list[ast.expr] = []
        for extent in reversed(of.extents[1:]):
            inside.insert(0, written("place % n", place=place, n=extent))
            place = written("place // n", place=place, n=extent)
        return of.at([place, *inside])

    return Indexed(extents, of.dtype, element, shares)


def _is_open(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and ast.unparse(node) == "-1"


def _reshape_method(make: Maker, a: ast.expr, *shape: ast.expr) -> Indexed:
    of = make.array(a)
    return _reshaped(make, of, make.parts(shape[0]) if len(shape) == 1 else shape, of)


def _ravel(make: Maker, a: ast.expr) -> Indexed:
    of = make.array(a)
    return _reshaped(make, of, [parsed("-1")], of)


def _flatten(make: Maker, a: ast.expr) -> Indexed:
    return _reshaped(make, make.array(a), [parsed("-1")], None)


_FUNCTIONS: tuple[tuple[object, Word], ...] = (
    (np.eye, _eye),
    (np.identity, _identity),
    (np.linspace, _linspace),
    (np.arange, _arange),
    (np.array, _array),
    (np.asarray, _asarray),
    (np.ascontiguousarray, _asarray),
    (np.triu, _triu),
    (np.tril, _tril),
    (np.diag, _diag),
    (np.diagonal, _diagonal),
    (np.roll, _roll),
    (np.repeat, _repeat),
    (np.tile, _tile),
    (np.concatenate, _concatenate),
    (np.stack, _stack),
    (np.hstack, _hstack),
    (np.vstack, _vstack),
    (np.column_stack, _column_stack),
    (np.reshape, _reshape),
    (np.ravel, _ravel),
    (grid_part, grid_part),
    (_meshed, _meshed),
    *BINNING,
    *ELEMENTWISE,
    *FIELDS,
)
_METHODS: dict[str, Word] = {
    "reshape": _reshape_method,
    "ravel": _ravel,
    "flatten": _flatten,
    "diagonal": _diagonal,
    "repeat": _repeat,
    "astype": _astype,
    **ELEMENTWISE_METHODS,
}
