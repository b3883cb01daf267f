"""What a name in a kernel stands for, known before anything runs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from qgraph.ir.argument_types import ArrayType, Leaf, StructType, Type
from qgraph.ir.slots import Slot
from qgraph.records import dataclass
from qgraph.source import Span


@dataclass(frozen=True, slots=True)
class LeafRef:
    """An array or scalar argument, or a field of one."""

    leaf: Leaf

    @property
    def is_array(self) -> bool:
        """Whether the leaf is an array."""
        return isinstance(self.leaf.type, ArrayType)


@dataclass(frozen=True, slots=True)
class StructRef:
    """A tuple, named tuple or dataclass argument; ``children`` by field name or index text."""

    type: StructType
    path: str
    children: Mapping[str, Binding]


@dataclass(frozen=True, slots=True)
class Value:
    """A Python object known at compile time: a constant, a function, a module."""

    value: object


@dataclass(frozen=True, slots=True)
class BoundFunc:
    """A func found on the class of an argument, or of a constant: ``state.update``."""

    function: object
    owner: StructRef | Value


@dataclass(frozen=True, slots=True, eq=False)
class HostExpr:
    """A kernel-level name for a number that the host computes: an expression over leaf names.

    ``name``: the host value that holds it; where there is none, bodies compute the expression themselves.
    """

    expr: ast.expr
    name: str = ""


@dataclass(frozen=True, slots=True)
class Extent:
    """An integer of a view. ``code`` has names that mean the same wherever the view is known.

    ``host``: the same over leaf names, or None where only the device knows it. ``bounds``: for the length of a slice of which
    only the device knows the bounds, these as written, and the size that they are clipped to.
    """

    code: ast.expr
    host: ast.expr | None
    bounds: tuple[str, Extent] | None = None

    @property
    def constant(self) -> int | None:
        """Its value, if that is known now."""
        return self.code.value if isinstance(self.code, ast.Constant) and isinstance(self.code.value, int) else None

    @property
    def is_one(self) -> bool:
        """Whether it is surely 1."""
        return self.constant == 1 or (isinstance(self.host, ast.Constant) and self.host.value == 1)


@dataclass(frozen=True, slots=True, eq=False)
class ViewAxis:
    """A dimension of a view: ``count`` elements of dimension ``axis`` of the array, ``start`` first; axis -1 for a new one."""

    axis: int
    start: Extent
    step: Extent
    count: Extent


@dataclass(frozen=True, slots=True, eq=False)
class ViewRef:
    """Part of an array: ``fixed`` are indices by dimension of the array, ``along`` the dimensions that are left."""

    leaf: Leaf
    fixed: Mapping[int, ast.expr]
    along: tuple[ViewAxis, ...]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Some array of ``ndim`` dimensions: all that is asked before a call of a func is laid out."""

    ndim: int


@dataclass(frozen=True, slots=True, eq=False)
class RangeRef:
    """A named ``ndrange(...)`` (or range): its call, and the scope (a ``Scope``) that it was written in."""

    call: ast.Call
    scope: Any


@dataclass(frozen=True, slots=True)
class SlotRef:
    """The variable of a kernel-level serial loop: it lives in a scratch slot. ``natural``: it is never negative."""

    name: str
    slot: Slot
    natural: bool = False


@dataclass(frozen=True, slots=True)
class ScalarRef:
    """A kernel scalar: a number that kernel-level statements assign. ``name`` is how the generated code spells it."""

    name: str
    slot: Slot


@dataclass(frozen=True, slots=True)
class Inside:
    """What is in a tuple in which there are vectors: the shape of each element, () of what is no vector, or what is in it.

    ``fields``: the names of a named tuple's.
    """

    elements: tuple[tuple[int, ...] | Inside, ...]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Private:
    """A name that a task body assigns: private to one iteration. ``name`` is how the generated code spells it.

    ``array``: it is an array of this type, or a part of one; ``origin`` names that array, where it is known which it is.
    ``is_tuple``: it may be a tuple, and stand for several indices. ``vector``: the shape, where it is a vector or matrix;
    ``inside``: of a tuple in which there are such.
    ``rows_of``: the path of the argument whose last axes it has, where these are not in its type.
    """

    name: str
    array: ArrayType | None = None
    origin: str = ""
    is_tuple: bool = False
    vector: tuple[int, ...] = ()
    inside: Inside | None = None
    rows_of: str = ""


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A name that has no value here any more, and why.

    ``number``: it is a number wherever it has one. ``on_paths``: on some of the paths that lead here it has.
    """

    reason: str
    span: Span
    hint: str
    number: bool = True
    on_paths: bool = False


Binding = (
    LeafRef | StructRef | Value | BoundFunc | HostExpr | RangeRef | SlotRef | ScalarRef | Private | Poisoned | ViewRef | Ranked
)


def bind_type(path: str, type_: Type, leaves: Mapping[str, Leaf]) -> Binding:
    """The binding of an argument ``path`` of ``type_``; ``leaves`` by path."""
    if isinstance(type_, StructType):
        return StructRef(type_, path, {name: bind_type(part_of(path, name), each, leaves) for name, each in type_.fields})
    if hasattr(type_, "value"):
        return Value(type_.value)
    return LeafRef(leaves[path])


def part_of(text: str, key: str) -> str:
    """How a field or an element of ``text`` is written."""
    return f"{text}[{key}]" if key.isdigit() else f"{text}.{key}"


def is_known_number(bound: Binding | None) -> bool:
    """Whether a name stands for a number of the host: an argument, a constant, or what the host makes of such."""
    match bound:
        case LeafRef():
            return not bound.is_array
        case Value():
            return isinstance(bound.value, (bool, int, float, complex)) or hasattr(bound.value, "dtype")
        case _:
            return isinstance(bound, HostExpr)


def same(before: Binding | None, bound: Binding) -> bool:
    """Whether a name means what it meant."""
    if isinstance(before, Value) and isinstance(bound, Value):
        return before.value is bound.value
    return before == bound
