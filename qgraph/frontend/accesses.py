"""What a parallel loop touches: the loop after name resolution, and its accesses with their indices as symbolic integers.

``walk.py`` collects them, ``races.py`` judges them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from qgraph.frontend.affine import Poly
from qgraph.frontend.symbolic import Index
from qgraph.source import Span


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the loop as written: ``for variable in range(start, stop, step)``."""

    variable: str
    start: ast.expr
    stop: ast.expr
    step: ast.expr


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
        most: numbers that values of the host never exceed, by name.
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
    most: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Variable:
    """A loop variable: ``start + step * t`` for t = 0, 1, ... before ``stop``; ``stop`` None: not known."""

    symbol: str
    start: Poly
    stop: Poly | None
    step: Poly


Kind = Literal["read", "write", "update", "atomic"]


@dataclass(frozen=True, slots=True)
class Access:
    """One place that touches an array.

    ``indices``: one a dimension (an integer, ``Dim``, or None for an unknown integer); None: anywhere. ``guarded``: it may not
    happen. ``node``: the statement for an update, else the expression. ``loops``: the inner loops around it, outermost first.
    ``facts``: polynomials that are at least zero whenever it happens. ``call``: where the body calls the function it is in.
    ``discarded``: nothing takes what an atomic returns.
    """

    array: str
    kind: Kind
    operator: str
    indices: tuple[Index, ...] | None
    guarded: bool
    node: ast.AST
    span: Span
    text: str
    loops: tuple[Variable, ...] = ()
    facts: tuple[Poly, ...] = ()
    call: Span | None = None
    discarded: bool = False

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
    """What a loop touches, and its axes as variables; ``starts``: the number of the first access of each statement.

    ``most``: numbers that extents never exceed, by symbol.
    """

    variables: tuple[Variable, ...]
    all: tuple[Access, ...]
    starts: tuple[int, ...]
    most: Mapping[str, int]

    @cached_property
    def reads(self) -> frozenset[str]:
        """Leaves that are read; what an update or an atomic touches is read as well."""
        return frozenset(access.array for access in self.all if access.kind != "write")

    @cached_property
    def written(self) -> frozenset[str]:
        """Leaves that may be written."""
        return frozenset(access.array for access in self.all if access.writes)
