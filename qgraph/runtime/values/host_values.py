"""The integers that the host computes before a launch: extents, starts, steps and limits, from shapes and scalars."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from qgraph.errors import ArgumentError
from qgraph.ir.argument_types import ArrayType, LengthOfOne
from qgraph.ir.program import HostValue, Program, Task
from qgraph.ir.verdicts import refusal
from qgraph.runtime.values.race_warnings import is_told, tell
from qgraph.source import nodes_of

_INT64 = 1 << 63
# What a value must satisfy, by ``HostValue.check``: comparisons of extents are truth values.
_IS_INTEGER = f"type({{0}}) is __qgraph_int__ and {-_INT64} <= {{0}} < {_INT64}"
_CONDITIONS = {
    "": _IS_INTEGER,
    "size": f"{_IS_INTEGER} and {{0}} >= 0",
    "step": f"{_IS_INTEGER} and {{0}} != 0",
    "max_iter": f"{_IS_INTEGER} and {{0}} >= 1",
    "shape": "{0}",
    "length": "{0}",
    "same": "{0} == 1",
    "tiles": _IS_INTEGER,
}
_COMPARISONS = ("shape", "length", "same")


class _ShapesDifferError(Exception):
    """A check of shapes has failed: its message needs the arguments."""

    def __init__(self, value: HostValue) -> None:
        super().__init__(value.name)
        self.value = value


# What may go wrong while a value is computed, and what its check raises besides.
_FAILURES = (ArithmeticError, TypeError, ValueError, IndexError)
_ERRORS = (_ShapesDifferError, *_FAILURES)


class HostScope:
    """What expressions of the host mean: functions that they call are Python's, whatever arguments are called."""

    def __init__(self, program: Program) -> None:
        self._renamed = {leaf.name: f"__qgraph_{leaf.name}__" for leaf in program.leaves if hasattr(builtins, leaf.name)}
        functions = {new: getattr(builtins, name) for name, new in self._renamed.items()}
        self.names: dict[str, Any] = {"__builtins__": builtins, **functions, **program.host_names}

    def written(self, source: str) -> str:
        """The code of an expression, or of a function, in which such functions have names of their own."""
        if not self._renamed:
            return source
        tree = ast.parse(source)
        for node in nodes_of(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                node.func.id = self._renamed.get(node.func.id, node.func.id)
        return ast.unparse(tree)

    def value(self, source: str, given: Mapping[str, Any]) -> Any:
        """The value of an expression for the values of a call, by name."""
        return eval(self.written(source), self.names, given)


def integers_of(program: Program, values: Sequence[object]) -> dict[str, int]:
    """Those of a call's values that can be computed, by name, for whoever only looks: nothing is refused, and nothing told."""
    scope = HostScope(program)
    given = {leaf.name: value for leaf, value in zip(program.leaves, values, strict=True)}
    found = {}
    for value in program.host_values:
        with suppress(*_ERRORS):
            found[value.name] = int(scope.value(value.source, given))
    return found


class HostValues:
    """All host values of a program as one compiled function of a call's values."""

    def __init__(self, program: Program) -> None:
        self._values = program.host_values
        self._races = program.races
        self._assumed = [loop for loop in program.assumed if not is_told(loop)]
        # Of each of these, whether it was told.
        self._told = [False] * len(self._assumed)
        self._names = [leaf.name for leaf in program.leaves]
        self._asks_for_ones = any(isinstance(leaf.type, ArrayType) and leaf.type.ones is None for leaf in program.leaves)
        self._scope = HostScope(program)
        self.of: Callable[[Sequence[object]], tuple[int, ...]] = self._compiled()
        """The integers for the values of one call, in the order of ``program.host_values``.

        Raises:
            ArgumentError: a bound is no integer or does not fit 64 bits, a step is 0, a limit is below 1.
        """

    def meets_ones(self, values: Sequence[object]) -> bool:
        """Whether lengths differ that may be 1, so that a call compiles for the extents that are."""
        given = dict(zip(self._names, values, strict=True))
        with suppress(*_FAILURES):
            lengths = (each.source for each in self._values if each.check == "length")
            return self._asks_for_ones and not all(self._scope.value(source, given) for source in lengths)
        return False

    def _compiled(self) -> Callable[[Sequence[object]], tuple[int, ...]]:
        # One function, and one condition for all results: each call asks. A slow look tells why it does not hold.
        found = [f"__qgraph_{index}__" for index in range(len(self._values))]
        conditions = [_CONDITIONS[value.check].format(name) for name, value in zip(found, self._values, strict=True)]
        # Where a parallel loop surely is none the call is refused, and where it may be none that is told once.
        refused = [f"not ({condition})" for condition in dict.fromkeys(race.condition for race in self._races)]
        refused += [f"(__qgraph_told__[{at}] or not ({where_of(loop)}))" for at, loop in enumerate(self._assumed)]
        results, names = (f"({''.join(f'{name}, ' for name in each)})" for each in (found, self._names))
        lines = [
            "def __qgraph_of__(__qgraph_values__):",
            "    try:",
            f"        {names} = __qgraph_values__",
            *(f"        {name} = {value.source}" for name, value in zip(found, self._values, strict=True)),
            f"        if {' and '.join([*conditions, *refused]) or True}:",
            f"            return {results}",
            f"        return __qgraph_look__({results}, __qgraph_values__)",
            "    except __qgraph_errors__ as __qgraph_error__:",
            "        __qgraph_explain__(__qgraph_error__, __qgraph_values__)",
            "        raise",
        ]
        more = {
            "__qgraph_int__": int,
            "__qgraph_told__": self._told,
            "__qgraph_look__": self._look,
            "__qgraph_explain__": self._explain,
            "__qgraph_errors__": _ERRORS,
        }
        scope = {**self._scope.names, **more}
        # As if it stood in this package: a warning is the caller's.
        exec(compile(self._scope.written("\n".join(lines)), __file__, "exec"), scope)
        function: Callable[[Sequence[object]], tuple[int, ...]] = scope["__qgraph_of__"]
        return function

    def _look(self, results: tuple[Any, ...], values: Sequence[object]) -> tuple[int, ...]:
        found = tuple(_checked(value, result) for value, result in zip(self._values, results, strict=True))
        given = dict(zip(self._names, values, strict=True))
        for race in self._races:
            if self._scope.value(race.condition, given):
                raise refusal(race, {name: int(self._scope.value(source, given)) for name, source, _ in race.parameters})
        for at, loop in enumerate(self._assumed):
            if not self._told[at] and self._scope.value(where_of(loop), given):
                if not is_told(loop):
                    tell(loop)
                self._told[at] = True
        return found

    def _explain(self, error: Exception, values: Sequence[object]) -> None:
        """Find which value failed, and say so at its place."""
        given = dict(zip(self._names, values, strict=True))
        if isinstance(error, _ShapesDifferError):
            value = error.value
            again = value.check == "length" and self._asks_for_ones
            told = LengthOfOne if again else ArgumentError
            raise told(str(self._scope.value(value.note, given)), value.span, hint=value.text) from None
        for value in self._values:
            try:
                self._scope.value(value.source, given)
            except _FAILURES as failure:
                if value.source.startswith("len(range(") and "arg 3 must not be zero" in str(failure):
                    raise _zero_step(value) from None
                if isinstance(failure, ZeroDivisionError):
                    raise ArgumentError(
                        f"`{value.text or value.source}` cannot be computed for these arguments: {failure}",
                        value.span,
                        hint="give it a divisor other than 0",
                    ) from None
                if "negative shift count" in str(failure):
                    raise ArgumentError(
                        f"`{value.text or value.source}` shifts by a negative number",
                        value.span,
                        hint="shift the other way, or test the number first",
                    ) from None
                if "slice(" in value.source and "zero" in str(failure):
                    hint = "a slice needs a step other than 0"
                    raise ArgumentError(f"the step of `{value.text}` is 0", value.span, hint=hint) from None
                raise ArgumentError(
                    f"`{value.text or value.source}` cannot be computed for these arguments: {failure}",
                    value.span,
                    hint="bounds of ranges, sizes of arrays and the like are computed of the arguments before anything runs",
                ) from None


def where_of(loop: Task) -> str:
    """For which arguments there is doubt whether a loop may run in parallel."""
    assert loop.verdict is not None
    return loop.verdict.where


def _checked(value: HostValue, result: Any) -> int:
    if value.check in _COMPARISONS and isinstance(result, np.bool_):
        # Some length is NumPy's integer.
        result = bool(result)
    try:
        number = result.__index__()
    except AttributeError:
        raise ArgumentError(
            f"`{value.text or value.source}` is {result!r}, which is not an integer",
            value.span,
            hint="bounds of ranges, sizes and the like are integers; write int(...) or // where a float would come out",
        ) from None
    if not -_INT64 <= number < _INT64:
        raise ArgumentError(
            f"`{value.text or value.source}` is {number}, which does not fit 64 bits",
            value.span,
            hint="kernels compute with integers of 64 bits: make a factor a float where a product may be larger",
        )
    if value.check == "step" and number == 0:
        raise _zero_step(value)
    if value.check in ("shape", "length") and number == 0:
        raise _ShapesDifferError(value)
    if value.check == "same" and number != 1:
        raise ArgumentError(value.text, value.span, hint="pass arrays of one shape, or copy the elements in a loop")
    if value.check == "size" and number < 0:
        raise ArgumentError(f"the size `{value.text}` of a temporary is {number}", value.span, hint="a size is 0 or more")
    if value.check == "max_iter" and number < 1:
        raise ArgumentError(
            f"max_iter is {number}", value.span, hint="a do-while runs its body at least once; pass 1 or more, or None"
        )
    return int(number)


def _zero_step(value: HostValue) -> ArgumentError:
    return ArgumentError("the step of a range is 0", value.span, hint="range() needs a step other than 0")
