"""What a kernel returns: numbers read out of its scratch, as Python's own, and put into tuples and dataclasses."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from qgraph.ir.program import Result
from qgraph.ir.slots import WORD, Slot
from qgraph.runtime.values.struct_formats import FORMATS

Numbers = tuple[Any, ...]
# Anything with the buffer protocol.
Memory = Any


class ResultReader:
    """Knows where in scratch the numbers of ``result`` lie, and their types.

    Attributes:
        first: the first 8-byte word that must be read.
        words: how many, from there on.
    """

    __slots__ = ("_places", "first", "words")

    def __init__(self, result: Result, dtypes: Mapping[str, str]) -> None:
        slots = list(result.slots())
        self.first = min((slot.index for slot in slots), default=0)
        self.words = max((slot.index + slot.words for slot in slots), default=0) - self.first
        self._places = [(_decoder(slot.dtype or dtypes[slot.name]), slot.index * WORD) for slot in slots]

    def read(self, memory: Memory, word: int = 0) -> Numbers:
        """The numbers, in order, from ``memory``, which starts with word number ``word`` of scratch."""
        skipped = word * WORD
        return tuple([decode(memory, place - skipped) for decode, place in self._places])


def reader_of(dtypes: Mapping[str, str]) -> Callable[[Sequence[Slot]], ResultReader]:
    """What makes readers of slots, of these types."""
    return lambda slots: ResultReader(Result(items=tuple(Result(slot) for slot in slots)), dtypes)


def _decoder(dtype: str) -> Callable[[Memory, int], Any]:
    form = FORMATS[dtype]
    unpack = struct.Struct("=" + form).unpack_from
    if len(form) == 2:
        return lambda memory, place: complex(*unpack(memory, place))
    return lambda memory, place: unpack(memory, place)[0]


def assembler(result: Result | None) -> Callable[[Numbers | None], Any]:
    """What makes the value of a call out of its numbers: a number, or tuples, named tuples and dataclasses of numbers."""
    if result is None:
        return lambda numbers: None
    if result.slot is not None:
        return lambda numbers: None if numbers is None else numbers[0]
    return lambda numbers: None if numbers is None else _assemble(result, iter(numbers))


def with_arrays(result: Result, numbers: Numbers | None, arrays: Mapping[str, Any]) -> Any:
    """The value of a call that returns arrays, which are given by their leaves; numbers as for ``assembler``."""
    return _assemble(result, iter(numbers or ()), arrays)


def _assemble(result: Result, numbers: Iterator[Any], arrays: Mapping[str, Any] | None = None) -> Any:
    cls = result.cls
    if arrays is not None and result.leaf:
        return arrays[result.leaf]
    if cls is None:
        return next(numbers)
    items = [_assemble(item, numbers, arrays) for item in result.items]
    if cls is tuple:
        return tuple(items)
    if dataclasses.is_dataclass(cls):
        names = (field.name for field in dataclasses.fields(cls) if field.init)
        return cls(**dict(zip(names, items, strict=True)))
    return cls(*items)
