"""What a kernel does to arguments of which only types and shapes are known: which it writes, and what it returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from qgraph.dispatch.variant import Variant
from qgraph.errors import ArgumentError
from qgraph.hosts.parts import Parts
from qgraph.ir.argument_types import LengthOfOne
from qgraph.ir.program import HostValue, Program, Result
from qgraph.records import dataclass
from qgraph.runtime.values.array_view import ArrayView, Layout
from qgraph.runtime.values.host_values import HostScope


@dataclass(frozen=True, slots=True, eq=False)
class StandIn:
    """An array without elements, in the place of ``owner``; it is described as an array of qgraph's is.

    ``extents`` gives the shape when it is asked for: numbers, or what another library has for numbers that it keeps open.
    """

    owner: object
    extents: Callable[[], tuple[Any, ...]]
    dtype: numpy.dtype
    layout: Layout
    readonly: bool = False

    def __qgraph_view__(self) -> ArrayView:
        shape = self.extents()
        return ArrayView(0, shape, (0,) * len(shape), self.dtype, self.readonly, None, self, layout=self.layout)


class Meaning:
    """A kernel for arguments of some types.

    Attributes:
        program: what it is for them.
        written: the numbers of the leaves that it writes.
        returned: the leaves of the arrays that it makes for its caller.
        holds: tells whether what was compiled in is what it was.
    """

    def __init__(self, variant: Variant, host: str) -> None:
        program = self.program = variant.program
        _check(program, variant, host)
        self.holds = variant.holds
        self.written = tuple(sorted(variant.written_leaves))
        self.returned = tuple(each.leaf.name for each in program.returned)
        self._scope = HostScope(program)
        self._by_name = {value.name: value for value in program.host_values}

    def check_lengths(self, values: Sequence[Any]) -> None:
        """Look at lengths that must agree, which the shapes of what is returned rely on.

        Raises:
            LengthOfOne: some differ.
        """
        given = self._given(values)
        for value in self.program.host_values:
            if value.check == "length" and not self._value(value, given):
                told = self._scope.value(value.note, given)
                raise LengthOfOne(told, value.span, hint=value.text)

    def _given(self, values: Sequence[Any]) -> dict[str, Any]:
        views = [value.__qgraph_view__() if isinstance(value, StandIn) else value for value in values]
        return dict(zip((leaf.name for leaf in self.program.leaves), views, strict=True))

    def shapes(self, values: Sequence[Any]) -> list[tuple[tuple[Any, ...], numpy.dtype]]:
        """Shape and dtype of each array in ``returned``, for leaves of which arrays are ``StandIn``s."""
        given = self._given(values)
        found = []
        for each in self.program.returned:
            shape = tuple(self._value(self._by_name[name], given) for name in each.shape)
            found.append((shape, numpy.dtype(each.leaf.type.dtype)))
        return found

    def _value(self, value: HostValue, given: dict[str, Any]) -> Any:
        try:
            return self._scope.value(value.source, given)
        except (ArithmeticError, TypeError, ValueError, IndexError) as error:
            raise ArgumentError(
                f"`{value.text or value.source}` cannot be computed for these arguments: {error}", value.span
            ) from None

    def arrays_in(self, value: Any) -> dict[str, Any]:
        """The arrays of ``returned`` in the value of a call."""
        result = self.program.result
        return {} if result is None else dict(_arrays(result, value))


def _arrays(result: Result, value: Any) -> Iterator[tuple[str, Any]]:
    if result.leaf:
        yield result.leaf, value
    for item, each in zip(result.items, value if result.items else (), strict=True):
        yield from _arrays(item, each)


def meaning_of(kernel: Any, parts: Parts, items: Sequence[Any], host: str, known: dict[Any, Meaning]) -> Meaning:
    """What ``kernel`` does to arguments whose arrays are ``StandIn``s; remembered in ``known``, by their types.

    Raises:
        QGraphError: a call with such arguments is refused, or cannot be an operation of another library.
    """
    # Numbers that are open have any value in ``items``, and their own here.
    leaves = [item if isinstance(item, StandIn) else number for item, number in zip(items, parts.items, strict=True)]
    while True:
        values = parts.filled(items)
        _, found = kernel._described(values)
        meaning = known.get(found.types)
        if meaning is None or not meaning.holds():
            # Its program is that of any backend, but that the CPU refuses float16, which is told when it runs.
            variant, _ = kernel._describe_only(values, "cuda")
            meaning = known[variant.types] = Meaning(variant, host)
        try:
            meaning.check_lengths([leaves[place.index] for place in parts.places])
        except LengthOfOne as error:
            if kernel._ones:
                raise ArgumentError(error.found, error.span, hint=error.hint) from None
            # As a call would be: compiled for the extents that are 1, which are repeated.
            kernel._add_ones()
        else:
            return meaning


def changed_since(kernel: Any, meaning: Meaning, host: str, hint: str) -> ArgumentError:
    """What to raise where what was compiled in, of the kernel's surroundings, is another thing now: shapes may be others."""
    return ArgumentError(
        f"something that `{kernel.__name__}` has of its surroundings is another thing than when {host} looked at it",
        meaning.program.span,
        hint=f"{hint}, or pass it as an argument",
    )


def _check(program: Program, variant: Variant, host: str) -> None:
    if variant.global_arrays:
        path = variant.global_arrays[0].path
        raise ArgumentError(
            f"the kernel uses the global array `{path}`, of which {host} would not know",
            program.span,
            hint="pass it as an argument",
        )
    result = program.result
    if result is not None and any(result.slots()):
        raise ArgumentError(
            f"the kernel returns a number, which an operation of {host} cannot: it would wait for the device",
            program.span,
            hint="write the number into an array of one element, and return that or pass it",
        )
    if result is not None and not _is_plain(result):
        raise ArgumentError(
            f"the kernel returns a dataclass, which an operation of {host} cannot", program.span, hint="return a tuple"
        )
    if not variant.written_leaves and not program.returned:
        raise ArgumentError(
            f"the kernel changes no argument and makes no array, so that {host} would leave it out",
            program.span,
            hint="call it outside",
        )
    if program.returned and not variant.arrays:
        raise ArgumentError(
            f"the kernel has no argument that is an array, and {host} would not know where what it returns lies",
            program.span,
            hint="pass an array, and fill that",
        )


def _is_plain(result: Result) -> bool:
    return not dataclasses.is_dataclass(result.cls) and all(map(_is_plain, result.items))
