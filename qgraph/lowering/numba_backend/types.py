"""Types of parameters, from qgraph's records to Numba's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.np.numpy_support import from_dtype

from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.artifacts import Parameter


def numba_type(item: Parameter | ArrayType | ScalarType, float_type: str) -> Any:
    """The Numba type of a parameter, an array or a scalar in a kernel whose F is ``float_type``.

    A Python float or complex argument takes F, a Python int is an int64, NumPy scalars keep their type.
    """
    if isinstance(item, ArrayType):
        return types.Array(from_dtype(np.dtype(item.dtype)), item.ndim, item.layout, readonly=item.readonly)
    if isinstance(item, ScalarType):
        return _scalar_type(item, float_type)
    match item.kind:
        case "slots" | "faults" | "turns":
            return types.Array(types.int64, 1, "C") if item.type is None else numba_type(item.type, float_type)
        case "host" | "next":
            return types.int64
        case "handle" | "whole" | "callback" | "loop":
            return types.uint64
        case "guard" | "copy" | "peeks" | "parts" | "early":
            return types.uint32
        case "leaf":
            if item.type is None:
                raise ValueError(f"parameter {item.name!r} is a leaf without a type")
            return numba_type(item.type, float_type)


def _scalar_type(scalar: ScalarType, float_type: str) -> Any:
    dtype = np.dtype(scalar.dtype)
    if not scalar.weak or dtype.kind == "b":
        return from_dtype(dtype)
    if dtype.kind == "f":
        return getattr(types, float_type)
    if dtype.kind == "c":
        return types.complex64 if float_type == "float32" else types.complex128
    return types.int64
