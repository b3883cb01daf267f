"""What is known of values in bodies before types are: which are vectors, and where there are some in tuples."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from qgraph.frontend.names.bindings import Binding, Inside, Private, StructRef, Value
from qgraph.operations import vectors
from qgraph.operations.vectors import Components, Shape

# The shape of a vector or matrix, what is in a tuple that has some, or () of anything else.
Kind = Shape | Inside


def shape_of_binding(bound: Binding | None) -> Shape | None:
    """The shape of the vector or matrix that a name stands for; None where it stands for anything else."""
    match bound:
        case Private(vector=shape):
            return shape or None
        case StructRef() if issubclass(bound.type.cls, Components):
            return bound.type.cls.shape_
        case Value(value=value):
            return vectors.shape_of(value)
    return None


def kind_of_binding(bound: Binding) -> Kind:
    """What a name stands for."""
    if isinstance(bound, Private) and bound.inside is not None:
        return bound.inside
    shape = shape_of_binding(bound)
    if shape is None and isinstance(bound, StructRef) and issubclass(bound.type.cls, tuple):
        return kind_of_tuple(map(kind_of_binding, bound.children.values()), tuple(bound.children))
    return shape or ()


def kind_of_tuple(elements: Iterable[Kind], fields: tuple[str, ...] = ()) -> Kind:
    """That of a tuple with elements of these kinds."""
    found = tuple(elements)
    return Inside(found, fields) if any(found) else ()


def joined(kind: Kind, other: Kind) -> Kind:
    """That of a value which is of one or the other."""
    if isinstance(kind, Inside) and isinstance(other, Inside) and len(kind.elements) == len(other.elements):
        return Inside(tuple(map(joined, kind.elements, other.elements)), kind.fields or other.fields)
    return kind or other


def part_of_kind(kind: Kind, key: int | str) -> Kind:
    """That of an element or a field of what has this one."""
    if not isinstance(kind, Inside):
        return kind[1:] if isinstance(key, int) else ()
    if isinstance(key, str):
        return kind.elements[kind.fields.index(key)] if key in kind.fields else ()
    return kind.elements[key] if -len(kind.elements) <= key < len(kind.elements) else ()


def unpacked(target: ast.expr, kind: Kind) -> Iterator[tuple[ast.expr, Kind]]:
    """The places that a value is assigned to, with what each gets."""
    if isinstance(target, ast.Tuple):
        for k, each in enumerate(target.elts):
            yield from unpacked(each, part_of_kind(kind, k))
    else:
        yield target, kind


def given(bound: Private, kind: Kind) -> Private:
    """A name that now has a value of this kind."""
    inside = kind if isinstance(kind, Inside) else None
    is_tuple = inside is not None or bound.inside is not None
    return Private(bound.name, None, bound.origin, is_tuple, () if isinstance(kind, Inside) else kind, inside, bound.rows_of)
