"""What masks, arrays of indices and bins make of whole arrays."""

from __future__ import annotations

from dataclasses import replace

from tests.properties.choices import Choices
from tests.properties.values import UNSIGNED, fits, within
from tests.properties.whole.values import Dim, Pair, Whole, Word, both, joined, summed, valued

# Of an expression that is written twice.
_SHORT = 24


def mask_of(choices: Choices, a: Whole) -> str:
    """Where its elements are large, or true."""
    if a.kind == "bool":
        return choices.pick((a.text, f"~{a.inner}"))
    tests = [f"{a.inner} {operator} {number}" for operator, number in ((">", 1), ("<", 0), (">=", 3), ("==", 0), ("!=", 2))]
    return choices.pick((*tests, f"({a.inner} > 0) & ({a.inner} <= 4)", f"~({a.inner} > 2)"))


def index_of(choices: Choices, a: Whole, least: int) -> Whole | None:
    """An array of integers as one of indices of an axis that has at least so many elements."""
    if a.kind != "int" or not a.shape or not least:
        return None
    value = within(a.value, 0, least - 1)
    if value.low < 0 or value.high >= least:
        return None
    back = choices.integer(0, min(least, 3)) if a.dtype not in UNSIGNED else 0
    if back:
        value = replace(value, text=f"{value.inner} - {back}", low=value.low - back, high=value.high - back, atom=False)
    return replace(a.moved("", *a.shape), value=value)


def new_index(choices: Choices, least: int, calls: int) -> Whole | None:
    """Indices that are written out."""
    if not least:
        return None
    if choices.maybe(50):
        items = [choices.integer(-least, least - 1) for _ in choices.some(1, 4, 70)]
        return valued(f"np.array({items})", "int64", -least, least - 1, 0, (Dim((len(items),) * calls),))
    count = choices.integer(1, 6)
    counted = valued(f"np.arange({count})", "int64", 0, count - 1, 0, (Dim((count,) * calls),))
    return index_of(choices, counted, least)


# --- reductions of what is selected ---


def _selected(choices: Choices, a: Whole) -> Whole | None:
    if not a.shape or len(a.text) > _SHORT:
        return None
    part = f"{a.inner}[{mask_of(choices, a)}]"
    match choices.pick(("sum", "count", "len", "size", "any", "doubled", "max", "mean")):
        case "sum":
            return summed(choices.pick((f"np.sum({part})", f"{part}.sum()")), a)
        case ("max" | "mean") as word if a.kind != "bool" and not a.empty:
            word = choices.pick(("max", "min")) if word == "max" else "mean"
            part = f"{a.inner}[{a.inner} >= np.min({a.text})]"
            made = a.moved(choices.pick((f"np.{word}({part})", f"{part}.{word}()")))
            if word != "mean":
                return made
            if summed("", a) is None:
                return None
            dtype = a.dtype if a.kind == "float" else "float64"
            return valued(f"np.floor({made.text})", dtype, a.value.low - 1, a.value.high)
        case "doubled" if a.kind != "bool" and fits(replace(a.value, high=2 * a.value.high, low=2 * a.value.low)):
            return summed(f"np.sum({part} * 2)", a, (), 2 * a.most)
        case "any":
            return valued(f"np.{choices.pick(('any', 'all'))}({part})", "bool", 0, 1)
        case "size":
            return valued(f"{part}.size", "weak", 0, a.most)
        case "len":
            return valued(f"len({part})", "weak", 0, a.most)
        case _:
            return valued(f"np.count_nonzero({choices.pick((part, mask_of(choices, a)))})", "weak", 0, a.most)


def _imaginary(choices: Choices, a: Whole) -> Whole | None:
    """Sums of complex numbers."""
    if not a.shape or a.kind == "bool":
        return None
    made = summed(f"np.sum({a.inner} * 1j).imag", a)
    if made is not None and choices.maybe(50):
        most = 5 * a.value.magnitude**2 * a.most
        text = f"np.sum(({a.inner} * (1 + 2j)) * np.conj({a.inner} * (1 + 2j))).real"
        made = replace(made, value=replace(made.value, text=text, low=0, high=most, grain=2 * a.value.grain))
    if made is None:
        return None
    dtype = "float32" if a.dtype == "float32" else "float64"
    made = valued(made.text, dtype, made.value.low, made.value.high, made.value.grain)
    return made if fits(made.value) else None


OF_SELECTED: tuple[Word, ...] = (_selected, _selected, _imaginary, _imaginary)


# --- arrays of one ---


def _gathered(choices: Choices, a: Whole) -> Whole | None:
    """``a[np.array([0, -1, 0])]``."""
    if not a.shape:
        return None
    axis = choices.integer(0, min(1, len(a.shape) - 1))
    index = new_index(choices, a.shape[axis].least, len(a.shape[0].sizes))
    return None if index is None else _taken(choices, a, index, axis)


