"""Reductions of whole arrays, of all elements and along axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.properties.choices import Choices
from tests.properties.values import UNSIGNED, fits
from tests.properties.whole.values import Dim, Whole, Word, product, settled, summed, valued


@dataclass(frozen=True, slots=True)
class Over:
    """The axes of a reduction: how they are written, the shape that is left, and elements of one result in each call."""

    written: str = ""
    shape: tuple[Dim, ...] = ()
    counts: tuple[int, ...] = (0,)
    # Whether it is one axis, or all.
    plain: bool = True

    def of(self, choices: Choices, word: str, a: Whole, options: str = "") -> str:
        """The call, as a function or a method."""
        written = ", ".join(text for text in (self.written, options) if text)
        if word not in ("count_nonzero", "ptp") and choices.maybe(40):
            return f"{a.inner}.{word}({written})"
        return f"np.{word}({a.text}{', ' if written else ''}{written})"


Reduction = Callable[[Choices, Whole, Over], Whole | None]


def along_axes(choices: Choices, a: Whole) -> Whole | None:
    """``np.sum(a, axis=0)``: an array."""
    if not a.shape:
        return None
    order = choices.pick([(k, j) for k in range(len(a.shape)) for j in range(len(a.shape))])
    axes = order if order[0] != order[1] and choices.maybe(50) else order[:1]
    reduction = choices.pick(_ALL)
    if reduction is _spread and len(axes) == 1 and a.shape[axes[0]].least > 1:
        shape = tuple(dim.part(slice(2)) if axis == axes[0] else dim for axis, dim in enumerate(a.shape))
        a = a.moved(f"{a.inner}[{':, ' * axes[0]}:2]", *shape)
    texts = [str(axis - choices.pick((0, len(a.shape)))) for axis in axes]
    kept = len(axes) == len(a.shape) or choices.maybe(40)
    shape = tuple(dim.single() if k in axes else dim for k, dim in enumerate(a.shape) if kept or k not in axes)
    written = f"axis=({', '.join(texts)})" if len(axes) > 1 else f"axis={texts[0]}" if kept or choices.maybe(70) else texts[0]
    counts = tuple(product(sizes) for sizes in zip(*(a.shape[axis].sizes for axis in axes), strict=True))
    over = Over(written + (", keepdims=True" if kept else ""), shape, counts, len(axes) == 1)
    return reduction(choices, a, over)


def _sum(choices: Choices, a: Whole, over: Over) -> Whole | None:
    return summed(over.of(choices, "sum", a), a, over.shape, max(over.counts))


def _product(choices: Choices, a: Whole, over: Over) -> Whole | None:
    dtype = a.dtype if a.kind == "float" else "uint64" if a.dtype in UNSIGNED else "int64"
    most = max(over.counts)
    top = max(1, a.value.magnitude) ** max(1, most)
    made = valued(over.of(choices, "prod", a), dtype, -top, top, a.value.grain * most, over.shape)
    if most > 12 or not fits(replace(made.value, kind="float")):
        if a.kind == "bool":
            return None
        sign = replace(a, value=replace(a.value, text=f"np.sign({a.text})", atom=True))
        made = valued(over.of(choices, "prod", sign), dtype, -1, 1, 0, over.shape)
    return replace(made, value=replace(made.value, low=0)) if a.dtype in (*UNSIGNED, "bool") else made


def _extreme(choices: Choices, a: Whole, over: Over) -> Whole | None:
    return a.moved(over.of(choices, choices.pick(("min", "max")), a), *over.shape) if min(over.counts) else None


def _place(choices: Choices, a: Whole, over: Over) -> Whole | None:
    if not min(over.counts) or not over.plain:
        return None
    return valued(over.of(choices, choices.pick(("argmin", "argmax")), a), "int64", 0, max(over.counts), 0, over.shape)


def _truth(choices: Choices, a: Whole, over: Over) -> Whole | None:
    return valued(over.of(choices, choices.pick(("any", "all")), a), "bool", 0, 1, 0, over.shape)


def _count(choices: Choices, a: Whole, over: Over) -> Whole | None:
    dtype = "int64" if over.shape else "weak"
    return valued(over.of(choices, "count_nonzero", a), dtype, 0, max(over.counts), 0, over.shape)


def _mean(choices: Choices, a: Whole, over: Over) -> Whole | None:
    """Rounded down, which no rounding changes: a mean is an integer or far from one."""
    if not min(over.counts) or summed("", a, (), max(over.counts)) is None:
        return None
    dtype = a.dtype if a.kind == "float" else "float64"
    low, high = (0, 1) if a.kind == "bool" else (a.value.low - 1, a.value.high)
    return valued(f"np.floor({over.of(choices, 'mean', a)})", dtype, low, high, 0, over.shape)


def _range(choices: Choices, a: Whole, over: Over) -> Whole | None:
    if a.kind == "bool" or not min(over.counts):
        return None
    value = replace(a.value, text=over.of(choices, "ptp", a), low=0, high=a.value.high - a.value.low, atom=True)
    return replace(a.moved("", *over.shape), value=value) if fits(value) else None


def _spread(choices: Choices, a: Whole, over: Over) -> Whole | None:
    """Of small numbers, of which a power of two makes all that is computed exact."""
    if not set(over.counts) <= {1, 2, 4, 8} or a.kind == "bool":
        return None
    made = settled(a, 0 if a.dtype in UNSIGNED else -7, 7, 1)
    if made.value.magnitude > 7:
        return None
    steps = max(over.counts).bit_length() - 1
    dtype = a.dtype if a.kind == "float" else "float64"
    if choices.maybe(30):
        return valued(f"np.floor({over.of(choices, 'std', made)})", dtype, 0, 14, 0, over.shape)
    less = choices.maybe(40) and set(over.counts) == {2}
    text = over.of(choices, "var", made, "ddof=1" if less else "")
    grain = 2 * (made.value.grain + steps) + steps
    return valued(text, dtype, 0, 400, grain, over.shape)


_ONCE = (_product, _truth, _count, _mean, _range)
_ALL: tuple[Reduction, ...] = (*_ONCE, _sum, _sum, _extreme, _extreme, _place, _place, _spread, _spread)


def _of_all(reduction: Reduction) -> Word:
    def word(choices: Choices, a: Whole) -> Whole | None:
        if not a.shape:
            return None
        counts = tuple(product(sizes) for sizes in zip(*(dim.sizes for dim in a.shape), strict=True))
        return reduction(choices, a, Over(counts=counts))

    return word


_COMMON = (_sum, _extreme, _place, _truth, _count, _mean, _range, _product)
OF_ALL: tuple[Word, ...] = tuple(_of_all(reduction) for reduction in _COMMON)
