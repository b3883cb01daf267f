"""What a parallel loop touches: the loop after name resolution, and its accesses with their indices as symbolic integers.

``access_collector.py`` collects them, ``loop_verdict.py`` judges them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Literal

from qgraph.frontend.facts.abstract_values import Value
from qgraph.polyhedral.questions import Reach, Variable
from qgraph.polyhedral.symbolic_integers import Condition, Poly
from qgraph.records import dataclass
from qgraph.source import Span


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the loop as written: ``for variable in range(start, stop, step)``."""

    variable: str
    start: ast.expr
    stop: ast.expr
    step: ast.expr
    # Start, stop, step and the number of iterations, where the host knows them.
    bounds: tuple[Poly, ...] = ()


@dataclass(frozen=True)
class LoopFacts:
    """A parallel loop after name resolution.

    Args:
        axes: one for a ``range``, one for each axis of an ``ndrange``.
        body: its statements; array leaves are plain names, words are keys of ``names``.
        names: the globals of the body.
        ndim: the number of dimensions of each array leaf.
        same: leaf -> representative, for leaves that are the identical memory in this specialisation.
        paths: leaf -> how the user writes it, for messages.
        file: where the body was written.
        span: the loop's header.
        text: the iterable as the user wrote it, ``range(n)``.
        index_tuple: the variable that holds the tuple of all axes, or "".
        asserted: the author said ``parallel(...)``.
        integers: scalars and host values that are integers, as polynomials, by name; ``floats``: names of those that are none.
        narrow: the dtypes of those that are integers of NumPy's with fewer than 64 bits.
        sizes: the extents of each array leaf.
        serial: the variables of the serial loops around.
    """

    axes: tuple[Axis, ...]
    body: Sequence[ast.stmt]
    names: Mapping[str, object]
    ndim: Mapping[str, int]
    same: Mapping[str, str]
    paths: Mapping[str, str]
    file: str
    span: Span
    text: str
    index_tuple: str = ""
    asserted: bool = False
    integers: Mapping[str, Poly] = field(default_factory=dict)
    floats: frozenset[str] = frozenset()
    narrow: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, tuple[Poly, ...]] = field(default_factory=dict)
    serial: tuple[Variable, ...] = ()

    def memory(self, array: str) -> str:
        """The leaf that stands for all leaves of the same memory."""
        return self.same.get(array, array)

    def where_same(self, first: str, second: str) -> LoopFacts:
        """What is known where two leaves that stand for memory, each with all leaves of it, are one."""
        same = {array: first if memory == second else memory for array, memory in self.same.items()}
        return replace(self, same={**same, second: first})

    def extents(self, array: str) -> tuple[Poly, ...]:
        """The extents of an array: equal arrays have the same."""
        name = self.memory(array)
        known = self.sizes.get(name)
        return known or tuple(Poly.symbol(f"#{name}.shape[{dim}]", "size") for dim in range(self.ndim[array]))


Kind = Literal["read", "write", "update", "atomic"]


@dataclass(frozen=True, slots=True)
class Access:
    """One place that touches an array.

    ``node``: the statement for an update, else the expression. ``call``: where the body calls the function it is in.
    ``discarded``: nothing takes what an atomic returns. ``value``: what all iterations store, "" where that varies. ``region``:
    all elements of it may be touched, and none need be.
    """

    array: str
    kind: Kind
    operator: str
    reach: Reach
    node: ast.AST
    span: Span
    text: str
    call: Span | None = None
    discarded: bool = False
    value: str = ""
    region: bool = False

    @property
    def guarded(self) -> bool:
        """Whether it depends on data if it happens."""
        return self.reach.when.partly_known

    @property
    def in_function(self) -> bool:
        """Whether it is in the body of a function that the loop calls."""
        return self.call is not None

    @property
    def writes(self) -> bool:
        """Whether it may change the array."""
        return self.kind != "read"


@dataclass(frozen=True)
class Accesses:
    """What a loop touches, and its axes as variables; ``starts``: the number of the first access of each statement."""

    variables: tuple[Variable, ...]
    all: tuple[Access, ...]
    starts: tuple[int, ...]

    @cached_property
    def reads(self) -> frozenset[str]:
        """Leaves that are read; what an update or an atomic touches is read as well."""
        return frozenset(access.array for access in self.all if access.kind != "write")

    @cached_property
    def written(self) -> frozenset[str]:
        """Leaves that may be written."""
        return frozenset(access.array for access in self.all if access.writes)


@dataclass(slots=True)
class Frame:
    """The function that is being walked: its globals and its file; ``call`` is None in the loop itself."""

    names: Mapping[str, object]
    file: str
    call: Span | None
    locals: frozenset[str]
    loops: int
    # What it returns, and when.
    returned: list[tuple[Condition, Value]]