def _taken(choices: Choices, a: Whole, index: Whole, axis: int) -> Whole:
    shape = (*a.shape[:axis], *index.shape, *a.shape[axis + 1 :])
    if choices.maybe(25):
        return a.moved(f"np.take({a.text}, {index.text}, axis={axis})", *shape)
    return a.moved(f"{a.inner}[{':, ' * axis}{index.text}]", *shape)


def _clipped(choices: Choices, a: Whole) -> Whole | None:
    if a.kind == "bool" or not a.shape:
        return None
    low, high = (0 if a.dtype in UNSIGNED else choices.integer(-3, 0)), choices.integer(1, 5)
    value = replace(a.value, text=f"{a.inner}.clip({low}, {high})", low=low, high=high, atom=True)
    return replace(a.moved("", *a.shape), value=value)


def _selecting(choices: Choices, a: Whole) -> Whole | None:
    """``np.select``."""
    if a.kind == "bool" or not a.shape or len(a.text) > _SHORT or a.dtype in UNSIGNED:
        return None
    tests = f"{mask_of(choices, a)}, {mask_of(choices, a)}"
    cases, default = f"{a.text}, -{a.inner}", choices.integer(0, 3)
    text = f"np.select([{tests}], [{cases}], {default})"
    top = max(a.value.magnitude, default)
    made = valued(text, a.dtype, -top, top, a.value.grain, a.shape)
    return made if fits(made.value) else None


def _edges(choices: Choices) -> tuple[str, int]:
    edges = sorted({choices.integer(-4, 9) for _ in range(4)} | {-5})
    return f"np.array({edges}{choices.pick(('', ', np.float64'))})", len(edges)


def _bins(choices: Choices, a: Whole) -> Whole | None:
    """Counts, and places between edges."""
    if len(a.shape) != 1 or a.kind == "bool":
        return None
    calls = len(a.shape[0].sizes)
    n = choices.pick((4, 2, 8))
    match choices.pick(("histogram", "edges", "bincount", "digitize")):
        case "bincount" if a.dtype != "uint64":
            index = index_of(choices, a, n)
            if index is None or index.value.low < 0:
                return None
            return valued(f"np.bincount({index.text}, minlength={n})", "int64", 0, a.most, 0, (Dim((n,) * calls),))
        case "digitize":
            edges, count = _edges(choices)
            right = choices.pick(("", ", right=True"))
            return valued(f"np.digitize({a.text}, {edges}{right})", "int64", 0, count, 0, a.shape)
        case "edges":
            edges, count = _edges(choices)
            return valued(f"np.histogram({a.text}, {edges})[0]", "int64", 0, a.most, 0, (Dim((count - 1,) * calls),))
        case "histogram" if a.dtype not in ("float32", "uint64"):
            return valued(f"np.histogram({a.text}, {n})[0]", "int64", 0, a.most, 0, (Dim((n,) * calls),))
    return None


SELECTING: tuple[Word, ...] = (*(_gathered,) * 3, _clipped, *(_selecting,) * 2, *(_bins,) * 3)


# --- arrays of two ---


def _indexed(choices: Choices, a: Whole, b: Whole) -> Whole | None:
    """``a[b]``, with the values of one array as indices of the other."""
    if not a.shape or not b.shape:
        return None
    axis = choices.integer(0, min(1, len(a.shape) - 1))
    index = index_of(choices, b, a.shape[axis].least)
    if index is None:
        return None
    if len(a.shape) != 2 or len(b.shape) != 1 or choices.maybe(50):
        return _taken(choices, a, index, axis)
    other = index_of(choices, b, a.shape[1 - axis].least)
    if other is None:
        return None
    first, second = (index, other) if axis == 0 else (other, index)
    if choices.maybe(40):
        return a.moved(f"{a.inner}[{first.inner}[:, None], {second.text}]", b.shape[0], b.shape[0])
    return a.moved(f"{a.inner}[{first.text}, {choices.pick((second.text, '0', '-1'))}]", *b.shape)


def _weighted(choices: Choices, a: Whole, b: Whole) -> Whole | None:
    """``np.bincount(a, weights=b)``."""
    if len(a.shape) != 1 or a.shape != b.shape or b.kind == "bool" or a.dtype == "uint64" or a.kind != "int" or a.empty:
        return None
    index, n = index_of(choices, a, 4), 4
    if index is None or index.value.low < 0:
        return None
    made = summed(
        f"np.bincount({index.text}, weights={b.text}, minlength={n})", b, (Dim((n,) * len(a.shape[0].sizes)),), b.most
    )
    return None if made is None else valued(made.text, "float64", made.value.low, made.value.high, b.value.grain, made.shape)


def _where_true(choices: Choices, a: Whole, b: Whole) -> Whole | None:
    dtype = joined(a, b)
    if a.shape != b.shape or not a.shape or not dtype or len(a.text) > _SHORT:
        return None
    return both(f"np.where({mask_of(choices, a)}, {a.text}, {b.text})", a, b, dtype, a.shape)


SELECTED_BY: tuple[Pair, ...] = (*(_indexed,) * 4, _weighted, _where_true)
