"""NumPy's functions of fields and tensors: `np.pad`, `np.gradient`, `np.interp`, `np.cross`, `np.kron`, `np.einsum`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import numpy as np

from qgraph.frontend.arrays.indexed_arrays import Indexed, Indices, Maker, Source, written
from qgraph.frontend.inference.indexing import word
from qgraph.source import as_written

_ZERO, _ONE = ast.Constant(0), ast.Constant(1)
# Where an element of a padded array comes from, at `i` behind the array's first of `n`.
_PLACES = {
    "constant": "i",
    "edge": "least(most(i, 0), n - 1)",
    "wrap": "i % n",
    "symmetric": "i % (2 * n) if i % (2 * n) < n else 2 * n - 1 - i % (2 * n)",
    "reflect": "i % most(2 * n - 2, 1) if i % most(2 * n - 2, 1) < n else 2 * n - 2 - i % most(2 * n - 2, 1)",
}


def _pad(
    make: Maker,
    array: ast.expr,
    pad_width: ast.expr,
    mode: ast.expr = ast.Constant("constant"),  # noqa: B008 - nobody changes it
    *,
    constant_values: ast.expr = _ZERO,
) -> Indexed:
    of, how = make.array(array), make.constant(mode)
    if how not in _PLACES:
        raise make.refused(f"`{as_written(mode)}` is no mode that kernels have", f"known are {', '.join(_PLACES)}")
    value = make.number(constant_values)
    widths = [(make.size(before), make.size(after)) for before, after in _widths(make, pad_width, len(of.extents))]
    extents = []
    for (before, after), n in zip(widths, of.extents, strict=True):
        make.check("a >= 0 and b >= 0", "the widths are %d and %d", "pad by 0 or more", a=before, b=after)
        if how != "constant":
            make.check("n > 0", "an axis has %d elements", "there is nothing to repeat", n=n)
        extents.append(make.derived("a + n + b", a=before, n=n, b=after))
    extremes = {name: word(make.scope, function).func for name, function in (("least", min), ("most", max))}

    def element(indices: Indices) -> ast.expr:
        behind = [written("i - a", i=i, a=before) for i, (before, _) in zip(indices, widths, strict=True)]
        places = [written(_PLACES[how], i=i, n=n, **extremes) for i, n in zip(behind, of.extents, strict=True)]
        if how != "constant":
            return of.at(places)
        inside = [written("i >= 0 and i < n", i=i, n=n) for i, n in zip(behind, of.extents, strict=True)]
        test = ast.BoolOp(ast.And(), inside) if len(inside) > 1 else inside[0]
        return ast.IfExp(test, of.at(places), make.cast(value, of.dtype))

    return Indexed(extents, of.dtype, element)


def _widths(make: Maker, node: ast.expr, ndim: int) -> list[tuple[ast.expr, ast.expr]]:
    """What is before and behind each axis: one width, one pair, or a pair for each axis."""
    parts = list(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else [node, node]
    pairs = [each.elts for each in parts if isinstance(each, (ast.Tuple, ast.List))]
    if not pairs and len(parts) == 2:
        return [(parts[0], parts[1])] * ndim
    if len(pairs) < len(parts) or len(pairs) not in (1, ndim) or any(len(pair) != 2 for pair in pairs):
        raise make.refused(f"`{as_written(node)}` is no width", "write n, (before, behind), or such a pair for each axis")
    return [(pair[0], pair[1]) for pair in (pairs * ndim if len(pairs) == 1 else pairs)]


def _gradient(make: Maker, f: ast.expr, spacing: ast.expr = _ONE, *, axis: ast.expr | None = None) -> Indexed:
    of, step = make.array(f), make.number(spacing)
    if axis is None and len(of.extents) > 1:
        raise make.refused("no axis is named", "name one: np.gradient(x, axis=0)")
    if of.dtype == np.bool_:
        raise make.refused("are booleans", "NumPy refuses this too")
    at = 0 if axis is None else make.axis(axis, len(of.extents))
    n, kind = of.extents[at], of.dtype if of.dtype.kind in "fc" else np.dtype(np.float64)
    make.check("n > 1", "the axis has %d elements", "a difference needs two", n=n)

    def element(indices: Indices) -> ast.expr:
        def value(text: str) -> ast.expr:
            place = written(text, i=indices[at], n=n)
            return make.cast(of.at([*indices[:at], place, *indices[at + 1 :]]), kind, of.dtype)

        rise = ast.BinOp(value("i + 1 if i < n - 1 else i"), ast.Sub(), value("i - 1 if i > 0 else i"))
        run = written("2.0 * h if i > 0 and i < n - 1 else 1.0 * h", i=indices[at], n=n, h=step)
        return make.cast(ast.BinOp(rise, ast.Div(), run), kind)

    return Indexed(of.extents, kind, element)


def _interp(
    make: Maker, x: ast.expr, xp: ast.expr, fp: ast.expr, left: ast.expr | None = None, right: ast.expr | None = None
) -> Indexed:
    of, places, values = make.array(x), make.array(xp, 1), make.array(fp, 1)
    kind = np.dtype(np.float64)
    if any(each.dtype.kind == "c" for each in (of, places, values)):
        raise make.refused("are complex numbers", "interpolate the real and the imaginary parts")
    make.same(places.extents[0], values.extents[0], "there are %d places and %d values", "give one value for each place")
    make.check("n > 0", "there are %d places", "give one at least", n=places.extents[0])
    ends = [None if each is None else make.number(each) for each in (left, right)]
    search = make.region.unit.funcs["interpolated"]

    def element(indices: Indices) -> ast.expr:
        first = make.cast(values.at([_ZERO]), kind, values.dtype) if ends[0] is None else make.cast(ends[0], kind)
        last_at = written("n - 1", n=values.extents[0])
        last = make.cast(values.at([last_at]), kind, values.dtype) if ends[1] is None else make.cast(ends[1], kind)
        given = make.cast(of.at(indices), kind, of.dtype)
        return word(make.scope, search, given, make.place(xp), make.place(fp), first, last)

    return Indexed(of.extents, kind, element)


def _cross(make: Maker, a: ast.expr, b: ast.expr) -> Indexed:
    sources = make.array(a), make.array(b)
    kind = np.result_type(*(each.dtype for each in sources))
    if kind == np.bool_:
        raise make.refused("are booleans", "NumPy refuses this too")
    longest, hint = max(sources, key=lambda each: len(each.extents)), "pass one vector, or as many as in the other array"
    for each in sources:
        make.check("n == 3", "a vector has %d components", "the last axis is that of components, three", n=each.extents[-1])
        if len(each.extents) not in (1, len(longest.extents)):
            raise make.refused("the arrays have other numbers of dimensions", hint)
        for one, other in zip(each.extents[:-1], longest.extents, strict=False):
            make.same(one, other, "the arrays have lengths %d and %d", hint)

    def element(indices: Indices) -> ast.expr:
        def component(of: Source, ahead: int) -> ast.expr:
            inside = [*(indices[:-1] if len(of.extents) > 1 else ()), written("(k + d) % 3", k=indices[-1], d=ahead)]
            return make.cast(of.at(inside), kind, of.dtype)

        left, right = sources
        parts = [component(left, 1), component(right, 2), component(left, 2), component(right, 1)]
        return written("a * b - c * d", **dict(zip("abcd", parts, strict=True)))

    return Indexed(longest.extents, kind, element)


def _kron(make: Maker, a: ast.expr, b: ast.expr) -> Indexed:
    left, right = make.array(a), make.array(b)
    if len(left.extents) != len(right.extents):
        raise make.refused("the arrays have other numbers of dimensions", "give them as many: x[:, None]")
    kind = np.result_type(left.dtype, right.dtype)

    def element(indices: Indices) -> ast.expr:
        outer = [written("i // n", i=i, n=n) for i, n in zip(indices, right.extents, strict=True)]
        inner = [written("i % n", i=i, n=n) for i, n in zip(indices, right.extents, strict=True)]
        factors = [make.cast(of.at(at), kind, of.dtype) for of, at in ((left, outer), (right, inner))]
        return ast.BinOp(factors[0], ast.Mult(), factors[1])

    extents = [make.product([m, n]) for m, n in zip(left.extents, right.extents, strict=True)]
    return Indexed(extents, kind, element)


def _squeeze(make: Maker, a: ast.expr, axis: ast.expr | None = None) -> Indexed:
    of = make.array(a)
    if axis is None:
        raise make.refused("no axis is named", "name the one that has length 1: np.squeeze(x, axis=0)")
    at = make.axis(axis, len(of.extents))
    make.check("n == 1", "the axis has %d elements", "only an axis of length 1 can be left out", n=of.extents[at])
    if len(of.extents) == 1:
        raise make.refused("nothing would be left but a number", "write x[0]")
    extents = [*of.extents[:at], *of.extents[at + 1 :]]
    return Indexed(extents, of.dtype, lambda indices: of.at([*indices[:at], _ZERO, *indices[at:]]), of)


# --- sums over repeated labels -----------------------------------------------------------------------------------------

_PRODUCTS = ("ij,jk->ik", "ij,j->i", "i,ij->j", "aij,ajk->aik")


def _einsum(make: Maker, subscripts: ast.expr, *operands: ast.expr) -> ast.expr:
    """A product of matrices where it is one, else the sum of products of the arrays, brought to the same axes."""
    text = str(make.constant(subscripts)).replace(" ", "")
    inputs, arrow, result = text.partition("->")
    labels = inputs.split(",")
    if not arrow:
        result = "".join(sorted(each for each in {*inputs} - {","} if inputs.count(each) == 1))
    sources = [make.array(each) for each in operands]
    fits = [len(each) for each in labels] == [len(each.extents) for each in sources]
    known = {*inputs} - {","}
    plain = all(each.isalpha() for each in known) and {*result} <= known and len({*result}) == len(result)
    if not fits or not plain or any(len({*each}) < len(each) for each in labels):
        hint = "write letters, each once in an array and in the result, one for each axis: 'ij,jk->ik'"
        raise make.refused(f"`{as_written(subscripts)}` does not name the axes", hint)
    if not result:
        raise make.refused("the result is a number", "write np.sum(a * b)")
    if any(each.dtype.kind not in "fc" and each.dtype not in (np.int64, np.uint64) for each in sources):
        raise make.refused("are narrow integers, whose sum wraps", "convert them: x.astype(np.int64)")
    places = [make.place(each) for each in operands]
    # PyTorch has no stacks of integer matrices on a GPU.
    products = _PRODUCTS if all(each.dtype.kind in "fc" for each in sources) else _PRODUCTS[:-1]
    if arrow and any(_alike(text, product) for product in products):
        return ast.BinOp(places[0], ast.MatMult(), places[1])
    summed = [each for each in dict.fromkeys(inputs.replace(",", "")) if each not in result]
    order = [*result, *summed]
    factors = [_brought(make, place, each, order) for place, each in zip(places, labels, strict=True)]
    product = factors[0]
    for each in factors[1:]:
        product = ast.BinOp(product, ast.Mult(), each)
    if not summed:
        return product
    found = word(make.scope, np.sum, product)
    axes: list[ast.expr] = [ast.Constant(axis) for axis in range(len(result), len(order))]
    found.keywords = [ast.keyword("axis", ast.Tuple(axes, ast.Load()))]
    return found


def _alike(text: str, product: str) -> bool:
    """Whether two texts differ in their letters alone."""
    if len(text) != len(product):
        return False
    pairs = {(one, other) for one, other in zip(text, product, strict=True)}
    return len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def _brought(make: Maker, place: ast.expr, labels: str, order: Sequence[str]) -> ast.expr:
    """The array with the axes of ``order``, where it has none a new one."""
    axes = [labels.index(each) for each in order if each in labels]
    turned = place
    if axes != sorted(axes):
        turned = word(make.scope, np.transpose, place, ast.Tuple([ast.Constant(axis) for axis in axes], ast.Load()))
    if len(axes) == len(order):
        return turned
    return written(f"x[{', '.join(':' if each in labels else 'None' for each in order)}]", x=turned)


FIELDS: tuple[tuple[object, Callable[..., Indexed | ast.expr]], ...] = (
    (np.pad, _pad),
    (np.gradient, _gradient),
    (np.interp, _interp),
    (np.cross, _cross),
    (np.kron, _kron),
    (np.squeeze, _squeeze),
    (np.einsum, _einsum),
)
