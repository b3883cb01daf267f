"""Device functions: ``@qgraph.func`` functions of numbers, written when an expression first calls one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.properties.scope import Scope
from tests.properties.values import Kind, Value, call, named, promoted

if TYPE_CHECKING:
    from tests.properties.expressions import Expressions


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    parameters: tuple[Value, ...]
    result: Value

    def takes(self, arguments: list[Value]) -> bool:
        """Whether it was written for such arguments."""
        return len(arguments) == len(self.parameters) and all(map(_covers, self.parameters, arguments))


class Functions:
    """The functions of a program. ``sources`` are in an order in which each is defined before its callers."""

    def __init__(self) -> None:
        self.sources: list[list[str]] = []
        self._known: list[_Function] = []
        self._open = 0
        self._names = 0

    def call(self, expressions: Expressions, kind: Kind, arguments: list[Value]) -> Value | None:
        """A call of a function that gives a value of a kind; None where functions nest too deep already."""
        known = [function for function in self._known if function.result.kind == kind and function.takes(arguments)]
        if known and expressions.choices.maybe(70):
            function = known[0]
        elif self._open < 2 and len(self._known) < 4:
            function = self._written(expressions, kind, arguments)
        else:
            return None
        return replace(function.result, text=call(function.name, *arguments), atom=True)

    def element(self, axes: int) -> str:
        """The name of a function of an array and its indices, which gives the element."""
        name = f"e{axes}"
        indices = ", ".join(f"i{axis}" for axis in range(axes))
        source = ["@qgraph.func", f"def {name}(v, {indices}):", f"    return v[{indices}]"]
        if source not in self.sources:
            self.sources.append(source)
        return name

    def _written(self, expressions: Expressions, kind: Kind, arguments: list[Value]) -> _Function:
        self._names += 1
        name = f"f{self._names}"
        self._open += 1
        parameters = tuple(named(f"p{self._names}_{at}", argument) for at, argument in enumerate(arguments))
        result = expressions.of(kind, Scope(parameters), 2)
        head = [f"def {name}({', '.join(parameter.text for parameter in parameters)}):"]
        if expressions.choices.maybe(25):
            test = expressions.boolean(Scope(parameters), 1)
            other = expressions.of(kind, Scope(parameters), 1)
            if kind == "int" and not promoted(result.dtypes, other.dtypes):
                # Numbers that no type of integers holds.
                other = result
            head += [f"    if {test.text}:", f"        return {other.text}"]
            low, high = min(result.low, other.low), max(result.high, other.high)
            text, grain = result.text, max(result.grain, other.grain)
            result = Value(text, kind, low, high, result.dtypes | other.dtypes, grain)
        self._open -= 1
        self.sources.append(["@qgraph.func", *head, f"    return {result.text}"])
        function = _Function(name, parameters, result)
        self._known.append(function)
        return function


def _covers(parameter: Value, argument: Value) -> bool:
    if parameter.kind != argument.kind or parameter.grain < argument.grain:
        return False
    return parameter.low <= argument.low and argument.high <= parameter.high and argument.dtypes <= parameter.dtypes
