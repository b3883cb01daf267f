"""Whole arrays of a random program: what is known of one, and its arithmetic, which neither overflows nor rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tests.properties.choices import Choices
from tests.properties.values import FLOATS, UNSIGNED, WEAK, Kind, Value, binary, fits, kind_of, within

# What a name may hold, below 2 to this, as multiples of 2 to minus that.
NAMED_BITS = 6
NAMED_GRAIN = 3
MOST_ELEMENTS = 1200


@dataclass(frozen=True, slots=True)
class Dim:
    """An axis by its length in each call. ``one``: where that is 1 everybody sees it, so that it is repeated."""

    sizes: tuple[int, ...]
    one: bool = field(default=False, compare=False)

    @property
    def least(self) -> int:
        return min(self.sizes)

    def changed(self, change: Callable[[int], int]) -> Dim:
        return Dim(tuple(max(0, change(size)) for size in self.sizes))

    def part(self, bounds: slice) -> Dim:
        return self.changed(lambda size: len(range(size)[bounds]))

    def single(self) -> Dim:
        """An axis that is written with length 1, in as many calls."""
        return Dim((1,) * len(self.sizes), one=True)

    def repeats(self, other: Dim) -> bool:
        """Whether it is as long in each call, or repeated."""
        return (
            self == other or self.one and all(mine in (1, theirs) for mine, theirs in zip(self.sizes, other.sizes, strict=True))
        )

    def beside(self, other: Dim) -> Dim:
        """What both together are, of which one is repeated to the other."""
        sizes = tuple(theirs if mine == 1 else mine for mine, theirs in zip(self.sizes, other.sizes, strict=True))
        return Dim(sizes, self.one and other.one)


@dataclass(frozen=True, slots=True)
class Whole:
    """An array, or a number where it has no axes. ``dtype``: NumPy's, or ``weak`` of a Python number."""

    value: Value
    dtype: str
    shape: tuple[Dim, ...] = ()
    # The name whose memory it is a part of, or may be in NumPy.
    root: str = ""
    writable: bool = False
    # A name for an array of the kernel's own, which has no other: it may get another array in loops and branches.
    alone: bool = False

    @property
    def text(self) -> str:
        return self.value.text

    @property
    def inner(self) -> str:
        return self.value.inner

    @property
    def kind(self) -> Kind:
        return self.value.kind

    @property
    def most(self) -> int:
        """Elements of the largest call."""
        return max((product(sizes) for sizes in zip(*(dim.sizes for dim in self.shape), strict=True)), default=1)

    @property
    def empty(self) -> bool:
        """Whether it may have no elements."""
        return any(dim.least == 0 for dim in self.shape)

    def moved(self, text: str, *shape: Dim) -> Whole:
        """The same elements, or some of them, as another expression of its own memory."""
        return Whole(replace(self.value, text=text, atom=True), self.dtype, shape)

    def seen(self, text: str, *shape: Dim) -> Whole:
        """A part of it."""
        return replace(self.moved(text, *shape), root=self.root, writable=self.writable)


Word = Callable[[Choices, Whole], Whole | None]
Pair = Callable[[Choices, Whole, Whole], Whole | None]


def valued(text: str, dtype: str, low: int, high: int, grain: int = 0, shape: tuple[Dim, ...] = (), atom: bool = True) -> Whole:
    """An array or number of a type."""
    kind: Kind = "int" if dtype == WEAK else kind_of(dtype)
    return Whole(Value(text, kind, low, high, frozenset([dtype]) if kind == "int" else frozenset(), grain, atom), dtype, shape)


def joined(a: Whole, b: Whole) -> str:
    """The type of an operation on both, or "" where it is none that plain Python and kernels agree on."""
    if WEAK in (a.dtype, b.dtype):
        weak, other = (a, b) if a.dtype == WEAK else (b, a)
        if other.dtype == WEAK:
            return WEAK
        if weak.kind == "float" and other.kind != "float":
            return "float64"
        return "int64" if other.kind == "bool" else other.dtype
    found = np.result_type(a.dtype, b.dtype).name
    return found if found not in FLOATS or "float" in (a.kind, b.kind) else ""


def numeric(a: Whole, dtype: str) -> Value:
    """The value of a boolean as a number beside a type."""
    if a.kind != "bool":
        return a.value
    return replace(a.value, kind="int", low=0, high=1, dtypes=frozenset([dtype]))


def combined(operator: str, a: Whole, b: Whole, shape: tuple[Dim, ...]) -> Whole | None:
    """``a operator b``, or None."""
    dtype = joined(a, b)
    if not dtype or a.kind == b.kind == "bool":
        return None
    value = binary(operator, numeric(a, dtype), numeric(b, dtype))
    if value is None:
        first, second = (within(numeric(each, dtype), -8, 7) for each in (a, b))
        value = binary(operator, first, second)
    if value is None or (value.kind == "float") != (dtype in FLOATS or (dtype == WEAK and "float" in (a.kind, b.kind))):
        return None
    return Whole(value, dtype, shape)


def summed(text: str, a: Whole, shape: tuple[Dim, ...] = (), most: int | None = None) -> Whole | None:
    """The sum of at most so many elements, of NumPy's type."""
    value, count = numeric(a, "int64"), a.most if most is None else most
    dtype = a.dtype if a.kind == "float" else "uint64" if a.dtype in UNSIGNED else "int64"
    made = valued(text, dtype, min(0, value.low * count), max(0, value.high * count), value.grain, shape)
    return made if fits(made.value) else None


def both(text: str, a: Whole, b: Whole, dtype: str, shape: tuple[Dim, ...]) -> Whole | None:
    """What has elements of both."""
    if dtype == "bool":
        return valued(text, dtype, 0, 1, shape=shape)
    first, second = numeric(a, dtype), numeric(b, dtype)
    low, high = min(first.low, second.low), max(first.high, second.high)
    made = valued(text, dtype, low, high, max(first.grain, second.grain), shape)
    return made if fits(made.value) else None


def settled(a: Whole, low: int, high: int, grain: int = NAMED_GRAIN) -> Whole:
    """Within bounds."""
    return replace(a, value=within(a.value, low, high, grain))


def storable(a: Whole, dtype: str) -> tuple[int, int]:
    """The bounds of what a name with an array of a type holds."""
    if dtype == "bool":
        return 0, 1
    top = (1 << NAMED_BITS) - 1
    return (0 if dtype in UNSIGNED else -top), top


def nameable(a: Whole) -> Whole:
    """An array that may get a name."""
    return a if a.kind == "bool" else settled(a, *storable(a, a.dtype))


def sound(a: Whole) -> bool:
    """Whether plain Python, NumPy and kernels agree on it."""
    return a.most <= MOST_ELEMENTS and fits(a.value)


def product(sizes: tuple[int, ...]) -> int:
    """Elements of a shape."""
    return int(np.prod(sizes, dtype=int))
