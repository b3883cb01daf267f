"""Whole random programs of arrays: a strategy that draws a kernel's source and the arguments of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.properties.arguments import Argument, ArrayArgument, NumberArgument, draw_arrays, draw_extents
from tests.properties.choices import Choices
from tests.properties.features import Features
from tests.properties.programs import CALLS, Program, occurs
from tests.properties.state import State, indented
from tests.properties.values import WEAK, Value
from tests.properties.whole.expressions import CHANGING, Scope
from tests.properties.whole.statements import Place, Statements
from tests.properties.whole.values import Dim, Whole, nameable, valued


@st.composite
def array_programs(draw: Callable[[st.SearchStrategy[Any]], Any], features: Features) -> Program:
    """A program of five to fifteen statements, which returns arrays and numbers."""
    choices = Choices(draw)
    extents = draw_extents(choices, features, CALLS)
    arrays = draw_arrays(choices, features, extents, CALLS)
    numbers = [NumberArgument("a0", tuple(choices.integer(-3, 3) for _ in range(CALLS)))]
    sizes = [NumberArgument(f"size{extent.number}", extent.sizes) for extent in extents]
    statements = Statements(State(choices, features))
    lines, scope = statements.block(Place(_scope(arrays, numbers, extents)), 5, 15)
    lines.append(f"return {', '.join(_results(statements, scope))}")
    arguments: list[Argument] = [*arrays, *numbers, *sizes]
    used = tuple(argument for argument in arguments if occurs(_name(argument), lines))
    functions = ["\n".join(source) + "\n\n\n" for source in statements.sources]
    called = "".join([*functions, *lines])
    functions[:0] = [f"{source}\n\n" for name, source in CHANGING.items() if f"{name}(" in called]
    header = f"def program({', '.join(_name(argument) for argument in used)}):"
    source = "\n".join(
        ["import math\n\nimport numpy as np\nimport qgraph\n\n\n" + "".join(functions) + header, *indented(lines), ""]
    )
    return Program(source, used, choices.integer(0, 99), real=False)


def _results(statements: Statements, scope: Scope) -> list[str]:
    """Names of new arrays, of numbers, and expressions."""
    choices = statements.choices
    found: list[str] = []
    roots: set[str] = set()
    for _ in choices.some(1, 3, 60):
        arrays = [a for a in scope.arrays if a.alone and a.shape and a.root not in roots]
        numbers = [number for number in scope.numbers if number.text.startswith(("s", "r")) and number.text not in found]
        match choices.pick(("array", "array", "expression", "number")):
            case "array" if arrays:
                array = choices.pick(arrays)
                roots.add(array.root)
                found.append(array.text if choices.maybe(80) or len(array.shape) != 2 else f"{array.text}.T")
            case "number" if numbers:
                found.append(choices.pick(numbers).text)
            case _:
                made = nameable(statements.expressions.array(scope))
                found.append(made.moved(f"{made.inner}.copy()").text if made.root else made.text)
    return found


def _scope(arrays: list[ArrayArgument], numbers: list[NumberArgument], extents: list[Any]) -> Scope:
    wholes: list[Whole] = []
    sizes = [(f"size{extent.number}", Dim(extent.sizes)) for extent in extents]
    for argument in arrays:
        array = argument.array
        shape = tuple(Dim(extent.sizes, one=1 in extent.sizes) for extent in array.shape)
        low, high = (0, 31) if array.dtype.startswith("u") else (-31, 31)
        grain = 2 if array.dtype.startswith("float") else 0
        whole = valued(array.name, array.dtype, low, high, grain, shape)
        if array.dtype == "bool":
            whole = valued(array.name, "bool", 0, 1, 0, shape)
        wholes.append(replace(whole, root=f"m{array.memory}", writable=bool(shape)))
        sizes += [(f"{array.name}.shape[{axis}]", dim) for axis, dim in enumerate(shape)]
    sizes += [("3", Dim((3, 3))), ("2", Dim((2, 2)))]
    sizes += [(f"size{extent.number} + 1", Dim(tuple(size + 1 for size in extent.sizes))) for extent in extents]
    weak = [Whole(Value(number.name, "int", -3, 3, frozenset([WEAK]), atom=True), WEAK) for number in numbers]
    return Scope(tuple(wholes), tuple(weak), tuple(sizes))


def _name(argument: Argument) -> str:
    return argument.array.name if isinstance(argument, ArrayArgument) else argument.name
