"""The arguments of a random program: drawn as records, from which equal arrays can be made as often as they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tests.properties.choices import Choices
from tests.properties.features import Features
from tests.properties.scope import Array, Extent
from tests.properties.values import FLOATS, SIGNED, UNSIGNED, domain, kind_of

Layout = Literal["C", "step", "reverse", "F"]
_DTYPES = ("int64", "float64", "float32", "int32", "bool", *UNSIGNED, *SIGNED[2:])
_MOST_ELEMENTS = 1000


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array parameter. ``alias``: in which calls it shares memory with the first of its memory, shifted by ``shift``."""

    array: Array
    layout: Layout = "C"
    alias: tuple[bool, ...] = ()
    shift: int = 0


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """A number, by call; ``dtype`` is empty for a Python number."""

    name: str
    values: tuple[int | float | bool, ...]
    dtype: str = ""

    def value(self, call: int) -> Any:
        number = self.values[call]
        return np.dtype(self.dtype).type(number) if self.dtype else number


Argument = ArrayArgument | NumberArgument


def draw_extents(choices: Choices, features: Features, calls: int) -> list[Extent]:
    """The sizes of a program, with their values in each call."""
    return [Extent(number, tuple(choices.pick(features.extents) for _ in range(calls))) for number in range(2)]


def draw_arrays(choices: Choices, features: Features, extents: list[Extent], calls: int) -> list[ArrayArgument]:
    """One to four arrays, some of which share memory."""
    found: list[ArrayArgument] = []
    for number in choices.some(1, 4, 75):
        name = "xyzw"[number]
        partners = [a for a in found if a.layout == "C" and a.array.shape and a.array.memory == found.index(a)]
        if features.aliasing and partners and choices.maybe(25):
            first = choices.pick(partners)
            shift = choices.integer(0, 2) if len(first.array.shape) == 1 else 0
            array = Array(name, first.array.dtype, first.array.shape, first.array.memory)
            found.append(ArrayArgument(array, "C", tuple(choices.maybe(70) for _ in range(calls)), shift))
            continue
        if found and choices.maybe(35):
            dtype, shape = choices.pick(found).array.dtype, choices.pick(found).array.shape
        else:
            dtype, shape = choices.pick(_DTYPES), _shape(choices, extents)
        layout: Layout = "C"
        if features.layouts and shape and choices.maybe(15):
            layout = choices.pick(("step", "reverse", "F") if len(shape) > 1 else ("step", "reverse"))
        found.append(ArrayArgument(Array(name, dtype, shape, number), layout))
    return found


def _shape(choices: Choices, extents: list[Extent]) -> tuple[Extent, ...]:
    a, b = extents
    shapes = ((a,), (a,), (b,), (a, b), (), (a, a), (b, a), (a, b, a))
    return choices.pick([shape for shape in shapes if np.prod([e.most for e in shape], dtype=int) <= _MOST_ELEMENTS])


def make(arguments: tuple[Argument, ...], call: int, seed: int) -> list[Any]:
    """The values of one call; equal ones each time."""
    random = np.random.default_rng(seed * 7 + call)
    memories: dict[int, np.ndarray] = {}
    made: list[Any] = []
    for argument in arguments:
        if isinstance(argument, NumberArgument):
            made.append(argument.value(call))
            continue
        array = argument.array
        shape = tuple(extent.sizes[call] for extent in array.shape)
        if argument.alias and argument.alias[call] and array.memory in memories:
            base = memories[array.memory]
            size = shape[0]
            made.append(base[argument.shift : argument.shift + size] if argument.shift else base[:size].reshape(shape))
            continue
        # A vector has room for those that overlap it.
        room = _numbers(random, array.dtype, (shape[0] + 2,) if len(shape) == 1 else shape)
        memories.setdefault(array.memory, room)
        base = room[: shape[0]] if len(shape) == 1 else room
        made.append(_laid_out(base, argument.layout))
    return made


def _laid_out(base: np.ndarray, layout: Layout) -> np.ndarray:
    match layout:
        case "F":
            return np.asfortranarray(base)
        case "reverse":
            return base[::-1].copy()[::-1]
        case "step":
            room = np.zeros((*base.shape[:-1], base.shape[-1] * 2), base.dtype)
            room[..., ::2] = base
            return room[..., ::2]
        case _:
            return base


def _numbers(random: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "bool":
        return np.array(random.integers(0, 2, shape)).astype(bool)
    low, high = domain(dtype, spare=1)
    numbers = np.array(random.integers(max(low, -9), min(high, 9), shape))
    if kind_of(dtype) == "float":
        assert dtype in FLOATS
        return np.array(numbers / 4).astype(dtype)
    return numbers.astype(dtype)
