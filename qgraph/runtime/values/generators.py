"""Generators of random numbers among the arguments of a call, which takes a step of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from qgraph.ir.argument_types import ConstantType, StructType, Type, names_its_fields


class Stepping(Protocol):
    """An object that is another one in each call. Its class says so by ``__qgraph_fields__``, the one part that it has."""

    def advance(self, steps: int = 1, /) -> int:
        """Take steps; gives the first one."""

    def key_of(self, step: int, /) -> int:
        """Its part, for a step."""

    def give_back(self, step: int, /) -> None:
        """The call that took ``step`` has raised."""


# For kernels that run as plain Python: the steps that they have taken, by the ids of generators.
TAKEN: ContextVar[Mapping[int, int]] = ContextVar("qgraph_taken", default={})  # noqa: B039 - nobody writes to it


def stepping_leaves(types: Iterable[tuple[str, Type]]) -> tuple[int, ...]:
    """Which leaves of arguments of these types are parts of generators."""
    found: list[int] = []
    _count(types, found, 0)
    return tuple(found)


def _count(types: Iterable[tuple[str, Type]], found: list[int], leaves: int) -> int:
    for _, kind in types:
        if isinstance(kind, StructType):
            if names_its_fields(kind.cls):
                found.append(leaves)
            leaves = _count(kind.fields, found, leaves)
        elif not isinstance(kind, ConstantType):
            leaves += 1
    return leaves


def with_steps(
    places: Sequence[int], values: tuple[Any, ...], leaves: tuple[Any, ...]
) -> tuple[Mapping[int, int], tuple[Any, ...]]:
    """The steps that a call takes, and its leaves, of which those at ``places`` are of these steps."""
    generators = tuple(_among(values))
    taken = take(generators)
    changed = list(leaves)
    for place, each in zip(places, generators, strict=True):
        changed[place] = each.key_of(taken[id(each)])
    return taken, tuple(changed)


def take(generators: Iterable[Stepping]) -> Mapping[int, int]:
    """Take a step of each; one that comes twice has one."""
    return {key: each.advance() for key, each in {id(each): each for each in generators}.items()}


def give_back(values: tuple[Any, ...], taken: Mapping[int, int]) -> None:
    """The call has raised."""
    for each in {id(each): each for each in _among(values)}.values():
        each.give_back(taken[id(each)])


@contextmanager
def as_plain_python(values: tuple[Any, ...]) -> Iterator[None]:
    """While this lasts, generators among ``values`` stay at the steps that are taken of them here."""
    taken = take(_among(values))
    token = TAKEN.set({**TAKEN.get(), **taken})
    try:
        yield
    except BaseException:
        give_back(values, taken)
        raise
    finally:
        TAKEN.reset(token)


def _among(values: Iterable[Any]) -> Iterator[Stepping]:
    for value in values:
        if names_its_fields(type(value)):
            yield value
        elif isinstance(value, tuple):
            yield from _among(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from _among(getattr(value, each.name, None) for each in dataclasses.fields(value))
