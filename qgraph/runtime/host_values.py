"""The integers that the host computes before a launch: extents, starts, steps and limits, from shapes and scalars."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from qgraph.errors import ArgumentError
from qgraph.program import HostValue, Program

_INT64 = 1 << 63
_ACCEPT = "__qgraph_accept__"
# What else an integer must satisfy, by ``HostValue.check``.
_MORE = {
    "size": " and {0} >= 0",
    "": "",
    "step": " and {} != 0",
    "shape": " and {} != 0",
    "same": " and {} == 1",
    "max_iter": " and {} >= 1",
}


class _ShapesDifferError(Exception):
    """A check of shapes has failed: its message needs the arguments."""

    def __init__(self, value: HostValue) -> None:
        super().__init__(value.name)
        self.value = value


class HostValues:
    """All host values of a program as one compiled function of a call's values."""

    def __init__(self, program: Program) -> None:
        self._values = program.host_values
        names = [leaf.name for leaf in program.leaves]
        results = ", ".join(value.source for value in program.host_values)
        source = f"lambda {', '.join(names)}: {_ACCEPT}({results})"
        scope: dict[str, object] = {"__builtins__": builtins, **program.host_names, _ACCEPT: self._accepting()}
        self._function: Callable[..., tuple[int, ...]] = eval(source, scope)

    def of(self, values: Sequence[object]) -> tuple[int, ...]:
        """The integers for the values of one call, in the order of ``program.host_values``.

        Raises:
            ArgumentError: a bound is no integer or does not fit 64 bits, a step is 0, a limit is below 1.
        """
        try:
            return self._function(*values)
        except _ShapesDifferError as error:
            raise ArgumentError(self._note(error.value, values), error.value.span, hint=error.value.text) from None
        except (ArithmeticError, TypeError, ValueError, IndexError):
            self._explain(values)
            raise

    def _accepting(self) -> Callable[..., tuple[int, ...]]:
        """A function that takes the results and gives them as a tuple, checked in one condition; a slow look tells why not."""
        names = [f"h{index}" for index in range(len(self._values))]
        conditions = [
            f"type({name}) is int and {-_INT64} <= {name} < {_INT64}{_MORE[value.check].format(name)}"
            for name, value in zip(names, self._values, strict=True)
        ]
        results = "".join(f"{name}, " for name in names)
        accepted = f"({results}) if {' and '.join(conditions) or True} else look(({results}))"
        function: Callable[..., tuple[int, ...]] = eval(f"lambda {results}: {accepted}", {"look": self._look})
        return function

    def _look(self, results: tuple[Any, ...]) -> tuple[int, ...]:
        return tuple(_checked(value, result) for value, result in zip(self._values, results, strict=True))

    def _note(self, value: HostValue, values: Sequence[object]) -> str:
        names = self._function.__code__.co_varnames[: self._function.__code__.co_argcount]
        return str(eval(value.note, self._function.__globals__, dict(zip(names, values, strict=True))))

    def _explain(self, values: Sequence[object]) -> None:
        """Find which value failed, and say so at its place."""
        scope = self._function.__globals__
        names = self._function.__code__.co_varnames[: self._function.__code__.co_argcount]
        for value in self._values:
            try:
                eval(value.source, scope, dict(zip(names, values, strict=True)))
            except (ArithmeticError, TypeError, ValueError, IndexError) as error:
                if value.source.startswith("len(range(") and "arg 3 must not be zero" in str(error):
                    raise _zero_step(value) from None
                if isinstance(error, ZeroDivisionError):
                    raise ArgumentError(
                        f"`{value.text or value.source}` cannot be computed for these arguments: {error}",
                        value.span,
                        hint="give it a divisor other than 0",
                    ) from None
                if "slice(" in value.source and "zero" in str(error):
                    hint = "a slice needs a step other than 0"
                    raise ArgumentError(f"the step of `{value.text}` is 0", value.span, hint=hint) from None
                raise ArgumentError(
                    f"`{value.text or value.source}` cannot be computed for these arguments: {error}",
                    value.span,
                    hint="the bounds of a range are integers",
                ) from None


def _checked(value: HostValue, result: Any) -> int:
    try:
        number = result.__index__()
    except AttributeError:
        raise ArgumentError(
            f"`{value.text or value.source}` is {result!r}, which is not an integer",
            value.span,
            hint="the bounds of a range are integers; write int(...) or // where a float would come out",
        ) from None
    if not -_INT64 <= number < _INT64:
        raise ArgumentError(
            f"`{value.text or value.source}` is {number}, which does not fit 64 bits",
            value.span,
            hint="the bounds of a range are integers of 64 bits",
        )
    if value.check == "step" and number == 0:
        raise _zero_step(value)
    if value.check == "shape" and number == 0:
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
