"""The words of random whole-array programs, one list for each place where they stand;
``axes`` has reductions, ``selections`` masks, arrays of indices and bins.

A word is a function of the choices and of an array, which gives the expression with what is known of it, or None where it does
not apply. A new word is one more entry: of an array for an array in ``WORDS`` (also along an axis, or chosen by a mask), for a
part of one in ``PARTS``, of all elements for a number in ``REDUCTIONS``, of one operand and another of its shape in ``PAIRS``.
"""

from __future__ import annotations

from dataclasses import replace

from tests.properties.choices import Choices
from tests.properties.values import UNSIGNED, Value, fits
from tests.properties.whole.axes import OF_ALL, along_axes
from tests.properties.whole.selections import OF_SELECTED, SELECTED_BY, SELECTING
from tests.properties.whole.values import Dim, Pair, Whole, Word, both, combined, joined, numeric, product, summed, valued

# Ways to take elements of an axis: how it is written, and as a slice.
BOUNDS = (
    ("1:", slice(1, None)),
    (":-1", slice(None, -1)),
    ("::-1", slice(None, None, -1)),
    ("::2", slice(None, None, 2)),
    ("1:-1", slice(1, -1)),
    ("-2::-1", slice(-2, None, -1)),
    (":", slice(None)),
    ("::-2", slice(None, None, -2)),
    (":2", slice(None, 2)),
)


def _sliced(choices: Choices, a: Whole) -> Whole | None:
    """Slices, indices and new axes."""
    if not a.shape:
        return None
    texts, shape = [], []
    for dim in a.shape:
        if dim.least > 0 and len(a.shape) > 1 and choices.maybe(20):
            texts.append(choices.pick(("0", "-1")))
            continue
        if dim.least > 0 and choices.maybe(8):
            texts.append("0:1")
            shape.append(dim.single())
            continue
        text, bounds = choices.pick(BOUNDS)
        texts.append(text)
        # A part of an axis that is written as one is none that is repeated.
        shape.append(dim if text in (":", "::-1") else dim.part(bounds))
    if len(shape) == 1 and choices.maybe(20):
        at = choices.integer(0, len(texts))
        texts.insert(at, choices.pick(("None", "np.newaxis")))
        shape.insert(0 if at == 0 else len(shape) if at == len(texts) - 1 else min(at, len(shape)), a.shape[0].single())
        if len(texts) > 2:
            return None
    if not shape:
        return None
    return a.seen(f"{a.inner}[{', '.join(texts)}]", *shape)


def _turned(choices: Choices, a: Whole) -> Whole | None:
    """Axes in another order."""
    back = a.shape[::-1]
    texts = [f"{a.inner}.T", f"np.transpose({a.text})"]
    if len(a.shape) == 2:
        texts += [f"np.swapaxes({a.text}, 0, 1)", f"np.moveaxis({a.text}, 0, 1)", f"{a.inner}.transpose(1, 0)"]
    return a.seen(choices.pick(texts), *back) if a.shape else None


def _flipped(choices: Choices, a: Whole) -> Whole | None:
    if not a.shape:
        return None
    axis = choices.integer(0, len(a.shape) - 1)
    texts = [f"np.flip({a.text})", f"np.flip({a.text}, axis={axis})"]
    if len(a.shape) == 2:
        texts += [f"np.fliplr({a.text})", f"np.flipud({a.text})"]
    return a.seen(choices.pick(texts), *a.shape)


PARTS: list[Word] = [_sliced, _turned, _flipped]


def _rolled(choices: Choices, a: Whole) -> Whole | None:
    if not a.shape:
        return None
    by = choices.integer(-2, 3)
    # Of several axes one is named: all in a row is refused.
    axis = f", axis={choices.integer(0, len(a.shape) - 1)}" if len(a.shape) > 1 or choices.maybe(20) else ""
    return a.moved(f"np.roll({a.text}, {by}{axis})", *a.shape)


def _repeated(choices: Choices, a: Whole) -> Whole | None:
    times = choices.integer(1, 3)
    if len(a.shape) != 1:
        return None
    return a.moved(f"np.{choices.pick(('repeat', 'tile'))}({a.text}, {times})", a.shape[0].changed(lambda size: size * times))


