"""Whether the floats of a kernel are float32 or float64."""

from __future__ import annotations

from typing import Literal

from qgraph.ir.argument_types import ArrayType, Leaf


def float_type_of(leaves: tuple[Leaf, ...]) -> Literal["float32", "float64"]:
    """F of the number rules: float32 if some array is floating or complex and none is wider than float32 or complex64."""
    kinds = {leaf.type.dtype for leaf in leaves if isinstance(leaf.type, ArrayType)}
    floating = {kind for kind in kinds if kind.startswith(("float", "complex"))}
    return "float32" if floating and floating <= {"float16", "float32", "complex64"} else "float64"
