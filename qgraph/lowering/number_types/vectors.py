"""Vectors and matrices as types: named tuples of one type, whose operations are functions of their components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qgraph.lowering.number_types.number_llvm import types
from qgraph.operations import intrinsics, vectors
from qgraph.operations.table import operation
from qgraph.operations.vectors import Components, Shape

_METHODS = {
    **{id(function): name for name, function in vectors.METHODS.items()},
    id(vectors.transposed): "T",
    id(vectors.matmul): "@",
}


def shape_of(kind: Any) -> Shape | None:
    """The shape of a vector or matrix; None of any other type."""
    if isinstance(kind, types.BaseNamedTuple) and issubclass(kind.instance_class, Components):
        return kind.instance_class.shape_  # type: ignore[no-any-return]
    return None


def type_of(component: Any, shape: Shape) -> Any:
    """The type of vectors or matrices of a shape, of components of one type."""
    inner = component if len(shape) == 1 else type_of(component, shape[1:])
    return types.NamedUniTuple(inner, shape[0], vectors.class_of(shape))


def component_of(kind: Any) -> Any:
    """The type of the components of a vector or matrix."""
    return component_of(kind.dtype) if isinstance(kind, types.NamedUniTuple) else kind


def meaning(value: object, args: Sequence[Any], is_number: Callable[[Any], bool]) -> Callable[..., Any] | str | None:
    """The function that an operator or a word is of vectors, what is wrong with it, or None where no operand is one."""
    shapes = [shape_of(arg) for arg in args]
    name = _METHODS.get(id(value))
    if not any(shapes) and name is None:
        return None
    if value in (intrinsics.in_place, intrinsics.in_place_unsigned):
        return "the shape of a vector that updates a row is not known before types are inferred: write qgraph.vec(v[0], v[1])"
    symbol = operation(value).symbol
    if name is None and symbol in ("", "==", "!="):
        # What compilers do of any tuple.
        return None
    if name is None and symbol not in ("+", "-", "*", "/", "@"):
        return f"`{symbol}` of a vector or matrix: write it for components"
    if not all(shape or is_number(arg) for shape, arg in zip(shapes, args, strict=True)):
        kinds = " and ".join("a vector or matrix" if shape else str(arg) for shape, arg in zip(shapes, args, strict=True))
        return f"`{name or symbol}` of {kinds}"
    try:
        return vectors.function(name or symbol, *(shape or () for shape in shapes))
    except vectors.ShapeError as error:
        return str(error)