def _flat(choices: Choices, a: Whole) -> Whole | None:
    if not a.shape:
        return None
    sizes = tuple(product(sizes) for sizes in zip(*(dim.sizes for dim in a.shape), strict=True))
    words = (
        f"np.ravel({a.text})",
        f"{a.inner}.ravel()",
        f"{a.inner}.flatten()",
        f"np.reshape({a.text}, -1)",
        f"{a.inner}.reshape(-1)",
    )
    return _sharing(a, choices.pick(words), Dim(sizes))


def _sharing(a: Whole, text: str, *shape: Dim) -> Whole:
    """What has the elements of an array, or shares them."""
    return replace(a.moved(text, *shape), root=a.root)


def _reshaped(choices: Choices, a: Whole) -> Whole | None:
    if not a.shape or a.empty:
        return None
    sizes = tuple(product(sizes) for sizes in zip(*(dim.sizes for dim in a.shape), strict=True))
    rows = choices.integer(1, 3)
    if any(size % rows for size in sizes):
        return None
    rest = Dim(tuple(size // rows for size in sizes))
    shape = (Dim((rows, rows), one=rows == 1), rest)
    if choices.maybe(50):
        return _sharing(a, f"{a.inner}.reshape({rows}, -1)", *shape)
    return _sharing(a, f"np.reshape({a.text}, (-1, {rows}))", *shape[::-1])


def _copied(choices: Choices, a: Whole) -> Whole | None:
    return a.moved(choices.pick((f"{a.inner}.copy()", f"np.copy({a.text})")), *a.shape) if a.shape else None


def _differences(choices: Choices, a: Whole) -> Whole | None:
    if not a.shape or a.kind == "bool" or a.value.low < 0 and a.dtype in UNSIGNED or a.dtype in UNSIGNED:
        return None
    value = Value(
        f"np.diff({a.text})",
        a.kind,
        a.value.low - a.value.high,
        a.value.high - a.value.low,
        a.value.dtypes,
        a.value.grain,
        atom=True,
    )
    last = a.shape[-1]
    return Whole(value, a.dtype, (*a.shape[:-1], last.changed(lambda size: size - 1))) if fits(value) else None


def _triangle(choices: Choices, a: Whole) -> Whole | None:
    if len(a.shape) != 2:
        return None
    made = a.moved(f"np.{choices.pick(('triu', 'tril'))}({a.text}, {choices.integer(-1, 1)})", *a.shape)
    return _with_zero(made)


def _with_zero(a: Whole) -> Whole:
    return replace(a, value=replace(a.value, low=min(0, a.value.low), high=max(0, a.value.high)))


def _diagonal(choices: Choices, a: Whole) -> Whole | None:
    if len(a.shape) == 1 and a.most < 30:
        return _with_zero(a.moved(f"np.diag({a.text})", a.shape[0], a.shape[0]))
    if len(a.shape) == 2:
        sizes = tuple(min(pair) for pair in zip(*(dim.sizes for dim in a.shape), strict=True))
        return _sharing(a, f"np.diag({a.text})", Dim(sizes))
    return None


def _converted(choices: Choices, a: Whole) -> Whole | None:
    dtype = choices.pick(("int64", "float64", "int32", "float32", "bool", "uint8", "int16"))
    text = f"{a.inner}.astype(np.{'bool_' if dtype == 'bool' else dtype})"
    if not a.shape or a.value.low < 0 and dtype in UNSIGNED:
        return None
    if dtype == "bool":
        return valued(text, dtype, 0, 1, shape=a.shape)
    value = numeric(a, dtype)
    made = valued(text, dtype, value.low, value.high, value.grain if "float" in dtype else 0, a.shape)
    return made if fits(made.value) else None


def _filled(choices: Choices, a: Whole) -> Whole | None:
    if not a.shape:
        return None
    number = choices.integer(0, 3)
    words = ((f"np.zeros_like({a.text})", 0), (f"np.ones_like({a.text})", 1), (f"np.full_like({a.text}, {number})", number))
    text, number = choices.pick(words)
    if a.dtype == "bool":
        return valued(text, a.dtype, 0, 1, shape=a.shape)
    return valued(text, a.dtype, min(number, 0), number, shape=a.shape)


def _sorted(choices: Choices, a: Whole) -> Whole | None:
    return a.moved(f"np.sort({a.text})", *a.shape) if a.shape and a.kind != "bool" else None


def _summed_up(choices: Choices, a: Whole) -> Whole | None:
    if len(a.shape) != 1 or a.kind == "bool":
        return None
    return summed(f"np.cumsum({a.text})", a, a.shape)


# Of one array: words along axes (`np.sum(a, axis=0)`) belong here.
WORDS: list[Word] = [
    _copied,
    _rolled,
    _repeated,
    _flat,
    _reshaped,
    _differences,
    _triangle,
    _diagonal,
    _converted,
    _filled,
    _sorted,
    _summed_up,
    *(along_axes,) * 6,
    *SELECTING,
]


def _concatenated(choices: Choices, a: Whole, b: Whole) -> Whole | None:
    dtype = joined(a, b)
    if len(a.shape) != len(b.shape) or not a.shape or not dtype:
        return None
    axis = choices.integer(0, len(a.shape) - 1)
    if [d for k, d in enumerate(a.shape) if k != axis] != [d for k, d in enumerate(b.shape) if k != axis]:
        return None
    tail = f", axis={axis}" if axis or choices.maybe(30) else ""
    longer = Dim(tuple(x + y for x, y in zip(a.shape[axis].sizes, b.shape[axis].sizes, strict=True)))
    return both(f"np.concatenate(({a.text}, {b.text}){tail})", a, b, dtype, (*a.shape[:axis], longer, *a.shape[axis + 1 :]))


def _stacked(choices: Choices, a: Whole, b: Whole) -> Whole | None:
    dtype = joined(a, b)
    if a.shape != b.shape or not a.shape or not dtype:
        return None
    two = Dim((2, 2))
    if choices.maybe(30):
        return both(f"np.stack(({a.text}, {b.text}), axis=-1)", a, b, dtype, (*a.shape, two))
    word = choices.pick(("stack", "vstack")) if len(a.shape) == 1 else "stack"
    return both(f"np.{word}(({a.text}, {b.text}))", a, b, dtype, (two, *a.shape))


def _outer(choices: Choices, a: Whole, b: Whole) -> Whole | None:
    if len(a.shape) != 1 or len(b.shape) != 1:
        return None
    word, operator = choices.pick((("outer", "*"), ("add.outer", "+"), ("multiply.outer", "*")))
    made = combined(operator, a, b, (*a.shape, *b.shape))
    if made is None or made.text != f"{a.inner} {operator} {b.inner}":
        return None
    return made.moved(f"np.{word}({a.text}, {b.text})", *(replace(dim, one=False) for dim in made.shape))


def _product_of_matrices(choices: Choices, a: Whole, b: Whole) -> Whole | None:
    if not 1 <= len(a.shape) <= 2 or not 1 <= len(b.shape) <= 2 or a.kind == "bool" or b.kind == "bool":
        return None
    if a.shape[-1] != b.shape[0]:
        return None
    one = combined("*", a, b, ())
    if one is None or one.text != f"{a.inner} * {b.inner}":
        return None
    text = choices.pick((f"{a.inner} @ {b.inner}", f"np.dot({a.text}, {b.text})"))
    shape = (*a.shape[:-1], *b.shape[1:])
    most = max(a.shape[-1].sizes)
    low, high = min(0, one.value.low * most), max(0, one.value.high * most)
    made = valued(text, one.dtype, low, high, one.value.grain, shape, atom=False)
    return made if fits(made.value) else None


# Of two arrays of any shapes: selection by a mask or by an array of indices belongs here.
PAIRS: list[Pair] = [_concatenated, _stacked, _outer, _product_of_matrices, *SELECTED_BY]


def _inner(choices: Choices, a: Whole) -> Whole | None:
    if len(a.shape) != 1 or a.kind == "bool":
        return None
    text = choices.pick((f"{a.inner} @ {a.inner}", f"np.dot({a.text}, {a.text}[::-1])", f"np.vdot({a.text}, {a.text})"))
    most = a.value.magnitude**2 * a.most
    made = valued(text.replace(f"{a.text}[", f"{a.inner}["), a.dtype, -most, most, 2 * a.value.grain, atom=False)
    return made if fits(made.value) and a.dtype not in UNSIGNED else None


# Of all elements, for a number.
REDUCTIONS: list[Word] = [*OF_ALL, *OF_ALL, _inner, *OF_SELECTED]
