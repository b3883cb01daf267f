"""One call of a compiled kernel, its arguments taken apart: what an executable launches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy

from qgraph.records import dataclass
from qgraph.runtime.values.array_view import ArrayView

Value = ArrayView | int | float | complex | bool | numpy.generic

# What a function for a repeated call returns where this call is another one; it has done nothing then.
CHANGED: Any = object()


def captures() -> bool:
    """Whether calls become nodes of somebody's graph now, of qgraph, PyTorch, CuPy or Warp; to ask loads no CUDA."""
    stream = sys.modules.get("qgraph.runtime.driver.stream")
    return stream is not None and bool(stream.captures())


@dataclass(frozen=True, slots=True, eq=False)
class ReplayCode:
    """Code of a repeated call, to be inlined into a generated function: a Python call costs as much as a short loop.

    Args:
        arrays: the arrays of the call that the code is given; it looks at them itself.
        names: what the names in the code stand for. They hold no array.
        statements: the code, from an expression for each of ``arrays``. It sets ``numbers`` to what a launch gives, or returns
            ``CHANGED``, and has done nothing, where those arrays are not what they were.
    """

    arrays: Sequence[Any]
    names: Mapping[str, Any]
    statements: Callable[[Sequence[str]], list[str]]

    def within(self, name: str, manager: object) -> ReplayCode:
        """The same inside of a context manager, which the code calls ``name``."""

        def statements(arrays: Sequence[str]) -> list[str]:
            return [f"with {name}:", *(f"    {line}" for line in self.statements(arrays))]

        return ReplayCode(self.arrays, {**self.names, name: manager}, statements)


@dataclass(slots=True, eq=False)
class Call:
    """The values of one call; nobody changes it.

    Args:
        values: one for each of ``program.leaves``, then of ``program.returned``, in their order.
        host: one for each of ``program.host_values``, in their order.
        stream: the stream's handle; 0 is the default stream.
        token: stands for these values, where the call may come back: an executable that ran this very call last need not
            compare them. It is held instead of the call, which owns the caller's arrays.
    """

    # Not frozen: a frozen dataclass takes twice as long to make, and every call with new arrays makes one.
    values: tuple[Value, ...]
    host: tuple[int, ...]
    stream: int = 0
    token: object = field(default=None, repr=False)

    def on(self, stream: int) -> Call:
        """The same call on another stream."""
        return Call(self.values, self.host, stream, self.token)

    def without_owners(self) -> Call:
        """The same call, holding addresses only, to be launched again by somebody who knows that the arrays are alive."""
        values = tuple(value.bare() if isinstance(value, ArrayView) else value for value in self.values)
        return Call(values, self.host, self.stream, self.token or object())
