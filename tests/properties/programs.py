"""Whole random programs: a strategy that draws a kernel's source and the arguments of its calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.properties.arguments import Argument, ArrayArgument, NumberArgument, draw_arrays, draw_extents
from tests.properties.choices import Choices
from tests.properties.features import Features
from tests.properties.regions import Place, Regions, extents_of, result_of
from tests.properties.scope import Array, Extent, Scope, Window
from tests.properties.state import State, indented
from tests.properties.values import GRAIN, WEAK, Value

CALLS = 2


@dataclass(frozen=True, slots=True)
class Program:
    """A module's source with the function ``program``, and what it is called with, ``calls`` times.

    ``may_fail``: plain Python may find that lengths differ, which then is what a backend has to say.
    """

    source: str
    arguments: tuple[Argument, ...]
    seed: int
    real: bool
    calls: int = CALLS
    may_fail: bool = False


@st.composite
def programs(draw: Callable[[st.SearchStrategy[Any]], Any], features: Features) -> Program:
    """A valid program, whose calls all end."""
    choices = Choices(draw)
    state = State(choices, features)
    extents = draw_extents(choices, features, CALLS)
    arrays = _movable(draw_arrays(choices, features, extents, CALLS))
    for argument in arrays:
        state.set_room(argument.array.room, argument.array.dtype)
    numbers = _numbers(choices)
    sizes = [NumberArgument(f"size{extent.number}", extent.sizes) for extent in extents]
    flags = _flags(choices) if features.do_while else ()
    arguments = (*arrays, *(ArrayArgument(flag) for flag in flags), *numbers, *sizes)
    regions = Regions(state, flags, frozenset(a.array.memory for a in arrays if a.shift))
    lines, place = regions.block(Place(_scope(arrays, numbers, extents)))
    if features.returns and features.scalars and choices.maybe(50):
        lines.append(f"return {result_of(place, regions)}")
    used = tuple(argument for argument in arguments if occurs(_name(argument), lines))
    return Program(_module(state, used, lines), used, choices.integer(0, 99), features.real, may_fail=state.may_fail)


def _movable(arrays: list[ArrayArgument]) -> list[ArrayArgument]:
    """Mark the arrays that may change places."""
    shared = [argument.array.memory for argument in arrays]
    alone = [argument.layout == "C" and shared.count(argument.array.memory) == 1 for argument in arrays]
    return [
        replace(argument, array=replace(argument.array, movable="argument")) if free else argument
        for argument, free in zip(arrays, alone, strict=True)
    ]


def _numbers(choices: Choices) -> list[NumberArgument]:
    found: list[NumberArgument] = []
    for number in choices.some(0, 2, 40):
        match choices.pick(("int", "float", "bool", "int32", "float32")):
            case "int":
                found.append(NumberArgument(f"a{number}", tuple(choices.integer(-8, 8) for _ in range(CALLS))))
            case "float":
                found.append(NumberArgument(f"a{number}", tuple(choices.integer(-8, 8) / 4 for _ in range(CALLS))))
            case "bool":
                found.append(NumberArgument(f"a{number}", tuple(choices.maybe(50) for _ in range(CALLS))))
            case dtype:
                found.append(NumberArgument(f"a{number}", tuple(choices.integer(-8, 8) for _ in range(CALLS)), dtype))
    return found


def _flags(choices: Choices) -> tuple[Array, ...]:
    one = Extent(9, (1,) * CALLS)
    return tuple(
        Array(name, choices.pick(("int64", "int32", "uint8")), choices.pick(((), (one,))), 20 + at, writable=False)
        for at, name in enumerate(("c", "d"))
    )


def _scope(arrays: list[ArrayArgument], numbers: list[NumberArgument], extents: list[Extent]) -> Scope:
    known = extents_of(argument.array for argument in arrays)
    known = {extent: (*texts, f"size{extent.number}") for extent, texts in known.items()}
    values = []
    for number in numbers:
        first = number.values[0]
        if isinstance(first, bool):
            values.append(Value(number.name, "bool", atom=True))
        elif isinstance(first, float) or number.dtype == "float32":
            values.append(Value(number.name, "float", -8, 8, grain=GRAIN, atom=True))
        else:
            values.append(Value(number.name, "int", -8, 8, frozenset([number.dtype or WEAK]), atom=True))
    return Scope(tuple(values), (), tuple(Window(argument.array) for argument in arrays), known)


def _module(state: State, arguments: tuple[Argument, ...], lines: list[str]) -> str:
    parameters = ", ".join(_name(argument) for argument in arguments)
    functions = ["\n".join(source) + "\n\n" for source in state.functions.sources]
    text = "\n".join([f"def program({parameters}):", *indented(lines)])
    imports = [
        line
        for line in ("import math\n", "import numpy as np\n")
        if re.search(rf"\b{line.split()[-1]}\.", text + str(functions))
    ]
    return "".join([*imports, "import qgraph\n\n\n", *(f"\n{f}" if at else f for at, f in enumerate(functions)), text, "\n"])


def occurs(name: str, lines: list[str]) -> bool:
    return any(re.search(rf"\b{name}\b", line) for line in lines)


def _name(argument: Argument) -> str:
    return argument.array.name if isinstance(argument, ArrayArgument) else argument.name
